"""Stops the runs of conversations that are deleted, and refuses what these runs still write."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

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
    """The ids in lists of as many as one search takes."""
    in_order = sorted(ids)
    for start in range(0, len(in_order), _IDS):
        yield in_order[start : start + _IDS]


async def cancel_runs(client: LangGraphClient, thread_id: str, stopped: set[str]) -> None:
    """Cancel what runs or waits on a thread, but the runs in `stopped`.

    The ids of the runs that it cancels are added to `stopped`.
    """
    run_ids = set[str]()
    with suppress(NotFoundError):  # the thread, or the last of its runs, ended meanwhile
        for status in _UNENDED:
            for run in await client.runs.list(thread_id, limit=_RUNS, status=status):
                run_ids.add(str(run["run_id"]))
        run_ids -= stopped
        if run_ids:
            await client.runs.cancel_many(thread_id=thread_id, run_ids=[*run_ids])
            stopped |= run_ids


async def stop_runs(client: LangGraphClient, thread_ids: Collection[str]) -> None:
    """Cancel the runs of these threads, and wait until they have ended, for at most `STOP_SECONDS`."""
    stopped = set[str]()
    deadline = time.monotonic() + STOP_SECONDS
    while True:
        busy = await _busy(client, thread_ids)
        going = busy
        # What only waited has ended once it is cancelled, whatever the thread's status.
        if platform.runs_going is not None:
            going = {thread_id for thread_id in thread_ids if platform.runs_going[thread_id] > 0}
        for thread_id in busy | going:
            await cancel_runs(client, thread_id, stopped)
        if not going or time.monotonic() > deadline:
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _busy(client: LangGraphClient, thread_ids: Collection[str]) -> set[str]:
    """Those of these threads that the platform calls busy.

    They have a run under way or queued, or none after a kill.
    """
    busy = set[str]()
    for ids in slices(thread_ids):
        threads = await client.threads.search(
            ids=ids, status="busy", limit=len(ids), select=["thread_id"]
        )
        busy |= {str(thread["thread_id"]) for thread in threads}
    return busy


async def stop_run(client: LangGraphClient, thread_id: str, run_id: str) -> None:
    """Cancel one run, and wait until it has ended, for at most `STOP_SECONDS`.

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


async def note_deleted(store: BaseStore, threads: Iterable[Mapping[str, Any]]) -> None:
    """Have what the runs of these threads still try to write refused.

    The threads are read with their ids and metadata.
    """
    for owner, thread_ids in ids_by_owner(threads).items():
        await journal.note_deleted(store, owner, thread_ids)


def ids_by_owner(threads: Iterable[Mapping[str, Any]]) -> dict[identity.Actor, list[str]]:
    """The ids of these threads, which are read with their metadata, by their owners."""
    ids = defaultdict[identity.Actor, list[str]](list)
    for thread in threads:
        owner = _owner_of(thread)
        if owner:
            ids[owner].append(str(thread["thread_id"]))
    return ids


async def note_deleted_run(store: BaseStore, thread: Mapping[str, Any], run_id: str) -> None:
    """Have what a run of this thread still tries to write refused.

    The thread is read with its metadata.
    """
    owner = _owner_of(thread)
    if owner:
        await journal.note_deleted(store, owner, [run_id])


def _owner_of(thread: Mapping[str, Any]) -> identity.Actor | None:
    """The owner in a thread's metadata; None for a thread without one, which has no memory."""
    metadata = thread["metadata"] or {}
    owner = identity.Actor(str(metadata.get("user_id") or ""), str(metadata.get("org_id") or ""))
    try:
        identity.check_person(owner)
    except identity.IdentityError:
        return None
    return owner
