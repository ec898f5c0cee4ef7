"""The index of past conversations on Postgres: two processes that write it, and meaning."""

import asyncio
import sys
from pathlib import Path

import psycopg
import pytest
from langgraph.store.base import BaseStore

from lasting_memory.postgres.store import open_store
from lasting_memory.recall import index as segments
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.embedding import SUBJECTS, embed
from lasting_memory.testing.platform import Platform
from tests.recall.talks import ALICE, conversations, hits, many, say

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.postgres

INDEXER = """
import asyncio, sys
from lasting_memory.recall import index as recall
from lasting_memory.postgres.store import open_store
from lasting_memory.recall.conversations import conversation
from lasting_memory.testing.deployed import deployed
from tests.recall.talks import ALICE, many
from lasting_memory.testing.platform import Platform

async def main(uri, start):
    threads = Platform()
    many(threads, 100, start=int(start))
    async with open_store(deployed(memory_postgres_uri=uri).settings) as store:
        for thread in threads.kept.values():
            await recall.index_conversations(store, ALICE, [conversation(thread)])

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
async def test_two_processes_that_index_at_once_lose_nothing(store: BaseStore, postgres_uri: str) -> None:
    starts = ("0", "60")  # 40 of them are indexed by both
    running = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", INDEXER, postgres_uri, start, cwd=TESTS.parent)
        for start in starts
    ]
    assert [await process.wait() for process in running] == [0, 0]
    threads = Platform()
    many(threads, 160)
    index = await segments.load(store, ALICE)
    assert conversations(index) == 160
    assert any(len(part.table) > 1 for part in index.parts)
    threads.messages = 0
    for number in (0, 59, 75, 99, 159):
        assert await hits(store, threads, f"word{number}") == [f"t{number}"]
    assert threads.messages == 10  # of the threads shown: none was read to be indexed again


async def test_meaning_is_asked_on_postgres_too_whatever_is_in_the_text(threads: Platform, postgres_uri: str) -> None:
    uri = postgres_uri.replace("/postgres?", "/recall?")
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute("CREATE DATABASE recall")
    say(threads, "odd", "bread \0 \ud800", days=0)
    async with open_store(
        deployed(memory_postgres_uri=uri).settings, {"embed": embed, "dims": len(SUBJECTS), "fields": ["x"]}
    ) as store:
        assert (await hits(store, threads, "vehicle"))[0] == "car"
        assert (await hits(store, threads, "baking"))[0] == "odd"
