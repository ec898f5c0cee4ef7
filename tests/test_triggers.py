"""What starts a consolidation: when, for whom, how many, and what it never disturbs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from langgraph.runtime import Runtime, ServerInfo
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError, RateLimitError

import agent
from memory import scopes, triggers
from memory import sweep as sweep_module
from memory.scopes import Actor
from memory.sweep import sweep
from memory.triggers import IdleTrigger, Owner, is_stray, plan, start
from settings import MAX_BUSY_THREADS, MAX_CONSOLIDATION_WAIT_SECONDS, SWEEP_MARGIN_SECONDS, Settings
from tests.conftest import model_env
from tests.dev_server import DevServer, run_turn
from tests.fake_platform import FakePlatform
from tests.scripted_anthropic import Failure, ScriptedAnthropic, Slow, Text, ToolCall, tool_results

ALICE, BOB = (Owner(Actor(name, "acme")) for name in ("alice", "bob"))
AFTER = 300
TASK = "Conversations with something new"
READ = ToolCall("search_recent_conversations", {})


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> FakePlatform:
    """A platform whose clock is the triggers' clock, too."""
    fake = FakePlatform()

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:  # noqa: ARG003  # as datetime has it
            return fake.now

    monkeypatch.setattr(triggers, "datetime", Clock)
    monkeypatch.setattr(sweep_module, "datetime", Clock)
    return fake


async def turn(platform: FakePlatform, store: BaseStore, after: float = 0, owner: Owner = ALICE) -> None:
    """A turn of the owner's that ends `after` seconds from now."""
    platform.now += timedelta(seconds=after)
    await plan(owner, AFTER, platform.client, store)


def begins(platform: FakePlatform) -> list[float]:
    """Seconds from now at which each pending run begins."""
    return [(datetime.fromisoformat(run["created_at"]) - platform.now).total_seconds() for run in platform.all_runs("pending")]


# --- After a turn ----------------------------------------------------------------------------------------------------


async def test_of_three_turns_the_last_plans_the_one_run_that_there_is(platform: FakePlatform, store: BaseStore) -> None:
    for after in (0, 60, 200):
        await turn(platform, store, after)
    assert begins(platform) == [AFTER]
    assert len(platform.all_runs()) == 1


async def test_a_run_that_has_begun_is_left_and_one_is_queued_behind_it(platform: FakePlatform, store: BaseStore) -> None:
    await turn(platform, store)
    platform.now += timedelta(seconds=AFTER)
    (running,) = platform.begin()
    await turn(platform, store, 10)
    await turn(platform, store, 10)
    assert [run["status"] for run in platform.all_runs()] == ["running", "pending"]
    assert platform.all_runs()[0]["run_id"] == running["run_id"]
    assert len(platform.runs) == 1, "one thread: the platform runs one of its runs at a time"


async def test_a_run_that_is_about_to_begin_is_left_too(platform: FakePlatform, store: BaseStore) -> None:
    await turn(platform, store)
    await turn(platform, store, AFTER - 1)
    assert begins(platform) == [1, AFTER]


async def test_turns_that_never_pause_postpone_it_for_the_maximum_wait_and_no_longer(
    platform: FakePlatform, store: BaseStore
) -> None:
    await turn(platform, store)
    latest = platform.now + timedelta(seconds=AFTER + MAX_CONSOLIDATION_WAIT_SECONDS)
    while platform.now + timedelta(seconds=110) < latest:
        await turn(platform, store, 100)
        assert len(begins(platform)) == 1
    assert [run["created_at"] for run in platform.all_runs()] == [latest.isoformat()]
    platform.now = latest
    assert platform.begin()
    await turn(platform, store, 1)
    assert begins(platform) == [AFTER], "and it begins to count again"


async def test_a_pause_that_is_longer_than_the_maximum_wait_is_counted_from_the_last_turn_too(
    platform: FakePlatform, store: BaseStore
) -> None:
    pause = 2 * MAX_CONSOLIDATION_WAIT_SECONDS
    for _ in range(3):
        platform.now += timedelta(seconds=60)
        await plan(ALICE, pause, platform.client, store)
        assert begins(platform) == [pause]


async def test_turns_that_end_at_once_plan_one_run(platform: FakePlatform, store: BaseStore) -> None:
    await asyncio.gather(*(turn(platform, store) for _ in range(5)))
    assert begins(platform) == [AFTER]


async def test_a_run_that_another_process_has_planned_too_is_replaced_with_the_next_turn(
    platform: FakePlatform, store: BaseStore
) -> None:
    await turn(platform, store)
    (thread,) = platform.runs
    (run,) = platform.runs[thread]
    platform.runs[thread].append({**run, "run_id": "99"})
    await turn(platform, store, 100)
    assert begins(platform) == [AFTER]


async def test_a_run_that_another_process_has_cancelled_meanwhile_is_no_error(
    platform: FakePlatform, store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await turn(platform, store)
    create = platform._create

    async def meanwhile(thread_id: str, assistant: str, **options: Any) -> dict[str, Any]:
        platform.runs[thread_id].clear()
        return await create(thread_id, assistant, **options)

    monkeypatch.setattr(platform, "_create", meanwhile)
    await turn(platform, store, 100)
    assert begins(platform) == [AFTER]


async def test_the_thread_s_id_is_random_and_the_same_for_all_runs_of_its_owner(
    platform: FakePlatform, store: BaseStore
) -> None:
    for owner in (ALICE, BOB, Owner(ALICE.actor, "tutor"), ALICE):
        await turn(platform, store, owner=owner)
    ids = [UUID(thread) for thread in platform.runs]
    assert len(ids) == len(set(ids)) == 3
    assert {thread.version for thread in ids} == {4}
    assert [run["context"] for run in platform.all_runs()] == [
        {"user_id": "bob", "org_id": "acme"},
        {"user_id": "alice", "org_id": "acme", "assistant_id": "tutor"},
        {"user_id": "alice", "org_id": "acme"},
    ]


async def test_a_thread_that_is_somebody_else_s_is_replaced(platform: FakePlatform, store: BaseStore) -> None:
    await turn(platform, store)
    (thread,) = platform.runs
    platform.foreign.add(thread)
    await turn(platform, store, AFTER)
    assert len(platform.runs) == 2
    item = await store.aget(scopes.schedule(ALICE.actor), ALICE.key)
    assert item
    assert item.value == {"thread_id": list(platform.runs)[1]}


async def test_a_run_is_queued_at_once_unless_one_is_waiting(platform: FakePlatform, store: BaseStore) -> None:
    assert await start(ALICE, platform.client, store)
    assert not await start(ALICE, platform.client, store)
    platform.now += timedelta(seconds=1)
    assert platform.begin()
    assert await start(ALICE, platform.client, store), "what it has not read is read by one behind it"
    assert [run["status"] for run in platform.all_runs()] == ["running", "pending"]


def test_stray_runs_are_those_that_are_not_on_the_owner_s_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stray(thread: str, metadata: dict[str, str], stored: str | None) -> bool:
        store = InMemoryStore()
        if stored:
            await store.aput(scopes.schedule(ALICE.actor), ALICE.key, {"thread_id": stored})
        monkeypatch.setattr(triggers, "get_config", lambda: {"metadata": metadata, "configurable": {"thread_id": thread}})
        return await is_stray(ALICE, store)

    planned = {"trigger": "idle"}
    assert not asyncio.run(stray("1", planned, "1"))
    assert asyncio.run(stray("1", planned, "2")), "another process's thread took its place"
    assert asyncio.run(stray("1", planned, None)), "its owner was forgotten"
    assert not asyncio.run(stray("1", {}, None)), "nobody planned it: somebody asked for it"


# --- The middleware --------------------------------------------------------------------------------------------------

ON_SERVER: Runtime[Any] = Runtime(
    context=scopes.Context("alice", "acme"),
    server_info=ServerInfo(assistant_id="a", graph_id="agent"),
)


@pytest.fixture
def trigger(monkeypatch: pytest.MonkeyPatch) -> IdleTrigger:
    """The middleware in a run of alice's, without its delay."""
    monkeypatch.setattr(triggers, "_DELAY_SECONDS", 0)
    monkeypatch.setattr(triggers, "current_owner", lambda *_: ALICE)
    monkeypatch.setattr(triggers, "get_store", InMemoryStore)
    monkeypatch.setattr(triggers, "get_client", lambda: None)
    return IdleTrigger(Settings())


async def test_a_turn_does_not_wait_for_its_consolidation_to_be_planned(
    trigger: IdleTrigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(owner: Owner, seconds: int, *_: Any) -> None:
        assert (owner, seconds) == (ALICE, AFTER)
        begun.set()
        await go_on.wait()
        done.set()

    monkeypatch.setattr(triggers, "plan", slow)
    await trigger.aafter_agent({}, ON_SERVER)
    assert not begun.is_set()
    await begun.wait()
    go_on.set()
    await done.wait()


async def test_a_failure_to_plan_is_logged_once_with_its_reason_and_is_not_the_turn_s(
    trigger: IdleTrigger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> None:
        raise httpx.ConnectError("the queue is full")

    monkeypatch.setattr(triggers, "plan", fail)
    with caplog.at_level(logging.INFO):
        await trigger.aafter_agent({}, ON_SERVER)
        await asyncio.gather(*trigger._planning)
    (record,) = [record for record in caplog.records if record.name == "memory.triggers"]
    assert record.levelname == "WARNING"
    assert "ConnectError('the queue is full')" in record.message


async def test_in_a_loop_that_ends_with_its_run_the_plan_is_made_before(
    trigger: IdleTrigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[str] = []

    async def note(*_: Any) -> None:
        await asyncio.sleep(0.01)
        planned.append(threading.current_thread().name)

    monkeypatch.setattr(triggers, "plan", note)
    isolated = threading.Thread(target=lambda: asyncio.run(trigger.aafter_agent({}, ON_SERVER)), name="isolated")
    isolated.start()
    await asyncio.to_thread(isolated.join)
    assert planned == ["isolated"]


async def test_without_a_server_nothing_is_planned(trigger: IdleTrigger) -> None:
    await trigger.aafter_agent({}, Runtime(context=scopes.Context("alice", "acme")))
    assert trigger._planning == set()


@pytest.mark.parametrize(
    ("settings", "planning"),
    [
        (Settings(), True),
        (Settings(memory_scope="user+assistant"), True),
        (Settings(consolidate_after_seconds=0), False),
        (Settings(memory_scope="assistant"), False),
    ],
)
def test_turns_plan_a_consolidation_unless_it_is_turned_off_or_memory_is_shared(settings: Settings, planning: bool) -> None:
    assert ("IdleTrigger.after_agent" in agent.build_agent(settings).nodes) is planning


# --- The sweep -------------------------------------------------------------------------------------------------------


async def consolidated(thread: dict[str, Any], store: BaseStore) -> None:
    """A run has read this conversation as it is now."""
    actor = Actor(thread["metadata"]["user_id"], thread["metadata"]["org_id"])
    position = {"message_id": "m", "updated_at": thread["updated_at"]}
    await store.aput(scopes.consolidation(actor), thread["thread_id"], position)


async def swept(platform: FakePlatform, store: BaseStore, settings: Settings = Settings()) -> list[str]:  # noqa: B008  # frozen
    """A sweep an hour after what was before; for whom it created runs. Those end badly unless a position says otherwise."""
    platform.now += timedelta(hours=1)
    platform.runs.clear()
    count = await sweep(settings, platform.client, store)
    people = [run["context"]["user_id"] for run in platform.all_runs()]
    assert len(people) == count
    return sorted(people)


async def test_everybody_with_something_new_gets_one_run_and_who_is_idle_gets_none(
    platform: FakePlatform, store: BaseStore
) -> None:
    threads = {user: [platform.talk(user), platform.talk(user)] for user in ("alice", "bob", "idle")}
    for thread in threads["idle"]:
        await consolidated(thread, store)
    await consolidated(threads["bob"][0], store)
    assert await swept(platform, store) == ["alice", "bob"]


async def test_somebody_whose_run_failed_stays_due_and_who_is_consolidated_does_not(
    platform: FakePlatform, store: BaseStore
) -> None:
    alice, _ = platform.talk("alice"), platform.talk("bob")
    assert await swept(platform, store) == ["alice", "bob"]
    await consolidated(alice, store)
    for _ in range(3):
        assert await swept(platform, store) == ["bob"]
    assert [item.key for item in await store.asearch(scopes.DUE)] == [platform.threads[1]["thread_id"]]


async def test_a_run_that_cannot_be_created_is_one_person_s_and_is_tried_again(
    platform: FakePlatform, store: BaseStore, caplog: pytest.LogCaptureFixture
) -> None:
    for user in ("alice", "bob", "carol"):
        platform.talk(user)
    platform.failing.add("bob")
    assert await swept(platform, store) == ["alice", "carol"]
    assert [record.message for record in caplog.records if "ConnectError('the queue is full')" in record.message]
    for thread in platform.threads:
        if thread["metadata"]["user_id"] != "bob":
            await consolidated(thread, store)
    platform.failing.clear()
    assert await swept(platform, store) == ["bob"]


async def test_a_sweep_that_fails_is_made_up_for_by_the_next(
    platform: FakePlatform, store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await swept(platform, store)
    platform.talk("alice")
    search = platform._search

    async def fail(**_: Any) -> Any:
        raise httpx.ConnectError("gone")

    monkeypatch.setattr(platform, "_search", fail)
    with pytest.raises(httpx.ConnectError):
        await swept(platform, store)
    monkeypatch.setattr(platform, "_search", search)
    platform.now += timedelta(seconds=2 * SWEEP_MARGIN_SECONDS)
    assert await swept(platform, store) == ["alice"]


async def test_a_conversation_that_was_deleted_is_not_due_any_more(platform: FakePlatform, store: BaseStore) -> None:
    thread = platform.talk("alice")
    assert await swept(platform, store) == ["alice"]
    platform.delete(thread)
    assert await swept(platform, store) == []
    assert await store.asearch(scopes.DUE) == []


async def test_who_has_a_run_waiting_gets_no_other(platform: FakePlatform, store: BaseStore) -> None:
    platform.talk("alice")
    await turn(platform, store)
    await sweep(Settings(), platform.client, store)
    assert begins(platform) == [AFTER]


async def test_with_a_memory_for_each_assistant_there_is_a_run_for_each(platform: FakePlatform, store: BaseStore) -> None:
    for assistant in ("tutor", "tutor", "coach"):
        platform.talk("alice", assistant=assistant)
    settings = Settings(memory_scope="user+assistant")
    assert await swept(platform, store, settings) == ["alice", "alice"]
    assert {run["context"]["assistant_id"] for run in platform.all_runs()} == {"tutor", "coach"}
    assert len(platform.runs) == 2


async def test_conversations_of_nobody_that_could_be_are_passed_over(platform: FakePlatform, store: BaseStore) -> None:
    platform.talk("x" * 5_000)
    platform.talk("")
    platform.talk("nobody")["metadata"].clear()
    platform.talk("alice")
    assert await swept(platform, store) == ["alice"]


async def test_a_sweep_reads_as_many_pages_as_there_is_activity_and_no_more(
    platform: FakePlatform, store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_module, "_PAGE", 20)
    for number in range(100):
        await consolidated(platform.talk(f"user-{number}"), store)
    platform.now += timedelta(days=1)
    await swept(platform, store)
    assert platform.calls.pop("threads.search") == 6
    platform.now += timedelta(days=1)
    platform.talk("user-7", thread_id=platform.threads[7]["thread_id"])
    assert len(await swept(platform, store)) == 1
    assert platform.calls["threads.search"] == 1


async def test_deletions_during_a_sweep_hide_nobody(
    platform: FakePlatform, store: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_module, "_PAGE", 20)
    for number in range(60):
        platform.talk(f"user-{number}")
    pages, search = 0, platform._search

    async def deleting(**options: Any) -> list[dict[str, Any]]:
        nonlocal pages
        found = await search(**options)
        pages += 1
        if pages in {1, 2}:
            for thread in list(platform.threads[: 2 * pages]):
                platform.delete(thread)
        return found

    platform._search = deleting  # type: ignore[method-assign]
    found = set(await swept(platform, store))
    assert {thread["metadata"]["user_id"] for thread in platform.threads} <= found


# --- On the platform -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared_idle(shared_model: ScriptedAnthropic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A server that consolidates soon, and where people may start no other run later."""
    env = {**model_env(shared_model), "CONSOLIDATE_AFTER_SECONDS": "4", "SHARED_WRITES": "interrupt"}
    with DevServer(tmp_path_factory.mktemp("idle"), env=env) as server:
        yield server


@pytest.fixture
async def idle(shared_idle: DevServer, model: ScriptedAnthropic) -> AsyncIterator[DevServer]:
    yield shared_idle
    await shared_idle.close_clients()


async def chat(client: LangGraphClient, text: str) -> None:
    await run_turn(client, str((await client.threads.create())["thread_id"]), text)


async def consolidation_thread(server: DevServer, user: str) -> str:
    namespace = list(scopes.schedule(Actor(user, "acme")))
    async with asyncio.timeout(5):
        while not (item := await server.as_operator().store.get_item(namespace, "all")):  # noqa: ASYNC110  # the server's
            await asyncio.sleep(0.1)
    return str(item["value"]["thread_id"])


async def statuses(client: LangGraphClient, thread: str) -> list[str]:
    return [str(run["status"]) for run in await client.runs.list(thread)]


async def until(client: LangGraphClient, thread: str, *expected: str) -> None:
    """Wait until the thread's runs, newest first, are in these states."""
    async with asyncio.timeout(20):
        while (found := await statuses(client, thread)) != list(expected):
            assert {"pending", "running"} & {*found}, f"{found} will not become {expected}"
            await asyncio.sleep(0.1)


async def ended(client: LangGraphClient, thread: str) -> list[str]:
    """The states of the thread's runs once all have ended, newest first."""
    async with asyncio.timeout(20):
        while {"pending", "running"} & {*(found := await statuses(client, thread))}:  # noqa: ASYNC110  # the server's
            await asyncio.sleep(0.1)
    return found


@pytest.mark.server
async def test_three_turns_are_one_run_on_a_thread_that_is_their_owner_s_and_nobody_else_s(
    idle: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
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
    assert thread not in {found["thread_id"] for found in conversations}


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
async def test_where_operators_approve_people_plan_nothing_but_consolidation_and_only_on_its_own_threads(
    idle: DevServer, alice: str
) -> None:
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
async def test_planned_consolidations_and_busy_conversations_do_not_keep_each_other_from_starting(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, nothing = server.as_user(alice), {"messages": list[Any]()}
    for _ in range(MAX_BUSY_THREADS):
        thread = str((await client.threads.create())["thread_id"])
        await client.runs.create(thread, "consolidation_agent", input=nothing, after_seconds=600)
    thread = str((await client.threads.create())["thread_id"])
    with pytest.raises(RateLimitError):
        await client.runs.create(thread, "consolidation_agent", input=nothing)
    await run_turn(client, thread, "hello")


@pytest.mark.server
async def test_a_sweep_starts_those_who_are_due_and_the_next_the_one_whose_run_failed(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    operator = server.as_operator()
    fine, failing, idle = (f"{name}-{alice}" for name in ("fine", "failing", "idle"))
    for person in (fine, failing, idle):
        await chat(server.as_user(person), f"words of {person}.")

    async def swept(*people: str) -> dict[str, str]:
        await operator.runs.wait(None, "consolidation_agent", input={"messages": []})
        last = {}
        for person in people:
            thread = await consolidation_thread(server, person)
            last[person] = " ".join(await ended(server.as_user(person), thread))
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
    assert await operator.store.get_item(list(scopes.schedule(Actor(idle, "acme"))), "all") is None
    assert await swept(fine, failing) == {fine: "success", failing: "error error"}
