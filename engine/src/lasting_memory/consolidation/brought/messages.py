"""The messages of conversations, as JSON has them: their texts and dates."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from lasting_memory.consolidation.brought.characters import one_line, with_newlines
from lasting_memory.consolidation.brought.entries import Entry

# Names of fields of a date.
DATES = (
    "date",
    "created_at",
    "createdAt",
    "create_time",
    "created",
    "updated_at",
    "updatedAt",
    "timestamp",
    "time",
)
# Characters of a message up to which its lines are put together.
_MESSAGE_CHARS = 4_000
# A time in seconds would be thousands of years away: it is in milliseconds.
_MAX_SECONDS = 1e11


def entries_of_message(text: str, date: str, title: str) -> Iterator[Entry]:
    """A message of the person's; a long one in several entries, which end where its lines do."""
    lines = list[str]()
    size = 0
    for raw_line in with_newlines(text).split("\n"):
        line = one_line(raw_line)
        if not line:
            continue
        if lines and size + len(line) > _MESSAGE_CHARS:
            yield Entry(" ".join(lines), date, title, is_message=True)
            lines = []
            size = 0
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield Entry(" ".join(lines), date, title, is_message=True)


def text_of(content: Any) -> str:
    """The text of a message: a text, or a list of blocks, of which those with text count."""
    if isinstance(content, Mapping):
        content = content.get("parts", content.get("text"))
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = list[str]()
    for block in content:
        text = block
        if isinstance(block, Mapping) and block.get("type", "text") == "text":
            text = block.get("text")
        if isinstance(text, str):
            texts.append(text)
    return "\n".join(texts)


def date_of(value: Mapping[str, Any]) -> str:
    """The day that an object names, in ISO format; "" for none."""
    for name in DATES:
        day = _day_of(value.get(name))
        if day:
            return day
    return ""


def _day_of(at: object) -> str:
    """The day of a time in ISO format, in seconds or in milliseconds; "" for anything else."""
    try:
        if isinstance(at, str) and at:
            day = datetime.fromisoformat(at[:10])
        elif isinstance(at, int | float) and not isinstance(at, bool):
            seconds = at / 1000 if at > _MAX_SECONDS else at
            day = datetime.fromtimestamp(seconds, UTC)
        else:
            return ""
    except (ValueError, OverflowError, OSError):
        return ""
    return day.date().isoformat()
