"""The sweep starts a consolidation for everyone who is due, and deletes old conversations; the backlog shows what is due.

The cron of `python -m seeds` runs the sweep as an operator's run of `consolidation_agent` that names nobody.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import BaseStore, GetOp, PutOp
from langgraph_sdk.client import LangGraphClient

import settings as constants
from memory import identity, langgraph_internals, namespaces
from memory.consolidation.begins import utc_now
from memory.consolidation.positions import drop_positions
from memory.consolidation.slots import SLOTS
from memory.consolidation.trigger import Owner, start
from memory.controls import delete_idle, is_temporary, stays_out
from memory.recall import drop, threads_by_id, unindexed
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
# How much longer than `CONVERSATION_DAYS` a conversation may wait for its consolidation.
_GRACE = timedelta(days=7)
_FIELDS: list[Any] = ["thread_id", "updated_at", "metadata"]


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
    began, server = clock(), await _thread_list(settings)
    listed, before, due = namespaces.due(server), await _listed(store, server), set[str]()
    started: dict[Owner, bool] = {}
    async for threads in _recent(client, store, server, before, now=began, page_size=page_size):
        owners = await _due(threads, settings, store)
        due |= owners.keys()
        await store.abatch([PutOp(listed, thread_id, {}, index=False) for thread_id in owners])
        for owner in owners.values():
            if owner not in started:
                begun = time.monotonic()
                started[owner] = await _try_start(owner, client, store)
                await asyncio.sleep(_REST * (time.monotonic() - begun))
    over = [PutOp(listed, thread_id, None) for thread_id in before - due]
    for first in range(0, len(over), _PAGE):
        await store.abatch(over[first : first + _PAGE])
    await store.aput(namespaces.sweep(server), "mark", {"began": began.isoformat()}, index=False)
    return sum(started.values())


async def _try_start(owner: Owner, client: LangGraphClient, store: BaseStore) -> bool:
    try:
        return await start(owner, client, store, SLOTS.next_turn)
    except Exception as error:  # one person's failure is not everybody's; their conversations are due again at the next sweep
        logger.warning("No consolidation could be started for one person: %r. The next sweep tries.", error, exc_info=True)
        return False


async def _thread_list(settings: Settings) -> str:
    return await asyncio.to_thread(langgraph_internals.thread_list, local_dev=settings.local_dev)


async def _listed(store: BaseStore, server: str) -> set[str]:
    """Ids of the threads that were due at the last sweep."""
    listed, ids, read = namespaces.due(server), set[str](), 0
    while page := await store.asearch(listed, limit=_PAGE, offset=read):
        ids |= {item.key for item in page if item.namespace == listed}
        read += len(page)
    return ids


async def _recent(
    client: LangGraphClient, store: BaseStore, server: str, listed: set[str], *, now: datetime, page_size: int = _PAGE
) -> AsyncIterator[list[Any]]:
    """Pages of the conversations that changed since a little before the last sweep, newest first; then of the `listed` ones.

    A sweep later than now was one when the clock was ahead, and conversations have changed since: all are read.
    """
    mark = await store.aget(namespaces.sweep(server), "mark")
    since, seen = datetime.min.replace(tzinfo=UTC), set[str]()
    if mark:
        with suppress(ValueError, TypeError):  # of a damaged one: the sweep reads all conversations
            if (last := datetime.fromisoformat(str(mark.value.get("began")))) <= now:
                since = last - timedelta(seconds=SWEEP_MARGIN_SECONDS)
    for graph in agent_graphs():
        async for threads in _changed(client, graph, since, page_size):
            yield [thread for thread in threads if thread["thread_id"] not in seen]
            seen |= {thread["thread_id"] for thread in threads}
    left = sorted(listed - seen)
    for first in range(0, len(left), _PAGE):
        ids = left[first : first + _PAGE]
        yield await threads_by_id(client.threads, ids, [{"graph_id": graph} for graph in agent_graphs()], _FIELDS)


async def _changed(client: LangGraphClient, graph: str, since: datetime, page_size: int) -> AsyncIterator[list[Any]]:
    """Pages of an agent's conversations that changed since then, newest first, without their messages.

    Pages overlap by one conversation. If they do not, a deletion moved others up unseen, and the reading goes back for them.
    """
    offset, known = 0, set[str]()
    while True:
        page: list[Any] = await client.threads.search(
            metadata={"graph_id": graph},
            limit=page_size,
            offset=offset,
            sort_by="updated_at",
            sort_order="desc",
            select=_FIELDS,
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


async def _due(threads: Sequence[Any], settings: Settings, store: BaseStore) -> dict[str, Owner]:
    """The owners of those of these threads that have something new, by thread id."""
    owned = [(thread, owner) for thread in threads if not stays_out(thread) and (owner := _owner(thread, settings))]
    gets = [GetOp(namespaces.positions(owner.actor), thread["thread_id"]) for thread, owner in owned]
    pairs = zip(owned, await store.abatch(gets), strict=True)
    return {
        thread["thread_id"]: owner
        for (thread, owner), position in pairs
        if getattr(position, "value", {}).get("updated_at") != str(thread["updated_at"])
    }


def _owner(thread: Any, settings: Settings) -> Owner | None:
    """The owner that `auth.py` and the platform stamped on a conversation; None if no run could act for them."""
    actor, assistant_id = _actor(thread), (thread["metadata"] or {}).get("assistant_id")
    if actor is None or not isinstance(assistant_id, str):
        return None
    return Owner(actor, assistant_id if settings.memory_scope == "user+assistant" else None)


def _actor(thread: Any) -> identity.Actor | None:
    user_id, org_id = ((thread["metadata"] or {}).get(key) for key in ("user_id", "org_id"))
    if not (isinstance(user_id, str) and isinstance(org_id, str)):
        return None
    try:
        identity.check_person(actor := identity.Actor(user_id, org_id))
    except identity.IdentityError:
        return None
    return actor


async def delete_old(
    settings: Settings, client: LangGraphClient, store: BaseStore, now: datetime | None = None, days: int | None = None
) -> int:
    """Delete conversations `CONVERSATION_DAYS` after their last turn, with index and positions. Returns their number.

    One that is due is consolidated first, and goes with a later sweep; after `_GRACE` also if it could not be consolidated.
    Memory files stay. A crash leaves index entries and positions of missing threads, which are dropped on their next use.
    """
    if (days := days or constants.CONVERSATION_DAYS) is None:
        return 0
    before = (now or datetime.now(UTC)) - timedelta(days=days)

    async def spared(threads: list[Any]) -> set[str]:
        late = [each for each in threads if datetime.fromisoformat(str(each["updated_at"])) >= before - _GRACE]
        return set() if settings.memory_scope == "assistant" else {*await _due(late, settings, store)}

    deleted = [each for graph in agent_graphs() for each in await delete_idle(client, {"graph_id": graph}, before, spared)]
    owned = defaultdict[identity.Actor, list[str]](list)
    for thread in deleted:
        if actor := _actor(thread):  # without one it has no index
            owned[actor].append(thread["thread_id"])
    for actor, thread_ids in owned.items():
        await drop(store, actor, thread_ids)
        await drop_positions(store, actor, thread_ids)
    return len(deleted)


@dataclass(frozen=True, slots=True)
class Backlog:
    """The work that consolidation and the search index have to catch up with, over all people."""

    people: set[Owner]  # those with something new since their last consolidation
    conversations: int  # their new conversations
    oldest: str | None  # time stamp of the oldest of these
    unindexed: int  # conversations that the next search has to index first
    oldest_unindexed: str | None
    complete: bool  # False where there are more conversations than a backlog counts


async def find_backlog(settings: Settings, client: LangGraphClient, store: BaseStore) -> Backlog:
    """The backlog of the conversations that changed since the last sweep, and of those that were due then."""
    people, due, late, read, server = set[Owner](), list[str](), list[str](), 0, await _thread_list(settings)
    async for threads in _recent(client, store, server, await _listed(store, server), now=utc_now()):
        if read >= _MOST:
            break
        read += len(threads)
        owners = await _due(threads, settings, store)
        people |= set(owners.values())
        due += [str(thread["updated_at"]) for thread in threads if thread["thread_id"] in owners]
        late += await unindexed(
            store,
            [
                (owner.actor, thread["thread_id"], str(thread["updated_at"]))
                for thread in threads
                if not is_temporary(thread) and (owner := _owner(thread, settings))
            ],
        )
    return Backlog(people, len(due), min(due, default=None), len(late), min(late, default=None), complete=read < _MOST)
