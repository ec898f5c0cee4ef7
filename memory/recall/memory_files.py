"""Search of memory files, by the words or the meaning of their paragraphs."""

import asyncio
from typing import Any

from langgraph.store.base import BaseStore, SearchItem

from memory.namespaces import Namespace
from memory.recall.lexical import rank
from memory.validation import stored_file

# Files that one search reads where the store has no semantic index.
MAX_SEARCHED_FILES = 1_000
_RESULTS = 5
_SNIPPET_CHARS = 600
_PAGE = 100


async def search_files(
    store: BaseStore,
    namespace: Namespace,
    query: str,
    filter: dict[str, Any] | None,  # noqa: A002  # the store's word for it
) -> list[tuple[str, str]]:
    """Keys and snippets of the best files, by the store's semantic index if it has one, otherwise by BM25."""
    first = await store.asearch(namespace, query=query, filter=filter, limit=_PAGE)
    if any(item.score is not None for item in first):
        return [(item.key, text[:_SNIPPET_CHARS]) for item in first[:_RESULTS] if (text := _text(item))]
    items = list(first)
    while len(items) % _PAGE == 0 and 0 < len(items) < MAX_SEARCHED_FILES:
        page = await store.asearch(namespace, filter=filter, limit=_PAGE, offset=len(items))
        if not page:
            break
        items += page
    passages = [(item.key, part) for item in items for part in _text(item).split("\n\n") if part.strip()]
    ranked = await asyncio.to_thread(rank, query, [f"{key} {part}" for key, part in passages])
    return [(passages[i][0], passages[i][1][:_SNIPPET_CHARS]) for i, _ in ranked[:_RESULTS]]


def _text(item: SearchItem) -> str:
    try:
        file = stored_file(item)
    except ValueError:
        return ""
    return file["content"] if file["encoding"] == "utf-8" else ""
