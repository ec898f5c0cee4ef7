"""Lines that are over stay where a text is written anew without them: whoever wrote it was not shown
them.
"""

from collections.abc import Collection, Sequence

from lasting_memory.memory import journal
from lasting_memory.memory.ends import DatedLine, dated_lines


def new_lines(before: str, after: str) -> list[DatedLine]:
    """The lines with an end that a change of a text brings. Blocks."""
    known = {line.key for line in dated_lines(before)}
    return [line for line in dated_lines(after) if line.key not in known]


def dropped(
    before: str, after: str, over: Collection[int], elsewhere: Sequence[DatedLine] = ()
) -> set[int]:
    """Those of the lines that are over, given by their numbers, that a change of a text drops.
    Blocks.

    A line is there while the new text, or a new line elsewhere, says it; in other words, if it has
    its day.
    """
    new = [*new_lines(before, after), *elsewhere]
    present = {line.key for line in [*dated_lines(after), *new]}
    days_of_new = {line.day for line in new}
    gone = set[int]()
    for line in dated_lines(before):
        is_said = line.key in present or line.day in days_of_new
        if line.number in over and not is_said:
            gone.add(line.number)
    return gone


def with_lines(before: str, after: str, numbers: Collection[int]) -> str:
    """The new text with these lines of the one before, each where it stood. Blocks."""
    if not numbers:
        return after
    old = before.split("\n")
    new = after.split("\n") if after else []
    result = list[str]()
    copied = 0
    for start, end, new_start, new_end in journal.edits(old, new):
        result += old[copied:start]
        result += [old[number] for number in range(start, end) if number in numbers]
        result += new[new_start:new_end]
        copied = end
    text = "\n".join([*result, *old[copied:]])
    needs_break = before.endswith("\n") and not text.endswith("\n")
    return f"{text}\n" if needs_break else text
