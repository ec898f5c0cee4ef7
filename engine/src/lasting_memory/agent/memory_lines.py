"""One line of what is remembered of a person, named by its words: found in their files, replaced,
or taken out.

Other programs of the person's name lines so, because they know no numbers of lines.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lasting_memory.memory.facts import MARKER, Line, lines_said, without_comments
from lasting_memory.memory.journal import lines_of
from lasting_memory.memory.one_fact import wording
from lasting_memory.memory.validation import RefusedWrite

# Lines that a refusal names, where several are meant, and characters of each.
_NAMED_LINES = 5
_NAMED_CHARS = 120


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """A line of a file, or a field of a JSON file such as the profile.

    `key` is the file's key in its namespace, `text` what the line says, without the marks that give
    the file its form. `field` is the name of the field, "" for a line of text.
    """

    key: str
    text: str
    field: str = ""


def memory_lines(files: Mapping[str, str]) -> list[MemoryLine]:
    """All lines of these texts, given by key, that say something; titles are none. Blocks."""
    lines = list[MemoryLine]()
    for key, content in sorted(files.items()):
        if key.endswith(".json"):
            fields = _fields(content)
            lines += [MemoryLine(key, f"{name}: {fields[name]}", name) for name in fields]
        elif key.endswith((".md", ".txt")):
            shown = lines_of(without_comments(content, line_breaks=True))
            lines += [
                MemoryLine(key, line.text) for line in lines_said(shown) if not line.is_heading
            ]
    return lines


def _fields(content: str) -> dict[str, Any]:
    """The fields of a JSON object that have a value; none of any other text."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: known for name, known in value.items() if known is not None}


def line_named(text: str, lines: Sequence[MemoryLine]) -> MemoryLine:
    """The line that says a text: the whole of it, or the only one that has it as a part. Blocks.

    Raises `RefusedWrite` if there is none, or several.
    """
    wanted = wording(text).casefold()
    known = [(line, wording(line.text).casefold()) for line in lines]
    matches = [line for line, words in known if words == wanted]
    if not matches and wanted:
        matches = [line for line, words in known if wanted in words]
    if not matches:
        raise RefusedWrite(f"No line says {text[:_NAMED_CHARS]!r}; search_memory finds lines.")
    if len(matches) > 1:
        named = "; ".join(_named(line) for line in matches[:_NAMED_LINES])
        raise RefusedWrite(
            f"{len(matches)} lines say that; send one of them whole, and its path: {named}"
        )
    return matches[0]


def _named(line: MemoryLine) -> str:
    return f"{line.text[:_NAMED_CHARS]!r} in /memories{line.key}"


def with_line(content: str, line: MemoryLine, text: str | None) -> str:
    """A file's content with another text in place of a line, or without it (None). Blocks.

    Raises `RefusedWrite` if the line is not there any more.
    """
    if line.field:
        return _with_field(content, line, text)
    lines = content.split("\n")
    wanted = wording(line.text)
    for number, present in enumerate(lines):
        if wording(present) == wanted:
            lines[number : number + 1] = [] if text is None else [_marked(present, text)]
            return "\n".join(lines)
    raise RefusedWrite(
        f"{_named(line)} is a row of a table, or changed meanwhile; read it again, or correct it "
        "on the page."
    )


def line_saying(content: str, text: str) -> Line | None:
    """The first line of a text file that says this to people, or stands in the file so. Blocks.

    Titles are none. None: no line says it.
    """
    wanted = wording(text)
    for line in lines_said(lines_of(without_comments(content, line_breaks=True))):
        if not line.is_heading and wanted in (wording(line.text), wording(line.raw or line.text)):
            return line
    return None


def _marked(line: str, text: str) -> str:
    """A text with the indentation and the list marker of a line."""
    start = line[: len(line) - len(line.lstrip())]
    marker = MARKER.match(line.lstrip())
    return f"{start}{marker[0] if marker else ''}{text}"


def _with_field(content: str, line: MemoryLine, text: str | None) -> str:
    fields = _fields(content)
    if line.text != f"{line.field}: {fields.get(line.field)}":
        raise RefusedWrite(f"{_named(line)} changed meanwhile; read it again.")
    if text is None:
        del fields[line.field]
    elif isinstance(fields[line.field], str):
        fields[line.field] = text.removeprefix(f"{line.field}:").strip()
    else:
        raise RefusedWrite(f"{_named(line)} is no text; correct it on the page.")
    return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
