"""Undecided proposals, which wait for their person: whether there is room for another one, and the
files as they are once proposals are accepted.
"""

from collections.abc import Iterable, Mapping, Sequence

from deepagents.backends.protocol import FileData

from lasting_memory import platform
from lasting_memory.consolidation.no_batch import UNDECIDED, NothingToDoError
from lasting_memory.memory.proposals import MAX_PROPOSALS, Memory, Proposal


def undecided_in(proposals: Iterable[Proposal]) -> list[Proposal]:
    """Those of these proposals of which something is undecided."""
    undecided_proposals = list[Proposal]()
    for proposal in proposals:
        if proposal.changes:
            undecided_proposals.append(proposal)
    return undecided_proposals


def check_room(undecided_proposals: Sequence[Proposal]) -> None:
    """Raises `NothingToDoError` if the person has too many undecided proposals for another one."""
    if len(undecided_proposals) >= MAX_PROPOSALS:
        raise NothingToDoError(UNDECIDED)


async def with_proposals(
    memory: Memory, files: Mapping[str, FileData], proposals: Sequence[Proposal]
) -> Mapping[str, FileData]:
    """The files as they are once these proposals are accepted. A change that cannot be made any more
    is left out.
    """
    for proposal in proposals:
        files = await platform.in_thread(
            memory.applied, files, proposal.changes, proposal.author, skip=True
        )
    return files
