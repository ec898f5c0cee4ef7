"""How a process shares itself out to consolidations: slots, seconds at which runs begin, and the sweep's list of threads."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from memory import langgraph_internals, namespaces
from memory.consolidation.begins import BEGINS_PER_SECOND, Begins
from memory.consolidation.slots import CONSOLIDATION_SECONDS, Slots
from memory.consolidation.sweeping import SWEEP_MARGIN_SECONDS, sweep
from memory.consolidation.trigger import Owner, plan
from memory.identity import Actor
from settings import CONSOLIDATIONS_AT_ONCE, Settings
from testing.fake_platform import FakePlatform
from tests.faults.test_shares import Clock

ALICE = Actor("alice", "acme")


def test_there_are_so_many_slots_and_one_that_is_given_back_is_another_s() -> None:
    slots = Slots(Clock())
    assert [slots.take(f"{number}", Actor(f"{number}", "acme")) for number in range(CONSOLIDATIONS_AT_ONCE + 1)] == [
        True
    ] * CONSOLIDATIONS_AT_ONCE + [False]
    assert slots.take("0", Actor("0", "acme")), "it has one"
    slots.free("0")
    assert slots.take("new", Actor("new", "acme"))


def test_one_person_does_not_have_them_all() -> None:
    slots = Slots(Clock())
    assert [slots.take(f"{number}", ALICE) for number in range(CONSOLIDATIONS_AT_ONCE)][-1] is False
    assert slots.take("new", Actor("bob", "acme"))


def test_a_dry_run_neither_waits_for_a_sweep_nor_takes_a_slot_from_it() -> None:
    slots = Slots(Clock())
    assert slots.take("dry", Actor("dry", "acme"), dry=True)
    assert not slots.take("other dry", Actor("other dry", "acme"), dry=True)
    assert all(slots.take(f"{number}", Actor(f"{number}", "acme")) for number in range(CONSOLIDATIONS_AT_ONCE))
    assert slots.next_turn() > 0


def test_a_run_that_somebody_asked_for_neither_waits_for_a_sweep_nor_has_a_slot_for_each_of_theirs() -> None:
    slots = Slots(Clock())
    assert all(slots.take(f"{number}", Actor(f"{number}", "acme")) for number in range(CONSOLIDATIONS_AT_ONCE))
    for _ in range(1_000):
        slots.next_turn()
    assert slots.take("asked", ALICE, asked=True)
    assert not slots.take("again", ALICE, asked=True)
    assert not slots.take("other", Actor("other", "acme"), asked=True)
    assert slots.next_turn(asked=True) <= CONSOLIDATION_SECONDS
    slots.free("0")
    assert slots.take("other", Actor("other", "acme"), asked=True)


def test_those_who_wait_come_as_far_apart_as_the_runs_take() -> None:
    """Those who wait come as far apart as the runs take, however long that is."""
    clock = Clock()
    slots = Slots(clock)
    apart = CONSOLIDATION_SECONDS / CONSOLIDATIONS_AT_ONCE
    assert [slots.next_turn() for _ in range(4)] == [math.ceil(number * apart) for number in range(4)]
    clock.now = 1_000
    for number in range(CONSOLIDATIONS_AT_ONCE):
        slots.take(f"{number}", Actor(f"{number}", "acme"))
    clock.now += 60
    apart = 60 / CONSOLIDATIONS_AT_ONCE
    assert [slots.next_turn() for _ in range(3)] == [apart, 2 * apart, 3 * apart], "60 seconds and no end"


# --- Runs that are planned -------------------------------------------------------------------------------------------


async def test_a_thousand_people_who_go_idle_at_once_begin_one_by_one() -> None:
    platform, store = FakePlatform(), InMemoryStore()
    begins = Begins(platform.clock)
    for number in range(1_000):
        await plan(Owner(Actor(f"{number}", "acme")), 300, platform.client, store, begins)
    at = Counter(run["created_at"] for run in platform.all_runs())
    assert list(at.values()) == [BEGINS_PER_SECOND] * (1_000 // BEGINS_PER_SECOND)


def test_somebody_who_plans_again_in_the_same_second_has_one_place() -> None:
    begins, now = Begins(), datetime(2026, 1, 1, tzinfo=UTC)
    for _ in range(2):
        for number in range(BEGINS_PER_SECOND):
            assert begins.book(Owner(Actor(f"{number}", "acme")), now, now) == now
    assert begins.book(Owner(ALICE), now, now) == now + timedelta(seconds=1)


async def test_two_servers_on_one_store_do_not_lose_each_other_s_sweep(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    store, servers = InMemoryStore(), {"one": FakePlatform(), "two": FakePlatform()}
    now = datetime(2026, 1, 1, tzinfo=UTC)

    async def swept(name: str) -> list[str]:
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / name)
        servers[name].runs.clear()
        await sweep(Settings(local_dev=True), servers[name].client, store, lambda: now)
        return [run["context"]["user_id"] for run in servers[name].all_runs()]

    for name, platform in servers.items():
        platform.now = now
        platform.talk(f"of {name}")
    for _ in range(3):  # nobody's run ends well: all stay due
        now += timedelta(seconds=2 * SWEEP_MARGIN_SECONDS)
        assert await swept("one") == ["of one"]
        assert await swept("two") == ["of two"]


def test_a_deployment_s_servers_have_one_list_of_threads() -> None:
    """A deployment's servers have one list of threads, and keep the names of its sweep."""
    assert langgraph_internals.thread_list(local_dev=False) == ""
    assert (namespaces.sweep(""), namespaces.due("")) == (("sweep",), ("due",))
