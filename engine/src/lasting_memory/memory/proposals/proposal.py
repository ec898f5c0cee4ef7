"""A proposal: changes that wait for their person, and what is stored of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from langgraph.store.base import BaseStore, Item, PutOp
from pydantic import SkipValidation, TypeAdapter, ValidationError

from lasting_memory import platform
from lasting_memory.deployment import Limits, Source
from lasting_memory.memory import journal
from lasting_memory.memory.journal import Began
from lasting_memory.memory.one_fact import Fact
from lasting_memory.memory.proposals.changes import Changed, diffs
from lasting_memory.memory.proposals.proposal_kinds import ProposalKind, rules_of
from lasting_memory.memory.sources import entry_of, text_of
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, StoredAuthor
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import lock_of

# Why a line goes that another one says in other words, in the word for which the page has a sentence.
REWORDED = "reworded"
# What is known of an entry.
Known = TypeVar("Known")


class UnknownProposalError(RefusedWrite):
    """No proposal has this id, or it changes no such file."""


class DecidedError(RefusedWrite):
    """The person decided about this before."""


class Declined(NamedTuple):
    """What was declined of a change, and when, in ISO format, UTC."""

    change: Changed
    at: str


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
    accepted: list[str] = field(
        default_factory=list
    )  # those of them of which the person took something
    declined: list[Declined] = field(default_factory=list)
    # Not checked when it is read: a proposal of a kind that only a newer version has can be erased.
    kind: SkipValidation[ProposalKind] = "conversations"
    reasons: dict[str, dict[str, str]] = field(
        default_factory=dict
    )  # why a line goes, by path and line
    # Who vouches for what it adds, by path and entry. To accept it does not raise that.
    sources: dict[str, dict[str, Source]] = field(default_factory=dict)
    # Of a dream: the conversations that an entry is from, as their places in `threads`, by path and
    # entry.
    origins: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def fits(self, limits: Limits) -> bool:
        """Whether its changes are no more than a memory may hold."""
        size = 0
        for change in self.changes:
            size += len(change.after.encode())
        return len(self.changes) <= limits.max_files and size <= limits.max_bytes

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
            if cleaned.deleted or cleaned.before != cleaned.after:
                changes.append(cleaned)
        declined = list[Declined]()
        for each in self.declined:
            cleaned = each.change.without(fact)
            if cleaned.after:
                declined.append(Declined(cleaned, each.at))
        return replace(
            self,
            changes=changes,
            declined=declined,
            reasons=self._reasons_without(fact),
            sources=_entries_without(self.sources, fact),
            origins=_entries_without(self.origins, fact),
        )

    def _reasons_without(self, fact: Fact) -> dict[str, dict[str, str]]:
        """A reason that quotes the fact is "", and that of a line that says it goes."""
        reasons = dict[str, dict[str, str]]()
        for path, by_line in self.reasons.items():
            reasons[path] = {}
            for line, why in by_line.items():
                if not fact.is_in(line):
                    reasons[path][line] = "" if fact.is_quoted(why) else why
        return reasons

    def without_threads(self, gone: AbstractSet[str]) -> "Proposal":
        """The proposal without what came of these conversations, which were deleted. Blocks.

        What a line in other words would take out stays: they may be gone with these.
        """
        staying = [thread_id for thread_id in self.threads if thread_id not in gone]
        if len(staying) == len(self.threads):
            return self
        lost = self._entries_from(gone)
        changes = list[Changed]()
        for change in self.changes:
            of_path = lost.get(change.path, set())
            left = self._change_without(change, of_path) if lost else change
            if left.deleted or left.before != left.after:
                changes.append(left)
        return replace(
            self,
            changes=changes,
            threads=staying,
            sources=_without_entries(self.sources, lost),
            origins=self._origins_in(staying, lost),
        )

    def _entries_from(self, gone: AbstractSet[str]) -> dict[str, set[str]]:
        """The entries that came of one of these conversations, by path; no path without any."""
        lost = dict[str, set[str]]()
        for path, by_entry in self.origins.items():
            for entry, places in by_entry.items():
                of_entry = {self.threads[place] for place in places}
                if not gone.isdisjoint(of_entry):
                    lost.setdefault(path, set()).add(entry)
        return lost

    def _origins_in(
        self, staying: Sequence[str], lost: Mapping[str, Collection[str]]
    ) -> dict[str, dict[str, list[int]]]:
        """The origins of what is not lost, as places in the conversations that stay."""
        numbers = {thread_id: number for number, thread_id in enumerate(staying)}
        origins = dict[str, dict[str, list[int]]]()
        for path, by_entry in _without_entries(self.origins, lost).items():
            origins[path] = {}
            for entry, places in by_entry.items():
                origins[path][entry] = [numbers[self.threads[place]] for place in places]
        return origins

    def _change_without(self, change: Changed, lost: Collection[str]) -> Changed:
        reasons = self.reasons.get(change.path, {})
        reworded = {line for line, why in reasons.items() if why == REWORDED}
        return change.without_entries(lost, reworded)

    def wanted(self, paths: Collection[str], with_lines: Collection[str]) -> list[Changed]:
        """The undecided changes of these files, given by path; all, if none is named.

        `with_lines` are files of which lines were chosen. Raises `DecidedError` if one was decided
        already, and `UnknownProposalError` if this does not change one.
        """
        named = set(paths)
        if not self.changes or not named.isdisjoint(self.decided):
            raise DecidedError(f"Proposal {self.id}, or one of these files, was decided already.")
        wanted = self.changes.copy()
        if named:
            wanted = [change for change in self.changes if change.path in named]
        known = {change.path for change in wanted}
        unknown = named.union(with_lines) - known
        if unknown:
            raise UnknownProposalError(f"Proposal {self.id} changes no file {min(unknown)[:80]!r}.")
        return wanted

    def decided_about(
        self, changes: Sequence[Changed], taken: Mapping[str, str], at: str, *, accepted: bool
    ) -> "Proposal":
        """The proposal after a decision about some of its changes.

        `taken` is what became of accepted files, by path; what it lacks of a change was declined,
        at this time.
        """
        paths_decided = set(self.decided)
        paths_accepted = set(self.accepted)
        declined = self.declined.copy()
        for change in changes:
            paths_decided.add(change.path)
            if accepted:
                paths_accepted.add(change.path)
            text = taken.get(change.path, change.before)
            rest = change.beyond(text)
            if rest.after:
                declined.append(Declined(rest, at))
        undecided = [change for change in self.changes if change not in changes]
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
        changes = [change for change in self.changes if change.key != key]
        sources = self.sources.copy()
        sources.pop(path, None)
        if changed:
            changes.append(changed)
            if added:
                sources[path] = dict(added)
        return replace(
            self,
            sources=sources,
            changes=changes,
            decided=_without_path(self.decided, path),
            accepted=_without_path(self.accepted, path),
        )

    def shown(self) -> dict[str, Any]:
        """As its person sees it: changes as diffs, and as lines with their numbers. Blocks."""
        lines = dict[str, list[dict[str, Any]]]()
        unconfirmed = dict[str, list[int]]()
        for change in self.changes:
            lines[change.path] = self._shown_lines(change)
            numbers = self._unconfirmed_lines(change)
            if numbers:
                unconfirmed[change.path] = numbers
        return {
            "id": self.id,
            "at": self.at,
            "kind": self.kind,
            "threads": self.threads,
            "files": diffs(self.changes),
            "lines": lines,
            **({"unconfirmed": unconfirmed} if unconfirmed else {}),
        }

    def _shown_lines(self, change: Changed) -> list[dict[str, Any]]:
        reasons = self.reasons.get(change.path, {})
        shown = list[dict[str, Any]]()
        for number, (sign, text) in enumerate(change.lines()):
            reason = reasons.get(text.strip(), "")
            shown.append({"line": number, "sign": sign, "text": text, "reason": reason})
        return shown

    def _unconfirmed_lines(self, change: Changed) -> list[int]:
        """The numbers of the lines that a change puts in and nobody vouches for."""
        sources = self.sources.get(change.path, {})
        numbers = list[int]()
        for number, (sign, text) in enumerate(change.lines()):
            source = sources.get(entry_of(text))
            if sign == "+" and source is Source.UNCONFIRMED:
                numbers.append(number)
        return numbers

    def outcome(self) -> dict[str, Any]:
        """What became of the files that are decided."""
        files = dict[str, str]()
        for path in self.decided:
            files[path] = "accepted" if path in self.accepted else "declined"
        return {"id": self.id, "at": self.at, "threads": self.threads, "files": files}

    def status(self) -> str:
        """Whether it waits ("proposed"), or else what its person said to it: "accepted" or
        "declined".
        """
        if self.changes:
            return "proposed"
        return "accepted" if self.accepted else "declined"

    def after_decisions(self, seen: "Proposal | None", at: str) -> "Proposal":
        """What this changes beyond the one that it goes on from, as a proposal of its own: the
        person decided about that one at this time.
        """
        changes = _changes_beyond(self.changes, seen.changes if seen else [])
        own_id = f"{self.id}-{at}"
        return replace(self, id=own_id, at=at, changes=changes, decided=[], declined=[])


def _entries_without(
    by_path: Mapping[str, Mapping[str, Known]], fact: Fact
) -> dict[str, dict[str, Known]]:
    """What is known of entries, by path and entry, but of those that say a fact."""
    found = dict[str, dict[str, Known]]()
    for path, by_entry in by_path.items():
        found[path] = {}
        for entry, known in by_entry.items():
            if not fact.is_in(text_of(entry)):
                found[path][entry] = known
    return found


def _without_entries(
    by_path: Mapping[str, Mapping[str, Known]], lost: Mapping[str, Collection[str]]
) -> dict[str, dict[str, Known]]:
    """What is known of entries, by path and entry, but of those that are lost."""
    found = dict[str, dict[str, Known]]()
    for path, by_entry in by_path.items():
        of_path = lost.get(path, ())
        found[path] = {entry: known for entry, known in by_entry.items() if entry not in of_path}
    return found


def _without_path(paths: Iterable[str], path: str) -> list[str]:
    return [other for other in paths if other != path]


def _changes_beyond(changes: Sequence[Changed], earlier: Sequence[Changed]) -> list[Changed]:
    """What these changes change beyond the earlier ones, which they contain."""
    known = {change.key: change.after for change in earlier}
    beyond = list[Changed]()
    for change in changes:
        before = known.get(change.key, change.before)
        if before != change.after:
            beyond.append(replace(change, before=before))
    return beyond


# --- In the store


_PROPOSALS = TypeAdapter(Proposal)


async def put_proposal(place: Namespace, proposal: Proposal) -> PutOp:
    """The operation that puts a proposal into a person's namespace of proposals."""
    value = await platform.in_thread(_PROPOSALS.dump_python, proposal, mode="json")
    return PutOp(place, proposal.id, value, index=False)


async def all_proposals(store: BaseStore, actor: Actor) -> list[Proposal]:
    """A person's proposals in all their memories, with those that were decided, oldest first. A
    damaged one is left out.
    """
    items = await journal.all_items(store, namespaces.proposals(actor))
    return await proposals_in(items)


async def drop_threads(store: BaseStore, actor: Actor, gone: Collection[str]) -> None:
    """Take what came of these conversations, which were deleted, out of a person's proposals that
    end with them (`KindRules.ends_with_conversations`).
    """
    place = namespaces.proposals(actor)
    began = Began(actor)
    ids = set(gone)
    for touched in await all_proposals(store, actor):
        if ids.isdisjoint(touched.threads):
            continue
        async with lock_of("deciding", touched.id):
            proposal = with_id(await all_proposals(store, actor), touched.id)
            if proposal is None or not proposal.changes:
                continue
            if not rules_of(proposal.kind).ends_with_conversations:
                continue
            left = await platform.in_thread(proposal.without_threads, ids)
            is_anything_left = bool(left.changes or left.decided or left.declined)
            op = PutOp(place, proposal.id, None)
            if is_anything_left:
                op = await put_proposal(place, left)
            await journal.put_unless_forgotten(store, [op], began)


async def proposals_in(items: Iterable[Item]) -> list[Proposal]:
    """The proposals in a person's items, oldest first. A damaged one is left out."""
    known = list[Proposal]()
    for item in items:
        with suppress(ValidationError):
            proposal = await platform.in_thread(_PROPOSALS.validate_python, item.value)
            known.append(proposal)
    return sorted(known, key=lambda proposal: proposal.at)


def with_id(proposals: Iterable[Proposal], proposal_id: str) -> Proposal | None:
    """The proposal of this id; None if there is none."""
    for proposal in proposals:
        if proposal.id == proposal_id:
            return proposal
    return None


def found(proposals: Iterable[Proposal], proposal_id: str) -> Proposal:
    """The proposal of this id. Raises `UnknownProposalError`."""
    proposal = with_id(proposals, proposal_id)
    if proposal is None:
        raise UnknownProposalError(
            f"There is no proposal {proposal_id[:40]!r}; GET /memory/proposals lists them."
        )
    return proposal
