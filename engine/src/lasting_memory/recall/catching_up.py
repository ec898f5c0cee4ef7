"""Brings a person's index up to date with their threads, and takes what is deleted out of it.

A thread's version is the time of its last change (`format.version_of`). The index has the version of
each conversation, and a watermark: up to that version all conversations are indexed. A thread is
stale if the index has another version of it, or none. A conversation has a number, its key
(`format.key_of`).
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from langgraph.store.base import BaseStore

from lasting_memory.conversations.marks import is_temporary
from lasting_memory.memory import journal
from lasting_memory.people import identity, namespaces
from lasting_memory.people.scopes import ROUTES
from lasting_memory.recall.arrays import Rows
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
    limit: int | None = None,
    seconds: float | None = None,
    writer: journal.Writer | None = None,
    routes: Collection[str] = tuple(ROUTES),
) -> Index:
    """Indexes the conversations that have changed since the watermark, and moves it. Returns the
    index.

    It leaves out the thread `current`, which is still being written, and all but the `limit` newest,
    which the index counts as outstanding. It waits for embeddings at most so many seconds (None:
    until all are there). Of tools that read files of `routes` nothing is indexed.

    Raises `DamagedError` if others drop the index meanwhile: call again.
    """
    index = await _opened(store, actor, writer)
    versions = await _changed_versions(threads, actor, agents, index.watermark)
    changed_count = len(versions)
    current_version = versions.pop(current, None)
    stale_threads = _stale(index.table, versions)
    due_threads = stale_threads[:limit]
    index.outstanding = len(stale_threads) - len(due_threads)
    has_changed_much = changed_count > FIRST_PAGE
    # A search by a person who has said little since the last one writes nothing.
    if due_threads or has_changed_much:
        keys = index.keys
        is_written = True
        for start in range(0, len(due_threads), _READ_PAGE):
            end = start + _READ_PAGE
            page = due_threads[start:end]
            talks = await read_conversations(threads, actor, agents, page, routes)
            is_written = await index_conversations(store, actor, talks, writer, index)
            if not is_written:
                break
            for talk in talks:
                keys.add(key_of(talk.thread_id))
        version = None
        if is_written and not index.outstanding:
            version = _indexed_until(index.watermark, versions, current_version)
        # Whoever has put conversations has looked after that whether their person was forgotten.
        is_checked = bool(due_threads)
        present_index = await reload(store, actor, keys, version, writer, is_checked=is_checked)
        index.parts = present_index.parts
    if index.meaning:
        waiting_count = await embed_waiting(
            store, threads, actor, agents, seconds=seconds, writer=writer, routes=routes
        )
        index.outstanding += waiting_count
    return index


async def _opened(store: BaseStore, actor: identity.Actor, writer: journal.Writer | None) -> Index:
    """The index in the store; an empty one, and none in the store, if it cannot be read."""
    try:
        index = await load(store, actor)
    except DamagedError:
        await forget(store, actor)
        index = Index()
    return await with_meaning(store, actor, index, writer)


async def _changed_versions(
    threads: Threads, actor: identity.Actor, agents: Collection[str], watermark: int
) -> dict[str, int]:
    """The versions of the person's threads that changed since the watermark, by thread, without
    temporary ones.
    """
    since = max(0, watermark - _CLOCK_DIFFERENCE)
    versions = dict[str, int]()
    for metadata in owned_by(actor, agents):
        async for page in changed_since(threads, metadata, since):
            for thread in page:
                if is_temporary(thread):
                    continue
                thread_id = str(thread["thread_id"])
                updated_at = str(thread["updated_at"])
                versions[thread_id] = version_of(updated_at)
    return versions


def _stale(table: Rows, versions: dict[str, int]) -> list[str]:
    """Those of these threads that are stale, newest first.

    Takes the table of the index, and the version of each thread; 0 is an unknown one.
    """
    current_rows = table[newest(table)]
    keys_and_versions = current_rows[["key", "version"]].tolist()
    indexed_versions = dict(keys_and_versions)
    stale_threads = list[str]()
    for thread_id in sorted(versions, key=versions.__getitem__, reverse=True):
        version = versions[thread_id]
        key = key_of(thread_id)
        indexed_version = indexed_versions.get(key)
        if not version or indexed_version != version:
            stale_threads.append(thread_id)
    return stale_threads


def _indexed_until(watermark: int, versions: dict[str, int], current_version: int | None) -> int:
    """The new watermark, once all threads of these versions are indexed, but one of the version
    `current_version` is not (None: there is no such thread).

    A thread may have changed when the clock was ahead: what changes after it then would be below
    the watermark.
    """
    present_version = time.time_ns() // 1_000
    newest_version = max(versions.values(), default=0)
    last_version = min(newest_version, present_version)
    if current_version is not None:
        last_version = min(last_version, current_version)
    return max(watermark, last_version)


async def drop_deleted(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    agents: Collection[str],
    is_meant: Callable[[str], bool],
    *,
    writer: journal.Writer,
    dry_run: bool = False,
) -> int:
    """Removes the conversations from the index that are deleted, and of which a passage is meant.

    `is_meant` decides by a passage's text. Returns how many passages are meant. With `dry_run` it
    only counts. Other deleted conversations leave the index when a search finds them.
    """
    passage_counts = await _meant_passages(store, actor, is_meant)
    thread_ids = await _thread_ids(store, actor, passage_counts)
    living_keys = await _living(threads, actor, agents, thread_ids)
    deleted_keys = passage_counts.keys() - living_keys
    count = 0
    for key in deleted_keys:
        count += passage_counts[key]
    if dry_run:
        return count
    deleted_ids = list[str]()
    for thread_id in thread_ids:
        if key_of(thread_id) in deleted_keys:
            deleted_ids.append(thread_id)
    await drop(store, actor, deleted_ids, writer)
    # Also where the document, which names the thread, is missing already.
    for key in deleted_keys:
        ops = await text_ops(store, actor, key, None)
        await write(store, actor, ops, writer)
    return count


async def _meant_passages(
    store: BaseStore, actor: identity.Actor, is_meant: Callable[[str], bool]
) -> Counter[int]:
    """How many passages are meant of each conversation, by its key."""
    texts = namespaces.recall(actor, "texts")
    counts = Counter[int]()
    for item in await journal.all_items(store, texts):
        text = str(item.value.get("text", ""))
        if is_meant(text):
            key = conversation_of_passage(item)
            counts[key] += 1
    return counts


async def _living(
    threads: Threads, actor: identity.Actor, agents: Collection[str], thread_ids: Sequence[str]
) -> set[int]:
    """The keys of those of these threads that still exist."""
    living_keys = set[int]()
    if not thread_ids:
        return living_keys
    owners = owned_by(actor, agents)
    existing_threads = await threads_by_id(threads, thread_ids, owners, ["thread_id"])
    for thread in existing_threads:
        thread_id = str(thread["thread_id"])
        living_keys.add(key_of(thread_id))
    return living_keys


async def _thread_ids(store: BaseStore, actor: identity.Actor, keys: Iterable[int]) -> list[str]:
    """The threads of those conversations of these keys that have a document in the index."""
    thread_ids = list[str]()
    sorted_keys = sorted(keys)
    for item in await document_items(store, actor, sorted_keys):
        if item is not None:
            thread_id = str(item.value["thread_id"])
            thread_ids.append(thread_id)
    return thread_ids
