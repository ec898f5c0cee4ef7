"""Consolidation turns the new parts of a person's finished conversations into memory, between conversations.

`run.py` is graph 2 and its middleware, on a draft (`drafts.py`); `planning.py` says when it runs, `due.py` what is new.
`guard.py` judges what it wrote; `proposals.py` applies it, or has its person decide.
"""

from lasting_memory.consolidation.drafts import records
from lasting_memory.consolidation.due import Owner
from lasting_memory.consolidation.planning import consolidated, find_backlog, start, sweep
from lasting_memory.consolidation.proposals import DecidedError, UnknownProposalError, decide, shown_proposals
from lasting_memory.consolidation.run import build_consolidation_agent

__all__ = [
    "DecidedError", "Owner", "UnknownProposalError", "build_consolidation_agent", "consolidated", "decide", "find_backlog",
    "records", "shown_proposals", "start", "sweep",
]  # fmt: skip
