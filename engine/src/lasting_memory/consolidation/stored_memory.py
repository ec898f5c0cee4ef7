"""What the store has of a person's memory, as a run reads it."""

from collections.abc import Sequence
from typing import NamedTuple

from langgraph.store.base import Item

from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Memory, Proposal, proposals_in
from lasting_memory.people import namespaces
from lasting_memory.people.namespaces import Namespace


class StoredMemory(NamedTuple):
    """The items of the files, of their journals, and of lines that were taken back in revisions
    which are no longer kept; the memory's proposals; and the items of the other places.
    """

    files: Sequence[Item]
    revisions: Sequence[Item]
    dropped: Sequence[Item]
    proposals: Sequence[Proposal]
    others: Sequence[Sequence[Item]]


async def read_stored_memory(
    memory: Memory, other_places: Sequence[Namespace] = ()
) -> StoredMemory:
    """Read a memory, and what is in these other places, all at once."""
    places = [
        memory.files,
        namespaces.journals(memory.files),
        namespaces.taken_back(memory.files),
        namespaces.proposals(memory.actor),
        *other_places,
    ]
    found = await journal.all_items_of(memory.store, places)
    files, revisions, dropped, proposal_items, *others = found
    proposals = await proposals_in(proposal_items)
    return StoredMemory(
        files=files,
        revisions=revisions,
        dropped=dropped,
        proposals=memory.own_proposals(proposals),
        others=others,
    )
