"""Bringing a person's index up to date with their threads, and what is deleted out of it."""

import time
from collections.abc import Callable, Collection
from typing import Any, cast

from langgraph.store.base import BaseStore, GetOp

from lasting_memory.conversations.marks import is_temporary
from lasting_memory.memory import journal
from lasting_memory.people import identity, namespaces
from lasting_memory.people.scopes import ROUTES
from lasting_memory.recall.embedding import embed_waiting, with_meaning
from lasting_memory.recall.format import DamagedError, key_of, newest, version_of
from lasting_memory.recall.index import (
    Index,
    drop,
    forget,
    index_conversations,
    load,
    reload,
    write,
)
from lasting_memory.recall.meaning import text_ops
from lasting_memory.recall.threads import (
    FIRST_PAGE,
    Threads,
    changed_since,
    owned_by,
    read_conversations,
    threads_by_id,
)

# Microseconds by which the clocks of two servers may differ.
_CLOCK_DIFFERENCE = 600 * 1_000_000
# Threads that are read at once.
_READ_PAGE = 50


async def catch_up(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    *,
    agents: Collection[str],
    current: str = "",
    most: int | None = None,
    seconds: float | None = None,
    began: journal.Began | None = None,
    routes: Collection[str] = tuple(ROUTES),
) -> Index:
    """Index the conversations that have changed since the watermark, and move it.

    Of tools that read files of `routes` nothing is indexed. Leaves out the thread `current`, which
    is still being written, and all but the `most` newest: the index counts these. Waits for
    embeddings at most so many seconds (None: until all are there). Raises `DamagedError` if others
    drop the index meanwhile: call again.
    """
    index = await _opened(store, actor, began)
    versions = await _changed_versions(threads, actor, agents, index.watermark)
    others = {thread_id: at for thread_id, at in versions.items() if thread_id != current}
    stale = _stale(index.table, others)
    taken = stale[:most]
    index.outstanding = len(stale) - len(taken)
    # A search by a person who has said little since the last one writes nothing.
    if taken or len(versions) > FIRST_PAGE:
        keys = index.keys
        is_refused = False
        for start in range(0, len(taken), _READ_PAGE):
            page = taken[start : start + _READ_PAGE]
            talks = await read_conversations(threads, actor, agents, page, routes)
            is_refused = not await index_conversations(store, actor, talks, began, index)
            if is_refused:
                break
            keys.update(key_of(talk.thread_id) for talk in talks)
        version = None
        if not (is_refused or index.outstanding):
            version = _indexed_until(index.watermark, others, versions.get(current))
        # Whoever has put conversations has looked after that whether their person was forgotten.
        present = await reload(store, actor, keys, version, began, is_checked=bool(taken))
        index.parts = present.parts
    if index.meaning:
        index.outstanding += await embed_waiting(
            store, threads, actor, agents, seconds=seconds, began=began, routes=routes
        )
    return index


async def _opened(store: BaseStore, actor: identity.Actor, began: journal.Began | None) -> Index:
    """The index; an empty one if it cannot be read."""
    try:
        index = await load(store, actor)
    except DamagedError:
        await forget(store, actor)
        index = Index()
    return await with_meaning(store, actor, index, began)


async def _changed_versions(
    threads: Threads, actor: identity.Actor, agents: Collection[str], watermark: int
) -> dict[str, int]:
    """The versions of the person's conversations that changed since the watermark, by thread."""
    since = max(0, watermark - _CLOCK_DIFFERENCE)
    versions = dict[str, int]()
    for metadata in owned_by(actor, agents):
        async for page in changed_since(threads, metadata, since):
            for thread in page:
                if not is_temporary(thread):
                    versions[str(thread["thread_id"])] = version_of(str(thread["updated_at"]))
    return versions


def _stale(table: Any, versions: dict[str, int]) -> list[str]:
    """The threads of which the index has another version, newest first."""
    known = dict(table[newest(table)][["key", "version"]].tolist())
    stale = list[str]()
    for thread_id in sorted(versions, key=versions.__getitem__, reverse=True):
        version = versions[thread_id]
        if not version or known.get(key_of(thread_id)) != version:
            stale.append(thread_id)
    return stale


def _indexed_until(watermark: int, versions: dict[str, int], current: int | None) -> int:
    """The version up to which all conversations are indexed, once these are, and one of the version
    `current` is not.

    A thread may have changed when the clock was ahead: what changes after it then would be below
    the watermark.
    """
    last = min(max(versions.values(), default=0), time.time_ns() // 1_000)
    if current is not None:
        last = min(last, current)
    return max(watermark, last)


async def drop_deleted(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    agents: Collection[str],
    is_meant: Callable[[str], bool],
    *,
    began: journal.Began,
    dry_run: bool = False,
) -> int:
    """Remove from a person's index what it still has of deleted conversations with a passage that
    is meant.

    Returns how many passages are meant. With `dry_run` it only counts. Others leave the index when
    a search finds them.
    """
    texts = await journal.all_items(store, namespaces.recall(actor, "texts"))
    meant = [item for item in texts if is_meant(str(item.value.get("text", "")))]
    keys = {_conversation_key(item) for item in meant}
    thread_ids = await _thread_ids(store, actor, keys)
    living = set[int]()
    if thread_ids:
        owned = owned_by(actor, agents)
        for thread in await threads_by_id(threads, thread_ids, owned, ["thread_id"]):
            living.add(key_of(str(thread["thread_id"])))
    gone = [item for item in meant if _conversation_key(item) not in living]
    if dry_run:
        return len(gone)
    deleted = [thread_id for thread_id in thread_ids if key_of(thread_id) not in living]
    await drop(store, actor, deleted, began)
    # Also where the document is gone already.
    for key in keys - living:
        await write(store, actor, await text_ops(store, actor, key, None), began)
    return len(gone)


def _conversation_key(item: Any) -> int:
    """The number of the conversation of an item of `texts`."""
    return int(item.key[:16], 16)


async def _thread_ids(store: BaseStore, actor: identity.Actor, keys: Collection[int]) -> list[str]:
    """The threads of the conversations of these numbers that have a document."""
    where = namespaces.recall(actor, "documents")
    items = await store.abatch([GetOp(where, f"{key:016x}") for key in sorted(keys)])
    return [str(item.value["thread_id"]) for item in cast("list[Any]", items) if item]
