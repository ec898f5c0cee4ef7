"""The store on Postgres: what a namespace holds, many who write at once, servers that start at once, and wrong addresses."""

import asyncio
import secrets
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.postgres import AsyncPostgresStore

from lasting_memory.dev.server import ON_POSTGRES
from lasting_memory.people import identity
from lasting_memory.postgres.store import Checkpointer, _open, open_store
from lasting_memory.settings import Settings, SettingsError
from lasting_memory.testing import postgres
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.embedding import INDEX
from lasting_memory.validation import MAX_PATH_BYTES
from tests.journal import world

pytestmark = pytest.mark.postgres


def random_text(size: int) -> str:
    """Text of `size` bytes that is nothing but escapes in a label."""
    return "".join(chr(0x4E00 + secrets.randbelow(0x5000)) for _ in range(size // 3)) + "|" * (size % 3)


async def test_the_longest_namespace_with_the_longest_path_fits_an_index_entry(database: Settings) -> None:
    # Text that does not compress: Postgres compresses what it can before it says that an entry is too long.
    user = random_text(identity.MAX_IDENTITY_BYTES)
    person = identity.Actor(user, random_text(identity.MAX_IDENTITY_BYTES))
    identity.check_person(person)
    namespace = deployed(memory_scope="user+assistant").memory.namespace(person, str(uuid.uuid4()))
    path = "/" + secrets.token_urlsafe(MAX_PATH_BYTES)[: MAX_PATH_BYTES - 1]
    async with open_store(database, INDEX) as store:
        await store.aput(namespace, path, {**create_file_data("a dog")})
        assert await store.aget(namespace, path)


@pytest.mark.parametrize("worlds", [8, pytest.param(200, marks=pytest.mark.proof)])
async def test_writers_with_a_connection_each_lose_nothing(postgres_uri: str, worlds: int) -> None:
    """The journal's worlds, where batches of different writers really are on their way at once, and some writers die."""
    acknowledged = 0
    for seed in range(worlds):
        async with postgres.emptied(postgres_uri):
            pass
        found = await world.throw(
            seed, lambda: AsyncPostgresStore.from_conn_string(postgres_uri), tight=seed % 2 == 1, patience=0.003
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


def unreachable(port: int) -> str:
    return f"postgresql://user:hunter2%40hunter2@127.0.0.1:{port}/memory?connect_timeout=2"


async def test_a_wrong_address_is_named_and_its_password_is_not(postgres_uri: str, free_port: Callable[[], int]) -> None:
    port = free_port()
    for uri, told in {
        unreachable(port): f"port {port} failed",
        postgres_uri.replace(":@/postgres?", ":hunter2%40@/nothing?"): 'database "nothing" does not exist',
        "postgresql://user:hunter2%zz@127.0.0.1:1/db": "percent-encode",
        "postgresql://user@127.0.0.1:1/db?passwort=hunter2": "percent-encode",
    }.items():
        with pytest.raises(SettingsError) as caught:
            await open_store(Settings(memory_postgres_uri=uri)).__aenter__()
        assert told in str(caught.value)
        assert "hunter2" not in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.server
def test_a_server_with_a_wrong_address_stops_and_tells_no_password(tmp_path: Path, free_port: Callable[[], int]) -> None:
    env = {"MEMORY_POSTGRES_URI": unreachable(free_port()), "LOG_LEVEL": "DEBUG"}
    server = DevServer(tmp_path, env=env, config=ON_POSTGRES)
    with pytest.raises(RuntimeError, match="exited with"), server:
        pass
    assert "MEMORY_POSTGRES_URI names no Postgres" in server.log
    assert "hunter2" not in server.log
