"""The index of a person's past conversations, derived from their threads, in the store. Each search brings it up to date.

Five namespaces a person (`namespaces.recall`):

- `documents`: an item for each conversation (`documents.Document`), the buckets of the segments, and the watermark: a time up
  to which all changed conversations are indexed. Those that changed later are compared one by one.
- `new`: postings of conversations that are in no segment yet. The writer of number `MERGE_AT` merges them into a segment.
- `segments`: the header of each. `FANOUT` of about one size are merged, so that 10,000 conversations are in a dozen.
- `texts`: passages for the store's semantic index, where it has one (`recall/semantic.py`).
- `waiting`: conversations whose passages are not in that index yet. Embedding takes long, so a search waits seconds for it;
  what is left goes on behind it, in this process, or with the next search or consolidation.

The store has no transactions. So each conversation has keys of its own, and a merge puts its result before it deletes what it
has read. A segment's name comes from its parts' names, so two merges of the same parts make the same segment. After two merges
of different parts a conversation may be there twice until the next merge; none is ever lost. An index with an item
that cannot be read is made anew.
"""

import asyncio
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from typing import Any, cast

from langgraph.store.base import BaseStore, GetOp, Op, PutOp, SearchOp

from lasting_memory import journal, platform
from lasting_memory.controls import is_temporary
from lasting_memory.people import identity, namespaces
from lasting_memory.recall import documents, semantic
from lasting_memory.recall.conversations import Conversation, Threads, conversation, owned_by, threads_by_id
from lasting_memory.recall.documents import Array, DamagedError, Postings, key_of, version_of

logger = logging.getLogger("memory")

# New conversations that become a segment, and segments of about one size that become a larger one.
MERGE_AT, FANOUT = 64, 4
WATERMARK = "watermark"
# Seconds by which the clocks of two servers may differ.
_CLOCK_SECONDS = 600
# Bytes of one bucket, roughly, and what one conversation adds to all of them.
_BUCKET_BYTES, _CONVERSATION_BYTES = 4_096, 400
# Items of one batch of writes, and far more items than merging lets there be.
_PUT_PAGE, _MOST = 200, 1_000
# Threads of a page: listed (of the first page and the others), by which pages overlap, and read.
_FIRST_PAGE, _PAGE, _OVERLAP, _READ_PAGE = 20, 1_000, 5, 50
# Conversations that are embedded before the list of the waiting is read again.
_EMBED_PAGE = 10


@dataclass(slots=True)
class Index:
    """The index before any bucket is read: its conversations, and the time up to which it is complete.

    `outstanding` counts the conversations that are not in it yet, or not by their meaning; `meaning` says whether that counts.
    """

    parts: list[Postings] = field(default_factory=list)
    watermark: int = 0
    outstanding: int = 0
    meaning: bool = False

    def lacks(self, wanted: Mapping[str, int]) -> list[str]:
        """Those of the threads that are not indexed in this version."""
        table, _ = documents.together(self.parts)
        known = dict(zip(table["key"].tolist(), table["version"].tolist(), strict=True))  # the newest entry is the last
        return [thread_id for thread_id, version in wanted.items() if not version or known.get(key_of(thread_id)) != version]


def document_key(key: int) -> str:
    """Of the item of a conversation."""
    return f"conversation/{key:016x}"


async def load(store: BaseStore, actor: identity.Actor) -> Index:
    """The index in the store. Raises `DamagedError` if an item cannot be read."""
    kept, new, segments = (namespaces.recall(actor, part) for part in ("documents", "new", "segments"))
    reads: list[Op] = [SearchOp(segments, limit=_MOST), SearchOp(new, limit=_MOST), GetOp(kept, WATERMARK)]
    old_parts, new_parts, watermark = cast("Any", await store.abatch(reads))
    parts = [documents.read_header(each.key, each.value, inline=each.namespace == new) for each in [*old_parts, *new_parts]]
    version = watermark.value.get("version") if watermark else 0
    return Index(sorted(parts, key=lambda part: part.indexed), version if isinstance(version, int) else 0)


async def read_buckets(
    store: BaseStore, actor: identity.Actor, parts: Sequence[Postings], hashes: Collection[int]
) -> list[list[Array]]:
    """Of each part of the index the buckets in which words with these hashes are. Raises `DamagedError` if one cannot be
    read, or is gone: its segment was just merged.
    """
    numbers = [sorted({hashed % part.buckets for hashed in hashes}) for part in parts]
    apart = [(part, some) for part, some in zip(parts, numbers, strict=True) if part.bucket is None]
    kept = namespaces.recall(actor, "documents")
    items = iter(await store.abatch([GetOp(kept, f"segment/{part.name}/{n}") for part, some in apart for n in some]))
    return [
        [documents.read_bucket(getattr(next(items), "value", {}), len(part.table)) for _ in some]
        if part.bucket is None
        else [part.bucket]
        for part, some in zip(parts, numbers, strict=True)
    ]


async def index_conversations(
    store: BaseStore, actor: identity.Actor, talks: Sequence[Conversation], began: journal.Began | None = None
) -> None:
    """Put conversations into their owner's index, in place of earlier versions. Safe to repeat."""
    made = await asyncio.to_thread(lambda: [(text := documents.document(talk), documents.postings(text)) for talk in talks])
    ops, embedded = list[PutOp](), platform.embedding_model(store)
    for text, words in made:
        key = key_of(text.thread_id)
        ops.append(PutOp(namespaces.recall(actor, "documents"), document_key(key), text.stored(), index=False))
        ops.append(_new_part(actor, words))
        if embedded:
            # Of another version it is another item: it may be put while this one is worked off.
            waits = {"thread_id": text.thread_id, "version": text.version}
            ops.append(PutOp(namespaces.recall(actor, "waiting"), f"{key:016x}@{text.version}", waits, index=False))
    await _write(store, actor, ops, began)


async def drop(store: BaseStore, actor: identity.Actor, thread_ids: Iterable[str], began: journal.Began | None = None) -> None:
    """Remove deleted conversations from a person's index: documents and texts now, postings with the next merges."""
    for key in set(map(key_of, thread_ids)):
        ops = await semantic.text_ops(store, actor, key, None)
        document = PutOp(namespaces.recall(actor, "documents"), document_key(key), None)
        await _write(store, actor, [*ops, _new_part(actor, documents.gone(key)), document], began)


async def _write(store: BaseStore, actor: identity.Actor, ops: Sequence[PutOp], began: journal.Began | None) -> bool:
    """Write to a person's index; nothing if they were forgotten since the request of this `began`, or else the run, began."""
    if await journal.is_forgotten(store, began or journal.began(actor)):
        return False
    await _put(store, ops)
    await _merge(store, actor)
    return True


async def _put(store: BaseStore, ops: Sequence[PutOp]) -> None:
    for start in range(0, len(ops), _PUT_PAGE):
        await store.abatch(ops[start : start + _PUT_PAGE])


def _new_part(actor: identity.Actor, postings: Postings) -> PutOp:
    """The operation that puts the postings of one conversation."""
    header, (bucket,) = postings.stored()
    ((key, version, _),) = postings.table.tolist()
    value = {**header, **bucket, "indexed": time.time_ns() // 1_000}
    return PutOp(namespaces.recall(actor, "new"), f"{key:016x}@{version}", value, index=False)


async def _merge(store: BaseStore, actor: identity.Actor) -> None:
    """Merge parts that have become many. Of one process only one task at a time merges a person's."""
    lock = platform.lock_of("merge", actor)
    if lock.locked() or len(await store.asearch(namespaces.recall(actor, "new"), limit=MERGE_AT)) < MERGE_AT:
        return
    async with lock:
        try:
            while parts := _many(await load(store, actor)):
                await _replace(store, actor, parts)
        except DamagedError:
            return  # another process is merging them; what cannot be read, the search that needs it notices


def _many(index: Index) -> list[Postings]:
    """Many parts of one size, the oldest first, so that two processes choose the same parts and make the same segment."""
    sizes: dict[int, list[Postings]] = defaultdict(list)
    for part in sorted(index.parts, key=lambda part: (part.indexed, part.name)):
        # 0 for what is in no segment, 1 for the smallest segments, 2 for those made of `FANOUT` of them, and so on.
        length = max(1, len(part.table) // MERGE_AT).bit_length() - 1
        sizes[1 + length // (FANOUT.bit_length() - 1) if part.bucket is None else 0].append(part)
    many = ((sizes[size], FANOUT if size else MERGE_AT) for size in sorted(sizes))
    return next((parts[:count] for parts, count in many if len(parts) >= count), [])


async def _replace(store: BaseStore, actor: identity.Actor, parts: Sequence[Postings]) -> None:
    """Put the parts as one segment, then delete them."""
    read = await read_buckets(store, actor, parts, range(max(part.buckets for part in parts)))
    one = await asyncio.to_thread(documents.merged, parts, read)
    segment = blake2b(" ".join(sorted(part.name for part in parts)).encode(), digest_size=16).hexdigest()
    # A power of 2, so that buckets have about the same size for any number of conversations.
    buckets = 1 << max(0, (len(one.table) * _CONVERSATION_BYTES // _BUCKET_BYTES).bit_length() - 1)
    header, values = await asyncio.to_thread(one.stored, buckets)
    kept, segments, new = (namespaces.recall(actor, name) for name in ("documents", "segments", "new"))
    await _put(store, [PutOp(kept, f"segment/{segment}/{n}", value, index=False) for n, value in enumerate(values)])
    # A segment counts once its header exists.
    await store.aput(segments, segment, header | {"indexed": max(part.indexed for part in parts)}, index=False)
    apart = [part for part in parts if part.bucket is None]
    gone = [(kept, f"segment/{part.name}/{n}") for part in apart for n in range(part.buckets)]
    gone += [(new if part.bucket is not None else segments, part.name) for part in parts]
    await _put(store, [PutOp(namespace, key, None) for namespace, key in gone])


# Who embeds for whom, by event loop and person.
_embedding: dict[tuple[asyncio.AbstractEventLoop, identity.Actor], asyncio.Task[None]] = {}


async def catch_up(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    *,
    agents: Collection[str],
    current: str = "",
    most: int = sys.maxsize,
    seconds: float | None = None,
    began: journal.Began | None = None,
) -> Index:
    """Index the conversations that have changed since the watermark, and move it.

    Leaves out the thread `current`, which is still being written, and all but the `most` newest: the index counts these. Waits
    for embeddings at most so many seconds (None: until all are there).
    """
    try:
        index = await load(store, actor)
    except DamagedError:
        await forget(store, actor)
        index = Index()
    index = await _with_meaning(store, actor, index, began)
    listed = await _changed(threads, actor, agents, max(0, index.watermark - _CLOCK_SECONDS * 1_000_000))
    others = {thread_id: version for thread_id, version in listed.items() if thread_id != current}
    stale = index.lacks(others)
    taken = stale[:most]
    for start in range(0, len(taken), _READ_PAGE):
        talks = await read_conversations(threads, actor, agents, taken[start : start + _READ_PAGE])
        await index_conversations(store, actor, talks, began)
    if taken:
        index.parts = (await load(store, actor)).parts
    index.outstanding = len(stale) - len(taken)
    # A search by a person who has said little since the last one writes nothing.
    if not index.outstanding and (taken or len(listed) > _FIRST_PAGE):
        # A thread may have changed when the clock was ahead: what changes after it then would be below the watermark.
        newest = min(max(others.values(), default=0), time.time_ns() // 1_000)
        value = {"format": documents.FORMAT, "version": max(index.watermark, min(newest, listed.get(current, newest)))}
        await _write(store, actor, [PutOp(namespaces.recall(actor, "documents"), WATERMARK, value, index=False)], began)
    waiting = namespaces.recall(actor, "waiting")
    if index.meaning and await store.asearch(waiting, limit=1):
        who = asyncio.get_running_loop(), actor
        if who not in _embedding:
            _embedding[who] = asyncio.create_task(_embed_waiting(store, threads, actor, agents, began))
            _embedding[who].add_done_callback(lambda _: _embedding.pop(who, None))
        await asyncio.wait({_embedding[who]}, timeout=seconds)
        index.outstanding += len(await store.asearch(waiting, limit=_MOST))
    return index


async def _with_meaning(store: BaseStore, actor: identity.Actor, index: Index, began: journal.Began | None) -> Index:
    """The index, and whether its meaning counts. An empty one if the store has a semantic index now that knows none of it."""
    if not (model := platform.embedding_model(store)):
        return index
    key = namespaces.recall(actor, "texts"), semantic.MODEL
    if (item := await store.aget(*key)) is None:
        if index.parts:
            await forget(store, actor)
            index = Index()
        await _write(store, actor, [PutOp(*key, {"model": model}, index=False)], began)
    elif (known := str(item.value.get("model"))) != model:
        _warn_of_change(known, model)
        return index
    index.meaning = True
    return index


@cache
def _warn_of_change(before: str, now: str) -> None:
    logger.warning(
        "The store has vectors of %s, and store.index says %s: past conversations are found by their words alone. "
        "`python -m seeds embeddings --url <server>` has all of them embedded anew.",
        before,
        now,
    )


async def _embed_waiting(
    store: BaseStore, threads: Threads, actor: identity.Actor, agents: Collection[str], began: journal.Began | None
) -> None:
    waiting = namespaces.recall(actor, "waiting")
    try:
        while items := await store.asearch(waiting, limit=_MOST):
            for item in sorted(items, key=lambda item: -int(item.value["version"]))[:_EMBED_PAGE]:
                thread_id = str(item.value["thread_id"])
                talks = await read_conversations(threads, actor, agents, [thread_id])
                ops = await semantic.text_ops(store, actor, key_of(thread_id), talks[0] if talks else None)
                if not await _write(store, actor, [*ops, PutOp(waiting, item.key, None)], began):
                    return
    except Exception as error:  # whatever a provider of embeddings raises, words find it, and the next search tries again
        logger.warning("Past conversations were not embedded: %r.", error, exc_info=True)


async def _changed(threads: Threads, actor: identity.Actor, agents: Collection[str], since: int) -> dict[str, int]:
    """The person's threads that changed since then, newest first, with the version of each."""
    changed: dict[str, int] = {}
    newest: dict[str, Any] = {"sort_by": "updated_at", "sort_order": "desc", "select": ["thread_id", "updated_at", "metadata"]}
    for metadata in owned_by(actor, agents):
        offset, size, last = 0, _FIRST_PAGE, since
        while last >= since:
            page = await threads.search(metadata=metadata, limit=size, offset=offset, **newest)
            versions = [version_of(str(thread["updated_at"])) for thread in page]
            newer = [pair for pair in zip(page, versions, strict=True) if pair[1] >= since and not is_temporary(pair[0])]
            changed |= {str(thread["thread_id"]): version for thread, version in newer}
            last = versions[-1] if len(page) == size else -1
            # Pages overlap: a thread deleted meanwhile moves the others up.
            offset, size = offset + size - _OVERLAP, _PAGE
    return dict(sorted(changed.items(), key=lambda thread: -thread[1]))


async def read_conversations(
    threads: Threads, actor: identity.Actor, agents: Collection[str], thread_ids: Sequence[str]
) -> list[Conversation]:
    """The person's conversations with these agents and of these ids, as they are now, without temporary ones."""
    select = ["thread_id", "created_at", "updated_at", "metadata", "values"]
    listed = await threads_by_id(threads, thread_ids, owned_by(actor, agents), select)
    return [conversation(thread) for thread in listed if not is_temporary(thread)]


async def forget(store: BaseStore, actor: identity.Actor) -> None:
    """Drop a person's index. The next search makes it anew."""
    for part in namespaces.RECALL_PARTS:
        while page := await store.asearch(namespaces.recall(actor, part), limit=_PUT_PAGE):
            await store.abatch([PutOp(item.namespace, item.key, None) for item in page])
