"""A person's memory and conversations as one JSON document.

The document: `version` (1), `exported_at` (ISO time, UTC), `user_id`, `org_id`, `left_out` (what is not in it, in words),
`controls` (what you decided), `proposals` (what waits for your decision), `files`, `deleted_files`, `conversations`. A
file has `path` as the agent sees it, `content`, `encoding`, times, `revisions` (newest first), and under `user+assistant` its
`assistant_id`. A deleted file has the same without content and times. A
conversation is a thread of the platform: `thread_id`, `created_at`, `updated_at`, and `values` with its `messages`. A file or
conversation that cannot be read has its `path` or `thread_id`, and an `error`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import httpx
from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse
from langgraph.store.base import BaseStore, Item
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from api.person import ROUTE, memory_namespaces, revision_summary
from api.requests import PRIVATE, About, Caller, alone
from memory import identity, journal, namespaces
from memory.controls import controls, is_temporary
from memory.journal import Revision, all_items, deleted_files
from memory.recall import owned_by
from memory.validation import stored_file
from settings import Settings

VERSION = 1
# Conversations, with their messages, and ids that are read at once.
_PAGE = 20
_IDS = 1_000
# What damaged data makes of the code that reads it. An outage is none of these.
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
_REFUSED = (httpx.HTTPStatusError, *_UNREADABLE)
# What waits for the person's decision in one memory, where there is consolidation.
ShownProposals = Callable[[BaseStore, identity.Actor, namespaces.Namespace], Awaitable[list[dict[str, Any]]]]


async def no_proposals(*_: object) -> list[dict[str, Any]]:
    return []


async def document(
    store: BaseStore,
    client: LangGraphClient,
    actor: identity.Actor,
    settings: Settings,
    shown_proposals: ShownProposals = no_proposals,
) -> AsyncIterator[bytes]:
    """The document in parts, with one file's history or `_PAGE` conversations in memory at a time."""
    own = await memory_namespaces(store, actor, settings)
    head: dict[str, Any] = {
        "version": VERSION,
        "exported_at": datetime.now(UTC).isoformat(),
        **asdict(actor),
        "left_out": ["temporary conversations"],
        "proposals": [
            {**proposal, **_assistant(namespace, settings)}
            for namespace in own
            for proposal in await shown_proposals(store, actor, namespace)
        ],
        "controls": asdict(await controls(store, actor, settings)),
    }
    yield json.dumps(head)[:-1].encode()
    lists = {
        "files": _files(store, own, settings),
        "deleted_files": _deleted(store, own, settings),
        "conversations": conversations(client, actor, _PAGE),
    }
    for name, parts in lists.items():
        yield f', "{name}": ['.encode()
        comma = b"\n"
        async for part in parts:
            yield comma + part
            comma = b",\n"
        yield b"\n]"
    yield b"}\n"


async def _files(store: BaseStore, own: Sequence[namespaces.Namespace], settings: Settings) -> AsyncIterator[bytes]:
    for namespace in own:
        for item in await all_items(store, namespace):
            named = {**_file(item), **_assistant(namespace, settings)}
            try:
                revisions = list(map(_revision, await journal.history(store, namespace, item.key)))
                yield await asyncio.to_thread(_json, {**named, "revisions": revisions})
            except _UNREADABLE as error:
                yield _json({"path": named["path"], "error": f"It cannot be read: {type(error).__name__}"})


async def _deleted(store: BaseStore, own: Sequence[namespaces.Namespace], settings: Settings) -> AsyncIterator[bytes]:
    for namespace in own:
        async for path, history in deleted_files(store, namespace):
            named = {"path": path and f"{ROUTE}{path}", **_assistant(namespace, settings)}
            yield await asyncio.to_thread(_json, {**named, "revisions": list(map(_revision, history))})


def _json(value: object) -> bytes:
    return json.dumps(value, default=str).encode()


def _revision(revision: Revision) -> dict[str, Any]:
    return {**revision_summary(revision), "content": revision.content}


def _file(item: Item) -> dict[str, Any]:
    try:
        return {"path": f"{ROUTE}{item.key}", **stored_file(item)}
    except ValueError:  # a value of other code belongs to the person, too
        return {"path": f"{ROUTE}{item.key}", "value": item.value}


def _assistant(files: namespaces.Namespace, settings: Settings) -> dict[str, str]:
    """The assistant of a namespace's files, if each assistant has its own."""
    by_assistant = settings.memory_scope == "user+assistant"
    return {"assistant_id": identity.part_of(files[1].split(":")[0])} if by_assistant else {}


async def conversations(client: LangGraphClient, actor: identity.Actor, page: int) -> AsyncIterator[bytes]:
    """A person's conversations with all agents except temporary ones, `page` at a time: JSON objects with commas between.

    The platform's JSON is passed on unread: decoding it would take several times as long, and a response that httpx has read
    whole stays in memory until Python collects cycles.
    """
    for metadata in owned_by(actor):
        threads = list[Any]()  # ids first: pages of a changing list would skip some
        listed: dict[str, Any] = {"metadata": metadata, "sort_by": "thread_id", "sort_order": "asc", "limit": _IDS}
        while some := await client.threads.search(**listed, offset=len(threads), select=["thread_id", "metadata"]):
            threads += some
        ids = [str(thread["thread_id"]) for thread in threads if not is_temporary(thread)]
        fields = ["thread_id", "created_at", "updated_at", "values"]
        for start in range(0, len(ids), page):
            wanted, query = ids[start : start + page], {"metadata": metadata, "limit": page, "select": fields}
            try:
                read = [await _threads(client, query, wanted)]
            except _REFUSED:
                read = [await _thread(client, query, thread_id) for thread_id in wanted]
            for objects in filter(None, read):
                yield objects


async def _threads(client: LangGraphClient, query: Mapping[str, Any], ids: Sequence[str]) -> bytes:
    async with client.http.client.stream("POST", "/threads/search", json={**query, "ids": ids}) as answer:
        answer.raise_for_status()
        return b"".join([part async for part in answer.aiter_bytes()]).strip()[1:-1]


async def _thread(client: LangGraphClient, query: Mapping[str, Any], thread_id: str) -> bytes:
    """One conversation, or the note that it cannot be read. Raises `HTTPStatusError` in an outage."""
    try:
        return await _threads(client, query, [thread_id])
    except _REFUSED as error:
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            raise
        return json.dumps({"thread_id": thread_id, "error": f"It cannot be read: {type(error).__name__}"}).encode()


def export(shown_proposals: ShownProposals = no_proposals) -> APIRouter:
    """The route, with proposals where there are any."""
    router = APIRouter(tags=["Memory"])

    @router.get("/memory/export", dependencies=[alone("export")])
    async def everything(caller: Caller, query: Annotated[About, Query()]) -> Response:
        """Everything of yours as one JSON document.

        version, exported_at, user_id, org_id, left_out (temporary conversations), controls, proposals, files and deleted_files
        with revisions, conversations with values. 429: another export of yours is under way.
        """

        async def parts() -> AsyncIterator[bytes]:
            async with get_client() as client:
                async for part in document(caller.store, client, caller.actor, caller.settings, shown_proposals):
                    yield part

        attached = {**PRIVATE, "content-disposition": 'attachment; filename="memory.json"'}
        return StreamingResponse(parts(), media_type="application/json", headers=attached)

    return router
