"""What changed between two texts: as a diff, and taken back where others wrote meanwhile."""

from __future__ import annotations

from random import Random

import pytest

from memory.journal.diffs import diff, edits, revert_change


def test_undoing_leaves_what_others_wrote() -> None:
    assert revert_change("one\nthree\n", "one\ntwo\n", "one\nthree\n") == "one\ntwo\n"
    assert revert_change("zero\none\nthree\n", "one\ntwo\n", "one\nthree\n") == "zero\none\ntwo\n"
    assert revert_change("a\r\nb\r\nc", "a\r\n", "a\r\nb\r\n") == "a\r\nc", "line endings, and no line feed at the end"
    assert revert_change("1\n3\nmine\n", "1\n2\n3\n", "1\n3\n") == "1\n2\n3\nmine\n", "in their place"


@pytest.mark.parametrize("seed", range(200))
def test_edits_make_one_text_of_the_other_and_are_undone(seed: int) -> None:
    random = Random(seed)
    before, after = (random.choices("abcd", k=random.randrange(9)) for _ in range(2))
    made, at = list[str](), 0
    for _, i, i_end, j, j_end in edits(before, after):
        made += [*before[at:i], *after[j:j_end]]
        at = i_end
    assert made + before[at:] == after
    old, new = "\n".join(before), "\n".join(after)
    assert sorted(revert_change(f"Z\n{new}", old, new).split("\n")) == sorted(f"Z\n{old}".split("\n"))


def test_a_diff_is_unified() -> None:
    assert diff("1\n2\n3\n4\n", "1\n2\nthree\n4\n5\n").split("\n") == [
        "@@ -2,3 +2,3 @@", " 2", "-3", "+three", " 4", "@@ -4,1 +4,2 @@", " 4", "+5",
    ]  # fmt: skip
