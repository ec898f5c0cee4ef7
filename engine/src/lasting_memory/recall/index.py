"""The index of a person's past conversations, derived from their threads, in the store. Each search
brings it up to date.

Five namespaces a person (`namespaces.recall`):

- `documents`: an item for each conversation (`Document`), of a long one several and their number;
  the buckets of the parts
  below; and the watermark: a time up to which all changed conversations are indexed. Those that
  changed later are compared one by one.
- `new`: a part of the index for each conversation that is in no segment yet. The writer of number
  `MERGE_AT` makes them one.
- `segments`: parts of many conversations. An item is the table of these. Their postings are spread
  over buckets by word, so
  that a query reads only those of its words. A new segment takes in those that are not larger:
  there are a dozen at most.
- `texts`: for the store's semantic index, if it has one: passages of a few turns, embedded by their
  field `text`; a list of
  each conversation's, so that only those that changed are embedded again; and the model that
  embedded all of them.
- `waiting`: conversations whose passages are not there yet. Embedding takes long, so a search waits
  seconds for it; what is
  left goes on behind it, in this process, or with the next search or consolidation.

The store has no transactions. So each conversation has keys of its own, and a merge puts its result
before it deletes what it has read. A segment's name comes from its parts' names, so two merges of
the same parts make the same segment. After two merges of different parts a conversation may be
there twice until the next merge, and the newer counts; none is ever lost. An index with an item
that cannot be read is made anew.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from hashlib import blake2b
from typing import Any, cast

import numpy as np
from langgraph.store.base import BaseStore, GetOp, Op, PutOp, SearchOp

from lasting_memory import journal, platform
from lasting_memory.controls import is_temporary
from lasting_memory.people import identity, namespaces
from lasting_memory.people.scopes import ROUTES
from lasting_memory.recall import conversations
from lasting_memory.recall.conversations import (
    Conversation,
    DamagedError,
    Document,
    Part,
    Threads,
    conversation_of,
    key_of,
    newest,
    version_of,
)
from lasting_memory.recall.lexical import Array
from lasting_memory.recall.meaning import text_ops

logger = logging.getLogger("memory")

# New conversations that become a segment, and postings of one of its buckets, roughly.
MERGE_AT, _BUCKET_ROWS = 64, 1_500
# Keys of items beside the conversations': the watermark, and the name of the model that embeds.
WATERMARK, MODEL = "watermark", "model"
# Seconds by which the clocks of two servers may differ.
_CLOCK_SECONDS = 600
# Items that are deleted at once, and far more items than merging lets there be.
_DELETE_PAGE, _MOST = 200, 1_000
# Seconds that a forgetting waits for what is embedded at that moment.
_STOP_SECONDS = 10.0
# Threads of a page: listed (of the first page and the others), by which pages overlap, and read.
_FIRST_PAGE, _PAGE, _OVERLAP, _READ_PAGE = 20, 1_000, 5, 50


@dataclass(slots=True)
class Index:
    """The index before any bucket is read: its conversations, and the time up to which it is
    complete.

    `outstanding` counts the conversations that are not in it yet, or not by their meaning;
    `meaning` says whether that counts.
    """

    parts: list[Part] = field(default_factory=list)
    watermark: int = 0
    outstanding: int = 0
    meaning: bool = False

    @property
    def table(self) -> Array:
        """The rows of all parts."""
        return conversations.joined([part.table for part in self.parts], conversations.TABLE)


async def load(store: BaseStore, actor: identity.Actor) -> Index:
    """The index in the store. Raises `DamagedError` if an item cannot be read.

    The store reads no two items at one time. What moves while this reads is found twice, never
    missed: it moves from `new` to `segments`, which are read last, and the watermark, which says
    that all before it is there, is read first (langgraph's stores get before they search). Without
    any part it says nothing: somebody is dropping the index.
    """
    new_parts = SearchOp(namespaces.recall(actor, "new"), limit=_MOST)
    reads: list[Op] = [GetOp(namespaces.recall(actor, "documents"), WATERMARK), new_parts]
    watermark, new = cast("Any", await store.abatch(reads))
    segments = await store.asearch(namespaces.recall(actor, "segments"), limit=_MOST)
    parts = [conversations.read_part(item) for item in [*segments, *new]]
    return Index(parts, watermark.value.get("version", 0) if watermark and parts else 0)


async def state_of(store: BaseStore, actor: identity.Actor) -> frozenset[tuple[str, datetime]]:
    """The parts of the index, and when each was put. Another value says that somebody has changed
    the index.
    """
    parts = await store.asearch(namespaces.recall(actor, "new"), limit=_MOST)
    parts += await store.asearch(namespaces.recall(actor, "segments"), limit=_MOST)
    return frozenset((part.key, part.updated_at) for part in parts)


async def read_postings(
    store: BaseStore, actor: identity.Actor, parts: Sequence[Part], hashes: Collection[int]
) -> Array:
    """The postings of these words, and others, by places in the table of all parts. Raises
    `DamagedError` if a bucket cannot be read, or is gone: its part was just merged.
    """
    kept, wanted, start = namespaces.recall(actor, "documents"), list[tuple[str, int]](), 0
    for part in parts:
        wanted += [
            (f"{part.name}/{n}", start) for n in {hashed % part.buckets for hashed in hashes}
        ]
        start += len(part.table)
    items = await store.abatch([GetOp(kept, key) for key, _ in wanted])
    rows = [
        conversations.unpacked(item, postings=conversations.POSTINGS)[0].copy() for item in items
    ]
    for some, (_, start) in zip(rows, wanted, strict=True):
        some["place"] += start
    return conversations.joined(rows, conversations.POSTINGS)


async def index_conversations(
    store: BaseStore,
    actor: identity.Actor,
    talks: Sequence[Conversation],
    began: journal.Began | None = None,
    before: Array | None = None,
) -> None:
    """Put conversations into their owner's index, in place of earlier versions. Safe to repeat.

    `before` is the table of the index until now: it tells which documents a conversation that
    became shorter has too many.
    """
    kept, embedded, ops = (
        namespaces.recall(actor, "documents"),
        platform.embedding_model(store),
        list[PutOp](),
    )
    counts = _counts_in(before)
    for texts in await platform.in_thread(lambda: list(map(conversations.documents, talks))):
        key, version, *_ = texts[0].row[0].tolist()
        ops += [
            PutOp(kept, f"{key + number:016x}", text.stored(), index=False)
            for number, text in enumerate(texts)
        ]
        ops += _count_ops(actor, key, len(texts), counts.get(key, 1))
        table = np.concatenate([text.row for text in texts])
        rows = await platform.in_thread(_postings, texts)
        buckets = 1 if len(texts) == 1 else 1 + len(rows) // _BUCKET_ROWS
        part = Part(
            namespaces.recall(actor, "new"),
            f"{key:016x}@{version}",
            table,
            [texts[0].language],
            buckets,
        )
        ops += _part_ops(actor, part, rows)
        if embedded:
            # Of another version it is another item: it may be put while this one is worked off.
            waits = {"thread_id": texts[0].thread_id, "version": version}
            ops.append(PutOp(namespaces.recall(actor, "waiting"), part.name, waits, index=False))
    await _write(store, actor, ops, began)
    await _merge(store, actor, began)


def _postings(texts: Sequence[Document]) -> Array:
    """The postings of a conversation's documents."""
    postings = list[Array]()
    for place, text in enumerate(texts):
        rows = conversations.postings(text)
        rows["place"] = place
        postings.append(rows)
    return conversations.joined(postings, conversations.POSTINGS)


def _counts_in(table: Array | None) -> dict[int, int]:
    """How many documents the conversations of a table have, where it is more than one."""
    if table is None:
        return {}
    keys, counts = np.unique(conversation_of(np.unique(table["key"])), return_counts=True)
    return dict(zip(keys[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True))


async def _document_counts(
    store: BaseStore, actor: identity.Actor, keys: Sequence[int]
) -> dict[int, int]:
    """How many documents the conversations of these numbers have in the store. Only more than one
    are noted.
    """
    where = namespaces.recall(actor, "documents")
    items = cast(
        "list[Any]", await store.abatch([GetOp(where, f"{key:016x}/count") for key in keys])
    )
    return {
        key: item.value["documents"] if item else 1 for key, item in zip(keys, items, strict=True)
    }


def _count_ops(actor: identity.Actor, key: int, count: int, before: int) -> list[PutOp]:
    """The operations that note how many documents a conversation has, and delete those that it had
    beyond.
    """
    where, noted = namespaces.recall(actor, "documents"), f"{key:016x}/count"
    ops = [PutOp(where, f"{key + number:016x}", None) for number in range(max(1, count), before)]
    if count > 1:
        ops.append(PutOp(where, noted, {"documents": count}, index=False))
    elif before > 1:
        ops.append(PutOp(where, noted, None))
    return ops


async def drop(
    store: BaseStore,
    actor: identity.Actor,
    thread_ids: Collection[str],
    began: journal.Began | None = None,
) -> None:
    """Remove deleted conversations from a person's index: documents and texts now, postings with
    the next merges.
    """
    counts = await _document_counts(store, actor, [key_of(thread_id) for thread_id in thread_ids])
    for key, count in counts.items():
        # A row without words, newer than all before, marks a conversation as gone.
        row = np.array([(key, time.time_ns() // 1_000, 0, 0, 0, 0)], conversations.TABLE)
        part = Part(namespaces.recall(actor, "new"), f"{key:016x}@gone", row, [], 1)
        ops = _part_ops(actor, part, np.zeros(0, conversations.POSTINGS))
        ops.append(PutOp(namespaces.recall(actor, "documents"), f"{key:016x}", None))
        ops += _count_ops(actor, key, 0, count)
        await _write(store, actor, [*ops, *await text_ops(store, actor, key, None)], began)
    if thread_ids:
        await _merge(store, actor, began)


def _part_ops(actor: identity.Actor, part: Part, rows: Array) -> list[PutOp]:
    """The operations that put a part of the index with these postings. It counts once its table
    exists.
    """
    bucket = rows["term"] % part.buckets
    order = np.lexsort((rows["place"], rows["term"], bucket))
    buckets = np.split(rows[order], np.cumsum(np.bincount(bucket, minlength=part.buckets))[:-1])
    kept, values = (
        namespaces.recall(actor, "documents"),
        [conversations.packed({"postings": some}) for some in buckets],
    )
    ops = [PutOp(kept, f"{part.name}/{n}", value, index=False) for n, value in enumerate(values)]
    table = conversations.packed(
        {"table": part.table}, languages=[*part.languages], buckets=part.buckets
    )
    return [*ops, PutOp(part.namespace, part.name, table, index=False)]


async def _write(
    store: BaseStore, actor: identity.Actor, ops: Sequence[PutOp], began: journal.Began | None
) -> bool:
    """Write to a person's index; nothing if they were forgotten since the request of this `began`,
    or else the run, began.
    """
    return await journal.put_unless_forgotten(store, ops, began or journal.began(actor))


async def _merge(store: BaseStore, actor: identity.Actor, began: journal.Began | None) -> None:
    """Put many new parts, and the segments that are not larger than all before, as one segment;
    then delete them.
    """
    if len(await store.asearch(namespaces.recall(actor, "new"), limit=MERGE_AT)) < MERGE_AT:
        return
    try:
        parts = _small(await load(store, actor))
        buckets = max((part.buckets for part in parts), default=0)
        rows = await read_postings(store, actor, parts, range(buckets))
    except DamagedError:
        # Another process is merging them; what cannot be read, the search that needs it notices
        return
    if len(parts) < 2:  # noqa: PLR2004  # others have merged them, or forgotten their person, since they were counted
        return
    table = conversations.joined([part.table for part in parts], conversations.TABLE)
    # Of a conversation that is there twice the newer row stays.
    kept = newest(table)
    rows = rows[kept[rows["place"]]]
    rows["place"] = (np.cumsum(kept) - 1)[rows["place"]]
    name = blake2b(" ".join(part.name for part in parts).encode(), digest_size=16).hexdigest()
    languages = {language for part in parts for language in part.languages}
    segment = Part(
        namespaces.recall(actor, "segments"),
        name,
        table[kept],
        sorted(languages),
        1 + len(rows) // _BUCKET_ROWS,
    )
    await _write(store, actor, await platform.in_thread(_part_ops, actor, segment, rows), began)
    gone = [(part.namespace, part.name) for part in parts]
    gone += [
        (namespaces.recall(actor, "documents"), f"{part.name}/{n}")
        for part in parts
        for n in range(part.buckets)
    ]
    await _write(store, actor, [PutOp(*key, None) for key in gone], began)


def _small(index: Index) -> list[Part]:
    """The parts of the index that are merged: the smallest ones, as long as none is larger than all
    before it.
    """
    parts, size = list[Part](), 1
    for part in sorted(index.parts, key=lambda part: (len(part.table), part.name)):
        if len(part.table) <= size:
            parts.append(part)
            size = max(1, sum(len(one.table) for one in parts))
    return parts


# Who embeds for whom, by event loop and person.
_embedding: dict[tuple[asyncio.AbstractEventLoop, identity.Actor], asyncio.Task[None]] = {}


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
    since, listed = max(0, index.watermark - _CLOCK_SECONDS * 1_000_000), dict[str, int]()
    for metadata in conversations.owned_by(actor, agents):
        async for page in changed_since(threads, metadata, since):
            talks = [thread for thread in page if not is_temporary(thread)]
            listed |= {
                str(thread["thread_id"]): version_of(str(thread["updated_at"])) for thread in talks
            }
    others = dict(sorted(listed.items(), key=lambda thread: -thread[1]))
    others.pop(current, None)
    before = index.table
    known = dict(before[newest(before)][["key", "version"]].tolist())
    stale = [
        thread_id
        for thread_id, version in others.items()
        if not version or known.get(key_of(thread_id)) != version
    ]
    taken = stale[:most]
    for start in range(0, len(taken), _READ_PAGE):
        read = await read_conversations(
            threads, actor, agents, taken[start : start + _READ_PAGE], routes
        )
        await index_conversations(store, actor, read, began, before)
    if taken:
        index.parts = (await load(store, actor)).parts
        if not _has_conversations(index.table, before):
            raise DamagedError("Somebody dropped the index while conversations were put into it.")
    index.outstanding = len(stale) - len(taken)
    # A search by a person who has said little since the last one writes nothing.
    if not index.outstanding and (taken or len(listed) > _FIRST_PAGE):
        # A thread may have changed when the clock was ahead: what changes after it then would be
        # below the watermark.
        last = min(max(others.values(), default=0), time.time_ns() // 1_000)
        await _move_watermark(
            store, actor, index, max(index.watermark, min(last, listed.get(current, last))), began
        )
    waiting = namespaces.recall(actor, "waiting")
    if index.meaning and await store.asearch(waiting, limit=1):
        who = asyncio.get_running_loop(), actor
        if who not in _embedding:
            _embedding[who] = asyncio.create_task(
                _embed_waiting(store, threads, actor, agents, began=began, routes=routes)
            )
            _embedding[who].add_done_callback(lambda _: _embedding.pop(who, None))
        await asyncio.wait({_embedding[who]}, timeout=seconds)
        index.outstanding += len(await store.asearch(waiting, limit=_MOST))
    return index


def _has_conversations(table: Array, others: Array) -> bool:
    """Whether a table has rows of all conversations of another one."""
    return bool(np.isin(conversation_of(others["key"]), conversation_of(table["key"])).all())


async def _move_watermark(
    store: BaseStore, actor: identity.Actor, index: Index, version: int, began: journal.Began | None
) -> None:
    """Note that all up to this version are indexed; not if somebody dropped the index meanwhile,
    which has to be made anew.
    """
    watermark = PutOp(
        namespaces.recall(actor, "documents"), WATERMARK, {"version": version}, index=False
    )
    if not await _write(store, actor, [watermark], began):
        return
    try:
        present = await load(store, actor)
    except DamagedError:  # whoever reads it next makes it anew
        return
    if not _has_conversations(present.table, index.table):
        await store.abatch([watermark._replace(value=None)])


async def stop_embedding(actor: identity.Actor) -> None:
    """End what this process embeds for a person behind their searches. Another process notices that
    they were forgotten.
    """
    here, ended = asyncio.get_running_loop(), list[asyncio.Task[None]]()
    for (loop, who), task in list(_embedding.items()):
        if who == actor and loop is here:
            task.cancel()
            ended.append(task)
        elif who == actor:
            loop.call_soon_threadsafe(task.cancel)
    if ended:
        await asyncio.wait(ended, timeout=_STOP_SECONDS)


async def _opened(store: BaseStore, actor: identity.Actor, began: journal.Began | None) -> Index:
    """The index. An empty one if it cannot be read, or if the store has a semantic index now that
    knows none of it.
    """
    try:
        index = await load(store, actor)
    except DamagedError:
        await forget(store, actor)
        index = Index()
    model, key = platform.embedding_model(store), (namespaces.recall(actor, "texts"), MODEL)
    if not model:
        return index
    item = await store.aget(*key)
    if item is None:
        await forget(store, actor)
        index = Index()
        await _write(store, actor, [PutOp(*key, {"model": model}, index=False)], began)
    elif item.value["model"] != model:
        _warn_of_another_model(item.value["model"], model)
        return index
    index.meaning = True
    return index


@cache  # a line for a process, not for each search
def _warn_of_another_model(known: str, named: str) -> None:
    fix = "`python -m seeds embeddings --url <server>` has all of them embedded anew"
    logger.warning(
        "The store has vectors of %s, and store.index says %s: talks are found by words; %s.",
        known,
        named,
        fix,
    )


async def _embed_waiting(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    agents: Collection[str],
    *,
    began: journal.Began | None,
    routes: Collection[str],
) -> None:
    """Embed the passages of the conversations that wait for it, newest first, until none does."""
    waiting = namespaces.recall(actor, "waiting")
    try:
        while items := await store.asearch(waiting, limit=_MOST):
            for item in sorted(items, key=lambda item: -int(item.value["version"])):
                thread_id = str(item.value["thread_id"])
                talks = await read_conversations(threads, actor, agents, [thread_id], routes)
                ops = await text_ops(store, actor, key_of(thread_id), talks[0] if talks else None)
                if not await _write(store, actor, [*ops, PutOp(waiting, item.key, None)], began):
                    return
    # Whatever a provider of embeddings raises, words find it, and the next search tries again
    except Exception as error:
        logger.warning("Past conversations were not embedded: %r.", error, exc_info=True)


async def changed_since(
    threads: Threads, metadata: Mapping[str, Any], since: float
) -> AsyncIterator[list[Any]]:
    """Pages of the threads with this metadata that changed since then (as `version_of`), newest
    first, without messages.
    """
    fields, known = ["thread_id", "updated_at", "metadata"], set[str]()
    offset, size, last = 0, _FIRST_PAGE, since
    while last >= since:
        page = await threads.search(
            metadata=dict(metadata),
            limit=size,
            offset=offset,
            sort_by="updated_at",
            sort_order="desc",
            select=fields,
        )
        versions = [version_of(str(thread["updated_at"])) for thread in page]
        newer = {
            thread["thread_id"]: thread
            for thread, at in zip(page, versions, strict=True)
            if at >= since
        }
        yield [thread for thread_id, thread in newer.items() if thread_id not in known]
        known |= newer.keys()
        last = versions[-1] if len(page) == size else -1
        # Pages overlap: a thread deleted meanwhile moves the others up.
        offset, size = offset + size - _OVERLAP, _PAGE


async def read_conversations(
    threads: Threads,
    actor: identity.Actor,
    agents: Collection[str],
    thread_ids: Sequence[str],
    routes: Collection[str] = tuple(ROUTES),
) -> list[Conversation]:
    """The person's conversations with these agents and of these ids, as they are now, without
    temporary ones.
    """
    select = ["thread_id", "created_at", "updated_at", "metadata", "values"]
    listed = await conversations.threads_by_id(
        threads, thread_ids, conversations.owned_by(actor, agents), select
    )
    return [
        conversations.conversation(thread, routes=routes)
        for thread in listed
        if not is_temporary(thread)
    ]


async def forget(store: BaseStore, actor: identity.Actor) -> None:
    """Drop a person's index. The next search makes it anew."""
    # The watermark first: while it stands without the parts, a search would take the index for
    # whole. Then the parts, so that somebody who moves the watermark meanwhile notices that they
    # are gone.
    await store.adelete(namespaces.recall(actor, "documents"), WATERMARK)
    for part in sorted(namespaces.RECALL_PARTS, key=lambda part: part == "documents"):
        while page := await store.asearch(namespaces.recall(actor, part), limit=_DELETE_PAGE):
            await store.abatch([PutOp(item.namespace, item.key, None) for item in page])


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
    keys = {int(item.key[:16], 16) for item in meant}
    items = await store.abatch(
        [GetOp(namespaces.recall(actor, "documents"), f"{key:016x}") for key in sorted(keys)]
    )
    ids = [str(item.value["thread_id"]) for item in cast("list[Any]", items) if item]
    owned = conversations.owned_by(actor, agents)
    there = await conversations.threads_by_id(threads, ids, owned, ["thread_id"]) if ids else []
    living = {key_of(str(thread["thread_id"])) for thread in there}
    gone = [item for item in meant if int(item.key[:16], 16) not in living]
    if dry_run:
        return len(gone)
    await drop(
        store, actor, [thread_id for thread_id in ids if key_of(thread_id) not in living], began
    )
    for key in keys - living:  # also where the document is gone already
        await _write(store, actor, await text_ops(store, actor, key, None), began)
    return len(gone)
