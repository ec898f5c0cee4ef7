"""Comparing texts line by line: differences, and reverting a change where others have written since."""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

# Characters of one file's diff, in the history and in records of consolidation.
MAX_DIFF_CHARS = 20_000
# More lines between a common beginning and end count as different: `difflib` would take minutes for some texts, quadratic time.
MAX_COMPARED_LINES = 2_000
# insert, replace or delete; then from where to where in the first sequence, and in the second.
Edit = tuple[str, int, int, int, int]


def edits(before: Sequence[str], after: Sequence[str]) -> list[Edit]:
    """The differences between two sequences of lines, in order."""
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next((n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    codes: list[Edit] = [("replace", 0, len(old), 0, len(new))]
    if not old or not new or max(len(old), len(new)) <= MAX_COMPARED_LINES:
        codes = list(SequenceMatcher(None, old, new).get_opcodes())
    return [(kind, head + i, head + i_end, head + j, head + j_end) for kind, i, i_end, j, j_end in codes if kind != "equal"]


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
    if max(map(len, (changed, old, lines))) > MAX_COMPARED_LINES:
        return "\n".join(_recounted(changed, old, lines))
    place, behind = _places(changed, lines)
    dropped, inserted = set[int](), dict[int, list[str]]()
    for _, i, i_end, j, j_end in edits(changed, old):
        gone = [place[index] for index in range(i, i_end) if index in place]
        dropped.update(gone)
        inserted.setdefault(gone[0] if gone else behind[i], []).extend(old[j:j_end])
    kept = []
    for index in range(len(lines) + 1):
        kept += inserted.get(index, [])
        kept += lines[index : index + 1] if index not in dropped else []
    return "\n".join(kept)


def _places(texts: Sequence[str], others: Sequence[str]) -> tuple[dict[int, int], list[int]]:
    """The place of each common line in the other text; and for all lines, that behind the last earlier common one."""
    place, i, j = dict[int, int](), 0, 0
    for _, start, end, other, other_end in [*edits(texts, others), ("", len(texts), 0, len(others), 0)]:
        place |= zip(range(i, start), range(j, other), strict=True)
        i, j = end, other_end
    behind = [0]
    for index in range(len(texts)):
        behind.append(place[index] + 1 if index in place else behind[-1])
    return place, behind


def _recounted(changed: Sequence[str], old: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The same for long texts, which are not compared: lines that came go, and those that went are at the end again."""
    came, went, kept = Counter(changed) - Counter(old), Counter(old) - Counter(changed), list[str]()
    for line in lines:
        if came[line] > 0:
            came[line] -= 1
        else:
            kept.append(line)
    return [*kept, *went.elements()]
