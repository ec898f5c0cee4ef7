"""Consolidation turns the new parts of a person's finished conversations into memory, between
conversations.

A run is graph 2 (`run.py`). It takes these steps, and has a *draft*, a private copy of the files
(`drafts.py`):

- `run_beginning.py` begins it: `slots.py` bounds how many runs work at once, and `turns.py` says
  whose turn it is;
- `reading.py` reads a *batch*: `due.py` finds the conversations with something new of their
  `owners.py`, by `changed_threads.py` and `new_turns.py`; `batch.py` chooses what one run reads,
  `stored_memory.py` reads memory, `said_since.py` what a person said after a time, and
  `undecided_proposals.py` what is proposed;
- `editor.py` has a model edit the draft, with what `assignment.py` gives it and `editor_tools.py`;
- `judging.py` judges what it did: `guard.py`, `returning_lines.py` and `changed_ends.py` compare what
  was written with the facts there are (`facts.py`) and with what was taken back (`taken_back.py`),
  `sources.py` says who vouches for it, `permitted_changes.py` leaves out what may not be done, line
  by line (`permitted_lines.py`) or field by field (`permitted_fields.py`), and `expired_lines.py`
  settles what becomes of lines whose day has passed. `changed_places.py` finds where a text has
  changed, `change_kinds.py` names the kinds of change, `omissions.py` says what is left out, and why;
- `committing.py` commits it, and `confirmation.py` confirms what the person said of what memory has.
  `record.py` says what became of the run, `record_keeping.py` keeps that, and `no_batch.py` says why
  it had nothing to do.

Around the runs, `idle_trigger.py` and `sweeping.py` say when they begin, and `schedule.py` queues
them. `positions.py` keeps how far each conversation is read, `kept_out.py` what of them is never
read, and `fact_mentions.py` finds those that say a fact. `old_conversations.py` deletes what is too
old. `brought/` reads the texts that a person brings along, `brought_part.py` is their part of a run,
and `bringing.py` says what becomes of them.

A dream (`dreams.py`) builds memory anew from all conversations: `dream_start.py` begins it,
`dream_store.py` stores it, `dreaming.py` is its part of a run, `dream_progress.py` says how far it is,
`dream_threads.py` finds what it reads, `dream_files.py` changes its files, and `dream_deletions.py`
takes out of them what is deleted. At its end `dream_proposal.py` proposes what `dream_result.py` finds:
`rebuilt_lines.py` says what of today's memory it rebuilds, `dream_comparison.py` compares both.
"""

from lasting_memory.consolidation.batch import CHARS_PER_TOKEN
from lasting_memory.consolidation.brought import (
    Brought,
    Entry,
    Part,
    UnreadableError,
    counted,
    parts,
    proposal_id,
    read,
)
from lasting_memory.consolidation.dream_deletions import drop_threads, erase_from_dream
from lasting_memory.consolidation.dream_start import estimate_dream, go_on_with_dream, start_dream
from lasting_memory.consolidation.dream_store import dream_of, exported_dream
from lasting_memory.consolidation.dream_store import stop as stop_dream
from lasting_memory.consolidation.dreams import Dream
from lasting_memory.consolidation.dreams import Reason as DreamReason
from lasting_memory.consolidation.dreams import Status as DreamStatus
from lasting_memory.consolidation.fact_mentions import saying
from lasting_memory.consolidation.idle_trigger import consolidated
from lasting_memory.consolidation.kept_out import keep_out
from lasting_memory.consolidation.no_batch import NOTHING_TO_DO, READING, REHEARSING
from lasting_memory.consolidation.owners import Owner
from lasting_memory.consolidation.record import erase_from_records, note, records
from lasting_memory.consolidation.run import build_consolidation_agent
from lasting_memory.consolidation.schedule import Trigger, start
from lasting_memory.consolidation.slots import TURN_SECONDS
from lasting_memory.consolidation.sweeping import find_backlog, sweep
from lasting_memory.consolidation.turns import Places

__all__ = [
    "CHARS_PER_TOKEN", "NOTHING_TO_DO", "READING", "REHEARSING", "TURN_SECONDS", "Brought", "Dream",
    "DreamReason", "DreamStatus", "Entry", "Owner",
    "Part", "Places", "Trigger", "UnreadableError", "build_consolidation_agent", "consolidated", "counted",
    "dream_of", "drop_threads", "erase_from_dream", "erase_from_records", "estimate_dream", "exported_dream",
    "find_backlog", "go_on_with_dream", "keep_out", "note", "parts", "proposal_id", "read", "records", "saying",
    "start", "start_dream", "stop_dream", "sweep",
]  # fmt: skip
