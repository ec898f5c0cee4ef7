"""The state of a deployment over all people, for operators."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from langgraph.store.base import BaseStore, Item
from langgraph_sdk import get_client
from starlette.responses import Response

from api.requests import PersonRequest, RefusedRequestError, json_response, person_route
from memory import identity
from memory.consolidation import find_backlog
from settings import Settings

# Files that are counted, newest first; and people in the answer.
_FILES = 10_000
_PAGE = 1_000
_NAMED = 20


@person_route()
async def operations(request: PersonRequest) -> Response:
    """
    tags: [Operations]
    summary: How consolidation, the search index and storage do, over all people (operators)
    responses:
      "200":
        description: >
          `due` (people, conversations, oldest), `search_index` (conversations that the next search indexes first, oldest),
          `storage` (files, bytes, largest:
          people with org_id, user_id, files and bytes). `complete` says whether all was looked at.
      "403": {description: It is for operators}
    """
    if not identity.is_operator(request.http.user, request.settings):
        raise RefusedRequestError(403, "Operations are for operators; GET /memory/consolidations is about yourself.")
    if request.parameters:
        raise RefusedRequestError(400, "Operations are about everybody; leave user_id and org_id out.")
    async with get_client() as client:
        backlog = await find_backlog(request.settings, client, request.store)
    due = {"people": len(backlog.people), "conversations": backlog.conversations, "oldest": backlog.oldest}
    index = {"conversations": backlog.unindexed, "oldest": backlog.oldest_unindexed}
    return json_response(
        {
            "due": {**due, "complete": backlog.complete},
            "search_index": {**index, "complete": backlog.complete},
            "storage": await _storage(request.store, request.settings),
        }
    )


async def _storage(store: BaseStore, settings: Settings) -> dict[str, Any]:
    """Number and size of people's files with their histories, and the people with the largest."""
    by_owner: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    read = 0
    while (page := await store.asearch(("memories",), limit=_PAGE, offset=read)) and read < _FILES:
        read += len(page)
        for item in page:
            counts = by_owner[item.namespace[-1]]
            counts[0] += 1
            counts[1] += _bytes(item)
    largest = sorted(by_owner.items(), key=lambda entry: entry[1][1], reverse=True)[:_NAMED]
    named = [{**_named(owner, settings), "files": files, "bytes": size} for owner, (files, size) in largest]
    total = sum(size for _, size in by_owner.values())
    return {"files": read, "bytes": total, "largest": named, "complete": read < _FILES}


def _bytes(item: Item) -> int:
    """Size of a file and an upper bound of its history's."""
    content, written = str(item.value.get("content", "")), item.value.get("written")
    return len(content.encode(errors="replace")) + (written if isinstance(written, int) else 0)


def _named(namespace: str, settings: Settings) -> dict[str, Any]:
    """The owner in a namespace's last part, as `memory/namespaces.py` builds it. Shared memory has no person."""
    parts = [identity.part_of(part) for part in namespace.split(":")]
    of_two = ("assistant_id", "org_id") if settings.memory_scope == "assistant" else ("org_id", "user_id")
    names = {2: of_two, 3: ("assistant_id", "org_id", "user_id")}.get(len(parts), ())
    return dict(zip(names, parts, strict=False))
