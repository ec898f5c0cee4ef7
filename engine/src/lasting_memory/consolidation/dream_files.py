"""The files of a dream (`dreams.py`), and what a batch of conversations changes in them.

An *entry* is a line of a file, or a value of a JSON object (`memory.entries.entries`). Its *origins*
are the ids of the conversations that it is from. They are known for every entry of a dream but
those that the person wrote by hand.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from lasting_memory import recall
from lasting_memory.consolidation.dreams import DreamFile, FileUpdates, StoredDream
from lasting_memory.memory.entries import entries, text_of
from lasting_memory.memory.proposals import Changed, Sources

_Value = TypeVar("_Value")
# Ids of conversations, by entry.
_Origins = dict[str, Sequence[str]]
_NO_FILE = DreamFile("")


class SpokenTexts:
    """What is said in the conversations of a batch. It finds those that an entry is from. Blocks."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """`texts` has all that is said in each conversation, by its id."""
        all_text = "\n".join(texts.values())
        self._language = recall.language(all_text)
        self._stems_by_thread = dict[str, frozenset[str]]()
        for thread_id, text in texts.items():
            self._stems_by_thread[thread_id] = self._stems(text)

    def _stems(self, text: str) -> frozenset[str]:
        """The stems of a text's words, without stop words."""
        stems = recall.stems(text, self._language)
        return frozenset(stems)

    def origins(self, entry: str) -> set[str]:
        """The ids of the conversations that have all words of an entry; of all conversations, if
        none has them, or the entry has no words.
        """
        all_ids = set(self._stems_by_thread)
        text = text_of(entry)
        stems_of_entry = self._stems(text)
        if not stems_of_entry:
            return all_ids
        origins = set[str]()
        for thread_id, stems in self._stems_by_thread.items():
            if stems_of_entry <= stems:
                origins.add(thread_id)
        return origins or all_ids


def after_batch(
    stored_dream: StoredDream,
    batch_changes: Iterable[Changed],
    sources: Sources,
    spoken_texts: SpokenTexts,
) -> tuple[FileUpdates, set[str]]:
    """The files that a batch of conversations changes, None for one that goes, and the ids of the
    conversations of which it takes entries out. Blocks.

    `batch_changes` are those of the dream's files; `sources` say who vouches for what is new.
    """
    origins_in_dream = _Origins()
    for file in stored_dream.files.values():
        origins_in_dream.update(file.origins)
    updates = FileUpdates()
    origins_of_all_removed = set[str]()
    for change in batch_changes:
        old_file = stored_dream.files.get(change.key, _NO_FILE)
        origins_of_removed = _origins_of_removed(old_file, change)
        origins_of_all_removed.update(origins_of_removed)
        if change.deleted and not change.after:
            updates[change.key] = None
            continue
        new_sources = sources.get(change.path, {})
        all_sources = {**old_file.sources, **new_sources}
        updates[change.key] = DreamFile(
            content=change.after,
            origins=_origins_after(
                old_file, change, origins_in_dream, origins_of_removed, spoken_texts
            ),
            sources=values_of_present_entries(all_sources, change.key, change.after),
        )
    return updates, origins_of_all_removed


def _origins_of_removed(old_file: DreamFile, change: Changed) -> set[str]:
    """The origins of the entries that a change takes out of a file."""
    entries_after = set(entries(change.key, change.after))
    origins_of_removed = set[str]()
    for entry in entries(change.key, old_file.content):
        if entry in entries_after:
            continue
        origins = old_file.origins.get(entry, ())
        origins_of_removed.update(origins)
    return origins_of_removed


def _origins_after(
    old_file: DreamFile,
    change: Changed,
    origins_in_dream: Mapping[str, Sequence[str]],
    origins_of_removed: Collection[str],
    spoken_texts: SpokenTexts,
) -> _Origins:
    """The origins of the entries of a file after a change, without entries that the person wrote by
    hand. `origins_in_dream` are those of all files before the batch.
    """
    entries_before = set(entries(change.key, old_file.content))
    origins_after = _Origins()
    for entry in entries(change.key, change.after):
        if entry in entries_before:
            origins = old_file.origins.get(entry)
            if origins is not None:
                origins_after[entry] = origins
            continue
        origins = origins_in_dream.get(entry)
        if not origins:  # the entry has not moved here from another file: the batch says it
            batch_origins = spoken_texts.origins(entry)
            # It may stand in place of what was removed.
            batch_origins.update(origins_of_removed)
            origins = sorted(batch_origins)
        origins_after[entry] = origins
    return origins_after


def values_of_present_entries(
    values_by_entry: Mapping[str, _Value], key: str, content: str
) -> dict[str, _Value]:
    """What is known of a file's entries, without entries that this content of it does not have."""
    present_entries = set(entries(key, content))
    values_of_present = dict[str, _Value]()
    for entry, value in values_by_entry.items():
        if entry in present_entries:
            values_of_present[entry] = value
    return values_of_present
