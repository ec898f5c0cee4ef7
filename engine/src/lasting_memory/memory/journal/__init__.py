"""Writes that lose nothing, and a history of every file, on any `BaseStore`: no lock server, no
compare-and-set.

Each change is an item of its own, which nobody overwrites, and names those that it was made from.
The file is a copy of the newest one. Two who began from the same one each put theirs; of two at
least one sees both, and puts one that has both changes. docs/journal.md says more.
"""

from lasting_memory.memory.journal.dropped import TakenBack, taken_back_in
from lasting_memory.memory.journal.erasing import Clean, erase
from lasting_memory.memory.journal.revisions import NOTHING, Change, Revision, line_origins
from lasting_memory.memory.journal.texts import cut, diff, edits, lines_of, merge, undone, work
from lasting_memory.memory.journal.writing import (
    ERASED,
    Began,
    Ended,
    MovedError,
    all_items,
    all_items_and,
    all_items_of,
    began,
    began_by,
    change,
    deleted_since,
    ended,
    ended_in,
    ended_ops,
    forget,
    histories,
    histories_in,
    history,
    is_erased,
    is_forgotten,
    note_deleted,
    note_erased,
    put_or_refuse,
    put_unless_forgotten,
    take_back,
)

__all__ = [
    "ERASED", "NOTHING", "Began", "Change", "Clean", "Ended", "MovedError", "Revision", "TakenBack", "all_items",
    "all_items_and", "all_items_of", "began", "began_by", "change", "cut", "deleted_since", "diff", "edits", "ended",
    "ended_in", "ended_ops", "erase", "forget", "histories", "histories_in", "history", "is_erased", "is_forgotten",
    "line_origins", "lines_of", "merge", "note_deleted", "note_erased", "put_or_refuse", "put_unless_forgotten", "take_back",
    "taken_back_in", "undone", "work",
]  # fmt: skip
