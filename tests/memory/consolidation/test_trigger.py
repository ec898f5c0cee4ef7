"""After a turn: when a consolidation is planned, how many there are, and what planning never disturbs."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import httpx
import pytest
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.runtime import Runtime, ServerInfo
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from memory import identity, namespaces
from memory.consolidation.begins import Begins
from memory.consolidation.trigger import IdleTrigger, Owner, is_stray, plan, start
from settings import MAX_CONSOLIDATION_WAIT_SECONDS, Settings
from testing.fake_platform import FakePlatform
from tests.conftest import BuildGraph
from tests.memory.consolidation.runs import User
from tests.memory.consolidation.turns import AFTER, ALICE, BOB, begins, turn

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


async def test_a_pause_beyond_the_maximum_wait_is_counted_too(platform: FakePlatform, store: BaseStore) -> None:
    """A pause that is longer than the maximum wait is counted from the last turn too."""
    pause = 2 * MAX_CONSOLIDATION_WAIT_SECONDS
    for _ in range(3):
        platform.now += timedelta(seconds=60)
        await plan(ALICE, pause, platform.client, store, Begins(platform.clock))
        assert begins(platform) == [pause]


async def test_turns_that_end_at_once_plan_one_run(platform: FakePlatform, store: BaseStore) -> None:
    await asyncio.gather(*(turn(platform, store) for _ in range(5)))
    assert begins(platform) == [AFTER]


async def test_a_run_that_another_process_has_planned_too_is_replaced(platform: FakePlatform, store: BaseStore) -> None:
    """A run that another process has planned too is replaced with the next turn."""
    await turn(platform, store)
    (thread,) = platform.runs
    (run,) = platform.runs[thread]
    platform.runs[thread].append({**run, "run_id": "99"})
    await turn(platform, store, 100)
    assert begins(platform) == [AFTER]


class CancelledMeanwhile(FakePlatform):
    """A platform on which another process cancels planned runs just before one is created."""

    async def _create(self, thread_id: str, assistant: str, **options: Any) -> dict[str, Any]:
        self.runs[thread_id].clear()
        return await super()._create(thread_id, assistant, **options)


async def test_a_run_that_another_process_has_cancelled_meanwhile_is_no_error(store: BaseStore) -> None:
    platform = CancelledMeanwhile()
    await turn(platform, store)
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
    item = await store.aget(namespaces.schedule(ALICE.actor), ALICE.key)
    assert item
    assert item.value == {"thread_id": list(platform.runs)[1]}


async def test_what_a_person_asks_for_begins_at_once_in_place_of_a_sweep_s_later_run(
    platform: FakePlatform, store: BaseStore
) -> None:
    """What a person asks for begins at once, however long ago a sweep planned theirs for later; asked twice, it is one run."""
    platform.now = datetime.now(UTC)
    assert await start(ALICE, platform.client, store, lambda: 3 * MAX_CONSOLIDATION_WAIT_SECONDS)
    (runs,) = platform.runs.values()
    runs[0]["metadata"]["since"] = (platform.now - timedelta(seconds=2 * MAX_CONSOLIDATION_WAIT_SECONDS)).isoformat()
    for first in (True, False):
        assert await start(ALICE, platform.client, store, asked=True) is first
        assert begins(platform) == [0]


async def test_a_turn_does_not_postpone_what_its_person_asked_for(platform: FakePlatform, store: BaseStore) -> None:
    """A turn does not postpone a run that its person asked for and that waits for its turn."""
    assert await start(ALICE, platform.client, store, lambda: 10, asked=True)
    await turn(platform, store)
    assert begins(platform) == [10, AFTER]


async def test_a_run_is_queued_at_once_unless_one_is_waiting(platform: FakePlatform, store: BaseStore) -> None:
    assert await start(ALICE, platform.client, store)
    assert not await start(ALICE, platform.client, store)
    platform.now += timedelta(seconds=1)
    assert platform.begin()
    assert await start(ALICE, platform.client, store), "what it has not read is read by one behind it"
    assert [run["status"] for run in platform.all_runs()] == ["running", "pending"]


def test_stray_runs_are_those_that_are_not_on_the_owner_s_thread() -> None:
    async def stray(thread: str, metadata: dict[str, str], stored: str | None) -> bool:
        store = InMemoryStore()
        if stored:
            await store.aput(namespaces.schedule(ALICE.actor), ALICE.key, {"thread_id": stored})
        return await is_stray(ALICE, store, {"metadata": metadata, "configurable": {"thread_id": thread}})

    planned = {"trigger": "idle"}
    assert not asyncio.run(stray("1", planned, "1"))
    assert asyncio.run(stray("1", planned, "2")), "another process's thread took its place"
    assert asyncio.run(stray("1", planned, None)), "its owner was forgotten"
    assert not asyncio.run(stray("1", {}, None)), "nobody planned it: somebody asked for it"


# --- The middleware --------------------------------------------------------------------------------------------------

ON_SERVER: Runtime[Any] = Runtime(
    store=InMemoryStore(),
    server_info=ServerInfo(assistant_id="a", graph_id="agent", user=cast("Any", User(identity="alice", org_id="acme"))),
)


async def answer(trigger: IdleTrigger, runtime: Runtime[Any] = ON_SERVER, *calls: str) -> None:
    """The model's answer, with calls of these tools."""
    made = [{"name": name, "args": {}, "id": name} for name in calls]

    async def model(_: Any) -> ModelResponse[Any]:
        return ModelResponse([AIMessage("ok", tool_calls=made)])

    tools = [tool(name, return_direct=name == "last")(answer) for name in ("more", "last")]
    request = ModelRequest(model=cast("Any", None), messages=[], tools=[*tools, {"type": "web_search"}], runtime=runtime)
    await trigger.awrap_model_call(request, model)


@pytest.mark.parametrize(("calls", "ends"), [((), True), (("more",), False), (("more", "last"), False), (("last",), True)])
async def test_a_turn_ends_with_an_answer_that_no_other_follows(calls: tuple[str, ...], ends: bool) -> None:
    planned: list[Owner] = []

    async def note(owner: Owner, *_: Any) -> None:
        planned.append(owner)

    trigger = IdleTrigger(Settings(), note, delay=0)
    await answer(trigger, ON_SERVER, *calls)
    await asyncio.gather(*trigger._planning)
    assert planned == [ALICE] * ends


async def test_a_turn_does_not_wait_for_its_consolidation_to_be_planned() -> None:
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(owner: Owner, seconds: int, *_: Any) -> None:
        assert (owner, seconds) == (ALICE, AFTER)
        begun.set()
        await go_on.wait()
        done.set()

    await answer(IdleTrigger(Settings(), slow, delay=0))
    assert not begun.is_set()
    await begun.wait()
    go_on.set()
    await done.wait()


async def test_a_failure_to_plan_is_logged_once_and_is_not_the_turn_s(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A failure to plan is logged once with its reason, and is not the turn's."""

    async def fail(*_: Any) -> None:
        raise httpx.ConnectError("the queue is full")

    trigger = IdleTrigger(Settings(), fail, delay=0)
    with caplog.at_level(logging.INFO):
        await answer(trigger)
        await asyncio.gather(*trigger._planning)
    (record,) = [record for record in caplog.records if record.name == "memory.consolidation.trigger"]
    assert record.levelname == "WARNING"
    assert "ConnectError('the queue is full')" in record.message


async def test_in_a_loop_that_ends_with_its_run_the_plan_is_made_before() -> None:
    planned: list[str] = []

    async def note(*_: Any) -> None:
        await asyncio.sleep(0.01)
        planned.append(threading.current_thread().name)

    trigger = IdleTrigger(Settings(), note, delay=0)
    isolated = threading.Thread(target=lambda: asyncio.run(answer(trigger)), name="isolated")
    isolated.start()
    await asyncio.to_thread(isolated.join)
    assert planned == ["isolated"]


async def test_without_a_server_nothing_is_planned() -> None:
    trigger = IdleTrigger(Settings())
    await answer(trigger, Runtime(context=identity.Context("alice", "acme")))
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
async def test_turns_plan_a_consolidation_where_there_is_one(
    graph: BuildGraph, monkeypatch: pytest.MonkeyPatch, settings: Settings, planning: bool
) -> None:
    """Turns plan a consolidation, unless it is turned off or memory is shared."""
    ended: list[Runtime[Any]] = []

    async def note(_: IdleTrigger, runtime: Runtime[Any]) -> None:
        ended.append(runtime)

    monkeypatch.setattr(IdleTrigger, "_turn_ends", note)
    await graph(settings).turn("hello")
    assert len(ended) == planning


@pytest.mark.parametrize("value", [{}, {"thread_id": 7}, {"thread_id": None}, {"thread_id": "no id"}], ids=repr)
async def test_a_schedule_that_names_no_thread_is_none(store: BaseStore, value: Any) -> None:
    """A schedule that names no thread is none, and the next consolidation makes another."""
    owner, platform = ALICE, FakePlatform()
    await store.aput(namespaces.schedule(owner.actor), owner.key, value, index=False)
    assert await is_stray(owner, store, {"metadata": {"trigger": "now"}, "configurable": {"thread_id": "1"}})
    assert await start(owner, platform.client, store)
    (item,) = await store.asearch(namespaces.schedule(owner.actor))
    assert list(platform.runs) == [str(UUID(item.value["thread_id"]))]
