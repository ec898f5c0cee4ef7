"""A person's decisions about proposals.

Accepting notes the decision, merges the changes into the files as they are then, and closes the proposal. If the process dies
in between, the next reader of the proposals continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from langgraph.store.base import BaseStore

from memory import identity, journal, namespaces
from memory.consolidation.applying import Applicable, apply_change, refusal
from memory.consolidation.proposals import Proposal, Proposals, change_proposals, read_proposals
from memory.validation import RefusedWriteError


class UnknownProposalError(RefusedWriteError):
    """No proposal has this id, or it changes no such file."""


class DecidedError(RefusedWriteError):
    """The person decided about this before."""


async def proposals(
    store: BaseStore, actor: identity.Actor, files: namespaces.Namespace, epoch: journal.Epoch | None
) -> Proposals:
    """A memory's proposals, after applying changes that a dead process had accepted."""
    current = await read_proposals(store, actor, files)
    for proposal in [each for each in current.waiting if each.accepted]:
        await _apply(store, actor, files, proposal, epoch)
        current = await read_proposals(store, actor, files)
    return current


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
    noted: list[Proposal] = []

    def decided(now: Proposals) -> Proposals:
        proposal = _undecided(now, proposal_id, paths)
        chosen = {change.path for change in proposal.changes} if paths is None else set(paths)
        if accept:
            at = datetime.now(UTC).isoformat()
            after = replace(proposal, accepted={**dict.fromkeys(chosen, at), **proposal.accepted})
        else:
            if begun := chosen & proposal.accepted.keys():
                raise DecidedError(f"{min(begun)} was accepted already.")
            after = _without(proposal, chosen)
        noted[:] = [after]
        return now.replaced(after)

    if accept:
        proposal = _undecided(await read_proposals(store, actor, files), proposal_id, paths)
        wanted = [change for change in proposal.changes if paths is None or change.path in paths]
        if reason := await refusal(store, files, wanted, proposal.author):
            raise RefusedWriteError(reason)
    await change_proposals(store, actor, files, decided, epoch)
    return await _apply(store, actor, files, noted[0], epoch) if accept else {}


def _undecided(now: Proposals, proposal_id: str, paths: Sequence[str] | None) -> Proposal:
    proposal = next((each for each in now.waiting if each.id == proposal_id), None)
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


def _without(proposal: Proposal, paths: Iterable[str]) -> Proposal:
    """A proposal after a decision about these paths."""
    gone = set(paths)
    return replace(
        proposal,
        changes=[change for change in proposal.changes if change.path not in gone],
        accepted={path: at for path, at in proposal.accepted.items() if path not in gone},
        decided=sorted({*proposal.decided, *gone}),
    )


async def _apply(
    store: BaseStore, actor: identity.Actor, files: namespaces.Namespace, proposal: Proposal, epoch: journal.Epoch | None
) -> dict[str, str]:
    """Apply the accepted changes of a proposal, and note that. Returns the reasons of refusals, by path."""
    refused = dict[str, str]()
    wanted = [change for change in proposal.changes if change.path in proposal.accepted]
    for change in wanted:
        accepted = Applicable(id=proposal.id, at=proposal.accepted[change.path], author=proposal.author)
        if reason := await apply_change(store, files, accepted, change, epoch):
            refused[change.path] = reason

    def noted(now: Proposals) -> Proposals | None:
        current = next((each for each in now.waiting if each.id == proposal.id), None)
        if current is None:
            return None
        applied = {change.path for change in wanted if change.path in current.accepted} - refused.keys()
        left = _without(current, applied)
        return now.replaced(replace(left, accepted={path: at for path, at in left.accepted.items() if path not in refused}))

    await change_proposals(store, actor, files, noted, epoch)
    return refused
