"""The platform's internal names, in one place for all code that serves requests.

The server tests of tests/api/test_api.py and tests/postgres/test_servers.py fail when one moves. (`memory/postgres/store.py`,
which only `langgraph.postgres.json` loads, has two more.)
"""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config
from langgraph.store.base import BaseStore, Item
from langgraph.store.base.batch import AsyncBatchedBaseStore
from langgraph_sdk.client import LangGraphClient
from starlette.requests import Request

logger = logging.getLogger("memory")

_IDS = 1_000
# On `langgraph dev` how many runs go on in each thread, by its id.
_GOING: Counter[str] | None = None


async def delete_checkpoints(client: LangGraphClient, user_id: str, org_id: str) -> int:
    """Delete a person's conversations of which only checkpoints are left. Returns their number.

    A killed development server may have lost threads from its list. Deployments keep both in one database.
    """
    from langgraph_api._checkpointer import get_checkpointer  # type: ignore[import-untyped]  # noqa: PLC0415  # as below

    checkpointer = await get_checkpointer()
    if delete := getattr(checkpointer, "adelete_for_person", None):
        return int(await delete(user_id, org_id))
    in_memory, deleted = list(getattr(checkpointer, "storage", ())), 0
    for start in range(0, len(in_memory), _IDS):
        ids = in_memory[start : start + _IDS]
        listed = await client.threads.search(ids=ids, limit=_IDS, select=["thread_id"])
        for thread_id in set(ids) - {thread["thread_id"] for thread in listed}:
            saved = await checkpointer.aget_tuple({"configurable": {"thread_id": thread_id}})
            if saved and (saved.metadata.get("user_id"), saved.metadata.get("org_id")) == (user_id, org_id):
                await checkpointer.adelete_thread(thread_id)
                deleted += 1
    return deleted


async def store() -> BaseStore:
    """The runs' store, in a custom route. `langgraph.config.get_store()` gave an empty one there."""
    from langgraph_api.store import get_store  # type: ignore[import-untyped]  # noqa: PLC0415  # only on a server

    runs_store: BaseStore = await get_store()
    return runs_store


def has_index(store: BaseStore) -> bool:
    """Whether the store ranks by meaning. The platform's does not say so itself, but its configuration does."""
    if hasattr(store, "index_config"):
        return bool(store.index_config)
    config = sys.modules.get("langgraph_api.config")  # only on a server
    return bool(config and (config.STORE_CONFIG or {}).get("index"))


def thread_list(*, local_dev: bool) -> str:
    """The name of this server's list of threads; empty for the platform's, which all servers of a store share.

    `langgraph dev` keeps its own list in files of its working folder, even if other servers use the same Postgres store. The
    name, an id, is a file beside them, and lives as long as they do. Reads and writes that file.
    """
    if not local_dev:
        return ""
    path = Path(".langgraph_api") / "thread_list"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(uuid4()), "utf-8")
    return path.read_text("utf-8")


def acting_as_caller(request: Request) -> AbstractAsyncContextManager[None]:
    """Within this context, in-process clients act as the request's user for the handlers of `auth.py`; otherwise as nobody."""
    from langgraph_api.utils import with_user  # type: ignore[import-untyped]  # noqa: PLC0415  # as above

    entered: AbstractAsyncContextManager[None] = with_user(request.user, request.auth)
    return entered


@cache
def delete_threads_one_by_one() -> None:
    """Have `langgraph dev` delete one thread at a time, from now on.

    It looks up a thread's position in its list, waits for the checkpointer, and deletes the thread then in that position.
    With two deletions at once (of stateless runs' threads, too), that may be another person's thread.
    """
    from langgraph_runtime.ops import Threads  # type: ignore[import-untyped]  # noqa: PLC0415  # as above

    delete, turn = Threads.delete, asyncio.Lock()

    async def deleted(*args: Any, **named: Any) -> Any:
        async with turn:
            return await delete(*args, **named)

    Threads.delete = staticmethod(deleted)


@cache
def isolate_store_calls() -> None:
    """Have a store carry out each call by itself, from now on.

    langgraph's stores collect the calls that all people make at one time, and carry them out as one batch. If a call fails, the
    batch does: everybody gets its error, which may quote a text of its person's.
    """
    for name in ("aget", "asearch", "aput", "adelete", "alist_namespaces"):
        setattr(AsyncBatchedBaseStore, name, getattr(BaseStore, name))


@cache
def log_no_queries() -> None:
    """Have the server's log name requests without their query strings, from now on.

    A query has what a person searched for, and an operator's has whom it is about.
    """

    def without_query(record: logging.LogRecord) -> bool:
        if isinstance(record.msg, dict) and "query_string" in record.msg:  # as structlog gives it
            record.msg = {**record.msg, "query_string": ""}
        return True

    for handler in logging.getLogger().handlers:
        handler.addFilter(without_query)


@cache
def read_any_value() -> None:
    """Have stores give a value that is no JSON object as `{"damaged": value}`, from now on.

    langgraph says that every value is an object, and nothing makes it so: with SQL, or another store's writer, it is any JSON.
    """
    made = Item.__init__

    def make(item: Item, *, value: Any, **named: Any) -> None:
        made(item, value=value if isinstance(value, dict) else {"damaged": value}, **named)

    Item.__init__ = make  # type: ignore[assignment,method-assign]


@cache
def deliver_cancels() -> None:
    """Have `langgraph dev` stop the runs that a request cancels, from now on.

    It calls runs cancelled by status or assistant interrupted, but sends the message that stops them to no thread, so no run
    receives it: they went on, wrote, and kept their worker. And if nobody streams a run that is rolled back, it deletes the run
    at once, as if it had not begun; its thread stayed busy for ever. A run that has begun waits for that message on a queue,
    but for 240 seconds only: an older one could not be stopped.
    """
    from langgraph_runtime_inmem import ops  # type: ignore[import-untyped]  # noqa: PLC0415  # as above
    from langgraph_runtime_inmem.inmem_stream import StreamManager  # type: ignore[import-untyped]  # noqa: PLC0415  # as above

    put, queues = StreamManager.put, StreamManager.get_control_queues
    listen, enter = ops.listen_for_cancellation, ops.Runs.enter
    global _GOING  # noqa: PLW0603  # None off `langgraph dev`
    going = _GOING = Counter()

    def thread_of(manager: Any, run_id: Any) -> Any:
        return next((thread for thread, runs in manager.control_queues.items() if runs.get(UUID(str(run_id)))), None)

    async def put_to_thread(manager: Any, run_id: Any, thread_id: Any, *args: Any, **named: Any) -> None:
        await put(manager, run_id, thread_id or thread_of(manager, run_id), *args, **named)

    def queues_of(manager: Any, run_id: Any, thread_id: Any) -> Any:
        return queues(manager, run_id, thread_id or thread_of(manager, run_id))

    async def listen_to_the_end(queue: Any, run_id: Any, thread_id: Any, done: Any) -> None:
        while not done.is_set():
            await listen(queue, run_id, thread_id, done)

    @asynccontextmanager
    async def enter_noted(run_id: Any, thread_id: Any, *args: Any) -> AsyncIterator[Any]:
        going[str(thread_id)] += 1
        try:
            async with enter(run_id, thread_id, *args) as done:
                yield done
        finally:
            going[str(thread_id)] -= 1

    StreamManager.put, StreamManager.get_queues = put_to_thread, queues_of
    ops.listen_for_cancellation, ops.Runs.enter = listen_to_the_end, staticmethod(enter_noted)


def threads_going(thread_ids: Collection[str], busy: Collection[str]) -> set[str]:
    """Those of the threads in which a run goes on; `busy` are the platform's busy ones.

    `langgraph dev` calls a thread idle whose cancelled run goes on, and after a kill one busy in which none does.
    """
    return set(busy) if _GOING is None else {thread_id for thread_id in {*thread_ids, *busy} if _GOING[thread_id] > 0}


@cache
def save_conversations() -> None:
    """Have `langgraph dev` keep in its files what was said, and nothing that was deleted, from now on.

    It left a deleted thread's messages. What reads a thread's state took over the files, so that nobody's conversations were
    saved any more. So it was once a flush had found no conversation, or had failed, as on a full disk.
    """
    from langgraph.checkpoint.memory import PersistentDict  # noqa: PLC0415  # as above
    from langgraph_api import config  # type: ignore[import-untyped]  # noqa: PLC0415  # as above
    from langgraph_runtime_inmem import checkpoint, ops  # noqa: PLC0415  # as above

    delete, create = ops._delete_checkpoints_for_thread, checkpoint.InMemorySaver.__init__  # noqa: SLF001
    persistent: Any = PersistentDict
    sync = persistent.sync
    folder, failed = Path.cwd(), set[str]()

    async def delete_all(thread_id: Any, conn: Any, run_id: Any = None) -> None:
        if run_id or config.USE_CUSTOM_CHECKPOINTER:
            await delete(thread_id, conn, run_id)
        else:
            checkpoint.Checkpointer().delete_thread(str(thread_id))

    def create_one_with_files(saver: Any, *args: Any, **named: Any) -> None:
        checkpoint.DISABLE_FILE_PERSISTENCE |= checkpoint.MEMORY is not None
        create(saver, *args, **named)

    def sync_or_log(items: Any) -> None:
        path = str(folder / items.filename)
        try:
            sync(items)
        except Exception as error:  # whatever it is, the next flush tries again
            if path not in failed:
                logger.exception("%s could not be saved: %r. Make room there; it is tried every 10 seconds.", path, error)  # noqa: TRY401
            failed.add(path)
        else:
            if path in failed:
                logger.warning("%s is saved again.", path)
            failed.discard(path)

    ops._delete_checkpoints_for_thread, persistent.sync = delete_all, sync_or_log  # noqa: SLF001
    persistent.__bool__ = lambda _: True  # the flush drops what is false: an empty one
    checkpoint.InMemorySaver.__init__ = create_one_with_files


@cache
def delete_runs_with_their_thread() -> None:
    """Have `langgraph dev` delete a run's checkpoints only if it is a run of the given thread, and in that thread, from now on.

    It deletes before it looks, and tells a checkpointer of one's own the run's id alone. So `DELETE /threads/<own>/runs/<run>`
    with another's run answered 404, and emptied the other's conversation; and a copy has the same runs in its history.
    """
    from langgraph_api._checkpointer import get_checkpointer  # noqa: PLC0415  # as above
    from langgraph_runtime_inmem import ops  # noqa: PLC0415  # as above

    delete = ops._delete_checkpoints_for_thread  # noqa: SLF001  # what requests and rollbacks call

    async def deleted(thread_id: Any, conn: Any, run_id: Any = None) -> None:
        if run_id is None:
            await delete(thread_id, conn)
        elif any((str(run["thread_id"]), str(run["run_id"])) == (str(thread_id), str(run_id)) for run in conn.store["runs"]):
            checkpointer = await get_checkpointer()
            if delete_run := getattr(checkpointer, "adelete_run", None):
                await delete_run(str(thread_id), str(run_id))
            else:
                await delete(thread_id, conn, run_id)

    ops._delete_checkpoints_for_thread = deleted  # noqa: SLF001


async def drop_checkpoints() -> None:
    """Delete the checkpoints of earlier runs of the thread that this is called in. The current run's last one will stay.

    For runs with `durability="exit"`, which have put none yet, and of threads whose messages nobody reads: langgraph keeps
    messages as changes to earlier checkpoints, so that the thread's state shows none afterwards.
    """
    configurable = get_config().get("configurable", {})
    saver = configurable.get("__pregel_checkpointer")
    if isinstance(saver, BaseCheckpointSaver):
        await saver.adelete_thread(str(configurable["thread_id"]))
