"""On the real server: whatever ends a consolidation, others' go on; it leaves a record; and a person's click goes first."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from settings import CONSOLIDATIONS_AT_ONCE
from testing.dev_server import DevServer, run_turn
from testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, after, tool_results

pytestmark = pytest.mark.server
TASK = "Conversations with something new"
# Too few steps for any consolidation, however far each gets.
TOO_FEW = range(1, 14)


async def chat(client: LangGraphClient, text: str) -> None:
    await run_turn(client, str((await client.threads.create())["thread_id"]), text)


async def rehearsed(client: LangGraphClient) -> dict[str, Any]:
    answer = await client.http.client.post("/memory/consolidate", params={"dry_run": "true"}, timeout=60)
    report: dict[str, Any] = answer.raise_for_status().json()
    return report


async def consolidated(client: LangGraphClient) -> list[dict[str, Any]]:
    """The person's records, once there is one that has ended."""
    async with asyncio.timeout(60):
        while True:
            kept: list[dict[str, Any]] = (await client.http.get("/memory/consolidations"))["consolidations"]
            if kept and kept[0]["ended_at"]:
                return kept
            await asyncio.sleep(0.1)


async def broken(client: LangGraphClient, steps: int, **context: Any) -> None:
    """A run that its own limit ends, if nothing else does."""
    limit: Any = {"recursion_limit": steps}
    await client.runs.wait(
        None, "consolidation_agent", input={"messages": []}, config=limit, context=context or None, raise_error=False
    )


async def test_who_breaks_their_own_rehearsals_keeps_nobody_else_s_waiting(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, mallory = own_server.as_user(alice), own_server.as_user(f"mallory-{alice}")
    for person in (client, mallory):
        await chat(person, "I like dill")
    for steps in TOO_FEW:
        await broken(mallory, steps, dry_run=True)
        model.clear()
        assert "Another dry run" not in str(await rehearsed(client)), f"after one of {steps} steps"


async def test_who_break_their_own_consolidations_stop_nobody_else_s(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    for steps in TOO_FEW:
        for number in range(CONSOLIDATIONS_AT_ONCE):
            mallory = own_server.as_user(f"mallory-{number}-{alice}")
            if steps == TOO_FEW[0]:
                await chat(mallory, "I like dill")
            await broken(mallory, steps)
    assert model.requests_for(TASK) == []
    client = own_server.as_user(alice)
    await chat(client, "I like dill")
    values = await run_turn(client, str((await client.threads.create())["thread_id"]), "now", "consolidation_agent")
    assert values["messages"][-1]["content"] == "1 conversations were consolidated."


async def test_a_limit_that_no_consolidation_fits_into_is_named_before_anything_begins(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, limit = own_server.as_user(alice), {"recursion_limit": 30}
    await chat(client, "I like dill")
    thread = str((await client.threads.create())["thread_id"])
    values = await run_turn(client, thread, "now", "consolidation_agent", config=limit)
    assert "recursion_limit is 30" in values["messages"][-1]["content"]
    assert model.requests_for(TASK) == []


async def test_a_cancelled_consolidation_frees_its_slot_and_leaves_a_record(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    people = [own_server.as_user(f"{name}-{alice}") for name in range(CONSOLIDATIONS_AT_ONCE)]
    model.script(TASK, *[Slow(60, [Text("late")])] * len(people))
    runs = []
    for person in people:
        await chat(person, "I like dill")
        thread = str((await person.threads.create())["thread_id"])
        runs.append((person, thread, await person.runs.create(thread, "consolidation_agent", input={"messages": []})))
    async with asyncio.timeout(60):
        while len(model.requests_for(TASK)) < len(people):  # noqa: ASYNC110  # the scripted server's
            await asyncio.sleep(0.1)
    for person, thread, run in runs:
        await person.runs.cancel(thread, run["run_id"], wait=True)
        (record,) = await consolidated(person)
        assert (record["status"], record["reason"]) == ("failed", "It was cancelled.")
    model.clear()
    client = own_server.as_user(alice)
    await chat(client, "I like dill")
    await run_turn(client, str((await client.threads.create())["thread_id"]), "now", "consolidation_agent")
    assert (await consolidated(client))[0]["status"] == "done"


async def test_a_click_and_a_rehearsal_do_not_wait_for_a_sweep(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """A click ends while the runs of a sweep that have begun are still at work, and the others wait."""
    clicked = threading.Event()
    swept = [f"{number}-{alice}" for number in range(3 * CONSOLIDATIONS_AT_ONCE)]
    client, operator = own_server.as_user(alice), own_server.as_operator()
    for person in (alice, *swept):  # a sweep takes the newest first
        await chat(own_server.as_user(person), f"words of {person}.")

    def reply(body: Any) -> Any:
        mine = f"words of {alice}." in "".join(tool_results(body))
        return [Text("done")] if mine else after(clicked, [Text("done")])

    model.script(TASK, *[reply] * 100)
    try:
        await operator.runs.wait(None, "consolidation_agent", input={"messages": []})
        async with asyncio.timeout(60):
            while len(model.requests_for(TASK)) < CONSOLIDATIONS_AT_ONCE:  # noqa: ASYNC110  # the scripted server's
                await asyncio.sleep(0.1)
        assert (await rehearsed(client))["conversations"] == 1
        assert (await client.http.post("/memory/consolidate", json=None)) == {"queued": True}
        (record,) = await consolidated(client)
        assert (record["status"], record["conversations"]) == ("done", 1)
        asked = "".join(str(request) for request in model.requests_for(TASK))
        assert sum(f"words of {person}." in asked for person in swept) <= CONSOLIDATIONS_AT_ONCE
    finally:
        clicked.set()
