"""The files of a dream (`dreams.py`): what a batch of conversations changes in them, and how what
came of some conversations, or a fact, is taken out.

An *entry* is a line of a file, or a value of a JSON object (`memory.entries.entries`). Its *origins*
are the ids of the conversations that it is from. They are known for every entry of a dream but
those that the person wrote by hand. When a conversation is deleted, its entries go.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from langgraph.store.base import BaseStore

from lasting_memory import platform, recall
from lasting_memory.consolidation.dreams import (
    DreamFile,
    DreamStore,
    DreamUpdate,
    FileUpdates,
    StoredDream,
)
from lasting_memory.memory import journal
from lasting_memory.memory.entries import entries, text_of
from lasting_memory.memory.one_fact import Fact
from lasting_memory.memory.proposals import Changed, Sources
from lasting_memory.memory.proposals import drop_threads as drop_threads_of_proposals
from lasting_memory.people.identity import Actor

_Value = TypeVar("_Value")
# Ids of conversations, by entry.
_Origins = dict[str, Sequence[str]]
_NO_FILE = DreamFile("")


# --- What a batch changes


class Spoken:
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
    stored: StoredDream, changed: Iterable[Changed], sources: Sources, spoken: Spoken
) -> tuple[FileUpdates, set[str]]:
    """The files that a batch of conversations changes, None for one that goes, and the ids of the
    conversations of which it takes entries out. Blocks.

    `changed` are the changes of the dream's files; `sources` say who vouches for what is new.
    """
    origins_in_dream = _Origins()
    for file in stored.files.values():
        origins_in_dream.update(file.origins)
    updates = FileUpdates()
    origins_of_all_removed = set[str]()
    for change in changed:
        old_file = stored.files.get(change.key, _NO_FILE)
        origins_of_removed = _origins_of_removed(old_file, change)
        origins_of_all_removed.update(origins_of_removed)
        if change.deleted and not change.after:
            updates[change.key] = None
            continue
        new_sources = sources.get(change.path, {})
        all_sources = {**old_file.sources, **new_sources}
        updates[change.key] = DreamFile(
            content=change.after,
            origins=_origins_after(old_file, change, origins_in_dream, origins_of_removed, spoken),
            sources=_only_present(all_sources, change.key, change.after),
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
    spoken: Spoken,
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
            of_batch = spoken.origins(entry)
            # It may stand in place of what was removed.
            of_batch.update(origins_of_removed)
            origins = sorted(of_batch)
        origins_after[entry] = origins
    return origins_after


def _only_present(by_entry: Mapping[str, _Value], key: str, content: str) -> dict[str, _Value]:
    """What is known of a file's entries, without entries that this content of it does not have."""
    present = set(entries(key, content))
    of_present = dict[str, _Value]()
    for entry, value in by_entry.items():
        if entry in present:
            of_present[entry] = value
    return of_present


# --- What came of deleted conversations


async def drop_threads(store: BaseStore, actor: Actor, deleted_ids: Collection[str]) -> None:
    """Take what came of these conversations, which were deleted, out of the files of a dream that
    is not over, and out of what dreams propose.
    """
    began = journal.Began(actor)
    dreams = DreamStore(store, actor, began)
    stored = await dreams.read()
    deleted_read = stored.threads.keys() & set(deleted_ids)
    if stored.dream is not None and deleted_read:
        update = await platform.in_thread(without_threads, stored, deleted_ids)
        # A run that is at work may store an older text after this. The items of the deleted
        # conversations stay, and tell the next run to take their entries out again.
        for thread_id in deleted_read:
            del update.threads[thread_id]
        await dreams.put_files(update)
    await drop_threads_of_proposals(store, actor, deleted_ids)


def without_threads(stored: StoredDream, deleted_ids: Collection[str]) -> DreamUpdate:
    """The update that takes what came of these conversations, which were deleted, out of a dream.
    Blocks.

    An entry that has other origins, too, also goes. These are read once more, and so are those whose
    entries a deleted one has replaced.
    """
    deleted = set(deleted_ids)
    reread = set(deleted_ids)
    update = DreamUpdate()
    for key, file in stored.files.items():
        dropped = _entries_from(file, deleted)
        for entry in dropped:
            origins = file.origins[entry]
            reread.update(origins)
        if dropped:
            update.files[key] = _without_entries(key, file, dropped)
    for thread_id in deleted_ids:
        thread = stored.thread(thread_id)
        reread.update(thread.replaced)
    for thread_id in reread.intersection(stored.threads):
        update.threads[thread_id] = None  # as if nothing of it was read
    return update


def _entries_from(file: DreamFile, thread_ids: set[str]) -> set[str]:
    """The entries of a file that have one of these conversations among their origins."""
    entries_from = set[str]()
    for entry, origins in file.origins.items():
        if thread_ids.isdisjoint(origins):
            continue
        entries_from.add(entry)
    return entries_from


def _without_entries(key: str, file: DreamFile, dropped: set[str]) -> DreamFile | None:
    """A file without these entries; None if nothing is left.

    A JSON object goes whole: its other values are read again with the conversations.
    """
    if key.endswith(".json"):
        return None
    staying = list[str]()
    for line in file.content.split("\n"):
        entries_of_line = entries(key, line)  # one, or none where the line has no text
        if dropped.isdisjoint(entries_of_line):
            staying.append(line)
    content = "\n".join(staying)
    return _with_content(key, file, content)


def _with_content(key: str, file: DreamFile, content: str) -> DreamFile | None:
    """A file with this content, which has fewer entries; None if the content has no text."""
    if not content.strip():
        return None
    origins = _only_present(file.origins, key, content)
    sources = _only_present(file.sources, key, content)
    return DreamFile(content, origins, sources)


# --- A fact that is deleted for good


async def erase_from_dream(
    store: BaseStore, actor: Actor, fact: Fact, began: journal.Began, *, dry_run: bool = False
) -> int:
    """Take a fact that is deleted for good out of a dream's files. Returns how many had it; with
    `dry_run` it only counts.
    """
    dreams = DreamStore(store, actor, began)
    stored = await dreams.read()
    if stored.dream is None:
        return 0
    files = await platform.in_thread(_files_without_fact, stored.files, fact)
    if files and not dry_run:
        update = DreamUpdate(files)
        await dreams.put_files(update)
    return len(files)


def _files_without_fact(files: Mapping[str, DreamFile], fact: Fact) -> FileUpdates:
    """Those of these files that have a fact, without it. Blocks."""
    updates = FileUpdates()
    for key, file in files.items():
        content = fact.cleaned(key, file.content)
        is_in_content = content != file.content
        if is_in_content or _is_in_origins(fact, file):
            updates[key] = _with_content(key, file, content)
    return updates


def _is_in_origins(fact: Fact, file: DreamFile) -> bool:
    """Whether a fact is an entry whose origins are known, also where the text no longer has it."""
    for entry in file.origins:
        text = text_of(entry)
        if fact.is_in(text):
            return True
    return False
