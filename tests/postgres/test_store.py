"""The store on Postgres: what a namespace holds, servers that start at once, search by meaning."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
import psycopg.sql
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.postgres import AsyncPostgresStore

from environment import SettingsError
from memory import identity, namespaces
from memory.postgres.store import open_checkpointer, open_store
from settings import MAX_PATH_BYTES, Settings
from testing.dev_server import DevServer, dev_token
from testing.embedding import SUBJECTS, embed
from testing.parts import ON_POSTGRES
from testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import model_env

pytestmark = pytest.mark.postgres

INDEX: Any = {"dims": len(SUBJECTS), "embed": embed, "fields": ["content"]}
NAMESPACES = [("a",), ("ab",), ("a_b",), ("a%b",), ("a", "b"), ("a\\b",)]
IDENTITIES = {
    "plain": "alice",
    "e-mail": "alice@example.com",
    "wildcards": "a_b%c*d?e",
    "auth0": "auth0|42",
    "spaces": " a b\n",
    "emoji": "👩‍🚀",
    "quotes": "Robert'); DROP TABLE store;--",
    "longest": "é" * (identity.MAX_IDENTITY_BYTES // 2),
}


@pytest.fixture
def database(postgres_uri: str) -> Iterator[Settings]:
    """Settings with an empty database of this test's own."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield Settings(memory_postgres_uri=postgres_uri.replace("/postgres?", f"/{name}?"))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
async def pg(database: Settings) -> AsyncIterator[AsyncPostgresStore]:
    """The store as the platform gets it."""
    async with open_store(database) as store:
        yield store


def random_text(size: int) -> str:
    """Text of `size` bytes that is nothing but escapes in a label."""
    return "".join(chr(0x4E00 + secrets.randbelow(0x5000)) for _ in range(size // 3)) + "|" * (size % 3)


# --- What a namespace holds ------------------------------------------------------------------------------------------


async def test_a_search_finds_what_is_in_the_namespace_and_below_and_no_neighbour(pg: AsyncPostgresStore) -> None:
    for namespace in NAMESPACES:
        await pg.aput(namespace, "/k", {"of": list(namespace)})
    for prefix in NAMESPACES:
        listed = {item.namespace for item in await pg.asearch(prefix, limit=100)}
        assert listed == {namespace for namespace in NAMESPACES if namespace[: len(prefix)] == prefix}
        item = await pg.aget(prefix, "/k")
        assert item
        assert item.value == {"of": list(prefix)}


async def test_deleting_from_one_namespace_leaves_its_neighbours(pg: AsyncPostgresStore) -> None:
    for namespace in NAMESPACES:
        await pg.aput(namespace, "/k", {})
    await pg.adelete(("a_b",), "/k")
    left = {item.namespace for item in await pg.asearch((), limit=100)}
    assert left == {*NAMESPACES} - {("a_b",)}


async def test_identities_of_every_shape_keep_their_own_memory(pg: AsyncPostgresStore) -> None:
    people = {
        (org, user): namespaces.memories(identity.Actor(user, org), "", Settings())
        for org, user in itertools.product(IDENTITIES.values(), repeat=2)
    }
    await asyncio.gather(*(pg.aput(namespace, "/a.md", {"of": list(who)}) for who, namespace in people.items()))
    for who, namespace in people.items():
        assert [item.value for item in await pg.asearch(namespace, limit=10)] == [{"of": list(who)}]


@pytest.mark.parametrize("indexed", [False, True])
async def test_the_longest_namespace_with_the_longest_path_fits_an_index_entry(database: Settings, indexed: bool) -> None:
    # Text that does not compress: Postgres compresses what it can before it says that an entry is too long.
    user = random_text(identity.MAX_IDENTITY_BYTES)
    person = identity.Actor(user, random_text(identity.MAX_IDENTITY_BYTES))
    identity.check_person(person)
    namespace = namespaces.memories(person, str(uuid.uuid4()), Settings(memory_scope="user+assistant"))
    path = "/" + secrets.token_urlsafe(MAX_PATH_BYTES)[: MAX_PATH_BYTES - 1]
    async with open_store(database, INDEX if indexed else None) as store:
        await store.aput(namespace, path, {**create_file_data("a dog")})
        assert await store.aget(namespace, path)


# --- What lasts, and what others see ---------------------------------------------------------------------------------


async def test_servers_that_start_at_once_all_find_their_tables(database: Settings) -> None:
    async def start() -> None:
        async with open_store(database, INDEX) as store, open_checkpointer(database):
            await store.aput(("a",), str(uuid.uuid4()), {})

    await asyncio.gather(*(start() for _ in range(6)))
    async with open_store(database) as store:
        assert len(await store.asearch(("a",), limit=10)) == 6


async def test_a_connection_that_was_cut_is_replaced(database: Settings) -> None:
    async with open_store(database) as store:
        await store.aput(("a",), "/k", {"x": 1})
        assert database.memory_postgres_uri
        with psycopg.connect(database.memory_postgres_uri, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert await store.aget(("a",), "/k")


@pytest.mark.server
def test_a_postgres_that_only_reads_is_away_until_it_writes_again(
    database: Settings, model: ScriptedAnthropic, alice: str
) -> None:
    """As after a failover: writes are told so as in an outage, and the server needs no restart once Postgres writes again."""
    uri = str(database.memory_postgres_uri)

    def only_reads(*, on: bool) -> None:
        with psycopg.connect(uri, autocommit=True, options="-c default_transaction_read_only=off") as other:
            name = psycopg.sql.Identifier(other.info.dbname)
            change = "SET default_transaction_read_only = on" if on else "RESET default_transaction_read_only"
            other.execute(psycopg.sql.SQL("ALTER DATABASE {} " + change).format(name))
            if on:  # the sessions that begin now are never told of the way back
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

    headers = {"Authorization": f"Bearer {dev_token('acme', alice)}"}
    with TemporaryDirectory() as folder:
        env = {**model_env(model), "MEMORY_POSTGRES_URI": uri}
        server = DevServer(Path(folder), env=env, config=ON_POSTGRES)
        with server, httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60) as http:
            thread = http.post("/threads", json={}).json()["thread_id"]
            turn = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hello"}]}}

            def write(text: str) -> httpx.Response:
                return http.put("/memory/file", params={"path": "/memories/a.md"}, json={"content": text})

            assert write("before").status_code == 200
            only_reads(on=True)
            told, deadline = list[httpx.Response](), time.monotonic() + 30
            while len(told) < 12 and time.monotonic() < deadline:
                told.append(write("meanwhile"))
                told.append(http.delete("/memory"))
            assert {answer.status_code for answer in told} == {503}, [answer.text for answer in told]
            assert {answer.headers.get("retry-after") for answer in told} == {"1"}
            assert all("Postgres" in answer.text for answer in told)
            ended = http.post(f"/threads/{thread}/runs/wait", json=turn)
            assert ended.status_code == 503 or "__error__" in ended.json(), ended.text
            only_reads(on=False)
            while (answer := write("after")).status_code != 200:
                assert time.monotonic() < deadline + 30, answer.text
                time.sleep(0.2)
            assert http.get("/memory/file", params={"path": "/memories/a.md"}).json()["content"] == "after"
            assert http.post(f"/threads/{thread}/runs/wait", json=turn).json()["messages"][-1]["content"] == "ok"


# --- Semantic search -------------------------------------------------------------------------------------------------


async def test_search_by_meaning_ranks_with_pgvector(database: Settings) -> None:
    async with open_store(database, INDEX) as store:
        await store.aput(("a",), "/dog.md", {"content": "Has a puppy."})
        await store.aput(("a",), "/car.md", {"content": "Sold the vehicle."})
        items = await store.asearch(("a",), query="any pet?")
    assert [item.key for item in items] == ["/dog.md", "/car.md"]
    assert (items[0].score or 0) > (items[1].score or 0)


async def test_vectors_that_pgvector_indexes_at_half_precision_only_are_indexed_so(database: Settings) -> None:
    async def far(texts: list[str]) -> list[list[float]]:
        return [[*embed([text])[0], *[0.0] * 2_997] for text in texts]

    index: Any = {**INDEX, "dims": 3_000, "embed": far}
    async with open_store(database, index) as store:
        await store.aput(("a",), "/dog.md", {"content": "Has a puppy."})
        assert [item.key for item in await store.asearch(("a",), query="any pet?")] == ["/dog.md"]


async def test_vectors_of_another_length_stop_the_start_and_say_what_to_do(database: Settings) -> None:
    async with open_store(database, INDEX):
        pass
    longer: Any = {**INDEX, "dims": 4}
    with pytest.raises(SettingsError, match=r"has 4 dims, and the vectors in Postgres 3; .*DROP TABLE"):
        await open_store(database, longer).__aenter__()


async def test_a_socket_may_be_written_as_a_host_or_as_a_parameter(postgres_uri: str) -> None:
    folder = postgres_uri.partition("?host=")[2]
    async with open_store(Settings(memory_postgres_uri=f"postgresql://postgres@{quote(folder, '')}/postgres")) as store:
        assert await store.aget(("a",), "/not there") is None


async def test_an_index_added_later_searches_what_is_written_from_then_on(database: Settings) -> None:
    async with open_store(database) as store:
        await store.aput(("a",), "/old.md", {"content": "Has a puppy."})
    async with open_store(database, INDEX) as store:
        await store.aput(("a",), "/new.md", {"content": "Has a dog."})
        assert [item.key for item in await store.asearch(("a",), query="pet")] == ["/new.md"]
        assert len(await store.asearch(("a",))) == 2
