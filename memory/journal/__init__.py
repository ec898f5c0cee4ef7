"""Writes that lose nothing, and a history of every file, on any `BaseStore`: no lock server, no compare-and-set.

Each change is an item of its own, under a key that no other writer uses, so nobody overwrites it. It names the revisions that
it was made from. The file is a copy of the newest one, put in the same batch. Two writers who began from the same revision each
put theirs; whoever lists the log next sees both, and puts one that has both changes. Every writer lists after it has put, so of
two at least one sees the other's. What was acknowledged is outside of the file for no longer than a merge takes. If the writer
that should make it dies first, the next write of the file, or look at its history, does it.

A file that was put or deleted around the journal becomes a revision with the next write. A revision that cannot be read is
passed over.
"""

from memory.journal.diffs import cut, diff, edits, lines_of, revert_change
from memory.journal.forgetting import Began, began, began_now, forget, is_forgotten, time_of_run
from memory.journal.revisions import NOTHING, Revision, line_origins, merge
from memory.journal.writing import Change, MovedError, all_items, change, deleted_files, histories, history

__all__ = [
    "NOTHING", "Began", "Change", "MovedError", "Revision", "all_items", "began", "began_now", "change", "cut",
    "deleted_files", "diff", "edits", "forget", "histories", "history", "is_forgotten", "line_origins", "lines_of",
    "merge", "revert_change", "time_of_run",
]  # fmt: skip
