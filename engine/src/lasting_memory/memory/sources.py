"""Who vouches for each line of a file, and for each value of a JSON object: kept with a revision,
never in its text.

An entry is a line as `entry_of` spells it, or a value of a JSON object with the names that lead to
it. Its source (`Source`) is who vouches for it. The sources of a file are kept as a text of one sign
an entry, in the order of the file: its signs. A sign says nothing of the entry, so that nothing is
left of a line that is deleted for good.

A `Vouch` says the sources of what is written. The names of functions that make one say for which
entries it does: `vouch_new_...` for those that the file did not have, `vouch_all_by` for all.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from lasting_memory.deployment import Source
from lasting_memory.memory.facts import END, bare_line
from lasting_memory.plain_text import compared

# Says who vouches for an entry of a file that is written. It is given the entry as `entries` has
# it, and who vouched for it before: None for an entry that the file did not have.
Vouch = Callable[[str, Source | None], Source]

_SIGNS: Mapping[Source, str] = {
    Source.INFERRED: ".",
    Source.CONFIRMED: "+",
    Source.UNCONFIRMED: "-",
}
_SOURCES = {sign: source for source, sign in _SIGNS.items()}
# From the one that counts least.
_ORDER = (Source.UNCONFIRMED, Source.INFERRED, Source.CONFIRMED)
# The name of a field in a line of JSON, and lines that begin or end an object.
_NAME = re.compile(r'("(?:[^"\\]|\\.)*")\s*:')
_BRACES = ("{", "}")
# Between the names that lead to a value and the value, in an entry. No line's entry has it.
BETWEEN = "\x1f"
# The field of a stored file with its signs.
FIELD = "sources"
# Characters of the names that lead to a value: those of 10,000 objects in each other would be
# gigabytes.
_NAMES_CHARS = 200


# --- Entries


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
    fields = _object(path, content)
    if fields is not None:
        return _value_entries(fields)
    of_lines = list[str]()
    for line in content.split("\n"):
        entry = entry_of(line)
        if entry:
            of_lines.append(entry)
    return of_lines


def _object(path: str, content: str) -> Mapping[str, object] | None:
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


def _value_entries(fields: Mapping[str, object]) -> list[str]:
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


# --- Sources and signs


def lowest(sources: Iterable[Source]) -> Source:
    """The one of these that counts least; `INFERRED` of none."""
    return min(sources, key=_ORDER.index, default=Source.INFERRED)


def signs_in(value: Mapping[str, object]) -> str:
    """The signs in a stored file, or in a revision; "" where there are none."""
    signs = value.get(FIELD)
    return signs if isinstance(signs, str) else ""


def sources_in(path: str, content: str | None, signs: str) -> dict[str, Source]:
    """Who vouches for each entry of a file, by the entry. Of one that stands there twice the lowest
    counts; without a sign it is inferred. Blocks.
    """
    sources = dict[str, Source]()
    next_signs = iter(signs)
    for entry in entries(path, content or ""):
        sign = next(next_signs, "")
        source = _SOURCES.get(sign, Source.INFERRED)
        if entry in sources:
            source = lowest([source, sources[entry]])
        sources[entry] = source
    return sources


def signs_of(path: str, content: str | None, sources: Mapping[str, Source]) -> str:
    """The signs of a file: the inverse of `sources_in`. "" where nothing is known of any entry.
    Blocks.
    """
    if content is None or not sources:
        return ""
    signs = ""
    for entry in entries(path, content):
        source = sources.get(entry, Source.INFERRED)
        signs += _SIGNS[source]
    return signs.rstrip(_SIGNS[Source.INFERRED])


def line_sources(content: str, signs: str) -> list[Source | None]:
    """Who vouches for each line of a text; None for a line without text. Blocks."""
    by_entry = sources_in("", content, signs)
    by_line = list[Source | None]()
    for line in content.split("\n"):
        entry = entry_of(line)
        by_line.append(by_entry.get(entry))
    return by_line


def shown_sources(path: str, content: str, signs: str) -> list[Source | None]:
    """As `line_sources`; of a JSON object the lines of a field have the source of that field, and
    lines of no field none. Blocks.
    """
    is_object = _object(path, content) is not None
    if not is_object:
        return line_sources(content, signs)
    by_field = field_sources(path, content, signs)
    by_line = list[Source | None]()
    source: Source | None = None
    for line in content.split("\n"):
        of_fields = list[Source]()
        for name in _fields_in(line):
            if name in by_field:
                of_fields.append(by_field[name])
        if of_fields:
            source = lowest(of_fields)
        elif line.strip() in _BRACES:
            source = None
        by_line.append(source)
    return by_line


def _fields_in(line: str) -> list[str]:
    """The names of fields that a line of JSON has."""
    quoted_names = _NAME.findall(line)
    return [json.loads(name) for name in quoted_names]


def field_sources(path: str, content: str, signs: str) -> dict[str, Source]:
    """Who vouches for each field of a JSON object: of its values the lowest counts. None of another
    text. Blocks.
    """
    fields = _object(path, content) or {}
    by_entry = sources_in(path, content, signs)
    by_field = dict[str, Source]()
    for name, value in fields.items():
        in_field = list[Source]()
        for entry in _value_entries({name: value}):
            in_field.append(by_entry[entry])
        by_field[name] = lowest(in_field)
    return by_field


def merged(
    base: Mapping[str, Source], ours: Mapping[str, Source], theirs: Mapping[str, Source]
) -> dict[str, Source]:
    """The sources after the changes of two, who began from the same ones: a change beats none, of
    two the lowest counts.
    """
    sources = dict(ours)
    for entry, source in theirs.items():
        before = base.get(entry)
        mine = ours.get(entry)
        if mine is None or mine == before:
            sources[entry] = source
        elif source != before:
            sources[entry] = lowest([mine, source])
    return sources


# --- Who vouches for a change


def keep_known(_: str, known: Source | None) -> Source:
    """The `Vouch` of a write of which nothing is known: what stands there keeps its source."""
    return known or Source.INFERRED


def vouch_new_as(source: Source) -> Vouch:
    """The `Vouch` of a write whose new entries all have this source."""

    def vouch(_: str, known: Source | None) -> Source:
        return known or source

    return vouch


def vouch_new_by(sources: Mapping[str, Source], otherwise: Vouch = keep_known) -> Vouch:
    """The `Vouch` of new entries whose sources were worked out before. `otherwise` says those of
    entries that `sources` lacks.
    """

    def vouch(entry: str, known: Source | None) -> Source:
        if known:
            return known
        if entry in sources:
            return sources[entry]
        return otherwise(entry, known)

    return vouch


def vouch_all_by(sources: Mapping[str, Source], otherwise: Vouch) -> Vouch:
    """The `Vouch` of what makes a file again what it was, with these sources. `otherwise` says those
    of entries that `sources` lacks.
    """

    def vouch(entry: str, known: Source | None) -> Source:
        if entry in sources:
            return sources[entry]
        return otherwise(entry, known)

    return vouch


def vouched(
    path: str, before: str | None, signs: str, after: str | None, vouch: Vouch
) -> dict[str, Source]:
    """Who vouches for the entries of a file after a change. `signs` are those before it. Blocks."""
    known = sources_in(path, before, signs)
    sources = dict[str, Source]()
    for entry in entries(path, after or ""):
        source_before = known.get(entry)
        sources[entry] = vouch(entry, source_before)
    return sources


def source_of_change(
    path: str, before: str | None, after: str | None, vouch: Vouch
) -> Source | None:
    """Who vouches for what a change adds: the lowest of its new entries; None if it adds none.
    Blocks.
    """
    old_entries = entries(path, before or "")
    known = set(old_entries)
    of_new_entries = list[Source]()
    for entry in entries(path, after or ""):
        if entry not in known:
            source = vouch(entry, None)
            of_new_entries.append(source)
    if not of_new_entries:
        return None
    return lowest(of_new_entries)
