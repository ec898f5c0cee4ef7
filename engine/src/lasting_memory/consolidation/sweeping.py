"""The sweep plans a consolidation for everybody who is due, and tidies from time to time."""

import logging
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TypedDict

from langgraph.store.base import BaseStore, PutOp
from langgraph_sdk.client import LangGraphClient

from lasting_memory.consolidation.changed_threads import (
    EARLIEST,
    ChangedThread,
    changed_in,
    time_of,
)
from lasting_memory.consolidation.owners import Owner
from lasting_memory.consolidation.schedule import Trigger, start
from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.recall import changed_since

logger = logging.getLogger(__name__)

# By so much a sweep looks back before the last one: so long a failed consolidation is tried again.
LOOK_BACK = timedelta(days=7)
# Seconds between the starts of two runs, so that workers stay free for conversations.
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
    due_threads = await _all_due(deployment, client, store)
    owners = dict.fromkeys(item.owner for item in due_threads)
    for owner in owners:
        counts["due"] += 1
        writer = journal.Writer(owner.actor, began)
        try:
            await _plan_runs(owner, writer, deployment, client, store, counts=counts)
        # One person's failure is not everybody's. Their conversations are due again.
        except Exception as error:
            logger.warning(
                "No consolidation could be started for one person: %r. The next sweep tries.",
                error,
                exc_info=True,
            )
    await store.aput(*namespaces.LAST_SWEEP, {"began": began}, index=False)
    return counts


async def _plan_runs(
    owner: Owner,
    writer: journal.Writer,
    deployment: Deployment,
    client: LangGraphClient,
    store: BaseStore,
    *,
    counts: Counter[str],
) -> None:
    """Plan the runs of one owner, some seconds after those in `counts`, and count them there. None
    for an owner who was forgotten since the sweep began.
    """
    if await journal.is_forgotten(store, writer):
        return
    seconds = counts["runs"] * APART_SECONDS
    if await start(owner, client, seconds=seconds, store=store, writer=writer):
        counts["started"] += 1
        counts["runs"] += 1
    else:
        counts["planned"] += 1
    if not await _tidy_is_due(owner, deployment, store, writer):
        return
    seconds = counts["runs"] * APART_SECONDS
    if await start(owner, client, Trigger.TIDY, seconds, store=store, writer=writer):
        counts["runs"] += 1


async def _tidy_is_due(
    owner: Owner, deployment: Deployment, store: BaseStore, writer: journal.Writer
) -> bool:
    """Whether `Consolidation.tidy_days` have passed since this was last so, or since the owner's
    first sweep. If so, or if this is the first sweep, the present time is stored.

    False, too, if the owner was forgotten since the sweep began.
    """
    rules = deployment.consolidation
    if rules is None or not rules.tidy_days:
        return False
    place = namespaces.reading(owner.actor)
    key = f"tidied-{owner.key}"
    now = datetime.now(UTC)
    item = await store.aget(place, key)
    is_first_sweep = item is None
    if item is not None:
        last_tidy_time = time_of(item.value.get("at"))
        if last_tidy_time > now - timedelta(days=rules.tidy_days):
            return False
    value = {"at": now.isoformat()}
    op = PutOp(place, key, value, index=False)
    is_put = await journal.put_unless_forgotten(store, [op], writer)
    if is_first_sweep:
        return False
    return is_put


class Backlog(TypedDict):
    """What is due: the numbers of people and of their conversations, and when the oldest of these
    changed; None without one.
    """

    people: int
    conversations: int
    oldest: str | None


async def find_backlog(
    deployment: Deployment, client: LangGraphClient, store: BaseStore
) -> Backlog:
    """What a sweep would find now."""
    due_threads = await _all_due(deployment, client, store)
    people = {item.owner for item in due_threads}
    times = [item.updated_at for item in due_threads]
    return {
        "people": len(people),
        "conversations": len(due_threads),
        "oldest": min(times, default=None),
    }


async def _all_due(
    deployment: Deployment, client: LangGraphClient, store: BaseStore
) -> list[ChangedThread]:
    """Everybody's conversations that changed since they were consolidated, as far back as a sweep
    looks.
    """
    earliest = EARLIEST
    last_sweep = await store.aget(*namespaces.LAST_SWEEP)
    if last_sweep is not None:
        last_sweep_time = time_of(last_sweep.value.get("began"))
        now = datetime.now(UTC)  # a time in the future is of a clock that was wrong
        earliest = min(last_sweep_time, now) - LOOK_BACK
    earliest_microseconds = earliest.timestamp() * 1_000_000
    due_threads = list[ChangedThread]()
    for graph in deployment.agents:
        metadata = {"graph_id": graph}
        async for threads in changed_since(client.threads, metadata, earliest_microseconds):
            due_threads += await changed_in(threads, deployment, store)
    return due_threads
