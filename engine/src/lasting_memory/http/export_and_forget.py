"""Everything of a person's: exported as one JSON document, or forgotten.

Forgetting deletes everything, and keeps earlier runs from writing afterwards.
"""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import httpx
from fastapi import APIRouter
from fastapi.responses import Response, StreamingResponse
from langgraph.store.base import BaseStore, PutOp, SearchOp
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from starlette.exceptions import HTTPException

from lasting_memory import checkpoints, journal, platform
from lasting_memory.controls import cancel_runs, controls, is_temporary
from lasting_memory.deployment import Deployment, Limits
from lasting_memory.files.proposals import Memory
from lasting_memory.http import requests
from lasting_memory.http.requests import ROUTE, AboutQuery, Answer, Caller, NoBody
from lasting_memory.people import identity, namespaces, scopes
from lasting_memory.people.namespaces import Namespace
from lasting_memory.recall import owned_by, stop_embedding
from lasting_memory.stored_files import stored_file
from lasting_memory.validation import RefusedWrite

logger = logging.getLogger("api")
router = APIRouter(tags=["Memory"])
# Conversations, with their messages, and ids that are read at once.
_PAGE = 20
_IDS = 1_000
# Seconds that cancelled runs have to end. A slower run writes no memory, because it began before.
STOP_SECONDS = 10.0
# Seconds in which what is being written at this moment lands, before all is deleted; and how often
# what came back is deleted.
FORGET_GRACE_SECONDS, _PASSES = 0.5, 5
# Items, threads and runs that are deleted at once: others' requests come in between.
_DELETED = 100


@router.get("/memory/export", dependencies=[requests.in_turn("export")])
async def export(caller: Caller, query: AboutQuery) -> Response:
    """Everything of yours as one JSON document.

    version, exported_at, user_id, org_id, left_out (temporary conversations), controls, proposals,
    proposed_changes (by a proposal's id, what makes it again), files and deleted_files with
    revisions, unreadable (what is no file), conversations with values. 429: another export of yours
    is under way.
    """
    parts = document(caller.store, get_client(), caller.actor, caller.deployment)
    attached = {"content-disposition": 'attachment; filename="memory.json"'}
    return StreamingResponse(parts, media_type="application/json", headers=attached)


async def document(
    store: BaseStore, client: LangGraphClient, actor: identity.Actor, deployment: Deployment
) -> AsyncIterator[bytes]:
    """The document in parts, with one memory's histories or `_PAGE` conversations in memory at a
    time.
    """
    own = await requests.memories_of(store, actor, deployment)
    memories = [
        (Memory(store, actor, place, deployment), assistant) for place, assistant in own.items()
    ]
    proposals, changes = list[Answer](), dict[str, list[Answer]]()
    for memory, assistant in memories:
        shown, changes_of = await memory.exported_proposals()
        proposals += [{**proposal, **assistant} for proposal in shown]
        changes |= changes_of
    told = {"version": 1, "exported_at": datetime.now(UTC).isoformat(), **asdict(actor)}
    told |= {"proposals": proposals, "proposed_changes": changes}
    told |= {
        "left_out": ["temporary conversations"],
        "controls": (await controls(store, actor, deployment)).told(),
    }
    yield json.dumps(told)[:-1].encode()
    deleted, unreadable = list[Answer](), list[Answer]()
    lists = {
        "files": _files(store, own, deleted, unreadable, deployment.limits),
        "conversations": conversations(client, actor, deployment.agents),
    }
    for name, entries in lists.items():
        yield f', "{name}": ['.encode()
        comma = b"\n"
        async for entry in entries:
            yield comma + entry
            comma = b",\n"
        yield b"\n]"
    rest = await platform.in_thread(_json, {"deleted_files": deleted, "unreadable": unreadable})
    yield b", " + rest[1:] + b"\n"


async def _files(
    store: BaseStore,
    of: Mapping[Namespace, Answer],
    deleted: list[Answer],
    unreadable: list[Answer],
    limits: Limits,
) -> AsyncIterator[bytes]:
    """The files with their histories; `deleted` gets the histories of those that are gone,
    `unreadable` other code's values.
    """
    for place, assistant in of.items():
        histories = dict(await journal.histories(store, place, limits))
        for item in await journal.all_items(store, place):
            path, known = f"{ROUTE}{item.key}", _revisions(histories.pop(item.key, []))
            try:
                file = {"path": path, **stored_file(item), **assistant}
            except RefusedWrite:
                unreadable.append({"path": path, "value": item.value, **assistant})
            else:
                yield await platform.in_thread(_json, {**file, "revisions": known})
        gone = {key: known for key, known in histories.items() if known}
        deleted += [
            {"path": f"{ROUTE}{key}", **assistant, "revisions": _revisions(known)}
            for key, known in gone.items()
        ]


def _json(value: Answer) -> bytes:
    return json.dumps(value, default=str).encode()


def _revisions(history: Sequence[journal.Revision]) -> list[Answer]:
    return [
        {**requests.revision_summary(revision), "content": revision.content} for revision in history
    ]


async def conversations(
    client: LangGraphClient, actor: identity.Actor, agents: Collection[str]
) -> AsyncIterator[bytes]:
    """A person's conversations with these agents except temporary ones, `_PAGE` at a time: JSON
    objects and commas.
    """
    for metadata in owned_by(actor, agents):
        threads = list[Any]()  # ids first: pages of a changing list would skip some
        listed: dict[str, Any] = {
            "metadata": metadata,
            "sort_by": "thread_id",
            "sort_order": "asc",
            "limit": _IDS,
        }
        while some := await client.threads.search(
            **listed, offset=len(threads), select=["thread_id", "metadata"]
        ):
            threads += some
        ids = [str(thread["thread_id"]) for thread in threads if not is_temporary(thread)]
        for start in range(0, len(ids), _PAGE):
            if objects := await _threads(client, metadata, ids[start : start + _PAGE]):
                yield objects


async def _threads(
    client: LangGraphClient, metadata: Mapping[str, str], ids: Sequence[str]
) -> bytes:
    """JSON objects with commas between; one that cannot be read has an `error`. Raises
    `HTTPStatusError` in an outage.

    The platform's JSON is passed on unread: decoding it would take several times as long, and a
    response that httpx has read whole stays in memory until Python collects cycles.
    """
    fields = ["thread_id", "created_at", "updated_at", "metadata", "values"]
    query = {"metadata": metadata, "limit": len(ids), "select": fields, "ids": ids}
    try:
        async with client.http.client.stream("POST", "/threads/search", json=query) as answer:
            answer.raise_for_status()
            return b"".join([part async for part in answer.aiter_bytes()]).strip()[1:-1]
    except httpx.HTTPStatusError as error:
        if error.response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            raise
        if len(ids) > 1:
            return b",\n".join(
                filter(None, [await _threads(client, metadata, [one]) for one in ids])
            )
        return json.dumps({"thread_id": ids[0], "error": "It cannot be read."}).encode()


async def forget(
    store: BaseStore, client: LangGraphClient, actor: identity.Actor, deployment: Deployment
) -> Counter[str]:
    """Delete everything of a person except the time of that, until nothing is left. Safe to repeat.

    The time is written first, so runs under way write nothing afterwards. A thread whose run cannot
    be stopped stays, because the run would put checkpoints that nothing leads to. Raises
    `HTTPException` 503 then, and if something comes back each time.

    Returns deleted `runs`, `threads`, and items of the store by the first part of their namespace
    (`memories`, `journal`, ...).
    """
    counts, stopped, going, deadline = (
        Counter[str](),
        set[str](),
        set[str](),
        time.monotonic() + STOP_SECONDS,
    )
    # Also the namespace of the default MEMORY_SCOPE, which the deployment may have had before.
    files = {scopes.person().namespace(actor, deployment.default_assistant)}
    for _ in range(_PASSES):
        await journal.forget(store, actor)
        await stop_embedding(actor)
        going = await _stop_runs(client, actor, stopped, deadline)
        if counts["runs"] != len(stopped):
            counts["runs"] = len(stopped)
            await journal.forget(store, actor)  # a run may have begun after the first
        await asyncio.sleep(FORGET_GRACE_SECONDS)
        counts["threads"] += await _delete_threads(client, actor, going)
        files |= (await requests.memories_of(store, actor, deployment)).keys()
        for namespace in namespaces.namespaces_of(actor, sorted(files)):
            counts[namespace[0]] += await _delete_items(store, namespace)
        files |= (
            await requests.memories_of(store, actor, deployment)
        ).keys()  # also of what was written meanwhile
        searches = [
            SearchOp(namespace, limit=1)
            for namespace in namespaces.namespaces_of(actor, sorted(files))
        ]
        if not any(await store.abatch(searches)) and not await _own(client, actor):
            return +counts
    why = (
        f"Runs of yours could not be stopped yet: {', '.join(going)}."
        if going
        else "Something of yours came back each time."
    )
    raise HTTPException(503, f"{why} All else is deleted; call again.")


async def _stop_runs(
    client: LangGraphClient, actor: identity.Actor, stopped: set[str], deadline: float
) -> set[str]:
    """Cancel all runs and wait until they have ended. Adds their ids to `stopped`; returns the
    threads in which one goes on.
    """
    while True:
        busy = going = await _own(client, actor, status="busy")
        if platform.runs_going is not None:
            counted = [thread_id for thread_id, runs in platform.runs_going.items() if runs > 0]
            going = await _own(client, actor, ids=counted) if counted else set()
        for thread_id in busy | going:
            await cancel_runs(client, thread_id, stopped)
        if not going or time.monotonic() > deadline:
            return going
        await asyncio.sleep(0.05)


async def _own(client: LangGraphClient, actor: identity.Actor, **wanted: Any) -> set[str]:
    threads = await client.threads.search(
        **wanted, metadata=asdict(actor), limit=_IDS, select=["thread_id"]
    )
    return {str(thread["thread_id"]) for thread in threads}


async def _delete_threads(client: LangGraphClient, actor: identity.Actor, going: set[str]) -> int:
    """Delete all threads but these, with their runs and checkpoints; returns their number."""
    deleted, pruned = 0, 1
    while pruned:
        thread_ids = sorted(await _own(client, actor) - going)[:_DELETED]
        pruned = int((await client.threads.prune(thread_ids))["pruned_count"]) if thread_ids else 0
        deleted += pruned
    return deleted


async def _delete_items(store: BaseStore, namespace: Namespace) -> int:
    deleted = 0
    while items := await store.asearch(namespace, limit=_DELETED):
        await store.abatch([PutOp(item.namespace, item.key, None) for item in items])
        deleted += len(items)
    return deleted


@router.delete("/memory")
async def forget_me(caller: Caller, query: AboutQuery, body: NoBody = None) -> Answer:
    """Forget everything of yours, for good.

    Memory, its history, conversations and runs; runs that were going write nothing afterwards.
    `deleted`: how much of what (`conversations` are those of the `threads` that you had with an
    agent; the others are consolidation's); `kept`: what stays, and why; `stays`: the same in a word
    each (time, traces, groups, shared). 503: something came back, or runs could not be stopped,
    which `detail` names: call again.
    """
    actor = caller.actor
    try:
        async with get_client() as client:
            owned = owned_by(actor, caller.deployment.agents)
            conversations = sum(
                [await client.threads.count(metadata=metadata) for metadata in owned]
            )
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
    lines = {
        "groups": any(of.claim for of in caller.deployment.routes.values()),
        "shared": caller.deployment.memory.is_shared,
    }
    stays = ["time", "traces", *(what for what, is_there in lines.items() if is_there)]
    traces = f'and(eq(metadata_key, "user_id"), eq(metadata_value, {json.dumps(actor.user_id)}))'
    kept = [
        "The time at which you were forgotten, with your identity and nothing else: runs from before are known by it.",
        f"Traces, where this deployment sends them to LangSmith. An operator finds them there by {traces}",
        *[
            f"Files in {path}: they are the group's."
            for path, of in caller.deployment.routes.items()
            if of.claim
        ],
    ]
    if caller.deployment.has_memory and caller.deployment.memory.is_shared:
        kept.append("Shared memory (MEMORY_SCOPE=assistant): it is everybody's.")
    return {
        "deleted": {"runs": 0, "threads": 0, "memories": 0, **+deleted},
        "kept": kept,
        "stays": stays,
    }
