"""Lines that are over stay where a text is written anew without them: whoever wrote it was not shown
them, and did not decide that they go.

A line is over once the day until which it holds has passed (`ends.py`). A dated line is one that has
such a day. Functions here say which lines a change of a text drops, and put such lines back.
"""

from collections.abc import Collection, Sequence

from lasting_memory.memory import journal
from lasting_memory.memory.dated_lines import DatedLine, dated_lines


def new_dated_lines(before: str, after: str) -> list[DatedLine]:
    """The dated lines that a change of a text adds. Blocks."""
    keys_before = {line.key for line in dated_lines(before)}
    new_lines = list[DatedLine]()
    for line in dated_lines(after):
        if line.key not in keys_before:
            new_lines.append(line)
    return new_lines


def dropped_lines(
    before: str,
    after: str,
    numbers_over: Collection[int],
    lines_elsewhere: Sequence[DatedLine] = (),
) -> set[int]:
    """The numbers of the lines of the old text that are over and that a change drops. Blocks.

    `numbers_over` are the numbers of all lines that are over. A line is not dropped if the new text
    has it, or a new line in other words has its day. `lines_elsewhere` are new dated lines of other
    texts, which count as new lines of this one.
    """
    new_lines = new_dated_lines(before, after)
    new_lines += lines_elsewhere
    lines_after = [*dated_lines(after), *new_lines]
    present_keys = {line.key for line in lines_after}
    new_days = {line.day for line in new_lines}
    dropped_numbers = set[int]()
    for line in dated_lines(before):
        if line.number not in numbers_over:
            continue
        is_present = line.key in present_keys
        is_in_other_words = line.day in new_days
        if not is_present and not is_in_other_words:
            dropped_numbers.add(line.number)
    return dropped_numbers


def with_lines_restored(before: str, after: str, numbers: Collection[int]) -> str:
    """The new text with these lines of the old one, given by their numbers, each where it stood.
    Blocks.
    """
    if not numbers:
        return after
    old_lines = before.split("\n")
    new_lines = after.split("\n") if after else []
    result = list[str]()
    old_place = 0  # lines of the old text that are in the result, or were taken out
    for edit in journal.edits(old_lines, new_lines):
        unchanged_lines = old_lines[old_place : edit.old_start]
        result += unchanged_lines
        for number in range(edit.old_start, edit.old_end):
            if number in numbers:
                result.append(old_lines[number])
        result += edit.put_in(new_lines)
        old_place = edit.old_end
    result += old_lines[old_place:]
    text = "\n".join(result)
    ended_in_break = before.endswith("\n")
    if ended_in_break and not text.endswith("\n"):
        return f"{text}\n"
    return text
