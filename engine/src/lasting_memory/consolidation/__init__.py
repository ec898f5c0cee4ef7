"""Consolidation turns the new parts of a person's finished conversations into memory, between
conversations.

A run is graph 2 (`run.py`). It takes these steps, and has a *draft*, a private copy of the files:

- `slots.py` bounds how many runs work at once, and `turns.py` says whose turn it is;
- `reading.py` reads a *batch*: `due.py` finds what is new in the conversations of their `owners.py`,
  `batch.py` chooses what one run reads, `stored_memory.py` reads memory, `said_since.py` what a
  person said after a time;
- `editor.py` has a model edit the draft (`drafts.py`);
- `judging.py` judges what it did: `guard.py`, `taken_back.py` and `changed_ends.py` compare what was
  written with the facts there are (`facts.py`), `sources.py` says who vouches for it,
  `permitted_changes.py` leaves out what may not be done, and `expired_lines.py` settles what becomes
  of lines whose day has passed. `changed_places.py` finds where a text has changed;
- `committing.py` commits it, `record.py` says what became of the run, and `no_batch.py` why it had
  nothing to do.

Around the runs, `idle_trigger.py` and `sweeping.py` say when they begin, and `schedule.py` queues
them. `positions.py` keeps how far each conversation is read, `kept_out.py` what of them is never
read. `old_conversations.py` deletes what is too old. `brought/` reads the texts that a person brings
along, `bringing.py` says what becomes of them.

A dream builds memory anew from all conversations: `dream_start.py` begins it, `dreams.py` stores how
far it is and its files, `dreaming.py` is its part of a run, `dream_threads.py` finds what it reads,
`dream_files.py` changes its files, `dream_result.py` compares them with today's memory.
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
from lasting_memory.consolidation.dream_files import drop_threads, erase_from_dream
from lasting_memory.consolidation.dream_start import (
    estimate_dream,
    go_on_with_dream,
    start_dream,
)
from lasting_memory.consolidation.dreams import Dream, dream_of, exported_dream
from lasting_memory.consolidation.dreams import Reason as DreamReason
from lasting_memory.consolidation.dreams import Status as DreamStatus
from lasting_memory.consolidation.dreams import stop as stop_dream
from lasting_memory.consolidation.idle_trigger import consolidated
from lasting_memory.consolidation.kept_out import keep_out, saying
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
