"""The places of a text where a change takes lines out and puts others in."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Changed


class Place(NamedTuple):
    """The lines that a change takes out and puts in at one place, and the unchanged ones between
    this place and the one before.
    """

    unchanged: Sequence[str]
    taken: Sequence[str]
    put: Sequence[str]


def changed_places(change: Changed) -> Iterator[Place]:
    """The places of a changed text, in order. The last one has what is unchanged at the end, and
    takes and puts nothing. Blocks.
    """
    old = change.before.split("\n")
    new = change.after.split("\n")
    return places(old, new)


def places(old: Sequence[str], new: Sequence[str]) -> Iterator[Place]:
    """As `changed_places`, of two sequences of lines."""
    end_of_last = 0
    for edit in journal.edits(old, new):
        unchanged = old[end_of_last : edit.old_start]
        taken = edit.taken_out(old)
        put = edit.put_in(new)
        yield Place(unchanged, taken, put)
        end_of_last = edit.old_end
    unchanged_end = old[end_of_last:]
    yield Place(unchanged_end, taken=(), put=())
