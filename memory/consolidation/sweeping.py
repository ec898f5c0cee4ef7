"""The sweep starts a consolidation for everyone who is due; the backlog shows operators how much is due.

The cron of `python -m seeds` runs the sweep as an operator's run of `consolidation_agent` that names nobody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import BaseStore, GetOp, Op, PutOp
from langgraph_sdk.client import LangGraphClient

from memory import identity, langgraph_internals, namespaces
from memory.consolidation.begins import utc_now
from memory.consolidation.slots import SLOTS
from memory.consolidation.trigger import Owner, start
from memory.controls import is_temporary, stays_out
from memory.recall import threads_by_id, unindexed
from settings import Settings, agent_graphs

logger = logging.getLogger(__name__)

# The platform's own maximum for one search of threads.
_PAGE = 1_000
# The most conversations that a backlog counts.
_MOST = 10_000
# The sweep rests this many times as long as it took to plan a run, which leaves four fifths of the time to conversations.
_REST = 4
# Seconds by which a sweep looks back beyond the start of the last one: clocks differ, and turns commit late.
SWEEP_MARGIN_SECONDS = 600
FIELDS: list[Any] = ["thread_id", "updated_at", "metadata"]


async def sweep(
    settings: Settings,
    client: LangGraphClient,
    store: BaseStore,
    clock: Callable[[], datetime] = utc_now,
    page_size: int = _PAGE,
) -> int:
    """Plan a consolidation for everyone with a conversation newer than its last consolidation. Returns the number of runs.

    The runs begin as slots come free (`memory/consolidation/slots.py`). The sweep reads the conversations changed since the
    last sweep of this list of threads began, newest first, and those that were due then: its cost follows activity. A failed
    sweep leaves the mark where it was; a person whose run fails stays due.
    """
    began = clock()
    server = await asyncio.to_thread(langgraph_internals.thread_list, local_dev=settings.local_dev)
    here, listed = namespaces.sweep(server), namespaces.due(server)
    since, before = await last_sweep(store, server), await carried(store, listed)
    started: dict[Owner, bool] = {}
    due: set[str] = set()
    for graph in agent_graphs():
        async for threads in changed_threads(client, graph, since, page_size):
            due |= await _sweep_page(threads, started, settings, client, store, listed=listed)
    left = sorted(before - due)
    for first in range(0, len(left), _PAGE):
        ids = left[first : first + _PAGE]
        threads = await threads_by_id(client.threads, ids, [{"graph_id": graph} for graph in agent_graphs()], FIELDS)
        due |= await _sweep_page(threads, started, settings, client, store, listed=listed)
        await store.abatch([PutOp(listed, thread_id, None) for thread_id in ids if thread_id not in due])
    await store.aput(here, "mark", {"began": began.isoformat()}, index=False)
    return sum(started.values())


async def last_sweep(store: BaseStore, server: str) -> datetime:
    """The time from which a sweep reads a list of threads: a little before the last sweep began."""
    mark = await store.aget(namespaces.sweep(server), "mark")
    if mark is None:
        return datetime.min.replace(tzinfo=UTC)
    return datetime.fromisoformat(mark.value["began"]) - timedelta(seconds=SWEEP_MARGIN_SECONDS)


async def _sweep_page(
    threads: Sequence[Any],
    started: dict[Owner, bool],
    settings: Settings,
    client: LangGraphClient,
    store: BaseStore,
    *,
    listed: namespaces.Namespace,
) -> set[str]:
    """Plan runs for the owners of due threads who are not in `started` yet. Returns the ids of the due threads."""
    owners = {
        str(thread["thread_id"]): owner for thread in threads if not stays_out(thread) and (owner := owner_of(thread, settings))
    }
    gets = [GetOp(namespaces.positions(owner.actor), thread_id) for thread_id, owner in owners.items()]
    positions = dict(zip(owners, await store.abatch(gets), strict=True)) if gets else {}
    changed = {str(thread["thread_id"]): str(thread["updated_at"]) for thread in threads}
    due = {thread_id for thread_id, item in positions.items() if noted(item) != changed[thread_id]}
    puts: list[Op] = [PutOp(listed, thread_id, {"changed": changed[thread_id]}, index=False) for thread_id in due]
    await store.abatch(puts)
    new = list({owners[thread_id]: None for thread_id in owners if thread_id in due and owners[thread_id] not in started})
    for owner in new:
        begun = time.monotonic()
        started[owner] = await _try_start(owner, client, store)
        await asyncio.sleep(_REST * (time.monotonic() - begun))
    return due


async def _try_start(owner: Owner, client: LangGraphClient, store: BaseStore) -> bool:
    try:
        return await start(owner, client, store, SLOTS.next_turn)
    except Exception as error:  # one person's failure is not everybody's; their conversations are due again at the next sweep
        logger.warning("No consolidation could be started for one person: %r. The next sweep tries.", error, exc_info=True)
        return False


async def changed_threads(
    client: LangGraphClient, graph: str, since: datetime, page_size: int = _PAGE
) -> AsyncIterator[list[Any]]:
    """Pages of an agent's conversations that changed since then, newest first, without their messages.

    Pages overlap by one conversation. If they do not, a deletion moved others up unseen, and the reading goes back for them.
    """
    offset, known = 0, set[str]()
    while True:
        page: list[Any] = await client.threads.search(
            metadata={"graph_id": graph}, limit=page_size, offset=offset, sort_by="updated_at", sort_order="desc", select=FIELDS
        )
        if offset and (not page or page[0]["thread_id"] not in known):
            offset = max(0, offset - page_size // 2)
            continue
        newer = [thread for thread in page if datetime.fromisoformat(str(thread["updated_at"])) >= since]
        yield newer
        if len(newer) < page_size:
            return
        known = {thread["thread_id"] for thread in page}
        offset += page_size - 1


async def carried(store: BaseStore, listed: namespaces.Namespace) -> set[str]:
    """Ids of the threads that were due at the last sweep."""
    ids: set[str] = set()
    read = 0
    while page := await store.asearch(listed, limit=_PAGE, offset=read):
        ids |= {item.key for item in page if item.namespace == listed}
        read += len(page)
    return ids


def owner_of(thread: Any, settings: Settings) -> Owner | None:
    """The owner that `auth.py` and the platform stamped on a conversation; None if no run could act for them."""
    stamped = thread["metadata"] or {}
    user_id, org_id, assistant_id = (stamped.get(key) for key in ("user_id", "org_id", "assistant_id"))
    if not (isinstance(user_id, str) and isinstance(org_id, str) and isinstance(assistant_id, str)):
        return None
    actor = identity.Actor(user_id, org_id)
    try:
        identity.check_person(actor)
    except identity.IdentityError:
        return None
    return Owner(actor, assistant_id if settings.memory_scope == "user+assistant" else None)


def noted(item: Any) -> str | None:
    return item.value.get("updated_at") if item else None


@dataclass
class Backlog:
    """The work that consolidation and the search index have to catch up with, over all people.

    Args:
        people: those with something new since their last consolidation.
        conversations: the number of their new conversations.
        oldest: time stamp of the oldest of these.
        unindexed: number of conversations that the next search has to index first.
        oldest_unindexed: time stamp of the oldest of these.
        complete: False where there are more conversations than a backlog counts.
    """

    people: set[Owner] = field(default_factory=set)
    conversations: int = 0
    oldest: str | None = None
    unindexed: int = 0
    oldest_unindexed: str | None = None
    complete: bool = True


async def find_backlog(settings: Settings, client: LangGraphClient, store: BaseStore) -> Backlog:
    """The backlog of the conversations that changed since the last sweep, and of those that were due then."""
    server = await asyncio.to_thread(langgraph_internals.thread_list, local_dev=settings.local_dev)
    backlog, seen = Backlog(), set[str]()
    since = await last_sweep(store, server)
    for graph in agent_graphs():
        async for threads in changed_threads(client, graph, since):
            await _add(backlog, [thread for thread in threads if thread["thread_id"] not in seen], settings, store)
            seen |= {str(thread["thread_id"]) for thread in threads}
            if len(seen) >= _MOST:
                backlog.complete = False
                break
    left = sorted(await carried(store, namespaces.due(server)) - seen)
    backlog.complete = backlog.complete and len(left) <= _MOST
    for first in range(0, min(len(left), _MOST), 1_000):
        ids = left[first : first + 1_000]
        threads = await threads_by_id(client.threads, ids, [{"graph_id": graph} for graph in agent_graphs()], FIELDS)
        await _add(backlog, threads, settings, store)
    return backlog


async def _add(backlog: Backlog, threads: list[Any], settings: Settings, store: BaseStore) -> None:
    owned = [(thread, owner) for thread in threads if not is_temporary(thread) and (owner := owner_of(thread, settings))]
    if not owned:
        return
    gets = [GetOp(namespaces.positions(owner.actor), str(thread["thread_id"])) for thread, owner in owned]
    for (thread, owner), position in zip(owned, await store.abatch(gets), strict=True):
        if not stays_out(thread) and noted(position) != str(thread["updated_at"]):
            backlog.people.add(owner)
            backlog.conversations += 1
            backlog.oldest = min(backlog.oldest or "~", str(thread["updated_at"]))
    asked = [(owner.actor, str(thread["thread_id"]), str(thread["updated_at"])) for thread, owner in owned]
    late = await unindexed(store, asked)
    backlog.unindexed += len(late)
    backlog.oldest_unindexed = min([*late, *filter(None, [backlog.oldest_unindexed])], default=None)
