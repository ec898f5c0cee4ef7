"""Consolidation turns the new parts of a person's finished conversations into memory, between conversations.

`Consolidation` is the middleware of `consolidation_agent`, an `EndedGraph`. `agent_hooks` are an agent's: they finish what a
dead run left, and plan a run after a person's last turn. `plan` and `start` queue one person's run, `sweep` the runs of
everyone who is due. `records` shows a person the work of their runs; `last_day` and `find_backlog` show operators everyone's.
`shown_proposals` lists proposed changes, `decide` accepts or declines them.
"""

from memory.consolidation.drafts import Drafts
from memory.consolidation.endings import EndedGraph
from memory.consolidation.hooks import agent_hooks
from memory.consolidation.middleware import Consolidation
from memory.consolidation.proposals import DecidedError, UnknownProposalError, decide, shown_proposals
from memory.consolidation.run_records import last_day, records
from memory.consolidation.sweeping import find_backlog, sweep
from memory.consolidation.trigger import Owner, plan, start

__all__ = [
    "Consolidation", "DecidedError", "Drafts", "EndedGraph", "Owner", "UnknownProposalError",
    "agent_hooks", "decide", "find_backlog", "last_day", "plan", "records", "shown_proposals", "start", "sweep",
]  # fmt: skip
