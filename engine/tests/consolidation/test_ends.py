"""On the real server: however a consolidation ends, it stops nobody else's; sweeps start those who are due."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from lasting_memory.limits import DEFAULT_CONSOLIDATION
from lasting_memory.seeding import seed
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import Failure, ScriptedAnthropic, Slow, Text, after, tool_results
from tests.conftest import model_env
from tests.consolidation.on_server import (
    READ,
    chat,
    consolidation_thread,
    ended,
    go,
    records,
    rehearsed,
    soon,
)  # fmt: skip
from tests.consolidation.runs import TASK, append

pytestmark = pytest.mark.server
NOTHING: Any = {"messages": []}


async def test_a_sweep_starts_those_who_are_due_and_those_who_failed(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """A sweep starts a run of their own for each who is due, and the next for the one whose run failed."""
    operator = own_server.as_operator()
    fine, failing, idle = (f"{name}-{alice}" for name in ("fine", "failing", "idle"))
    await asyncio.gather(*(chat(own_server.as_user(person), f"words of {person}.") for person in (fine, failing, idle)))

    async def swept(runs: int) -> list[list[str]]:
        await operator.runs.wait(None, "consolidation_agent", input=NOTHING)
        threads = [(person, await consolidation_thread(own_server, person)) for person in (fine, failing)]
        of_failing = [runs if person == failing else 1 for person, _ in threads]
        return [
            await ended(own_server.as_user(person), thread, many)
            for (person, thread), many in zip(threads, of_failing, strict=True)
        ]

    def reply(body: Any) -> Any:
        if not tool_results(body):
            return [READ]
        bad = any(f"words of {failing}" in text for text in tool_results(body))
        return Failure(400, "invalid_request_error", "no") if bad else [Text("done")]

    model.script(TASK, *[reply] * 100)
    await operator.runs.wait(None, "consolidation_agent", input=NOTHING, context={"user_id": idle, "org_id": "acme"})
    assert await swept(1) == [["success"], ["error"]]
    assert await operator.threads.search(metadata={"user_id": idle, "consolidates": "all"}) == []
    shown = str(model.requests_for(f"words of {fine}.")[0])
    assert f"words of {failing}." not in shown
    assert await swept(2) == [["success"], ["error", "error"]]


@pytest.mark.proof
async def test_the_cron_of_the_seeds_comes_in_as_an_operator_and_does_the_same(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    operator, people = own_server.as_operator(), [alice, f"other-{alice}"]
    for person in people:
        await chat(own_server.as_user(person), f"words of {person}.")
    model.script(TASK, *[lambda body: [Text("done")] if tool_results(body) else [READ]] * 100)
    await seed(operator, ["cron"], deployed(consolidation_schedule="* * * * *"), prune=False)

    async def seen() -> bool:
        return all(model.requests_for(f"words of {person}.") for person in people)

    try:
        await soon(seen, 90)
    finally:
        await seed(operator, ["cron"], deployed(), prune=False)


async def test_a_cancelled_consolidation_frees_its_slot_and_leaves_a_record(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    people = [server.as_user(f"{name}-{alice}") for name in range(DEFAULT_CONSOLIDATION.at_once)]
    client = server.as_user(alice)
    model.script(TASK, *[Slow(60, [Text("late")])] * len(people))
    await asyncio.gather(*(chat(person, "I like dill") for person in (*people, client)))
    runs = []
    for person in people:
        thread = str((await person.threads.create())["thread_id"])
        runs.append((person, thread, await person.runs.create(thread, "consolidation_agent", input=NOTHING)))
    await model.asked(TASK, len(people))
    for person, thread, run in runs:
        await person.runs.cancel(thread, run["run_id"], wait=True)
        (record,) = await records(person)
        assert (record["status"], record["reason"]) == ("failed", "It was cancelled.")
    model.clear()
    await go(client)
    assert (await records(client))[0]["status"] == "done"


async def test_a_click_and_a_rehearsal_do_not_wait_for_a_sweep(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """A click ends while the runs of a sweep that have begun are still at work, and the others wait."""
    clicked = threading.Event()
    swept = [f"{number}-{alice}" for number in range(2 * DEFAULT_CONSOLIDATION.at_once)]
    client, operator = own_server.as_user(alice), own_server.as_operator()
    await chat(client, f"words of {alice}.")  # a sweep takes the newest first
    await asyncio.gather(*(chat(own_server.as_user(person), f"words of {person}.") for person in swept))

    def reply(body: Any) -> Any:
        mine = f"words of {alice}." in "".join(tool_results(body))
        return [Text("done")] if mine else after(clicked, [Text("done")])

    model.script(TASK, *[reply] * 100)
    try:
        await operator.runs.wait(None, "consolidation_agent", input=NOTHING)
        await model.asked(TASK, DEFAULT_CONSOLIDATION.at_once)
        assert (await rehearsed(client))["conversations"] == 1
        assert (await client.http.post("/memory/consolidate", json=None)) == {"queued": True}
        (record,) = await records(client)
        assert (record["status"], record["conversations"]) == ("done", 1)
        words = "".join(str(request) for request in model.requests_for(TASK))
        assert sum(f"words of {person}." in words for person in swept) <= DEFAULT_CONSOLIDATION.at_once
    finally:
        clicked.set()


@pytest.mark.proof
async def test_a_run_that_is_stopped_in_the_middle_consolidates_everything_once(
    tmp_path: Path, model: ScriptedAnthropic, alice: str
) -> None:
    with DevServer(tmp_path, env=model_env(model)) as server:
        client = server.as_user(alice)
        await chat(client, "I like dill")
        model.script(TASK, [append("- likes dill")], Slow(60, [Text("never said")]))
        await client.http.post("/memory/consolidate", json=None)
        thread = await consolidation_thread(server, alice)

        async def at_work() -> bool:
            return len(model.requests_for("append_memory")) >= 3

        await soon(at_work)
        model.clear()
        model.script(lambda body: "likes dill" not in str(body["messages"][3:]), [append("- likes dill")])
        await asyncio.to_thread(server.restart)
        assert (await ended(client, thread))[0] == "success"
        namespace: list[str] = ["memories", f"acme:{alice.replace('.', '~2E')}"]
        item: Any = await client.store.get_item(namespace, key="/topics/food.md")
        assert item["value"]["content"] == "- likes dill\n"
        model.clear()
        assert "Nothing is new" in await go(client)
        assert model.requests == [], "nothing is left to consolidate"
        await server.close_clients()
