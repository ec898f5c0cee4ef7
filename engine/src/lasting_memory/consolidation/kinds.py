"""Which kinds of change consolidation may make: additions, updates and removals
(`Consolidation.may`).

This compares a batch's draft with memory, whatever the model was told. What a batch does beyond is
left out line by line, of a JSON object field by field, and the rest stays.

- A line is *added* if its text is new. It is *removed* if its text is gone.
- An *update* is a line that stands in place of another. Of the lines that are taken out and put in
  at one place of a file, those that have most words in common belong together, and the others in
  their order. A heading, or a line without words, stands in place of no fact: the fact is removed.
- A line that is moved, within a file or to another one, is none of these.
- A field is added if it had no value, removed if it has none any more, and otherwise updated. Null
  and empty texts, lists and objects are no values. The fields of an object within count, too. A
  JSON file that is no object changes as a whole.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lasting_memory.consolidation.facts import facts_of, is_heading, key_of
from lasting_memory.deployment import KINDS, Kind
from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Changed

# Pairs of lines at one place that are compared by their words: beyond, they belong together in
# their order.
_MOST_PAIRS = 10_000


class Beyond(NamedTuple):
    """A change that may not be made: in which file, of what kind, and the line or field."""

    path: str
    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.path}, {self.kind}: {self.text[:120]}"


def listed(kinds: Collection[Kind], word: str = "and") -> str:
    """Kinds of change as a list of verbs: "add", "add and update"."""
    return f" {word} ".join(kind for kind in KINDS if kind in kinds)


def within(changes: Sequence[Changed], may: Collection[Kind]) -> tuple[list[Changed], list[Beyond]]:
    """The part of a batch's changes that may be made, and what is left out. Blocks."""
    if {"add", "update", "remove"} <= set(may):
        return list(changes), []
    moved = _moved(changes)
    permitted = list[Changed]()
    left_out = list[Beyond]()
    for change in changes:
        if change.path.endswith(".json"):
            text, beyond = _permitted_json(change, may)
        else:
            text, beyond = _permitted_lines(change, may, moved)
        rest = [line for line in text.split("\n") if line.strip()]
        if change.deleted and all(map(is_heading, rest)):
            # All its lines are elsewhere, or may go.
            permitted.append(change)
            continue
        left_out += beyond
        if text != change.before and (change.before or rest):
            permitted.append(replace(change, after=text, deleted=False))
    return permitted, left_out


# --- Lines


class _Moved(NamedTuple):
    """Lines that are taken out in one place and put in at another, and how often; each place takes
    one away.
    """

    out: Counter[str]
    back: Counter[str]


def _moved(changes: Sequence[Changed]) -> _Moved:
    texts = [change for change in changes if not change.path.endswith(".json")]
    taken = Counter[str]()
    put = Counter[str]()
    for change in texts:
        old = change.before.split("\n")
        new = change.after.split("\n")
        for old_start, old_end, new_start, new_end in journal.edits(old, new):
            taken.update(line.strip() for line in old[old_start:old_end])
            put.update(line.strip() for line in new[new_start:new_end])
    facts_before = facts_of([(change.path, change.before) for change in texts])
    facts_after = facts_of([(change.path, change.after) for change in texts])
    both = Counter[str]()
    for line, times in (taken & put).items():
        key = key_of(line)
        # A fact that now stands in a comment is gone.
        if key in facts_after or key not in facts_before:
            both[line] = times
    return _Moved(both.copy(), both.copy())


def _permitted_lines(
    change: Changed, may: Collection[Kind], moved: _Moved
) -> tuple[str, list[Beyond]]:
    """The text with what may be made of its changes, and what is left out."""
    old = change.before.split("\n")
    new = change.after.split("\n")
    lines = list[str]()
    left_out = list[Beyond]()
    next_old = 0
    for old_start, old_end, new_start, new_end in journal.edits(old, new):
        lines += old[next_old:old_start]
        next_old = old_end
        place = _Place(old[old_start:old_end], new[new_start:new_end], may, moved)
        lines += place.lines()
        for kind, text in place.left_out:
            left_out.append(Beyond(change.path, kind, text))
    lines += old[next_old:]
    return "\n".join(lines), left_out


class _Place:
    """The lines that were taken out and put in at one place of a file."""

    def __init__(
        self, taken: Sequence[str], put: Sequence[str], may: Collection[Kind], moved: _Moved
    ) -> None:
        self._taken = taken
        self._put = put
        self._may = may
        # Numbers of the lines that go to another place, and of those that come from one.
        self._going = _take_moved(taken, moved.out)
        self._coming = _take_moved(put, moved.back)
        self._pairs = _pairs_of(_others(taken, self._going), _others(put, self._coming))
        self.left_out = list[tuple[Kind, str]]()

    def lines(self) -> list[str]:
        """The lines that may stand there, once `left_out` has the others."""
        lines = list[str]()
        next_new = 0
        for number, line in enumerate(self._taken):
            if number in self._pairs:
                new_number = self._pairs[number]
                lines += self._added(range(next_new, new_number))
                lines.append(self._updated(line, self._put[new_number]))
                next_new = max(next_new, new_number + 1)
            elif self._stays(number, line):
                lines.append(line)
        lines += self._added(range(next_new, len(self._put)))
        if self.left_out:
            return lines
        return list(self._put)

    def _added(self, numbers: range) -> list[str]:
        """The new lines with these numbers that stand in no other's place, as far as they may be
        added.
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

    def _updated(self, old: str, new: str) -> str:
        return new if self._may_do("update", new) else old

    def _stays(self, number: int, line: str) -> bool:
        """Whether a line that was taken out, and that no other stands in place of, stays there."""
        if number in self._going:
            return False
        if not line.strip():
            return True
        return not self._may_do("remove", line)

    def _may_do(self, kind: Kind, line: str) -> bool:
        """Whether this may be done with a line; notes it as left out if not."""
        if kind in self._may:
            return True
        if line.strip():
            self.left_out.append((kind, line.strip()))
        return False


def _take_moved(lines: Sequence[str], moved: Counter[str]) -> set[int]:
    """The numbers of those lines that are moved, each of which takes one away of `moved`."""
    numbers = set[int]()
    for number, line in enumerate(lines):
        text = line.strip()
        if text and moved[text] > 0:
            moved[text] -= 1
            numbers.add(number)
    return numbers


def _others(lines: Sequence[str], known: Collection[int]) -> dict[int, str]:
    """The lines with text that are none of these, by their numbers."""
    others = dict[int, str]()
    for number, line in enumerate(lines):
        if line.strip() and number not in known:
            others[number] = line
    return others


def _pairs_of(taken: Mapping[int, str], put: Mapping[int, str]) -> dict[int, int]:
    """Which of the new lines stands in place of which old one, by their numbers: facts in place of
    facts, other lines in place of others.
    """
    old_facts, old_others = _facts_and_others(taken)
    new_facts, new_others = _facts_and_others(put)
    return _pairs_of_a_kind(old_facts, new_facts) | _pairs_of_a_kind(old_others, new_others)


def _facts_and_others(lines: Mapping[int, str]) -> tuple[dict[int, str], dict[int, str]]:
    facts = dict[int, str]()
    others = dict[int, str]()
    for number, line in lines.items():
        if facts_of([("", line)]):
            facts[number] = line
        else:
            others[number] = line
    return facts, others


def _pairs_of_a_kind(taken: Mapping[int, str], put: Mapping[int, str]) -> dict[int, int]:
    """Those with most words in common belong together, and the others in their order."""
    unpaired = dict(put)
    pairs = dict[int, int]()
    common = _common_words(taken, put)
    for old_number, new_number in sorted(common, key=lambda pair: (-common[pair], pair)):
        if old_number not in pairs and new_number in unpaired:
            pairs[old_number] = new_number
            del unpaired[new_number]
    for old_number in taken:
        if old_number not in pairs and unpaired:
            first = min(unpaired)
            pairs[old_number] = first
            del unpaired[first]
    return pairs


def _common_words(taken: Mapping[int, str], put: Mapping[int, str]) -> dict[tuple[int, int], int]:
    """How many words an old and a new line have in common, by their numbers; only pairs with any.
    None where there are too many pairs to compare.
    """
    common = dict[tuple[int, int], int]()
    if len(taken) * len(put) > _MOST_PAIRS:
        return common
    new_words = {number: set(key_of(line)) for number, line in put.items()}
    for old_number, line in taken.items():
        old_words = set(key_of(line))
        for new_number, words in new_words.items():
            count = len(old_words & words)
            if count:
                common[old_number, new_number] = count
    return common


# --- JSON


def _permitted_json(change: Changed, may: Collection[Kind]) -> tuple[str, list[Beyond]]:
    """The text of a JSON file with what may be made of its changes, and what is left out."""
    old = _fields_of(change.before)
    new = _fields_of("" if change.deleted else change.after)
    if old is None or new is None:
        return _permitted_whole(change, may)
    try:
        fields, left_out = _permitted_fields(old, new, may, Beyond(change.path, "update", ""))
    except RecursionError:
        return change.before, [Beyond(change.path, "update", "the whole file")]
    if not left_out:
        return change.after, []
    if _are_same(fields, old):
        return change.before, left_out
    if not fields:
        return "", left_out
    return json.dumps(fields, indent=2, ensure_ascii=False) + "\n", left_out


def _permitted_whole(change: Changed, may: Collection[Kind]) -> tuple[str, list[Beyond]]:
    """The text of a JSON file that is no object, or becomes none."""
    kind: Kind = "update"
    if not change.before:
        kind = "add"
    elif change.deleted:
        kind = "remove"
    if kind in may:
        return change.after, []
    return change.before, [Beyond(change.path, kind, "the whole file")]


def _permitted_fields(
    old: Mapping[str, Any], new: Mapping[str, Any], may: Collection[Kind], where: Beyond
) -> tuple[dict[str, Any], list[Beyond]]:
    """The fields of an object with what may be made of its changes, and what is left out. `where`
    names the object.
    """
    fields = dict[str, Any]()
    left_out = list[Beyond]()
    for name in dict.fromkeys([*old, *new]):
        before = old.get(name)
        after = new.get(name)
        if before and after and isinstance(before, dict) and isinstance(after, dict):
            inner = where._replace(text=f"{where.text}{name}.")
            fields[name], beyond = _permitted_fields(before, after, may, inner)
            left_out += beyond
            continue
        kind = _kind_of(before, after)
        is_permitted = kind is None or kind in may
        source = new if is_permitted else old
        if name in source:
            fields[name] = source[name]
        if kind is not None and not is_permitted:
            value = before if kind == "remove" else after
            left_out.append(Beyond(where.path, kind, f"{where.text}{name}: {value}"))
    return fields, left_out


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
    return json.dumps(one) == json.dumps(other)


def _fields_of(text: str) -> dict[str, Any] | None:
    """The fields of a JSON object; none of no text; None for other text."""
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
