"""Forgetting a person: deletes everything of theirs, and keeps earlier runs from writing afterwards."""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from langgraph.store.base import BaseStore, PutOp, SearchOp
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError
from langgraph_sdk.schema import RunStatus
from starlette.exceptions import HTTPException

from access.admission import ADMISSION
from api.person import memory_namespaces
from api.requests import About, Caller, check_no_body, json_response
from memory import identity, journal, langgraph_internals
from memory.namespaces import Namespace, memories, namespaces_of
from settings import Settings

logger = logging.getLogger("api")
router = APIRouter(tags=["Memory"])

# Seconds that cancelled runs have to end. A slower run writes no memory, because it began before.
STOP_SECONDS = 10.0
# Grace period, in seconds, before checking for in-flight writes after a person is forgotten.
FORGET_GRACE_SECONDS = 0.5
_PAGE = 100
_IDS = 1_000
_PASSES = 5
# Conversations that an answer names.
_SHOWN = 10

DeleteCheckpoints = Callable[[LangGraphClient, str, str], Awaitable[int]]


class StillWrittenError(Exception):
    """Data of a person came back after each deletion."""


class StillRunningError(Exception):
    """Runs of a person could not be stopped; `thread_ids` are their conversations. All else is deleted."""

    def __init__(self, thread_ids: Collection[str]) -> None:
        super().__init__(thread_ids)
        self.thread_ids = sorted(thread_ids)


async def forget(
    store: BaseStore,
    client: LangGraphClient,
    actor: identity.Actor,
    settings: Settings,
    delete_checkpoints: DeleteCheckpoints | None = None,
    *,
    crowded: Collection[str] = (),
) -> Counter[str]:
    """Delete everything of a person except the time of that, until nothing is left. Safe to repeat.

    The time is written first, so runs under way write nothing afterwards. Shared memory (`MEMORY_SCOPE=assistant`) stays.
    Checkpoints go with their threads: `access/request_bounds.py` refuses other spellings of a thread's id. A thread whose run
    cannot be stopped stays, because the run would put checkpoints that nothing leads to. Raises `StillRunningError` then, and
    `StillWrittenError` if something came back after each of several deletions.

    Args:
        delete_checkpoints: deletes a person's checkpoints whose threads are gone; returns the number of threads.
        crowded: the person's threads that may have runs though the platform does not call them busy.

    Returns:
        Deleted `runs`, `threads`, `unlisted_threads` (only left as checkpoints), and items of the store by the first part of
        their namespace (`memories`, `journal`, ...).
    """
    counts, stopped, going, deadline = Counter[str](), set[str](), set[str](), time.monotonic() + STOP_SECONDS
    files = set[Namespace]()
    for _ in range(_PASSES):
        await journal.forget(store, actor)
        runs, going = await _stop_runs(client, actor, stopped, crowded, deadline)
        if runs:
            counts["runs"] += runs
            await journal.forget(store, actor)  # a run may have begun after the first
        counts["threads"] += await _delete_threads(client, actor, going)
        files |= await _files(store, actor, settings)
        counts += await _delete_items(store, namespaces_of(actor, sorted(files)))
        await asyncio.sleep(FORGET_GRACE_SECONDS)
        await _delete_checkpoints(client, actor, stopped - going)
        if delete_checkpoints:
            counts["unlisted_threads"] += await delete_checkpoints(client, actor.user_id, actor.org_id)
        files |= await _files(store, actor, settings)  # also of what was written meanwhile
        if not await _is_anything_left(store, client, actor, namespaces_of(actor, sorted(files))):
            return +counts
    raise StillRunningError(going) if going else StillWrittenError


async def _files(store: BaseStore, actor: identity.Actor, settings: Settings) -> set[Namespace]:
    # Also the namespace of the default MEMORY_SCOPE, which the deployment may have had before.
    private = memories(actor, identity.DEFAULT_AGENT_ASSISTANT, replace(settings, memory_scope="user"))
    return {private, *await memory_namespaces(store, actor, settings)}


async def _is_anything_left(
    store: BaseStore, client: LangGraphClient, actor: identity.Actor, namespaces: Sequence[Namespace]
) -> bool:
    items = await store.abatch([SearchOp(namespace, limit=1) for namespace in namespaces])
    return any(items) or bool(await _own(client, actor, limit=1))


async def _stop_runs(
    client: LangGraphClient, actor: identity.Actor, stopped: set[str], crowded: Collection[str], deadline: float
) -> tuple[int, set[str]]:
    """Cancel all runs and wait until they have ended. Returns their number, and the threads in which one goes on after the
    deadline; adds all their threads to `stopped`.
    """
    busy = await _own(client, actor, status="busy")
    stopped |= busy | (await _own(client, actor, ids=list(crowded)) if crowded else set())
    cancelled = sum(await asyncio.gather(*(_cancel(client, thread_id) for thread_id in stopped)))
    while (going := langgraph_internals.threads_going(stopped, busy)) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
        busy = await _own(client, actor, status="busy")
    return cancelled, going


async def _own(client: LangGraphClient, actor: identity.Actor, **wanted: Any) -> set[str]:
    """Ids of the actor's threads that are as wanted. Of ids, too: a deleted thread's may be another person's by now."""
    threads = await client.threads.search(**{"limit": _IDS, **wanted}, metadata=asdict(actor), select=["thread_id"])
    return {str(thread["thread_id"]) for thread in threads}


async def _cancel(client: LangGraphClient, thread_id: str) -> int:
    """Cancel the runs of a thread; returns their number."""
    states: tuple[RunStatus, ...] = ("pending", "running")
    with suppress(NotFoundError):  # the thread, or the last of its runs, ended meanwhile
        runs = [run for state in states for run in await client.runs.list(thread_id, limit=_PAGE, status=state)]
        if runs:
            await client.runs.cancel_many(thread_id=thread_id, run_ids=[str(run["run_id"]) for run in runs])
        return len(runs)
    return 0


async def _delete_threads(client: LangGraphClient, actor: identity.Actor, going: set[str]) -> int:
    """Delete all threads but these, with their runs and checkpoints; returns their number."""
    deleted, pruned = 0, 1
    while pruned:
        thread_ids = sorted(await _own(client, actor, limit=min(_IDS, _PAGE + len(going))) - going)
        pruned = int((await client.threads.prune(thread_ids))["pruned_count"]) if thread_ids else 0
        deleted += pruned
    return deleted


async def _delete_checkpoints(client: LangGraphClient, actor: identity.Actor, thread_ids: set[str]) -> None:
    """Delete checkpoints that a cancelled run wrote after its thread was deleted.

    The platform deletes checkpoints with their thread only, so each thread exists again for a moment.
    """
    for thread_id in thread_ids:
        with suppress(ConflictError, NotFoundError):
            thread = await client.threads.create(thread_id=thread_id, metadata=asdict(actor), if_exists="do_nothing")
            if asdict(actor).items() <= (thread["metadata"] or {}).items():  # it may be another person's by now
                await client.threads.delete(thread_id)


async def _delete_items(store: BaseStore, namespaces: Sequence[Namespace]) -> Counter[str]:
    """Delete all items in these namespaces; returns their numbers."""
    counts = Counter[str]()
    for namespace in namespaces:
        seen = set[tuple[Namespace, str]]()
        while keys := {(item.namespace, item.key) for item in await store.asearch(namespace, limit=_PAGE)} - seen:
            await store.abatch([PutOp(*key, None) for key in keys])
            counts[namespace[0]] += len(keys)
            seen |= keys
    return counts


@router.delete("/memory", dependencies=[Depends(check_no_body)])
async def forget_me(caller: Caller, query: Annotated[About, Query()]) -> Response:
    """Forget everything of yours, for good.

    Memory files, their history, what was derived from conversations, conversations with their checkpoints, and runs that are
    going or waiting. Runs that were going write nothing afterwards. Safe to repeat. `deleted`: how much of what; `kept`: what
    stays, and why. 503: something came back each time that it was deleted, or runs could not be stopped, which `detail` names:
    call again. All else is deleted.
    """
    actor = caller.actor
    try:
        async with get_client() as client:
            crowded = ADMISSION.crowded(caller.key)
            deleted = await forget(
                caller.store, client, actor, caller.settings, langgraph_internals.delete_checkpoints, crowded=crowded
            )
    except StillRunningError as error:
        detail = (
            f"Runs of yours in {len(error.thread_ids)} conversations could not be stopped yet: "
            f"{', '.join(error.thread_ids[:_SHOWN])}. They write nothing to your memory any more. "
            "All else is deleted; call again to delete these, too."
        )
        raise HTTPException(503, detail) from None
    except StillWrittenError:
        raise HTTPException(
            503, "Something of yours came back after each deletion; stop your clients and call again."
        ) from None
    finally:
        # A warning, so that no usual log level hides it. Failed attempts are logged, too.
        logger.warning("AUDIT memory.forget org=%r user=%r by=%r", actor.org_id, actor.user_id, caller.author.user_id)
    kept = ["The time at which you were forgotten, with your identity and nothing else: runs from before are known by it."]
    query_of_traces = f'and(eq(metadata_key, "user_id"), eq(metadata_value, {json.dumps(actor.user_id)}))'
    kept.append(f"Traces, where this deployment sends them to LangSmith. An operator finds them there by {query_of_traces}")
    if caller.settings.memory_scope == "assistant":
        kept.append("Shared memory (MEMORY_SCOPE=assistant): it is everybody's.")
    return json_response({"deleted": {"runs": 0, "threads": 0, "memories": 0, **deleted}, "kept": kept})
