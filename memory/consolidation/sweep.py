"""The sweep starts a consolidation for everyone who is due, and deletes old conversations; the backlog shows what is due.

The cron of `python -m seeds` runs the sweep as an operator's run of `consolidation_agent` that names nobody. It finds what the
runs after people's turns left: because a process died, a model failed, or those runs are switched off.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import BaseStore, GetOp
from langgraph_sdk.client import LangGraphClient

import settings as constants
from memory import identity, langgraph_internals, namespaces
from memory.consolidation.due import changed_since, drop_positions, time_of
from memory.consolidation.trigger import Owner, start
from memory.controls import delete_idle, is_temporary, stays_out
from memory.recall import drop, unindexed
from settings import Settings, agent_graphs

logger = logging.getLogger(__name__)

# The platform's own maximum for one search of threads.
_PAGE = 1_000
# The most conversations that a backlog counts.
_MOST = 10_000
# How far a sweep looks back, at least: so long a failed consolidation is tried again. Also how much longer than
# `CONVERSATION_DAYS` a conversation may wait for its consolidation.
_BACK = timedelta(days=7)
# Seconds between the begins of two people's runs, so that workers stay free for conversations.
APART_SECONDS = 4


async def sweep(settings: Settings, client: LangGraphClient, store: BaseStore, page_size: int = _PAGE) -> int:
    """Plan a consolidation for everyone with a conversation newer than its last consolidation. Returns the number of runs.

    The sweep reads the conversations that changed in the last days, or since the last sweep that ended, newest first: its cost
    follows activity. A person whose run fails stays due.
    """
    began, server, owners = datetime.now(UTC), await _thread_list(settings), dict[Owner, None]()
    async for threads in _recent(client, store, server, page_size):
        owners |= dict.fromkeys((await _due(threads, settings, store)).values())
    started = 0
    for owner in owners:
        try:
            started += await start(owner, client, after_seconds=started * APART_SECONDS)
        except Exception as error:  # one person's failure is not everybody's; their conversations are due again
            logger.warning("No consolidation could be started for one person: %r. The next sweep tries.", error, exc_info=True)
    await store.aput(namespaces.sweep(server), "mark", {"began": began.isoformat()}, index=False)
    return started


async def _thread_list(settings: Settings) -> str:
    return await asyncio.to_thread(langgraph_internals.thread_list, local_dev=settings.local_dev)


async def _recent(client: LangGraphClient, store: BaseStore, server: str, page_size: int = _PAGE) -> AsyncIterator[list[Any]]:
    """Pages of the conversations that changed since `_BACK` before the last sweep, newest first."""
    mark = await store.aget(namespaces.sweep(server), "mark")
    last = time_of(mark.value.get("began") if mark else None)
    since = min(last, datetime.now(UTC)) - _BACK if mark else last
    for graph in agent_graphs():
        async for threads in changed_since(client.threads, {"graph_id": graph}, since, page_size):
            yield threads


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

    One that is due is consolidated first, and goes with a later sweep; after `_BACK` also if it could not be consolidated.
    Memory files stay. A crash leaves index entries and positions of missing threads, which are dropped on their next use.
    """
    if (days := days or constants.CONVERSATION_DAYS) is None:
        return 0
    before = (now or datetime.now(UTC)) - timedelta(days=days)

    async def spared(threads: list[Any]) -> set[str]:
        late = [each for each in threads if time_of(each["updated_at"]) >= before - _BACK]
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
    """The backlog of the conversations that a sweep would read now."""
    people, due, late, read = set[Owner](), list[str](), list[str](), 0
    async for threads in _recent(client, store, await _thread_list(settings)):
        if read >= _MOST:
            break
        read += len(threads)
        owners = await _due(threads, settings, store)
        people |= set(owners.values())
        due += [str(thread["updated_at"]) for thread in threads if thread["thread_id"] in owners]
        owned = [(each, owner) for each in threads if not is_temporary(each) and (owner := _owner(each, settings))]
        late += await unindexed(store, [(owner.actor, each["thread_id"], str(each["updated_at"])) for each, owner in owned])
    return Backlog(people, len(due), min(due, default=None), len(late), min(late, default=None), complete=read < _MOST)
