"""The sweep plans a consolidation for everybody who is due, and tidies from time to time."""

import logging
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import BaseStore, PutOp
from langgraph_sdk.client import LangGraphClient

from lasting_memory.consolidation.due import EARLIEST, ChangedThread, changed_in, time_of
from lasting_memory.consolidation.owners import Owner
from lasting_memory.consolidation.schedule import Trigger, start
from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.recall import changed_since

logger = logging.getLogger(__name__)

# How far before the last sweep one looks back: so long a failed consolidation is tried again.
LOOK_BACK = timedelta(days=7)
# Seconds between the begins of two people's runs, so that workers stay free for conversations.
APART_SECONDS = 4


async def sweep(deployment: Deployment, client: LangGraphClient, store: BaseStore) -> int:
    """Plan a consolidation for everyone who is due. Returns the number of runs.

    The cost follows activity.
    """
    counts = await sweep_counted(deployment, client, store)
    return counts["runs"]


async def sweep_counted(
    deployment: Deployment, client: LangGraphClient, store: BaseStore
) -> Counter[str]:
    """Plan as `sweep` does. Returns numbers of people, and of runs.

    `due`: people who are due. `started`: those of them for whom it planned a consolidation.
    `planned`: those for whom one was planned already. `runs`: all runs, with those that tidy.
    """
    began = datetime.now(UTC).isoformat(timespec="microseconds")
    counts = Counter[str]()
    due = await _all_due(deployment, client, store)
    for owner in dict.fromkeys([item.owner for item in due]):
        counts["due"] += 1
        try:
            since = journal.Began(owner.actor, began)
            await _start_one(owner, since, deployment, client, store, counts=counts)
        # One person's failure is not everybody's. Their conversations are due again.
        except Exception as error:
            logger.warning(
                "No consolidation could be started for one person: %r. The next sweep tries.",
                error,
                exc_info=True,
            )
    await store.aput(*namespaces.LAST_SWEEP, {"began": began}, index=False)
    return counts


async def _start_one(
    owner: Owner,
    began: journal.Began,
    deployment: Deployment,
    client: LangGraphClient,
    store: BaseStore,
    *,
    counts: Counter[str],
) -> None:
    """Plan the runs of one owner, some seconds after those that are counted already."""
    if await journal.is_forgotten(store, began):
        return
    seconds = counts["runs"] * APART_SECONDS
    is_new = await start(owner, client, seconds=seconds, store=store, began=began)
    kind = "started" if is_new else "planned"
    counts[kind] += 1
    counts["runs"] += is_new
    if not await _tidy_is_due(owner, deployment, store, began):
        return
    seconds = counts["runs"] * APART_SECONDS
    is_new = await start(owner, client, Trigger.TIDY, seconds, store=store, began=began)
    counts["runs"] += is_new


async def _tidy_is_due(
    owner: Owner, deployment: Deployment, store: BaseStore, began: journal.Began
) -> bool:
    """Whether `Consolidation.tidy_days` have passed since this was last so.

    They are counted from the owner's first sweep.
    """
    rules = deployment.consolidation
    if rules is None or not rules.tidy_days:
        return False
    place = namespaces.reading(owner.actor)
    key = f"tidied-{owner.key}"
    now = datetime.now(UTC)
    is_due = False
    item = await store.aget(place, key)
    if item is not None:
        last = time_of(item.value.get("at"))
        is_due = last <= now - timedelta(days=rules.tidy_days)
        if not is_due:
            return False
    value = {"at": now.isoformat()}
    put = PutOp(place, key, value, index=False)
    was_put = await journal.put_unless_forgotten(store, [put], began)
    return was_put and is_due


async def find_backlog(
    deployment: Deployment, client: LangGraphClient, store: BaseStore
) -> dict[str, Any]:
    """What a sweep would find now.

    `people` and their `conversations` are numbers; `oldest` is when the oldest of these changed.
    """
    due = await _all_due(deployment, client, store)
    return {
        "people": len({item.owner for item in due}),
        "conversations": len(due),
        "oldest": min((item.updated_at for item in due), default=None),
    }


async def _all_due(
    deployment: Deployment, client: LangGraphClient, store: BaseStore
) -> list[ChangedThread]:
    """Everybody's conversations with something new."""
    now = datetime.now(UTC)
    since = EARLIEST
    last = await store.aget(*namespaces.LAST_SWEEP)
    if last:
        began = time_of(last.value.get("began"))
        since = min(began, now) - LOOK_BACK
    since_microseconds = since.timestamp() * 1_000_000
    due = list[ChangedThread]()
    for graph in deployment.agents:
        pages = changed_since(client.threads, {"graph_id": graph}, since_microseconds)
        async for threads in pages:
            due += await changed_in(threads, deployment, store)
    return due
