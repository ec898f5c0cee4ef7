"""Comparing texts line by line: differences, and reverting a change where others have written since."""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate

# Characters of one file's diff, in the history and in records of consolidation.
MAX_DIFF_CHARS = 20_000
# More lines between a common beginning and end count as different: `difflib` would take minutes for some texts, quadratic time.
MAX_COMPARED_LINES = 2_000
# From where to where in the first sequence, and in the second.
Edit = tuple[int, int, int, int]


def edits(before: Sequence[str], after: Sequence[str]) -> list[Edit]:
    """The differences between two sequences of lines, in order."""
    found, i, j = list[Edit](), 0, 0
    for i_next, j_next, size in _common(before, after):
        if (i, j) != (i_next, j_next):
            found.append((i, i_next, j, j_next))
        i, j = i_next + size, j_next + size
    return found


def _common(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int, int]]:
    """The lines in both, in order: where each run of them begins in the one and in the other, and its length."""
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next((n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    is_short = max(len(old), len(new)) <= MAX_COMPARED_LINES
    between = SequenceMatcher(None, old, new).get_matching_blocks() if is_short else ()
    runs = [(head + i, head + j, size) for i, j, size in between]
    return [(0, 0, head), *runs, (len(before) - tail, len(after) - tail, tail)]


def lines_of(text: str) -> list[str]:
    """A text's lines. Only a line feed ends one, as everywhere that lines are shown, so that no change hides between two."""
    return text.removesuffix("\n").split("\n") if text else []


def diff(before: str, after: str) -> str:
    """A unified diff of two texts, with one line of context and without a header."""
    old, new = lines_of(before), lines_of(after)
    parts = []
    for i, i_end, j, j_end in edits(old, new):
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
    if max(map(len, (changed, old, lines))) > MAX_COMPARED_LINES:
        return "\n".join(_recounted(changed, old, lines))
    place = {i + n: j + n for i, j, size in _common(changed, lines) for n in range(size)}
    behind = [0, *accumulate((place.get(n, -1) + 1 for n in range(len(changed))), max)]  # the last common line before
    for i, i_end, j, j_end in reversed(edits(changed, old)):
        gone = [place[n] for n in range(i, i_end) if n in place]
        at = gone[0] if gone else behind[i]
        for n in reversed(gone):
            del lines[n]
        lines[at:at] = old[j:j_end]
    return "\n".join(lines)


def _recounted(changed: Sequence[str], old: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The same for long texts, which are not compared: lines that came go, and those that went are at the end again."""
    came, went, kept = Counter(changed) - Counter(old), Counter(old) - Counter(changed), list[str]()
    for line in lines:
        if came[line] > 0:
            came[line] -= 1
        else:
            kept.append(line)
    return [*kept, *went.elements()]
