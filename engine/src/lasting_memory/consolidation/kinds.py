"""Which kinds of change consolidation may make: additions, updates and removals
(`Consolidation.may`).

This compares a batch's draft with memory, whatever the model was told. What a batch does beyond is
left out line by line, of a JSON object field by field, and the rest stays.

- A line is *added* if its text is new. It is *removed* if its text is gone.
- An *update* is a line that stands in place of another: of lines that are taken out and put in at
  one place of a file, those
  belong together that have most words in common, and otherwise in their order. A heading, or a line
  without words, stands in place of no fact: the fact is removed.
- A line that is moved, within a file or to another one, is none of these.
- A field is added if it had no value, removed if it has none any more, and otherwise updated. Null
  and empty texts, lists and
  objects are no values. The fields of an object within count, too. A JSON file that is no object
  changes as a whole.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
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
    if {"add", "update", "remove"} <= {*may}:
        return list(changes), []
    moved = _moved(changes)
    kept = list[Changed]()
    left_out = list[Beyond]()
    for change in changes:
        if change.path.endswith(".json"):
            text, found = _object(change, may)
        else:
            text, found = _lines(change, may, moved)
        rest = [line for line in text.split("\n") if line.strip()]
        if change.deleted and all(map(is_heading, rest)):  # all its lines are elsewhere, or may go
            kept.append(change)
            continue
        left_out += found
        if text != change.before and (change.before or rest):
            kept.append(replace(change, after=text, deleted=False))
    return kept, left_out


# --- Lines


class _Moved(NamedTuple):
    """Lines that are taken out in one place and put in at another, and how often; each place takes
    one away.
    """

    out: Counter[str]
    back: Counter[str]


def _moved(changes: Sequence[Changed]) -> _Moved:
    taken = Counter[str]()
    put = Counter[str]()
    for change in _texts(changes):
        old = change.before.split("\n")
        new = change.after.split("\n")
        for i, i_end, j, j_end in journal.edits(old, new):
            taken.update(line.strip() for line in old[i:i_end])
            put.update(line.strip() for line in new[j:j_end])
    # A fact that now stands in a comment is gone.
    facts = facts_of((change.path, change.after) for change in _texts(changes))
    before = facts_of((change.path, change.before) for change in _texts(changes))
    both = Counter(
        {
            line: times
            for line, times in (taken & put).items()
            if key_of(line) in facts or key_of(line) not in before
        }
    )
    return _Moved(both.copy(), both.copy())


def _texts(changes: Sequence[Changed]) -> Iterator[Changed]:
    return (change for change in changes if not change.path.endswith(".json"))


def _take(lines: Counter[str], line: str) -> bool:
    """Whether one of these is left; takes it."""
    if lines[line] <= 0:
        return False
    lines[line] -= 1
    return True


def _lines(change: Changed, may: Collection[Kind], moved: _Moved) -> tuple[str, list[Beyond]]:
    """The text with what may be made of its changes, and what is left out."""
    old = change.before.split("\n")
    new = change.after.split("\n")
    at = 0
    result = list[str]()
    left_out = list[Beyond]()
    for i, i_end, j, j_end in journal.edits(old, new):
        result += old[at:i]
        place = _Place(old[i:i_end], new[j:j_end], may, moved)
        result += place.lines()
        left_out += [Beyond(change.path, kind, text) for kind, text in place.left_out]
        at = i_end
    return "\n".join([*result, *old[at:]]), left_out


class _Place:
    """The lines that were taken out and put in at one place of a file."""

    def __init__(
        self, taken: Sequence[str], put: Sequence[str], may: Collection[Kind], moved: _Moved
    ) -> None:
        self._taken = taken
        self._put = put
        self._may = may
        self._going = {
            i for i, line in enumerate(taken) if line.strip() and _take(moved.out, line.strip())
        }
        self._coming = {
            j for j, line in enumerate(put) if line.strip() and _take(moved.back, line.strip())
        }
        self._pairs = dict[int, int]()
        out = _others(taken, self._going)
        back = _others(put, self._coming)
        for facts in (True, False):
            self._pairs |= _pairs(_that_are(out, facts=facts), _that_are(back, facts=facts))
        self.left_out = list[tuple[Kind, str]]()

    def lines(self) -> list[str]:
        """The lines that may stand there, once `left_out` has the others."""
        result = list[str]()
        done = 0
        for i, line in enumerate(self._taken):
            if i in self._pairs:
                j = self._pairs[i]
                result += self._added(range(done, j))
                result.append(self._put[j] if self._may_do("update", self._put[j]) else line)
                done = max(done, j + 1)
            elif i not in self._going and not (line.strip() and self._may_do("remove", line)):
                result.append(line)
        result += self._added(range(done, len(self._put)))
        return result if self.left_out else list(self._put)

    def _added(self, numbers: range) -> list[str]:
        """The new lines with these numbers that stand in no other's place, as far as they may be
        added.
        """
        places = {*self._pairs.values()}
        new = [number for number in numbers if number not in places]
        return [
            self._put[number]
            for number in new
            if number in self._coming or self._may_do("add", self._put[number])
        ]

    def _may_do(self, kind: Kind, line: str) -> bool:
        if kind in self._may:
            return True
        if line.strip():
            self.left_out.append((kind, line.strip()))
        return False


def _others(lines: Sequence[str], known: Collection[int]) -> dict[int, str]:
    """The lines with text that are none of these, by their numbers."""
    return {
        number: line for number, line in enumerate(lines) if line.strip() and number not in known
    }


def _that_are(lines: Mapping[int, str], *, facts: bool) -> dict[int, str]:
    """Those of these lines that are facts, or the others."""
    return {number: line for number, line in lines.items() if bool(facts_of([("", line)])) is facts}


def _pairs(taken: Mapping[int, str], put: Mapping[int, str]) -> dict[int, int]:
    """Which of the new lines stands in place of which old one, by their numbers."""
    left = dict(put)
    pairs = dict[int, int]()
    words = {number: {*key_of(line)} for number, line in put.items()}
    is_small = len(taken) * len(put) <= _MOST_PAIRS
    alike = dict[tuple[int, int], int]()
    for i, line in taken.items() if is_small else ():
        own = {*key_of(line)}
        alike |= {(i, j): len(own & words[j]) for j in put}
    for i, j in sorted(alike, key=lambda pair: (-alike[pair], pair)):
        if alike[i, j] and i not in pairs and j in left:
            pairs[i] = j
            del left[j]
    for i in taken:
        if i not in pairs and left:
            pairs[i] = min(left)
            del left[pairs[i]]
    return pairs


# --- JSON


def _object(change: Changed, may: Collection[Kind]) -> tuple[str, list[Beyond]]:
    """The text of a JSON file with what may be made of its changes, and what is left out."""
    old = _fields_of(change.before)
    new = _fields_of("" if change.deleted else change.after)
    if old is None or new is None:
        kind: Kind = "add" if not change.before else "remove" if change.deleted else "update"
        return (
            (change.after, [])
            if kind in may
            else (change.before, [Beyond(change.path, kind, "the whole file")])
        )
    try:
        result, left_out = _merged(old, new, may, Beyond(change.path, "update", ""))
    except RecursionError:
        return change.before, [Beyond(change.path, "update", "the whole file")]
    if not left_out:
        return change.after, []
    if _are_same(result, old):
        return change.before, left_out
    return (json.dumps(result, indent=2, ensure_ascii=False) + "\n" if result else ""), left_out


def _merged(
    old: Mapping[str, Any], new: Mapping[str, Any], may: Collection[Kind], where: Beyond
) -> tuple[dict[str, Any], list[Beyond]]:
    """The fields of an object with what may be made of its changes, and what is left out. `where`
    names the object.
    """
    result = dict[str, Any]()
    left_out = list[Beyond]()
    for name in dict.fromkeys([*old, *new]):
        before = old.get(name)
        after = new.get(name)
        if (
            _has_value(before)
            and _has_value(after)
            and isinstance(before, dict)
            and isinstance(after, dict)
        ):
            result[name], beyond = _merged(
                before, after, may, where._replace(text=f"{where.text}{name}.")
            )
            left_out += beyond
            continue
        kind = _kind_of(before, after)
        is_made = kind is None or kind in may
        source = new if is_made else old
        if name in source:
            result[name] = source[name]
        if kind is not None and not is_made:
            value = before if kind == "remove" else after
            left_out.append(Beyond(where.path, kind, f"{where.text}{name}: {value}"))
    return result, left_out


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
        found = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
