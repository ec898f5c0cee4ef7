"""One line of what is remembered of a person, named by its words: found in their files, replaced,
or taken out.

Other programs of the person's name lines so, because they know no numbers of lines. Two texts name
the same line if they have the same wording: the same words, without the marks that give a Markdown
file its form (`wording`). A fact is a line that says something to people; titles are none.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lasting_memory.memory.facts import MARKER, Line, content_lines, without_comments
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
    """All lines with facts, and all fields, of these files, whose texts are given by key. Blocks.

    Files other than Markdown, text and JSON have none.
    """
    lines = list[MemoryLine]()
    for key, content in sorted(files.items()):
        lines += _lines_in(key, content)
    return lines


def _lines_in(key: str, content: str) -> list[MemoryLine]:
    """The lines with facts, or the fields, of one file."""
    lines = list[MemoryLine]()
    if key.endswith(".json"):
        for name, value in _fields(content).items():
            text = f"{name}: {value}"
            lines.append(MemoryLine(key, text, name))
    elif key.endswith((".md", ".txt")):
        for fact in _facts(content):
            lines.append(MemoryLine(key, fact.text))
    return lines


def _facts(content: str) -> list[Line]:
    """The lines of a text that say something to people, outside of comments; titles are none."""
    visible_text = without_comments(content, line_breaks=True)
    facts = list[Line]()
    for line in content_lines(lines_of(visible_text)):
        if not line.is_heading:
            facts.append(line)
    return facts


def _fields(content: str) -> dict[str, object]:
    """The fields of a JSON object that have a value; none of any other text."""
    try:
        parsed_json = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed_json, dict):
        return {}
    fields = dict[str, object]()
    for name, value in parsed_json.items():
        if value is not None:
            fields[name] = value
    return fields


def line_named(text: str, lines: Sequence[MemoryLine]) -> MemoryLine:
    """The line that says a text: the whole of it, or the only one that has it as a part. Blocks.

    Raises `RefusedWrite` if there is none, or several.
    """
    words_of_text = wording(text).casefold()
    same_lines = list[MemoryLine]()
    containing_lines = list[MemoryLine]()
    for line in lines:
        words_of_line = wording(line.text).casefold()
        if words_of_line == words_of_text:
            same_lines.append(line)
        elif words_of_text and words_of_text in words_of_line:
            containing_lines.append(line)
    matches = same_lines or containing_lines
    if not matches:
        raise RefusedWrite(f"No line says {text[:_NAMED_CHARS]!r}; search_memory finds lines.")
    if len(matches) > 1:
        first_matches = matches[:_NAMED_LINES]
        line_names = "; ".join(_name_of(line) for line in first_matches)
        raise RefusedWrite(
            f"{len(matches)} lines say that; send one of them whole, and its path: {line_names}"
        )
    return matches[0]


def _name_of(line: MemoryLine) -> str:
    """A line as refusals name it: the beginning of its text, and its file."""
    beginning = line.text[:_NAMED_CHARS]
    return f"{beginning!r} in /memories{line.key}"


def with_line(content: str, line: MemoryLine, text: str | None) -> str:
    """A file's content with another text in place of a line, or without it (None). Blocks.

    Raises `RefusedWrite` if the line is not there any more.
    """
    if line.field:
        return _with_field(content, line, text)
    lines = content.split("\n")
    line_wording = wording(line.text)
    for number, present_line in enumerate(lines):
        if wording(present_line) != line_wording:
            continue
        if text is None:
            del lines[number]
        else:
            lines[number] = _with_mark_of(present_line, text)
        return "\n".join(lines)
    raise RefusedWrite(
        f"{_name_of(line)} is a row of a table, or changed meanwhile; read it again, or correct it "
        "on the page."
    )


def line_saying(content: str, text: str) -> Line | None:
    """The first fact of a text file that says this to people, or stands in the file so. Blocks.

    None if there is no such fact.
    """
    text_wording = wording(text)
    for fact in _facts(content):
        shown_wording = wording(fact.text)
        stored_wording = wording(fact.raw or fact.text)
        if text_wording in (shown_wording, stored_wording):
            return fact
    return None


def _with_mark_of(line: str, text: str) -> str:
    """A text with the indentation and the list marker of a line."""
    unindented_line = line.lstrip()
    indentation = line.removesuffix(unindented_line)
    marker = ""
    match = MARKER.match(unindented_line)
    if match:
        marker = match[0]
    return f"{indentation}{marker}{text}"


def _with_field(content: str, line: MemoryLine, text: str | None) -> str:
    """A JSON object with another text as the value of a field, or without the field (None).

    Raises `RefusedWrite` if the field has another value now, or one that is no text.
    """
    fields = _fields(content)
    name = line.field
    value = fields.get(name)
    if line.text != f"{name}: {value}":
        raise RefusedWrite(f"{_name_of(line)} changed meanwhile; read it again.")
    if text is None:
        del fields[name]
    elif isinstance(value, str):
        new_value = text.removeprefix(f"{name}:")
        fields[name] = new_value.strip()
    else:
        raise RefusedWrite(f"{_name_of(line)} is no text; correct it on the page.")
    return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
