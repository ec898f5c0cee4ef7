"""The entries of Markdown and plain text: a line each.

A *heading* stands above entries and becomes their title. A *parent* is an item of a list that ends
with a colon: the text of the items below it begins with its own. *Framing* is what an assistant says
around a code block that has the facts.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from lasting_memory.consolidation.brought.characters import TITLE_CHARS, one_line
from lasting_memory.consolidation.brought.entries import Brought, Entry

_FENCE = re.compile(r"[\s>*+-]{0,40}(?:`{3}|~{3})")
# Some bullets need no space behind them; a number with a point does, where a digit follows.
_BULLET = re.compile(
    r"[-*+\u2023\u25cf\u25cb\u25aa\u00b7\u2013\u2014]\s+|[\u30fb\u2022]\s*|\d{1,4}[.)\u3001\uff0e](?:\s+|(?!\d))"
)
_CHECKBOX = re.compile(r"\[[ xX\u2713]\]\s+")
# A date in brackets and what it is about; a date in ISO format before it.
_DATED = re.compile(
    r"[\[\u3010]([^\[\]\u3010\u3011]{1,40})[\]\u3011]\.?\s*(?:[-:\u2013\u2014\uff1a\uff0d]\s*)?(.+)"
)
_ISO_DATED = re.compile(r"((?:19|20)\d\d-\d\d(?:-\d\d)?)\s*[-:\u2013\u2014\uff1a]\s+(.+)")
_NO_DATE = frozenset(
    {
        "unknown",
        "date unknown",
        "unknown date",
        "no date",
        "undated",
        "n/a",
        "unbekannt",
        "datum unbekannt",
    }
)
_DATE_DIGITS = 4  # a year
_DATE_CHARS = 30
_HEADING = re.compile(r"#{1,6}\s+(.*)")
_BOLD = re.compile(r"(\*\*|__)(?=\S)([^*_\n]{1,300})(?<=\S)\1")
_BOLD_LINE = re.compile(r"(?:\*\*|__)([^*_]{1,200})(?:\*\*|__):?")
# ":" and its form in Chinese and Japanese.
_COLONS = (":", "\uff1a")


class _Line(NamedTuple):
    """The entry of a line, and where the line stands: in a code block, as an item of a list."""

    entry: Entry
    is_in_block: bool
    is_item: bool

    @property
    def may_be_framing(self) -> bool:
        """Whether an assistant may say this around the facts."""
        if self.is_in_block:
            return False
        return not self.is_item


class _ParsedLine(NamedTuple):
    """The parts of a line."""

    text: str  # without all that follows, and without markup
    date: str  # "" for none
    bare_text: str  # the line without its indent alone
    indent: int  # in columns
    has_bullet: bool


def entries_of_text(
    text: str, title: str = "", brought_entries: Brought | None = None
) -> Iterator[Entry]:
    """The entries of a text. `title` is that of lines without a heading.

    Where more lines are in code blocks than may be framing, the framing is left out, and noted in
    `brought_entries`.
    """
    lines = list(_lines_of(text, title))
    number_in_blocks = 0
    number_maybe_framing = 0
    for line in lines:
        number_in_blocks += line.is_in_block
        number_maybe_framing += line.may_be_framing
    has_framing = number_in_blocks > number_maybe_framing
    for line in lines:
        if not has_framing or not line.may_be_framing:
            yield line.entry
        elif brought_entries is not None:
            brought_entries.framing.append(line.entry.text)


def _lines_of(text: str, title: str) -> Iterator[_Line]:
    """The lines of a text that say something, each with the heading and the parent above it."""
    is_in_block = False
    parent = ""
    parent_indent = 0
    for raw_line in text.split("\n"):
        if _FENCE.match(raw_line):
            is_in_block = not is_in_block
            continue
        line = _parsed(raw_line)
        if not any(map(_says_something, line.text)):
            continue
        is_item = line.has_bullet or bool(line.date)
        heading = None if is_item else _heading_of(line.bare_text)
        if heading is not None:
            title = heading[:TITLE_CHARS]
            parent = ""
            continue
        is_parent = line.has_bullet and line.text.endswith(_COLONS)
        if is_parent:
            parent = line.text[:TITLE_CHARS]
            parent_indent = line.indent
            continue
        is_below_parent = line.has_bullet and line.indent > parent_indent
        if not is_below_parent:
            parent = ""
        text_with_parent = f"{parent} {line.text}"
        entry = Entry(text_with_parent.strip(), line.date, title)
        yield _Line(entry, is_in_block, is_item)


def _parsed(raw_line: str) -> _ParsedLine:
    """A line of Markdown, divided into its parts."""
    line_with_spaces = raw_line.expandtabs(4)
    text_without_indent = line_with_spaces.lstrip()
    indent = len(line_with_spaces) - len(text_without_indent)
    bare_text = line_with_spaces.strip().lstrip("> ")
    content = bare_text
    bullet = _BULLET.match(bare_text)
    if bullet:
        content = bare_text[bullet.end() :]
    content = _CHECKBOX.sub("", content, count=1)
    date, text_without_date = _dated(content)
    text_without_bold = _BOLD.sub(r"\2", text_without_date)
    text = one_line(text_without_bold)
    return _ParsedLine(text, date, bare_text, indent, has_bullet=bool(bullet))


def _heading_of(line: str) -> str | None:
    """The text of a line that is a heading, or that ends with a colon; None for any other line."""
    heading_match = _HEADING.match(line)
    if heading_match is None:
        heading_match = _BOLD_LINE.fullmatch(line)
    if heading_match:
        heading = heading_match[1].strip("#*: ")
        return one_line(heading)
    if line.endswith(_COLONS):
        return one_line(line[:-1])
    return None


def _dated(line: str) -> tuple[str, str]:
    """The date that stands before a line, "" for none, and the line without it."""
    line = line.strip()
    bracketed_match = _DATED.fullmatch(line)
    if bracketed_match:
        text = bracketed_match[2]
        date = one_line(bracketed_match[1])
        if date.casefold() in _NO_DATE:
            return "", text
        digits = sum(map(str.isdigit, date))
        has_year = digits >= _DATE_DIGITS
        if has_year and len(date) <= _DATE_CHARS:
            return date, text
    iso_match = _ISO_DATED.fullmatch(line)
    if iso_match:
        return iso_match[1], iso_match[2]
    return "", line


def _says_something(char: str) -> bool:
    """Whether a character is a letter, a digit or a symbol that stands for a word."""
    if char.isalnum():
        return True
    return unicodedata.category(char) == "So"  # such as emoji
