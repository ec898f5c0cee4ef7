"""Who vouches for a change of a file: its `Vouch`, which says the source of each entry
(`entries.py`) that is written.

The names of functions that make one say for which entries it does: `vouch_new_...` for those that
the file did not have, `vouch_all_by` for all.
"""

from collections.abc import Callable, Mapping

from lasting_memory.deployment import Source
from lasting_memory.memory.entries import entries
from lasting_memory.memory.sources import lowest, sources_in

# Says who vouches for an entry of a file that is written. It is given the entry as `entries` has
# it, and who vouched for it before: None for an entry that the file did not have.
Vouch = Callable[[str, Source | None], Source]


def keep_known(_: str, source_before: Source | None) -> Source:
    """The `Vouch` of a write of which nothing is known: what stands there keeps its source."""
    return source_before or Source.INFERRED


def vouch_new_as(source: Source) -> Vouch:
    """The `Vouch` of a write whose new entries all have this source."""

    def vouch(_: str, source_before: Source | None) -> Source:
        return source_before or source

    return vouch


def vouch_new_by(sources: Mapping[str, Source], otherwise: Vouch = keep_known) -> Vouch:
    """The `Vouch` of new entries whose sources were worked out before. `otherwise` says those of
    entries that `sources` lacks.
    """

    def vouch(entry: str, source_before: Source | None) -> Source:
        if source_before:
            return source_before
        if entry in sources:
            return sources[entry]
        return otherwise(entry, source_before)

    return vouch


def vouch_all_by(sources: Mapping[str, Source], otherwise: Vouch) -> Vouch:
    """The `Vouch` of what makes a file again what it was, with these sources. `otherwise` says those
    of entries that `sources` lacks.
    """

    def vouch(entry: str, source_before: Source | None) -> Source:
        if entry in sources:
            return sources[entry]
        return otherwise(entry, source_before)

    return vouch


def vouched(
    path: str, before: str | None, signs: str, after: str | None, vouch: Vouch
) -> dict[str, Source]:
    """Who vouches for the entries of a file after a change. `signs` are those before it. Blocks."""
    sources_before = sources_in(path, before, signs)
    sources = dict[str, Source]()
    for entry in entries(path, after or ""):
        source_before = sources_before.get(entry)
        sources[entry] = vouch(entry, source_before)
    return sources


def source_of_change(
    path: str, before: str | None, after: str | None, vouch: Vouch
) -> Source | None:
    """Who vouches for what a change adds: the lowest of its new entries; None if it adds none.
    Blocks.
    """
    old_entries = entries(path, before or "")
    known_entries = set(old_entries)
    of_new_entries = list[Source]()
    for entry in entries(path, after or ""):
        if entry not in known_entries:
            source = vouch(entry, None)
            of_new_entries.append(source)
    if not of_new_entries:
        return None
    return lowest(of_new_entries)
