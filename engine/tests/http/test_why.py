"""Why something is remembered: each line of a file leads to the conversation it was said in."""

from typing import Any

import pytest

from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.turns import new_thread, status

pytestmark = pytest.mark.server

FOOD = {"path": "/memories/topics/food.md"}


def append(line: str) -> list[ToolCall]:
    return [ToolCall("append_memory", {"path": FOOD["path"], "text": line})]


async def test_each_line_says_who_wrote_it_and_where_it_was_said(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, bob = server.as_user(alice), server.as_user(f"bob-{alice}")
    threads = [await new_thread(client, {}) for _ in range(3)]
    model.script("likes dill", append("- likes dill"), [Text("noted")])
    for thread, said in zip(threads, ("likes dill", "I like leek", "I like kale"), strict=True):
        await run_turn(client, thread, said)
    named = f"- likes leek (2026-01-01, thread {threads[1]})"
    model.script("Conversations with something new", append(f"{named}\n- likes kale"), [Text("done")])
    await run_turn(client, await new_thread(client, {}), "go", assistant="consolidation_agent")
    content = (await client.http.get("/memory/file", params=FOOD))["content"]
    await client.http.put("/memory/file", params=FOOD, json={"content": f"# Food\n{content}"})
    file: Any = await client.http.get("/memory/file", params=FOOD)
    assert file["content"].splitlines() == ["# Food", "- likes dill", named, "- likes kale"]
    assert [line["author"]["kind"] for line in file["lines"]] == ["person", "agent", "consolidation", "consolidation"]
    assert [line["revision"] for line in file["lines"]] == [3, 1, 2, 2]
    assert [line["threads"] for line in file["lines"]] == [[], [threads[0]], [threads[1]], sorted(threads)]
    assert all(line["at"] for line in file["lines"])
    assert await status(bob.http.get("/memory/file", params=FOOD)) == 404
