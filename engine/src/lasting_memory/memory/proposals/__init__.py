"""Changes of a person's memory that are applied at once, or wait until their person has accepted
them: those of consolidation, and, if the person wants that, of the agent in a conversation.

`changes.py` has the change of one text, `proposal.py` what waits, `proposal_kinds.py` what a proposal
can be made of, `stored_proposals.py` a person's proposals in the store, and `memory.py` a person's
files with their proposals.
"""

from lasting_memory.memory.proposals.changes import (
    Changed,
    Sources,
    added_sources,
    changes,
    diffs,
    texts,
)
from lasting_memory.memory.proposals.memory import MAX_PROPOSALS, Memory, files_in
from lasting_memory.memory.proposals.proposal import (
    REWORDED,
    DecidedError,
    Declined,
    Proposal,
    UnknownProposalError,
)
from lasting_memory.memory.proposals.proposal_kinds import (
    BatchKind,
    ProposalKind,
    is_batch_kind,
    is_proposal_kind,
    rules_of,
)
from lasting_memory.memory.proposals.stored_proposals import (
    all_proposals,
    drop_threads,
    proposals_in,
)

__all__ = [
    "MAX_PROPOSALS", "REWORDED", "BatchKind", "Changed", "DecidedError", "Declined", "Memory", "Proposal", "ProposalKind",
    "Sources", "UnknownProposalError", "added_sources", "all_proposals", "changes", "diffs", "drop_threads", "files_in",
    "is_batch_kind", "is_proposal_kind", "proposals_in", "rules_of", "texts",
]  # fmt: skip
