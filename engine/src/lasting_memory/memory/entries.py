"""Entries: the parts of a file of which each has a source of its own (`sources.py`).

An entry is a line as `entry_of` spells it, or a value of a JSON object with the names that lead to
it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lasting_memory.memory.facts import END, bare_line
from lasting_memory.plain_text import compared

# Between the names that lead to a value and the value, in an entry. No line's entry has it.
BETWEEN = "\x1f"
# Characters of the names that lead to a value: those of 10,000 objects in each other would be
# gigabytes.
_NAMES_CHARS = 200


def entry_of(line: str) -> str:
    """A line as the key by which its source is known: without its list marker, the mark of its
    conversation and the day until which it holds; "" for a line without text.
    """
    text = line.replace(BETWEEN, " ").strip()
    without_end = END.sub("", text).rstrip()
    fact = bare_line(without_end)
    return compared(fact).strip()


def text_of(entry: str) -> str:
    """What an entry says: a line, or the value of a JSON object without the name of its field."""
    parts = entry.rpartition(BETWEEN)
    return parts[-1]


def field_of(entry: str) -> str:
    """The names that lead to the value of an entry of a JSON object; "" for a line."""
    parts = entry.rpartition(BETWEEN)
    return parts[0]


def entries(path: str, content: str) -> list[str]:
    """The entries of a file in order: its lines with text, or the values of a JSON object. Blocks."""
    fields = json_object(path, content)
    if fields is not None:
        return value_entries(fields)
    of_lines = list[str]()
    for line in content.split("\n"):
        entry = entry_of(line)
        if entry:
            of_lines.append(entry)
    return of_lines


def json_object(path: str, content: str) -> Mapping[str, object] | None:
    """The fields of a JSON object; None for another text."""
    if not path.endswith(".json"):
        return None
    try:
        value = json.loads(content or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class _Value(NamedTuple):
    """A value in a JSON object, and the names that lead to it."""

    names: str
    value: object


def value_entries(fields: Mapping[str, object]) -> list[str]:
    """The entries of an object's values, in order."""
    of_values = list[str]()
    for names, value in _values(fields):
        text = value if isinstance(value, str) else json.dumps(value)
        words = text.split()
        one_line = " ".join(words).replace(BETWEEN, " ")
        last_names = names[-_NAMES_CHARS:]
        of_values.append(f"{last_names}{BETWEEN}{one_line}")
    return of_values


def _values(fields: Mapping[str, object]) -> Iterator[_Value]:
    """The values in an object that are no objects, lists or null, in order. In linear time, at any
    depth.
    """
    stack = list[_Value]()
    for name, value in fields.items():
        stack.append(_Value(name, value))
    stack.reverse()  # the last one is next
    while stack:
        names, value = stack.pop()
        if isinstance(value, Mapping | list):
            parts = _parts(names, value)
            parts.reverse()
            stack += parts
        elif value is not None:
            yield _Value(names, value)


def _parts(names: str, value: Mapping[str, object] | list[object]) -> list[_Value]:
    """The values in an object or a list, to which `names` lead. Items of a list have no name."""
    if isinstance(value, list):
        return [_Value(names, item) for item in value]
    parts = list[_Value]()
    for name, part in value.items():
        part_names = f"{names}.{name}"
        parts.append(_Value(part_names, part))
    return parts
