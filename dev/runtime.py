"""What `langgraph dev` does otherwise than a deployment, and wrong, corrected: `dev/app.py` calls `correct`.

Plain `langgraph dev` works without this, with the errors that the functions describe. Tests fail where a name has moved.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from langgraph.checkpoint.memory import PersistentDict
from langgraph_api import config  # type: ignore[import-untyped]  # all of them
from langgraph_api._checkpointer import get_checkpointer  # type: ignore[import-untyped]
from langgraph_runtime_inmem import checkpoint, database, ops  # type: ignore[import-untyped]
from langgraph_runtime_inmem.inmem_stream import StreamManager  # type: ignore[import-untyped]

from memory import langgraph_internals

logger = logging.getLogger("memory")

# Ended runs whose status the runtime has surely saved, beyond which the older ones are dropped at a start.
_ENDED_KEPT = 10_000
# What a run that has ended leaves of its thread.
_ENDS = {"success": "idle", "error": "error", "timeout": "error", "interrupted": "interrupted"}


@cache
def correct() -> None:
    """Change the development runtime of this process, for as long as it lives."""
    _deliver_cancels()
    _delete_only_from_the_given_thread()
    _delete_threads_one_by_one()
    _save_conversations()
    _remember_ended_runs()


def _deliver_cancels() -> None:
    """It calls runs cancelled by status or assistant interrupted, but sends the message that stops them to no thread, so no run
    receives it: they went on, wrote, and kept their worker. And if nobody streams a run that is rolled back, it deletes the run
    at once, as if it had not begun; its thread stayed busy for ever. A run that has begun waits for that message on a queue,
    but for 240 seconds only: an older one could not be stopped.
    """
    put, queues = StreamManager.put, StreamManager.get_control_queues
    listen, enter = ops.listen_for_cancellation, ops.Runs.enter
    going = langgraph_internals.count_runs_going()

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


def _delete_only_from_the_given_thread() -> None:
    """It left a deleted thread's messages in its files. And of a run it deletes the checkpoints before it looks whose it is:
    `DELETE /threads/<own>/runs/<run>` with another's run answered 404, and emptied the other's conversation.
    """
    delete = ops._delete_checkpoints_for_thread  # noqa: SLF001  # what requests and rollbacks call

    async def deleted(thread_id: Any, conn: Any, run_id: Any = None) -> None:
        if run_id is None and not config.USE_CUSTOM_CHECKPOINTER:
            checkpoint.Checkpointer().delete_thread(str(thread_id))
        elif run_id is None:
            await delete(thread_id, conn)
        elif any((str(run["thread_id"]), str(run["run_id"])) == (str(thread_id), str(run_id)) for run in conn.store["runs"]):
            # A checkpointer of one's own is told the run's id alone, and a copy of a thread has the same runs in its history.
            delete_run = getattr(await get_checkpointer(), "adelete_run", None)
            await (delete_run(str(thread_id), str(run_id)) if delete_run else delete(thread_id, conn, run_id))

    ops._delete_checkpoints_for_thread = deleted  # noqa: SLF001


def _delete_threads_one_by_one() -> None:
    """It looks up a thread's position in its list, waits for the checkpointer, and deletes the thread then in that position.
    With two deletions at once (of stateless runs' threads, too), that may be another person's thread.
    """
    delete, turn = ops.Threads.delete, asyncio.Lock()

    async def deleted(*args: Any, **named: Any) -> Any:
        async with turn:
            return await delete(*args, **named)

    ops.Threads.delete = staticmethod(deleted)


def _save_conversations() -> None:
    """What reads a thread's state took over the files, so that nobody's conversations were saved any more. So it was once a
    flush had found no conversation, or had failed, as on a full disk.
    """
    create = checkpoint.InMemorySaver.__init__
    persistent: Any = PersistentDict
    sync = persistent.sync
    folder, failed = Path.cwd(), set[str]()

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

    checkpoint.InMemorySaver.__init__ = create_one_with_files
    persistent.sync = sync_or_log
    persistent.__bool__ = lambda _: True  # the flush drops what is false: an empty one


def _remember_ended_runs() -> None:
    """It saves its list of runs every ten seconds, and after a kill takes up what the list calls running: a run that had
    reported its success was run again. Each end is a line in a file of its own, too.
    """
    file = Path.cwd() / ".langgraph_api" / "ended_runs"
    lines = file.read_text("utf-8", "replace").splitlines(keepends=True) if file.exists() else []
    if len(lines) > _ENDED_KEPT:
        file.write_text("".join(lines[-_ENDED_KEPT:]), "utf-8")
    pairs = [line.split() for line in lines]
    ended = {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and pair[1] in _ENDS}  # noqa: PLR2004
    take_next, set_status = ops.Runs.next, ops.Threads.set_joint_status

    def note(line: str) -> None:
        try:
            with file.open("a", encoding="utf-8") as ends:
                ends.write(line)
        except OSError as error:
            logger.warning("%s cannot be written: %r. A run that has ended may run again after a kill.", file, error)

    async def set_status_and_note(conn: Any, thread_id: Any, run_id: Any, status: str, *args: Any, **named: Any) -> None:
        await set_status(conn, thread_id, run_id, status, *args, **named)
        if status in _ENDS:
            await asyncio.to_thread(note, f"{run_id} {status}\n")

    async def next_not_ended(*args: Any, **named: Any) -> AsyncIterator[Any]:
        if ended:  # the list is loaded by now
            _end(ended)
            ended.clear()
        async for run in take_next(*args, **named):
            yield run

    ops.Runs.next, ops.Threads.set_joint_status = staticmethod(next_not_ended), staticmethod(set_status_and_note)


def _end(ended: Mapping[str, str]) -> None:
    """Give listed runs, and their threads, the status with which they have ended."""
    for run in database.GLOBAL_STORE["runs"]:
        if run["status"] in {"pending", "running"} and (status := ended.get(str(run["run_id"]))):
            run["status"] = status
            for thread in database.GLOBAL_STORE["threads"]:
                if thread["thread_id"] == run["thread_id"]:
                    thread["status"] = _ENDS[status]
