"""Corrections of the platform's in-memory runtime, which `langgraph dev` runs on: the worst of what it does with people's data.

`build_http` applies them where that runtime serves; nothing else may import this. Tests fail where a name has moved.
"""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from langgraph.checkpoint.memory import PersistentDict
from langgraph_api._checkpointer import get_checkpointer  # type: ignore[import-untyped]  # all of them
from langgraph_runtime_inmem import _persistence, checkpoint, ops  # type: ignore[import-untyped]
from langgraph_runtime_inmem.database import connect  # type: ignore[import-untyped]
from langgraph_runtime_inmem.inmem_stream import StreamManager  # type: ignore[import-untyped]
from starlette.exceptions import HTTPException

from lasting_memory import platform

logger = logging.getLogger("memory")


@cache
def correct() -> None:
    """Apply all corrections, once in this process."""
    _know_which_runs_go_on()
    _delete_what_was_asked_for()
    _save_conversations()


def _know_which_runs_go_on() -> None:
    """It calls a thread idle while a cancelled run goes on in it, and forgetting would not wait. And if nobody streams a run
    that is rolled back, it deletes the run at once, as if it had not begun; its thread stayed busy for ever. So did that of a
    planned run which is rolled back.
    """
    enter, delete, going = ops.Runs.enter, ops.Runs.delete, Counter[str]()
    platform.runs_going = going

    @asynccontextmanager
    async def enter_counted(run_id: Any, thread_id: Any, *args: Any) -> AsyncIterator[Any]:
        going[str(thread_id)] += 1
        try:
            async with enter(run_id, thread_id, *args) as done:
                yield done
        finally:
            going[str(thread_id)] -= 1
            await _delete_late_checkpoints(thread_id)

    async def delete_and_tell(conn: Any, run_id: Any, *, thread_id: Any, **named: Any) -> Any:
        deleted = await delete(conn, run_id, thread_id=thread_id, **named)
        in_thread = {run["status"] for run in conn.store["runs"] if str(run["thread_id"]) == str(thread_id)}
        if not going[str(thread_id)] and not in_thread & {"pending", "running"}:
            for thread in conn.store["threads"]:
                if str(thread["thread_id"]) == str(thread_id) and thread["status"] == "busy":
                    thread["status"] = "idle"
        return deleted

    ops.Runs.enter, ops.Runs.delete = staticmethod(enter_counted), staticmethod(delete_and_tell)
    StreamManager.get_queues = StreamManager.get_control_queues


async def _delete_late_checkpoints(thread_id: Any) -> None:
    """Of a run that went on after its thread was deleted."""
    async with connect() as conn:
        is_there = any(str(thread["thread_id"]) == str(thread_id) for thread in conn.store["threads"])
    if not is_there:
        saver = await get_checkpointer()
        await saver.adelete_thread(str(thread_id))


def _delete_what_was_asked_for() -> None:
    """It left a deleted thread's messages in its files. Of a run it deletes the checkpoints before it looks whose it is: on
    Postgres `DELETE /threads/<own>/runs/<run>` with another's run emptied the other's conversation. And it waits between
    finding a thread's place in its list and deleting what is there: with two deletions at once, another person's thread.
    """
    delete, delete_checkpoints, turn = ops.Threads.delete, ops._delete_checkpoints_for_thread, asyncio.Lock()  # noqa: SLF001

    async def deleted_in_turn(conn: Any, thread_id: Any, ctx: Any = None) -> Any:
        # The handlers first, out of turn: they wait until a run has ended.
        filters = await ops.Threads.handle_event(ctx, "delete", {"thread_id": thread_id})
        async with turn:
            if filters and not await ops.Threads._get_with_filters(conn, thread_id, filters):  # noqa: SLF001
                raise HTTPException(404, f"Thread with ID {thread_id} not found")
            return await platform.as_nobody(delete(conn, thread_id))

    async def deleted(thread_id: Any, conn: Any, run_id: Any = None) -> None:
        saver = await get_checkpointer()
        if run_id is None:
            await saver.adelete_thread(str(thread_id))
        elif any((str(run["thread_id"]), str(run["run_id"])) == (str(thread_id), str(run_id)) for run in conn.store["runs"]):
            # A checkpointer of one's own is told the run's id alone, and a copy of a thread has the same runs in its history.
            delete_run = getattr(saver, "adelete_run", None)
            await (delete_run(str(thread_id), str(run_id)) if delete_run else delete_checkpoints(thread_id, conn, run_id))

    ops.Threads.delete, ops._delete_checkpoints_for_thread = staticmethod(deleted_in_turn), deleted  # noqa: SLF001


def _save_conversations() -> None:
    """Nobody's conversations were saved any more once somebody's state was read, which took over the files, or once a flush had
    found no conversation, or had failed, as on a full disk. And the flush is every ten seconds: a kill brought back whom it had
    forgotten.
    """
    create = checkpoint.InMemorySaver.__init__
    persistent: Any = PersistentDict
    sync, one_at_a_time = persistent.sync, threading.Lock()

    def create_one_with_files(saver: Any, *args: Any, **named: Any) -> None:
        checkpoint.DISABLE_FILE_PERSISTENCE |= checkpoint.MEMORY is not None
        create(saver, *args, **named)

    def sync_or_log(items: Any) -> None:
        try:
            with one_at_a_time:
                sync(items)
        except Exception:
            logger.exception("%s could not be saved; it is tried again.", items.filename)

    async def flush() -> None:
        for items in [known() for known in [*_persistence._stores.values()]]:  # noqa: SLF001
            if items is not None:
                await platform.in_thread(items.sync)

    checkpoint.InMemorySaver.__init__ = create_one_with_files
    persistent.sync, platform.flush = sync_or_log, flush
    persistent.__bool__ = lambda _: True  # the flush drops what is false: an empty one
