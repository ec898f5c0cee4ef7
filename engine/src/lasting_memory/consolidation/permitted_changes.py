"""Which part of a batch's changes the deployment permits, by their kinds: additions, updates and
removals (`Consolidation.may`).

This compares a batch's draft with memory, whatever the model was told. What is forbidden is left
out line by line, of a JSON object field by field, and the rest stays.

- A line is *added* if its text is new. It is *removed* if its text is gone.
- An *update* is a line that stands in place of another. Of lines that are taken out and put in at
  one place of a file, those belong together that have most words in common, and otherwise in their
  order. A heading, or a line without words, stands in place of no fact: the fact is removed.
- A line that is *moved*, within a file or to another one, is none of these.
- A field is added if it had no value, removed if it has none any more, and otherwise updated. Null
  and empty texts, lists and objects are no values. The fields of an object within count, too. A
  JSON file that is no object changes as a whole.

`may` are everywhere the kinds of change that are permitted.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeGuard

from lasting_memory.consolidation.changed_places import Place, changed_places
from lasting_memory.consolidation.facts import TextFile, facts_in, facts_of, is_heading, key_of
from lasting_memory.deployment import KINDS
from lasting_memory.deployment import Kind as ChangeKind
from lasting_memory.memory.proposals import Changed

# Pairs of lines at one place that are compared by their words: beyond, they belong together in
# their order.
_MOST_PAIRS = 10_000
# Characters of a line or field that is left out, as it is told.
_TEXT_CHARS = 120
_WHOLE_FILE = "the whole file"


class ForbiddenChange(NamedTuple):
    """A change that may not be made: the path of its file, its kind, and the line or field."""

    path: str
    kind: ChangeKind
    text: str

    def __str__(self) -> str:
        start = self.text[:_TEXT_CHARS]
        return f"{self.path}, {self.kind}: {start}"


def verbs(kinds: Collection[ChangeKind], conjunction: str = "and") -> str:
    """Kinds of change as a list of verbs, in a fixed order: "add", "add and update"."""
    in_order = list[str]()
    for kind in KINDS:
        if kind in kinds:
            in_order.append(kind)
    return f" {conjunction} ".join(in_order)


def permitted_part(
    changes: Sequence[Changed], may: Collection[ChangeKind]
) -> tuple[list[Changed], list[ForbiddenChange]]:
    """What is permitted of a batch's changes, and what is not. A file of which nothing may change
    is not among the changes. Blocks.
    """
    may_do_all = {*KINDS} <= {*may}
    if may_do_all:
        return list(changes), []
    moved = _moved(changes)
    permitted = list[Changed]()
    forbidden = list[ForbiddenChange]()
    for change in changes:
        if change.path.endswith(".json"):
            text, forbidden_here = _permitted_json(change, may)
        else:
            text, forbidden_here = _permitted_text(change, may, moved)
        lines = _lines_with_text(text)
        has_only_headings = all(map(is_heading, lines))
        # All lines of a deleted file are elsewhere, or may go.
        if change.deleted and has_only_headings:
            permitted.append(change)
            continue
        forbidden += forbidden_here
        is_file = bool(change.before or lines)
        is_changed = text != change.before
        if is_file and is_changed:
            part = replace(change, after=text, deleted=False)
            permitted.append(part)
    return permitted, forbidden


def _lines_with_text(text: str) -> list[str]:
    """The lines of a text that are not blank."""
    lines = list[str]()
    for line in text.split("\n"):
        if line.strip():
            lines.append(line)
    return lines


# --- Lines

# Lines by their numbers, from 0, among those that a place of a file takes out, or puts in.
NumberedLines = dict[int, str]


class _Moved(NamedTuple):
    """The moved lines that no place of a file has taken into account yet, and how often: where they
    are taken out, and where they are put in.
    """

    taken_out: Counter[str]
    put_in: Counter[str]


def _moved(changes: Sequence[Changed]) -> _Moved:
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
    return _Moved(taken_out=moved, put_in=moved.copy())


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


def _permitted_text(
    change: Changed, may: Collection[ChangeKind], moved: _Moved
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
        moved: _Moved,
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


# --- JSON


def _permitted_json(
    change: Changed, may: Collection[ChangeKind]
) -> tuple[str, list[ForbiddenChange]]:
    """The text of a JSON file with what is permitted of its change, and what is not."""
    after = "" if change.deleted else change.after
    old = _fields_of(change.before)
    new = _fields_of(after)
    if old is None or new is None:
        return _permitted_whole(change, may)
    merge = _ObjectMerge(change.path, may)
    try:
        result = merge.merged(old, new)
    except RecursionError:
        too_deep = ForbiddenChange(change.path, "update", _WHOLE_FILE)
        return change.before, [too_deep]
    if not merge.forbidden:
        return change.after, []
    if _are_same(result, old):
        return change.before, merge.forbidden
    if not result:
        return "", merge.forbidden
    text = json.dumps(result, indent=2, ensure_ascii=False)
    return f"{text}\n", merge.forbidden


def _permitted_whole(
    change: Changed, may: Collection[ChangeKind]
) -> tuple[str, list[ForbiddenChange]]:
    """As `_permitted_json`, of a file that is no object before or after the change: it changes as a
    whole, or not at all.
    """
    kind = _kind_of_file_change(change)
    if kind in may:
        return change.after, []
    whole_file = ForbiddenChange(change.path, kind, _WHOLE_FILE)
    return change.before, [whole_file]


def _kind_of_file_change(change: Changed) -> ChangeKind:
    """Which kind of change it is that a file changes as a whole."""
    if not change.before:
        return "add"
    if change.deleted:
        return "remove"
    return "update"


class _ObjectMerge:
    """Merges what is permitted of a change of a JSON object into the object."""

    def __init__(self, path: str, may: Collection[ChangeKind]) -> None:
        self._path = path
        self._may = may
        self.forbidden = list[ForbiddenChange]()

    def merged(
        self, old: Mapping[str, object], new: Mapping[str, object], prefix: str = ""
    ) -> dict[str, object]:
        """The fields of an object with what is permitted. Notes the others in `forbidden`.

        `prefix` stands before the names of an object's fields within another: `address.`. Raises
        `RecursionError` for objects that are nested too deep.
        """
        result = dict[str, object]()
        names = dict.fromkeys([*old, *new])
        for name in names:
            before = old.get(name)
            after = new.get(name)
            if _is_object(before) and _is_object(after):
                prefix_within = f"{prefix}{name}."
                result[name] = self.merged(before, after, prefix_within)
                continue
            kind = _kind_of_field_change(before, after)
            is_permitted = kind is None or kind in self._may
            fields = new if is_permitted else old
            if name in fields:
                result[name] = fields[name]
            if kind is None or is_permitted:
                continue
            value = before if kind == "remove" else after
            text = f"{prefix}{name}: {value}"
            forbidden = ForbiddenChange(self._path, kind, text)
            self.forbidden.append(forbidden)
        return result


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Whether a value is an object with fields."""
    return isinstance(value, dict) and bool(value)


def _kind_of_field_change(before: object, after: object) -> ChangeKind | None:
    """Which kind of change it is that a field has another value; None if it has not."""
    had_value = _has_value(before)
    has_value = _has_value(after)
    if not had_value and not has_value:
        return None
    if not had_value:
        return "add"
    if not has_value:
        return "remove"
    return None if _are_same(before, after) else "update"


def _has_value(value: object) -> bool:
    """Whether a field counts as one with a value."""
    return value not in (None, "", [], {})


def _are_same(one: object, other: object) -> bool:
    """Whether two values are the same JSON: Python takes true for 1."""
    one_text = json.dumps(one)
    other_text = json.dumps(other)
    return one_text == other_text


def _fields_of(text: str) -> dict[str, object] | None:
    """The fields of a JSON object: {} for an empty text, None for what is no object."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        return value
    return None
