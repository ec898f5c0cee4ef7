"""Deletes conversations that are too old to keep, once they are consolidated."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import BaseStore, PutOp
from langgraph_sdk.client import LangGraphClient

from lasting_memory.consolidation.dream_draft import drop_threads
from lasting_memory.consolidation.due import changed_in, time_of
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

    Their part of the index and their positions go with them. One that is due is consolidated
    first, and goes with a later sweep; after `LOOK_BACK` in any case.
    """
    days = deployment.limits.conversation_days
    if days is None:
        return 0
    now = now or datetime.now(UTC)
    before = now - timedelta(days=days)
    waits_until = before - LOOK_BACK

    async def due_ids(threads: list[Any]) -> set[str]:
        if deployment.memory.is_shared:
            return set()
        may_wait = list[Any]()
        for thread in threads:
            updated_at = time_of(thread["updated_at"])
            if updated_at >= waits_until:
                may_wait.append(thread)
        due = await changed_in(may_wait, deployment, store)
        return {item.thread_id for item in due}

    deleted = list[Any]()
    for graph in deployment.agents:
        deleted += await delete_idle(client, {"graph_id": graph}, before, due_ids, store)
    await _forget_deleted(deployment, store, deleted)
    return len(deleted)


async def _forget_deleted(deployment: Deployment, store: BaseStore, threads: Iterable[Any]) -> None:
    """Delete what the store knows of these conversations."""
    thread_ids_of = defaultdict[identity.Actor, list[str]](list)
    for thread in threads:
        owner = owner_of(thread, deployment)
        if owner:  # without one it has no index
            thread_ids = thread_ids_of[owner.actor]
            thread_ids.append(thread["thread_id"])
    for actor, ids in thread_ids_of.items():
        await _forget_threads(store, actor, ids)


async def _forget_threads(store: BaseStore, actor: identity.Actor, thread_ids: list[str]) -> None:
    """Delete what the store knows of a person's deleted conversations."""
    await drop(store, actor, thread_ids)
    deletions = list[PutOp]()
    for place in (namespaces.positions(actor), namespaces.kept_out(actor)):
        for thread_id in thread_ids:
            deletions.append(PutOp(place, thread_id, None))
    await store.abatch(deletions)
    await drop_threads(store, actor, thread_ids)
