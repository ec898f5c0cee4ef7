"""Writes that lose nothing, and a history of every file, on any `BaseStore`: no lock server, no compare-and-set.

Each change is an item of its own, which nobody overwrites, and names those that it was made from. The file is a copy of the
newest one. Two who began from the same one each put theirs; of two at least one sees both, and puts one that has both changes.
docs/journal.md says more.
"""

from lasting_memory.journal.diffs import cut, diff, edits, lines_of
from lasting_memory.journal.forgetting import Began, began, began_now, forget, is_forgotten, time_of_run
from lasting_memory.journal.revisions import NOTHING, Revision, line_origins, merge, undone
from lasting_memory.journal.writing import Change, MovedError, all_items, change, histories, history

__all__ = [
    "NOTHING", "Began", "Change", "MovedError", "Revision", "all_items", "began", "began_now", "change", "cut",
    "diff", "edits", "forget", "histories", "history", "is_forgotten", "line_origins", "lines_of",
    "merge", "time_of_run", "undone",
]  # fmt: skip
