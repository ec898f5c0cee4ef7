"""What is due, for whom a sweep starts a run, when a turn's run begins, and what goes with its age."""

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast
from unittest.mock import AsyncMock

import httpx
import pytest
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.runtime import Runtime, ServerInfo
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from lasting_memory.consolidation import Owner, Trigger, consolidated, idle_trigger, start, sweep
from lasting_memory.consolidation.batch import DueConversation
from lasting_memory.consolidation.due import find_due
from lasting_memory.consolidation.idle_trigger import IdleTrigger
from lasting_memory.consolidation.old_conversations import delete_old
from lasting_memory.consolidation.positions import put_positions
from lasting_memory.consolidation.sweeping import APART_SECONDS, LOOK_BACK
from lasting_memory.deployment import Consolidation, Deployment, Limits
from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.recall import threads
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.platform import Platform
from tests.consolidation.conftest import ALICE

MONTHLY = replace(deployed(), limits=Limits(conversation_days=30))
BOB = Actor("bob", "acme")
AFTER = 300


def said(*texts: str) -> list[dict[str, Any]]:
    return [
        {"type": "human", "id": str(number), "content": text} for number, text in enumerate(texts)
    ]


@dataclass
class World:
    """The conversations and runs of a platform, and what the store knows of them."""

    store: BaseStore
    platform: Any

    async def due(self, actor: Actor = ALICE) -> list[DueConversation]:
        return await find_due(deployed(), self.platform, self.store, Owner(actor))

    async def read(self, actor: Actor = ALICE) -> list[str]:
        """Consolidate what is due; the texts of the new turns."""
        found = await self.due(actor)
        await put_positions(
            self.store, actor, {item.conversation.thread_id: item.advanced() for item in found}
        )
        return [turn.text for item in found for turn in item.conversation.turns]

    async def swept(self) -> list[str]:
        """The people for whom a sweep queued runs. What waited before has ended."""
        self.platform.runs.kept.clear()
        assert await sweep(deployed(), self.platform, self.store) == len(self.platform.runs.all())
        return sorted(run["context"]["user_id"] for run in self.platform.runs.all())


@pytest.fixture
def world(store: BaseStore, platform: Platform) -> World:
    return World(store, platform)


async def test_new_messages_alone_are_due_whatever_was_edited_or_deleted(world: World) -> None:
    world.platform.put(ALICE, "t", "2026-01-01T00:00:00+00:00", said("a", "b"))
    assert await world.read() == ["a", "b"]
    assert await world.read() == []
    world.platform.put(ALICE, "t", "2026-01-01T00:00:01+00:00", said("a", "B", "c"))
    assert await world.read() == ["B", "c"]
    world.platform.put(ALICE, "t", "2026-01-01T00:00:02+00:00", said("a"))
    assert await world.read() == []


async def test_a_person_s_own_conversations_are_read_and_no_further_back_than_needed(
    world: World,
) -> None:
    day = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    for number in range(250):
        world.platform.put(
            ALICE,
            f"old-{number:03}",
            (day + timedelta(hours=number)).isoformat(),
            said(f"old {number}"),
        )
    world.platform.put(BOB, "bob", day.isoformat(), said("a secret"))
    texts: list[str] = []
    while new := await world.read():
        texts += new
    assert sorted(texts) == sorted(f"old {number}" for number in range(250))
    await world.due()
    world.platform.calls.clear()
    world.platform.put(ALICE, "new", (day + timedelta(days=30)).isoformat(), said("new"))
    assert await world.read() == ["new"]
    assert world.platform.calls["threads.search"] <= 4, "one page of threads, and one conversation"


async def test_damaged_notes_hide_nothing(world: World) -> None:
    world.platform.put(ALICE, "t", "2026-01-01T00:00:00+00:00", said("a"))
    await world.store.aput(namespaces.reading(ALICE), "all", {"read_to": "soon"})
    await world.store.aput(namespaces.positions(ALICE), "t", {"seen": 7, "undone": "x"})
    assert await world.read() == ["a"]


async def test_a_sweep_starts_one_run_for_each_person_with_new_messages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("alice", "alice", "bob", "carol"):
        thread = world.platform.talk(user)
        thread["values"] = {"messages": said("x")}
    await world.read(Actor("carol", "acme"))
    for page in (1_000, 2):
        for name, value in {"FIRST_PAGE": page, "_PAGE": page, "_OVERLAP": 1}.items():
            monkeypatch.setattr(threads, name, value)
        assert await world.swept() == ["alice", "bob"], "who was not consolidated stays due"
    begins = sorted(run["after_seconds"] for run in world.platform.runs.all())
    assert begins == [0, APART_SECONDS]


async def test_a_run_that_cannot_be_created_is_one_person_s_and_is_tried_again(
    world: World,
) -> None:
    for user in ("alice", "bob"):
        world.platform.talk(user)

    async def full(name: str, options: Any) -> None:
        if name == "runs.create" and options["context"]["user_id"] == "bob":
            raise httpx.ConnectError("the queue is full")

    world.platform.before = full
    assert await world.swept() == ["alice"]
    world.platform.before = None
    assert await world.swept() == ["alice", "bob"]


async def test_a_sweep_plans_nothing_for_who_was_forgotten_since_it_began(world: World) -> None:
    for user in ("alice", "bob"):
        world.platform.talk(user)

    async def forget_others(name: str, options: Any) -> None:
        if name == "runs.create":
            await journal.forget(
                world.store,
                Actor({"alice": "bob", "bob": "alice"}[options["context"]["user_id"]], "acme"),
            )

    world.platform.before = forget_others
    assert len(await world.swept()) == 1


async def test_a_sweep_after_long_silence_or_a_wrong_clock_hides_nobody(world: World) -> None:
    now = world.platform.now
    world.platform.now = now - 2 * LOOK_BACK
    world.platform.talk("alice")
    assert await world.swept() == ["alice"], "the first sweep reads all"
    world.platform.now = now
    world.platform.talk("bob")
    await world.store.aput(
        *namespaces.LAST_SWEEP, {"began": (now + timedelta(days=900)).isoformat()}
    )
    assert await world.swept() == ["bob"]
    for began in ((now - 2 * LOOK_BACK).isoformat(), "soon"):
        await world.store.aput(*namespaces.LAST_SWEEP, {"began": began})
        assert await world.swept() == ["alice", "bob"], "since the last sweep that ended, or all"


async def test_old_conversations_go_with_their_positions_once_they_are_consolidated(
    world: World,
) -> None:
    now = world.platform.now
    world.platform.now = now - timedelta(days=31)
    mine, late = world.platform.talk("alice"), world.platform.talk("bob")
    mine["values"] = late["values"] = {"messages": said("x")}
    await world.read()
    world.platform.now = now
    world.platform.talk("alice")
    assert await delete_old(MONTHLY, world.platform, world.store) == 1
    assert late["thread_id"] in world.platform.kept, "what is due is consolidated first"
    assert mine["thread_id"] not in world.platform.kept
    assert await world.store.asearch(namespaces.positions(ALICE)) == []
    assert await delete_old(MONTHLY, world.platform, world.store, now + LOOK_BACK) == 1, (
        "but not for ever"
    )


MINE = Owner(ALICE)


async def turn(platform: Platform, seconds: float = 0) -> None:
    """A turn that ends so many seconds from now."""
    platform.now += timedelta(seconds=seconds)
    await start(MINE, platform, "idle", AFTER)  # type: ignore[arg-type]


def begins(platform: Platform) -> list[float]:
    """Seconds from now at which each pending run begins."""
    return [
        (datetime.fromisoformat(run["created_at"]) - platform.now).total_seconds()
        for run in platform.runs.all("pending")
    ]


async def test_a_run_that_is_at_work_or_was_asked_for_is_left_and_one_is_queued_behind_it(
    platform: Platform,
) -> None:
    assert await start(MINE, platform, "asked")  # type: ignore[arg-type]
    assert not await start(MINE, platform, "asked"), "it waits already"  # type: ignore[arg-type]
    await turn(platform)
    assert begins(platform) == [0], "it reads what was said in this turn, too"
    platform.runs.begin()
    await turn(platform)
    await turn(platform, 1)
    assert [run["status"] for run in platform.runs.all()] == ["running", "pending"]
    assert len({run["thread_id"] for run in platform.runs.all()}) == 1


async def test_a_run_that_a_person_asks_for_begins_at_once_in_place_of_a_later_one(
    platform: Platform,
) -> None:
    await turn(platform)
    assert not await start(MINE, platform), "the run that waits will read everything"  # type: ignore[arg-type]
    assert await start(MINE, platform, "asked")  # type: ignore[arg-type]
    assert begins(platform) == [0]


async def test_turns_that_end_at_once_plan_one_run(platform: Platform) -> None:
    async def slow(*_: object) -> None:
        await asyncio.sleep(0.001)

    platform.before = slow
    await asyncio.gather(*(turn(platform) for _ in range(5)))
    assert begins(platform) == [AFTER]


async def test_a_failure_to_plan_is_not_the_turn_s(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A turn ends with an answer that calls no tool, or only one whose result is the last word."""
    user: Any = SignedIn(identity="alice", org_id="acme")
    server = ServerInfo(assistant_id="a", graph_id="agent", user=user)
    monkeypatch.setattr(
        idle_trigger, "start", AsyncMock(side_effect=httpx.ConnectError("the queue is full"))
    )
    tools = [
        tool(name, description="x", return_direct=name == "last")(said) for name in ("more", "last")
    ]
    trigger = IdleTrigger(deployed(), delay=0)

    async def answered(*calls: str) -> int:
        """How often nothing could be planned after the model called these tools."""
        made = [{"name": name, "args": {}, "id": name} for name in calls]
        runtime: Runtime[Any] = Runtime(store=InMemoryStore(), server_info=server)
        request = ModelRequest(
            model=cast("Any", None),
            messages=[],
            tools=[*tools, {"type": "web_search"}],
            runtime=runtime,
        )
        caplog.clear()
        await trigger.awrap_model_call(
            request, AsyncMock(return_value=ModelResponse([AIMessage("ok", tool_calls=made)]))
        )
        await asyncio.gather(*trigger._planning_tasks)
        said_so = "ConnectError('the queue is full')"
        return sum(
            record.levelname == "WARNING" and said_so in record.message for record in caplog.records
        )

    assert [await answered(*calls) for calls in ((), ("more",), ("more", "last"), ("last",))] == [
        1,
        0,
        0,
        1,
    ]


@pytest.mark.parametrize(("changes", "plans"), [
    ({}, True), ({"memory_scope": "user+assistant"}, True), ({"consolidate_after_seconds": 0}, False),
    ({"memory_scope": "assistant"}, False),
])  # fmt: skip
def test_turns_plan_a_consolidation_unless_it_is_off_or_memory_is_shared(
    changes: dict[str, Any], plans: bool
) -> None:
    assert bool(consolidated(deployed(**changes))) is plans


async def test_a_tidy_is_queued_beside_other_runs_and_once(platform: Platform) -> None:
    client: Any = platform
    assert await start(MINE, client, Trigger.IDLE, 300)
    assert await start(MINE, client, Trigger.TIDY)
    assert not await start(MINE, client, Trigger.TIDY)
    assert await start(MINE, client, Trigger.ASKED)
    waiting = [run["metadata"]["trigger"] for run in platform.runs.all("pending")]
    assert sorted(waiting) == ["asked", "tidy"], "what tidies is not taken back"


async def test_the_sweep_tidies_after_so_many_days(platform: Platform, store: BaseStore) -> None:
    monthly = replace(deployed(), consolidation=Consolidation(tidy_days=1e-10))
    platform.talk("alice")

    async def swept(deployment: Deployment) -> list[str]:
        await sweep(deployment, platform, store)  # type: ignore[arg-type]
        return [run["metadata"]["trigger"] for run in platform.runs.all("pending")]

    assert await swept(deployed()) == ["sweep"]
    assert await swept(monthly) == ["sweep"], "the days are counted from the first sweep"
    assert await swept(monthly) == ["sweep", "tidy"]
