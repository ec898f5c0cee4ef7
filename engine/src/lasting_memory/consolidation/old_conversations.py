"""Deletes conversations that are too old to keep, once they are consolidated."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from langgraph.store.base import BaseStore, PutOp
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.schema import Thread

from lasting_memory.consolidation.changed_threads import changed_in, time_of
from lasting_memory.consolidation.dream_deletions import drop_threads
from lasting_memory.consolidation.owners import owner_of
from lasting_memory.consolidation.sweeping import LOOK_BACK
from lasting_memory.conversations.retention import delete_idle
from lasting_memory.deployment import Deployment
from lasting_memory.people import identity, namespaces
from lasting_memory.recall import drop


async def delete_old(
    deployment: Deployment, client: LangGraphClient, store: BaseStore, now: datetime | None = None
) -> int:
    """Delete conversations `Limits.conversation_days` after their last turn. Returns their number.

    Their part of the index and their positions go with them. One that is still to be consolidated
    goes with a later sweep; `LOOK_BACK` after that time in any case.
    """
    days = deployment.limits.conversation_days
    if days is None:
        return 0
    present_time = now or datetime.now(UTC)
    cutoff = present_time - timedelta(days=days)

    async def spared_ids(threads: list[Thread]) -> set[str]:
        return await _ids_to_consolidate(threads, cutoff, deployment, store)

    deleted_threads = list[Thread]()
    for graph in deployment.agents:
        metadata = {"graph_id": graph}
        deleted_threads += await delete_idle(client, metadata, cutoff, spared_ids, store)
    await _forget_deleted(deployment, store, deleted_threads)
    return len(deleted_threads)


async def _ids_to_consolidate(
    threads: Iterable[Thread], cutoff: datetime, deployment: Deployment, store: BaseStore
) -> set[str]:
    """The ids of those of these threads that wait to be consolidated before they are deleted. They
    have not changed since `cutoff`.
    """
    if deployment.memory.is_shared:  # nothing is consolidated
        return set()
    waits_since = cutoff - LOOK_BACK
    waiting_threads = list[Thread]()
    for thread in threads:
        updated_at = time_of(thread["updated_at"])
        if updated_at < waits_since:
            continue
        waiting_threads.append(thread)
    changed_threads = await changed_in(waiting_threads, deployment, store)
    return {item.thread_id for item in changed_threads}


async def _forget_deleted(
    deployment: Deployment, store: BaseStore, threads: Iterable[Thread]
) -> None:
    """Delete what the store knows of these threads. It knows nothing of those without an owner."""
    ids_by_person = defaultdict[identity.Actor, list[str]](list)
    for thread in threads:
        owner = owner_of(thread, deployment)
        if owner is None:
            continue
        thread_id = thread["thread_id"]
        ids_by_person[owner.actor].append(thread_id)
    for actor, thread_ids in ids_by_person.items():
        await _forget_threads(store, actor, thread_ids)


async def _forget_threads(store: BaseStore, actor: identity.Actor, thread_ids: list[str]) -> None:
    """Delete what the store knows of a person's deleted conversations."""
    await drop(store, actor, thread_ids)
    positions = namespaces.positions(actor)
    kept_out = namespaces.kept_out(actor)
    ops = list[PutOp]()
    for thread_id in thread_ids:
        ops.append(PutOp(positions, thread_id, None))
        ops.append(PutOp(kept_out, thread_id, None))
    await store.abatch(ops)
    await drop_threads(store, actor, thread_ids)
