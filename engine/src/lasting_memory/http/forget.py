"""Forgetting a person: everything of theirs is deleted, and earlier runs write nothing afterwards.

A run goes on until it has ended, also where it was cancelled. Everything of a person's is: items of
the store in their namespaces, threads with their runs and checkpoints, and what is being embedded.
"""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict

from langgraph.store.base import BaseStore, PutOp, SearchOp
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.schema import ThreadStatus
from starlette.exceptions import HTTPException

from lasting_memory import checkpoints, platform
from lasting_memory.conversations.stopping import cancel_runs
from lasting_memory.deployment import Deployment
from lasting_memory.http import requests
from lasting_memory.http.models.export import Forgotten, Stays
from lasting_memory.http.requests import AboutQuery, Caller, NoBody
from lasting_memory.memory import journal
from lasting_memory.memory.own_offers import OffersOfPerson
from lasting_memory.people import identity, namespaces, scopes
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import get_client
from lasting_memory.recall import owned_by, stop_embedding

logger = logging.getLogger("api")
router = requests.memory_router()
# A search finds so many threads, at most.
_MAX_IDS = 1_000
# Seconds that cancelled runs have to end. A slower run writes no memory, because it began before.
STOP_SECONDS = 10.0
# Seconds in which what is being written at this moment lands, before all is deleted.
FORGET_GRACE_SECONDS = 0.5
# What came back is deleted so often, at most.
_MAX_PASSES = 5
# Items, threads and runs that are deleted at once: others' requests come in between.
_MAX_DELETED = 100


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
            counts = await forget(caller.store, client, actor, caller.deployment)
            counts["conversations"] = conversations
            # Of conversations that a killed development server lost from its list.
            counts["unlisted_threads"] = await checkpoints.delete_checkpoints(
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
    nonzero_counts = +counts
    return Forgotten(
        deleted={"runs": 0, "threads": 0, "memories": 0, **nonzero_counts},
        kept=_what_stays(caller.deployment, actor),
        stays=_kinds_that_stay(caller.deployment),
    )


def _what_stays(deployment: Deployment, actor: identity.Actor) -> list[str]:
    """What stays of a person who is forgotten, in sentences."""
    user_id = json.dumps(actor.user_id)
    traces = f'and(eq(metadata_key, "user_id"), eq(metadata_value, {user_id}))'
    sentences = [
        "The time at which you were forgotten, with your identity and nothing else: runs from before are known by it.",
        f"Traces, where this deployment sends them to LangSmith. An operator finds them there by {traces}",
    ]
    for path, scope in deployment.routes.items():
        if scope.claim:
            sentences.append(
                f"Files in {path}: they are the group's, with the lines of yours that were accepted there."
            )
    if deployment.has_memory and deployment.memory.is_shared:
        sentences.append("Shared memory (MEMORY_SCOPE=assistant): it is everybody's.")
    return sentences


def _kinds_that_stay(deployment: Deployment) -> list[Stays]:
    """What stays of a person who is forgotten, in a word each."""
    kinds: list[Stays] = ["time", "traces"]
    scopes_of_routes = deployment.routes.values()
    if any(scope.claim for scope in scopes_of_routes):
        kinds.append("groups")
    if deployment.memory.is_shared:
        kinds.append("shared")
    return kinds


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
    cancelled_runs = set[str]()
    busy_threads = set[str]()
    deadline = time.monotonic() + STOP_SECONDS
    # Also the namespace of the default MEMORY_SCOPE, which the deployment may have had before.
    default_namespace = scopes.person().namespace(actor, deployment.default_assistant)
    memory_namespaces = {default_namespace}
    for _ in range(_MAX_PASSES):
        await journal.forget(store, actor)
        await stop_embedding(actor)
        busy_threads = await _stop_runs(client, actor, cancelled_runs, deadline)
        if counts["runs"] != len(cancelled_runs):
            counts["runs"] = len(cancelled_runs)
            await journal.forget(store, actor)  # a run may have begun after the first
        await asyncio.sleep(FORGET_GRACE_SECONDS)
        counts["threads"] += await _delete_threads(client, actor, busy_threads)
        memories = await requests.memories_of(store, actor, deployment)
        memory_namespaces.update(memories)
        offers = OffersOfPerson(store, actor, deployment)
        await offers.withdraw_all()
        for namespace in namespaces.namespaces_of(actor, sorted(memory_namespaces)):
            kind = namespace[0]
            counts[kind] += await _delete_items(store, namespace)
        # Also of what was written meanwhile.
        memories = await requests.memories_of(store, actor, deployment)
        memory_namespaces.update(memories)
        if await _has_nothing(store, client, actor, memory_namespaces):
            return +counts
    reason = "Something of yours came back each time."
    if busy_threads:
        listed_threads = ", ".join(busy_threads)
        reason = f"Runs of yours could not be stopped yet: {listed_threads}."
    raise HTTPException(503, f"{reason} All else is deleted; call again.")


async def _has_nothing(
    store: BaseStore,
    client: LangGraphClient,
    actor: identity.Actor,
    memory_namespaces: Collection[Namespace],
) -> bool:
    """Whether nothing of a person is left: no item of the store, and no thread."""
    searches = list[SearchOp]()
    for namespace in namespaces.namespaces_of(actor, sorted(memory_namespaces)):
        search = SearchOp(namespace, limit=1)
        searches.append(search)
    results = await store.abatch(searches)
    if any(results):
        return False
    thread_ids = await _thread_ids(client, actor)
    return not thread_ids


async def _stop_runs(
    client: LangGraphClient, actor: identity.Actor, cancelled_runs: set[str], deadline: float
) -> set[str]:
    """Cancel all runs of a person, and wait until they have ended, or until the deadline.

    Adds their ids to `cancelled_runs`. Returns the threads in which one goes on.
    """
    while True:
        listed_as_busy = await _thread_ids(client, actor, status="busy")
        busy_threads = await _threads_with_runs(client, actor, listed_as_busy)
        for thread_id in listed_as_busy | busy_threads:
            await cancel_runs(client, thread_id, cancelled_runs)
        is_too_late = time.monotonic() > deadline
        if not busy_threads or is_too_late:
            return busy_threads
        await asyncio.sleep(0.05)


async def _threads_with_runs(
    client: LangGraphClient, actor: identity.Actor, listed_as_busy: set[str]
) -> set[str]:
    """The person's threads in which a run goes on: those that the platform lists as busy.

    A server that counts its runs itself (`platform.runs_going`) knows better.
    """
    if platform.runs_going is None:
        return listed_as_busy
    ids_with_runs = [thread_id for thread_id, runs in platform.runs_going.items() if runs > 0]
    if not ids_with_runs:
        return set()
    return await _thread_ids(client, actor, ids=ids_with_runs)


async def _thread_ids(
    client: LangGraphClient,
    actor: identity.Actor,
    *,
    status: ThreadStatus | None = None,
    ids: Sequence[str] | None = None,
) -> set[str]:
    """Ids of the person's threads, at most `_MAX_IDS`: those with this status, or of these `ids`.

    Without both it is all of them.
    """
    threads = await client.threads.search(
        status=status, ids=ids, metadata=asdict(actor), limit=_MAX_IDS, select=["thread_id"]
    )
    return {str(thread["thread_id"]) for thread in threads}


async def _delete_threads(
    client: LangGraphClient, actor: identity.Actor, busy_threads: set[str]
) -> int:
    """Delete all threads but the busy ones, with their runs and checkpoints; returns their number."""
    deleted_count = 0
    while True:
        all_ids = await _thread_ids(client, actor)
        thread_ids = sorted(all_ids - busy_threads)[:_MAX_DELETED]
        if not thread_ids:
            return deleted_count
        answer = await client.threads.prune(thread_ids)
        pruned_count = int(answer["pruned_count"])
        if not pruned_count:
            return deleted_count
        deleted_count += pruned_count


async def _delete_items(store: BaseStore, namespace: Namespace) -> int:
    """Delete all items of a namespace; returns their number."""
    deleted_count = 0
    while True:
        items = await store.asearch(namespace, limit=_MAX_DELETED)
        if not items:
            return deleted_count
        deletions = [PutOp(item.namespace, item.key, None) for item in items]
        await store.abatch(deletions)
        deleted_count += len(items)
