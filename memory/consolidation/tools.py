"""The tool `forget_lines`."""

from __future__ import annotations

from typing import Any, Literal

from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.types import Command

from memory import identity
from memory.validation import RefusedWriteError, check_path


def forget_lines_tool() -> BaseTool:
    """`forget_lines`, which adds its calls to the state's `given_up`."""

    @tool
    async def forget_lines(
        path: str, lines: list[str], reason: Literal["outdated", "contradicted"], runtime: ToolRuntime[identity.Context, Any]
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
