"""Lines of memory that end with a day, `(until 2026-12-31)`, after their source where they name one.

The key of such a line stands for its words and its day. Whether its day counts, and whether it has
passed, says `ends.py`.
"""

import hashlib
from datetime import date
from typing import NamedTuple

from lasting_memory.memory.facts import END, SOURCE, content_lines, without_comments
from lasting_memory.plain_text import compared

# Lines of one file whose end counts, the first ones: the time of each is kept with each revision.
MAX_ENDS = 1_000
# Characters of a key.
_KEY_CHARS = 16
_OPENING = "(until "


class DatedLine(NamedTuple):
    """A line with an end, whether that counts or not.

    `number` is its place in the file, from 0. `key` names the line by its words and its day,
    wherever it stands. `fact` is what it says, without source and end.
    """

    number: int
    key: str
    day: date
    fact: str


def end_of(line: str) -> date | None:
    """The day with which a line ends; None for a line without one, and for no day of the calendar."""
    match = END.search(line.rstrip())
    if match is None:
        return None
    try:
        return date.fromisoformat(match[1])
    except ValueError:
        return None


def without_end(line: str) -> str:
    """A line without the day with which it ends; the same line where it has none."""
    text = line.rstrip()
    if end_of(text) is None:
        return line
    return END.sub("", text).rstrip()


def may_have_ends(text: str) -> bool:
    """Whether a line of a text may have an end: a look that does not block."""
    return _OPENING in text


def dated_lines(text: str) -> list[DatedLine]:
    """The lines of a text that end with a day, at most `MAX_ENDS`. Blocks.

    Titles, rows of tables, code and comments are none, nor is a day without words before it.
    """
    if not may_have_ends(text):
        return []
    lines_with_end = list[DatedLine]()
    lines = without_comments(text, line_breaks=True).split("\n")
    for line in content_lines(lines):
        if line.is_heading or line.raw:
            continue
        day = end_of(line.text)
        if day is None:
            continue
        text_before_end = without_end(line.text)
        fact = SOURCE.sub("", text_before_end).strip()
        if not fact:
            continue
        dated_line = DatedLine(
            number=line.number,
            key=_key(fact, day),
            day=day,
            fact=fact,
        )
        lines_with_end.append(dated_line)
        if len(lines_with_end) == MAX_ENDS:
            break
    return lines_with_end


def _key(fact: str, day: date) -> str:
    """The key of a line, by what it says and the day with which it ends."""
    words = compared(fact)
    text = f"{day.isoformat()} {words}"
    digest = hashlib.sha256(text.encode(errors="replace"))
    return digest.hexdigest()[:_KEY_CHARS]
