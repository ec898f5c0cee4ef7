"""On the real server: what consolidation reads, whose, when, and what it leaves, however a run ends."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError, RateLimitError

from memory.consolidation.sweep import delete_old
from seeds.__main__ import seed
from settings import CONSOLIDATIONS_AT_ONCE, MAX_BUSY_THREADS, Settings
from testing.dev_server import DevServer, dev_token, run_turn
from testing.scripted_anthropic import Answer, Failure, ScriptedAnthropic, Slow, Text, ToolCall, after, tool_results
from tests.conftest import model_env, served
from tests.memory.test_temporary import new_thread

pytestmark = pytest.mark.server
READ = ToolCall("search_recent_conversations", {})
ADD = ToolCall("append_memory", {"path": "/memories/topics/food.md", "text": "- likes dill"})
TASK = "Conversations with something new"
# Too few steps for any consolidation, however far each gets.
TOO_FEW = range(1, 14, 3)
# A server that consolidates soon, and where people may start no other run later.
idle = served(CONSOLIDATE_AFTER_SECONDS="4", SHARED_WRITES="interrupt")


async def chat(client: LangGraphClient, *texts: str) -> str:
    thread = str((await client.threads.create())["thread_id"])
    for text in texts:
        await run_turn(client, thread, text)
    return thread


async def consolidate(client: LangGraphClient, model: ScriptedAnthropic, **kwargs: Any) -> list[dict[str, Any]]:
    """Runs consolidation with a model that reads and says it is done; what the model was shown."""
    model.clear()
    model.script(TASK, [READ], [Text("done")])
    thread = str((await client.threads.create())["thread_id"])
    await run_turn(client, thread, "store X as a policy", assistant="consolidation_agent", **kwargs)
    return list(model.requests)


async def test_only_what_is_new_is_read_and_the_client_s_message_is_not(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    thread = await chat(client, "I like fennel", "and dill")
    first = await consolidate(client, model)
    assert "user: I like fennel\nassistant: ok\nuser: and dill" in tool_results(first[-1])[0]
    assert thread in tool_results(first[-1])[0]
    assert "store X as a policy" not in str(first)

    assert await consolidate(client, model) == [], "nothing is new: the model must not be called"

    await run_turn(client, thread, "no more dill")
    second = tool_results((await consolidate(client, model))[-1])[0]
    assert "no more dill" in second
    assert "fennel" not in second


async def test_it_reads_the_caller_s_conversations_with_the_agent_and_nobody_else_s(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    await chat(server.as_user(f"other-{alice}"), "a secret of somebody else")
    await chat(server.as_user(alice, org="globex"), "a secret of the other organization")
    client = server.as_user(alice)
    await chat(client, "my own words")
    context: Any = {"user_id": f"other-{alice}", "org_id": "acme"}
    shown = await consolidate(client, model, context=context)
    assert "my own words" in str(shown)
    assert "secret" not in str(shown)
    assert await consolidate(client, model) == [], "its own thread must not be due"


async def test_an_operator_consolidates_for_the_user_it_names(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    await chat(server.as_user(alice), "my own words")
    context: Any = {"user_id": alice, "org_id": "acme"}
    assert "my own words" in str(await consolidate(server.as_operator(), model, context=context))
    assert await consolidate(server.as_user(alice), model) == []


async def test_a_run_that_fails_leaves_everything_due(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    client = server.as_user(alice)
    await chat(client, "my own words")
    model.script(TASK, [READ], Failure(400, "invalid_request_error", "no"))
    thread = str((await client.threads.create())["thread_id"])
    with pytest.raises(Exception, match="InvalidRequest"):
        await run_turn(client, thread, "go", assistant="consolidation_agent")
    assert "my own words" in str(await consolidate(client, model))


async def said_and_seen(
    server: DevServer,
    model: ScriptedAnthropic,
    alice: str,
    start: Callable[[LangGraphClient], Awaitable[Any]],
    seconds: float,
) -> None:
    """Two people say something, one says nothing new; after `start`, each of the two is consolidated by a run of their own."""
    people, idle = [alice, f"other-{alice}"], f"idle-{alice}"
    for person in (*people, idle):
        await chat(server.as_user(person), f"words of {person}.")
    await consolidate(server.as_user(idle), model)
    model.clear()
    model.script(TASK, *[lambda body: [Text("done")] if tool_results(body) else [READ]] * 100)
    await start(server.as_operator())
    async with asyncio.timeout(seconds):
        while not all(model.requests_for(f"words of {person}.") for person in people):  # noqa: ASYNC110  # another thread's
            await asyncio.sleep(0.2)
    assert not model.requests_for(f"words of {idle}."), "nothing of theirs is new"
    for person in people:
        shown = str(model.requests_for(f"words of {person}.")[0])
        assert [other for other in people if f"words of {other}." in shown] == [person]


async def test_an_operator_s_run_that_names_nobody_starts_one_for_each(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """An operator's run that names nobody starts one for everybody with something new."""

    async def start(operator: LangGraphClient) -> None:
        await operator.runs.wait(None, "consolidation_agent", input={"messages": []})

    await said_and_seen(own_server, model, alice, start, 20)


@pytest.mark.proof
async def test_the_cron_of_the_seeds_comes_in_as_an_operator_and_does_the_same(
    own_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    operator = own_server.as_operator()
    settings = Settings(consolidation_schedule="* * * * *")

    async def start(_: LangGraphClient) -> None:
        await seed(operator, ["cron"], settings, prune=False)

    try:
        await said_and_seen(own_server, model, alice, start, 90)
    finally:
        await seed(operator, ["cron"], Settings(), prune=False)


async def test_a_person_s_run_that_names_nobody_is_their_own_and_starts_no_sweep(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    await chat(server.as_user(f"other-{alice}"), "words of somebody else")
    assert await consolidate(server.as_user(alice), model, context={"user_id": "", "org_id": "acme"}) == []


async def test_a_person_sees_what_it_would_change_and_has_it_done(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """A person sees what it would change, has it done now, and reads what was done."""
    client, headers = server.as_user(alice), {"authorization": f"Bearer {dev_token('acme', alice)}"}
    await chat(client, "I like dill")
    add = ToolCall("append_memory", {"path": "/memories/topics/food.md", "text": "- likes dill"})
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=30) as http:
        model.script(TASK, [add], [Text("done")])
        rehearsed = await http.post("/memory/consolidate", params={"dry_run": "true"})
        assert "+- likes dill" in rehearsed.json()["files"]["/memories/topics/food.md"]
        assert (await http.get("/memory/file", params={"path": "/memories/topics/food.md"})).status_code == 404
        assert (await http.get("/memory/consolidations")).json() == {"consolidations": []}
        model.clear()
        model.script(TASK, [add], [Text("done")])
        assert (await http.post("/memory/consolidate")).json() == {"queued": True}
        async with asyncio.timeout(60):
            while not (done := (await http.get("/memory/consolidations")).json()["consolidations"]):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert (done[0]["status"], done[0]["conversations"], done[0]["model_calls"]) == ("done", 1, 2)
        assert (await http.get("/memory/file", params={"path": "/memories/topics/food.md"})).json()[
            "content"
        ] == "- likes dill\n"
        assert "Nothing is new" in (await http.post("/memory/consolidate", params={"dry_run": "true"})).json()["reason"]
        assert (await http.post("/memory/consolidate", params={"dry_run": "maybe"})).status_code == 422


async def test_a_dry_run_that_fails_says_so_and_a_long_one_gives_signs_of_life(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    await chat(server.as_user(alice), "I like dill")
    headers = {"authorization": f"Bearer {dev_token('acme', alice)}"}
    failure = Failure(400, "invalid_request_error", "no")
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=10) as http:

        async def rehearsed(*replies: Answer) -> tuple[int, bytes]:
            model.clear()
            model.script(TASK, *replies)
            async with http.stream("POST", "/memory/consolidate", params={"dry_run": "true"}) as answer:
                return answer.status_code, b"".join([part async for part in answer.aiter_raw()])

        status, body = await rehearsed(failure)
        assert (status, "dry run failed" in json.loads(body)["detail"]) == (502, True)
        status, body = await rehearsed(Slow(11, [Text("done")]))
        assert (status, body[:2], json.loads(body)["status"]) == (200, b"\n\n", "done")
        status, body = await rehearsed(Slow(6, failure))
        report = json.loads(body)
        assert (status, body[:1], report["status"], "dry run failed" in report["reason"]) == (200, b"\n", "failed", True)


# --- Planned runs ----------------------------------------------------------------------------------------------------


async def consolidation_thread(server: DevServer, user: str) -> str:
    """The thread of a person's planned runs, once it has one."""
    operator = server.as_operator()
    async with asyncio.timeout(60):
        while not (found := await operator.threads.search(metadata={"user_id": user, "consolidates": "all"}, limit=1)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return str(found[0]["thread_id"])


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
    assert await operator.threads.search(metadata={"user_id": idle, "consolidates": "all"}) == []
    assert await swept(fine, failing) == {fine: "success", failing: "error error"}


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


# --- However a run ends ----------------------------------------------------------------------------------------------


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


@pytest.mark.proof
async def test_a_run_that_is_stopped_in_the_middle_consolidates_everything_once(
    tmp_path: Path, model: ScriptedAnthropic, alice: str
) -> None:
    with DevServer(tmp_path, env=model_env(model)) as server:
        client = server.as_user(alice)
        talk = str((await client.threads.create())["thread_id"])
        await run_turn(client, talk, "I like dill")
        model.script("Conversations with something new", [ADD], Slow(60, [Text("never said")]))
        await client.http.post("/memory/consolidate", json=None)
        thread = await consolidation_thread(server, alice)
        async with asyncio.timeout(30):
            while len(model.requests_for("append_memory")) < 3:  # noqa: ASYNC110  # another thread's
                await asyncio.sleep(0.1)
        model.clear()
        model.script(lambda body: "likes dill" not in str(body["messages"][3:]), [ADD])
        await asyncio.to_thread(server.restart)
        async with asyncio.timeout(60):
            while not (runs := await client.runs.list(thread)) or runs[0]["status"] in {"pending", "running"}:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        namespace: list[str] = ["memories", f"acme:{alice.replace('.', '~2E')}"]
        item: Any = await client.store.get_item(namespace, key="/topics/food.md")
        assert runs[0]["status"] == "success"
        assert item["value"]["content"] == "- likes dill\n"
        model.clear()
        await run_turn(client, thread, "again", "consolidation_agent")
        assert model.requests == [], "nothing is left to consolidate"
        await server.close_clients()


async def test_a_deleted_conversation_is_not_found_any_more(
    server: DevServer, model: ScriptedAnthropic, alice: str, store: BaseStore
) -> None:
    client, bob = server.as_user(alice), server.as_user(f"bob-{alice}")
    old, bobs = await new_thread(client, {}), await new_thread(bob, {})
    for who, thread in ((client, old), (bob, bobs)):
        await run_turn(who, thread, "a zebra called Zoe")
    # As the sweep does it, with somebody who sees only their own.
    assert await delete_old(Settings(), client, store, datetime.now(UTC) + timedelta(days=38), 30) == 1
    with pytest.raises(NotFoundError):
        await client.threads.get(old)
    assert await bob.threads.get(bobs)
    model.script("what of the animal", [ToolCall("search_past_conversations", {"query": "zebra"})], [Text("done")])
    await run_turn(client, await new_thread(client, {}), "what of the animal")
    assert "Zoe" not in tool_results(model.requests[-1])[0]
