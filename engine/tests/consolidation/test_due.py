"""What is due, for whom a sweep starts a run, when a turn's run begins, and what goes with its age."""

import asyncio
from dataclasses import replace
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

from lasting_memory import journal
from lasting_memory.consolidation import planning, start, sweep
from lasting_memory.consolidation.due import Due, Owner, Position, batch, find_due, put_positions
from lasting_memory.consolidation.planning import _BACK, APART_SECONDS, IdleTrigger, delete_old
from lasting_memory.deployment import Deployment
from lasting_memory.limits import Limits
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.recall import Conversation, Turn
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.platform import Platform
from tests.conftest import BuildGraph
from tests.consolidation.runs import ALICE

MONTHLY = replace(deployed(), limits=Limits(conversation_days=30))

BOB = Actor("bob", "acme")
AFTER = 300


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "human", "id": str(number), "content": text} for number, text in enumerate(texts)]


def talk(thread_id: str, *texts: str, updated_at: str = "1") -> Conversation:
    turns = tuple(Turn("user", text, f"{thread_id}-{n}") for n, text in enumerate(texts))
    return Conversation(thread_id, "2026-01-01", turns, updated_at=updated_at)


async def due(store: BaseStore, platform: Platform, actor: Actor = ALICE) -> list[Due]:
    return await find_due(deployed(), platform, store, Owner(actor))  # type: ignore[arg-type]


async def read(store: BaseStore, platform: Platform, actor: Actor = ALICE) -> list[str]:
    """Consolidate what is due; the texts of the new turns."""
    found = await due(store, platform, actor)
    await put_positions(store, actor, {item.conversation.thread_id: item.advanced() for item in found})
    return [turn.text for item in found for turn in item.conversation.turns]


def test_a_batch_takes_the_oldest_and_no_more_than_fits() -> None:
    many = [Due(talk("new", "y" * 400, updated_at="2")), Due(talk("old", "x" * 400))]
    assert [item.conversation.thread_id for item in batch(many, 150)] == ["old"]
    assert [item.conversation.thread_id for item in batch(many, 300)] == ["old", "new"]
    undone = [replace(many[0], position=Position(undone=1)), Due(talk("other", "z"))]
    assert [item.conversation.thread_id for item in batch(undone, 10_000)] == ["other"], "one that was refused comes alone"


def test_a_conversation_over_the_budget_is_read_in_parts_and_stays_due() -> None:
    (item,) = batch([Due(talk("t", "a" * 400, "b" * 400, "c" * 400))], 250)
    assert (item.advanced().updated_at, len(item.advanced().seen)) == ("", 2)


async def test_only_what_is_new_is_due_whatever_was_edited_or_deleted(store: BaseStore, platform: Platform) -> None:
    platform.put(ALICE, "t", "2026-01-01T00:00:00+00:00", said("a", "b"))
    assert await read(store, platform) == ["a", "b"]
    assert await read(store, platform) == []
    platform.put(ALICE, "t", "2026-01-01T00:00:01+00:00", said("a", "B", "c"))
    assert await read(store, platform) == ["B", "c"]
    platform.put(ALICE, "t", "2026-01-01T00:00:02+00:00", said("a"))
    assert await read(store, platform) == []


async def test_a_person_s_own_conversations_are_read_and_no_further_back_than_needed(
    store: BaseStore, platform: Platform
) -> None:
    day = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    for number in range(250):
        platform.put(ALICE, f"old-{number:03}", (day + timedelta(hours=number)).isoformat(), said(f"old {number}"))
    platform.put(BOB, "bob", day.isoformat(), said("a secret"))
    texts: list[str] = []
    while new := await read(store, platform):
        texts += new
    assert sorted(texts) == sorted(f"old {number}" for number in range(250))
    await due(store, platform)
    platform.calls.clear()
    platform.put(ALICE, "new", (day + timedelta(days=30)).isoformat(), said("new"))
    assert await read(store, platform) == ["new"]
    assert platform.calls["threads.search"] <= 4, "one page of threads, and one conversation"


async def test_damaged_notes_hide_nothing(store: BaseStore, platform: Platform) -> None:
    platform.put(ALICE, "t", "2026-01-01T00:00:00+00:00", said("a"))
    await store.aput(namespaces.reading(ALICE), "all", {"read_to": "soon"})
    await store.aput(namespaces.positions(ALICE), "t", {"seen": 7, "undone": "x"})
    assert await read(store, platform) == ["a"]


# --- Sweeps ----------------------------------------------------------------------------------------------------------


async def swept(store: BaseStore, platform: Platform, settings: Deployment | None = None) -> list[str]:
    """The people for whom a sweep queued runs. What waited before has ended."""
    platform.runs.kept.clear()
    assert await sweep(settings or deployed(), platform, store) == len(platform.runs.all())  # type: ignore[arg-type]
    return sorted(run["context"]["user_id"] for run in platform.runs.all())


async def test_everybody_with_something_new_gets_one_run_and_who_is_idle_gets_none(
    store: BaseStore, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("alice", "alice", "bob", "carol"):
        thread = platform.talk(user)
        thread["values"] = {"messages": said("x")}
    await read(store, platform, Actor("carol", "acme"))
    for page in (1_000, 2):
        monkeypatch.setattr(planning, "_PAGE", page)
        assert await swept(store, platform) == ["alice", "bob"], "who was not consolidated stays due"
    begins = sorted(run["after_seconds"] for run in platform.runs.all())
    assert begins == [0, APART_SECONDS]


async def test_a_run_that_cannot_be_created_is_one_person_s_and_is_tried_again(store: BaseStore, platform: Platform) -> None:
    for user in ("alice", "bob"):
        platform.talk(user)

    async def full(name: str, options: Any) -> None:
        if name == "runs.create" and options["context"]["user_id"] == "bob":
            raise httpx.ConnectError("the queue is full")

    platform.before = full
    assert await swept(store, platform) == ["alice"]
    platform.before = None
    assert await swept(store, platform) == ["alice", "bob"]


async def test_a_sweep_plans_nothing_for_who_was_forgotten_since_it_began(store: BaseStore, platform: Platform) -> None:
    for user in ("alice", "bob"):
        platform.talk(user)

    async def forget_others(name: str, options: Any) -> None:
        if name == "runs.create":
            await journal.forget(store, Actor({"alice": "bob", "bob": "alice"}[options["context"]["user_id"]], "acme"))

    platform.before = forget_others
    assert len(await swept(store, platform)) == 1


async def test_a_sweep_after_long_silence_or_a_wrong_clock_hides_nobody(store: BaseStore, platform: Platform) -> None:
    now = platform.now
    platform.now = now - 2 * _BACK
    platform.talk("alice")
    assert await swept(store, platform) == ["alice"], "the first sweep reads all"
    mark = {"began": (now + timedelta(days=900)).isoformat()}
    platform.now = now
    platform.talk("bob")
    await store.aput(*namespaces.LAST_SWEEP, mark)
    assert await swept(store, platform) == ["bob"]
    for began in ((now - 2 * _BACK).isoformat(), "soon"):
        await store.aput(*namespaces.LAST_SWEEP, {"began": began})
        assert await swept(store, platform) == ["alice", "bob"], "since the last sweep that ended, or all"


async def test_old_conversations_go_with_their_positions_once_they_are_consolidated(
    store: BaseStore, platform: Platform
) -> None:
    now = platform.now
    platform.now = now - timedelta(days=31)
    mine, late = platform.talk("alice"), platform.talk("bob")
    mine["values"] = late["values"] = {"messages": said("x")}
    await read(store, platform)
    platform.now = now
    platform.talk("alice")
    assert await delete_old(MONTHLY, platform, store) == 1  # type: ignore[arg-type]
    assert late["thread_id"] in platform.kept, "what is due is consolidated first"
    assert mine["thread_id"] not in platform.kept
    assert await store.asearch(namespaces.positions(ALICE)) == []
    assert await delete_old(MONTHLY, platform, store, now + _BACK) == 1, "but not for ever"  # type: ignore[arg-type]


# --- Turns -----------------------------------------------------------------------------------------------------------

MINE = Owner(ALICE)


async def turn(platform: Platform, seconds: float = 0, owner: Owner = MINE) -> None:
    """A turn of the owner's that ends so many seconds from now."""
    platform.now += timedelta(seconds=seconds)
    await start(owner, platform, "idle", AFTER)  # type: ignore[arg-type]


def begins(platform: Platform) -> list[float]:
    """Seconds from now at which each pending run begins."""
    return [(datetime.fromisoformat(run["created_at"]) - platform.now).total_seconds() for run in platform.runs.all("pending")]


async def test_a_run_that_is_at_work_or_was_asked_for_is_left_and_one_is_queued_behind_it(platform: Platform) -> None:
    assert await start(MINE, platform, "asked")  # type: ignore[arg-type]
    assert not await start(MINE, platform, "asked"), "it waits already"  # type: ignore[arg-type]
    await turn(platform)
    assert begins(platform) == [0], "it reads what was said in this turn, too"
    platform.runs.begin()
    await turn(platform)
    await turn(platform, 1)
    assert [run["status"] for run in platform.runs.all()] == ["running", "pending"]
    assert len({run["thread_id"] for run in platform.runs.all()}) == 1


async def test_what_a_person_asks_for_begins_at_once_in_place_of_a_later_run(platform: Platform) -> None:
    await turn(platform)
    assert not await start(MINE, platform), "the run that waits will read everything"  # type: ignore[arg-type]
    assert await start(MINE, platform, "asked")  # type: ignore[arg-type]
    assert begins(platform) == [0]


# --- A turn's end plans a run, and neither waits for that nor fails with it

ON_SERVER: Runtime[Any] = Runtime(
    store=InMemoryStore(),
    server_info=ServerInfo(assistant_id="a", graph_id="agent", user=cast("Any", SignedIn(identity="alice", org_id="acme"))),
)


async def answer(*calls: str) -> None:
    """The model's answer, with calls of these tools, and what is planned after it."""
    made = [{"name": name, "args": {}, "id": name} for name in calls]

    async def model(_: Any) -> ModelResponse[Any]:
        return ModelResponse([AIMessage("ok", tool_calls=made)])

    trigger = IdleTrigger(deployed(), delay=0)
    tools = [tool(name, return_direct=name == "last")(answer) for name in ("more", "last")]
    request = ModelRequest(model=cast("Any", None), messages=[], tools=[*tools, {"type": "web_search"}], runtime=ON_SERVER)
    await trigger.awrap_model_call(request, model)
    await asyncio.gather(*trigger._planning)


@pytest.mark.parametrize(("calls", "ends"), [((), True), (("more",), False), (("more", "last"), False), (("last",), True)])
async def test_a_turn_ends_with_an_answer_that_no_other_follows(
    monkeypatch: pytest.MonkeyPatch, calls: tuple[str, ...], ends: bool
) -> None:
    planned = AsyncMock()
    monkeypatch.setattr(planning, "start", planned)
    await answer(*calls)
    assert [each.args[0::2] for each in planned.call_args_list] == [(Owner(ALICE), "idle")] * ends


async def test_a_failure_to_plan_is_logged_once_and_is_not_the_turn_s(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(planning, "start", AsyncMock(side_effect=httpx.ConnectError("the queue is full")))
    await answer()
    (record,) = [record for record in caplog.records if record.name == "lasting_memory.consolidation.planning"]
    assert record.levelname == "WARNING"
    assert "ConnectError('the queue is full')" in record.message


@pytest.mark.parametrize(
    ("changes", "planning"),
    [
        ({}, True),
        ({"memory_scope": "user+assistant"}, True),
        ({"consolidate_after_seconds": 0}, False),
        ({"memory_scope": "assistant"}, False),
    ],
)
async def test_turns_plan_a_consolidation_where_there_is_one(
    graph: BuildGraph, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], planning: bool
) -> None:
    """Turns plan a consolidation, unless it is turned off or memory is shared."""
    ended: list[Runtime[Any]] = []

    async def note(_: IdleTrigger, runtime: Runtime[Any]) -> None:
        ended.append(runtime)

    monkeypatch.setattr(IdleTrigger, "_plan", note)
    await graph(deployed(**changes)).turn("hello")
    assert len(ended) == planning
