"""Who vouches for what a batch adds: its conversations, or what it merged, never its model.

An *entry* is a line of a text, or a value of a JSON object (`memory/entries.py`), and its *source*
says who vouches for it (`Source`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from lasting_memory.consolidation.changed_places import places
from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.facts import Findings, line_words_of
from lasting_memory.deployment import Source
from lasting_memory.memory.entries import entries, entry_of, text_of
from lasting_memory.memory.proposals import Changed, Proposal, Sources, added_sources
from lasting_memory.memory.vouches import Vouch
from lasting_memory.vouching import Evidence


def sources_now(files: Mapping[str, Source], proposals: Iterable[Proposal]) -> dict[str, Source]:
    """The sources of memory's entries, by entry: of those in files, and of those that are only
    proposed.
    """
    sources = dict[str, Source]()
    for proposal in proposals:
        for sources_of_path in proposal.sources.values():
            sources.update(sources_of_path)
    sources.update(files)
    return sources


def sources_of_changes(
    draft: Draft, batch_changes: Sequence[Changed], memory: Mapping[str, Source]
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
        evidence = _with_merged(draft.evidence, batch_changes, memory)
        vouch = evidence.vouch(memory)
    sources = dict[str, dict[str, Source]]()
    for change in draft.with_earlier_parts(batch_changes):
        sources[change.path] = added_sources(change, vouch)
    return sources


def _vouch_for_text(memory: Mapping[str, Source]) -> Vouch:
    """The `Vouch` of a text that was brought: what memory does not have is unconfirmed."""

    def vouch(entry: str, known_source: Source | None) -> Source:
        if known_source:
            return known_source
        return memory.get(entry, Source.UNCONFIRMED)

    return vouch


def _with_merged(
    evidence: Evidence, batch_changes: Sequence[Changed], memory: Mapping[str, Source]
) -> Evidence:
    """The evidence, and as the person's own words the confirmed lines in whose place a batch puts
    others: each for itself, and together if all of a place are confirmed and one line replaces them.
    """
    messages = list[list[str]]()
    for change in batch_changes:
        entries_before = entries(change.key, change.before)
        entries_after = entries(change.key, change.after)
        for place in places(entries_before, entries_after):
            confirmed_texts = list[str]()
            for entry in place.old_lines:
                if memory.get(entry) is Source.CONFIRMED:
                    text = text_of(entry)
                    confirmed_texts.append(text)
                    messages.append([text])
            are_all_confirmed = len(confirmed_texts) == len(place.old_lines)
            is_one_line = len(place.new_lines) == 1
            if is_one_line and are_all_confirmed:
                messages.append(confirmed_texts)
    return evidence.with_own(*messages)


def unconfirmed(batch_changes: Sequence[Changed], sources: Sources) -> Findings:
    """The new lines that nobody vouches for; of a JSON file its first such value. Blocks."""
    findings = Findings()
    for change in batch_changes:
        sources_of_path = sources.get(change.path, {})
        doubtful_entries = _doubtful_entries(sources_of_path)
        if not doubtful_entries:
            continue
        if change.path.endswith(".json"):
            first_value = text_of(doubtful_entries[0])
            lines = [first_value]
        else:
            lines = _lines_with(doubtful_entries, change.after)
        for line in lines:
            finding_key = (change.path, line_words_of(line))
            findings[finding_key] = line
    return findings


def _doubtful_entries(sources: Mapping[str, Source]) -> list[str]:
    """The entries that nobody vouches for, of these sources by entry."""
    doubtful_entries = list[str]()
    for entry, source in sources.items():
        if source is Source.UNCONFIRMED:
            doubtful_entries.append(entry)
    return doubtful_entries


def _lines_with(searched_entries: Collection[str], text: str) -> list[str]:
    """The lines of a text that have these entries."""
    lines = list[str]()
    for raw_line in text.split("\n"):
        if entry_of(raw_line) in searched_entries:
            line = raw_line.strip()
            lines.append(line)
    return lines
