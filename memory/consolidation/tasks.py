"""The texts with which the model begins a batch: its task, and the conversations with the files about the same topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from langgraph.store.base import Item

from memory.blocks import file_text, within_budget
from memory.consolidation.due import Due, transcript
from memory.controls import SHORTEN_ABOVE_BYTES, usage_of
from memory.recall import rank
from settings import MEMORY_BUDGET_BYTES, PROJECT, TOPIC_FILES_SHOWN

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
    usage = usage_of([*files.values()])
    if usage.bytes <= SHORTEN_ABOVE_BYTES:
        return ""
    oldest = sorted(_topics(files), key=lambda item: str(item.value.get("modified_at", "")))[:TOPICS_SHORTENED]
    named = ", ".join(f"/memories{item.key}" for item in oldest)
    text = SHORTEN.replace("{bytes}", f"{usage.bytes:,}").replace("{budget}", f"{SHORTEN_ABOVE_BYTES:,}")
    return f"\n{text.replace('{topics}', named)}"


def shown_text(shown: Sequence[Due], files: Mapping[str, Item]) -> str:
    """The conversations, and the topic files with the most words in common. Blocks."""
    said = "\n\n".join(map(transcript, shown))
    texts = [(f"/memories{item.key}", file_text(f"/memories{item.key}", item)) for item in _topics(files)]
    best = rank(said, [f"{path} {text}" for path, text in texts])[:TOPIC_FILES_SHOWN]
    known = [texts[i] for i, _ in best]
    return f"{said}\n\n# Files about the same\n\n{within_budget(known, MEMORY_BUDGET_BYTES)}" if known else said


def _topics(files: Mapping[str, Item]) -> list[Item]:
    return [item for key, item in files.items() if key.startswith("/topics/") and key != "/topics/index.md"]
