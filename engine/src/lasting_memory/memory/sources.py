"""Who vouches for each line of a file, and for each value of a JSON object: kept with a revision,
never in its text.

It is kept as a text of one sign an entry, in the order of the file. The sign says nothing of the
entry, so that nothing is left of a line that is deleted for good.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

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
# Between the name of a field and its value, in an entry. No line's entry has it.
BETWEEN = "\x1f"
# The field of a stored file with the signs of its entries.
FIELD = "sources"


def signs_in(value: Mapping[str, Any]) -> str:
    """The signs in a stored file, or in a revision; "" where there are none."""
    signs = value.get(FIELD)
    return signs if isinstance(signs, str) else ""


def lowest(sources: Iterable[Source]) -> Source:
    """The one of these that counts least; `INFERRED` of none."""
    return min(sources, key=_ORDER.index, default=Source.INFERRED)


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
    return entry.rpartition(BETWEEN)[2]


def field_of(entry: str) -> str:
    """The names that lead to the value of an entry of a JSON object; "" for a line."""
    return entry.rpartition(BETWEEN)[0]


def entries(path: str, content: str) -> list[str]:
    """The entries of a file in order: its lines with text, or the values of a JSON object. Blocks."""
    fields = _object(path, content)
    if fields is not None:
        return _value_entries(fields)
    found = map(entry_of, content.split("\n"))
    return [entry for entry in found if entry]


def sources_in(path: str, content: str | None, signs: str) -> dict[str, Source]:
    """Who vouches for each entry of a file, by the entry. Of one that stands there twice the lowest
    counts; without a sign it is inferred. Blocks.
    """
    found = dict[str, Source]()
    for number, entry in enumerate(entries(path, content or "")):
        sign = signs[number] if number < len(signs) else ""
        source = _SOURCES.get(sign, Source.INFERRED)
        other = found.get(entry, source)
        found[entry] = lowest([source, other])
    return found


def signs_of(path: str, content: str | None, sources: Mapping[str, Source]) -> str:
    """The inverse of `sources_in`; "" where nothing is known of any entry. Blocks."""
    if content is None or not sources:
        return ""
    signs = list[str]()
    for entry in entries(path, content):
        source = sources.get(entry, Source.INFERRED)
        signs.append(_SIGNS[source])
    return "".join(signs).rstrip(_SIGNS[Source.INFERRED])


def line_sources(content: str, signs: str) -> list[Source | None]:
    """Who vouches for each line of a text; None for a line without text. Blocks."""
    known = sources_in("", content, signs)
    found = list[Source | None]()
    for line in content.split("\n"):
        entry = entry_of(line)
        found.append(known.get(entry))
    return found


def shown_sources(path: str, content: str, signs: str) -> list[Source | None]:
    """As `line_sources`; of a JSON object the lines of a field have the source of that field, and
    lines of no field none. Blocks.
    """
    if _object(path, content) is None:
        return line_sources(content, signs)
    by_field = field_sources(path, content, signs)
    found = list[Source | None]()
    source: Source | None = None
    for line in content.split("\n"):
        in_line = [by_field[name] for name in _fields_in(line) if name in by_field]
        if in_line:
            source = lowest(in_line)
        elif line.strip() in _BRACES:
            source = None
        found.append(source)
    return found


def _fields_in(line: str) -> list[str]:
    """The names of fields that a line of JSON has."""
    return [json.loads(name) for name in _NAME.findall(line)]


def field_sources(path: str, content: str, signs: str) -> dict[str, Source]:
    """Who vouches for each field of a JSON object: of its values the lowest counts. Blocks."""
    fields = _object(path, content)
    known = sources_in(path, content, signs)
    found = dict[str, Source]()
    for name, value in (fields or {}).items():
        in_field = _value_entries({name: value})
        found[name] = lowest(known[entry] for entry in in_field)
    return found


def keep_known(_: str, known: Source | None) -> Source:
    """The `Vouch` of a write of which nothing is known: what stands there keeps its source."""
    return known or Source.INFERRED


def vouch_new_as(source: Source) -> Vouch:
    """The `Vouch` of a write whose new entries all have this source."""

    def vouch(_: str, known: Source | None) -> Source:
        return known or source

    return vouch


def vouch_new_by(sources: Mapping[str, Source], otherwise: Vouch = keep_known) -> Vouch:
    """The `Vouch` of new entries whose sources were worked out before."""

    def vouch(entry: str, known: Source | None) -> Source:
        return known or sources.get(entry) or otherwise(entry, known)

    return vouch


def vouch_all_by(sources: Mapping[str, Source], otherwise: Vouch) -> Vouch:
    """The `Vouch` of what makes a file again what it was, with these sources."""

    def vouch(entry: str, known: Source | None) -> Source:
        return sources.get(entry) or otherwise(entry, known)

    return vouch


def vouched(
    path: str, before: str | None, signs: str, after: str | None, vouch: Vouch
) -> dict[str, Source]:
    """Who vouches for the entries of a file after a change. `signs` are those before it. Blocks."""
    known = sources_in(path, before, signs)
    found = dict[str, Source]()
    for entry in entries(path, after or ""):
        found[entry] = vouch(entry, known.get(entry))
    return found


def source_of_change(
    path: str, before: str | None, after: str | None, vouch: Vouch
) -> Source | None:
    """Who vouches for what a change adds: the lowest of its new entries; None if it adds none.
    Blocks.
    """
    present = set(entries(path, before or ""))
    new = list[Source]()
    for entry in entries(path, after or ""):
        if entry not in present:
            new.append(vouch(entry, None))
    return lowest(new) if new else None


def merged(
    base: Mapping[str, Source], ours: Mapping[str, Source], theirs: Mapping[str, Source]
) -> dict[str, Source]:
    """The sources after the changes of two, who began from the same ones: a change beats none, of
    two the lowest counts.
    """
    result = dict(ours)
    for entry, source in theirs.items():
        before = base.get(entry)
        mine = ours.get(entry)
        if mine is None or mine == before:
            result[entry] = source
        elif source != before:
            result[entry] = lowest([mine, source])
    return result


def _value_entries(fields: Mapping[str, Any]) -> list[str]:
    """The entries of an object's values, in order."""
    found = list[str]()
    for place, value in _values(fields):
        text = value.replace(BETWEEN, " ")
        found.append(f"{place}{BETWEEN}{text}")
    return found


def _object(path: str, content: str) -> Mapping[str, Any] | None:
    """The fields of a JSON object; None for another text."""
    if not path.endswith(".json"):
        return None
    try:
        value = json.loads(content or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _values(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The values in an object that are no objects or lists, in order, each with the names that lead
    to it. In linear time, at any depth.
    """
    found = list[tuple[str, str]]()
    rest: list[tuple[str, Any]] = list(fields.items())
    rest.reverse()  # the last one is next
    while rest:
        place, value = rest.pop()
        if isinstance(value, Mapping | list):
            rest += reversed(_parts(place, value))
        elif value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            one_line = " ".join(text.split())
            found.append((place[-_PLACE_CHARS:], one_line))
    return found


def _parts(place: str, value: Mapping[str, Any] | list[Any]) -> list[tuple[str, Any]]:
    """The values in an object or a list, each with the names that lead to it."""
    if isinstance(value, Mapping):
        return [(f"{place}.{name}", part) for name, part in value.items()]
    return [(place, item) for item in value]


# Characters of the names that lead to a value: those of 10,000 objects in each other would be
# gigabytes.
_PLACE_CHARS = 200
