"""On the real server: consolidations that turns and sweeps plan, on whose threads, and what they leave."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError, RateLimitError

from memory import namespaces
from memory.identity import Actor
from settings import MAX_BUSY_THREADS
from testing.dev_server import DevServer, run_turn
from testing.scripted_anthropic import Failure, ScriptedAnthropic, Slow, Text, ToolCall, tool_results
from tests.conftest import module_server

TASK = "Conversations with something new"
READ = ToolCall("search_recent_conversations", {})


# A server that consolidates soon, and where people may start no other run later.
shared_idle, idle = module_server("idle", CONSOLIDATE_AFTER_SECONDS="4", SHARED_WRITES="interrupt")


async def chat(client: LangGraphClient, text: str) -> None:
    await run_turn(client, str((await client.threads.create())["thread_id"]), text)


async def consolidation_thread(server: DevServer, user: str) -> str:
    """The thread, once it has a run: its id is written before it is made, so that two triggers choose one."""
    namespace = list(namespaces.schedule(Actor(user, "acme")))
    operator = server.as_operator()
    async with asyncio.timeout(60):
        while not (item := await operator.store.get_item(namespace, "all")):  # noqa: ASYNC110  # the server's
            await asyncio.sleep(0.1)
        thread = str(item["value"]["thread_id"])
        while not (await operator.threads.search(ids=[thread], limit=1) and await operator.runs.list(thread)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return thread


async def statuses(client: LangGraphClient, thread: str) -> list[str]:
    return [str(run["status"]) for run in await client.runs.list(thread)]


async def until(client: LangGraphClient, thread: str, *expected: str) -> None:
    """Wait until the thread's runs, newest first, are in these states."""
    async with asyncio.timeout(60):
        while (states := await statuses(client, thread)) != list(expected):
            assert {"pending", "running"} & {*states}, f"{states} will not become {expected}"
            await asyncio.sleep(0.1)


async def ended(client: LangGraphClient, thread: str) -> list[str]:
    """The states of the thread's runs once all have ended, newest first."""
    async with asyncio.timeout(60):
        while {"pending", "running"} & {*(states := await statuses(client, thread))}:  # noqa: ASYNC110  # the server's
            await asyncio.sleep(0.1)
    return states


@pytest.mark.server
async def test_three_turns_are_one_run_on_a_thread_of_their_owner_s(
    idle: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """Three turns are one run, on a thread that is their owner's and nobody else's."""
    client, stranger = idle.as_user(alice), idle.as_user(f"other-{alice}")
    model.script(TASK, [READ], [Text("done")])
    await asyncio.gather(*(chat(client, text) for text in ("I like fennel", "and dill", "and sorrel")))
    thread = await consolidation_thread(idle, alice)
    await until(client, thread, "success")
    shown = tool_results(model.requests[-1])[0]
    assert all(text in shown for text in ("fennel", "dill", "sorrel"))
    assert len(model.requests_for(TASK)) == 2
    (run,) = await client.runs.list(thread)
    assert (run["metadata"] or {})["trigger"] == "idle", "what this project says of its runs arrives; nobody else may say it"

    for call in (stranger.threads.get(thread), stranger.runs.create(thread, "consolidation_agent", input={"messages": []})):
        with pytest.raises(NotFoundError):
            await call
    conversations = await client.threads.search(metadata={"graph_id": "agent"})
    assert thread not in {thread_seen["thread_id"] for thread_seen in conversations}


@pytest.mark.server
async def test_a_turn_during_a_consolidation_lets_it_end_and_plans_the_next(
    idle: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = idle.as_user(alice)
    model.script(TASK, Slow(4, [Text("done")]))
    await chat(client, "I like fennel")
    thread = await consolidation_thread(idle, alice)
    running = await client.runs.create(thread, "consolidation_agent", input={"messages": []})
    await until(client, thread, "pending", "running")
    await chat(client, "no more fennel")
    await client.runs.join(thread, running["run_id"])
    assert (await client.runs.get(thread, running["run_id"]))["status"] == "success"
    assert "pending" in await statuses(client, thread)
    await client.threads.delete(thread)


@pytest.mark.server
async def test_where_operators_approve_people_plan_only_consolidation(idle: DevServer, alice: str) -> None:
    """Where operators approve, people plan nothing but consolidation, and only on its own threads."""
    client = idle.as_user(alice)
    nothing: Any = {"input": {"messages": []}}
    talk, planned = [str((await client.threads.create())["thread_id"]) for _ in range(2)]
    await run_turn(client, talk, "hello")
    await client.runs.wait(planned, "consolidation_agent", **nothing)
    for thread, graph in ((talk, "agent"), (planned, "agent"), (talk, "consolidation_agent")):
        with pytest.raises(httpx.HTTPStatusError, match=r"may start a run later|is consolidation's"):
            await client.runs.create(thread, graph, after_seconds=60, **nothing)
    # A conversation, and with it a write that waits for approval, cannot move to where consolidation may be planned.
    with pytest.raises(httpx.HTTPStatusError, match="is consolidation's"):
        await run_turn(client, planned, "hello")
    await client.runs.create(planned, "consolidation_agent", after_seconds=60, **nothing)
    assert len(await client.runs.list(planned, status="pending")) == 1


@pytest.mark.server
async def test_planned_consolidations_do_not_count_as_busy_conversations(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """Planned consolidations and busy conversations do not keep each other from starting."""
    client, nothing = server.as_user(alice), {"messages": list[Any]()}
    for _ in range(MAX_BUSY_THREADS):
        thread = str((await client.threads.create())["thread_id"])
        await client.runs.create(thread, "consolidation_agent", input=nothing, after_seconds=600)
    thread = str((await client.threads.create())["thread_id"])
    with pytest.raises(RateLimitError):
        await client.runs.create(thread, "consolidation_agent", input=nothing)
    await run_turn(client, thread, "hello")


@pytest.mark.server
async def test_a_sweep_starts_those_who_are_due_and_those_who_failed(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """A sweep starts those who are due, and the next the one whose run failed."""
    operator = own_server.as_operator()
    fine, failing, idle = (f"{name}-{alice}" for name in ("fine", "failing", "idle"))
    for person in (fine, failing, idle):
        await chat(own_server.as_user(person), f"words of {person}.")

    async def swept(*people: str) -> dict[str, str]:
        await operator.runs.wait(None, "consolidation_agent", input={"messages": []})
        last = {}
        for person in people:
            thread = await consolidation_thread(own_server, person)
            last[person] = " ".join(await ended(own_server.as_user(person), thread))
        return last

    def reply(body: Any) -> Any:
        if not tool_results(body):
            return [READ]
        bad = any(f"words of {failing}" in text for text in tool_results(body))
        return Failure(400, "invalid_request_error", "no") if bad else [Text("done")]

    model.script(TASK, *[reply] * 100)
    context: Any = {"user_id": idle, "org_id": "acme"}
    await operator.runs.wait(None, "consolidation_agent", input={"messages": []}, context=context)
    assert await swept(fine, failing) == {fine: "success", failing: "error"}
    assert await operator.store.get_item(list(namespaces.schedule(Actor(idle, "acme"))), "all") is None
    assert await swept(fine, failing) == {fine: "success", failing: "error error"}


@pytest.mark.server
async def test_a_consolidation_thread_keeps_the_checkpoint_of_its_last_run_alone(
    idle: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = idle.as_user(alice)
    for number in range(3):
        model.clear()
        model.script(TASK, [READ], [Text("done")])
        await chat(client, f"I like dill {number}")
        thread = await consolidation_thread(idle, alice)
        async with asyncio.timeout(60):
            while len(await statuses(client, thread)) <= number:  # noqa: ASYNC110  # the server's
                await asyncio.sleep(0.1)
        assert set(await ended(client, thread)) == {"success"}
        assert len(model.requests_for(TASK)) == 2, "it goes on without the checkpoints of the runs before"
    assert len(await client.threads.get_history(thread, limit=100)) == 1
    state: Any = await client.threads.get_state(thread)
    assert "dill" not in str(state)
