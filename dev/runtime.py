"""What `langgraph dev` does otherwise than a deployment, and wrong: changes of its runtime, made when the app is loaded.

Each is one function, which `api/app.py` calls where the server is `langgraph dev`. Tests fail where a name has moved.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from memory import langgraph_internals

logger = logging.getLogger("memory")

# Ended runs whose status the runtime has surely saved, at which the older ones are dropped from their file.
_ENDED_KEPT = 10_000


# What a run that has ended leaves of its thread.
_ENDS = {"success": "idle", "error": "error", "timeout": "error", "interrupted": "interrupted"}


@cache
def deliver_cancels() -> None:
    """Have `langgraph dev` stop the runs that a request cancels, from now on.

    It calls runs cancelled by status or assistant interrupted, but sends the message that stops them to no thread, so no run
    receives it: they went on, wrote, and kept their worker. And if nobody streams a run that is rolled back, it deletes the run
    at once, as if it had not begun; its thread stayed busy for ever. A run that has begun waits for that message on a queue,
    but for 240 seconds only: an older one could not be stopped.
    """
    from langgraph_runtime_inmem import ops  # type: ignore[import-untyped]  # noqa: PLC0415  # only on `langgraph dev`
    from langgraph_runtime_inmem.inmem_stream import StreamManager  # type: ignore[import-untyped]  # noqa: PLC0415  # only on `langgraph dev`

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


@cache
def save_conversations() -> None:
    """Have `langgraph dev` keep in its files what was said, and nothing that was deleted, from now on.

    It left a deleted thread's messages. What reads a thread's state took over the files, so that nobody's conversations were
    saved any more. So it was once a flush had found no conversation, or had failed, as on a full disk.
    """
    from langgraph.checkpoint.memory import PersistentDict  # noqa: PLC0415  # only on `langgraph dev`
    from langgraph_api import config  # type: ignore[import-untyped]  # noqa: PLC0415  # only on `langgraph dev`
    from langgraph_runtime_inmem import checkpoint, ops  # noqa: PLC0415  # only on `langgraph dev`

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
    from langgraph_api._checkpointer import get_checkpointer  # type: ignore[import-untyped]  # noqa: PLC0415  # only on `langgraph dev`
    from langgraph_runtime_inmem import ops  # noqa: PLC0415  # only on `langgraph dev`

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


class _EndedRuns:
    """A file with a line for each run that has ended: its id, and how."""

    def __init__(self, file: Path) -> None:
        self._file, self._lines = file, list[str]()

    def read(self) -> dict[str, str]:
        """How runs have ended, by id. Lines that say nothing are passed over. Blocks."""
        try:
            lines = [line.split() for line in self._file.read_text("utf-8", "replace").splitlines()]
        except OSError:
            return {}
        return {line[0]: line[1] for line in lines if len(line) == 2 and line[1] in _ENDS}  # noqa: PLR2004

    def note(self, run_id: str, status: str) -> None:
        """Add a line, and keep so many. Blocks. A file that cannot be written is logged."""
        self._lines.append(f"{run_id} {status}\n")
        try:
            if len(self._lines) > _ENDED_KEPT:
                del self._lines[: _ENDED_KEPT // 2]
                self._file.write_text("".join(self._lines), "utf-8")
            else:
                with self._file.open("a", encoding="utf-8") as ends:
                    ends.write(self._lines[-1])
        except OSError as error:
            logger.warning("%s cannot be written: %r. A run that has ended may run again after a kill.", self._file, error)


@cache
def remember_ended_runs() -> None:
    """Have a server that was killed not run again what had ended, from now on.

    The runtime saves its list of runs every ten seconds, and takes up what the list calls running. So a run that had reported
    its success was run again. Each end is a line in a file of its own, too.
    """
    from langgraph_runtime_inmem import database, ops  # noqa: PLC0415  # as above

    ends, is_known = _EndedRuns(Path.cwd() / ".langgraph_api" / "ended_runs"), False
    take_next, set_status = ops.Runs.next, ops.Threads.set_joint_status

    async def set_status_and_note(conn: Any, thread_id: Any, run_id: Any, status: str, *args: Any, **named: Any) -> None:
        await set_status(conn, thread_id, run_id, status, *args, **named)
        if status in _ENDS:
            await asyncio.to_thread(ends.note, str(run_id), status)

    async def next_not_ended(*args: Any, **named: Any) -> AsyncIterator[Any]:
        nonlocal is_known
        if not is_known:
            _end(database.GLOBAL_STORE, await asyncio.to_thread(ends.read))
            is_known = True
        async for run in take_next(*args, **named):
            yield run

    ops.Runs.next, ops.Threads.set_joint_status = staticmethod(next_not_ended), staticmethod(set_status_and_note)


def _end(listed: Mapping[str, Any], ended: Mapping[str, str]) -> None:
    """Give runs, and their threads, the status with which they have ended."""
    for run in listed["runs"]:
        if run["status"] in {"pending", "running"} and (status := ended.get(str(run["run_id"]))):
            run["status"] = status
            for thread in listed["threads"]:
                if thread["thread_id"] == run["thread_id"]:
                    thread["status"] = _ENDS[status]
