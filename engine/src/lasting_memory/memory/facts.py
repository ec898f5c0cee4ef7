"""The lines of a memory file as facts: what each says to people, without the marks that only give a
Markdown file its form.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+")
# What `prompts/consolidation.md` asks for, and nothing else: what is not shown here is still shown
# to the model.
SOURCE = re.compile(
    r" ?\((?:\d{4}-\d\d-\d\d, )?thread [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\)$"
)
_FENCE = re.compile(r"(`{3,}|~{3,})[^`]*$")
_CELL_END = re.compile(r"(?<!\\)\|")
_BELOW_HEAD = re.compile(r":?-+:?")
# A rule between two parts, and the line below a title.
_RULE = re.compile(r"(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|={2,}")
_FRONT_MATTER = "---"
_ENDS_FRONT_MATTER = ("---", "...")
_NAMED = re.compile(r"[\"']?\w[\w -]*[\"']?\s*:(\s|$)")


class Line(NamedTuple):
    """A line that says something: its number in the file, its text for people, and what it is."""

    number: int
    text: str
    is_heading: bool = False
    raw: str = ""  # the line itself, of a table's row or in code, where a marker is none


def said(line: str) -> str:
    """A line without its list marker, and without the source that consolidation notes at its end."""
    text = line.strip()
    text = MARKER.sub("", text, count=1) if MARKER.match(text) else text
    return SOURCE.sub("", text)


def is_form(line: str) -> bool:
    """Whether a line only gives a file its form: it opens or closes code, is a rule, or stands
    below the head of a table.
    """
    text = line.strip()
    return bool(_FENCE.match(text) or _RULE.fullmatch(text)) or _is_below_head(text)


def lines_said(lines: Sequence[str]) -> Iterator[Line]:
    """The lines of a file that say something, in order. A row of a table says what its columns are
    called; its head is none.
    """
    fence = ""  # the signs that opened the code that is not closed yet
    head = list[str]()  # names of the columns of the table that has begun
    begin = _front_matter_lines(lines)
    for number, line in enumerate(lines[begin:], begin):
        text = line.strip()
        mark = _FENCE.match(text)
        if mark and (not fence or _ends(fence, text)):
            fence = "" if fence else mark[1]
            head = []
        elif not text:
            head = []
        elif fence:
            yield Line(number, text, raw=text)
        elif _RULE.fullmatch(text):
            head = []
        elif head and "|" in text:
            if not _is_below_head(text):
                yield Line(number, _row(head, _cells(text)), raw=text)
        elif number + 1 < len(lines) and _is_head(text, lines[number + 1].strip()):
            head = _cells(text)
        else:
            head = []
            yield _plain(number, text)


def _front_matter_lines(lines: Sequence[str]) -> int:
    """How many lines at the beginning of a file are about it, and not of it."""
    if len(lines) < 2 or lines[0].rstrip() != _FRONT_MATTER or not _NAMED.match(lines[1]):  # noqa: PLR2004  # a rule is none
        return 0
    ends = (
        number
        for number, line in enumerate(lines)
        if number and line.rstrip() in _ENDS_FRONT_MATTER
    )
    return next(ends, -1) + 1


def _ends(fence: str, text: str) -> bool:
    return text.startswith(fence) and not text.strip(fence[0])


def _plain(number: int, text: str) -> Line:
    heading = text.lstrip("#").strip() if text.startswith("#") else ""
    return Line(number, heading, is_heading=True) if heading else Line(number, said(text))


def _is_head(text: str, below: str) -> bool:
    return "|" in text and _is_below_head(below) and len(_cells(text)) == len(_cells(below))


def _is_below_head(text: str) -> bool:
    cells = _cells(text)
    return "|" in text and bool(cells) and all(_BELOW_HEAD.fullmatch(cell) for cell in cells)


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
