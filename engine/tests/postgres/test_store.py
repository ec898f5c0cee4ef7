"""The store on Postgres: what fits, many who write, index or start at once, meaning, wrong
addresses.
"""

import asyncio
import multiprocessing
import secrets
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.store.base import BaseStore, GetOp, Op, PutOp, SearchOp
from langgraph.store.postgres import AsyncPostgresStore
from psycopg_pool import AsyncConnectionPool

from lasting_memory.dev.configuration import ON_POSTGRES
from lasting_memory.memory.validation import MAX_PATH_BYTES
from lasting_memory.people import identity
from lasting_memory.postgres.store import (
    _SETUP_LOCK,
    EMBEDDINGS_AT_ONCE,
    Checkpointer,
    _open,
    open_store,
)
from lasting_memory.recall import index as segments
from lasting_memory.recall.threads import conversation
from lasting_memory.settings import Settings, SettingsError
from lasting_memory.testing import stores
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.stores import INDEX
from tests.conftest import free_port
from tests.journal import world
from tests.recall.talks import ALICE, conversations, hits, many, say

pytestmark = pytest.mark.postgres


@pytest.fixture
def database(postgres_uri: str) -> Iterator[Settings]:
    """Settings with an empty database of this test's own."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield Settings(memory_postgres_uri=postgres_uri.replace("/postgres?", f"/{name}?"))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def random_text(size: int) -> str:
    """Text of `size` bytes that is nothing but escapes in a label."""
    return "".join(chr(0x4E00 + secrets.randbelow(0x5000)) for _ in range(size // 3)) + "|" * (
        size % 3
    )


async def test_the_longest_namespace_with_the_longest_path_fits_an_index_entry(
    database: Settings,
) -> None:
    # Text that does not compress: Postgres compresses what it can before it says that an entry is
    # too long.
    user = random_text(identity.MAX_IDENTITY_BYTES)
    person = identity.Actor(user, random_text(identity.MAX_IDENTITY_BYTES))
    identity.check_person(person)
    namespace = deployed(memory_scope="user+assistant").memory.namespace(person, str(uuid.uuid4()))
    path = "/" + secrets.token_urlsafe(MAX_PATH_BYTES)[: MAX_PATH_BYTES - 1]
    async with open_store(database, INDEX) as store:
        await store.aput(namespace, path, {**create_file_data("a dog")})
        assert await store.aget(namespace, path)


@pytest.mark.proof
@pytest.mark.parametrize("worlds", [8, pytest.param(200, marks=pytest.mark.proof)])
async def test_writers_with_a_connection_each_lose_nothing(postgres_uri: str, worlds: int) -> None:
    """The journal's worlds, where batches of different writers really are on their way at once, and
    some writers die.
    """
    acknowledged = 0
    for seed in range(worlds):
        async with stores.emptied(postgres_uri):
            pass
        found = await world.throw(
            seed,
            lambda: AsyncPostgresStore.from_conn_string(postgres_uri),
            tight=seed % 2 == 1,
            patience=0.003,
        )
        acknowledged += found.acknowledged
    assert acknowledged > 5 * worlds


async def test_servers_that_start_at_once_all_find_their_tables(database: Settings) -> None:
    async def start() -> None:
        async with open_store(database, INDEX) as store, _open(database, Checkpointer):
            await store.aput(("a",), str(uuid.uuid4()), {})

    await asyncio.gather(*(start() for _ in range(6)))
    async with open_store(database) as store:
        assert len(await store.asearch(("a",), limit=10)) == 6


async def test_a_session_keeps_nothing_between_transactions(database: Settings) -> None:
    """A pooler in transaction mode gives a session's next transaction to another one, and the
    session to others.
    """
    kept = """SELECT (SELECT count(*) FROM pg_prepared_statements) AS statements,
        (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory') AS locks"""
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    async with open_store(database, INDEX) as store, _open(database, Checkpointer) as checkpointer:
        for number in range(20):
            await store.aput(("a",), "/a.md", {"content": f"text {number}"})
            await store.asearch(("a",), query="text", limit=10)
            await checkpointer.aput(config, {**empty_checkpoint()}, {}, {})
            assert await checkpointer.aget_tuple(config)
        for pool in (store.conn, checkpointer.conn):
            async with cast("AsyncConnectionPool[Any]", pool).connection() as connection:
                assert await (await connection.execute(kept)).fetchone() == {
                    "statements": 0,
                    "locks": 0,
                }


async def test_a_server_that_waits_too_long_for_another_s_tables_says_for_what(
    database: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await psycopg.AsyncConnection.connect(str(database.memory_postgres_uri)) as other:
        await other.execute("SELECT pg_advisory_xact_lock(%s)", (_SETUP_LOCK,))
        with monkeypatch.context() as impatient:
            impatient.setattr("lasting_memory.postgres.store._SETUP_SECONDS", 0.2)
            with pytest.raises(
                SettingsError,
                match=r"^MEMORY_POSTGRES_URI: another server has been creating tables .*lock\.$",
            ):
                await open_store(database).__aenter__()
    async with open_store(database) as store:
        await store.aput(("a",), "/a.md", {})


def unreachable(port: int) -> str:
    return f"postgresql://user:hunter2%40hunter2@127.0.0.1:{port}/memory?connect_timeout=2"


async def test_a_wrong_address_is_named_and_its_password_is_not(postgres_uri: str) -> None:
    port = free_port()
    for uri, told in {
        unreachable(port): f"port {port} failed",
        postgres_uri.replace(
            ":@/postgres?", ":hunter2%40@/nothing?"
        ): 'database "nothing" does not exist',
        "postgresql://user:hunter2%zz@127.0.0.1:1/db": "percent-encode",
        "postgresql://user@127.0.0.1:1/db?passwort=hunter2": "percent-encode",
    }.items():
        with pytest.raises(SettingsError) as caught:
            await open_store(Settings(memory_postgres_uri=uri)).__aenter__()
        assert told in str(caught.value)
        assert "hunter2" not in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.server
def test_a_server_with_a_wrong_address_stops_and_tells_no_password(tmp_path: Path) -> None:
    env = {"MEMORY_POSTGRES_URI": unreachable(free_port()), "LOG_LEVEL": "DEBUG"}
    server = DevServer(tmp_path, env=env, config=ON_POSTGRES)
    with pytest.raises(RuntimeError, match="exited with"), server:
        pass
    assert "MEMORY_POSTGRES_URI names no Postgres" in server.log
    assert "hunter2" not in server.log


PROCESSES = multiprocessing.get_context("forkserver")


def index(uri: str, start: int) -> None:
    asyncio.run(_index(uri, start))


async def _index(uri: str, start: int) -> None:
    threads = Platform()
    many(threads, 100, start=start)
    async with stores.opened(uri) as store:
        for thread in threads.kept.values():
            await segments.index_conversations(store, ALICE, [conversation(thread)])


@pytest.mark.proof
@pytest.mark.parametrize("store", ["postgres"], indirect=True)
async def test_two_processes_that_index_at_once_lose_nothing(
    store: BaseStore, postgres_uri: str
) -> None:
    running = [
        PROCESSES.Process(target=index, args=(postgres_uri, start)) for start in (0, 60)
    ]  # 40 are indexed by both
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


async def test_meaning_is_asked_on_postgres_too_whatever_is_in_the_text(
    threads: Platform, database: Settings
) -> None:
    say(threads, "odd", "bread \0 \ud800", days=0)
    async with open_store(database, INDEX) as store:
        assert (await hits(store, threads, "vehicle"))[0] == "car"
        assert (await hits(store, threads, "baking"))[0] == "odd"


class SlowEmbedding:
    """Embeds what says "slow" once it may; counts how many calls wait, and the connections that are
    in use meanwhile.
    """

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.waiting = 0
        self.most_waiting = 0

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        if any("slow" in text for text in texts):
            self.waiting += 1
            self.most_waiting = max(self.most_waiting, self.waiting)
            await self.may.wait()
            self.waiting -= 1
        return stores.embed(texts)


async def carried_out(store: BaseStore, *ops: Op) -> Any:
    """The results of one batch."""
    return await store.abatch(ops)


async def test_a_person_who_embeds_slowly_holds_no_connection_and_stops_nobody(
    database: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lasting_memory.postgres.store._CONNECTIONS", 2)
    embedding = SlowEmbedding()
    alice, bob = ("memories", "acme:alice"), ("memories", "acme:bob")
    async with (
        open_store(database, cast("Any", {**INDEX, "embed": embedding})) as store,
        asyncio.timeout(300),
    ):
        await carried_out(
            store,
            PutOp(alice, "/dog.md", {"content": "a dog"}),
            PutOp(bob, "/car.md", {"content": "a car"}),
        )
        searches = [
            asyncio.create_task(carried_out(store, SearchOp(alice, query=f"slow puppy {n}")))
            for n in range(30)
        ]
        put = asyncio.create_task(
            carried_out(store, PutOp(alice, "/slow.md", {"content": "slow bread"}))
        )
        while embedding.waiting < EMBEDDINGS_AT_ONCE:  # noqa: ASYNC110  # of the tasks above
            await asyncio.sleep(0)
        pool = cast("AsyncConnectionPool[Any]", store.conn)
        # One that was used may be on its way back.
        while pool.get_stats()["pool_available"] < pool.get_stats()["pool_size"]:  # noqa: ASYNC110  # it sets no event
            await asyncio.sleep(0.01)
        for _ in range(10):
            ((found,),) = await carried_out(store, SearchOp(bob, query="vehicle", limit=1))
            assert found.key == "/car.md"
            await carried_out(
                store, PutOp(bob, "/new.md", {"content": "a puppy"}), GetOp(alice, "/dog.md")
            )
            await carried_out(
                store, PutOp(alice, "/plain.md", {"content": "not embedded"}, index=False)
            )
        assert not any(task.done() for task in searches)
        assert embedding.most_waiting == EMBEDDINGS_AT_ONCE, "a person's others wait in turn"
        embedding.may.set()
        for (results,) in await asyncio.gather(*searches):
            assert results[0].key == "/dog.md"
            assert results[0].score is not None
        await put
        ((bread,),) = await carried_out(store, SearchOp(alice, query="oven", limit=1))
        assert bread.key == "/slow.md"


async def test_a_batch_of_everything_is_embedded_as_the_library_does(database: Settings) -> None:
    place = ("memories", "acme:alice")
    value = {"content": "a dog", "parts": [{"text": "bread"}, {"text": "oven"}]}
    ops: list[Op] = [
        PutOp(place, "/default.md", value),
        PutOp(place, "/parts.md", value, index=["parts[*].text", "content"]),
        PutOp(place, "/none.md", value, index=False),
        PutOp(place, "/gone.md", None),
        GetOp(place, "/default.md"),
        SearchOp(("memories",), query="baking"),
        SearchOp(place),
    ]
    for fields in (["content"], None):
        index: Any = (
            {**INDEX, "fields": fields}
            if fields
            else {name: of for name, of in INDEX.items() if name != "fields"}
        )
        async with open_store(database, index) as store:
            await carried_out(store, *ops)
            (found,) = await carried_out(store, SearchOp(place, query="baking", limit=9))
            assert {item.key for item in found} == {"/default.md", "/parts.md"}
            assert not fields or found[0].key == "/parts.md"


async def test_an_embedding_that_fails_fails_its_batch_alone_and_puts_nothing(
    database: Settings,
) -> None:
    async def broken(texts: Sequence[str]) -> list[list[float]]:
        if "broken" in texts:
            raise OSError("the provider is away")
        return stores.embed(texts)

    place = ("memories", "acme:alice")
    async with open_store(database, cast("Any", {**INDEX, "embed": broken})) as store:
        with pytest.raises(OSError, match="away"):
            await carried_out(
                store,
                PutOp(place, "/a.md", {"content": "broken"}),
                PutOp(place, "/b.md", {}, index=False),
            )
        assert await carried_out(store, GetOp(place, "/a.md"), GetOp(place, "/b.md")) == [
            None,
            None,
        ]
        await carried_out(store, PutOp(place, "/a.md", {"content": "a dog"}))
