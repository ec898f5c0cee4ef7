"""The places of a text where a change takes lines out and puts others in."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Changed


class Place(NamedTuple):
    """The lines that a change takes out and puts in at one place, and the unchanged ones between
    this place and the one before.
    """

    unchanged_lines: Sequence[str]
    old_lines: Sequence[str]
    new_lines: Sequence[str]


def changed_places(change: Changed) -> Iterator[Place]:
    """The places of a changed text, in order. The last one has what is unchanged at the end, and
    takes and puts nothing. Blocks.
    """
    lines_before = change.before.split("\n")
    lines_after = change.after.split("\n")
    return places(lines_before, lines_after)


def places(lines_before: Sequence[str], lines_after: Sequence[str]) -> Iterator[Place]:
    """As `changed_places`, of two sequences of lines."""
    end_of_last = 0
    for edit in journal.edits(lines_before, lines_after):
        unchanged_lines = lines_before[end_of_last : edit.old_start]
        old_lines = edit.taken_out(lines_before)
        new_lines = edit.put_in(lines_after)
        yield Place(unchanged_lines, old_lines, new_lines)
        end_of_last = edit.old_end
    lines_at_end = lines_before[end_of_last:]
    yield Place(lines_at_end, old_lines=(), new_lines=())
