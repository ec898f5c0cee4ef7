"""Stops the runs of conversations that are deleted, and refuses what these runs still write.

A run ends after it is cancelled, or waits in its thread's queue, from which it can be taken. Where
the platform counts the runs under way (`platform.runs_going`), that count says what has ended.
"""

import asyncio
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import RunStatus

from lasting_memory import platform
from lasting_memory.memory import journal
from lasting_memory.people import identity

# Seconds that the cancelled runs of a conversation have to end. A slower one writes no memory.
STOP_SECONDS = 10.0
# Runs of a thread that are cancelled at once.
_RUNS = 100
# Seconds between two looks at what goes on.
_LOOK_SECONDS = 0.05
# Threads that one search finds.
_IDS = 1_000
_UNENDED: tuple[RunStatus, ...] = ("pending", "running")


def slices(ids: Iterable[str]) -> Iterator[list[str]]:
    """The ids, sorted, in lists of as many as one search takes."""
    sorted_ids = sorted(ids)
    for start in range(0, len(sorted_ids), _IDS):
        end = start + _IDS
        yield sorted_ids[start:end]


async def cancel_runs(client: LangGraphClient, thread_id: str, stopped: set[str]) -> None:
    """Cancels the runs of a thread that are under way or queued, but those in `stopped`.

    The ids of the runs that it cancels are added to `stopped`.
    """
    unended = set[str]()
    with suppress(NotFoundError):  # the thread, or the last of its runs, ended meanwhile
        for status in _UNENDED:
            runs = await client.runs.list(thread_id, limit=_RUNS, status=status)
            for run in runs:
                run_id = str(run["run_id"])
                unended.add(run_id)
        unended -= stopped
        if unended:
            run_ids = list(unended)
            await client.runs.cancel_many(thread_id=thread_id, run_ids=run_ids)
            stopped |= unended


async def stop_runs(client: LangGraphClient, thread_ids: Collection[str]) -> None:
    """Cancels the runs of these threads, and waits until they have ended, for at most
    `STOP_SECONDS`.
    """
    stopped = set[str]()
    deadline = time.monotonic() + STOP_SECONDS
    while True:
        busy = await _busy(client, thread_ids)
        running = busy
        # What was only queued has ended once it is cancelled, whatever the thread's status.
        if platform.runs_going is not None:
            running = _counted_as_running(thread_ids, platform.runs_going)
        for thread_id in busy | running:
            await cancel_runs(client, thread_id, stopped)
        is_late = time.monotonic() > deadline
        if is_late or not running:
            return
        await asyncio.sleep(_LOOK_SECONDS)


def _counted_as_running(thread_ids: Iterable[str], run_counts: Mapping[str, int]) -> set[str]:
    """Those of these threads that have a run under way, by the number of such runs of each."""
    running = set[str]()
    for thread_id in thread_ids:
        run_count = run_counts.get(thread_id, 0)
        if run_count > 0:
            running.add(thread_id)
    return running


async def _busy(client: LangGraphClient, thread_ids: Collection[str]) -> set[str]:
    """Those of these threads that the platform calls busy.

    They have a run under way or queued, or none after a kill.
    """
    busy = set[str]()
    for ids in slices(thread_ids):
        threads = await client.threads.search(
            ids=ids, status="busy", limit=len(ids), select=["thread_id"]
        )
        for thread in threads:
            thread_id = str(thread["thread_id"])
            busy.add(thread_id)
    return busy


async def stop_run(client: LangGraphClient, thread_id: str, run_id: str) -> None:
    """Cancels one run, and waits until it has ended, for at most `STOP_SECONDS`.

    Other runs of its thread go on.
    """
    deadline = time.monotonic() + STOP_SECONDS
    with suppress(NotFoundError):  # it has ended
        await client.runs.cancel_many(thread_id=thread_id, run_ids=[run_id])
    while await _goes_on(client, thread_id, run_id):
        if time.monotonic() > deadline:
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _goes_on(client: LangGraphClient, thread_id: str, run_id: str) -> bool:
    """Whether a run is under way; where the platform itself says it, also whether it is queued."""
    if platform.run_ids_going is not None:
        return platform.run_ids_going[run_id] > 0
    try:
        run = await client.runs.get(thread_id, run_id)
    except NotFoundError:
        return False
    return run["status"] in _UNENDED


async def note_deleted(store: BaseStore, threads: Iterable[Mapping[str, object]]) -> None:
    """Notes that these threads are deleted, so that what their runs still try to write is refused.

    The threads are read with their ids and metadata.
    """
    by_owner = ids_by_owner(threads)
    for owner, thread_ids in by_owner.items():
        await journal.note_deleted(store, owner, thread_ids)


def ids_by_owner(threads: Iterable[Mapping[str, object]]) -> dict[identity.Actor, list[str]]:
    """The ids of these threads by their owners, without threads that have no owner.

    The threads are read with their ids and metadata.
    """
    by_owner = dict[identity.Actor, list[str]]()
    for thread in threads:
        owner = _owner_of(thread)
        if owner is None:
            continue
        thread_id = str(thread["thread_id"])
        thread_ids = by_owner.setdefault(owner, [])
        thread_ids.append(thread_id)
    return by_owner


async def note_deleted_run(store: BaseStore, thread: Mapping[str, object], run_id: str) -> None:
    """Notes that a run of this thread is deleted, so that what it still tries to write is refused.

    The thread is read with its metadata. Does nothing for one without an owner.
    """
    owner = _owner_of(thread)
    if owner:
        await journal.note_deleted(store, owner, [run_id])


def _owner_of(thread: Mapping[str, object]) -> identity.Actor | None:
    """The owner in a thread's metadata; None for a thread without one, which has no memory."""
    metadata = thread["metadata"]
    if not isinstance(metadata, Mapping):
        return None
    user_id = metadata.get("user_id") or ""
    org_id = metadata.get("org_id") or ""
    owner = identity.Actor(str(user_id), str(org_id))
    try:
        identity.check_person(owner)
    except identity.IdentityError:
        return None
    return owner
