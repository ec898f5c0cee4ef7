"""The sweep: who is due gets one run, whatever failed, moved or was deleted meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore

from memory import namespaces
from memory.consolidation.sweeping import SWEEP_MARGIN_SECONDS, sweep
from memory.identity import Actor
from settings import Settings
from testing.fake_platform import FakePlatform
from tests.memory.consolidation.turns import AFTER, begins, turn


async def consolidated(thread: dict[str, Any], store: BaseStore) -> None:
    """A run has read this conversation as it is now."""
    actor = Actor(thread["metadata"]["user_id"], thread["metadata"]["org_id"])
    position = {"message_id": "m", "updated_at": thread["updated_at"]}
    await store.aput(namespaces.positions(actor), thread["thread_id"], position)


async def swept(
    platform: FakePlatform,
    store: BaseStore,
    settings: Settings = Settings(),  # noqa: B008  # frozen
    page_size: int = 1_000,
) -> list[str]:
    """A sweep an hour after what was before; for whom it created runs. Those end badly unless a position says otherwise."""
    platform.now += timedelta(hours=1)
    platform.runs.clear()
    count = await sweep(settings, platform.client, store, platform.clock, page_size)
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
    assert [item.key for item in await store.asearch(namespaces.due(""))] == [platform.threads[1]["thread_id"]]


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


async def test_a_sweep_that_fails_is_made_up_for_by_the_next(platform: FakePlatform, store: BaseStore) -> None:
    await swept(platform, store)
    platform.talk("alice")
    platform.away = True
    with pytest.raises(httpx.ConnectError):
        await swept(platform, store)
    platform.away = False
    platform.now += timedelta(seconds=2 * SWEEP_MARGIN_SECONDS)
    assert await swept(platform, store) == ["alice"]


async def test_a_clock_that_was_once_ahead_hides_nobody_s_conversations(platform: FakePlatform, store: BaseStore) -> None:
    platform.now += timedelta(days=400)
    assert await swept(platform, store) == []
    platform.now -= timedelta(days=400)
    platform.talk("alice")
    platform.now += timedelta(hours=2)
    assert await swept(platform, store) == ["alice"]


async def test_a_conversation_that_was_deleted_is_not_due_any_more(platform: FakePlatform, store: BaseStore) -> None:
    thread = platform.talk("alice")
    assert await swept(platform, store) == ["alice"]
    platform.delete(thread)
    assert await swept(platform, store) == []
    assert await store.asearch(namespaces.due("")) == []


async def test_who_has_a_run_waiting_gets_no_other(platform: FakePlatform, store: BaseStore) -> None:
    platform.talk("alice")
    await turn(platform, store)
    await sweep(Settings(), platform.client, store, platform.clock)
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


async def test_a_sweep_reads_as_many_pages_as_there_is_activity_and_no_more(platform: FakePlatform, store: BaseStore) -> None:
    for number in range(100):
        await consolidated(platform.talk(f"user-{number}"), store)
    platform.now += timedelta(days=1)
    await swept(platform, store, page_size=20)
    assert platform.calls.pop("threads.search") == 6
    platform.now += timedelta(days=1)
    platform.talk("user-7", thread_id=platform.threads[7]["thread_id"])
    assert len(await swept(platform, store, page_size=20)) == 1
    assert platform.calls["threads.search"] == 1


class Deleting(FakePlatform):
    """A platform that deletes conversations after each of the first two pages of a listing."""

    async def _search(self, **options: Any) -> list[dict[str, Any]]:
        page = await super()._search(**options)
        if (pages := self.calls["threads.search"]) in {1, 2}:
            for thread in list(self.threads[: 2 * pages]):
                self.delete(thread)
        return page


async def test_deletions_during_a_sweep_hide_nobody(store: BaseStore) -> None:
    platform = Deleting()
    for number in range(60):
        platform.talk(f"user-{number}")
    people = set(await swept(platform, store, page_size=20))
    assert {thread["metadata"]["user_id"] for thread in platform.threads} <= people
