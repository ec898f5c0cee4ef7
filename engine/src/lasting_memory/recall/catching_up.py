"""Bringing a person's index up to date with their threads, and what is deleted out of it."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from langgraph.store.base import BaseStore

from lasting_memory.conversations.marks import is_temporary
from lasting_memory.memory import journal
from lasting_memory.people import identity, namespaces
from lasting_memory.people.scopes import ROUTES
from lasting_memory.recall.embedding import embed_waiting, with_meaning
from lasting_memory.recall.format import DamagedError, key_of, newest, version_of
from lasting_memory.recall.index import (
    Index,
    document_items,
    drop,
    forget,
    index_conversations,
    load,
    reload,
    write,
)
from lasting_memory.recall.meaning import conversation_of_passage, text_ops
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
    others = await _changed_versions(threads, actor, agents, index.watermark)
    changed = len(others)
    version_of_current = others.pop(current, None)
    stale = _stale(index.table, others)
    taken = stale[:most]
    left_out = stale[len(taken) :]
    index.outstanding = len(left_out)
    # A search by a person who has said little since the last one writes nothing.
    if taken or changed > FIRST_PAGE:
        keys = index.keys
        is_refused = False
        for start in range(0, len(taken), _READ_PAGE):
            page = taken[start : start + _READ_PAGE]
            talks = await read_conversations(threads, actor, agents, page, routes)
            is_written = await index_conversations(store, actor, talks, began, index)
            is_refused = not is_written
            if is_refused:
                break
            for talk in talks:
                keys.add(key_of(talk.thread_id))
        version = None
        is_complete = not (is_refused or index.outstanding)
        if is_complete:
            version = _indexed_until(index.watermark, others, version_of_current)
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
                    thread_id = str(thread["thread_id"])
                    updated_at = str(thread["updated_at"])
                    versions[thread_id] = version_of(updated_at)
    return versions


def _stale(table: Any, versions: dict[str, int]) -> list[str]:
    """The threads of which the index has another version, newest first."""
    present = table[newest(table)]
    keys_and_versions = present[["key", "version"]].tolist()
    known = dict(keys_and_versions)
    stale = list[str]()
    for thread_id in sorted(versions, key=versions.__getitem__, reverse=True):
        version = versions[thread_id]
        known_version = known.get(key_of(thread_id))
        if not version or known_version != version:
            stale.append(thread_id)
    return stale


def _indexed_until(watermark: int, versions: dict[str, int], current: int | None) -> int:
    """The version up to which all conversations are indexed, once these are, and one of the version
    `current` is not.

    A thread may have changed when the clock was ahead: what changes after it then would be below
    the watermark.
    """
    now = time.time_ns() // 1_000
    newest_version = max(versions.values(), default=0)
    last = min(newest_version, now)
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
    meant = await _meant_passages(store, actor, is_meant)
    thread_ids = await _thread_ids(store, actor, meant)
    living = await _living(threads, actor, agents, thread_ids)
    gone = meant.keys() - living
    count = 0
    for key in gone:
        count += meant[key]
    if dry_run:
        return count
    deleted = [thread_id for thread_id in thread_ids if key_of(thread_id) in gone]
    await drop(store, actor, deleted, began)
    # Also where the document is gone already.
    for key in gone:
        ops = await text_ops(store, actor, key, None)
        await write(store, actor, ops, began)
    return count


async def _meant_passages(
    store: BaseStore, actor: identity.Actor, is_meant: Callable[[str], bool]
) -> Counter[int]:
    """How many passages are meant of each conversation, by number."""
    texts = namespaces.recall(actor, "texts")
    meant = Counter[int]()
    for item in await journal.all_items(store, texts):
        text = str(item.value.get("text", ""))
        if is_meant(text):
            meant[conversation_of_passage(item)] += 1
    return meant


async def _living(
    threads: Threads, actor: identity.Actor, agents: Collection[str], thread_ids: Sequence[str]
) -> set[int]:
    """The numbers of those conversations that are there."""
    living = set[int]()
    if not thread_ids:
        return living
    owned = owned_by(actor, agents)
    for thread in await threads_by_id(threads, thread_ids, owned, ["thread_id"]):
        thread_id = str(thread["thread_id"])
        living.add(key_of(thread_id))
    return living


async def _thread_ids(store: BaseStore, actor: identity.Actor, keys: Iterable[int]) -> list[str]:
    """The threads of the conversations of these numbers that have a document."""
    thread_ids = list[str]()
    for item in await document_items(store, actor, sorted(keys)):
        if item is not None:
            thread_id = str(item.value["thread_id"])
            thread_ids.append(thread_id)
    return thread_ids
