"""The messages of conversations, as the JSON of other systems has them: their texts and dates."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from lasting_memory.consolidation.brought.characters import one_line, with_newlines
from lasting_memory.consolidation.brought.entries import Entry

# Names of fields that hold a date, the one that counts most first.
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
# Characters of an entry, up to which the lines of a message are put together.
_MESSAGE_CHARS = 4_000
# A time in seconds would be thousands of years away: it is in milliseconds.
_MAX_SECONDS = 1e11


def entries_of_message(text: str, date: str, title: str) -> Iterator[Entry]:
    """The entry of a message of the person's; of a long one several, which end where its lines do."""
    for part in _parts_of(text):
        yield Entry(part, date, title, is_message=True)


def _parts_of(text: str) -> Iterator[str]:
    """The lines of a text, put together to texts of one line. None for an empty text."""
    lines = list[str]()
    size = 0
    for raw_line in with_newlines(text).split("\n"):
        line = one_line(raw_line)
        if not line:
            continue
        is_full = size + len(line) > _MESSAGE_CHARS
        if lines and is_full:
            yield " ".join(lines)
            lines = []
            size = 0
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield " ".join(lines)


def text_of(content: object) -> str:
    """The text of a message with this content: a text, a list of blocks, of which those with text
    count, or an object with either. "" for any other content.
    """
    if isinstance(content, Mapping):
        content = content.get("parts", content.get("text"))
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = list[str]()
    for block in content:
        text = _text_of_block(block)
        if isinstance(text, str):
            texts.append(text)
    return "\n".join(texts)


def _text_of_block(block: object) -> object:
    """What may be the text of a block, which is a text itself or an object with one."""
    if not isinstance(block, Mapping):
        return block
    kind = block.get("type", "text")
    return block.get("text") if kind == "text" else None


def date_of(value: Mapping[str, object]) -> str:
    """The day that an object names, in ISO format; "" for none."""
    for name in DATES:
        day = _day_of(value.get(name))
        if day:
            return day
    return ""


def _day_of(stamp: object) -> str:
    """The day of a time in ISO format, in seconds or in milliseconds; "" for anything else."""
    if isinstance(stamp, bool):  # for Python, a number
        return ""
    try:
        if isinstance(stamp, str):
            time = datetime.fromisoformat(stamp[:10])
        elif isinstance(stamp, int | float):
            seconds = stamp / 1000 if stamp > _MAX_SECONDS else stamp
            time = datetime.fromtimestamp(seconds, UTC)
        else:
            return ""
    except (ValueError, OverflowError, OSError):
        return ""
    return time.date().isoformat()
