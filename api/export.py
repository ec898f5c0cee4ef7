"""A person's memory and conversations as one JSON document.

The document: `version` (1), `exported_at` (ISO time, UTC), `user_id`, `org_id`, `left_out` (what is not in it, in words),
`controls` (what you decided), `proposals` (what waits for your decision), `files`, `deleted_files`, `conversations`. A
file has `path` as the agent sees it, `content`, `encoding`, times, `revisions` (newest first), and under `user+assistant` its
`assistant_id`. A deleted file has the same without content and times; its `path` is null if version 0.1 deleted it. A
conversation is a thread of the platform: `thread_id`, `created_at`, `updated_at`, and `values` with its `messages`. A file or
conversation that cannot be read has its `path` or `thread_id`, and an `error`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from langgraph.store.base import BaseStore, Item
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from api.person import ROUTE, UNREADABLE, conversations, memory_namespaces, revision_summary
from api.requests import PRIVATE, PersonRequest, RefusedRequestError, json_response, person_route
from memory import identity, journal, namespaces
from memory.controls import controls
from memory.journal import Revision, all_items, deleted_files
from memory.validation import stored_file
from settings import Settings

VERSION = 1
_PAGE = 20
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
            except UNREADABLE as error:
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


class _OneAtATime(StreamingResponse):
    """The document; `alone` lasts until it is sent, or broke off."""

    def __init__(self, parts: AsyncIterator[bytes], alone: AbstractContextManager[None], headers: Mapping[str, str]) -> None:
        super().__init__(parts, media_type="application/json", headers=headers)
        self._alone = alone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._alone:
                await super().__call__(scope, receive, send)
        except RefusedRequestError as refusal:
            await json_response({"detail": str(refusal)}, status=refusal.status)(scope, receive, send)


def export(shown_proposals: ShownProposals = no_proposals) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint, with proposals where there are any."""

    @person_route()
    async def everything(request: PersonRequest) -> Response:
        """
        summary: Everything of yours as one JSON document
        responses:
          "429": {description: Another export of yours is under way}
          "200":
            description: >
              version, exported_at, user_id, org_id, left_out (temporary conversations), controls, proposals, files and
              deleted_files with revisions, conversations with values
        """

        async def parts() -> Any:
            async with get_client() as client:
                async for part in document(request.store, client, request.actor, request.settings, shown_proposals):
                    yield part

        attached = {**PRIVATE, "content-disposition": 'attachment; filename="memory.json"'}
        return _OneAtATime(parts(), request.alone("export"), attached)

    return everything
