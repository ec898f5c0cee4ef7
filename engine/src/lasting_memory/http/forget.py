"""Forgetting a person: deletes everything of theirs, and keeps earlier runs from writing afterwards."""

import asyncio
import json
import logging
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from langgraph.store.base import BaseStore, PutOp, SearchOp
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import RunStatus
from starlette.exceptions import HTTPException

from lasting_memory import journal, platform
from lasting_memory.deployment import Deployment
from lasting_memory.http.requests import AboutQuery, Answer, Caller, NoBody, memory_namespaces
from lasting_memory.people import identity
from lasting_memory.people.namespaces import Namespace, namespaces_of, person

logger = logging.getLogger("api")
router = APIRouter(tags=["Memory"])

# Seconds that cancelled runs have to end. A slower run writes no memory, because it began before.
STOP_SECONDS = 10.0
# Seconds in which what is being written at this moment lands, before all is deleted.
FORGET_GRACE_SECONDS = 0.5
_PAGE = 100
_IDS = 1_000
_PASSES = 5


async def forget(store: BaseStore, client: LangGraphClient, actor: identity.Actor, deployment: Deployment) -> Counter[str]:
    """Delete everything of a person except the time of that, until nothing is left. Safe to repeat.

    The time is written first, so runs under way write nothing afterwards. A thread whose run cannot be stopped stays, because
    the run would put checkpoints that nothing leads to. Raises `HTTPException` 503 then, and if something comes back each time.

    Returns deleted `runs`, `threads`, and items of the store by the first part of their namespace (`memories`, `journal`, ...).
    """
    counts, stopped, going, deadline = Counter[str](), set[str](), set[str](), time.monotonic() + STOP_SECONDS
    files = set[Namespace]()
    for _ in range(_PASSES):
        await journal.forget(store, actor)
        going = await _stop_runs(client, actor, stopped, deadline)
        if counts["runs"] != len(stopped):
            counts["runs"] = len(stopped)
            await journal.forget(store, actor)  # a run may have begun after the first
        await asyncio.sleep(FORGET_GRACE_SECONDS)
        counts["threads"] += await _delete_threads(client, actor, going)
        files |= await _files(store, actor, deployment)
        for namespace in namespaces_of(actor, sorted(files)):
            counts[namespace[0]] += await _delete_items(store, namespace)
        files |= await _files(store, actor, deployment)  # also of what was written meanwhile
        searches = [SearchOp(namespace, limit=1) for namespace in namespaces_of(actor, sorted(files))]
        if not any(await store.abatch(searches)) and not await _own(client, actor):
            return +counts
    why = f"Runs of yours could not be stopped yet: {', '.join(going)}." if going else "Something of yours came back each time."
    raise HTTPException(503, f"{why} All else is deleted; call again.")


async def _files(store: BaseStore, actor: identity.Actor, deployment: Deployment) -> set[Namespace]:
    # Also the namespace of the default MEMORY_SCOPE, which the deployment may have had before.
    private = person().namespace(actor, deployment.default_assistant)
    return {private, *await memory_namespaces(store, actor, deployment)}


async def _stop_runs(client: LangGraphClient, actor: identity.Actor, stopped: set[str], deadline: float) -> set[str]:
    """Cancel all runs and wait until they have ended. Adds their ids to `stopped`; returns the threads in which one goes on."""
    states: tuple[RunStatus, ...] = ("pending", "running")
    cancelled = set[str]()
    while True:
        busy = going = await _own(client, actor, status="busy")
        if platform.runs_going is not None:
            counted = [thread_id for thread_id, runs in platform.runs_going.items() if runs > 0]
            going = await _own(client, actor, ids=counted) if counted else set()
        for thread_id in busy | going:
            with suppress(NotFoundError):  # the thread, or the last of its runs, ended meanwhile
                runs = [run for state in states for run in await client.runs.list(thread_id, limit=_PAGE, status=state)]
                if run_ids := {str(run["run_id"]) for run in runs} - cancelled:
                    await client.runs.cancel_many(thread_id=thread_id, run_ids=[*run_ids])
                    cancelled |= run_ids
                    stopped |= run_ids
        if not going or time.monotonic() > deadline:
            return going
        await asyncio.sleep(0.05)


async def _own(client: LangGraphClient, actor: identity.Actor, **wanted: Any) -> set[str]:
    threads = await client.threads.search(**wanted, metadata=asdict(actor), limit=_IDS, select=["thread_id"])
    return {str(thread["thread_id"]) for thread in threads}


async def _delete_threads(client: LangGraphClient, actor: identity.Actor, going: set[str]) -> int:
    """Delete all threads but these, with their runs and checkpoints; returns their number."""
    deleted, pruned = 0, 1
    while pruned:
        thread_ids = sorted(await _own(client, actor) - going)
        pruned = int((await client.threads.prune(thread_ids))["pruned_count"]) if thread_ids else 0
        deleted += pruned
    return deleted


async def _delete_items(store: BaseStore, namespace: Namespace) -> int:
    deleted = 0
    while items := await store.asearch(namespace, limit=_PAGE):
        await store.abatch([PutOp(item.namespace, item.key, None) for item in items])
        deleted += len(items)
    return deleted


@router.delete("/memory")
async def forget_me(caller: Caller, query: AboutQuery, body: NoBody = None) -> Answer:
    """Forget everything of yours, for good.

    Memory, its history, conversations and runs; runs that were going write nothing afterwards. `deleted`: how much of what;
    `kept`: what stays, and why. 503: something came back, or runs could not be stopped, which `detail` names: call again.
    """
    actor = caller.actor
    try:
        async with get_client() as client:
            deleted = await forget(caller.store, client, actor, caller.deployment)
            # Of conversations that a killed development server lost from its list.
            deleted["unlisted_threads"] = await platform.delete_checkpoints(client, actor.user_id, actor.org_id)
    finally:
        # A warning, so that no usual log level hides it. Failed attempts are logged, too.
        logger.warning("AUDIT memory.forget org=%r user=%r by=%r", actor.org_id, actor.user_id, caller.author.user_id)
    traces = f'and(eq(metadata_key, "user_id"), eq(metadata_value, {json.dumps(actor.user_id)}))'
    kept = [
        "The time at which you were forgotten, with your identity and nothing else: runs from before are known by it.",
        f"Traces, where this deployment sends them to LangSmith. An operator finds them there by {traces}",
        *[f"Files in {path}: they are the group's." for path, of in caller.deployment.routes.items() if of.claim],
        *["Shared memory (MEMORY_SCOPE=assistant): it is everybody's."] * caller.deployment.memory.is_shared,
    ]
    return {"deleted": {"runs": 0, "threads": 0, "memories": 0, **+deleted}, "kept": kept}
