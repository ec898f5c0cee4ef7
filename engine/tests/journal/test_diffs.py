"""What changed between two texts: as a diff, taken back where others wrote meanwhile, and the revision each line came with."""

from dataclasses import replace
from random import Random

import pytest

from lasting_memory.journal import NOTHING, Revision, diff, edits, line_origins, lines_of
from lasting_memory.journal.diffs import MAX_COMPARED_LINES, revert_change
from lasting_memory.journal.revisions import MAX_BLAMED_LINES


@pytest.mark.parametrize(("current", "before", "after", "wanted"), [
    ("one\nthree\n", "one\ntwo\n", "one\nthree\n", "one\ntwo\n"),
    ("zero\none\nthree\n", "one\ntwo\n", "one\nthree\n", "zero\none\ntwo\n"),
    ("a\r\nb\r\nc", "a\r\n", "a\r\nb\r\n", "a\r\nc"),
    ("1\n3\nmine\n", "1\n2\n3\n", "1\n3\n", "1\n2\n3\nmine\n"),
])  # fmt: skip
def test_undoing_leaves_what_others_wrote(current: str, before: str, after: str, wanted: str) -> None:
    assert revert_change(current, before, after) == wanted
    long = "".join(f"{number}\n" for number in range(10, MAX_COMPARED_LINES + 10))
    undone = revert_change(long + current, long + before, long + after)
    assert sorted(undone.split("\n")) == sorted((long + wanted).split("\n")), "in a long text, in any order"


@pytest.mark.parametrize("seed", range(200))
def test_edits_make_one_text_of_the_other_and_are_undone(seed: int) -> None:
    random = Random(seed)
    before, after = (random.choices("abcd", k=random.randrange(9)) for _ in range(2))
    made, at = list[str](), 0
    for i, i_end, j, j_end in edits(before, after):
        made += [*before[at:i], *after[j:j_end]]
        at = i_end
    assert made + before[at:] == after
    old, new = "\n".join(before), "\n".join(after)
    assert sorted(revert_change(f"Z\n{new}", old, new).split("\n")) == sorted(f"Z\n{old}".split("\n"))


def test_a_diff_is_unified_and_only_a_line_feed_ends_a_line() -> None:
    assert diff("1\n2\n3\n4\n", "1\n2\nthree\n4\n5\n").split("\n") == [
        "@@ -2,3 +2,3 @@", " 2", "-3", "+three", " 4", "@@ -4,1 +4,2 @@", " 4", "+5",
    ]  # fmt: skip
    assert diff("a\nb", "a\u2028b"), "a change is seen"
    assert lines_of(text := "a\rb\x0bc\x85d\u2028e\r\n\nmine") == text.split("\n")
    assert [lines_of(text) for text in ("", "\n", "a\n\n")] == [[], [""], ["a", ""]]


LONG = "x\n" * MAX_BLAMED_LINES


@pytest.mark.parametrize(("first", "contents", "numbers"), [
    (1, ["a\n"], [1]),
    (1, ["a\nb\n", "a\nx\nb\n", "a\nx\nB\n", "x\nB\nc\n"], [2, 3, 4]),
    (1, ["a\na\n", "a\nb\na\n"], [1, 2, 1]),
    (1, ["a\n", None, "a\n"], [3]),
    (1, ["a\n", None], []),
    (7, ["a\n", "a\nb\n"], [None, 8]),
    (1, [], []),
    (1, ["a\n", f"{LONG}x\n", "a\n"], []),
    (1, [LONG], [1] * MAX_BLAMED_LINES),
])  # fmt: skip
def test_a_line_came_with_the_last_revision_that_brought_it(
    first: int, contents: list[str | None], numbers: list[int | None]
) -> None:
    """None for what is older than the history; nothing at all for a file that is too long."""
    history: list[Revision] = [replace(NOTHING, number=first + n, content=content) for n, content in enumerate(contents)]
    assert [revision.number if revision else None for revision in line_origins(history[::-1])] == numbers
