"""What is permitted of a change of a text, line by line.

- A line is *added* if its text is new. It is *removed* if its text is gone.
- An *update* is a line that stands in place of another. Of lines that are taken out and put in at
  one place of a file, those belong together that have most words in common, and otherwise in their
  order. A heading, or a line without words, stands in place of no fact: the fact is removed.
- A line that is *moved*, within a file or to another one, is none of these.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from lasting_memory.consolidation.change_kinds import ForbiddenChange
from lasting_memory.consolidation.changed_places import Place, changed_places
from lasting_memory.consolidation.facts import TextFile, facts_in, facts_of, line_words_of
from lasting_memory.deployment import Kind as ChangeKind
from lasting_memory.memory.proposals import Changed

# Pairs of lines at one place that are compared by their words: beyond, they belong together in
# their order.
_MOST_PAIRS = 10_000
# Lines by their numbers, from 0, among those that a place of a file takes out, or puts in.
NumberedLines = dict[int, str]


class MovedLines(NamedTuple):
    """The moved lines that no place of a file has taken into account yet, and how often: where they
    are taken out, and where they are put in.
    """

    taken_out: Counter[str]
    put_in: Counter[str]


def moved_lines(changes: Sequence[Changed]) -> MovedLines:
    """The lines that the changes take out in one place and put in at another."""
    text_changes = list[Changed]()
    files_before = list[TextFile]()
    files_after = list[TextFile]()
    for change in changes:
        path = change.path
        if path.endswith(".json"):
            continue
        text_changes.append(change)
        files_before.append((path, change.before))
        files_after.append((path, change.after))
    facts_before = facts_of(files_before)
    facts_after = facts_of(files_after)
    gone_facts = facts_before.keys() - facts_after.keys()
    times_moved = Counter[str]()
    for line, count in _taken_out_and_put_in(text_changes).items():
        # A fact that now stands in a comment is gone.
        if line_words_of(line) not in gone_facts:
            times_moved[line] = count
    return MovedLines(taken_out=times_moved, put_in=times_moved.copy())


def _taken_out_and_put_in(changes: Sequence[Changed]) -> Counter[str]:
    """The lines that are both taken out and put in, and how often both."""
    old_lines = Counter[str]()
    new_lines = Counter[str]()
    for change in changes:
        for place in changed_places(change):
            for line in place.old_lines:
                old_lines[line.strip()] += 1
            for line in place.new_lines:
                new_lines[line.strip()] += 1
    return old_lines & new_lines


def permitted_text(
    change: Changed, permitted_kinds: Collection[ChangeKind], moves: MovedLines
) -> tuple[str, list[ForbiddenChange]]:
    """The text of a file with what is permitted of its change, and what is not.

    Takes the moved lines that it has out of `moves`.
    """
    lines_after = list[str]()
    forbidden_changes = list[ForbiddenChange]()
    for place in changed_places(change):
        judged_place = _JudgedPlace(change.path, place, permitted_kinds, moves)
        lines_after += place.unchanged_lines
        lines_after += judged_place.permitted_lines()
        forbidden_changes += judged_place.forbidden_changes
    text = "\n".join(lines_after)
    return text, forbidden_changes


class _JudgedPlace:
    """A place of a file, and which of its changes are permitted."""

    def __init__(
        self,
        path: str,
        place: Place,
        permitted_kinds: Collection[ChangeKind],
        moves: MovedLines,
    ) -> None:
        self._path = path
        self._old_lines = place.old_lines
        self._new_lines = place.new_lines
        self._permitted_kinds = permitted_kinds
        # The numbers of the lines that are moved from here, and to here.
        self._moved_away = _take_moved(moves.taken_out, self._old_lines)
        self._moved_here = _take_moved(moves.put_in, self._new_lines)
        # By the number of a line that is taken out, that of the line in its place.
        self._updates = self._find_updates()
        # What `permitted_lines` left out.
        self.forbidden_changes = list[ForbiddenChange]()

    def _find_updates(self) -> dict[int, int]:
        """Which new line stands in place of which old one: facts in place of facts, and other lines
        in place of others.
        """
        old_facts, old_other_lines = _facts_and_others(self._old_lines, self._moved_away)
        new_facts, new_other_lines = _facts_and_others(self._new_lines, self._moved_here)
        updates_of_facts = _pairs(old_facts, new_facts)
        updates_of_other_lines = _pairs(old_other_lines, new_other_lines)
        return {**updates_of_facts, **updates_of_other_lines}

    def permitted_lines(self) -> list[str]:
        """The lines that stand here with what is permitted. Notes the rest in `forbidden_changes`."""
        lines_after = list[str]()
        next_new_number = 0
        for number, line in enumerate(self._old_lines):
            update_number = self._updates.get(number)
            if update_number is not None:
                # New lines before the update stay before it.
                lines_after += self._lines_added(next_new_number, update_number)
                update = self._new_lines[update_number]
                is_updated = self._check("update", update)
                lines_after.append(update if is_updated else line)
                next_new_number = max(next_new_number, update_number + 1)
            elif self._stays(number):
                lines_after.append(line)
        end = len(self._new_lines)
        lines_after += self._lines_added(next_new_number, end)
        if self.forbidden_changes:
            return lines_after
        # Nothing is forbidden: the new lines keep the order in which they were put in.
        return list(self._new_lines)

    def _stays(self, number: int) -> bool:
        """Whether a line stays that is taken out and has no other in its place."""
        if number in self._moved_away:
            return False
        line = self._old_lines[number]
        is_blank = not line.strip()
        if is_blank:
            return True
        is_removed = self._check("remove", line)
        return not is_removed

    def _lines_added(self, first_number: int, end: int) -> list[str]:
        """The new lines that may be added, from the number `first_number` up to the one before `end`.

        A line that stands in place of another one is not among them.
        """
        updates = set(self._updates.values())
        lines = list[str]()
        for number in range(first_number, end):
            if number in updates:
                continue
            line = self._new_lines[number]
            is_moved = number in self._moved_here
            if is_moved or self._check("add", line):
                lines.append(line)
        return lines

    def _check(self, kind: ChangeKind, line: str) -> bool:
        """Whether a change of a line is permitted. Notes it in `forbidden_changes` if it is not."""
        if kind in self._permitted_kinds:
            return True
        text = line.strip()
        if text:
            change = ForbiddenChange(self._path, kind, text)
            self.forbidden_changes.append(change)
        return False


def _take_moved(times_moved: Counter[str], lines: Sequence[str]) -> set[int]:
    """Take those of these lines that are moved out of `times_moved`. Returns their numbers."""
    numbers = set[int]()
    for number, raw_line in enumerate(lines):
        line = raw_line.strip()
        if line and times_moved[line] > 0:
            times_moved[line] -= 1
            numbers.add(number)
    return numbers


def _facts_and_others(
    lines: Sequence[str], moved_numbers: Collection[int]
) -> tuple[NumberedLines, NumberedLines]:
    """The lines that are facts, and the others with text; none that is moved."""
    facts = NumberedLines()
    other_lines = NumberedLines()
    for number, line in enumerate(lines):
        is_blank = not line.strip()
        if is_blank or number in moved_numbers:
            continue
        if facts_in(line):
            facts[number] = line
        else:
            other_lines[number] = line
    return facts, other_lines


def _pairs(old_lines: NumberedLines, new_lines: NumberedLines) -> dict[int, int]:
    """By the number of an old line, that of the new line that stands in its place.

    Where there are more lines of one sort than of the other, some are in no pair.
    """
    pairs = dict[int, int]()
    unpaired_new = {*new_lines}
    for _, old_number, new_number in _most_alike(old_lines, new_lines):
        if old_number not in pairs and new_number in unpaired_new:
            pairs[old_number] = new_number
            unpaired_new.remove(new_number)
    # The other lines belong together in their order.
    unpaired_old = [old_number for old_number in old_lines if old_number not in pairs]
    ordered_new = sorted(unpaired_new)
    for old_number, new_number in zip(unpaired_old, ordered_new, strict=False):
        pairs[old_number] = new_number
    return pairs


class _AlikeLines(NamedTuple):
    """The numbers of an old and a new line with words in common. Those with most come first."""

    order: int
    old_number: int
    new_number: int


def _most_alike(old_lines: NumberedLines, new_lines: NumberedLines) -> list[_AlikeLines]:
    """All pairs of lines with words in common, in order; [] where they are too many to compare."""
    number_of_pairs = len(old_lines) * len(new_lines)
    if number_of_pairs > _MOST_PAIRS:
        return []
    words_of_old = _words_by_number(old_lines)
    words_of_new = _words_by_number(new_lines)
    alike_pairs = list[_AlikeLines]()
    for old_number, old_words in words_of_old.items():
        for new_number, new_words in words_of_new.items():
            common_words = old_words & new_words
            if common_words:
                order = -len(common_words)
                alike_pairs.append(_AlikeLines(order, old_number, new_number))
    return sorted(alike_pairs)


def _words_by_number(lines: NumberedLines) -> dict[int, set[str]]:
    """The words of lines, by the lines' numbers."""
    words = dict[int, set[str]]()
    for number, line in lines.items():
        line_words = line_words_of(line)
        words[number] = set(line_words)
    return words
