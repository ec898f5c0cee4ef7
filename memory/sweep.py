"""The sweep: a consolidation for everybody who is due, whatever became of the runs planned after their turns.

The cron of `python -m seeds` runs it, as an operator's run of `consolidation_agent` that names nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import BaseStore, GetOp, Op, PutOp
from langgraph_sdk.client import LangGraphClient

from memory import scopes
from memory.triggers import Owner, start
from settings import SWEEP_MARGIN_SECONDS, Settings

logger = logging.getLogger(__name__)

# The platform's own maximum for one search of threads.
_PAGE = 1_000
# Runs that are created at once.
_AT_ONCE = 10
_FIELDS: list[Any] = ["thread_id", "updated_at", "metadata"]


async def sweep(settings: Settings, client: LangGraphClient, store: BaseStore) -> int:
    """Queue a consolidation for everybody with a conversation newer than its last consolidation; wait for none of them.

    Looked at are the conversations that changed since the last sweep began, newest first, and those that were due then: the
    cost follows who is active. A sweep that fails leaves the mark where it was; somebody whose run fails stays due.

    Returns:
        For how many a run was created.
    """
    began = datetime.now(UTC)
    mark = await store.aget(scopes.SWEEP, "mark")
    since = datetime.fromisoformat(mark.value["began"]) if mark else datetime.min.replace(tzinfo=UTC)
    carried = await _carried(store)
    started: dict[Owner, bool] = {}
    due: set[str] = set()
    async for threads in _changed(client, since - timedelta(seconds=SWEEP_MARGIN_SECONDS) if mark else since):
        due |= await _sweep_page(threads, started, settings, client, store)
    left = sorted(carried - due)
    for first in range(0, len(left), _PAGE):
        ids = left[first : first + _PAGE]
        threads = await client.threads.search(ids=ids, metadata={"graph_id": "agent"}, limit=_PAGE, select=_FIELDS)
        due |= await _sweep_page(threads, started, settings, client, store)
        await store.abatch([PutOp(scopes.DUE, thread_id, None) for thread_id in ids if thread_id not in due])
    await store.aput(scopes.SWEEP, "mark", {"began": began.isoformat()}, index=False)
    return sum(started.values())


async def _sweep_page(
    threads: Sequence[Any], started: dict[Owner, bool], settings: Settings, client: LangGraphClient, store: BaseStore
) -> set[str]:
    """Start runs for the owners of these threads that are due and not in `started` yet. Ids of the threads that are due."""
    owners = {str(thread["thread_id"]): owner for thread in threads if (owner := _owner(thread, settings))}
    gets = [GetOp(scopes.consolidation(owner.actor), thread_id) for thread_id, owner in owners.items()]
    positions = dict(zip(owners, await store.abatch(gets), strict=True)) if gets else {}
    changed = {str(thread["thread_id"]): str(thread["updated_at"]) for thread in threads}
    due = {thread_id for thread_id, item in positions.items() if _position(item) != changed[thread_id]}
    puts: list[Op] = [PutOp(scopes.DUE, thread_id, {"changed": changed[thread_id]}, index=False) for thread_id in due]
    await store.abatch(puts)
    new = list({owners[thread_id]: None for thread_id in owners if thread_id in due and owners[thread_id] not in started})
    for first in range(0, len(new), _AT_ONCE):
        some = new[first : first + _AT_ONCE]
        started.update(zip(some, await asyncio.gather(*(_try_start(owner, client, store) for owner in some)), strict=True))
    return due


async def _try_start(owner: Owner, client: LangGraphClient, store: BaseStore) -> bool:
    try:
        return await start(owner, client, store)
    except Exception as error:  # one person's failure is not everybody's; their conversations are due again at the next sweep
        logger.warning("No consolidation could be started for one person: %r. The next sweep tries.", error, exc_info=True)
        return False


async def _changed(client: LangGraphClient, since: datetime) -> AsyncIterator[list[Any]]:
    """Pages of the conversations that changed since then, newest first, without what was said in them.

    A page begins with a conversation of the page before. Where it does not, some were deleted meanwhile and others moved up
    unseen: then it goes back for them.
    """
    offset, known = 0, set[str]()
    while True:
        page: list[Any] = await client.threads.search(
            metadata={"graph_id": "agent"}, limit=_PAGE, offset=offset, sort_by="updated_at", sort_order="desc", select=_FIELDS
        )
        if offset and (not page or page[0]["thread_id"] not in known):
            offset = max(0, offset - _PAGE // 2)
            continue
        newer = [thread for thread in page if datetime.fromisoformat(str(thread["updated_at"])) >= since]
        yield newer
        if len(newer) < _PAGE:
            return
        known = {thread["thread_id"] for thread in page}
        offset += _PAGE - 1


async def _carried(store: BaseStore) -> set[str]:
    """Ids of the threads that were due at the last sweep."""
    found: set[str] = set()
    while page := await store.asearch(scopes.DUE, limit=_PAGE, offset=len(found)):
        found |= {item.key for item in page}
    return found


def _owner(thread: Any, settings: Settings) -> Owner | None:
    """The owner of a conversation as `auth.py` and the platform stamp it; None where no run could act for them."""
    stamped = thread["metadata"] or {}
    user_id, org_id, assistant_id = (stamped.get(key) for key in ("user_id", "org_id", "assistant_id"))
    if not (isinstance(user_id, str) and isinstance(org_id, str) and isinstance(assistant_id, str)):
        return None
    actor = scopes.Actor(user_id, org_id)
    try:
        scopes.check_person(actor)
    except scopes.IdentityError:
        return None
    return Owner(actor, assistant_id if settings.memory_scope == "user+assistant" else None)


def _position(item: Any) -> str | None:
    return item.value.get("updated_at") if item else None
