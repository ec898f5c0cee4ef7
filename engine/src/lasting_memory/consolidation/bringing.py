"""What becomes of a text that a person brought: what a run reads of it, and what is proposed.

`brought/` parses the text. A long one has several *parts*, of which each run reads one; all of them
have one proposal. An *entry* is a fact or a message in it. Facts are given by their words
(`facts.py`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from deepagents.backends.protocol import FileData

from lasting_memory.consolidation.brought import Entry, Part, counted, proposal_id
from lasting_memory.consolidation.facts import LineWords, covered, differences
from lasting_memory.consolidation.record import Record
from lasting_memory.consolidation.taken_back import DatedText
from lasting_memory.credentials import find_credential_in_json
from lasting_memory.deployment import Consolidation, Deployment
from lasting_memory.memory.proposals import Changed, Memory, Proposal, texts
from lasting_memory.memory.validation import RefusedWrite, before_write
from lasting_memory.people.identity import Author

# Why a model reads no entry, in the word for which the page has a sentence.
Reason = Literal["known", "taken_back", "credential", "refused"]

# The file for which it is checked whether an entry may be written.
_FILE = "/memories/topics/brought.md"
# Lines of the model's that the text does not say, as the person is told, and characters of each.
_LINES_TOLD = 5
_LINE_CHARS = 200


@dataclass(slots=True)
class Reading:
    """What a run reads of a text that its person brought, and what becomes of it."""

    part: Part
    # The files without what was proposed of this text before, and that proposal.
    base: Mapping[str, FileData]
    earlier_proposal: Proposal | None
    # Ids of undecided proposals of other texts, whose place this one's takes.
    replaced_ids: Sequence[str]
    # The entries that the model reads, and the texts of the others by reason, which is a word for
    # the page.
    entries: Sequence[Entry] = ()
    left_out: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    # What lines of the model's bring back of what was taken back; lines that the text does not say.
    returning_lines: Mapping[LineWords, str] = field(default_factory=dict)
    invented_lines: Sequence[str] = ()
    # What the deployment does not permit (`Consolidation.may`), as the person is told.
    forbidden_sentence: str = ""

    def sort_out(
        self,
        known_facts: Mapping[LineWords, str],
        taken_lines: Mapping[LineWords, DatedText],
        deployment: Deployment,
        author: Author,
    ) -> None:
        """Set `entries` to what the model reads, and note the others in `left_out`. Blocks.

        It reads nothing that memory has (`known_facts`), that was taken back or that may not be
        written.
        """
        entries = list[Entry]()
        for entry in self.part.entries:
            reason = _why_left_out(entry, known_facts, taken_lines, deployment, author)
            if reason:
                self.left_out[reason].append(entry.text)
            else:
                entries.append(entry)
        self.entries = entries

    def with_earlier_parts(self, batch_changes: Sequence[Changed]) -> list[Changed]:
        """These changes with what is proposed of the earlier parts of the text, as changes of the
        files without it.
        """
        texts_before = texts(self.base)
        changes = dict[str, Changed]()
        if self.earlier_proposal:
            for change in self.earlier_proposal.changes:
                changes[change.key] = change
        for change in batch_changes:
            text_before = texts_before.get(change.key, "")
            changes[change.key] = replace(change, before=text_before)
        return list(changes.values())

    def count_proposed(
        self,
        batch_changes: Sequence[Changed],
        memory: Mapping[LineWords, str],
        rules: Consolidation,
    ) -> int:
        """The number of the entries that the changes say. Notes in `left_out` why others are not
        proposed. `memory` has the facts of memory. Blocks.
        """
        lines = dict[LineWords, str]()
        for change in batch_changes:
            _, added_lines = differences(change)
            lines |= added_lines
        unexplained_texts = {entry.line_words: entry.text for entry in self.entries}
        proposed_texts = _take_covered(unexplained_texts, lines, rules)
        taken_texts = _take_covered(unexplained_texts, self.returning_lines, rules)
        known_texts = _take_covered(unexplained_texts, memory, rules)
        left_out = self.left_out
        left_out["taken_back"] += taken_texts
        left_out["known"] += known_texts
        left_out["not_taken"] += unexplained_texts.values()
        return len(proposed_texts)

    async def propose(self, memory: Memory, proposal: Proposal) -> None:
        """Store a proposal with what was proposed of earlier parts, in place of those of other texts.

        Raises `RefusedWrite` if it cannot be stored.
        """
        earlier_proposal = self.earlier_proposal
        if earlier_proposal:
            sources = {**earlier_proposal.sources, **proposal.sources}
            proposal = replace(
                earlier_proposal, changes=proposal.changes, author=proposal.author, sources=sources
            )
        else:
            own_id = proposal_id(self.part.text_id)
            proposal = replace(proposal, id=own_id)
        await memory.propose_instead(proposal, self.replaced_ids, earlier_proposal)

    def answer(self, record: Record) -> dict[str, object]:
        """The record as JSON for the request that waits, which alone is told what was left out: by
        reason under "left_out", and lines that the text does not say under "invented".
        """
        left_out = dict(self.left_out)
        if record.status in {"failed", "undone"}:
            left_out["failed"] = [entry.text for entry in self.entries]
        invented_lines = [line[:_LINE_CHARS] for line in self.invented_lines[:_LINES_TOLD]]
        reasons = filter(None, [record.reason, self.forbidden_sentence])
        return {
            **asdict(record),
            "reason": " ".join(reasons),
            "left_out": counted(left_out),
            "invented": invented_lines,
        }


def _take_covered(
    entries: dict[LineWords, str], lines: Mapping[LineWords, str], rules: Consolidation
) -> list[str]:
    """Take those entries that the lines say out of `entries`. Returns their texts, in order."""
    covered_facts = covered(entries, lines, rules)
    covered_texts = list[str]()
    for line_words, text in entries.items():
        if line_words in covered_facts:
            covered_texts.append(text)
    for line_words in covered_facts:
        del entries[line_words]
    return covered_texts


def _why_left_out(
    entry: Entry,
    known_facts: Mapping[LineWords, str],
    taken_lines: Mapping[LineWords, DatedText],
    deployment: Deployment,
    author: Author,
) -> Reason | None:
    """Why no model reads an entry; None if one does."""
    if entry.line_words in known_facts:
        return "known"
    if entry.line_words in taken_lines:
        return "taken_back"
    if find_credential_in_json(entry.fact):
        return "credential"
    try:
        before_write(deployment, _FILE, f"- {entry.fact}\n", author)
    except RefusedWrite:
        return "refused"
    return None
