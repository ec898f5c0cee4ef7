"""Texts, line by line: how two differ, what becomes of one that two have changed, and of one without
an earlier change. A JSON object is compared by its fields.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# Characters of one file's diff, in the history and in records of consolidation.
MAX_DIFF_CHARS = 20_000
# More lines between a common beginning and end count as different: comparing takes quadratic time.
MAX_COMPARED_LINES = 2_000
# Pairs of lines that are compared in the time in which one line is looked at, roughly.
_PAIRS_A_LINE = 1_000
# In place of a field that an object lacks.
_NO_FIELD = object()


class Edit(NamedTuple):
    """A difference between two sequences of lines: these lines of the old one became those of the
    new one. Each end is the place behind the last line.
    """

    old_start: int
    old_end: int
    new_start: int
    new_end: int

    def taken_out(self, old: Sequence[str]) -> Sequence[str]:
        """Its lines of the old sequence."""
        return old[self.old_start : self.old_end]

    def put_in(self, new: Sequence[str]) -> Sequence[str]:
        """Its lines of the new sequence."""
        return new[self.new_start : self.new_end]


def edits(before: Sequence[str], after: Sequence[str]) -> list[Edit]:
    """The differences between two sequences of lines, in order."""
    head, old, new = _between_ends(before, after)
    common_end = (len(old), len(new))
    same_places = list[tuple[int, int]]()
    if max(common_end) <= MAX_COMPARED_LINES:
        same_places = _common_lines(old, new)
    same_places.append(common_end)
    differences = list[Edit]()
    old_start = head
    new_start = head
    for old_place, new_place in same_places:
        old_end = head + old_place
        new_end = head + new_place
        if old_start < old_end or new_start < new_end:
            differences.append(Edit(old_start, old_end, new_start, new_end))
        old_start = old_end + 1
        new_start = new_end + 1
    return differences


def _between_ends(
    before: Sequence[str], after: Sequence[str]
) -> tuple[int, Sequence[str], Sequence[str]]:
    """The number of lines that two sequences have in common at their beginning, and what of each is
    between this and their common end.
    """
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old = before[head : len(before) - tail]
    new = after[head : len(after) - tail]
    return head, old, new


def _common_lines(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The places of a longest common subsequence in both, in order."""
    rows = _rows(old, new)
    common = list[tuple[int, int]]()
    i = len(old)
    j = len(new)
    while i and j:
        if rows[i - 1] >> (j - 1) & 1:
            j -= 1
        elif i > 1 and not rows[i - 2] >> (j - 1) & 1:
            i -= 1
        else:
            i -= 1
            j -= 1
            common.append((i, j))
    common.reverse()
    return common


def _rows(old: Sequence[str], new: Sequence[str]) -> list[int]:
    """For each line of `old`, which lines of `new` make the common subsequence longer.

    This is Hyyrö's algorithm: an integer has one bit for each line of `new`, so that a step
    compares a line with all of these. `difflib` takes many times as long for some texts, and
    nothing bounds it. A bit of a row is 0 where the common subsequence of the lines up to here
    becomes longer by this line of `new`.
    """
    places = dict[str, int]()  # of each line in `new`, as bits
    for number, line in enumerate(new):
        bit = 1 << number
        places[line] = places.get(line, 0) | bit
    everywhere = (1 << len(new)) - 1
    row = everywhere
    rows = list[int]()
    for line in old:
        found = row & places.get(line, 0)
        row = (row + found) | (row - found)
        row &= everywhere
        rows.append(row)
    return rows


def comparison_cost(before: str | None, after: str | None) -> int:
    """How much work it is to compare two texts, in lines that are looked at. Says so in linear
    time.
    """
    old = lines_of(before or "")
    new = lines_of(after or "")
    _, old_between, new_between = _between_ends(old, new)
    pairs = len(old_between) * len(new_between)
    if max(len(old_between), len(new_between)) > MAX_COMPARED_LINES:
        pairs = 0
    return len(old) + len(new) + pairs // _PAIRS_A_LINE


def lines_of(text: str) -> list[str]:
    """A text's lines. Only a line feed ends one, as everywhere that lines are shown, so that no
    change hides between two.
    """
    return text.removesuffix("\n").split("\n") if text else []


def diff(before: str, after: str) -> str:
    """A unified diff of two texts, with one line of context and without a header."""
    old = lines_of(before)
    new = lines_of(after)
    parts = list[str]()
    for edit in edits(old, new):
        parts += _hunk(edit, old, new)
    return "\n".join(parts)


def _hunk(edit: Edit, old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The lines of a diff about one difference."""
    first = max(0, edit.old_start - 1)
    head = old[first : edit.old_start]
    removed = edit.taken_out(old)
    added = edit.put_in(new)
    tail = old[edit.old_end : edit.old_end + 1]
    context = len(head) + len(tail)
    old_range = _range(edit.old_start - len(head), len(removed) + context)
    new_range = _range(edit.new_start - len(head), len(added) + context)
    lines = [f"@@ -{old_range} +{new_range} @@"]
    lines += _marked(" ", head)
    lines += _marked("-", removed)
    lines += _marked("+", added)
    lines += _marked(" ", tail)
    return lines


def _range(start: int, count: int) -> str:
    """Lines in the head of a hunk, which counts them from 1."""
    return f"{start + 1},{count}"


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    return [f"{mark}{line}" for line in lines]


def cut_diff(text: str) -> str:
    """A diff cut at `MAX_DIFF_CHARS`, with the number of further characters."""
    more = len(text) - MAX_DIFF_CHARS
    if more <= 0:
        return text
    return f"{text[:MAX_DIFF_CHARS]}\n[{more:,} more]"


def merge(path: str, base: str | None, ours: str | None, theirs: str | None) -> str | None:
    """A three-way merge.

    A change beats a deletion; of one line changed twice, both stay; JSON merges by its fields.
    """
    if theirs in (base, ours):
        return ours
    if ours in (base, None):
        return theirs
    if theirs is None:
        return ours
    if path.endswith(".json"):
        fields = _merged_fields(base, ours, theirs)
        if fields is not None:
            return fields
    return _merged_lines(base or "", ours or "", theirs)


def _merged_fields(base: str | None, ours: str | None, theirs: str) -> str | None:
    """A JSON object with the changes of its fields that two made; None for other texts."""
    try:
        before = json.loads(base or "{}")
        here = json.loads(ours or "{}")
        there = json.loads(theirs or "{}")
        if not (isinstance(before, dict) and isinstance(here, dict) and isinstance(there, dict)):
            return None
        fields = _fields_of_both(before, here, there)
        return json.dumps(fields, indent=2) + "\n"
    except (ValueError, RecursionError):
        return None


def _fields_of_both(
    before: Mapping[str, Any], here: Mapping[str, Any], there: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields that are here, with the changes that were made there."""
    fields = dict[str, Any]()
    for name, value in here.items():
        is_taken_out = name in before and name not in there
        if not is_taken_out:
            fields[name] = value
    for name, value in there.items():
        is_changed = name not in before or before[name] != value
        if is_changed:
            fields[name] = value
    return fields


def _merged_lines(base: str, ours: str, theirs: str) -> str:
    """A text with the changes that two made of it.

    What both added is there once. What one took out is gone, also where the other has it in another
    place.
    """
    # Split at line feeds alone, so that joining gives the same text with any line endings.
    old = base.split("\n")
    mine = ours.split("\n")
    other = theirs.split("\n")
    known = Counter(old)
    added_by_me = Counter(mine) - known
    # Blank lines stay, whoever added them.
    new_of_me = {line for line in added_by_me.keys() - known.keys() if line.strip()}
    only_theirs = [line for line in other if line not in new_of_me]
    both = _both_changes(old, only_theirs, mine)
    gone = known.keys() - set(other) - added_by_me.keys()
    left = [line for line in both if line not in gone]
    return "\n".join(left)


def _both_changes(base: Sequence[str], one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Lines with the changes that two made of them.

    Long texts are not compared: what one adds to them is at the end.
    """
    if max(len(base), len(one), len(other)) > MAX_COMPARED_LINES:
        return _both_changes_of_long(base, one, other)
    is_gone = [False] * len(base)
    added = defaultdict[int, list[str]](list)  # by the line before which it stands
    for text in (one, other):
        for edit in edits(base, text):
            for place in range(edit.old_start, edit.old_end):
                is_gone[place] = True
            added[edit.old_start] += edit.put_in(text)
    lines = list[str]()
    for place, line in enumerate(base):
        lines += added[place]
        if not is_gone[place]:
            lines.append(line)
    return lines + added[len(base)]


def _both_changes_of_long(
    base: Sequence[str], one: Sequence[str], other: Sequence[str]
) -> list[str]:
    """The other's lines without those that the one took out, then what the one added."""
    taken_out = Counter(base) - Counter(one)
    lines = list[str]()
    for line in other:
        taken_out[line] -= 1
        if taken_out[line] < 0:
            lines.append(line)
    added = Counter(one) - Counter(base)
    return lines + list(added.elements())


def without_change(path: str, now: str | None, before: str | None, after: str | None) -> str | None:
    """A file's content `now` without an earlier change, which made `after` of `before`; None: no
    file. Later changes stay.
    """
    if now is None:
        return before if after is None else None
    merged = _fields_undone(path, now, before, after)
    if merged is None:
        merged = merge(path, after or "", now, before or "") or ""
    is_empty = merged.strip() in {"", "{}"}
    if before is None and is_empty:
        return None
    return merged


def _fields_undone(path: str, now: str, before: str | None, after: str | None) -> str | None:
    """A JSON object without an earlier change of its fields; None for other texts."""
    if not path.endswith(".json"):
        return None
    try:
        present = json.loads(now or "{}")
        old = json.loads(before or "{}")
        new = json.loads(after or "{}")
        if not (isinstance(present, dict) and isinstance(old, dict) and isinstance(new, dict)):
            return None
        if present == new:
            return "{}" if before is None else before
        fields = _value_undone(present, old, new)
        return now if fields == present else json.dumps(fields, indent=2) + "\n"
    except (ValueError, RecursionError):
        return None


def _value_undone(now: Any, before: Any, after: Any) -> Any:
    """A value without an earlier change: what was changed later stays, in an object field by field,
    in a list by its items.
    """
    if now == after:
        return before
    if before == after:
        return now
    if isinstance(now, list) and isinstance(before, list) and isinstance(after, list):
        return _items_undone(now, before, after)
    if isinstance(now, dict) and isinstance(before, dict) and isinstance(after, dict):
        return _object_undone(now, before, after)
    return now


def _items_undone(now: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    kept = [item for item in now if item not in after or item in before]
    put_back = [item for item in before if item not in after and item not in now]
    return kept + put_back


def _object_undone(
    now: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    fields = dict[str, Any]()
    for name in {**now, **before}:
        value_now = now.get(name, _NO_FIELD)
        value_before = before.get(name, _NO_FIELD)
        value_after = after.get(name, _NO_FIELD)
        value = _value_undone(value_now, value_before, value_after)
        if value is not _NO_FIELD:
            fields[name] = value
    return fields
