"""Consolidation turns the new parts of a person's finished conversations into memory, between conversations.

`Consolidation` is the middleware of `consolidation_agent`, an `EndedGraph`. `agent_hooks` are an agent's: they plan a run after
a person's last turn. `start` queues one person's run, `sweep` the runs of everyone who is due. `records` shows a person the
work of their runs; `find_backlog` shows operators what is due. `shown_proposals` lists proposed changes, `decide` accepts or
declines them.
"""

from memory.consolidation.drafts import Drafts, EndedGraph
from memory.consolidation.planning import Owner, agent_hooks, find_backlog, start, sweep
from memory.consolidation.proposals import DecidedError, UnknownProposalError, decide, shown_proposals
from memory.consolidation.run import Consolidation
from memory.consolidation.run_records import records

__all__ = [
    "Consolidation", "DecidedError", "Drafts", "EndedGraph", "Owner", "UnknownProposalError",
    "agent_hooks", "decide", "find_backlog", "records", "shown_proposals", "start", "sweep",
]  # fmt: skip
