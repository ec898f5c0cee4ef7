"""What the model is given: its task, the conversations with the files about the same topics, and two tools."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, tool
from langgraph.store.base import Item

from memory.blocks import file_text, sections
from memory.consolidation.drafts import Draft, Drafts
from memory.consolidation.due import Due
from memory.consolidation.taken_back import Dated, shown_lines
from memory.controls import SHORTEN_ABOVE_BYTES, usage_of
from memory.identity import Context
from memory.recall import rank
from settings import MEMORY_BUDGET_BYTES, PROJECT, TOPIC_FILES_SHOWN

TOOL = "search_recent_conversations"
NOTHING_NEW = "Nothing is new since the last consolidation."
TASK, SHORTEN, RETRY = (
    (PROJECT / "prompts" / f"consolidation_{name}.md").read_text("utf-8") for name in ("task", "shorten", "retry")
)
# Topics to shorten at once.
TOPICS_SHORTENED = 5


def task(draft: Draft) -> str:
    """The first message: how many conversations there are, and after a refusal its reason. Blocks."""
    text = TASK.replace("{count}", str(len(draft.shown))) + shorten(draft.base)
    return f"{text}\n{RETRY.replace('{reason}', draft.refused)}" if draft.refused else text


def shorten(files: Mapping[str, Item]) -> str:
    """The request to shorten memory that is over its budget, or "". Blocks."""
    size = usage_of([*files.values()])["bytes"]
    if size <= SHORTEN_ABOVE_BYTES:
        return ""
    oldest = sorted(_topics(files), key=lambda item: str(item.value.get("modified_at", "")))[:TOPICS_SHORTENED]
    named = ", ".join(f"/memories{item.key}" for item in oldest)
    text = SHORTEN.replace("{bytes}", f"{size:,}").replace("{budget}", f"{SHORTEN_ABOVE_BYTES:,}")
    return f"\n{text.replace('{topics}', named)}"


def shown_text(shown: Sequence[Due], files: Mapping[str, Item], taken: Sequence[Dated], said: Sequence[Dated]) -> str:
    """The conversations, the topic files with the most words in common, and what the person took back. Blocks."""
    text = talk = "\n\n".join(item.transcript() for item in shown)
    texts = [(f"/memories{item.key}", file_text(f"/memories{item.key}", item)) for item in _topics(files)]
    best = rank(talk, [f"{path} {content}" for path, content in texts])[:TOPIC_FILES_SHOWN]
    if best:
        text += f"\n\n# Files about the same\n\n{sections([texts[i] for i, _ in best], MEMORY_BUDGET_BYTES)[0]}"
    return f"{text}\n\n# Taken back\n\n{shown_lines(taken, said)}" if taken else text


def _topics(files: Mapping[str, Item]) -> list[Item]:
    return [item for key, item in files.items() if key.startswith("/topics/") and key != "/topics/index.md"]


def consolidation_tools(drafts: Drafts) -> list[BaseTool]:
    """The tools, which read and note in the current run's draft."""

    @tool(TOOL)
    async def search_recent_conversations() -> str:
        """Read again what this person's conversations have had that is new since the last consolidation, oldest first."""
        draft = drafts.current()
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
        if not path.startswith("/memories/") or ".." in path:
            return f"Error: '{path}' is not memory; use a path under /memories/."
        if draft := drafts.current():
            draft.given_up[path] += lines
        return f"Noted {len(lines)} lines; now change {path}."

    return [search_recent_conversations, forget_lines]
