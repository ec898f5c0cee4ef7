"""Who vouches for what a batch adds: its conversations, or what it merged, never its model.

An *entry* is a line of a text, or a value of a JSON object (`memory/entries.py`), and its *source*
says who vouches for it (`Source`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item

from lasting_memory import platform
from lasting_memory.consolidation.changed_places import places
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.facts import Findings, key_of
from lasting_memory.deployment import Source
from lasting_memory.memory import journal
from lasting_memory.memory.entries import entries, entry_of, text_of
from lasting_memory.memory.folder import Folder, sources_of_files
from lasting_memory.memory.proposals import Changed, Proposal, Sources, added_sources
from lasting_memory.memory.sources import signs_in, sources_in
from lasting_memory.memory.stored_files import text_of as file_text
from lasting_memory.memory.vouches import Vouch
from lasting_memory.vouching import Evidence


def sources_now(files: Mapping[str, Source], proposals: Iterable[Proposal]) -> dict[str, Source]:
    """The sources of memory's entries, by entry: of those in files, and of those that are only
    proposed.
    """
    sources = dict[str, Source]()
    for proposal in proposals:
        for by_entry in proposal.sources.values():
            sources.update(by_entry)
    sources.update(files)
    return sources


def sources_of_changes(
    draft: Draft, changed: Sequence[Changed], memory: Mapping[str, Source]
) -> dict[str, dict[str, Source]]:
    """The sources of the entries that changes add, by path and entry. `memory` has those of
    memory's entries. Blocks.

    A line that merges others is confirmed if one of them, or all that it took the place of, say it
    and were confirmed; one that merges a doubtful one is as doubtful. Of a text that was brought
    nothing is confirmed.
    """
    if draft.reading:
        vouch = _vouch_for_text(memory)
    else:
        evidence = _with_merged(draft.evidence, changed, memory)
        vouch = evidence.vouch(memory)
    sources = dict[str, dict[str, Source]]()
    for change in draft.with_earlier_parts(changed):
        sources[change.path] = added_sources(change, vouch)
    return sources


def _vouch_for_text(memory: Mapping[str, Source]) -> Vouch:
    """The `Vouch` of a text that was brought: what memory does not have is unconfirmed."""

    def vouch(entry: str, known: Source | None) -> Source:
        if known:
            return known
        return memory.get(entry, Source.UNCONFIRMED)

    return vouch


def _with_merged(
    evidence: Evidence, changed: Sequence[Changed], memory: Mapping[str, Source]
) -> Evidence:
    """The evidence, and as the person's own words the confirmed lines in whose place a batch puts
    others: each for itself, and together if all of a place are confirmed and one line replaces them.
    """
    messages = list[list[str]]()
    for change in changed:
        old = entries(change.key, change.before)
        new = entries(change.key, change.after)
        for place in places(old, new):
            confirmed = list[str]()
            for entry in place.taken:
                if memory.get(entry) is Source.CONFIRMED:
                    text = text_of(entry)
                    confirmed.append(text)
                    messages.append([text])
            are_all_confirmed = len(confirmed) == len(place.taken)
            is_one_line = len(place.put) == 1
            if is_one_line and are_all_confirmed:
                messages.append(confirmed)
    return evidence.with_own(*messages)


def unconfirmed(changed: Sequence[Changed], sources: Sources) -> Findings:
    """The new lines that nobody vouches for; of a JSON file its first such value. Blocks."""
    findings = Findings()
    for change in changed:
        by_entry = sources.get(change.path, {})
        doubtful = _doubtful_entries(by_entry)
        if not doubtful:
            continue
        if change.path.endswith(".json"):
            first_value = text_of(doubtful[0])
            lines = [first_value]
        else:
            lines = _lines_with(doubtful, change.after)
        for line in lines:
            place = (change.path, key_of(line))
            findings[place] = line
    return findings


def _doubtful_entries(sources: Mapping[str, Source]) -> list[str]:
    """The entries that nobody vouches for, of these sources by entry."""
    doubtful = list[str]()
    for entry, source in sources.items():
        if source is Source.UNCONFIRMED:
            doubtful.append(entry)
    return doubtful


def _lines_with(wanted: Collection[str], text: str) -> list[str]:
    """The lines of a text that have these entries."""
    lines = list[str]()
    for raw_line in text.split("\n"):
        if entry_of(raw_line) in wanted:
            line = raw_line.strip()
            lines.append(line)
    return lines


# --- Lines of memory that the person says now


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
    confirmed = await platform.in_thread(_confirmed_now, draft.evidence, files)
    folder = Folder(
        memory.deployment, memory.store, memory.files, "/memories", draft.author, memory.began
    )
    for key, entries_of_file in confirmed.items():
        vouch = _vouch_confirming(entries_of_file)
        await folder.change(key, _unchanged, is_bounded=False, vouch=vouch)


def _confirmed_now(evidence: Evidence, files: Sequence[Item]) -> dict[str, set[str]]:
    """The unconfirmed entries of files that the person said now, by key. Blocks."""
    known = sources_of_files(files)
    vouch = evidence.vouch(known)
    confirmed = dict[str, set[str]]()
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
            confirmed[item.key] = entries_here
    return confirmed


def _vouch_confirming(confirmed: Collection[str]) -> Vouch:
    """The `Vouch` that confirms these entries, and leaves others as they are."""

    def vouch(entry: str, known: Source | None) -> Source:
        if entry in confirmed:
            return Source.CONFIRMED
        return known or Source.INFERRED

    return vouch


def _unchanged(before: FileData | None) -> FileData | None:
    """A change of a file that leaves it as it is, for a revision that only changes its sources."""
    return before
