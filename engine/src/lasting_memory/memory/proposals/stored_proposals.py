"""Proposals in the store: a person's proposals of all their memories, each an item of its own."""

from collections.abc import Collection, Iterable
from contextlib import suppress

from langgraph.store.base import BaseStore, Item, PutOp
from pydantic import TypeAdapter, ValidationError

from lasting_memory import platform
from lasting_memory.memory import journal
from lasting_memory.memory.journal import Writer
from lasting_memory.memory.proposals.proposal import Proposal, UnknownProposalError
from lasting_memory.memory.proposals.proposal_kinds import rules_of
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import lock_of

_PROPOSALS = TypeAdapter(Proposal)


async def put_proposal(place: Namespace, proposal: Proposal) -> PutOp:
    """The operation that puts a proposal into a person's namespace of proposals."""
    dump = _PROPOSALS.dump_python
    value = await platform.in_thread(dump, proposal, mode="json")
    return PutOp(place, proposal.id, value, index=False)


async def all_proposals(store: BaseStore, actor: Actor) -> list[Proposal]:
    """A person's proposals in all their memories, with those that were decided, oldest first. A
    damaged one is left out.
    """
    place = namespaces.proposals(actor)
    items = await journal.all_items(store, place)
    return await proposals_in(items)


async def drop_threads(store: BaseStore, actor: Actor, deleted_threads: Collection[str]) -> None:
    """Take what came of these conversations, which were deleted, out of a person's proposals that
    end with them (`KindRules.ends_with_conversations`).
    """
    place = namespaces.proposals(actor)
    writer = Writer(actor)
    ids = set(deleted_threads)
    for candidate in await all_proposals(store, actor):
        if ids.isdisjoint(candidate.threads):
            continue
        async with lock_of("deciding", candidate.id):
            proposals = await all_proposals(store, actor)
            proposal = with_id(proposals, candidate.id)
            if proposal is None or not proposal.changes:
                continue
            if not rules_of(proposal.kind).ends_with_conversations:
                continue
            remaining_proposal = await platform.in_thread(proposal.without_threads, ids)
            if remaining_proposal.is_empty():
                op = PutOp(place, proposal.id, None)
            else:
                op = await put_proposal(place, remaining_proposal)
            await journal.put_unless_forgotten(store, [op], writer)


async def proposals_in(items: Iterable[Item]) -> list[Proposal]:
    """The proposals in a person's items, oldest first. A damaged one is left out."""
    proposals = list[Proposal]()
    for item in items:
        with suppress(ValidationError):
            proposal = await platform.in_thread(_PROPOSALS.validate_python, item.value)
            proposals.append(proposal)
    proposals.sort(key=lambda proposal: proposal.at)
    return proposals


def with_id(proposals: Iterable[Proposal], proposal_id: str) -> Proposal | None:
    """The proposal of this id; None if there is none."""
    for proposal in proposals:
        if proposal.id == proposal_id:
            return proposal
    return None


def existing_proposal(proposals: Iterable[Proposal], proposal_id: str) -> Proposal:
    """The proposal of this id. Raises `UnknownProposalError`."""
    proposal = with_id(proposals, proposal_id)
    if proposal is None:
        start = proposal_id[:40]
        raise UnknownProposalError(
            f"There is no proposal {start!r}; GET /memory/proposals lists them."
        )
    return proposal
