"""A proposal: changes that wait for their person, and what is known of those that were decided.

A change is undecided until its person accepts or declines it; then its path is decided. Of what they
decline the proposal keeps the text, so that it is not proposed again. An entry is what a line says
without its marks, or a value of a JSON file.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import NamedTuple, NotRequired, TypedDict, TypeVar

from lasting_memory.deployment import Limits, Source
from lasting_memory.memory import journal
from lasting_memory.memory.entries import entry_of, text_of
from lasting_memory.memory.one_fact import Fact
from lasting_memory.memory.proposals.changes import Changed, diffs
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people.identity import StoredAuthor

# Why a line goes that another one says in other words, in the word for which the page has a sentence.
REWORDED = "reworded"
# What a table says of an entry.
Value = TypeVar("Value")
# By path and line, why a change takes the line out: a word, or the sentence of a model.
Reasons = dict[str, dict[str, str]]
# By path and entry, the conversations that an entry is from, as their places in `threads`.
Origins = dict[str, dict[str, list[int]]]


class UnknownProposalError(RefusedWrite):
    """No proposal has this id, or it changes no such file."""


class DecidedError(RefusedWrite):
    """The person decided about this before."""


class Declined(NamedTuple):
    """What was declined of a change, and when, in ISO format, UTC."""

    change: Changed
    at: str


class ShownLine(TypedDict):
    """A changed line as its person sees it: its number, "-" or "+", and why it goes."""

    line: int
    sign: str
    text: str
    reason: str


class ShownProposal(TypedDict):
    """A proposal as its person sees it. By path: the files' diffs, their changed lines, and the
    numbers of lines that nobody vouches for.
    """

    id: str
    at: str
    kind: str
    threads: list[str]
    files: dict[str, str]
    lines: dict[str, list[ShownLine]]
    unconfirmed: NotRequired[dict[str, list[int]]]


class WholeChange(TypedDict):
    """A change as an export has it: a file's whole text before and after."""

    path: str
    before: str
    after: str
    deleted: bool


class Outcome(TypedDict):
    """What became of a proposal: by path "accepted" or "declined"."""

    id: str
    at: str
    threads: list[str]
    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Changes that wait for their person, for revisions of this author.

    It is an item of its own, which also keeps what was declined of it. The agent's writes of one
    run are one proposal. Others' changes since it was made stay. A newer one assumes that the older
    ones are accepted.
    """

    id: str
    at: str
    memory: str  # the last part of the files' namespace
    author: StoredAuthor
    changes: list[Changed]  # the undecided ones
    threads: list[str]
    decided: list[str] = field(default_factory=list)  # paths
    # Those of the decided paths of which the person took something.
    accepted: list[str] = field(default_factory=list)
    declined: list[Declined] = field(default_factory=list)
    # A `ProposalKind`. One that only a newer version knows can be read and erased all the same.
    kind: str = "conversations"
    reasons: Reasons = field(default_factory=dict)
    # Who vouches for what it adds, by path and entry. To accept it does not raise that.
    sources: dict[str, dict[str, Source]] = field(default_factory=dict)
    # Of a dream, which is made of many conversations.
    origins: Origins = field(default_factory=dict)

    def is_empty(self) -> bool:
        """Whether nothing waits, and nothing is known of a decision."""
        has_something = self.changes or self.decided or self.declined
        return not has_something

    def fits(self, limits: Limits) -> bool:
        """Whether its changes are no more than a memory may hold."""
        if len(self.changes) > limits.max_files:
            return False
        size = 0
        for change in self.changes:
            content = change.after.encode()
            size += len(content)
        return size <= limits.max_bytes

    def work(self) -> int:
        """How much is compared to show it, as `journal.comparison_cost` counts it. Blocks."""
        total = 0
        for change in self.changes:
            once = journal.comparison_cost(change.before, change.after)
            total += 2 * once  # as a diff, and as lines
        return total

    def without(self, fact: Fact) -> "Proposal":
        """The proposal, and what was declined of it, without a fact. Blocks."""
        changes = list[Changed]()
        for change in self.changes:
            clean_change = change.without(fact)
            if clean_change.changes_something():
                changes.append(clean_change)
        declined_parts = list[Declined]()
        for change, at in self.declined:
            clean_change = change.without(fact)
            if clean_change.after:
                declined_parts.append(Declined(clean_change, at))
        return replace(
            self,
            changes=changes,
            declined=declined_parts,
            reasons=self._reasons_without(fact),
            sources=_without_fact(self.sources, fact),
            origins=_without_fact(self.origins, fact),
        )

    def _reasons_without(self, fact: Fact) -> Reasons:
        """The reasons, without those of lines that say the fact. A reason that quotes it is ""."""
        reasons: Reasons = {}
        for path, by_line in self.reasons.items():
            clean_reasons = dict[str, str]()
            for line, reason in by_line.items():
                if fact.is_in(line):
                    continue
                quotes_fact = fact.is_quoted(reason)
                clean_reasons[line] = "" if quotes_fact else reason
            reasons[path] = clean_reasons
        return reasons

    def without_threads(self, deleted_threads: AbstractSet[str]) -> "Proposal":
        """The proposal without what came of these conversations, which were deleted. Blocks.

        A line that goes since another one says it in other words stays in memory then: the other one
        may be of these conversations.
        """
        staying_threads = list[str]()
        for thread_id in self.threads:
            if thread_id not in deleted_threads:
                staying_threads.append(thread_id)
        if len(staying_threads) == len(self.threads):
            return self
        lost_entries = self._entries_from(deleted_threads)
        changes = list[Changed]()
        for change in self.changes:
            remaining_change = change
            if lost_entries:
                remaining_change = self._change_without(change, lost_entries)
            if remaining_change.changes_something():
                changes.append(remaining_change)
        return replace(
            self,
            changes=changes,
            threads=staying_threads,
            sources=_without_entries(self.sources, lost_entries),
            origins=self._origins_in(staying_threads, lost_entries),
        )

    def _entries_from(self, deleted_threads: AbstractSet[str]) -> dict[str, set[str]]:
        """The entries that came of one of these conversations, by path. A path without any is left
        out.
        """
        places_gone = set[int]()
        for place, thread_id in enumerate(self.threads):
            if thread_id in deleted_threads:
                places_gone.add(place)
        lost_entries = dict[str, set[str]]()
        for path, by_entry in self.origins.items():
            for entry, places in by_entry.items():
                is_lost = not places_gone.isdisjoint(places)
                if is_lost:
                    of_path = lost_entries.setdefault(path, set())
                    of_path.add(entry)
        return lost_entries

    def _origins_in(
        self, staying_threads: Sequence[str], lost_entries: Mapping[str, Collection[str]]
    ) -> Origins:
        """The origins of the entries that are not lost. Their places are those in
        `staying_threads`, the conversations that stay.
        """
        new_places = {thread_id: place for place, thread_id in enumerate(staying_threads)}
        remaining_origins = _without_entries(self.origins, lost_entries)
        origins: Origins = {}
        for path, by_entry in remaining_origins.items():
            of_path = dict[str, list[int]]()
            for entry, places in by_entry.items():
                of_entry = list[int]()
                for place in places:
                    thread_id = self.threads[place]
                    new_place = new_places[thread_id]
                    of_entry.append(new_place)
                of_path[entry] = of_entry
            origins[path] = of_path
        return origins

    def _change_without(
        self, change: Changed, lost_entries: Mapping[str, Collection[str]]
    ) -> Changed:
        """A change without what is lost of its file. `lost_entries` are entries by path."""
        reworded_lines = set[str]()
        reasons = self.reasons.get(change.path, {})
        for line, reason in reasons.items():
            if reason == REWORDED:
                reworded_lines.add(line)
        lost_here = lost_entries.get(change.path, ())
        return change.without_entries(lost_here, reworded_lines)

    def changes_to_decide(
        self, paths: Collection[str], paths_with_lines: Collection[str]
    ) -> list[Changed]:
        """The undecided changes of these files, given by path; all, if none is named.

        `paths_with_lines` are the files of which lines were chosen. Raises `DecidedError` if a named
        file was decided already, or everything was, and `UnknownProposalError` if the proposal does
        not change a file.
        """
        named_paths = set(paths)
        was_decided = not named_paths.isdisjoint(self.decided)
        if was_decided or not self.changes:
            raise DecidedError(f"Proposal {self.id}, or one of these files, was decided already.")
        changes = list[Changed]()
        for change in self.changes:
            is_to_decide = change.path in named_paths or not named_paths
            if is_to_decide:
                changes.append(change)
        changed_paths = {change.path for change in changes}
        needed_paths = named_paths.union(paths_with_lines)
        unknown_paths = needed_paths - changed_paths
        if unknown_paths:
            path = min(unknown_paths)[:80]
            raise UnknownProposalError(f"Proposal {self.id} changes no file {path!r}.")
        return changes

    def decided_about(
        self,
        changes: Sequence[Changed],
        accepted_texts: Mapping[str, str],
        at: str,
        *,
        is_accepted: bool,
    ) -> "Proposal":
        """The proposal after a decision about some of its changes.

        `accepted_texts` is what became of accepted files, by path; what it lacks of a change was
        declined, at this time.
        """
        paths = {change.path for change in changes}
        paths_decided = paths.union(self.decided)
        paths_accepted = set(self.accepted)
        if is_accepted:
            paths_accepted |= paths
        declined_parts = self.declined.copy()
        for change in changes:
            text = accepted_texts.get(change.path, change.before)
            declined_part = change.beyond(text)
            if declined_part.after:
                declined_parts.append(Declined(declined_part, at))
        undecided_changes = list[Changed]()
        for change in self.changes:
            if change not in changes:
                undecided_changes.append(change)
        return replace(
            self,
            changes=undecided_changes,
            decided=sorted(paths_decided),
            accepted=sorted(paths_accepted),
            declined=declined_parts,
        )

    def with_change(
        self, key: str, new_change: Changed | None, new_sources: Mapping[str, Source]
    ) -> "Proposal":
        """The proposal with another change of a file, or none; the file is undecided then.
        `new_sources` say who vouches for its new entries.
        """
        path = f"/memories{key}"
        changes = list[Changed]()
        for change in self.changes:
            if change.key != key:
                changes.append(change)
        sources = self.sources.copy()
        sources.pop(path, None)
        if new_change:
            changes.append(new_change)
        if new_change and new_sources:
            sources[path] = dict(new_sources)
        return replace(
            self,
            sources=sources,
            changes=changes,
            decided=_without_path(self.decided, path),
            accepted=_without_path(self.accepted, path),
        )

    def shown(self) -> ShownProposal:
        """As its person sees it: changes as diffs, and as lines with their numbers. Blocks."""
        lines = dict[str, list[ShownLine]]()
        unconfirmed_numbers = dict[str, list[int]]()
        for change in self.changes:
            lines[change.path] = self._shown_lines(change)
            numbers = self._unconfirmed_lines(change)
            if numbers:
                unconfirmed_numbers[change.path] = numbers
        shown_proposal: ShownProposal = {
            "id": self.id,
            "at": self.at,
            "kind": self.kind,
            "threads": self.threads,
            "files": diffs(self.changes),
            "lines": lines,
        }
        if unconfirmed_numbers:
            shown_proposal["unconfirmed"] = unconfirmed_numbers
        return shown_proposal

    def _shown_lines(self, change: Changed) -> list[ShownLine]:
        """The changed lines of a file, each with its number and why it goes."""
        reasons = self.reasons.get(change.path, {})
        shown_lines = list[ShownLine]()
        for number, (sign, text) in enumerate(change.lines()):
            line_text = text.strip()
            reason = reasons.get(line_text, "")
            shown_lines.append({"line": number, "sign": sign, "text": text, "reason": reason})
        return shown_lines

    def _unconfirmed_lines(self, change: Changed) -> list[int]:
        """The numbers of the lines that a change puts in and nobody vouches for."""
        sources = self.sources.get(change.path, {})
        numbers = list[int]()
        for number, line in enumerate(change.lines()):
            if line.sign == "-":
                continue
            entry = entry_of(line.text)
            if sources.get(entry) is Source.UNCONFIRMED:
                numbers.append(number)
        return numbers

    def outcome(self) -> Outcome:
        """What became of the files that are decided."""
        files = dict[str, str]()
        for path in self.decided:
            is_accepted = path in self.accepted
            files[path] = "accepted" if is_accepted else "declined"
        return {"id": self.id, "at": self.at, "threads": self.threads, "files": files}

    def status(self) -> str:
        """Whether it waits ("proposed"), or else what its person said to it: "accepted" or
        "declined".
        """
        if self.changes:
            return "proposed"
        return "accepted" if self.accepted else "declined"

    def after_decisions(self, base: "Proposal | None", at: str) -> "Proposal":
        """A proposal of its own with what this one changes beyond `base`, the one that it goes on
        from, about which the person decided at this time. None: it goes on from none.
        """
        base_changes = base.changes if base else []
        changes = _changes_beyond(self.changes, base_changes)
        own_id = f"{self.id}-{at}"
        undecided_proposal = replace(self, changes=changes, decided=[], declined=[])
        return replace(undecided_proposal, id=own_id, at=at)


def _without_fact(
    by_path: Mapping[str, Mapping[str, Value]], fact: Fact
) -> dict[str, dict[str, Value]]:
    """A table by path and entry, without the entries that say a fact."""
    entries_of_fact = dict[str, set[str]]()
    for path, by_entry in by_path.items():
        entries_here = set[str]()
        for entry in by_entry:
            text = text_of(entry)
            if fact.is_in(text):
                entries_here.add(entry)
        entries_of_fact[path] = entries_here
    return _without_entries(by_path, entries_of_fact)


def _without_entries(
    by_path: Mapping[str, Mapping[str, Value]], lost_entries: Mapping[str, Collection[str]]
) -> dict[str, dict[str, Value]]:
    """A table by path and entry, without the entries that are lost, which are given by path."""
    remaining_table = dict[str, dict[str, Value]]()
    for path, by_entry in by_path.items():
        lost_here = lost_entries.get(path, ())
        remaining_here = dict[str, Value]()
        for entry, value in by_entry.items():
            if entry not in lost_here:
                remaining_here[entry] = value
        remaining_table[path] = remaining_here
    return remaining_table


def _without_path(paths: Iterable[str], path: str) -> list[str]:
    return [other_path for other_path in paths if other_path != path]


def _changes_beyond(
    changes: Sequence[Changed], earlier_changes: Sequence[Changed]
) -> list[Changed]:
    """What these changes change beyond the earlier ones, which they contain."""
    earlier_texts = {change.key: change.after for change in earlier_changes}
    further_changes = list[Changed]()
    for change in changes:
        text_before = earlier_texts.get(change.key, change.before)
        if text_before != change.after:
            further_change = replace(change, before=text_before)
            further_changes.append(further_change)
    return further_changes
