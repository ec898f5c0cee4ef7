"""The tools of a consolidation: `search_recent_conversations` and `forget_lines`."""

from __future__ import annotations

from typing import Any, Literal

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, tool

from memory.consolidation.drafts import Drafts
from memory.identity import Context
from memory.validation import RefusedWriteError, check_path

TOOL = "search_recent_conversations"
NOTHING_NEW = "Nothing is new since the last consolidation."


def consolidation_tools(drafts: Drafts) -> list[BaseTool]:
    """The tools, which read and note in the draft of the batch that the run's state names."""

    @tool(TOOL)
    async def search_recent_conversations(runtime: ToolRuntime[Context, Any]) -> str:
        """Read again what this person's conversations have had that is new since the last consolidation, oldest first."""
        draft = drafts.current(runtime.state.get("batch"))
        return draft.text if draft else NOTHING_NEW

    @tool
    async def forget_lines(
        path: str, lines: list[str], reason: Literal["outdated", "contradicted"], runtime: ToolRuntime[Context, Any]
    ) -> str:
        """Say which lines of a memory file are no longer true, before you remove or replace them. This changes no file itself.

        Args:
            path: the file, e.g. /memories/topics/cooking.md.
            lines: each line as it stands there.
            reason: outdated, where time has passed over them; contradicted, where something newer says otherwise.
            runtime: given by the platform.
        """
        try:
            check_path(path)
        except RefusedWriteError as error:
            return f"Error: {error}"
        if not path.startswith("/memories/"):
            return f"Error: '{path}' is not memory; use a path under /memories/."
        if draft := drafts.current(runtime.state.get("batch")):
            draft.given_up[path] += lines
        return f"Noted {len(lines)} lines; now change {path}."

    return [search_recent_conversations, forget_lines]
