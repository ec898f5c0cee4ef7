"""The entries of JSON of any form: texts, objects with a text, objects with fields.

The title of an entry is a name of the object in which it stands. `depth` is how many objects and
lists a value stands in.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lasting_memory.consolidation.brought.characters import one_line, title_of, with_newlines
from lasting_memory.consolidation.brought.entries import Entry
from lasting_memory.consolidation.brought.exports import entries_of_export
from lasting_memory.consolidation.brought.json_text import MAX_DEPTH, too_deep
from lasting_memory.consolidation.brought.markdown import entries_of_text
from lasting_memory.consolidation.brought.messages import (
    DATES,
    date_of,
    entries_of_message,
    text_of,
)

# Names of fields: of a text, and of who wrote it.
_TEXTS = ("memory", "content", "text", "fact", "statement")
_WRITERS = ("role", "sender", "author", "from", "speaker")
_PEOPLE = frozenset({"user", "human", "you", "me", "person"})
# Names of fields that say nothing about a person.
_UNTOLD = re.compile(r"(?:^|_)(?:uu)?ids?$|Ids?$|^(?:type|object|version|model)$|hash$", re.ASCII)
# Up to this depth a field's title begins with the title of its object.
_MAX_TITLE_DEPTH = MAX_DEPTH // 4


def entries_of_value(value: object, title: str = "", depth: int = 0) -> Iterator[Entry]:
    """The entries of a JSON value. Raises `UnreadableError` for one that is too deep."""
    if depth > MAX_DEPTH:
        raise too_deep()
    if isinstance(value, list):
        for item in value:
            yield from entries_of_value(item, title, depth + 1)
    elif isinstance(value, dict):
        yield from _entries_of_object(value, title, depth)
    elif isinstance(value, str):
        yield from entries_of_text(with_newlines(value), title)


def _entries_of_object(value: Mapping[str, object], title: str, depth: int) -> Iterator[Entry]:
    """The entries of an object, by its form: of an export, a message, with a text, with a key and a
    value, with any fields. A message that somebody else wrote has none.
    """
    export_entries = entries_of_export(value)
    if export_entries is not None:
        yield from export_entries
        return
    writer = _first_text(value, _WRITERS)
    if writer is not None:
        if writer.lower() in _PEOPLE:
            message = _message_of(value)
            yield from entries_of_message(message, date_of(value), title)
        return
    text = _first_text(value, _TEXTS)
    if text is not None:
        yield from _entries_of_text_object(value, text, title, depth)
        return
    key = value.get("key")
    value_of_key = value.get("value")
    has_key_and_value = isinstance(key, str) and isinstance(value_of_key, str)
    if not has_key_and_value:
        yield from _entries_of_fields(value, title, depth)
        return
    line = one_line(f"{key}: {value_of_key}")
    yield Entry(line, date_of(value), title)


def _first_text(value: Mapping[str, object], names: Sequence[str]) -> str | None:
    """The value of the first of these fields that is a text; None if none is."""
    for name in names:
        text = value.get(name)
        if isinstance(text, str):
            return text
    return None


def _message_of(value: Mapping[str, object]) -> str:
    """The text of a message, which may have blocks; "" without one."""
    for name in _TEXTS:
        content = value.get(name)
        if content:
            return text_of(content)
    return ""


def _entries_of_text_object(
    value: Mapping[str, object], text: str, title: str, depth: int
) -> Iterator[Entry]:
    """The entries of an object with this text, with the object's date, and of the objects in its
    lists. Its other fields are labels, and say nothing.
    """
    own_title = title_of(value.get("title"))
    if own_title:
        title = own_title
    date_of_object = date_of(value)
    lines = with_newlines(text)
    for entry in entries_of_text(lines, title):
        date = entry.date or date_of_object
        yield replace(entry, date=date)
    for part in value.values():
        if not isinstance(part, list):
            continue
        has_objects = any(isinstance(item, dict) for item in part)
        if has_objects:
            yield from entries_of_value(part, title, depth + 1)


def _entries_of_fields(value: Mapping[str, object], title: str, depth: int) -> Iterator[Entry]:
    """The entries of an object that is no entry itself: of each field, with its name."""
    for name, field_value in value.items():
        if _UNTOLD.search(name):
            continue
        label = title_of(name.replace("_", " "))
        if isinstance(field_value, dict | list):
            title_of_field = label
            if title and depth < _MAX_TITLE_DEPTH:
                title_of_field = f"{title}, {label}"
            yield from entries_of_value(field_value, title_of_field, depth + 1)
        elif isinstance(field_value, str) and "\n" in field_value.strip():
            lines = with_newlines(field_value)
            yield from entries_of_text(lines, label)
        elif field_value is None or field_value == "" or name in DATES:
            continue
        else:
            text = _plain_value(field_value)
            line = one_line(f"{label}: {text}")
            yield Entry(line, title=title)


def _plain_value(value: object) -> str:
    """The value of a field as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
