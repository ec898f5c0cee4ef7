"""Confirms lines of memory that the person says now, in the conversations of a batch."""

from collections.abc import Collection, Sequence

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item

from lasting_memory import platform
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.deployment import Source
from lasting_memory.memory import journal
from lasting_memory.memory.folder import Folder, sources_of_files
from lasting_memory.memory.sources import signs_in, sources_in
from lasting_memory.memory.stored_files import text_of as file_text
from lasting_memory.memory.vouches import Vouch
from lasting_memory.vouching import Evidence


async def confirm_lines_in_memory(draft: Draft) -> None:
    """Confirm the unconfirmed lines of memory that the person said in a batch's conversations. Their
    files get a revision with the same text.

    A dry run confirms nothing, and neither does a text that was brought. Raises `ValueError` as
    `Folder.change`.
    """
    if draft.record.dry_run or draft.reading:
        return
    if not draft.evidence.own_messages:
        return
    memory = draft.memory
    files = await journal.all_items(memory.store, memory.files)
    entries_by_key = await platform.in_thread(_confirmed_now, draft.evidence, files)
    folder = Folder(
        memory.deployment, memory.store, memory.files, "/memories", draft.author, memory.writer
    )
    for key, entries_of_file in entries_by_key.items():
        vouch = _vouch_confirming(entries_of_file)
        await folder.change(key, _unchanged, is_bounded=False, vouch=vouch)


def _confirmed_now(evidence: Evidence, files: Sequence[Item]) -> dict[str, set[str]]:
    """The unconfirmed entries of files that the person said now, by key. Blocks."""
    sources_before = sources_of_files(files)
    vouch = evidence.vouch(sources_before)
    entries_by_key = dict[str, set[str]]()
    for item in files:
        content = file_text(item)
        signs = signs_in(item.value)
        entries_here = set[str]()
        for entry, source in sources_in(item.key, content, signs).items():
            # What the assistant concluded counts as it did: no revision is made for that alone.
            if source is not Source.UNCONFIRMED:
                continue
            if vouch(entry, source) is Source.CONFIRMED:
                entries_here.add(entry)
        if entries_here:
            entries_by_key[item.key] = entries_here
    return entries_by_key


def _vouch_confirming(confirmed_entries: Collection[str]) -> Vouch:
    """The `Vouch` that confirms these entries, and leaves others as they are."""

    def vouch(entry: str, source_before: Source | None) -> Source:
        if entry in confirmed_entries:
            return Source.CONFIRMED
        return source_before or Source.INFERRED

    return vouch


def _unchanged(file: FileData | None) -> FileData | None:
    """A change of a file that leaves it as it is, for a revision that only changes its sources."""
    return file
