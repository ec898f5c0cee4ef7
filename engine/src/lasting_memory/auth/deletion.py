"""Stopping of runs that a deletion is about, before the platform deletes their thread or them.

A run that goes on must write nothing after its thread, or it itself, was deleted. An owner is the
metadata of a person's threads; None for an operator's deletion, which may be about anybody's.
"""

from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import Thread

from lasting_memory import consolidation, platform
from lasting_memory.auth.current_request import current_request
from lasting_memory.conversations.stopping import (
    ids_by_owner,
    note_deleted,
    note_deleted_run,
    slices,
    stop_run,
    stop_runs,
)
from lasting_memory.platform import get_client


async def end_threads(thread_ids: set[str], owner: dict[str, str] | None) -> None:
    """Stop the runs of an owner's threads before these are deleted.

    Without an `owner` the threads may be anybody's. Nothing is stopped where another's thread is
    among the owner's. Outside of a request a run deletes its own thread, and is at its end.
    """
    client = get_client()
    store = await platform.store()
    threads = list[Thread]()
    for slice_ids in slices(thread_ids):
        threads += await client.threads.search(
            ids=slice_ids, metadata=owner, limit=len(slice_ids), select=["thread_id", "metadata"]
        )
    if owner is not None and len(threads) < len(thread_ids):  # the platform refuses it
        return
    await note_deleted(store, threads)
    request = current_request()
    if request is not None:
        stored_ids = [thread["thread_id"] for thread in threads]
        await stop_runs(client, stored_ids)
        await note_deleted(store, threads)  # also for a run that began meanwhile
        request.stopped_ids |= thread_ids
    for actor, owned_ids in ids_by_owner(threads).items():
        await consolidation.drop_threads(store, actor, owned_ids)


async def end_run(thread_id: str, run_id: str, owner: dict[str, str] | None) -> None:
    """Stop a run of an owner's thread before a request deletes the run.

    Without an `owner` the thread may be anybody's. A run of another's is not stopped. A request
    that rolls runs back deletes those that have not begun: they are cancelled here, and there is
    nothing to wait for.
    """
    client = get_client()
    threads = await client.threads.search(
        ids=[thread_id], metadata=owner, limit=1, select=["thread_id", "metadata"]
    )
    if not threads:  # the platform refuses it
        return
    try:
        await client.runs.get(thread_id, run_id)
    except NotFoundError:  # as above
        return
    store = await platform.store()
    await note_deleted_run(store, threads[0], run_id)
    await stop_run(client, thread_id, run_id)
