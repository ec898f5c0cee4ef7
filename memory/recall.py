"""The index of a person's past conversations: made of their threads, kept in the store, never older than a search needs.

Everything in it is derived: `python -m memory.reindex --user ... --org ...` makes it again from the threads, `forget` drops it.
`index_conversation` is for whoever notices that a conversation went quiet; a search indexes what nobody has.

The watermark is a time: all conversations that changed up to it are in the index. What changed later, or shortly before it
(clocks of servers differ), is compared one by one, so that something said a second ago is found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from langgraph.store.base import BaseStore, PutOp

from memory import epochs, scopes, semantic
from memory.conversations import Conversation, conversation, owned_by
from memory.documents import document, key_of, postings, version_of
from memory.postings import FORMAT, tombstone
from memory.segments import PUT_PAGE, WATERMARK, Index, Part, document_key, load, merge, new_part

# Seconds by which the clocks of two servers may differ.
CLOCK_SECONDS = 600
_PAGE, _FIRST_PAGE, _OVERLAP = 1_000, 20, 5
_READ_PAGE = 50
FOREVER = 2**63 - 1


class Threads(Protocol):
    """The part of the platform's client (`get_client().threads`) that is used here."""

    @property
    def search(self) -> Callable[..., Awaitable[Any]]: ...


async def index_conversation(store: BaseStore, actor: scopes.Actor, talk: Conversation) -> None:
    """Put a conversation into its owner's index, in place of what was indexed of it before. Safe to repeat."""
    await index_conversations(store, actor, [talk])


async def index_conversations(store: BaseStore, actor: scopes.Actor, talks: Sequence[Conversation]) -> list[Part]:
    """`index_conversation` for several at once; their new postings. Of somebody forgotten since the run began, nothing."""
    if await epochs.is_over(store, actor):
        return []
    documents = await asyncio.to_thread(lambda: [document(talk) for talk in talks])
    texts = await semantic.text_ops(store, actor, talks)
    ops: list[PutOp] = [*texts]
    parts = []
    for found in documents:
        key = key_of(found.thread_id)
        ops.append(PutOp(scopes.recall(actor, "documents"), document_key(key), found.stored(), index=False))
        put, part = new_part(actor, key, await asyncio.to_thread(postings, found))
        ops.append(put)
        parts.append(part)
    for start in range(0, len(ops), PUT_PAGE):
        await store.abatch(ops[start : start + PUT_PAGE])
    await merge(store, actor)
    return parts


async def drop_conversations(store: BaseStore, actor: scopes.Actor, keys: Sequence[int]) -> None:
    """Take conversations out of the index: their documents and texts now, their postings with the next merges."""
    ops: list[PutOp] = []
    for key in keys:
        ops += [PutOp(scopes.recall(actor, "documents"), document_key(key), None), new_part(actor, key, tombstone(key))[0]]
    await store.abatch([*ops, *await semantic.drop_ops(store, actor, keys)])
    await merge(store, actor)


async def catch_up(
    store: BaseStore, threads: Threads, actor: scopes.Actor, *, current: str | None = None, most: int | None = None
) -> Index:
    """Index what has changed since the watermark, and move it.

    Args:
        store: where the index is.
        threads: of the platform.
        actor: whose conversations.
        current: a thread that is still being written, and left out.
        most: read at most so many conversations, the newest. The index says how many are then `outstanding`.
    """
    index = await load(store, actor)
    listed = {
        str(thread["thread_id"]): version_of(str(thread["updated_at"]))
        for thread in await _changed(threads, actor, index.watermark - CLOCK_SECONDS * 1_000_000)
    }
    others = {thread_id: version for thread_id, version in listed.items() if thread_id != str(current)}
    known = index.has([key_of(thread_id) for thread_id in others], list(others.values()))
    stale = [thread_id for thread_id, has in zip(others, known, strict=True) if not has]
    taken = stale[:most] if most is not None else stale
    for start in range(0, len(taken), _READ_PAGE):
        talks = await read_conversations(threads, actor, taken[start : start + _READ_PAGE])
        index.parts += await index_conversations(store, actor, talks)
    index.outstanding = len(stale) - len(taken)
    # A search by a person who has said little since the last one writes nothing.
    if not index.outstanding and (taken or len(listed) > _FIRST_PAGE):
        upto = min(max(others.values(), default=0), listed.get(str(current), FOREVER))
        value = {"format": FORMAT, "version": max(upto, index.watermark)}
        await store.abatch([PutOp(scopes.recall(actor, "documents"), WATERMARK, value, index=False)])
    return index


async def _changed(threads: Threads, actor: scopes.Actor, since: int) -> list[Any]:
    """Ids and times of the person's threads that changed since, newest first."""
    found: list[Any] = []
    offset, size = 0, _FIRST_PAGE
    while True:
        page = await threads.search(
            metadata=owned_by(actor),
            limit=size,
            offset=offset,
            sort_by="updated_at",
            sort_order="desc",
            select=["thread_id", "updated_at"],
        )
        found += page
        if len(page) < size or version_of(str(page[-1]["updated_at"])) < since:
            return [thread for thread in found if version_of(str(thread["updated_at"])) >= since]
        # Pages overlap: a thread deleted meanwhile moves the others up.
        offset, size = offset + size - _OVERLAP, _PAGE


async def read_conversations(threads: Threads, actor: scopes.Actor, thread_ids: Sequence[str]) -> list[Conversation]:
    """The person's conversations with these ids, as they are now; not those that are gone or somebody else's."""
    found = await threads.search(
        ids=list(thread_ids),
        metadata=owned_by(actor),
        limit=len(thread_ids),
        select=["thread_id", "created_at", "updated_at", "values"],
    )
    return [conversation(thread) for thread in found]


async def forget(store: BaseStore, actor: scopes.Actor) -> int:
    """Drop a person's index; the number of conversations that were in it."""
    conversations = 0
    for part in ("new", "segments", "documents", "texts"):
        namespace = scopes.recall(actor, part)
        while page := await store.asearch(namespace, limit=PUT_PAGE):
            conversations += sum(item.key.startswith("conversation/") for item in page)
            await store.abatch([PutOp(namespace, item.key, None) for item in page])
    return conversations


async def rebuild(store: BaseStore, threads: Threads, actor: scopes.Actor) -> int:
    """Make a person's index anew from their threads; the number of conversations that are in it."""
    await forget(store, actor)
    index = await catch_up(store, threads, actor)
    return int(index.live().sum())
