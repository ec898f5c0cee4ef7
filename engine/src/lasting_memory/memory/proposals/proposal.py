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
            cleaned = change.without(fact)
            if cleaned.changes_something():
                changes.append(cleaned)
        declined = list[Declined]()
        for change, at in self.declined:
            cleaned = change.without(fact)
            if cleaned.after:
                declined.append(Declined(cleaned, at))
        return replace(
            self,
            changes=changes,
            declined=declined,
            reasons=self._reasons_without(fact),
            sources=_without_fact(self.sources, fact),
            origins=_without_fact(self.origins, fact),
        )

    def _reasons_without(self, fact: Fact) -> Reasons:
        """The reasons, without those of lines that say the fact. A reason that quotes it is ""."""
        reasons: Reasons = {}
        for path, by_line in self.reasons.items():
            cleaned = dict[str, str]()
            for line, reason in by_line.items():
                if fact.is_in(line):
                    continue
                quotes_fact = fact.is_quoted(reason)
                cleaned[line] = "" if quotes_fact else reason
            reasons[path] = cleaned
        return reasons

    def without_threads(self, gone: AbstractSet[str]) -> "Proposal":
        """The proposal without what came of these conversations, which were deleted. Blocks.

        A line that goes since another one says it in other words stays in memory then: the other one
        may be of these conversations.
        """
        staying = list[str]()
        for thread_id in self.threads:
            if thread_id not in gone:
                staying.append(thread_id)
        if len(staying) == len(self.threads):
            return self
        lost = self._entries_from(gone)
        changes = list[Changed]()
        for change in self.changes:
            remaining = change
            if lost:
                remaining = self._change_without(change, lost)
            if remaining.changes_something():
                changes.append(remaining)
        return replace(
            self,
            changes=changes,
            threads=staying,
            sources=_without_entries(self.sources, lost),
            origins=self._origins_in(staying, lost),
        )

    def _entries_from(self, gone: AbstractSet[str]) -> dict[str, set[str]]:
        """The entries that came of one of these conversations, by path. A path without any is left
        out.
        """
        places_gone = set[int]()
        for place, thread_id in enumerate(self.threads):
            if thread_id in gone:
                places_gone.add(place)
        lost = dict[str, set[str]]()
        for path, by_entry in self.origins.items():
            for entry, places in by_entry.items():
                is_lost = not places_gone.isdisjoint(places)
                if is_lost:
                    of_path = lost.setdefault(path, set())
                    of_path.add(entry)
        return lost

    def _origins_in(self, staying: Sequence[str], lost: Mapping[str, Collection[str]]) -> Origins:
        """The origins of the entries that are not lost. Their places are those in `staying`, the
        conversations that stay.
        """
        new_places = {thread_id: place for place, thread_id in enumerate(staying)}
        remaining = _without_entries(self.origins, lost)
        origins: Origins = {}
        for path, by_entry in remaining.items():
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

    def _change_without(self, change: Changed, lost: Mapping[str, Collection[str]]) -> Changed:
        """A change without what is lost of its file. `lost` are entries by path."""
        reworded = set[str]()
        reasons = self.reasons.get(change.path, {})
        for line, reason in reasons.items():
            if reason == REWORDED:
                reworded.add(line)
        lost_here = lost.get(change.path, ())
        return change.without_entries(lost_here, reworded)

    def changes_to_decide(
        self, paths: Collection[str], paths_with_lines: Collection[str]
    ) -> list[Changed]:
        """The undecided changes of these files, given by path; all, if none is named.

        `paths_with_lines` are the files of which lines were chosen. Raises `DecidedError` if a named
        file was decided already, or everything was, and `UnknownProposalError` if the proposal does
        not change a file.
        """
        named = set(paths)
        was_decided = not named.isdisjoint(self.decided)
        if was_decided or not self.changes:
            raise DecidedError(f"Proposal {self.id}, or one of these files, was decided already.")
        wanted = list[Changed]()
        for change in self.changes:
            is_wanted = change.path in named or not named
            if is_wanted:
                wanted.append(change)
        wanted_paths = {change.path for change in wanted}
        needed = named.union(paths_with_lines)
        unknown = needed - wanted_paths
        if unknown:
            path = min(unknown)[:80]
            raise UnknownProposalError(f"Proposal {self.id} changes no file {path!r}.")
        return wanted

    def decided_about(
        self, changes: Sequence[Changed], taken: Mapping[str, str], at: str, *, accepted: bool
    ) -> "Proposal":
        """The proposal after a decision about some of its changes.

        `taken` is what became of accepted files, by path; what it lacks of a change was declined,
        at this time.
        """
        paths = {change.path for change in changes}
        paths_decided = paths.union(self.decided)
        paths_accepted = set(self.accepted)
        if accepted:
            paths_accepted |= paths
        declined = self.declined.copy()
        for change in changes:
            text = taken.get(change.path, change.before)
            rest = change.beyond(text)
            if rest.after:
                declined.append(Declined(rest, at))
        undecided = list[Changed]()
        for change in self.changes:
            if change not in changes:
                undecided.append(change)
        return replace(
            self,
            changes=undecided,
            decided=sorted(paths_decided),
            accepted=sorted(paths_accepted),
            declined=declined,
        )

    def with_change(
        self, key: str, changed: Changed | None, added: Mapping[str, Source]
    ) -> "Proposal":
        """The proposal with another change of a file, or none; the file is undecided then. `added`
        says who vouches for its new entries.
        """
        path = f"/memories{key}"
        changes = list[Changed]()
        for change in self.changes:
            if change.key != key:
                changes.append(change)
        sources = self.sources.copy()
        sources.pop(path, None)
        if changed:
            changes.append(changed)
        if changed and added:
            sources[path] = dict(added)
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
        unconfirmed = dict[str, list[int]]()
        for change in self.changes:
            lines[change.path] = self._shown_lines(change)
            numbers = self._unconfirmed_lines(change)
            if numbers:
                unconfirmed[change.path] = numbers
        shown: ShownProposal = {
            "id": self.id,
            "at": self.at,
            "kind": self.kind,
            "threads": self.threads,
            "files": diffs(self.changes),
            "lines": lines,
        }
        if unconfirmed:
            shown["unconfirmed"] = unconfirmed
        return shown

    def _shown_lines(self, change: Changed) -> list[ShownLine]:
        """The changed lines of a file, each with its number and why it goes."""
        reasons = self.reasons.get(change.path, {})
        shown_lines = list[ShownLine]()
        for number, (sign, text) in enumerate(change.lines()):
            said = text.strip()
            reason = reasons.get(said, "")
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

    def after_decisions(self, seen: "Proposal | None", at: str) -> "Proposal":
        """A proposal of its own with what this one changes beyond `seen`, the one that it goes on
        from, about which the person decided at this time. None: it goes on from none.
        """
        seen_changes = seen.changes if seen else []
        changes = _changes_beyond(self.changes, seen_changes)
        own_id = f"{self.id}-{at}"
        undecided = replace(self, changes=changes, decided=[], declined=[])
        return replace(undecided, id=own_id, at=at)


def _without_fact(
    by_path: Mapping[str, Mapping[str, Value]], fact: Fact
) -> dict[str, dict[str, Value]]:
    """A table by path and entry, without the entries that say a fact."""
    saying = dict[str, set[str]]()
    for path, by_entry in by_path.items():
        saying_here = set[str]()
        for entry in by_entry:
            text = text_of(entry)
            if fact.is_in(text):
                saying_here.add(entry)
        saying[path] = saying_here
    return _without_entries(by_path, saying)


def _without_entries(
    by_path: Mapping[str, Mapping[str, Value]], lost: Mapping[str, Collection[str]]
) -> dict[str, dict[str, Value]]:
    """A table by path and entry, without the entries that are lost, which are given by path."""
    remaining = dict[str, dict[str, Value]]()
    for path, by_entry in by_path.items():
        lost_here = lost.get(path, ())
        remaining_here = dict[str, Value]()
        for entry, value in by_entry.items():
            if entry not in lost_here:
                remaining_here[entry] = value
        remaining[path] = remaining_here
    return remaining


def _without_path(paths: Iterable[str], path: str) -> list[str]:
    return [other for other in paths if other != path]


def _changes_beyond(changes: Sequence[Changed], earlier: Sequence[Changed]) -> list[Changed]:
    """What these changes change beyond the earlier ones, which they contain."""
    earlier_texts = {change.key: change.after for change in earlier}
    beyond = list[Changed]()
    for change in changes:
        before = earlier_texts.get(change.key, change.before)
        if before != change.after:
            further = replace(change, before=before)
            beyond.append(further)
    return beyond
