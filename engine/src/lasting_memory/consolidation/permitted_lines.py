"""What is permitted of a change of a text, line by line.

- A line is *added* if its text is new. It is *removed* if its text is gone.
- An *update* is a line that stands in place of another. Of lines that are taken out and put in at
  one place of a file, those belong together that have most words in common, and otherwise in their
  order. A heading, or a line without words, stands in place of no fact: the fact is removed.
- A line that is *moved*, within a file or to another one, is none of these.

`may` are everywhere the kinds of change that are permitted.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from lasting_memory.consolidation.change_kinds import ForbiddenChange
from lasting_memory.consolidation.changed_places import Place, changed_places
from lasting_memory.consolidation.facts import TextFile, facts_in, facts_of, key_of
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
    before = list[TextFile]()
    after = list[TextFile]()
    for change in changes:
        path = change.path
        if path.endswith(".json"):
            continue
        text_changes.append(change)
        before.append((path, change.before))
        after.append((path, change.after))
    facts_before = facts_of(before)
    facts_after = facts_of(after)
    gone = facts_before.keys() - facts_after.keys()
    moved = Counter[str]()
    for line, times in _taken_and_put(text_changes).items():
        # A fact that now stands in a comment is gone.
        if key_of(line) not in gone:
            moved[line] = times
    return MovedLines(taken_out=moved, put_in=moved.copy())


def _taken_and_put(changes: Sequence[Changed]) -> Counter[str]:
    """The lines that are both taken out and put in, and how often both."""
    taken = Counter[str]()
    put = Counter[str]()
    for change in changes:
        for place in changed_places(change):
            for line in place.taken:
                taken[line.strip()] += 1
            for line in place.put:
                put[line.strip()] += 1
    return taken & put


def permitted_text(
    change: Changed, may: Collection[ChangeKind], moved: MovedLines
) -> tuple[str, list[ForbiddenChange]]:
    """The text of a file with what is permitted of its change, and what is not.

    Takes the moved lines that it has out of `moved`.
    """
    result = list[str]()
    forbidden = list[ForbiddenChange]()
    for place in changed_places(change):
        judged = _JudgedPlace(change.path, place, may, moved)
        result += place.unchanged
        result += judged.permitted_lines()
        forbidden += judged.forbidden
    text = "\n".join(result)
    return text, forbidden


class _JudgedPlace:
    """A place of a file, and which of its changes are permitted."""

    def __init__(
        self,
        path: str,
        place: Place,
        may: Collection[ChangeKind],
        moved: MovedLines,
    ) -> None:
        self._path = path
        self._taken = place.taken
        self._put = place.put
        self._may = may
        # The numbers of the lines that are moved from here, and to here.
        self._moved_away = _take_moved(moved.taken_out, self._taken)
        self._moved_here = _take_moved(moved.put_in, self._put)
        # By the number of a line that is taken out, that of the line in its place.
        self._updates = self._find_updates()
        # What `permitted_lines` left out.
        self.forbidden = list[ForbiddenChange]()

    def _find_updates(self) -> dict[int, int]:
        """Which new line stands in place of which old one: facts in place of facts, and other lines
        in place of others.
        """
        facts_taken, others_taken = _facts_and_others(self._taken, self._moved_away)
        facts_put, others_put = _facts_and_others(self._put, self._moved_here)
        updates_of_facts = _pairs(facts_taken, facts_put)
        updates_of_others = _pairs(others_taken, others_put)
        return {**updates_of_facts, **updates_of_others}

    def permitted_lines(self) -> list[str]:
        """The lines that stand here with what is permitted. Notes the rest in `forbidden`."""
        result = list[str]()
        next_put = 0
        for number, line in enumerate(self._taken):
            update_number = self._updates.get(number)
            if update_number is not None:
                # New lines before the update stay before it.
                result += self._added(next_put, update_number)
                update = self._put[update_number]
                is_updated = self._check("update", update)
                result.append(update if is_updated else line)
                next_put = max(next_put, update_number + 1)
            elif self._stays(number):
                result.append(line)
        end = len(self._put)
        result += self._added(next_put, end)
        if self.forbidden:
            return result
        # Nothing is forbidden: the new lines keep the order in which they were put in.
        return list(self._put)

    def _stays(self, number: int) -> bool:
        """Whether a line stays that is taken out and has no other in its place."""
        if number in self._moved_away:
            return False
        line = self._taken[number]
        is_blank = not line.strip()
        if is_blank:
            return True
        is_removed = self._check("remove", line)
        return not is_removed

    def _added(self, first: int, end: int) -> list[str]:
        """The new lines that may be added, from the number `first` up to the one before `end`.

        A line that stands in place of another one is not among them.
        """
        updates = set(self._updates.values())
        lines = list[str]()
        for number in range(first, end):
            if number in updates:
                continue
            line = self._put[number]
            is_moved = number in self._moved_here
            if is_moved or self._check("add", line):
                lines.append(line)
        return lines

    def _check(self, kind: ChangeKind, line: str) -> bool:
        """Whether a change of a line is permitted. Notes it in `forbidden` if it is not."""
        if kind in self._may:
            return True
        text = line.strip()
        if text:
            change = ForbiddenChange(self._path, kind, text)
            self.forbidden.append(change)
        return False


def _take_moved(moved: Counter[str], lines: Sequence[str]) -> set[int]:
    """Take those of these lines that are moved out of `moved`. Returns their numbers."""
    numbers = set[int]()
    for number, raw_line in enumerate(lines):
        line = raw_line.strip()
        if line and moved[line] > 0:
            moved[line] -= 1
            numbers.add(number)
    return numbers


def _facts_and_others(
    lines: Sequence[str], moved: Collection[int]
) -> tuple[NumberedLines, NumberedLines]:
    """The lines that are facts, and the others with text; none that is moved."""
    facts = NumberedLines()
    others = NumberedLines()
    for number, line in enumerate(lines):
        is_blank = not line.strip()
        if is_blank or number in moved:
            continue
        if facts_in(line):
            facts[number] = line
        else:
            others[number] = line
    return facts, others


def _pairs(taken: NumberedLines, put: NumberedLines) -> dict[int, int]:
    """By the number of an old line, that of the new line that stands in its place.

    Where there are more lines of one sort than of the other, some are in no pair.
    """
    pairs = dict[int, int]()
    new_unpaired = {*put}
    for _, old, new in _most_alike(taken, put):
        if old not in pairs and new in new_unpaired:
            pairs[old] = new
            new_unpaired.remove(new)
    # The other lines belong together in their order.
    old_unpaired = [old for old in taken if old not in pairs]
    new_in_order = sorted(new_unpaired)
    for old, new in zip(old_unpaired, new_in_order, strict=False):
        pairs[old] = new
    return pairs


class _AlikeLines(NamedTuple):
    """The numbers of an old and a new line with words in common. Those with most come first."""

    order: int
    old: int
    new: int


def _most_alike(taken: NumberedLines, put: NumberedLines) -> list[_AlikeLines]:
    """All pairs of lines with words in common, in order; [] where they are too many to compare."""
    number_of_pairs = len(taken) * len(put)
    if number_of_pairs > _MOST_PAIRS:
        return []
    words_taken = _words_by_number(taken)
    words_put = _words_by_number(put)
    alike = list[_AlikeLines]()
    for old, old_words in words_taken.items():
        for new, new_words in words_put.items():
            in_common = old_words & new_words
            if in_common:
                order = -len(in_common)
                alike.append(_AlikeLines(order, old, new))
    return sorted(alike)


def _words_by_number(lines: NumberedLines) -> dict[int, set[str]]:
    """The words of lines, by the lines' numbers."""
    words = dict[int, set[str]]()
    for number, line in lines.items():
        key = key_of(line)
        words[number] = set(key)
    return words
