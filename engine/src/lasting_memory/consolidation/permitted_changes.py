"""Which kinds of change consolidation may make: additions, updates and removals
(`Consolidation.may`).

This compares a batch's draft with memory, whatever the model was told. What a batch does beyond is
left out line by line, of a JSON object field by field, and the rest stays.

- A line is *added* if its text is new. It is *removed* if its text is gone.
- An *update* is a line that stands in place of another. Of lines that are taken out and put in at
  one place of a file, those belong together that have most words in common, and otherwise in their
  order. A heading, or a line without words, stands in place of no fact: the fact is removed.
- A line that is moved, within a file or to another one, is none of these.
- A field is added if it had no value, removed if it has none any more, and otherwise updated. Null
  and empty texts, lists and objects are no values. The fields of an object within count, too. A
  JSON file that is no object changes as a whole.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard

from lasting_memory.consolidation.facts import TextFile, facts_in, facts_of, is_heading, key_of
from lasting_memory.deployment import KINDS, Kind
from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Changed

# Pairs of lines at one place that are compared by their words: beyond, they belong together in
# their order.
_MOST_PAIRS = 10_000
# Characters of a line or field that is left out, as it is told.
_TEXT_CHARS = 120
_WHOLE_FILE = "the whole file"


class Beyond(NamedTuple):
    """A change that may not be made: in which file, of what kind, and the line or field."""

    path: str
    kind: Kind
    text: str

    def __str__(self) -> str:
        start = self.text[:_TEXT_CHARS]
        return f"{self.path}, {self.kind}: {start}"


def listed(kinds: Collection[Kind], word: str = "and") -> str:
    """Kinds of change as a list of verbs: "add", "add and update"."""
    in_order = [kind for kind in KINDS if kind in kinds]
    return f" {word} ".join(in_order)


def within(changes: Sequence[Changed], may: Collection[Kind]) -> tuple[list[Changed], list[Beyond]]:
    """The part of a batch's changes that may be made, and what is left out. Blocks."""
    may_do_all = {*KINDS} <= {*may}
    if may_do_all:
        return list(changes), []
    moved = _moved(changes)
    kept = list[Changed]()
    left_out = list[Beyond]()
    for change in changes:
        if change.path.endswith(".json"):
            text, found = _object(change, may)
        else:
            text, found = _lines(change, may, moved)
        lines_left = [line for line in text.split("\n") if line.strip()]
        has_only_headings = all(map(is_heading, lines_left))
        # All lines of a deleted file are elsewhere, or may go.
        if change.deleted and has_only_headings:
            kept.append(change)
            continue
        left_out += found
        is_file = bool(change.before) or bool(lines_left)
        if is_file and text != change.before:
            kept.append(replace(change, after=text, deleted=False))
    return kept, left_out


# --- Lines


class _Moved(NamedTuple):
    """Lines that are taken out in one place and put in at another, and how often.

    Each place takes one away.
    """

    out: Counter[str]
    back: Counter[str]


def _moved(changes: Sequence[Changed]) -> _Moved:
    before = list[TextFile]()
    after = list[TextFile]()
    text_changes = list[Changed]()
    for change in changes:
        if not change.path.endswith(".json"):
            text_changes.append(change)
            before.append((change.path, change.before))
            after.append((change.path, change.after))
    facts_before = facts_of(before)
    facts_after = facts_of(after)
    gone = facts_before.keys() - facts_after.keys()
    moved = Counter[str]()
    for line, times in _taken_and_put(text_changes).items():
        # A fact that now stands in a comment is gone.
        if key_of(line) not in gone:
            moved[line] = times
    return _Moved(out=moved, back=moved.copy())


def _taken_and_put(changes: Sequence[Changed]) -> Counter[str]:
    """The lines that are taken out and put in, and how often both."""
    taken = Counter[str]()
    put = Counter[str]()
    for change in changes:
        old = _stripped_lines(change.before)
        new = _stripped_lines(change.after)
        for start, end, new_start, new_end in _edits_of(change):
            taken_here = old[start:end]
            put_here = new[new_start:new_end]
            taken.update(taken_here)
            put.update(put_here)
    return taken & put


def _edits_of(change: Changed) -> Iterable[tuple[int, int, int, int]]:
    """The places where a text changes, as numbers of old and of new lines."""
    old = change.before.split("\n")
    new = change.after.split("\n")
    return journal.edits(old, new)


def _stripped_lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n")]


def _take_all(moved: Counter[str], lines: Sequence[str]) -> set[int]:
    """Take the lines that are moved out of `moved`. Returns their numbers."""
    numbers = set[int]()
    for number, raw_line in enumerate(lines):
        line = raw_line.strip()
        if line and moved[line] > 0:
            moved[line] -= 1
            numbers.add(number)
    return numbers


def _lines(change: Changed, may: Collection[Kind], moved: _Moved) -> tuple[str, list[Beyond]]:
    """The text with what may be made of its changes, and what is left out."""
    old = change.before.split("\n")
    new = change.after.split("\n")
    copied = 0  # lines of the old text that are in the result, or taken out
    result = list[str]()
    left_out = list[Beyond]()
    for start, end, new_start, new_end in _edits_of(change):
        unchanged = old[copied:start]
        taken = old[start:end]
        put = new[new_start:new_end]
        place = _Place(taken, put, may, moved)
        result += unchanged
        result += place.lines()
        for kind, text in place.left_out:
            left_out.append(Beyond(change.path, kind, text))
        copied = end
    result += old[copied:]
    return "\n".join(result), left_out


class _Place:
    """The lines that were taken out and put in at one place of a file."""

    def __init__(
        self, taken: Sequence[str], put: Sequence[str], may: Collection[Kind], moved: _Moved
    ) -> None:
        self._taken = taken
        self._put = put
        self._may = may
        # Numbers of the lines that are moved from here and to here.
        going = _take_all(moved.out, taken)
        coming = _take_all(moved.back, put)
        self._going = going
        self._coming = coming
        facts_taken, others_taken = _facts_and_others(taken, going)
        facts_put, others_put = _facts_and_others(put, coming)
        pairs_of_facts = _pairs(facts_taken, facts_put)
        pairs_of_others = _pairs(others_taken, others_put)
        # By the number of a line that was taken out, that of the line in its place.
        self._pairs = {**pairs_of_facts, **pairs_of_others}
        self.left_out = list[tuple[Kind, str]]()

    def lines(self) -> list[str]:
        """The lines that may stand there, once `left_out` has the others."""
        result = list[str]()
        next_put = 0
        for number, line in enumerate(self._taken):
            if number in self._pairs:
                put_number = self._pairs[number]
                numbers_before = range(next_put, put_number)
                result += self._added(numbers_before)
                update = self._put[put_number]
                is_updated = self._may_do("update", update)
                result.append(update if is_updated else line)
                next_put = max(next_put, put_number + 1)
            elif number not in self._going:
                is_removed = line.strip() and self._may_do("remove", line)
                if not is_removed:
                    result.append(line)
        numbers_left = range(next_put, len(self._put))
        result += self._added(numbers_left)
        if self.left_out:
            return result
        return list(self._put)

    def _added(self, numbers: range) -> list[str]:
        """The new lines with these numbers that may be added.

        A line that stands in place of another one is not among them.
        """
        updates = set(self._pairs.values())
        lines = list[str]()
        for number in numbers:
            if number in updates:
                continue
            line = self._put[number]
            if number in self._coming or self._may_do("add", line):
                lines.append(line)
        return lines

    def _may_do(self, kind: Kind, line: str) -> bool:
        if kind in self._may:
            return True
        text = line.strip()
        if text:
            self.left_out.append((kind, text))
        return False


def _facts_and_others(
    lines: Sequence[str], moved: Collection[int]
) -> tuple[dict[int, str], dict[int, str]]:
    """The lines that are facts, and the others with text, by their numbers; none that is moved."""
    facts = dict[int, str]()
    others = dict[int, str]()
    for number, line in enumerate(lines):
        if not line.strip() or number in moved:
            continue
        is_fact = facts_in(line)
        if is_fact:
            facts[number] = line
        else:
            others[number] = line
    return facts, others


def _pairs(taken: Mapping[int, str], put: Mapping[int, str]) -> dict[int, int]:
    """Which of the new lines stands in place of which old one, by their numbers."""
    pairs = dict[int, int]()
    left = {*put}
    for old, new in _most_alike(taken, put):
        if old not in pairs and new in left:
            pairs[old] = new
            left.remove(new)
    in_order = iter(sorted(left))
    for old in taken:
        if old not in pairs:
            new_number = next(in_order, None)
            if new_number is None:
                break
            pairs[old] = new_number
    return pairs


def _most_alike(taken: Mapping[int, str], put: Mapping[int, str]) -> list[tuple[int, int]]:
    """Pairs of an old and a new line with words in common, most of them first.

    None where there are too many pairs to compare.
    """
    number_of_pairs = len(taken) * len(put)
    if number_of_pairs > _MOST_PAIRS:
        return []
    words_taken = _words_by_number(taken)
    words_put = _words_by_number(put)
    common = dict[tuple[int, int], int]()
    for old, old_words in words_taken.items():
        for new, new_words in words_put.items():
            words_of_both = old_words & new_words
            if words_of_both:
                pair = (old, new)
                common[pair] = len(words_of_both)
    return sorted(common, key=lambda pair: (-common[pair], pair))


def _words_by_number(lines: Mapping[int, str]) -> dict[int, set[str]]:
    words = dict[int, set[str]]()
    for number, line in lines.items():
        key = key_of(line)
        words[number] = set(key)
    return words


# --- JSON


def _object(change: Changed, may: Collection[Kind]) -> tuple[str, list[Beyond]]:
    """The text of a JSON file with what may be made of its changes, and what is left out."""
    old = _fields_of(change.before)
    new = _fields_of("" if change.deleted else change.after)
    if old is None or new is None:
        return _whole_object(change, may)
    where = Beyond(change.path, "update", "")
    try:
        result, left_out = _merged(old, new, may, where)
    except RecursionError:
        too_deep = where._replace(text=_WHOLE_FILE)
        return change.before, [too_deep]
    if not left_out:
        return change.after, []
    if _are_same(result, old):
        return change.before, left_out
    if not result:
        return "", left_out
    text = json.dumps(result, indent=2, ensure_ascii=False)
    return f"{text}\n", left_out


def _whole_object(change: Changed, may: Collection[Kind]) -> tuple[str, list[Beyond]]:
    """As `_object`, of a file that is no object before or after the change."""
    kind = _kind_of_file_change(change)
    if kind in may:
        return change.after, []
    left_out = Beyond(change.path, kind, _WHOLE_FILE)
    return change.before, [left_out]


def _kind_of_file_change(change: Changed) -> Kind:
    if not change.before:
        return "add"
    return "remove" if change.deleted else "update"


def _merged(
    old: Mapping[str, Any], new: Mapping[str, Any], may: Collection[Kind], where: Beyond
) -> tuple[dict[str, Any], list[Beyond]]:
    """The fields of an object with what may be made of its changes, and what is left out.

    `where` names the object.
    """
    result = dict[str, Any]()
    left_out = list[Beyond]()
    for name in dict.fromkeys([*old, *new]):
        before = old.get(name)
        after = new.get(name)
        where_of_field = f"{where.text}{name}"
        if _is_object(before) and _is_object(after):
            where_within = where._replace(text=f"{where_of_field}.")
            result[name], beyond = _merged(before, after, may, where_within)
            left_out += beyond
            continue
        kind = _kind_of(before, after)
        is_made = kind is None or kind in may
        if kind is not None and not is_made:
            value = before if kind == "remove" else after
            text = f"{where_of_field}: {value}"
            left_out.append(Beyond(where.path, kind, text))
        source = new if is_made else old
        if name in source:
            result[name] = source[name]
    return result, left_out


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value is an object with fields."""
    return isinstance(value, dict) and bool(value)


def _kind_of(before: object, after: object) -> Kind | None:
    """Which kind of change it is that a field has another value; None if it has not."""
    if not _has_value(before):
        return "add" if _has_value(after) else None
    if not _has_value(after):
        return "remove"
    return None if _are_same(before, after) else "update"


def _has_value(value: object) -> bool:
    return value not in (None, "", [], {})


def _are_same(one: object, other: object) -> bool:
    """Whether two values are the same JSON: Python takes true for 1."""
    one_text = json.dumps(one)
    other_text = json.dumps(other)
    return one_text == other_text


def _fields_of(text: str) -> dict[str, Any] | None:
    """The fields of a JSON object; none of no text; None for other text."""
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
