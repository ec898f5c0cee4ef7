"""Writes that lose nothing, and a history of every file, on any `BaseStore`: no lock server, no
compare-and-set.

Each change is an item of its own, which nobody overwrites, and names those that it was made from.
The file is a copy of the newest one. Two who began from the same one each put theirs; of two at
least one sees both, and puts one that has both changes. docs/journal.md says more.
"""

from lasting_memory.memory.journal.deletion_marks import (
    deleted_since,
    forget,
    iso_time,
    note_deleted,
    note_erased,
)
from lasting_memory.memory.journal.dropped import TakenBack, taken_back_in
from lasting_memory.memory.journal.erasing import Clean, erase
from lasting_memory.memory.journal.histories import histories, histories_in, history
from lasting_memory.memory.journal.listing import all_items, all_items_and, all_items_of
from lasting_memory.memory.journal.revisions import NOTHING, Change, Revision, line_origins
from lasting_memory.memory.journal.texts import (
    comparison_cost,
    cut_diff,
    diff,
    edits,
    lines_of,
    merge,
    without_change,
)
from lasting_memory.memory.journal.unjournaled import put_or_refuse, put_unless_forgotten
from lasting_memory.memory.journal.withdrawing import withdraw_run
from lasting_memory.memory.journal.writers import (
    ERASED,
    Deleted,
    Writer,
    deleted_in,
    deleted_ops,
    is_erased,
    is_forgotten,
    read_deleted,
    writer_of_caller,
    writer_of_run,
)
from lasting_memory.memory.journal.writing import MovedError, change

__all__ = [
    "ERASED",
    "NOTHING",
    "Change",
    "Clean",
    "Deleted",
    "MovedError",
    "Revision",
    "TakenBack",
    "Writer",
    "all_items",
    "all_items_and",
    "all_items_of",
    "change",
    "comparison_cost",
    "cut_diff",
    "deleted_in",
    "deleted_ops",
    "deleted_since",
    "diff",
    "edits",
    "erase",
    "forget",
    "histories",
    "histories_in",
    "history",
    "is_erased",
    "is_forgotten",
    "iso_time",
    "line_origins",
    "lines_of",
    "merge",
    "note_deleted",
    "note_erased",
    "put_or_refuse",
    "put_unless_forgotten",
    "read_deleted",
    "taken_back_in",
    "withdraw_run",
    "without_change",
    "writer_of_caller",
    "writer_of_run",
]
