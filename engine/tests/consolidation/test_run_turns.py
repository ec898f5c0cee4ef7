"""Whose turn it is where few consolidations work at once: of runs, whoever begins them, whoever had a
slot longest ago.
"""

import asyncio
import contextlib
import threading
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lasting_memory.consolidation import REHEARSING, run_beginning
from lasting_memory.consolidation.run import build_consolidation_agent
from lasting_memory.consolidation.slots import Slots
from lasting_memory.deployment import Consolidation
from lasting_memory.people.identity import Actor, Context
from lasting_memory.settings import CONSOLIDATION_GRAPH
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.scripted_anthropic import after
from tests.conftest import BuildGraph
from tests.consolidation.conftest import READY, Runs, until


def began_by(run: Runs, person: str) -> bool:
    return bool(run.model.requests_for(f"I am {person}."))


async def ran(run: Runs, person: str, number: int, *, dry: bool) -> str:
    """A run of somebody's, who has said something new; its last message."""
    name = f"{person}-{number}"
    said = [{"type": "human", "id": name, "content": f"I am {person}."}]
    run.platform.put(Actor(person, "acme"), name, run.platform.now.isoformat(), said)
    ids = {"thread_id": name, "run_id": name, "graph_id": CONSOLIDATION_GRAPH}
    user = SignedIn(identity=person, org_id="acme")
    config: Any = {"configurable": {**ids, "langgraph_auth_user": user}, "recursion_limit": 9_999}
    result = await run.built.ainvoke({"messages": []}, config, context=Context(dry_run=dry))
    return str(result["messages"][-1].text)


@pytest.fixture
def blocked(
    run: Runs, graph: BuildGraph, monkeypatch: pytest.MonkeyPatch
) -> dict[str, threading.Event]:
    """Events by person: until one is set, the model of their first run says nothing. One
    consolidation works at once.
    """
    monkeypatch.setattr(run_beginning, "SLOTS", Slots())
    few = replace(deployed(), consolidation=Consolidation(at_once=1))
    run.built = graph(few, build=build_consolidation_agent).graph
    run.built.store = run.store
    events = {name: threading.Event() for name in ("ann", "bob", "cid")}
    for name, event in events.items():
        run.model.script(partial(is_of, name), after(event, READY))
    return events


def is_of(person: str, body: Any) -> bool:
    return f"I am {person}." in str(body["messages"])


def runs_waiting() -> list[str]:
    return [each.person.user_id for each in run_beginning.SLOTS._turns._waits]


async def test_the_run_of_who_had_a_slot_longest_ago_is_next_and_others_are_told(
    run: Runs, blocked: dict[str, threading.Event]
) -> None:
    ann = asyncio.create_task(ran(run, "ann", 1, dry=True))
    await until(lambda: began_by(run, "ann"))
    again = asyncio.create_task(ran(run, "ann", 2, dry=True))
    await until(lambda: runs_waiting() == ["ann"])
    bob = asyncio.create_task(ran(run, "bob", 1, dry=True))
    assert await again == REHEARSING, "bob waits in her place"
    assert runs_waiting() == ["bob"]
    assert await ran(run, "ann", 3, dry=True) == REHEARSING
    blocked["ann"].set()
    assert "conversations" in await ann
    await until(lambda: began_by(run, "bob"))
    blocked["bob"].set()
    assert "conversations" in await bob


async def test_a_run_that_a_person_asked_for_waits_for_its_turn_or_is_planned_again(
    run: Runs, blocked: dict[str, threading.Event]
) -> None:
    going = {name: asyncio.create_task(ran(run, name, 1, dry=False)) for name in ("cid", "ann")}
    await until(lambda: began_by(run, "ann") and began_by(run, "cid"))
    bob = asyncio.create_task(ran(run, "bob", 1, dry=False))
    await until(lambda: runs_waiting() == ["bob"])
    assert "another run is planned" in await ran(run, "ann", 2, dry=False)
    blocked["ann"].set()
    await going["ann"]
    await until(lambda: began_by(run, "bob"))
    blocked["bob"].set()
    blocked["cid"].set()
    for each in (bob, going["cid"]):
        assert await each == "1 conversations were consolidated."


async def test_a_run_that_is_cancelled_while_it_waits_or_works_leaves_its_slot(
    run: Runs, blocked: dict[str, threading.Event]
) -> None:
    ann = asyncio.create_task(ran(run, "ann", 1, dry=True))
    await until(lambda: began_by(run, "ann"))
    bob = asyncio.create_task(ran(run, "bob", 1, dry=True))
    await until(lambda: runs_waiting() == ["bob"])
    for task in (bob, ann):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert runs_waiting() == []
    blocked["cid"].set()
    assert "conversations" in await ran(run, "cid", 1, dry=True)
    blocked["ann"].set()
