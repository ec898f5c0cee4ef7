"""Proposals: changes that consolidation would make, kept until the person decides about each file.

Each memory has one item in the namespace `proposals`. The journal changes it, so each decision is one atomic step. The
conversations of a proposal count as consolidated from its beginning: after a refusal they are not read again. A newer proposal
assumes that the older ones are accepted.

Accepting notes the decision, merges the changes into the files as they are then, and closes the proposal. If the process dies
in between, the next reader of the proposals continues.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from langgraph.store.base import BaseStore, Item

from memory import namespaces
from memory.consolidation.applying import Applicable, apply_change, refusal
from memory.consolidation.kept import KeptValue
from memory.consolidation.taken_back import Declined, added_lines
from memory.identity import Actor
from memory.journal import Began
from memory.namespaces import Namespace
from memory.validation import RefusedWriteError
from settings import MAX_MEMORY_BYTES

# Undecided proposals of a person, at which consolidation stops proposing.
MAX_PROPOSALS = 20
# Ids of decided proposals.
_DECIDED_KEPT = 100
# Declined changes whose lines are known, and characters of all these lines.
_DECLINED_KEPT, _DECLINED_CHARS = 200, 200_000


class UnknownProposalError(RefusedWriteError):
    """No proposal has this id, or it changes no such file."""


class DecidedError(RefusedWriteError):
    """The person decided about this before."""


@dataclass(frozen=True, slots=True)
class Proposal(Applicable):
    """Changes that wait for the person. `changes` are the undecided ones, `at` is the time of the proposal."""

    threads: list[str]  # ids of the conversations they come from
    accepted: dict[str, str] = field(default_factory=dict)  # by path, when a change was accepted that may not be applied yet
    decided: list[str] = field(default_factory=list)  # paths

    def shown(self) -> dict[str, Any]:
        """The proposal for its person. Blocks; call it in a thread."""
        files = {change.path: change.diff() for change in self.changes}
        return {"id": self.id, "at": self.at, "files": files, "threads": self.threads}

    def without(self, paths: Iterable[str]) -> "Proposal":
        """The proposal after a decision about these paths."""
        gone = set(paths)
        return replace(
            self,
            changes=[change for change in self.changes if change.path not in gone],
            accepted={path: at for path, at in self.accepted.items() if path not in gone},
            decided=sorted({*self.decided, *gone}),
        )


@dataclass(frozen=True, slots=True)
class Proposals:
    """A memory's undecided proposals, oldest first, the ids of the last decided ones, and what was declined in them."""

    waiting: list[Proposal] = field(default_factory=list)
    decided: list[str] = field(default_factory=list)
    declined: list[Declined] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether consolidation stops proposing until the person decides."""
        size = sum(len(change.before) + len(change.after) for each in self.waiting for change in each.changes)
        return len(self.waiting) >= MAX_PROPOSALS or size > MAX_MEMORY_BYTES

    def find(self, proposal_id: str) -> Proposal | None:
        return next((each for each in self.waiting if each.id == proposal_id), None)

    def replaced(self, proposal: Proposal) -> "Proposals":
        """With a newer form of one proposal."""
        waiting = [proposal if each.id == proposal.id else each for each in self.waiting]
        over = [each.id for each in waiting if not each.changes]
        left = [each for each in waiting if each.changes]
        return replace(self, waiting=left, decided=[*self.decided, *over][-_DECIDED_KEPT:])

    def with_declined(self, lines: list[str]) -> "Proposals":
        """With the lines of a declined change, so that they do not come back."""
        sizes = accumulate(sum(map(len, each.lines)) for each in reversed(self.declined))
        kept = sum(size < _DECLINED_CHARS for size in sizes)
        older = self.declined[len(self.declined) - min(kept, _DECLINED_KEPT) :]
        return replace(self, declined=[*older, Declined(datetime.now(UTC).isoformat(), lines)])


PROPOSALS = KeptValue(Proposals, Proposals(), namespaces.proposals)


def with_proposals(base: Mapping[str, Item], waiting: Iterable[Proposal]) -> dict[str, Item]:
    """The files with all proposals accepted, without changes that cannot be merged. Blocks; call it in a thread."""
    items = dict(base)
    for change in (change for proposal in waiting for change in proposal.changes):
        try:
            after = change.item(items.get(change.key))
        except ValueError:
            continue
        items.pop(change.key, None)
        if after:
            items[change.key] = after
    return items


async def propose(store: BaseStore, actor: Actor, files: Namespace, proposal: Proposal, began: Began | None) -> None:
    """Keep a proposal, unless it is known already."""

    def kept(now: Proposals) -> Proposals:
        known = proposal.id in now.decided or now.find(proposal.id)
        return now if known else replace(now, waiting=[*now.waiting, proposal])

    await PROPOSALS.change(store, actor, files, kept, began)


async def proposals(store: BaseStore, actor: Actor, files: Namespace, began: Began | None) -> Proposals:
    """A memory's proposals, after applying changes that a dead process had accepted."""
    current = await PROPOSALS.read(store, actor, files)
    dead = [each for each in current.waiting if each.accepted]
    for proposal in dead:
        await _apply(store, actor, files, proposal, began)
    return await PROPOSALS.read(store, actor, files) if dead else current


async def shown_proposals(store: BaseStore, actor: Actor, files: Namespace, began: Began | None) -> list[dict[str, Any]]:
    """The undecided proposals for their person, oldest first."""
    current = await proposals(store, actor, files, began)
    return await asyncio.to_thread(lambda: [each.shown() for each in current.waiting])


async def decide(
    store: BaseStore,
    actor: Actor,
    files: Namespace,
    proposal_id: str,
    *,
    accept: bool,
    paths: Sequence[str] | None,
    began: Began,
) -> dict[str, str]:
    """Accept or decline a proposal, or some of its files; without `paths` all undecided ones. Safe to repeat after a crash.

    Returns:
        By path, the reason why an accepted change was not applied after all. It waits again.

    Raises:
        UnknownProposalError: there is no such proposal, or it has no such file.
        DecidedError: the proposal, or one of the files, was decided before.
        RefusedWriteError: the accepted changes cannot be merged with the present files. Nothing was decided.
    """
    proposal, lines = _undecided(await PROPOSALS.read(store, actor, files), proposal_id, paths), list[str]()
    wanted = [change for change in proposal.changes if paths is None or change.path in paths]
    if not accept:
        lines = await asyncio.to_thread(lambda: [line for change in wanted for line in added_lines(change)])
    elif reason := await refusal(store, files, wanted, proposal.author):
        raise RefusedWriteError(reason)
    outcome: Proposal | RefusedWriteError | None = None

    def decided(now: Proposals) -> Proposals:
        nonlocal outcome
        try:
            outcome = _decided(_undecided(now, proposal_id, paths), paths, accept=accept)
        except RefusedWriteError as error:
            outcome = error
        if isinstance(outcome, RefusedWriteError):
            return now
        return now.replaced(outcome) if accept else now.replaced(outcome).with_declined(lines)

    await PROPOSALS.change(store, actor, files, decided, began)
    if isinstance(outcome, RefusedWriteError):
        raise outcome
    return await _apply(store, actor, files, outcome, began) if accept and outcome else {}


def _undecided(now: Proposals, proposal_id: str, paths: Sequence[str] | None) -> Proposal:
    proposal = now.find(proposal_id)
    if proposal is None:
        if proposal_id in now.decided:
            raise DecidedError(f"Proposal {proposal_id} was decided already.")
        raise UnknownProposalError(f"There is no proposal {proposal_id[:40]!r}; GET /memory/proposals lists them.")
    for path in paths or ():
        if path in proposal.decided:
            raise DecidedError(f"{path} was decided already.")
        if path not in {change.path for change in proposal.changes}:
            raise UnknownProposalError(f"Proposal {proposal_id} changes no file {path[:80]!r}.")
    return proposal


def _decided(proposal: Proposal, paths: Sequence[str] | None, *, accept: bool) -> Proposal:
    """A proposal with a decision noted."""
    chosen = {change.path for change in proposal.changes} if paths is None else set(paths)
    if accept:
        at = datetime.now(UTC).isoformat()
        return replace(proposal, accepted={**dict.fromkeys(chosen, at), **proposal.accepted})
    if begun := chosen & proposal.accepted.keys():
        raise DecidedError(f"{min(begun)} was accepted already.")
    return proposal.without(chosen)


async def _apply(store: BaseStore, actor: Actor, files: Namespace, proposal: Proposal, began: Began | None) -> dict[str, str]:
    """Apply the accepted changes of a proposal, and note that. Returns the reasons of refusals, by path."""
    refused, wanted = dict[str, str](), [change for change in proposal.changes if change.path in proposal.accepted]
    for change in wanted:
        accepted = replace(proposal, at=proposal.accepted[change.path])
        if reason := await apply_change(store, files, accepted, change, began):
            refused[change.path] = reason

    def noted(now: Proposals) -> Proposals:
        if (current := now.find(proposal.id)) is None:
            return now
        applied = {change.path for change in wanted if change.path in current.accepted} - refused.keys()
        left = current.without(applied)
        return now.replaced(replace(left, accepted={path: at for path, at in left.accepted.items() if path not in refused}))

    await PROPOSALS.change(store, actor, files, noted, began)
    return refused
