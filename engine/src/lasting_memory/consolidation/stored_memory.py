"""What the store has of a person's memory, as a run reads it."""

from collections.abc import Sequence
from typing import NamedTuple

from langgraph.store.base import Item

from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Memory, Proposal, proposals_in
from lasting_memory.people import namespaces
from lasting_memory.people.namespaces import Namespace


class StoredMemory(NamedTuple):
    """The items of a memory, place by place.

    `dropped_items` hold lines that were taken back in revisions which are no longer kept.
    `other_places` are those that `read_stored_memory` was given, in their order.
    """

    files: Sequence[Item]
    revisions: Sequence[Item]
    dropped_items: Sequence[Item]
    proposals: Sequence[Proposal]
    other_places: Sequence[Sequence[Item]]


async def read_stored_memory(
    memory: Memory, other_places: Sequence[Namespace] = ()
) -> StoredMemory:
    """Read a memory, and the items of these other namespaces, all at once."""
    places = [
        memory.files,
        namespaces.journals(memory.files),
        namespaces.taken_back(memory.files),
        namespaces.proposals(memory.actor),
        *other_places,
    ]
    items_of_places = await journal.all_items_of(memory.store, places)
    files, revisions, dropped_items, proposal_items, *items_of_other_places = items_of_places
    proposals = await proposals_in(proposal_items)
    return StoredMemory(
        files=files,
        revisions=revisions,
        dropped_items=dropped_items,
        proposals=memory.own_proposals(proposals),
        other_places=items_of_other_places,
    )
