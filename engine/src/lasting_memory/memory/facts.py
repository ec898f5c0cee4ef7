"""The lines of a memory file as facts: what each says to people, without the marks that only give a
Markdown file its form.

The source of a line is the mark that consolidation puts at its end: the conversation from which it
comes. The end of a line is the day until which it holds, after the source. A line of form says
nothing to people: a rule, a fence of code, the line below the head of a table. The front matter of a
file are lines about it at its beginning, in YAML or TOML.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lasting_memory.plain_text import compared

MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+")
# The source of a line as `prompts/consolidation.md` asks for it, and nothing else: what is not shown
# here is still shown to the model.
SOURCE = re.compile(
    r" ?\((?:\d{4}-\d\d-\d\d, )?thread [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\)$"
)
# The day until which a line holds, at its end and after its source (`memory/dated_lines.py`).
END = re.compile(r"(?<=\s)\(until ([0-9]{4}-[0-9]{2}-[0-9]{2})\)$")
_FENCE = re.compile(r"(`{3,}|~{3,})[^`]*$")
_CELL_END = re.compile(r"(?<!\\)\|")
_BELOW_HEAD = re.compile(r":?-+:?")
# A rule between two parts, and the line below a title.
_RULE = re.compile(r"(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|={2,}")
# The line below a title, of a text whose titles are underlined. Below a list it is a rule.
_UNDERLINE = re.compile(r"={2,}|-{3,}")
_IS_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
# A mark of a list, a quote, a title or a task that nothing follows.
_BARE_MARK = re.compile(r"(?:>\s*)*(?:(?:[-*+]|\d{1,9}[.)])(?:\s+\[[ xX]?\])?|#{1,6})?")
# Elements of HTML that open or close, without any words.
_TAGS = re.compile(
    r"(?:</?(?:a|b|blockquote|br|center|code|dd|details|div|dl|dt|em|hr|i|li|ol|p|pre|section|small|span|strong|sub"
    r"|summary|sup|table|tbody|td|th|thead|tr|u|ul)\s*/?>\s*)+",
    re.IGNORECASE,
)
# A line of a grid table between two rows, and the one below its head.
_GRID = re.compile(r"\+(?:[-=:]+\+)+")
# What ends the lines about a file, by what begins them; and how the first of these lines looks.
_ENDS_FRONT_MATTER = {"---": ("---", "..."), "+++": ("+++",)}
_NAMED = {
    "---": re.compile(r"[\"']?\w[\w -]*[\"']?\s*:(\s|$)"),  # YAML
    "+++": re.compile(r"\[[^\]]+\]|[\"']?\w[\w. -]*[\"']?\s*=\s"),  # TOML
}


class Line(NamedTuple):
    """A line that says something: its number in the file, from 0, and its text for people.

    `raw` is the line itself, of a table's row or in code, where a marker is none; "" for others.
    """

    number: int
    text: str
    is_heading: bool = False
    raw: str = ""


def bare_line(line: str) -> str:
    """A line without its list marker, and without the source that consolidation notes at its end,
    or before the day until which the line holds.
    """
    text = line.strip()
    if MARKER.match(text):
        text = MARKER.sub("", text, count=1)
    end = END.search(text)
    if end is None:
        return SOURCE.sub("", text)
    end_start = end.start()
    before_end = text[:end_start].rstrip()
    fact = SOURCE.sub("", before_end)
    return f"{fact} {end[0]}".strip()


def without_comments(text: str, *, line_breaks: bool = False) -> str:
    """Text without HTML comments. What begins a comment that has no end stays. In linear time.

    With `line_breaks` those in comments stay, so that each line keeps its number.
    """
    text_before, *commented_parts = text.split("<!--")
    parts = [text_before]
    for part in commented_parts:
        comment, end, text_after = part.partition("-->")
        if not end:
            parts.append(f"<!--{comment}")
            continue
        if line_breaks:
            count = comment.count("\n")
            parts.append("\n" * count)
        parts.append(text_after)
    return "".join(parts)


def is_form(line: str) -> bool:
    """Whether a line only gives a file its form.

    It opens or closes code, is a rule, stands below the head of a table, or has marks alone.
    """
    text = line.strip()
    if _RULE.fullmatch(text) or _GRID.fullmatch(text):
        return True
    if _FENCE.match(text):
        return True
    return _has_only_marks(text) or _is_below_head(text)


def _has_only_marks(text: str) -> bool:
    """Whether a line, without space around it, has nothing but marks of its form, or nothing that
    anybody sees. An empty line has neither.
    """
    if not text:
        return False
    if _BARE_MARK.fullmatch(text):
        return True
    if _TAGS.fullmatch(text):
        return True
    return not compared(text)


def content_lines(lines: Sequence[str]) -> Iterator[Line]:
    """The lines of a file that say something, in order.

    A row of a table says what its columns are called; its head is none.
    """
    reader = _Reader(lines)
    first_number = _count_front_matter(lines)
    for number in range(first_number, len(lines)):
        line = reader.line(number)
        if line is not None:
            yield line


class _Reader:
    """Reads a file's lines in order, and knows what they stand in: code, a table, or a grid table."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._fence = ""  # the signs that opened the code that is not closed yet
        self._head = list[str]()  # names of the columns of the table that has begun
        self._in_grid = False

    def line(self, number: int) -> Line | None:
        """What the next line says; None if it says nothing."""
        text = self._lines[number].strip()
        if self._opens_or_closes_code(text):
            self._leave_table()
            return None
        if self._fence:
            return Line(number, text, raw=text) if text else None
        if not text or _RULE.fullmatch(text):
            self._leave_table()
            return None
        if _has_only_marks(text):
            self._leave_table()
            return None
        if _GRID.fullmatch(text):
            self._in_grid = True
            return None
        return self._row_or_plain(number, text)

    def _opens_or_closes_code(self, text: str) -> bool:
        """Whether a line begins code, or ends the code that has begun. Notes which."""
        mark = _FENCE.match(text)
        if mark is None:
            return False
        if not self._fence:
            self._fence = mark[1]
            return True
        if not _closes(self._fence, text):
            return False
        self._fence = ""
        return True

    def _leave_table(self) -> None:
        self._head = []
        self._in_grid = False

    def _row_or_plain(self, number: int, text: str) -> Line | None:
        """A row of the table that has begun, or a plain line; None for a head and what is below it."""
        if self._in_grid and text.startswith("|"):
            return self._grid_row(number, text)
        if self._head and "|" in text:
            if _is_below_head(text):
                return None
            return self._table_row(number, text)
        self._leave_table()
        line_below = self._text_of(number + 1)
        if _is_head(text, line_below):
            self._head = _cells(text)
            return None
        if self._is_underlined(number, text):
            return Line(number, text, is_heading=True)
        return _plain(number, text)

    def _grid_row(self, number: int, text: str) -> Line | None:
        """A row of a grid table; None for its head, below which a line of "=" stands."""
        line_below = self._text_of(number + 1)
        is_head = bool(_GRID.fullmatch(line_below)) and "=" in line_below
        if is_head:
            self._head = _cells(text)
            return None
        return self._table_row(number, text)

    def _table_row(self, number: int, text: str) -> Line:
        """A row of the table that has begun."""
        cells = _cells(text)
        in_words = _row(self._head, cells)
        return Line(number, in_words, raw=text)

    def _is_underlined(self, number: int, text: str) -> bool:
        """Whether a line is a title with a line below.

        A line of hyphens is one where the title stands alone above it, and a list comes after it.
        Else it is a rule between two parts.
        """
        line_below = self._text_of(number + 1)
        if not _UNDERLINE.fullmatch(line_below):
            return False
        has_other_form = text[0] in "#>|" or bool(_IS_ITEM.match(text))
        if has_other_form:
            return False
        if line_below[0] == "=":
            return True
        text_before = self._text_of(number - 1)
        text_after = self._next_text(number + 2)
        list_follows = bool(_IS_ITEM.match(text_after))
        return list_follows and not text_before

    def _text_of(self, number: int) -> str:
        """A line without space around it; "" for a number that no line has."""
        if 0 <= number < len(self._lines):
            return self._lines[number].strip()
        return ""

    def _next_text(self, number: int) -> str:
        """The first line with text from a line on; "" if there is none."""
        for later_number in range(
            number, len(self._lines)
        ):  # a slice would copy the rest of the file
            text = self._lines[later_number].strip()
            if text:
                return text
        return ""


def _count_front_matter(lines: Sequence[str]) -> int:
    """How many lines at the beginning of a file are front matter."""
    if len(lines) < 2:  # noqa: PLR2004  # a rule is none
        return 0
    opening = lines[0].rstrip()
    if opening not in _ENDS_FRONT_MATTER:
        return 0
    endings = _ENDS_FRONT_MATTER[opening]
    first_field = _NAMED[opening].match(lines[1])
    if first_field is None:
        return 0
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in endings:
            return number + 1
    return 0


def _closes(fence: str, text: str) -> bool:
    """Whether a line ends the code that these signs opened: it has as many of them, and nothing
    else.
    """
    if not text.startswith(fence):
        return False
    sign = fence[0]
    return not text.strip(sign)


def _plain(number: int, text: str) -> Line:
    """A line that is no row of a table: a title, or a fact."""
    heading = text.lstrip("#").strip()
    if text.startswith("#") and heading:
        return Line(number, heading, is_heading=True)
    return Line(number, bare_line(text))


def _is_head(text: str, line_below: str) -> bool:
    """Whether a line is the head of a table, by the line below it."""
    if "|" not in text:
        return False
    if not _is_below_head(line_below):
        return False
    count = len(_cells(text))
    return count == len(_cells(line_below))


def _is_below_head(text: str) -> bool:
    """Whether a line may stand below the head of a table: cells of hyphens, such as `|---|:-:|`."""
    cells = _cells(text)
    if "|" not in text or not cells:
        return False
    return all(map(_BELOW_HEAD.fullmatch, cells))


def _cells(row: str) -> list[str]:
    """The cells of a table's row, without bars at its beginning and its end."""
    cells = _CELL_END.split(row)
    is_first_empty = not cells[0].strip()
    if is_first_empty:
        cells = cells[1:]
    is_last_empty = bool(cells) and not cells[-1].strip()
    if is_last_empty:
        cells = cells[:-1]
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _row(head: Sequence[str], cells: Sequence[str]) -> str:
    """A row of a table in words: "plant: leek, when: March"."""
    named_cells = list[str]()
    for number, cell in enumerate(cells):
        if not cell:
            continue
        name = head[number] if number < len(head) else ""
        named_cell = f"{name}: {cell}" if name else cell
        named_cells.append(named_cell)
    return ", ".join(named_cells)
