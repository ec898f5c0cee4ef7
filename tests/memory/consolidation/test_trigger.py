"""A turn plans its person's consolidation when it ends, and neither waits for that nor fails with it."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any, cast

import httpx
import pytest
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.runtime import Runtime, ServerInfo
from langgraph.store.memory import InMemoryStore

from memory import identity
from memory.consolidation import planning
from memory.consolidation.planning import IdleTrigger, Owner
from memory.identity import Actor
from settings import Settings
from tests.conftest import BuildGraph
from tests.memory.consolidation.runs import User

ALICE, AFTER = Owner(Actor("alice", "acme")), 300

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
async def test_a_turn_ends_with_an_answer_that_no_other_follows(
    monkeypatch: pytest.MonkeyPatch, calls: tuple[str, ...], ends: bool
) -> None:
    planned: list[Owner] = []

    async def note(owner: Owner, *_: Any) -> None:
        planned.append(owner)

    monkeypatch.setattr(planning, "start", note)
    trigger = IdleTrigger(Settings(), delay=0)
    await answer(trigger, ON_SERVER, *calls)
    await asyncio.gather(*trigger._planning)
    assert planned == [ALICE] * ends


async def test_a_turn_does_not_wait_for_its_consolidation_to_be_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(owner: Owner, _: Any, trigger: str, seconds: int) -> None:
        assert (owner, trigger, seconds) == (ALICE, "idle", AFTER)
        begun.set()
        await go_on.wait()
        done.set()

    monkeypatch.setattr(planning, "start", slow)
    await answer(IdleTrigger(Settings(), delay=0))
    assert not begun.is_set()
    await begun.wait()
    go_on.set()
    await done.wait()


async def test_a_failure_to_plan_is_logged_once_and_is_not_the_turn_s(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure to plan is logged once with its reason, and is not the turn's."""

    async def fail(*_: Any) -> None:
        raise httpx.ConnectError("the queue is full")

    monkeypatch.setattr(planning, "start", fail)
    trigger = IdleTrigger(Settings(), delay=0)
    with caplog.at_level(logging.INFO):
        await answer(trigger)
        await asyncio.gather(*trigger._planning)
    (record,) = [record for record in caplog.records if record.name == "memory.consolidation.planning"]
    assert record.levelname == "WARNING"
    assert "ConnectError('the queue is full')" in record.message


async def test_in_a_loop_that_ends_with_its_run_the_plan_is_made_before(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []

    async def note(*_: Any) -> None:
        await asyncio.sleep(0.01)
        planned.append(threading.current_thread().name)

    monkeypatch.setattr(planning, "start", note)
    trigger = IdleTrigger(Settings(), delay=0)
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
