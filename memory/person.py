"""What is one person's: which namespaces of files, which threads; and forgetting it all.

Used outside of runs, where nobody scopes anything: the client given here sees everybody's threads, and the store everything.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from langgraph.store.base import BaseStore, PutOp, SearchOp
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError
from langgraph_sdk.schema import RunStatus

from memory import epochs, scopes
from settings import FORGET_GRACE_SECONDS, Settings

# Seconds that a cancelled run is given to end. One that takes longer is of an older epoch, and writes nothing.
STOP_SECONDS = 10.0
_PAGE = 100
_IDS = 1_000
_PASSES = 5


class StillWrittenError(Exception):
    """Something of a person's came back each time that it was deleted."""


async def memory_namespaces(store: BaseStore, actor: scopes.Actor, settings: Settings) -> list[scopes.Namespace]:
    """The namespaces of a person's memory files, one for each assistant under `user+assistant`; none where memory is shared.

    Those of which only the history is left are among them.
    """
    if settings.memory_scope == "assistant":
        return []
    if settings.memory_scope == "user":
        return [scopes.memories(actor, scopes.DEFAULT_AGENT_ASSISTANT, settings)]
    found: set[scopes.Namespace] = set()
    for prefix in (("memories",), scopes.journals(("memories",)), scopes.unsettled(("memories",))):
        offset, page = 0, [prefix]
        while page:
            page = await store.alist_namespaces(prefix=prefix, max_depth=len(prefix) + 1, limit=_IDS, offset=offset)
            offset += len(page)
            own = (("memories", namespace[-1]) for namespace in page if len(namespace) > len(prefix))
            found |= {namespace for namespace in own if scopes.is_memory_of(namespace, actor, settings)}
    return sorted(found)


def owner(actor: scopes.Actor) -> dict[str, str]:
    """Metadata of every thread of a person's, of whatever graph, as `auth.py` stamps it."""
    return {"user_id": actor.user_id, "org_id": actor.org_id}


async def conversations(client: LangGraphClient, actor: scopes.Actor, page: int) -> AsyncIterator[bytes]:
    """A person's conversations with the agent, with their values, `page` of them at a time: JSON objects with commas between.

    As the platform writes them, passed on unread: decoding what is encoded again at once would take several times as long, and
    a response that httpx has read whole stays in memory until Python looks for cycles.
    """
    metadata, ids = {**owner(actor), "graph_id": "agent"}, list[str]()
    while True:  # the ids first: pages of a list that changes meanwhile would skip some
        found = await client.threads.search(
            metadata=metadata, limit=_IDS, offset=len(ids), sort_by="thread_id", sort_order="asc", select=["thread_id"]
        )
        ids += [str(thread["thread_id"]) for thread in found]
        if len(found) < _IDS:
            break
    asked: dict[str, Any] = {"metadata": metadata, "limit": page, "select": ["thread_id", "created_at", "updated_at", "values"]}
    for start in range(0, len(ids), page):
        query = {**asked, "ids": ids[start : start + page]}
        async with client.http.client.stream("POST", "/threads/search", json=query) as answer:
            answer.raise_for_status()
            found_json = b"".join([part async for part in answer.aiter_bytes()])
        if objects := found_json.strip()[1:-1]:
            yield objects


async def forget(store: BaseStore, client: LangGraphClient, actor: scopes.Actor, settings: Settings) -> Counter[str]:
    """Delete everything of a person's but their epoch, and look again until nothing is left. Safe to repeat.

    Runs of theirs that are still going write nothing afterwards: first of all another epoch begins. Shared memory
    (`MEMORY_SCOPE=assistant`) stays. Checkpoints go with their threads: there are none under another spelling of a thread's id,
    which `request_bounds.py` refuses.

    Returns:
        How much was deleted: `runs` that were going or waiting, `threads`, and items of the store by the first part of their
        namespace (`memories`, `journal`, ...).

    Raises:
        StillWrittenError: something came back each time.
    """
    counts, stopped = Counter[str](), set[str]()
    for _ in range(_PASSES):
        await epochs.count_up(store, actor)
        if runs := await _stop_runs(client, actor, stopped):
            counts["runs"] += runs
            await epochs.count_up(store, actor)  # one of them may have begun after the first
        counts["threads"] += await _delete_threads(client, actor)
        counts += await _delete_items(store, actor, settings)
        await asyncio.sleep(FORGET_GRACE_SECONDS)
        await _delete_checkpoints(client, actor, stopped)
        if not await _is_anything_left(store, client, actor, settings):
            return +counts
    raise StillWrittenError


async def _namespaces(store: BaseStore, actor: scopes.Actor, settings: Settings) -> list[scopes.Namespace]:
    # Also what this person was remembered by before MEMORY_SCOPE was changed from its default.
    private = scopes.memories(actor, scopes.DEFAULT_AGENT_ASSISTANT, replace(settings, memory_scope="user"))
    return scopes.namespaces_of(actor, sorted({private, *await memory_namespaces(store, actor, settings)}))


async def _is_anything_left(store: BaseStore, client: LangGraphClient, actor: scopes.Actor, settings: Settings) -> bool:
    namespaces = await _namespaces(store, actor, settings)
    items = await store.abatch([SearchOp(namespace, limit=1) for namespace in namespaces])
    return any(items) or bool(await client.threads.search(metadata=owner(actor), limit=1, select=["thread_id"]))


async def _stop_runs(client: LangGraphClient, actor: scopes.Actor, stopped: set[str]) -> int:
    """Cancel what is going or waiting, and wait until it has ended; how many. Adds the ids of the threads to `stopped`."""
    busy = await _busy(client, actor)
    cancelled = sum(await asyncio.gather(*(_cancel(client, thread_id) for thread_id in busy)))
    stopped |= set(busy)
    deadline = time.monotonic() + STOP_SECONDS
    while busy and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
        busy = await _busy(client, actor)
    return cancelled


async def _busy(client: LangGraphClient, actor: scopes.Actor) -> list[str]:
    found = await client.threads.search(metadata=owner(actor), status="busy", limit=_IDS, select=["thread_id"])
    return [str(thread["thread_id"]) for thread in found]


async def _cancel(client: LangGraphClient, thread_id: str) -> int:
    """How many runs of a thread were cancelled."""
    with suppress(NotFoundError):  # the thread, or the last of its runs, ended meanwhile
        states: tuple[RunStatus, ...] = ("pending", "running")
        runs = [run for state in states for run in await client.runs.list(thread_id, limit=_PAGE, status=state)]
        going = [str(run["run_id"]) for run in runs]
        if going:
            await client.runs.cancel_many(thread_id=thread_id, run_ids=going)
        return len(going)
    return 0


async def _delete_threads(client: LangGraphClient, actor: scopes.Actor) -> int:
    """Delete all threads, and with them their runs and checkpoints; how many."""
    deleted = 0
    while found := await client.threads.search(metadata=owner(actor), limit=_PAGE, select=["thread_id"]):
        pruned = (await client.threads.prune([str(thread["thread_id"]) for thread in found]))["pruned_count"]
        deleted += int(pruned)
        if not pruned:
            break
    return deleted


async def _delete_checkpoints(client: LangGraphClient, actor: scopes.Actor, thread_ids: set[str]) -> None:
    """Delete what a cancelled run may have written after its thread was deleted.

    The platform deletes a thread's checkpoints with the thread, so for a moment there is one of the same id again.
    """
    for thread_id in thread_ids:
        with suppress(ConflictError, NotFoundError):
            await client.threads.create(thread_id=thread_id, metadata=owner(actor), if_exists="do_nothing")
            await client.threads.delete(thread_id)


async def _delete_items(store: BaseStore, actor: scopes.Actor, settings: Settings) -> Counter[str]:
    """Delete all items of all namespaces of a person's; how many."""
    counts = Counter[str]()
    for namespace in await _namespaces(store, actor, settings):
        seen = set[tuple[scopes.Namespace, str]]()
        while found := {(item.namespace, item.key) for item in await store.asearch(namespace, limit=_PAGE)} - seen:
            await store.abatch([PutOp(*place, None) for place in found])
            counts[namespace[0]] += len(found)
            seen |= found
    return counts
