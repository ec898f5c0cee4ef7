"""The lines of a memory file as facts: what each says to people, without the marks that only give a
Markdown file its form.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lasting_memory.plain_text import compared

MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+")
# What `prompts/consolidation.md` asks for, and nothing else: what is not shown here is still shown
# to the model.
SOURCE = re.compile(
    r" ?\((?:\d{4}-\d\d-\d\d, )?thread [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\)$"
)
# The day until which a line holds, at its end and after its source (`memory/ends.py`).
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
    """A line that says something: its number in the file, its text for people, and what it is."""

    number: int
    text: str
    is_heading: bool = False
    raw: str = ""  # the line itself, of a table's row or in code, where a marker is none


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
    before_end = text[: end.start()].rstrip()
    fact = SOURCE.sub("", before_end)
    return f"{fact} {end[0]}".strip()


def without_comments(text: str, *, line_breaks: bool = False) -> str:
    """Text without HTML comments. In linear time.

    With `line_breaks` those in comments stay, so that each line keeps its number.
    """
    before, *commented = text.split("<!--")
    parts = [before]
    for part in commented:
        comment, end, after = part.partition("-->")
        if not end:
            parts.append(f"<!--{comment}")
            continue
        if line_breaks:
            parts.append("\n" * comment.count("\n"))
        parts.append(after)
    return "".join(parts)


def is_form(line: str) -> bool:
    """Whether a line only gives a file its form.

    It opens or closes code, is a rule, stands below the head of a table, or has marks alone.
    """
    text = line.strip()
    is_rule = _RULE.fullmatch(text) or _GRID.fullmatch(text)
    if is_rule or _FENCE.match(text):
        return True
    return _has_only_marks(text) or _is_below_head(text)


def _has_only_marks(text: str) -> bool:
    """Whether a line, without space around it, has nothing but marks of its form, or nothing that
    anybody sees. An empty line has neither.
    """
    if not text:
        return False
    if _BARE_MARK.fullmatch(text) or _TAGS.fullmatch(text):
        return True
    return not compared(text)


def content_lines(lines: Sequence[str]) -> Iterator[Line]:
    """The lines of a file that say something, in order.

    A row of a table says what its columns are called; its head is none.
    """
    reader = _Reader(lines)
    for number in range(_front_matter_lines(lines), len(lines)):
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
        if not text or _RULE.fullmatch(text) or _has_only_marks(text):
            self._leave_table()
            return None
        if _GRID.fullmatch(text):
            self._in_grid = True
            return None
        return self._row_or_plain(number, text)

    def _row_or_plain(self, number: int, text: str) -> Line | None:
        """A row of the table that has begun, or a plain line; None for a head and what is below it."""
        if self._in_grid and text.startswith("|"):
            return self._grid_row(number, text)
        if self._head and "|" in text:
            return None if _is_below_head(text) else self._table_row(number, text)
        self._leave_table()
        if _is_head(text, self._below(number)):
            self._head = _cells(text)
            return None
        if self._is_underlined(number, text):
            return Line(number, text, is_heading=True)
        return _plain(number, text)

    def _is_underlined(self, number: int, text: str) -> bool:
        """Whether a line is a title with a line below.

        A line of hyphens is one where the title stands alone above it, and a list comes after it.
        Else it is a rule between two parts.
        """
        below = self._below(number)
        if not _UNDERLINE.fullmatch(below):
            return False
        if _IS_ITEM.match(text) or text[0] in "#>|":
            return False
        if below[0] == "=":
            return True
        before = self._lines[number - 1].strip() if number else ""
        after = self._next_text(number + 2)
        return not before and bool(_IS_ITEM.match(after))

    def _next_text(self, number: int) -> str:
        """The first line with text from a line on; "" if there is none."""
        for later in range(number, len(self._lines)):
            text = self._lines[later].strip()
            if text:
                return text
        return ""

    def _opens_or_closes_code(self, text: str) -> bool:
        mark = _FENCE.match(text)
        if not mark or (self._fence and not _ends(self._fence, text)):
            return False
        self._fence = "" if self._fence else mark[1]
        return True

    def _grid_row(self, number: int, text: str) -> Line | None:
        """A row of a grid table; None for its head, below which a line of "=" stands."""
        below = self._below(number)
        if _GRID.fullmatch(below) and "=" in below:
            self._head = _cells(text)
            return None
        return self._table_row(number, text)

    def _table_row(self, number: int, text: str) -> Line:
        in_words = _row(self._head, _cells(text))
        return Line(number, in_words, raw=text)

    def _below(self, number: int) -> str:
        below = number + 1
        return self._lines[below].strip() if below < len(self._lines) else ""

    def _leave_table(self) -> None:
        self._head = []
        self._in_grid = False


def _front_matter_lines(lines: Sequence[str]) -> int:
    """How many lines at the beginning of a file are about it, and not of it."""
    if len(lines) < 2:  # noqa: PLR2004  # a rule is none
        return 0
    rule = lines[0].rstrip()
    if rule not in _ENDS_FRONT_MATTER or not _NAMED[rule].match(lines[1]):
        return 0
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in _ENDS_FRONT_MATTER[rule]:
            return number + 1
    return 0


def _ends(fence: str, text: str) -> bool:
    return text.startswith(fence) and not text.strip(fence[0])


def _plain(number: int, text: str) -> Line:
    heading = text.lstrip("#").strip()
    if text.startswith("#") and heading:
        return Line(number, heading, is_heading=True)
    return Line(number, bare_line(text))


def _is_head(text: str, below: str) -> bool:
    if "|" not in text or not _is_below_head(below):
        return False
    return len(_cells(text)) == len(_cells(below))


def _is_below_head(text: str) -> bool:
    cells = _cells(text)
    if "|" not in text or not cells:
        return False
    return all(map(_BELOW_HEAD.fullmatch, cells))


def _cells(row: str) -> list[str]:
    cells = _CELL_END.split(row)
    if not cells[0].strip():
        cells = cells[1:]
    if cells and not cells[-1].strip():
        cells = cells[:-1]
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _row(head: Sequence[str], cells: Sequence[str]) -> str:
    """A row of a table in words: "plant: leek, when: March"."""
    said_of = list[str]()
    for number, cell in enumerate(cells):
        name = head[number] if number < len(head) else ""
        if cell:
            said_of.append(f"{name}: {cell}" if name else cell)
    return ", ".join(said_of)
