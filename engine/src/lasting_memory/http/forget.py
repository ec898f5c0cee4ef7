"""Forgetting a person: everything of theirs is deleted, and earlier runs write nothing afterwards."""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from langgraph.store.base import BaseStore, PutOp, SearchOp
from langgraph_sdk.client import LangGraphClient
from starlette.exceptions import HTTPException

from lasting_memory import checkpoints, platform
from lasting_memory.conversations.stopping import cancel_runs
from lasting_memory.deployment import Deployment
from lasting_memory.http import requests
from lasting_memory.http.models import Forgotten, Stays
from lasting_memory.http.requests import AboutQuery, Caller, NoBody
from lasting_memory.memory import journal
from lasting_memory.memory.offers import OffersOfPerson
from lasting_memory.people import identity, namespaces, scopes
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import get_client
from lasting_memory.recall import owned_by, stop_embedding

logger = logging.getLogger("api")
router = requests.memory_router()
# Threads that are found at once.
_IDS = 1_000
# Seconds that cancelled runs have to end. A slower run writes no memory, because it began before.
STOP_SECONDS = 10.0
# Seconds in which what is being written at this moment lands, before all is deleted.
FORGET_GRACE_SECONDS = 0.5
# How often what came back is deleted.
_PASSES = 5
# Items, threads and runs that are deleted at once: others' requests come in between.
_DELETED = 100


@router.delete("/memory")
async def forget_me(caller: Caller, query: AboutQuery, body: NoBody = None) -> Forgotten:
    """Forget everything of yours, for good.

    Memory, its history, conversations and runs; runs that were going write nothing afterwards. 503:
    something came back, or runs could not be stopped, which `detail` names: call again.
    """
    actor = caller.actor
    try:
        async with get_client() as client:
            conversations = 0
            for metadata in owned_by(actor, caller.deployment.agents):
                conversations += await client.threads.count(metadata=metadata)
            deleted = await forget(caller.store, client, actor, caller.deployment)
            deleted["conversations"] = conversations
            # Of conversations that a killed development server lost from its list.
            deleted["unlisted_threads"] = await checkpoints.delete_checkpoints(
                client, actor.user_id, actor.org_id
            )
        if platform.flush:
            await platform.flush()
    finally:
        # A warning, so that no usual log level hides it. Failed attempts are logged, too.
        logger.warning(
            "AUDIT memory.forget org=%r user=%r by=%r",
            actor.org_id,
            actor.user_id,
            caller.author.user_id,
        )
    return Forgotten(
        deleted={"runs": 0, "threads": 0, "memories": 0, **+deleted},
        kept=_kept(caller.deployment, actor),
        stays=_stays(caller.deployment),
    )


def _kept(deployment: Deployment, actor: identity.Actor) -> list[str]:
    """What stays of a person who is forgotten, in sentences."""
    traces = f'and(eq(metadata_key, "user_id"), eq(metadata_value, {json.dumps(actor.user_id)}))'
    kept = [
        "The time at which you were forgotten, with your identity and nothing else: runs from before are known by it.",
        f"Traces, where this deployment sends them to LangSmith. An operator finds them there by {traces}",
    ]
    for path, scope in deployment.routes.items():
        if scope.claim:
            kept.append(
                f"Files in {path}: they are the group's, with the lines of yours that were accepted there."
            )
    if deployment.has_memory and deployment.memory.is_shared:
        kept.append("Shared memory (MEMORY_SCOPE=assistant): it is everybody's.")
    return kept


def _stays(deployment: Deployment) -> list[Stays]:
    """The same in a word each."""
    stays: list[Stays] = ["time", "traces"]
    if any(scope.claim for scope in deployment.routes.values()):
        stays.append("groups")
    if deployment.memory.is_shared:
        stays.append("shared")
    return stays


async def forget(
    store: BaseStore, client: LangGraphClient, actor: identity.Actor, deployment: Deployment
) -> Counter[str]:
    """Delete everything of a person except the time of that, until nothing is left.

    It is safe to repeat. The time is written first, so runs under way write nothing afterwards. A
    thread whose run cannot be stopped stays, because the run would put checkpoints that nothing
    leads to. Raises `HTTPException` 503 then, and if something comes back each time.

    Returns deleted `runs`, `threads`, and items of the store by the first part of their namespace
    (`memories`, `journal`, ...).
    """
    counts = Counter[str]()
    stopped = set[str]()
    going = set[str]()
    deadline = time.monotonic() + STOP_SECONDS
    # Also the namespace of the default MEMORY_SCOPE, which the deployment may have had before.
    default = scopes.person().namespace(actor, deployment.default_assistant)
    files = {default}
    for _ in range(_PASSES):
        await journal.forget(store, actor)
        await stop_embedding(actor)
        going = await _stop_runs(client, actor, stopped, deadline)
        if counts["runs"] != len(stopped):
            counts["runs"] = len(stopped)
            await journal.forget(store, actor)  # a run may have begun after the first
        await asyncio.sleep(FORGET_GRACE_SECONDS)
        counts["threads"] += await _delete_threads(client, actor, going)
        memories = await requests.memories_of(store, actor, deployment)
        files.update(memories)
        offers = OffersOfPerson(store, actor, deployment)
        await offers.withdraw_all()
        for namespace in namespaces.namespaces_of(actor, sorted(files)):
            kind = namespace[0]
            counts[kind] += await _delete_items(store, namespace)
        # Also of what was written meanwhile.
        memories = await requests.memories_of(store, actor, deployment)
        files.update(memories)
        if await _has_nothing(store, client, actor, files):
            return +counts
    why = "Something of yours came back each time."
    if going:
        why = f"Runs of yours could not be stopped yet: {', '.join(going)}."
    raise HTTPException(503, f"{why} All else is deleted; call again.")


async def _has_nothing(
    store: BaseStore,
    client: LangGraphClient,
    actor: identity.Actor,
    files: Collection[Namespace],
) -> bool:
    """Whether nothing of a person is left, with their files in these namespaces."""
    searches = list[SearchOp]()
    for namespace in namespaces.namespaces_of(actor, sorted(files)):
        searches.append(SearchOp(namespace, limit=1))
    if any(await store.abatch(searches)):
        return False
    return not await _own(client, actor)


async def _stop_runs(
    client: LangGraphClient, actor: identity.Actor, stopped: set[str], deadline: float
) -> set[str]:
    """Cancel all runs and wait until they have ended.

    Adds their ids to `stopped`; returns the threads in which one goes on.
    """
    while True:
        busy = await _own(client, actor, status="busy")
        going = busy
        if platform.runs_going is not None:
            counted = [thread_id for thread_id, runs in platform.runs_going.items() if runs > 0]
            going = await _own(client, actor, ids=counted) if counted else set()
        for thread_id in busy | going:
            await cancel_runs(client, thread_id, stopped)
        is_too_late = time.monotonic() > deadline
        if not going or is_too_late:
            return going
        await asyncio.sleep(0.05)


async def _own(client: LangGraphClient, actor: identity.Actor, **wanted: Any) -> set[str]:
    threads = await client.threads.search(
        **wanted, metadata=asdict(actor), limit=_IDS, select=["thread_id"]
    )
    return {str(thread["thread_id"]) for thread in threads}


async def _delete_threads(client: LangGraphClient, actor: identity.Actor, going: set[str]) -> int:
    """Delete all threads but these, with their runs and checkpoints; returns their number."""
    deleted = 0
    while True:
        own = await _own(client, actor)
        thread_ids = sorted(own - going)[:_DELETED]
        if not thread_ids:
            return deleted
        answer = await client.threads.prune(thread_ids)
        pruned = int(answer["pruned_count"])
        if not pruned:
            return deleted
        deleted += pruned


async def _delete_items(store: BaseStore, namespace: Namespace) -> int:
    """Delete all items of a namespace; returns their number."""
    deleted = 0
    while True:
        items = await store.asearch(namespace, limit=_DELETED)
        if not items:
            return deleted
        deletions = [PutOp(item.namespace, item.key, None) for item in items]
        await store.abatch(deletions)
        deleted += len(items)
