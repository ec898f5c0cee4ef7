"""How consolidation says which lines are no longer true, and the tool calls that it is refused."""

from __future__ import annotations

import posixpath
from typing import Any, Literal

from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.types import Command

from memory import scopes
from memory.validation import RefusedWriteError, check_path
from settings import MAX_CHANGES_OF_A_FILE

# deepagents' tool for subagents.
DELEGATE = "task"
_WRITES = {"write_file", "edit_file", "append_memory", "delete"}


def forget_lines_tool() -> BaseTool:
    """`forget_lines`, whose calls are noted in the state's `given_up`."""

    @tool
    async def forget_lines(
        path: str, lines: list[str], reason: Literal["outdated", "contradicted"], runtime: ToolRuntime[scopes.Context, Any]
    ) -> Command[Any]:
        """Say which lines of a memory file are no longer true, before you remove or replace them. This changes no file itself.

        Args:
            path: the file, e.g. /memories/topics/cooking.md.
            lines: each line as it stands there.
            reason: outdated, where time has passed over them; contradicted, where something newer says otherwise.
            runtime: given by the platform.
        """
        if error := _not_memory(path):
            return Command(update={"messages": [ToolMessage(error, tool_call_id=runtime.tool_call_id)]})
        given = {"path": path, "lines": lines, "reason": reason}
        message = ToolMessage(f"Noted {len(lines)} lines; now change {path}.", tool_call_id=runtime.tool_call_id)
        return Command(update={"messages": [message], "given_up": [given]})

    return forget_lines


def _not_memory(path: str) -> str | None:
    try:
        check_path(path)
    except RefusedWriteError as error:
        return f"Error: {error}"
    return None if path.startswith("/memories/") else f"Error: '{path}' is not memory; use a path under /memories/."


def refusal(call: ToolCall, state: Any) -> str | None:
    """Why a tool call is not carried out, whatever it says."""
    if call["name"] == DELEGATE:
        return "Error: consolidation is not delegated; do it yourself."
    if call["name"] not in _WRITES:
        return None
    path, written = _path(call), 0
    for message in state["messages"]:
        for other in message.tool_calls if isinstance(message, AIMessage) else ():
            if other["id"] == call["id"]:
                break
            written += other["name"] in _WRITES and _path(other) == path
    if written < MAX_CHANGES_OF_A_FILE:
        return None
    return f"Error: {path} was changed {written} times already; it is changed no more now."


def _path(call: ToolCall) -> str:
    """The file that a call would write, in the one spelling that deepagents makes of all."""
    path = str(call["args"].get("file_path") or call["args"].get("path") or "").replace("\\", "/")
    return posixpath.normpath(f"/{path.lstrip('/')}")
