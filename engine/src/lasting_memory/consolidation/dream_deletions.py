"""What is taken out of a dream: what came of conversations that were deleted, and a fact that is
deleted for good.

*Entries* and their *origins* are those of `dream_files.py`. When a conversation is deleted, its
entries go.
"""

from collections.abc import Collection, Mapping

from langgraph.store.base import BaseStore

from lasting_memory import platform
from lasting_memory.consolidation.dream_files import values_of_present_entries
from lasting_memory.consolidation.dream_store import DreamStore
from lasting_memory.consolidation.dreams import DreamFile, DreamUpdate, FileUpdates, StoredDream
from lasting_memory.memory import journal
from lasting_memory.memory.entries import entries, text_of
from lasting_memory.memory.one_fact import Fact
from lasting_memory.memory.proposals import drop_threads as drop_threads_of_proposals
from lasting_memory.people.identity import Actor


async def drop_threads(store: BaseStore, actor: Actor, deleted_ids: Collection[str]) -> None:
    """Take what came of these conversations, which were deleted, out of the files of a dream that
    is not over, and out of what dreams propose.
    """
    writer = journal.Writer(actor)
    dreams = DreamStore(store, actor, writer)
    stored_dream = await dreams.read()
    deleted_read_ids = stored_dream.threads.keys() & set(deleted_ids)
    if stored_dream.dream is not None and deleted_read_ids:
        update = await platform.in_thread(without_threads, stored_dream, deleted_ids)
        # A run that is at work may store an older text after this. The items of the deleted
        # conversations stay, and tell the next run to take their entries out again.
        for thread_id in deleted_read_ids:
            del update.threads[thread_id]
        await dreams.put_files(update)
    await drop_threads_of_proposals(store, actor, deleted_ids)


def without_threads(stored_dream: StoredDream, deleted_ids: Collection[str]) -> DreamUpdate:
    """The update that takes what came of these conversations, which were deleted, out of a dream.
    Blocks.

    An entry that has other origins, too, also goes. These are read once more, and so are those whose
    entries a deleted one has replaced.
    """
    all_deleted_ids = set(deleted_ids)
    reread_ids = set(deleted_ids)
    update = DreamUpdate()
    for key, file in stored_dream.files.items():
        dropped_entries = _entries_from(file, all_deleted_ids)
        for entry in dropped_entries:
            origins = file.origins[entry]
            reread_ids.update(origins)
        if dropped_entries:
            update.files[key] = _without_entries(key, file, dropped_entries)
    for thread_id in deleted_ids:
        thread = stored_dream.thread(thread_id)
        reread_ids.update(thread.replaced)
    for thread_id in reread_ids.intersection(stored_dream.threads):
        update.threads[thread_id] = None  # as if nothing of it was read
    return update


def _entries_from(file: DreamFile, thread_ids: set[str]) -> set[str]:
    """The entries of a file that have one of these conversations among their origins."""
    dream_entries = set[str]()
    for entry, origins in file.origins.items():
        if thread_ids.isdisjoint(origins):
            continue
        dream_entries.add(entry)
    return dream_entries


def _without_entries(key: str, file: DreamFile, dropped_entries: set[str]) -> DreamFile | None:
    """A file without these entries; None if nothing is left.

    A JSON object goes whole: its other values are read again with the conversations.
    """
    if key.endswith(".json"):
        return None
    remaining_lines = list[str]()
    for line in file.content.split("\n"):
        entries_of_line = entries(key, line)  # one, or none where the line has no text
        if dropped_entries.isdisjoint(entries_of_line):
            remaining_lines.append(line)
    content = "\n".join(remaining_lines)
    return _with_content(key, file, content)


def _with_content(key: str, file: DreamFile, content: str) -> DreamFile | None:
    """A file with this content, which has fewer entries; None if the content has no text."""
    if not content.strip():
        return None
    origins = values_of_present_entries(file.origins, key, content)
    sources = values_of_present_entries(file.sources, key, content)
    return DreamFile(content, origins, sources)


async def erase_from_dream(
    store: BaseStore, actor: Actor, fact: Fact, writer: journal.Writer, *, dry_run: bool = False
) -> int:
    """Take a fact that is deleted for good out of a dream's files. Returns how many had it; with
    `dry_run` it only counts.
    """
    dreams = DreamStore(store, actor, writer)
    stored_dream = await dreams.read()
    if stored_dream.dream is None:
        return 0
    files = await platform.in_thread(_files_without_fact, stored_dream.files, fact)
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
