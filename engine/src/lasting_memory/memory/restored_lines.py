"""Lines that are over stay where a text is written anew without them: whoever wrote it was not shown
them.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import date

from lasting_memory.memory import journal
from lasting_memory.memory.ends import DatedLine, dated_lines


def new_dated_lines(before: str, after: str) -> list[DatedLine]:
    """The lines with an end that a change of a text brings. Blocks."""
    known = _keys_of(dated_lines(before))
    return [line for line in dated_lines(after) if line.key not in known]


def _keys_of(lines: Iterable[DatedLine]) -> set[str]:
    return {line.key for line in lines}


def dropped_lines(
    before: str, after: str, over: Collection[int], elsewhere: Sequence[DatedLine] = ()
) -> set[int]:
    """Those of the lines that are over, given by their numbers, that a change of a text drops.
    Blocks.

    A line is there while the new text, or a new line elsewhere, says it; in other words, if it has
    its day.
    """
    present = _keys_of(dated_lines(after)) | _keys_of(elsewhere)
    days_of_new = set[date]()
    for line in [*new_dated_lines(before, after), *elsewhere]:
        days_of_new.add(line.day)
    gone = set[int]()
    for line in dated_lines(before):
        is_said = line.key in present or line.day in days_of_new
        if line.number in over and not is_said:
            gone.add(line.number)
    return gone


def with_lines_restored(before: str, after: str, numbers: Collection[int]) -> str:
    """The new text with these lines of the one before, each where it stood. Blocks."""
    if not numbers:
        return after
    old = before.split("\n")
    new = after.split("\n") if after else []
    result = list[str]()
    place = 0
    for edit in journal.edits(old, new):
        result += old[place : edit.old_start]
        for number in range(edit.old_start, edit.old_end):
            if number in numbers:
                result.append(old[number])
        result += edit.put_in(new)
        place = edit.old_end
    result += old[place:]
    text = "\n".join(result)
    needs_break = before.endswith("\n") and not text.endswith("\n")
    return f"{text}\n" if needs_break else text
