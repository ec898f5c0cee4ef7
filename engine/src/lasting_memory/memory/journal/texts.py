"""Texts, line by line: how two differ, how the changes of two writers become one text, and what a
text is without an earlier change. A JSON object is compared by its fields.

An `Edit` is one difference between two sequences of lines. A hunk is the part of a unified diff
about one edit. A merge has three texts: `base`, from which two writers began, and `ours` and
`theirs`, which they made of it.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

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
        """The lines of the old sequence that it takes out."""
        return old[self.old_start : self.old_end]

    def put_in(self, new: Sequence[str]) -> Sequence[str]:
        """The lines of the new sequence that it puts in."""
        return new[self.new_start : self.new_end]


class _CommonLine(NamedTuple):
    """A line that two sequences have in common, by its place in each."""

    old_place: int
    new_place: int


def edits(before: Sequence[str], after: Sequence[str]) -> list[Edit]:
    """The differences between two sequences of lines, in order."""
    head, old, new = _without_common_ends(before, after)
    ends = _CommonLine(len(old), len(new))
    common = list[_CommonLine]()
    if max(ends) <= MAX_COMPARED_LINES:
        common = _common_lines(old, new)
    common.append(ends)
    differences = list[Edit]()
    old_start = head
    new_start = head
    # A difference is what lies between two common lines.
    for line in common:
        old_end = head + line.old_place
        new_end = head + line.new_place
        if old_start < old_end or new_start < new_end:
            edit = Edit(old_start, old_end, new_start, new_end)
            differences.append(edit)
        old_start = old_end + 1
        new_start = new_end + 1
    return differences


def _without_common_ends(
    before: Sequence[str], after: Sequence[str]
) -> tuple[int, Sequence[str], Sequence[str]]:
    """The number of lines that two sequences have in common at their beginning; then the lines of
    each between their common beginning and their common end.
    """
    head = _count_equal(before, after)
    old = before[head:]
    new = after[head:]
    tail = _count_equal(reversed(old), reversed(new))
    if tail:
        old = old[:-tail]
        new = new[:-tail]
    return head, old, new


def _count_equal(lines: Iterable[str], other_lines: Iterable[str]) -> int:
    """The number of lines that two sequences have in common at their beginning."""
    count = 0
    for line, other_line in zip(lines, other_lines, strict=False):
        if line != other_line:
            break
        count += 1
    return count


def _common_lines(old: Sequence[str], new: Sequence[str]) -> list[_CommonLine]:
    """The lines of a longest common subsequence, in order."""
    rows = _rows(old, new)
    common = list[_CommonLine]()
    i = len(old)
    j = len(new)
    while i and j:
        bit = 1 << (j - 1)
        row = rows[i]
        row_above = rows[i - 1]
        if row & bit:
            j -= 1
        elif not row_above & bit:
            i -= 1
        else:
            i -= 1
            j -= 1
            common.append(_CommonLine(i, j))
    common.reverse()
    return common


def _rows(old: Sequence[str], new: Sequence[str]) -> list[int]:
    """For each number of lines of `old`, from 0: which lines of `new` make the common subsequence
    with these lines longer.

    This is Hyyrö's algorithm: an integer has one bit for each line of `new`, so that a step
    compares a line with all of these. `difflib` takes many times as long for some texts, and
    nothing bounds it. A bit of a row is 0 where the common subsequence of the lines up to here
    becomes longer by this line of `new`.
    """
    places = dict[str, int]()  # of each line in `new`, as bits
    for number, line in enumerate(new):
        bit = 1 << number
        places[line] = places.get(line, 0) | bit
    all_bits = (1 << len(new)) - 1
    row = all_bits
    rows = [row]
    for line in old:
        matches = row & places.get(line, 0)
        row = (row + matches) | (row - matches)
        row &= all_bits
        rows.append(row)
    return rows


def comparison_cost(before: str | None, after: str | None) -> int:
    """How much work it is to compare two texts, in lines that are looked at. It is counted in linear
    time. None is no text.
    """
    old = lines_of(before or "")
    new = lines_of(after or "")
    read_lines = len(old) + len(new)
    _, old_middle, new_middle = _without_common_ends(old, new)
    old_count = len(old_middle)
    new_count = len(new_middle)
    if max(old_count, new_count) > MAX_COMPARED_LINES:
        return read_lines  # `edits` does not compare them
    pairs = old_count * new_count
    return read_lines + pairs // _PAIRS_A_LINE


def lines_of(text: str) -> list[str]:
    """A text's lines; none of "". Only a line feed ends one, as everywhere that lines are shown, so
    that no change hides between two.
    """
    if not text:
        return []
    content = text.removesuffix("\n")
    return content.split("\n")


def diff(before: str, after: str) -> str:
    """A unified diff of two texts, with one line of context and without a header; "" if they have
    the same lines.
    """
    old = lines_of(before)
    new = lines_of(after)
    lines = list[str]()
    for edit in edits(old, new):
        lines += _hunk(edit, old, new)
    return "\n".join(lines)


def _hunk(edit: Edit, old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The lines of a diff about one edit, with the line before it and the line behind it."""
    context_start = max(0, edit.old_start - 1)
    line_before = old[context_start : edit.old_start]
    context_end = edit.old_end + 1
    line_behind = old[edit.old_end : context_end]
    removed_lines = edit.taken_out(old)
    added_lines = edit.put_in(new)
    count_before = len(line_before)
    context = count_before + len(line_behind)
    old_first = edit.old_start - count_before
    new_first = edit.new_start - count_before
    old_range = _range(old_first, context + len(removed_lines))
    new_range = _range(new_first, context + len(added_lines))
    lines = [f"@@ -{old_range} +{new_range} @@"]
    lines += _marked(" ", line_before)
    lines += _marked("-", removed_lines)
    lines += _marked("+", added_lines)
    lines += _marked(" ", line_behind)
    return lines


def _range(start: int, count: int) -> str:
    """Lines in the head of a hunk, which counts them from 1."""
    return f"{start + 1},{count}"


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    """Lines with a mark before each."""
    return [f"{mark}{line}" for line in lines]


def cut_diff(text: str) -> str:
    """A diff cut at `MAX_DIFF_CHARS`, with the number of further characters."""
    excess = len(text) - MAX_DIFF_CHARS
    if excess <= 0:
        return text
    beginning = text[:MAX_DIFF_CHARS]
    return f"{beginning}\n[{excess:,} more]"


def merge(path: str, base: str | None, ours: str | None, theirs: str | None) -> str | None:
    """The content of a file with the changes that two writers made of its content `base`: a
    three-way merge. None is no file.

    A change beats a deletion; of one line changed twice, both stay; JSON merges by its fields.
    """
    if theirs in (base, ours):  # they changed nothing, or the same
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
    """A JSON object, as text, with the changes of its fields that two made; None if one of the texts
    is no JSON object.
    """
    try:
        base_fields = _json_object(base)
        our_fields = _json_object(ours)
        their_fields = _json_object(theirs)
        fields = _fields_of_both(base_fields, our_fields, their_fields)
        return _json_text(fields)
    except (TypeError, ValueError, RecursionError):
        return None


def _json_object(text: str | None) -> dict[str, object]:
    """The JSON object in a text; an empty one for "" and None.

    Raises `TypeError` for other JSON, `ValueError` for what is no JSON, and `RecursionError` for
    JSON of too many levels.
    """
    value = json.loads(text or "{}")
    if not isinstance(value, dict):
        raise TypeError("not a JSON object")
    return value


def _json_text(value: object) -> str:
    """A value of JSON as the text of a file."""
    text = json.dumps(value, indent=2)
    return f"{text}\n"


def _fields_of_both(
    base_fields: Mapping[str, object],
    our_fields: Mapping[str, object],
    their_fields: Mapping[str, object],
) -> dict[str, object]:
    """The fields that are here, with the changes that were made there."""
    fields = dict[str, object]()
    for name, value in our_fields.items():
        is_deleted_there = name in base_fields and name not in their_fields
        if not is_deleted_there:
            fields[name] = value
    for name, value in their_fields.items():
        is_changed_there = name not in base_fields or base_fields[name] != value
        if is_changed_there:
            fields[name] = value
    return fields


def _merged_lines(base: str, ours: str, theirs: str) -> str:
    """A text with the changes that two made of it.

    What both added is there once. What they took out is gone, also where we have it in another
    place.
    """
    # Split at line feeds alone, so that joining gives the same text with any line endings.
    base_lines = base.split("\n")
    our_lines = ours.split("\n")
    their_lines = theirs.split("\n")
    base_counts = Counter(base_lines)
    our_additions = Counter(our_lines) - base_counts
    our_new_lines = set[str]()
    for line in our_additions:
        is_blank = not line.strip()  # blank lines stay, whoever added them
        if line not in base_counts and not is_blank:
            our_new_lines.add(line)
    # Without what both added: our lines have it.
    only_theirs = list[str]()
    for line in their_lines:
        if line not in our_new_lines:
            only_theirs.append(line)
    lines_of_both = _both_changes(base_lines, only_theirs, our_lines)
    # What they deleted goes wherever it stands, unless we added it once more.
    deleted_by_them = base_counts.keys() - set(their_lines)
    deleted_lines = deleted_by_them - our_additions.keys()
    merged_lines = list[str]()
    for line in lines_of_both:
        if line not in deleted_lines:
            merged_lines.append(line)
    return "\n".join(merged_lines)


def _both_changes(base: Sequence[str], first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The lines of a text with the changes that two made of them. Where both add, those of `first`
    stand before those of `second`.

    Long texts are not compared: what `first` adds to them is at the end.
    """
    longest = max(len(base), len(first), len(second))
    if longest > MAX_COMPARED_LINES:
        return _both_changes_of_long(base, first, second)
    deleted_places = set[int]()  # places in `base`
    added_lines = defaultdict[int, list[str]](
        list
    )  # by the place in `base` before which they stand
    for text in (first, second):
        for edit in edits(base, text):
            places = range(edit.old_start, edit.old_end)
            deleted_places.update(places)
            added_lines[edit.old_start] += edit.put_in(text)
    lines = list[str]()
    for place, line in enumerate(base):
        lines += added_lines[place]
        if place not in deleted_places:
            lines.append(line)
    at_end = added_lines[len(base)]
    return lines + at_end


def _both_changes_of_long(
    base: Sequence[str], first: Sequence[str], second: Sequence[str]
) -> list[str]:
    """The lines of `second` without those that `first` took out, then those that `first` added."""
    base_counts = Counter(base)
    first_counts = Counter(first)
    to_take_out = base_counts - first_counts
    lines = list[str]()
    for line in second:
        if to_take_out[line] > 0:
            to_take_out[line] -= 1
        else:
            lines.append(line)
    added_lines = first_counts - base_counts
    lines += added_lines.elements()
    return lines


def without_change(
    path: str, present: str | None, before: str | None, after: str | None
) -> str | None:
    """A file's content `present` without an earlier change, which made `after` of `before`. Later
    changes stay. None is no file.
    """
    if present is None:
        was_deletion = after is None
        return before if was_deletion else None
    content = _fields_without_change(path, present, before, after)
    if content is None:
        # Taking a change back is a merge that begins from what the change made.
        merged_content = merge(path, base=after or "", ours=present, theirs=before or "")
        content = merged_content or ""
    is_empty = content.strip() in {"", "{}"}
    if before is None and is_empty:
        return None
    return content


def _fields_without_change(
    path: str, present: str, before: str | None, after: str | None
) -> str | None:
    """A JSON object, as text, without an earlier change of its fields; None for a file that is no
    JSON object, or was none.
    """
    if not path.endswith(".json"):
        return None
    try:
        present_fields = _json_object(present)
        old_fields = _json_object(before)
        new_fields = _json_object(after)
        if present_fields == new_fields:
            return "{}" if before is None else before
        fields = _value_without_change(present_fields, old_fields, new_fields)
        return present if fields == present_fields else _json_text(fields)
    except (TypeError, ValueError, RecursionError):
        return None


def _value_without_change(present: object, before: object, after: object) -> object:
    """A value of JSON without an earlier change: what was changed later stays, in an object field by
    field, in a list by its items.
    """
    if present == after:
        return before
    if before == after:
        return present
    if isinstance(present, list) and isinstance(before, list) and isinstance(after, list):
        return _items_without_change(present, before, after)
    if isinstance(present, dict) and isinstance(before, dict) and isinstance(after, dict):
        return _object_without_change(present, before, after)
    return present


def _items_without_change(
    present: Sequence[object], before: Sequence[object], after: Sequence[object]
) -> list[object]:
    """The items of a list without an earlier change. What this took out is at the end again."""
    items = list[object]()
    for item in present:
        was_added = item in after and item not in before
        if not was_added:
            items.append(item)
    for item in before:
        was_taken_out = item not in after
        if was_taken_out and item not in present:
            items.append(item)
    return items


def _object_without_change(
    present: Mapping[str, object], before: Mapping[str, object], after: Mapping[str, object]
) -> dict[str, object]:
    """The fields of an object without an earlier change."""
    fields = dict[str, object]()
    for name in {**present, **before}:
        present_value = present.get(name, _NO_FIELD)
        old_value = before.get(name, _NO_FIELD)
        new_value = after.get(name, _NO_FIELD)
        value = _value_without_change(present_value, old_value, new_value)
        if value is not _NO_FIELD:
            fields[name] = value
    return fields
