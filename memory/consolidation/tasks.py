"""What the model is given: its task, the conversations with the files about the same topics, and two tools."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, tool
from langgraph.store.base import Item

from memory.blocks import file_text, sections
from memory.consolidation.drafts import Drafts
from memory.consolidation.due import Due, transcript
from memory.consolidation.facts import Key
from memory.consolidation.taken_back import Said, TakenBack, shown_lines
from memory.controls import SHORTEN_ABOVE_BYTES, usage_of
from memory.identity import Context
from memory.recall import rank
from memory.validation import RefusedWriteError, check_path
from settings import MEMORY_BUDGET_BYTES, PROJECT, TOPIC_FILES_SHOWN

TOOL = "search_recent_conversations"
NOTHING_NEW = "Nothing is new since the last consolidation."
TASK = (PROJECT / "prompts" / "consolidation_task.md").read_text("utf-8")
SHORTEN = (PROJECT / "prompts" / "consolidation_shorten.md").read_text("utf-8")
RETRY = (PROJECT / "prompts" / "consolidation_retry.md").read_text("utf-8")
# Topics to shorten at once.
TOPICS_SHORTENED = 5


def task(conversations: int, files: Mapping[str, Item], reason: str) -> str:
    """The first message: how many conversations there are, and after a refusal its reason. Blocks."""
    text = TASK.replace("{count}", str(conversations)) + shorten(files)
    return f"{text}\n{RETRY.replace('{reason}', reason)}" if reason else text


def shorten(files: Mapping[str, Item]) -> str:
    """The request to shorten memory that is over its budget, or "". Blocks."""
    size = usage_of([*files.values()])["bytes"]
    if size <= SHORTEN_ABOVE_BYTES:
        return ""
    oldest = sorted(_topics(files), key=lambda item: str(item.value.get("modified_at", "")))[:TOPICS_SHORTENED]
    named = ", ".join(f"/memories{item.key}" for item in oldest)
    text = SHORTEN.replace("{bytes}", f"{size:,}").replace("{budget}", f"{SHORTEN_ABOVE_BYTES:,}")
    return f"\n{text.replace('{topics}', named)}"


def shown_text(shown: Sequence[Due], files: Mapping[str, Item], taken: Mapping[Key, TakenBack], said: Sequence[Said]) -> str:
    """The conversations, the topic files with the most words in common, and what the person took back. Blocks."""
    talk, text = _with_files(shown, files), shown_lines(taken, said)
    return f"{talk}\n\n# Taken back\n\n{text}" if taken else talk


def _with_files(shown: Sequence[Due], files: Mapping[str, Item]) -> str:
    said = "\n\n".join(map(transcript, shown))
    texts = [(f"/memories{item.key}", file_text(f"/memories{item.key}", item)) for item in _topics(files)]
    best = rank(said, [f"{path} {text}" for path, text in texts])[:TOPIC_FILES_SHOWN]
    known = [texts[i] for i, _ in best]
    return f"{said}\n\n# Files about the same\n\n{sections(known, MEMORY_BUDGET_BYTES)[0]}" if known else said


def _topics(files: Mapping[str, Item]) -> list[Item]:
    return [item for key, item in files.items() if key.startswith("/topics/") and key != "/topics/index.md"]


def consolidation_tools(drafts: Drafts) -> list[BaseTool]:
    """The tools, which read and note in the draft of the batch that the run's state names."""

    @tool(TOOL)
    async def search_recent_conversations(runtime: ToolRuntime[Context, Any]) -> str:
        """Read again what this person's conversations have had that is new since the last consolidation, oldest first."""
        return drafts.current().text if runtime.state.get("consolidating") else NOTHING_NEW

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
        if runtime.state.get("consolidating"):
            drafts.current().given_up[path] += lines
        return f"Noted {len(lines)} lines; now change {path}."

    return [search_recent_conversations, forget_lines]
