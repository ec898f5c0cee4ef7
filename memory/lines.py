"""Texts compared line by line: what changed between two, and one without a change that was made on its way here.

The standard library's `difflib` takes time quadratic in the number of lines, and for repeated ones worse: a file of 100,000
lines, which anybody may write, would keep the server busy for hours. Here it is n log n: the k-th occurrence of a line in one
text is paired with the k-th in the other, and the longest run of pairs that keeps their order is what both have in common
(Hunt and Szymanski, 1977, with lines made unique).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from settings import MAX_DIFF_CHARS

# Lines that are compared one by one, beside those that both texts begin and end with; more are taken for different.
MAX_COMPARED_LINES = 20_000
# insert, replace or delete; then from where to where in the first sequence, and in the second.
Edit = tuple[str, int, int, int, int]


def edits(before: Sequence[str], after: Sequence[str]) -> list[Edit]:
    """The parts in which two sequences of lines differ, in order."""
    found: list[Edit] = []
    i = j = 0
    for common_i, common_j in [*_common(before, after), (len(before), len(after))]:
        if i < common_i or j < common_j:
            kind = "insert" if i == common_i else "delete" if j == common_j else "replace"
            found.append((kind, i, common_i, j, common_j))
        i, j = common_i + 1, common_j + 1
    return found


def diff(before: str, after: str) -> str:
    """A unified diff of two texts, with one line of context and without a head."""
    old, new = before.splitlines(), after.splitlines()
    parts = []
    for _, i, i_end, j, j_end in edits(old, new):
        head, tail = old[max(0, i - 1) : i], old[i_end : i_end + 1]
        around, first, second = len(head) + len(tail), i - len(head) + 1, j - len(head) + 1
        parts.append(f"@@ -{first},{i_end - i + around} +{second},{j_end - j + around} @@")
        parts += [f" {line}" for line in head]
        parts += [f"-{line}" for line in old[i:i_end]]
        parts += [f"+{line}" for line in new[j:j_end]]
        parts += [f" {line}" for line in tail]
    return "\n".join(parts)


def cut(text: str) -> str:
    """A diff as it is kept and shown: no more than `MAX_DIFF_CHARS` of it, and how much more there is."""
    if len(text) <= MAX_DIFF_CHARS:
        return text
    return f"{text[:MAX_DIFF_CHARS]}\n[{len(text) - MAX_DIFF_CHARS:,} more]"


def without(current: str, before: str, after: str) -> str:
    """A text as it would be without a change that was made on its way here.

    Args:
        current: the text, with the change in it and what others have done since.
        before: the text that was changed.
        after: what the change made of it.
    """
    if current == after:
        return before
    # Split at line feeds alone, so that joining them gives the same text whatever its line endings are.
    changed, old, lines = after.split("\n"), before.split("\n"), current.split("\n")
    place = dict(_common(changed, lines))
    dropped = set[int]()
    inserted: dict[int, list[str]] = {}
    following = _following(place, len(changed), len(lines))
    for _, i, i_end, j, j_end in edits(changed, old):
        gone = [place[index] for index in range(i, i_end) if index in place]
        dropped.update(gone)
        inserted.setdefault(gone[0] if gone else following[i], []).extend(old[j:j_end])
    kept = []
    for index in range(len(lines) + 1):
        kept += inserted.get(index, [])
        if index < len(lines) and index not in dropped:
            kept.append(lines[index])
    return "\n".join(kept)


def _following(place: dict[int, int], count: int, end: int) -> list[int]:
    """For each line, where in the other text it is put: right behind the last one before it that is there."""
    found, at = [], 0
    for index in range(count + 1):
        found.append(min(at, end))
        at = place[index] + 1 if index in place else at
    return found


def _common(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Positions in both of the lines that they have in common, in order."""
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next((n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head)
    yield from ((n, n) for n in range(head))
    if shorter - head - tail <= MAX_COMPARED_LINES:
        yield from _common_within(before, after, head, tail)
    yield from ((len(before) - n, len(after) - n) for n in range(tail, 0, -1))


def _common_within(before: Sequence[str], after: Sequence[str], head: int, tail: int) -> Iterator[tuple[int, int]]:
    numbered = _numbered(after[head : len(after) - tail])
    where = {line: head + n for n, line in enumerate(numbered)}
    rest = _numbered(before[head : len(before) - tail])
    yield from _increasing([(head + n, where[line]) for n, line in enumerate(rest) if line in where])


def _numbered(lines: Sequence[str]) -> list[tuple[str, int]]:
    seen, numbered = Counter[str](), []
    for line in lines:
        numbered.append((line, seen[line]))
        seen[line] += 1
    return numbered


def _increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of these pairs in which the second ones increase, as the first ones do."""
    lowest: list[int] = []  # of all increasing parts of length n + 1, the lowest last one
    ends: list[int] = []  # and which pair that is
    before = [-1] * len(pairs)
    for index, (_, second) in enumerate(pairs):
        length = bisect_left(lowest, second)
        before[index] = ends[length - 1] if length else -1
        lowest[length : length + 1] = [second]
        ends[length : length + 1] = [index]
    found, index = [], ends[-1] if ends else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]
