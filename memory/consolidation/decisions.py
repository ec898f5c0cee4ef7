"""A person's decisions about proposals.

Accepting notes the decision, merges the changes into the files as they are then, and closes the proposal. If the process dies
in between, the next reader of the proposals continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from langgraph.store.base import BaseStore

from memory import identity, journal, namespaces
from memory.consolidation.applying import apply_change, refusal
from memory.consolidation.proposals import PROPOSALS, Proposal, Proposals
from memory.validation import RefusedWriteError


class UnknownProposalError(RefusedWriteError):
    """No proposal has this id, or it changes no such file."""


class DecidedError(RefusedWriteError):
    """The person decided about this before."""


async def proposals(
    store: BaseStore, actor: identity.Actor, files: namespaces.Namespace, epoch: journal.Epoch | None
) -> Proposals:
    """A memory's proposals, after applying changes that a dead process had accepted."""
    current = await PROPOSALS.read(store, actor, files)
    dead = [each for each in current.waiting if each.accepted]
    for proposal in dead:
        await _apply(store, actor, files, proposal, epoch)
    return await PROPOSALS.read(store, actor, files) if dead else current


async def shown_proposals(
    store: BaseStore, actor: identity.Actor, files: namespaces.Namespace, epoch: journal.Epoch | None
) -> list[dict[str, Any]]:
    """The undecided proposals for their person, oldest first."""
    current = await proposals(store, actor, files, epoch)
    return await asyncio.to_thread(lambda: [each.shown() for each in current.waiting])


async def decide(
    store: BaseStore,
    actor: identity.Actor,
    files: namespaces.Namespace,
    proposal_id: str,
    *,
    accept: bool,
    paths: Sequence[str] | None,
    epoch: journal.Epoch,
) -> dict[str, str]:
    """Accept or decline a proposal, or some of its files; without `paths` all undecided ones. Safe to repeat after a crash.

    Returns:
        By path, the reason why an accepted change was not applied after all. It waits again.

    Raises:
        UnknownProposalError: there is no such proposal, or it has no such file.
        DecidedError: the proposal, or one of the files, was decided before.
        RefusedWriteError: the accepted changes cannot be merged with the present files. Nothing was decided.
    """
    if accept:
        proposal = _undecided(await PROPOSALS.read(store, actor, files), proposal_id, paths)
        wanted = [change for change in proposal.changes if paths is None or change.path in paths]
        if reason := await refusal(store, files, wanted, proposal.author):
            raise RefusedWriteError(reason)
    outcome: Proposal | RefusedWriteError | None = None

    def decided(now: Proposals) -> Proposals:
        nonlocal outcome
        try:
            outcome = _decided(_undecided(now, proposal_id, paths), paths, accept=accept)
        except RefusedWriteError as error:
            outcome = error
        return now.replaced(outcome) if isinstance(outcome, Proposal) else now

    await PROPOSALS.change(store, actor, files, decided, epoch)
    if not isinstance(outcome, Proposal):
        raise outcome or AssertionError
    return await _apply(store, actor, files, outcome, epoch) if accept else {}


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


async def _apply(
    store: BaseStore, actor: identity.Actor, files: namespaces.Namespace, proposal: Proposal, epoch: journal.Epoch | None
) -> dict[str, str]:
    """Apply the accepted changes of a proposal, and note that. Returns the reasons of refusals, by path."""
    refused, wanted = dict[str, str](), [change for change in proposal.changes if change.path in proposal.accepted]
    for change in wanted:
        accepted = replace(proposal, at=proposal.accepted[change.path])
        if reason := await apply_change(store, files, accepted, change, epoch):
            refused[change.path] = reason

    def noted(now: Proposals) -> Proposals:
        if (current := now.find(proposal.id)) is None:
            return now
        applied = {change.path for change in wanted if change.path in current.accepted} - refused.keys()
        left = current.without(applied)
        return now.replaced(replace(left, accepted={path: at for path, at in left.accepted.items() if path not in refused}))

    await PROPOSALS.change(store, actor, files, noted, epoch)
    return refused
