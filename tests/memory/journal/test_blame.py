"""Each line of a file leads to the revision it came with."""

from __future__ import annotations

from dataclasses import replace

from memory.journal import NOTHING, Revision, diff, line_origins, lines_of
from memory.journal.revisions import MAX_BLAMED_LINES


def history(*contents: str | None, first: int = 1) -> list[Revision]:
    """Revisions with these contents, newest first; the oldest is number `first`."""
    numbered = [replace(NOTHING, number=first + n, content=content) for n, content in enumerate(contents)]
    return numbered[::-1]


def numbers(revisions: list[Revision]) -> list[int | None]:
    return [revision.number if revision else None for revision in line_origins(revisions)]


def test_a_line_keeps_its_revision_while_others_come_change_and_go() -> None:
    assert numbers(history("a\n")) == [1]
    assert numbers(history("a\nb\n", "a\nx\nb\n", "a\nx\nB\n", "x\nB\nc\n")) == [2, 3, 4]
    assert numbers(history("a\na\n", "a\nb\na\n")) == [1, 2, 1]


def test_what_came_back_came_with_the_revision_that_brought_it_back() -> None:
    """What was deleted and came back came with the revision that brought it back."""
    assert numbers(history("a\n", None, "a\n")) == [3]
    assert numbers(history("a\n", None)) == []


def test_what_is_older_than_the_history_came_with_none_that_is_known() -> None:
    assert numbers(history("a\n", "a\nb\n", first=7)) == [None, 8]
    assert line_origins([]) == []


def test_of_a_file_that_is_too_long_nothing_is_said() -> None:
    long = "x\n" * (MAX_BLAMED_LINES + 1)
    assert line_origins(history("a\n", long, "a\n")) == []
    assert len(line_origins(history("x\n" * MAX_BLAMED_LINES))) == MAX_BLAMED_LINES


def test_only_a_line_feed_ends_a_line_here_as_where_lines_are_shown() -> None:
    content = "a\rb\x0bc\x85d\u2028e\r\n\nmine"
    assert lines_of(content) == content.split("\n")
    assert numbers(history("mine\n", f"{content}\n")) == [2, 2, 1]
    assert diff("a\nb", "a\u2028b"), "a change is seen"
    assert [lines_of(text) for text in ("", "\n", "a\n\n")] == [[], [""], ["a", ""]]
