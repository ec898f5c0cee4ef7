"""The recall index in the store: postings of single conversations, merged into ever larger segments.

Four namespaces a person (`namespaces.recall`):

- `documents`: an item for each conversation (`documents.Document`), the buckets of the segments, and the watermark.
- `new`: postings of conversations that are in no segment yet. The writer of number `MERGE_AT` merges them into a segment.
- `segments`: the header of each. `FANOUT` of about one size are merged, so that 10,000 conversations are in a dozen.
- `texts`: passages for the store's semantic index, where it has one (`memory/recall/semantic.py`).

The store has no transactions. So each conversation has keys of its own, and a merge puts its result before it deletes what it
has read. A segment's name comes from its parts' names, so two merges of the same parts make the same segment. After two merges
of different parts a conversation may be there twice until the next merge; none is ever lost.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, cast

from langgraph.store.base import BaseStore, GetOp, Op, PutOp, SearchOp

from memory import identity, namespaces
from memory.recall.documents import key_of
from memory.recall.postings import Array, Bucket, DamagedError, Postings, merged, read_bucket, read_header, stored, together

logger = logging.getLogger(__name__)

# New conversations that become a segment, and segments of about one size that become a larger one.
MERGE_AT, FANOUT = 64, 4
PUT_PAGE = 200
WATERMARK = "watermark"
# Bytes of one bucket, roughly, and what one conversation adds to all of them.
_BUCKET_BYTES, _CONVERSATION_BYTES = 4_096, 400
# Far more items than merging lets there be.
_MOST = 1_000
# Microseconds: longer than any clock is ahead, and since any part was indexed.
_AHEAD = 10**17


@dataclass(slots=True)
class Index:
    """The index before any bucket is read: its conversations, and the time up to which it is complete."""

    parts: list[Postings] = field(default_factory=list)
    watermark: int = 0
    outstanding: int = 0

    def live(self) -> Array:
        """Of all tables' entries, in order of the parts, those that are a conversation's newest."""
        table, newest = together(self.parts)
        return newest & (table.versions > 0)

    def lacks(self, wanted: Mapping[str, int]) -> list[str]:
        """Those of the threads that are not indexed in this version."""
        table, _ = together(self.parts)
        known = dict(zip(table.keys.tolist(), table.versions.tolist(), strict=True))  # the newest entry is the last
        return [thread_id for thread_id, version in wanted.items() if not version or known.get(key_of(thread_id)) != version]


def document_key(key: int) -> str:
    """Of the item of a conversation."""
    return f"conversation/{key:016x}"


async def put(store: BaseStore, ops: Iterable[PutOp]) -> None:
    """Put in batches without repeated texts, which langgraph's in-memory store refuses to embed."""
    batch, texts = list[PutOp](), set[str]()
    for op in ops:
        text = op.value["text"] if op.value and op.index else ""
        if len(batch) == PUT_PAGE or text in texts:
            await store.abatch(batch)
            batch, texts = [], set()
        batch.append(op)
        texts |= {text} - {""}
    await store.abatch(batch)


async def load(store: BaseStore, actor: identity.Actor) -> Index:
    """The index in the store. Unreadable items are dropped, and their conversations indexed again."""
    documents, new, segments = (namespaces.recall(actor, part) for part in ("documents", "new", "segments"))
    reads: list[Op] = [SearchOp(segments, limit=_MOST), SearchOp(new, limit=_MOST), GetOp(documents, WATERMARK)]
    old_parts, new_parts, watermark = cast("Any", await store.abatch(reads))
    index, broken = Index(), list[PutOp]()
    for item in [*old_parts, *new_parts]:
        try:
            index.parts.append(read_header(item.key, item.value, inline=item.namespace == new))
        except DamagedError as error:
            logger.warning("An item of the recall index is made again: %s", error)
            broken.append(PutOp(item.namespace, item.key, None))
    now = time.time_ns() // 1_000
    # What a clock indexed that was ahead is older than what was indexed since.
    index.parts = [replace(part, indexed=part.indexed - _AHEAD) if part.indexed > now else part for part in index.parts]
    index.parts.sort(key=lambda part: part.indexed)
    if broken:
        await store.abatch([*broken, PutOp(documents, WATERMARK, None)])
    elif watermark is not None:
        version = watermark.value.get("version")
        # One above now was put when the clock was ahead, and conversations have changed since: all are compared.
        index.watermark = version if isinstance(version, int) and version <= now else 0
    return index


def new_part(actor: identity.Actor, postings: Postings) -> PutOp:
    """The operation that puts the postings of one conversation."""
    header, (bucket,) = stored(postings)
    name = f"{postings.table.keys[0]:016x}@{postings.table.versions[0]}"
    value = {**header, "bucket": bucket, "indexed": time.time_ns() // 1_000}
    return PutOp(namespaces.recall(actor, "new"), name, value, index=False)


async def merge(store: BaseStore, actor: identity.Actor) -> None:
    """Merge parts that have become many. Of one process only one task at a time merges a person's."""
    if actor in _merging or len(await store.asearch(namespaces.recall(actor, "new"), limit=MERGE_AT)) < MERGE_AT:
        return
    _merging.add(actor)
    try:
        while parts := _many(await load(store, actor)):
            await _replace(store, actor, parts)
    except DamagedError:
        return  # another process is merging them
    finally:
        _merging.discard(actor)


# People whose segments this process is merging.
_merging: set[identity.Actor] = set()


def _many(index: Index) -> list[Postings]:
    """Many parts of one size, the oldest first, so that two processes choose the same parts and make the same segment."""
    sizes: dict[int, list[Postings]] = defaultdict(list)
    for part in sorted(index.parts, key=lambda part: (part.indexed, part.name)):
        # 0 for the smallest segments, 1 for those made of `FANOUT` of them, and so on.
        size = (max(1, len(part.table.keys) // MERGE_AT).bit_length() - 1) // (FANOUT.bit_length() - 1)
        sizes[-1 if part.bucket else size].append(part)
    many = ((size, MERGE_AT if size < 0 else FANOUT) for size in sorted(sizes))
    return next((sizes[size][:count] for size, count in many if len(sizes[size]) >= count), [])


async def _replace(store: BaseStore, actor: identity.Actor, parts: Sequence[Postings]) -> None:
    """Put the parts as one segment, then delete them."""
    read = await read_buckets(store, actor, parts, range(max(part.buckets for part in parts)))
    one = await asyncio.to_thread(merged, parts, read)
    segment = blake2b(" ".join(sorted(part.name for part in parts)).encode(), digest_size=16).hexdigest()
    # A power of 2, so that buckets have about the same size for any number of conversations.
    buckets = 1 << max(0, (len(one.table.keys) * _CONVERSATION_BYTES // _BUCKET_BYTES).bit_length() - 1)
    header, texts = await asyncio.to_thread(lambda: stored(one, buckets=buckets))
    documents, segments, new = (namespaces.recall(actor, name) for name in ("documents", "segments", "new"))
    await put(
        store, [PutOp(documents, f"segment/{segment}/{n}", {"bucket": text}, index=False) for n, text in enumerate(texts)]
    )
    # A segment counts once its header exists.
    value = {**header, "indexed": max(part.indexed for part in parts)}
    await store.abatch([PutOp(segments, segment, value, index=False)])
    gone = [(documents, f"segment/{part.name}/{n}") for part in parts if not part.bucket for n in range(part.buckets)]
    gone += [(new if part.bucket else segments, part.name) for part in parts]
    await put(store, [PutOp(namespace, key, None) for namespace, key in gone])


async def read_buckets(
    store: BaseStore, actor: identity.Actor, parts: Sequence[Postings], hashes: Collection[int]
) -> list[list[Bucket]]:
    """Of each part of the index the buckets in which words with these hashes are. Raises `DamagedError` if one is gone or
    cannot be read: its segment was just merged, or is dropped, to be indexed again.
    """
    documents, read = namespaces.recall(actor, "documents"), []
    numbers = [sorted({hashed % part.buckets for hashed in hashes}) for part in parts]
    keys = [f"segment/{part.name}/{n}" for part, some in zip(parts, numbers, strict=True) if not part.bucket for n in some]
    values = (getattr(item, "value", {}) for item in await store.abatch([GetOp(documents, key) for key in keys]))
    for part, some in zip(parts, numbers, strict=True):
        try:
            read.append([part.bucket or read_bucket(next(values).get("bucket"), len(part.table.keys)) for _ in some])
        except DamagedError:
            gone = (namespaces.recall(actor, "segments"), part.name), (documents, WATERMARK)
            await store.abatch([PutOp(namespace, key, None) for namespace, key in gone])
            raise
    return read
