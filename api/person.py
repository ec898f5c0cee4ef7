"""One person's namespaces and conversations.

Outside of runs nothing is scoped: the client sees everybody's threads, and the store everything.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

import httpx
from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient

from memory import identity, journal
from memory.controls import is_temporary
from memory.journal import Revision
from memory.namespaces import Namespace, is_memory_of, journals, memories
from memory.recall import owned_by
from settings import Settings

ROUTE = "/memories"
_IDS = 1_000
# What damaged data makes of the code that reads it. An outage is none of these.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


def revision_summary(revision: Revision) -> dict[str, Any]:
    """A revision for HTTP, without its content."""
    return {
        "revision": revision.number,
        "at": revision.at,
        "author": asdict(revision.author),
        "deleted": revision.content is None,
        "bytes": len((revision.content or "").encode(errors="replace")),
    }


def diff(before: str | None, after: str | None) -> str:
    """A unified diff, cut where it is long. Blocks."""
    changed = journal.diff(before or "", after or "")
    return journal.cut(f"{changed}\n") if changed else ""


async def memory_namespaces(store: BaseStore, actor: identity.Actor, settings: Settings) -> list[Namespace]:
    """Namespaces of a person's memory files, also of deleted ones: one per assistant under `user+assistant`, none if shared."""
    if settings.memory_scope == "assistant":
        return []
    if settings.memory_scope == "user":
        return [memories(actor, identity.DEFAULT_AGENT_ASSISTANT, settings)]
    namespaces: set[Namespace] = set()
    for prefix in (("memories",), journals(("memories",))):
        offset, page = 0, [prefix]
        while page:
            page = await store.alist_namespaces(prefix=prefix, max_depth=len(prefix) + 1, limit=_IDS, offset=offset)
            offset += len(page)
            own = (("memories", namespace[-1]) for namespace in page if len(namespace) > len(prefix))
            namespaces |= {namespace for namespace in own if is_memory_of(namespace, actor, settings)}
    return sorted(namespaces)


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


_REFUSED = (httpx.HTTPStatusError, *UNREADABLE)


async def _threads(client: LangGraphClient, query: Mapping[str, Any], ids: Sequence[str]) -> bytes:
    async with client.http.client.stream("POST", "/threads/search", json={**query, "ids": ids}) as answer:
        answer.raise_for_status()
        return b"".join([part async for part in answer.aiter_bytes()]).strip()[1:-1]


async def _thread(client: LangGraphClient, query: Mapping[str, Any], thread_id: str) -> bytes:
    """One conversation, or the note that it cannot be read. Raises `HTTPStatusError` in an outage."""
    try:
        return await _threads(client, query, [thread_id])
    except _REFUSED as error:
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return json.dumps({"thread_id": thread_id, "error": f"It cannot be read: {type(error).__name__}"}).encode()
