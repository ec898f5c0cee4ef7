"""The index of a person's past conversations, derived from their threads, in the store. Each search brings it up to date.

The watermark is a time, never later than now: all conversations that changed up to it are in the index. Those that changed
later, or shortly before it (clocks of servers differ), are compared one by one, so that a search finds what was said a second
ago.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from langgraph.store.base import BaseStore, GetOp, PutOp

from memory import identity, journal, namespaces
from memory.controls import is_temporary
from memory.recall import semantic
from memory.recall.conversations import Conversation, Threads, conversation, owned_by, threads_by_id
from memory.recall.documents import document, key_of, postings, version_of
from memory.recall.postings import FORMAT, Postings, table_of
from memory.recall.segments import PUT_PAGE, WATERMARK, Index, document_key, load, merge, new_part, put

# Seconds by which the clocks of two servers may differ.
CLOCK_SECONDS = 600
_PAGE, _FIRST_PAGE, _OVERLAP = 1_000, 20, 5
_NEWEST: dict[str, Any] = {"sort_by": "updated_at", "sort_order": "desc", "select": ["thread_id", "updated_at", "metadata"]}
_READ_PAGE = 50
# Key of an item that exists while the index is made anew.
_REBUILDING = "rebuilding"
# Takes the number of indexed conversations, and of all to index.
Progress = Callable[[int, int], None] | None
ALL = sys.maxsize


async def index_conversations(
    store: BaseStore, actor: identity.Actor, talks: Sequence[Conversation], began: journal.Began | None = None
) -> None:
    """Put conversations into their owner's index, in place of earlier versions; nothing if the owner was forgotten since the
    run, or the request of this `began`, began. Safe to repeat.
    """
    if await journal.is_forgotten(store, began or journal.began(actor)):
        return
    documents = namespaces.recall(actor, "documents")
    made = await asyncio.to_thread(lambda: [(text := document(talk), postings(text)) for talk in talks])
    ops = await semantic.text_ops(store, actor, {key_of(talk.thread_id): talk for talk in talks})
    for text, words in made:
        key = document_key(key_of(text.thread_id))
        ops += [PutOp(documents, key, text.stored(), index=False), new_part(actor, words)]
    await put(store, ops)
    await merge(store, actor)


async def drop_conversations(store: BaseStore, actor: identity.Actor, keys: Sequence[int]) -> None:
    """Remove conversations from the index: documents and texts now, postings with the next merges."""
    documents = namespaces.recall(actor, "documents")
    ops = await semantic.text_ops(store, actor, dict.fromkeys(keys))
    # Postings of version 0 mark a conversation as gone, and override older ones.
    ops += [new_part(actor, Postings(table_of(key, 0, 0))) for key in keys]
    ops += [PutOp(documents, document_key(key), None) for key in keys]
    await store.abatch(ops)
    await merge(store, actor)


async def drop(store: BaseStore, actor: identity.Actor, thread_ids: Sequence[str]) -> None:
    """Remove deleted conversations from a person's index."""
    await drop_conversations(store, actor, [key_of(thread_id) for thread_id in thread_ids])


async def catch_up(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    *,
    current: str = "",
    most: int = ALL,
    progress: Progress = None,
    began: journal.Began | None = None,
) -> Index:
    """Index the conversations that have changed since the watermark, and move it. Calls `progress` after every page.

    Leaves out the thread `current`, which is still being written, and all but the `most` newest: the index counts these.
    `began` as for `index_conversations`.
    """
    index = await load(store, actor)
    listed = await _changed(threads, actor, max(0, index.watermark - CLOCK_SECONDS * 1_000_000))
    others = {thread_id: version for thread_id, version in listed.items() if thread_id != current}
    stale = index.lacks(others)
    taken = stale[:most]
    for start in range(0, len(taken), _READ_PAGE):
        talks = await read_conversations(threads, actor, taken[start : start + _READ_PAGE])
        await index_conversations(store, actor, talks, began)
        if progress:
            progress(min(start + _READ_PAGE, len(taken)), len(taken))
    if taken:
        index.parts = (await load(store, actor)).parts
    index.outstanding = len(stale) - len(taken)
    # A search by a person who has said little since the last one writes nothing.
    moves = not index.outstanding and (taken or len(listed) > _FIRST_PAGE)
    if moves and not await journal.is_forgotten(store, began or journal.began(actor)):
        # A thread may have changed when the clock was ahead: what changes after it then would be below the watermark.
        newest = min(max(others.values(), default=0), time.time_ns() // 1_000)
        value = {"format": FORMAT, "version": max(index.watermark, min(newest, listed.get(current, newest)))}
        await store.aput(namespaces.recall(actor, "documents"), WATERMARK, value, index=False)
    return index


async def _changed(threads: Threads, actor: identity.Actor, since: int) -> dict[str, int]:
    """The person's threads that changed since then, newest first, with the version of each."""
    changed: dict[str, int] = {}
    for metadata in owned_by(actor):
        offset, size, last = 0, _FIRST_PAGE, since
        while last >= since:
            page = await threads.search(metadata=metadata, limit=size, offset=offset, **_NEWEST)
            versions = [version_of(str(thread["updated_at"])) for thread in page]
            newer = [pair for pair in zip(page, versions, strict=True) if pair[1] >= since and not is_temporary(pair[0])]
            changed |= {str(thread["thread_id"]): version for thread, version in newer}
            last = versions[-1] if len(page) == size else -1
            # Pages overlap: a thread deleted meanwhile moves the others up.
            offset, size = offset + size - _OVERLAP, _PAGE
    return dict(sorted(changed.items(), key=lambda thread: -thread[1]))


async def read_conversations(threads: Threads, actor: identity.Actor, thread_ids: Sequence[str]) -> list[Conversation]:
    """The person's conversations with these ids, as they are now, without temporary ones."""
    select = ["thread_id", "created_at", "updated_at", "metadata", "values"]
    listed = await threads_by_id(threads, thread_ids, owned_by(actor), select)
    return [conversation(thread) for thread in listed if not is_temporary(thread)]


async def unindexed(store: BaseStore, threads: Sequence[tuple[identity.Actor, str, str]]) -> list[str]:
    """The times of change of threads that the index lacks in their present version. A thread is its owner, id and that time."""
    gets = [GetOp(namespaces.recall(actor, "documents"), document_key(key_of(thread_id))) for actor, thread_id, _ in threads]
    known = [getattr(item, "value", {}).get("version") for item in await store.abatch(gets)]
    return [changed for (_, _, changed), version in zip(threads, known, strict=True) if version != version_of(changed)]


async def forget(store: BaseStore, actor: identity.Actor) -> int:
    """Drop a person's index. Returns the number of conversations in it."""
    conversations = 0
    for part in ("new", "segments", "documents", "texts"):
        namespace = namespaces.recall(actor, part)
        while page := await store.asearch(namespace, limit=PUT_PAGE):
            conversations += sum(item.key.startswith("conversation/") for item in page)
            await store.abatch([PutOp(namespace, item.key, None) for item in page])
    return conversations


async def rebuild(
    store: BaseStore, threads: Threads, actor: identity.Actor, *, restart: bool = False, progress: Progress = None
) -> int:
    """Make a person's index anew from their threads; without `restart` an interrupted call is continued. Returns the number of
    conversations in it.
    """
    documents = namespaces.recall(actor, "documents")
    if restart or await store.aget(documents, _REBUILDING) is None:
        await forget(store, actor)
        await store.aput(documents, _REBUILDING, {"format": FORMAT}, index=False)
    index = await catch_up(store, threads, actor, progress=progress)
    await store.adelete(documents, _REBUILDING)
    return int(index.live().sum())
