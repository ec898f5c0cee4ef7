"""Comparing texts line by line: differences, the origin of each line, and reverting a change.

The standard library's `difflib` takes quadratic time, and more for repeated lines: a file of 100,000 lines, which any user may
write, would keep the server busy for hours. This takes n log n: it pairs the k-th occurrence of a line in one text with the
k-th in the other. The longest increasing run of pairs is the common part (Hunt and Szymanski, 1977, with lines made unique).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from settings import MAX_DIFF_CHARS

# More lines between a common beginning and end count as different without a comparison.
MAX_COMPARED_LINES = 20_000
# insert, replace or delete; then from where to where in the first sequence, and in the second.
Edit = tuple[str, int, int, int, int]


def edits(before: Sequence[str], after: Sequence[str]) -> list[Edit]:
    """The differences between two sequences of lines, in order."""
    differences: list[Edit] = []
    i = j = 0
    for common_i, common_j in [*_common(before, after), (len(before), len(after))]:
        if i < common_i or j < common_j:
            kind = "insert" if i == common_i else "delete" if j == common_j else "replace"
            differences.append((kind, i, common_i, j, common_j))
        i, j = common_i + 1, common_j + 1
    return differences


def lines_of(text: str) -> list[str]:
    """A text's lines. Only a line feed ends one, as everywhere that lines are shown, so that no change hides between two."""
    return text.removesuffix("\n").split("\n") if text else []


def diff(before: str, after: str) -> str:
    """A unified diff of two texts, with one line of context and without a header."""
    old, new = lines_of(before), lines_of(after)
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
    """A diff cut at `MAX_DIFF_CHARS`, with the number of further characters."""
    if len(text) <= MAX_DIFF_CHARS:
        return text
    return f"{text[:MAX_DIFF_CHARS]}\n[{len(text) - MAX_DIFF_CHARS:,} more]"


def revert_change(current: str, before: str, after: str) -> str:
    """A text without an earlier change, which made `after` of `before`; others' later changes stay.

    With `before` and `after` exchanged, this is a three-way merge.
    """
    if current == after:
        return before
    # Split at line feeds alone, so that joining gives the same text with any line endings.
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
        kept += lines[index : index + 1] if index not in dropped else []
    return "\n".join(kept)


def _following(place: dict[int, int], count: int, end: int) -> list[int]:
    """For each line its place in the other text: right behind the last earlier line that exists there."""
    places, at = [], 0
    for index in range(count + 1):
        places.append(min(at, end))
        at = place[index] + 1 if index in place else at
    return places


def _common(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Positions in both texts of their common lines, in order."""
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next((n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head)
    yield from ((n, n) for n in range(head))
    if shorter - head - tail <= MAX_COMPARED_LINES:
        where = {line: head + n for n, line in enumerate(_numbered(after[head : len(after) - tail]))}
        middle = enumerate(_numbered(before[head : len(before) - tail]), head)
        yield from _increasing([(n, where[line]) for n, line in middle if line in where])
    yield from ((len(before) - n, len(after) - n) for n in range(tail, 0, -1))


def _numbered(lines: Sequence[str]) -> list[tuple[str, int]]:
    seen, numbered = Counter[str](), []
    for line in lines:
        numbered.append((line, seen[line]))
        seen[line] += 1
    return numbered


def _increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence of these pairs in which the second numbers increase. The first ones do already."""
    lowest: list[int] = []  # the lowest end of all increasing subsequences of length n + 1
    ends: list[int] = []  # the index of that pair
    before = [-1] * len(pairs)
    for index, (_, second) in enumerate(pairs):
        length = bisect_left(lowest, second)
        before[index] = ends[length - 1] if length else -1
        lowest[length : length + 1] = [second]
        ends[length : length + 1] = [index]
    backwards, index = [], ends[-1] if ends else -1
    while index >= 0:
        backwards.append(pairs[index])
        index = before[index]
    return backwards[::-1]
