"""Corrections of the platform's in-memory runtime, which `langgraph dev` runs on.

They are about the worst of what it does with people's data. `build_http` applies them where that
runtime serves; nothing else may import this. The names that it takes stand in
`platform_names.py`.

Each function of the runtime is replaced by one that calls it, most by a method of a class that
keeps the runtime's own. `conn` is the runtime's database: its lists of threads and runs. `filters`
are what the handlers of `auth/` answered: metadata that a thread must have for the caller to see
it. A listed run is one in that list; a run goes on while it executes, which may be after it was
cancelled or deleted.
"""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import Protocol, cast

from langgraph.checkpoint.memory import PersistentDict
from langgraph_api._checkpointer import get_checkpointer  # type: ignore[import-untyped]  # all of them
from langgraph_runtime_inmem import _persistence, checkpoint, ops  # type: ignore[import-untyped]
from langgraph_runtime_inmem.database import connect  # type: ignore[import-untyped]
from langgraph_runtime_inmem.inmem_stream import StreamManager  # type: ignore[import-untyped]
from starlette.exceptions import HTTPException

from lasting_memory import platform
from lasting_memory.platform_names import IN_MEMORY_RUNTIME, check_names

logger = logging.getLogger("memory")

# A thread or a run, as the runtime lists it.
_Row = MutableMapping[str, object]
# What the handlers of `auth/` answered; None, or empty, if they let the caller see every thread.
_Filters = Mapping[str, object] | None


class _Connection(Protocol):
    """The runtime's database."""

    @property
    def store(self) -> Mapping[str, Sequence[_Row]]:
        """Its lists; among them are "threads" and "runs"."""


class _SavedClass(Protocol):
    """The class of what the runtime saves in a file, as far as its functions are replaced."""

    sync: Callable[[PersistentDict], None]
    __bool__: Callable[[PersistentDict], bool]


@cache
def correct() -> None:
    """Apply all corrections, once in this process.

    Raises `MovedNameError` before the first one where a name has moved.
    """
    check_names(IN_MEMORY_RUNTIME)
    _count_runs()
    _delete_exactly()
    _save_conversations()


def _count_runs() -> None:
    """Have runs counted while they go on."""
    runs = _CountedRuns()
    platform.runs_going = runs.thread_counts
    platform.run_ids_going = runs.run_counts
    ops.Runs.enter = staticmethod(runs.enter)
    ops.Runs.delete = staticmethod(runs.delete)
    StreamManager.get_queues = StreamManager.get_control_queues


def _delete_exactly() -> None:
    """Have exactly that deleted which a request is about."""
    deletion = _ExactDeletion()
    ops.Threads.delete = staticmethod(deletion.delete)
    ops.Threads.prune = staticmethod(deletion.prune)
    ops._delete_checkpoints_for_thread = deletion.delete_checkpoints  # noqa: SLF001


class _CountedRuns:
    """What stands in place of the runtime's functions about runs. It counts the runs that go on, and
    corrects the status of their threads.

    The runtime calls a thread idle while a cancelled run goes on in it, and forgetting would not
    wait. If nobody streams a run that is rolled back, it deletes the run at once, as if it had not
    begun; the thread stayed busy for ever. So did the thread of a planned run which is rolled back,
    and that of a run which was deleted and went on.
    """

    def __init__(self) -> None:
        self.thread_counts = Counter[str]()
        self.run_counts = Counter[str]()
        self._runtime_enter: Callable[..., AbstractAsyncContextManager[object]] = ops.Runs.enter
        self._runtime_delete: Callable[..., Awaitable[AsyncIterator[object]]] = ops.Runs.delete

    @asynccontextmanager
    async def enter(
        self, run_id: object, thread_id: object, *args: object
    ) -> AsyncIterator[object]:
        """Carry out a run as the runtime does, and count it until its end."""
        thread_name = str(thread_id)
        run_name = str(run_id)
        self.thread_counts[thread_name] += 1
        self.run_counts[run_name] += 1
        try:
            async with self._runtime_enter(run_id, thread_id, *args) as entered_run:
                yield entered_run
        finally:
            _count_down(self.thread_counts, thread_name)
            _count_down(self.run_counts, run_name)
            await _correct_status(thread_id)
            await _delete_late_checkpoints(thread_id)

    async def delete(
        self, conn: _Connection, run_id: object, *, thread_id: object, ctx: object = None
    ) -> AsyncIterator[object]:
        """Delete a run as the runtime does, and leave its thread with the status and the state that
        it had before.
        """
        thread = _find_thread(conn, thread_id)
        was_listed = thread is not None and _has_run(conn, thread_id, run_id)
        was_only_run = _active_runs(conn, thread_id) == {str(run_id)}
        state_before = dict[str, object]()
        if thread:
            state_before["values"] = thread.get("values")
            state_before["interrupts"] = thread.get("interrupts")
        # The handlers first: they stop the run. With it ends the thread of a stateless run.
        value = {"run_id": run_id, "thread_id": thread_id}
        filters = await ops.Runs.handle_event(ctx, "delete", value)
        has_ended = was_listed and _find_thread(conn, thread_id) is None
        if has_ended and _is_visible(thread, filters):
            return _yield_one(run_id)
        deleted_ids = await self._runtime_delete(conn, run_id, thread_id=thread_id, ctx=ctx)
        if thread and was_only_run and not self._goes_on(conn, thread_id, run_id):
            # Stopping the run has put into the thread what the run had come to. Its checkpoints are
            # gone, so the thread has the state from before the run again.
            status = "interrupted" if state_before["interrupts"] else "idle"
            thread.update(state_before, status=status)
        await _correct_status(thread_id)
        return deleted_ids

    def _goes_on(self, conn: _Connection, thread_id: object, deleted_run_id: object) -> bool:
        """Whether a thread has a run after the deletion of one. It has that one where the caller may
        not delete it.
        """
        if _has_run(conn, thread_id, deleted_run_id):
            return True
        if self.thread_counts[str(thread_id)]:
            return True
        return bool(_active_runs(conn, thread_id))


def _count_down(counts: Counter[str], key: str) -> None:
    """Count one less, and drop what has none left."""
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]


def _find_thread(conn: _Connection, thread_id: object) -> _Row | None:
    """The thread in the platform's list; None if it is not there."""
    searched_id = str(thread_id)
    for thread in conn.store["threads"]:
        if str(thread["thread_id"]) == searched_id:
            return thread
    return None


def _has_run(conn: _Connection, thread_id: object, run_id: object) -> bool:
    """Whether the platform lists this run of this thread."""
    listed_ids = [str(run["run_id"]) for run in _listed_runs(conn, thread_id)]
    return str(run_id) in listed_ids


def _active_runs(conn: _Connection, thread_id: object) -> set[str]:
    """Ids of the runs of this thread that the platform lists as waiting or at work."""
    ids = set[str]()
    for run in _listed_runs(conn, thread_id):
        if run["status"] in {"pending", "running"}:
            ids.add(str(run["run_id"]))
    return ids


def _listed_runs(conn: _Connection, thread_id: object) -> list[_Row]:
    """The runs of this thread that the platform lists."""
    name = str(thread_id)
    runs = list[_Row]()
    for run in conn.store["runs"]:
        if str(run["thread_id"]) == name:
            runs.append(run)
    return runs


def _is_visible(thread: _Row | None, filters: _Filters) -> bool:
    """Whether the caller sees this thread; False if there is none."""
    if thread is None:
        return False
    if not filters:
        return True
    return bool(ops._check_filter_match(thread["metadata"], filters))  # noqa: SLF001


def _ended_threads(
    conn: _Connection, threads_before: Mapping[str, _Row | None], filters: _Filters
) -> set[str]:
    """Ids of the threads that were there before and are not now, if the caller sees them."""
    ended_ids = set[str]()
    for thread_id, thread in threads_before.items():
        is_gone = _find_thread(conn, thread_id) is None
        if is_gone and _is_visible(thread, filters):
            ended_ids.add(thread_id)
    return ended_ids


async def _yield_one(item: object) -> AsyncIterator[object]:
    """The item in the form in which the runtime answers: from an iterator."""
    yield item


async def _correct_status(thread_id: object) -> None:
    """Have a thread called busy while a run of it waits or is at work, and idle afterwards."""
    async with connect() as conn:
        thread = _find_thread(conn, thread_id)
        if thread is None:
            return
        counts = platform.runs_going
        goes_on = counts is not None and counts[str(thread_id)] > 0
        if _active_runs(conn, thread_id):
            thread["status"] = "busy"
        elif thread["status"] == "busy" and not goes_on:
            thread["status"] = "idle"


async def _delete_late_checkpoints(thread_id: object) -> None:
    """Delete the checkpoints of a run that went on after its thread was deleted."""
    async with connect() as conn:
        thread = _find_thread(conn, thread_id)
    if thread is None:
        saver = await get_checkpointer()
        await saver.adelete_thread(str(thread_id))


class _ExactDeletion:
    """What stands in place of the runtime's functions that delete. It deletes what a request is about,
    all of it, and nothing else.

    The runtime left a deleted thread's messages in its files. Of a run it deletes the checkpoints
    before it looks whose it is: on Postgres `DELETE /threads/<own>/runs/<run>` with another's run
    emptied the other's conversation. And it waits between finding a thread's place in its list and
    deleting what is there: with two deletions at once, another person's thread.

    Stopping a stateless run, which a deletion does first, ends its thread, too: that is deleted
    then, and not "not found".
    """

    def __init__(self) -> None:
        self._runtime_prune: Callable[..., Awaitable[int]] = ops.Threads.prune
        self._runtime_delete: Callable[..., Coroutine[object, object, AsyncIterator[object]]] = (
            ops.Threads.delete
        )
        self._runtime_delete_checkpoints = ops._delete_checkpoints_for_thread  # noqa: SLF001
        self._turn = asyncio.Lock()

    async def delete(
        self, conn: _Connection, thread_id: object, ctx: object = None
    ) -> AsyncIterator[object]:
        """Delete a thread as the runtime does, one after another, and only one that the caller
        sees.
        """
        # The handlers first, out of turn: they wait until a run has ended.
        thread_before = _find_thread(conn, thread_id)
        value = {"thread_id": thread_id}
        filters = await ops.Threads.handle_event(ctx, "delete", value)
        async with self._turn:
            has_ended = _find_thread(conn, thread_id) is None
            if has_ended and _is_visible(thread_before, filters):
                return _yield_one(thread_id)
            if filters:
                visible = await ops.Threads._get_with_filters(conn, thread_id, filters)  # noqa: SLF001
                if not visible:
                    raise HTTPException(404, f"Thread with ID {thread_id} not found")
            return await platform.as_nobody(self._runtime_delete(conn, thread_id))

    async def prune(
        self,
        thread_ids: Sequence[object],
        strategy: str = "delete",
        batch_size: int = 100,
        ctx: object = None,
    ) -> int:
        """Delete threads as the runtime does, and count those that ended because their runs were
        stopped.
        """
        value = {"thread_ids": thread_ids}
        async with connect() as conn:
            threads_before = {
                str(thread_id): _find_thread(conn, thread_id) for thread_id in thread_ids
            }
            filters = await ops.Threads.handle_event(ctx, "delete", value)
            ended_ids = _ended_threads(conn, threads_before, filters)
        remaining_ids = [thread_id for thread_id in thread_ids if str(thread_id) not in ended_ids]
        pruned_count = await self._runtime_prune(remaining_ids, strategy, batch_size, ctx)
        return len(ended_ids) + pruned_count

    async def delete_checkpoints(
        self, thread_id: object, conn: _Connection, run_id: object = None
    ) -> None:
        """Delete the checkpoints of a thread, or of one run that is the thread's."""
        saver = await get_checkpointer()
        if run_id is None:
            await saver.adelete_thread(str(thread_id))
        elif _has_run(conn, thread_id, run_id):
            # A checkpointer of one's own is told the run's id alone, and a copy of a thread has the
            # same runs in its history.
            delete_run = getattr(saver, "adelete_run", None)
            if delete_run:
                await delete_run(str(thread_id), str(run_id))
            else:
                await self._runtime_delete_checkpoints(thread_id, conn, run_id)


def _save_conversations() -> None:
    """Save everybody's conversations, and have forgetting flush at once.

    Nothing was saved any more once somebody's state was read, which took over the files, or once a
    flush had found no conversation, or had failed, as on a full disk. And the flush is every ten
    seconds: a kill brought back whom it had forgotten.
    """
    create = checkpoint.InMemorySaver.__init__
    persistent = cast("_SavedClass", PersistentDict)
    sync = persistent.sync
    one_at_a_time = threading.Lock()

    def create_one_with_files(saver: object, *args: object, **options: object) -> None:
        """Make a store of conversations. The first one has the files, a further one none."""
        checkpoint.DISABLE_FILE_PERSISTENCE |= checkpoint.MEMORY is not None
        create(saver, *args, **options)

    def sync_or_log(items: PersistentDict) -> None:
        try:
            with one_at_a_time:
                sync(items)
        except Exception:
            logger.exception("%s could not be saved; it is tried again.", items.filename)

    async def flush() -> None:
        for reference in [*_persistence._stores.values()]:  # noqa: SLF001
            items = reference()
            if items is not None:
                await platform.in_thread(items.sync)

    checkpoint.InMemorySaver.__init__ = create_one_with_files
    persistent.sync = sync_or_log
    platform.flush = flush
    persistent.__bool__ = lambda _: True  # the flush drops what is false: an empty one
