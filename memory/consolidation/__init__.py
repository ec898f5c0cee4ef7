"""Consolidation turns the new parts of a person's finished conversations into memory, between conversations.

`Consolidation` is the middleware of `consolidation_agent`, an `EndedGraph`. `agent_hooks` are an agent's: they plan a run after
a person's last turn. `plan` and `start` queue one person's run, `sweep` the runs of everyone who is due. `records` shows a
person the work of their runs; `find_backlog` shows operators what is due. `shown_proposals` lists proposed changes, `decide`
accepts or declines them.
"""

from memory.consolidation.commit import DecidedError, UnknownProposalError, decide, shown_proposals
from memory.consolidation.drafts import Drafts, EndedGraph
from memory.consolidation.run import Consolidation
from memory.consolidation.run_records import records
from memory.consolidation.sweep import find_backlog, sweep
from memory.consolidation.trigger import Owner, agent_hooks, plan, start

__all__ = [
    "Consolidation", "DecidedError", "Drafts", "EndedGraph", "Owner", "UnknownProposalError",
    "agent_hooks", "decide", "find_backlog", "plan", "records", "shown_proposals", "start", "sweep",
]  # fmt: skip
