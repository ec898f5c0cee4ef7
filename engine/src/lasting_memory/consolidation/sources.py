"""Who vouches for what a batch adds: its conversations, or what it merged, never its model."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item

from lasting_memory import platform
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.facts import Findings, key_of
from lasting_memory.deployment import Source
from lasting_memory.memory import journal
from lasting_memory.memory.folder import Folder, sources_of_files
from lasting_memory.memory.journal import edits
from lasting_memory.memory.proposals import Changed, Proposal, Sources, added_sources
from lasting_memory.memory.sources import (
    Vouch,
    entries,
    entry_of,
    signs_in,
    sources_in,
    text_of,
)
from lasting_memory.memory.stored_files import text_of as file_text
from lasting_memory.vouching import Evidence


def sources_now(files: Mapping[str, Source], proposals: Iterable[Proposal]) -> dict[str, Source]:
    """Who vouches for the entries of memory, with what is proposed and not decided."""
    known = dict[str, Source]()
    for proposal in proposals:
        for by_entry in proposal.sources.values():
            known.update(by_entry)
    return {**known, **files}


def sources_of_changes(
    draft: Draft, changed: Sequence[Changed], memory: Mapping[str, Source]
) -> dict[str, dict[str, Source]]:
    """Who vouches for the entries that changes add, by path and entry. `memory` has the entries of
    memory. Blocks.

    A line that merges others is confirmed if one of them, or all that it took the place of, say it
    and were confirmed; one that merges a doubtful one is as doubtful. Of a text that was brought
    nothing is confirmed.
    """
    vouch = _of_a_text(memory)
    if draft.reading is None:
        evidence = _with_merged(draft.evidence, changed, memory)
        vouch = evidence.vouch(memory)
    sources = dict[str, dict[str, Source]]()
    for change in draft.with_earlier_parts(changed):
        sources[change.path] = added_sources(change, vouch)
    return sources


def _of_a_text(memory: Mapping[str, Source]) -> Vouch:
    """The `Vouch` of what a brought text says, and memory does not."""

    def vouch(entry: str, known: Source | None) -> Source:
        return known or memory.get(entry, Source.UNCONFIRMED)

    return vouch


def _with_merged(
    evidence: Evidence, changed: Sequence[Changed], memory: Mapping[str, Source]
) -> Evidence:
    """The evidence, and the person's own lines in whose place a batch puts others."""
    messages = list[list[str]]()
    for change in changed:
        for taken, put in _places(change):
            said = list[str]()
            for entry in taken:
                if memory.get(entry) is Source.CONFIRMED:
                    said.append(text_of(entry))
            for text in said:
                messages.append([text])
            is_all_said = len(said) == len(taken)
            if len(put) == 1 and is_all_said:
                messages.append(said)
    return evidence.with_own(*messages)


def _places(change: Changed) -> Iterator[tuple[list[str], list[str]]]:
    """The entries that are taken out and put in, place by place."""
    old = entries(change.key, change.before)
    new = entries(change.key, change.after)
    for start, end, new_start, new_end in edits(old, new):
        taken = old[start:end]
        put = new[new_start:new_end]
        yield taken, put


def unconfirmed(changed: Sequence[Changed], sources: Sources) -> Findings:
    """The new lines that nobody vouches for. Blocks."""
    found = Findings()
    for change in changed:
        doubtful = list[str]()
        for entry, source in sources.get(change.path, {}).items():
            if source is Source.UNCONFIRMED:
                doubtful.append(entry)
        if not doubtful:
            continue
        if change.path.endswith(".json"):
            text = text_of(doubtful[0])
            found[change.path, key_of(text)] = text
            continue
        for raw_line in change.after.split("\n"):
            if entry_of(raw_line) in doubtful:
                line = raw_line.strip()
                found[change.path, key_of(line)] = line
    return found


async def raise_what_was_said(draft: Draft) -> None:
    """Confirm the unconfirmed lines of memory that the person said in a batch.

    Raises `ValueError` as `Folder.change`.
    """
    memory = draft.memory
    if draft.record.dry_run or draft.reading or not draft.evidence.own_messages:
        return
    files = await journal.all_items(memory.store, memory.files)
    raised = await platform.in_thread(_raised, draft.evidence, files)
    author = draft.author
    folder = Folder(
        memory.deployment, memory.store, memory.files, "/memories", author, memory.began
    )
    for key, said in raised.items():
        vouch = _raising(said)
        await folder.change(key, _unchanged, bounded=False, vouch=vouch)


def _raised(evidence: Evidence, files: Sequence[Item]) -> dict[str, set[str]]:
    """The unconfirmed entries of files that the person said now, by key. Blocks."""
    known = sources_of_files(files)
    vouch = evidence.vouch(known)
    raised = dict[str, set[str]]()
    for item in files:
        content = file_text(item)
        signs = signs_in(item.value)
        said = set[str]()
        for entry, source in sources_in(item.key, content, signs).items():
            # What the assistant concluded counts as it did: no revision is made for that alone.
            if source is not Source.UNCONFIRMED:
                continue
            if vouch(entry, source) is Source.CONFIRMED:
                said.add(entry)
        if said:
            raised[item.key] = said
    return raised


def _raising(said: Collection[str]) -> Vouch:
    def vouch(entry: str, known: Source | None) -> Source:
        if entry in said:
            return Source.CONFIRMED
        return known or Source.INFERRED

    return vouch


def _unchanged(before: FileData | None) -> FileData | None:
    return before
