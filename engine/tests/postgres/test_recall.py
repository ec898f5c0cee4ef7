"""The index of past conversations on Postgres: two processes that write it, and meaning."""

import asyncio
import multiprocessing

import pytest
from langgraph.store.base import BaseStore

from lasting_memory.postgres.store import open_store
from lasting_memory.recall import index as segments
from lasting_memory.recall.conversations import conversation
from lasting_memory.settings import Settings
from lasting_memory.testing import postgres
from lasting_memory.testing.embedding import INDEX
from lasting_memory.testing.platform import Platform
from tests.recall.talks import ALICE, conversations, hits, many, say

pytestmark = pytest.mark.postgres
PROCESSES = multiprocessing.get_context("forkserver")


def index(uri: str, start: int) -> None:
    asyncio.run(_index(uri, start))


async def _index(uri: str, start: int) -> None:
    threads = Platform()
    many(threads, 100, start=start)
    async with postgres.opened(uri) as store:
        for thread in threads.kept.values():
            await segments.index_conversations(store, ALICE, [conversation(thread)])


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
async def test_two_processes_that_index_at_once_lose_nothing(store: BaseStore, postgres_uri: str) -> None:
    running = [PROCESSES.Process(target=index, args=(postgres_uri, start)) for start in (0, 60)]  # 40 are indexed by both
    for process in running:
        process.start()
    for process in running:
        await asyncio.to_thread(process.join)
    assert [process.exitcode for process in running] == [0, 0]
    threads = Platform()
    many(threads, 160)
    whole = await segments.load(store, ALICE)
    assert conversations(whole) == 160
    for number in (0, 59, 75, 99, 159):
        assert await hits(store, threads, f"word{number}") == [f"t{number}"]
    assert threads.messages == 10  # of the threads shown: none was read to be indexed again


async def test_meaning_is_asked_on_postgres_too_whatever_is_in_the_text(threads: Platform, database: Settings) -> None:
    say(threads, "odd", "bread \0 \ud800", days=0)
    async with open_store(database, INDEX) as store:
        assert (await hits(store, threads, "vehicle"))[0] == "car"
        assert (await hits(store, threads, "baking"))[0] == "odd"
