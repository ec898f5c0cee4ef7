"""Who vouches for each entry of a file (`entries.py`): its source (`Source`), kept with a revision,
never in its text.

The sources of a file are kept as a text of one sign an entry, in the order of the file: its signs. A
sign says nothing of the entry, so that nothing is left of a line that is deleted for good.
"""

import json
import re
from collections.abc import Iterable, Mapping

from lasting_memory.deployment import Source
from lasting_memory.memory.entries import entries, entry_of, json_object, value_entries

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
# The field of a stored file with its signs.
FIELD = "sources"


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
    is_object = json_object(path, content) is not None
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
    fields = json_object(path, content) or {}
    by_entry = sources_in(path, content, signs)
    by_field = dict[str, Source]()
    for name, value in fields.items():
        in_field = list[Source]()
        for entry in value_entries({name: value}):
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
        base_source = base.get(entry)
        our_source = ours.get(entry)
        if our_source is None or our_source == base_source:
            sources[entry] = source
        elif source != base_source:
            sources[entry] = lowest([our_source, source])
    return sources
