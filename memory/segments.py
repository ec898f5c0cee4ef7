"""The recall index in the store: postings of single conversations, merged into ever larger segments.

Four namespaces a person (`scopes.recall`):

- `documents`: an item for each conversation (`postings.Document`), the buckets of the segments, and the watermark.
- `new`: postings of conversations that are in no segment yet, an item for each version of each. Whoever makes them `MERGE_AT`
  merges them into a segment.
- `segments`: the header of each segment. `FANOUT` of about the same size are merged into one, so that 10,000 conversations
  are in a dozen, and each was merged some four times.
- `texts`: passages for the store's semantic index, where it has one (`memory/semantic.py`).

The store has no transactions. So a conversation is put under keys of its own, and only what a merge has read is deleted once
its result is there. A segment is named by what it was made of: two that merge the same make the same, and where they do not,
a conversation is there twice until the next merge, and never lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from langgraph.store.base import BaseStore, GetOp, Op, PutOp, SearchOp

from memory import scopes
from memory.postings import (
    FORMAT,
    Array,
    DamagedError,
    Postings,
    Table,
    bucket_count,
    merged,
    newest_of,
    read_bucket,
    read_header,
    stored,
)

logger = logging.getLogger(__name__)

# New conversations that become a segment, and segments of about one size that become a larger one.
MERGE_AT, FANOUT = 64, 4
PUT_PAGE = 200
WATERMARK = "watermark"
# Far more items than merging lets there be.
_MOST = 1_000


@dataclass(frozen=True, slots=True)
class Part:
    """Postings as they are found: in `bucket` itself, or in buckets of a segment that are read when asked for."""

    name: str
    table: Table
    languages: frozenset[str]
    indexed: int
    buckets: int = 1
    bucket: tuple[Array, Array, Array] | None = None


@dataclass(slots=True)
class Index:
    """What a search knows before it reads a bucket: which conversations there are, and up to when."""

    actor: scopes.Actor
    parts: list[Part] = field(default_factory=list)
    watermark: int = 0
    outstanding: int = 0
    damaged: bool = False

    @property
    def languages(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.languages for part in self.parts))

    def live(self) -> Array:
        """Of all tables' entries, in order of the parts, those that are a conversation's newest."""
        if not self.parts:
            return np.zeros(0, bool)
        keys = np.concatenate([part.table.keys for part in self.parts])
        versions = np.concatenate([part.table.versions for part in self.parts])
        return newest_of(keys) & (versions > 0)

    def has(self, keys: Sequence[int], versions: Sequence[int]) -> list[bool]:
        """Whether each conversation is indexed in this version."""
        live = self.live()
        known: set[tuple[int, int]] = set()
        if len(live):
            every = np.concatenate([part.table.keys for part in self.parts])[live]
            all_versions = np.concatenate([part.table.versions for part in self.parts])[live]
            near = np.isin(every, np.array(keys, "<u8"))
            known = set(zip(every[near].tolist(), all_versions[near].tolist(), strict=True))
        return [pair in known for pair in zip(keys, versions, strict=True)]


def document_key(key: int) -> str:
    """Of the item of a conversation."""
    return f"conversation/{key:016x}"


def bucket_key(segment: str, bucket: int) -> str:
    """Of the item of a bucket."""
    return f"segment/{segment}/{bucket}"


async def load(store: BaseStore, actor: scopes.Actor) -> Index:
    """The index as it is in the store. What cannot be read is dropped, and what it was made of is indexed again."""
    documents, new, segments = (scopes.recall(actor, part) for part in ("documents", "new", "segments"))
    found: Any = await store.abatch([SearchOp(segments, limit=_MOST), SearchOp(new, limit=_MOST), GetOp(documents, WATERMARK)])
    index, broken = Index(actor), list[Op]()
    for item in [*found[0], *found[1]]:
        try:
            index.parts.append(_part(item.key, item.value, inline=item.namespace == new))
        except DamagedError as error:
            logger.warning("An item of the recall index is made again: %s", error)
            broken.append(PutOp(item.namespace, item.key, None))
    index.parts.sort(key=lambda part: part.indexed)
    if broken:
        await store.abatch([*broken, PutOp(documents, WATERMARK, None)])
        index.damaged = True
    elif found[2] is not None and found[2].value.get("format") == FORMAT:
        index.watermark = _whole(found[2].value.get("version"))
    return index


def _part(key: str, value: dict[str, Any], *, inline: bool) -> Part:
    table, buckets, languages = read_header(value)
    bucket = read_bucket(value.get("bucket")) if inline else None
    if bucket and (len(table.keys) != 1 or bucket[1].any()):
        raise DamagedError("postings of one conversation that name others")
    return Part(key, table, languages, _whole(value.get("indexed")), buckets, bucket)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def new_part(actor: scopes.Actor, key: int, found: Postings) -> tuple[PutOp, Part]:
    header, (bucket,) = stored(found)
    now, name = time.time_ns() // 1_000, f"{key:016x}@{int(found.table.versions[0])}"
    value = {**header, "bucket": bucket, "indexed": now}
    part = Part(name, found.table, found.languages, now, 1, (found.terms, found.places, found.counts))
    return PutOp(scopes.recall(actor, "new"), name, value, index=False), part


async def merge(store: BaseStore, actor: scopes.Actor) -> None:
    """Merge what has become many, if anything has. In one process one at a time does; the others leave it to that."""
    if actor in _merging or len(await store.asearch(scopes.recall(actor, "new"), limit=MERGE_AT)) < MERGE_AT:
        return
    _merging.add(actor)
    try:
        while parts := _many(await load(store, actor)):
            if not await _replace(store, actor, parts):
                return  # another process is at it
    finally:
        _merging.discard(actor)


# People whose segments this process is merging.
_merging: set[scopes.Actor] = set()


def _many(index: Index) -> list[Part]:
    """Parts of one size of which there are many, the oldest first: two processes choose the same, and make the same of it."""
    sizes: dict[int, list[Part]] = defaultdict(list)
    for part in index.parts:
        sizes[-1 if part.bucket else _size(part)].append(part)
    for size in sorted(sizes):
        count = MERGE_AT if size < 0 else FANOUT
        if len(sizes[size]) >= count:
            return sorted(sizes[size], key=lambda part: (part.indexed, part.name))[:count]
    return []


def _size(part: Part) -> int:
    """0 for segments as they are first made, 1 for what `FANOUT` of those become, and so on."""
    size, count = 0, len(part.table.keys) // MERGE_AT
    while count >= FANOUT:
        size, count = size + 1, count // FANOUT
    return size


async def _replace(store: BaseStore, actor: scopes.Actor, parts: Sequence[Part]) -> bool:
    """Put the parts as one segment, then delete them. False if one is gone already."""
    try:
        read = [await _whole_part(store, actor, part) for part in parts]
    except DamagedError:
        return False
    together = await asyncio.to_thread(merged, read)
    names = " ".join(sorted(part.name for part in parts))
    segment, buckets = blake2b(names.encode(), digest_size=16).hexdigest(), bucket_count(len(together.table.keys))
    header, texts = await asyncio.to_thread(lambda: stored(together, buckets=buckets))
    documents, segments, new = (scopes.recall(actor, name) for name in ("documents", "segments", "new"))
    puts = [PutOp(documents, bucket_key(segment, n), {"bucket": text}, index=False) for n, text in enumerate(texts)]
    for start in range(0, len(puts), PUT_PAGE):
        await store.abatch(puts[start : start + PUT_PAGE])
    # A segment counts from when its header is there.
    value = {**header, "indexed": max(part.indexed for part in parts)}
    await store.abatch([PutOp(segments, segment, value, index=False)])
    await store.abatch([PutOp(new if part.bucket else segments, part.name, None) for part in parts])
    gone = [bucket_key(part.name, n) for part in parts if not part.bucket for n in range(part.buckets)]
    for start in range(0, len(gone), PUT_PAGE):
        await store.abatch([PutOp(documents, key, None) for key in gone[start : start + PUT_PAGE]])
    return True


async def _whole_part(store: BaseStore, actor: scopes.Actor, part: Part) -> Postings:
    read = [part.bucket] if part.bucket else await read_buckets(store, actor, [(part, n) for n in range(part.buckets)])
    terms, places, counts = (np.concatenate(arrays) for arrays in zip(*read, strict=True))
    return Postings(part.table, terms, places, counts, part.languages)


async def read_buckets(
    store: BaseStore, actor: scopes.Actor, wanted: Sequence[tuple[Part, int]]
) -> list[tuple[Array, Array, Array]]:
    """Buckets of segments.

    Raises:
        DamagedError: one is not there (then its segment may just have been merged), or cannot be read.
    """
    namespace = scopes.recall(actor, "documents")
    items = await store.abatch([GetOp(namespace, bucket_key(part.name, number)) for part, number in wanted])
    read = []
    for item, (part, _) in zip(items, wanted, strict=True):
        terms, places, counts = read_bucket(getattr(item, "value", {}).get("bucket"))
        if len(places) and int(places.max()) >= len(part.table.keys):
            raise DamagedError(f"a bucket of segment {part.name} names what is not in it")
        read.append((terms, places, counts))
    return read
