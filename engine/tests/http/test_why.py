"""Why something is remembered: each line of a file leads to the conversation it was said in."""

from typing import Any

import pytest

from lasting_memory.testing.scripted_anthropic import Text, ToolCall
from tests.turns import Somebody, status

pytestmark = pytest.mark.server

FOOD = {"path": "/memories/topics/food.md"}


def append(line: str) -> list[ToolCall]:
    return [ToolCall("append_memory", {"path": FOOD["path"], "text": line})]


async def test_each_line_says_who_wrote_it_and_where_it_was_said(ada: Somebody, bob: Somebody) -> None:
    threads = [await ada.thread() for _ in range(3)]
    ada.model.script("likes dill", append("- likes dill"), [Text("noted")])
    for thread, said in zip(threads, ("likes dill", "I like leek", "I like kale"), strict=True):
        await ada.turn(thread, said)
    named = f"- likes leek (2026-01-01, thread {threads[1]})"
    ada.model.script("Conversations with something new", append(f"{named}\n- likes kale"), [Text("done")])
    await ada.say("go", "consolidation_agent")
    await ada.write(FOOD["path"], f"# Food\n{await ada.file(FOOD['path'])}")
    file: Any = await ada.http.get("/memory/file", params=FOOD)
    assert file["content"].splitlines() == ["# Food", "- likes dill", named, "- likes kale"]
    assert [line["author"]["kind"] for line in file["lines"]] == ["person", "agent", "consolidation", "consolidation"]
    assert [line["revision"] for line in file["lines"]] == [3, 1, 2, 2]
    assert [line["threads"] for line in file["lines"]] == [[], [threads[0]], [threads[1]], sorted(threads)]
    assert all(line["at"] for line in file["lines"])
    assert await status(bob.file(FOOD["path"])) == 404
