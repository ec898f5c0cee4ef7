"""The index of a person's past conversations, derived from their threads, in the store.

Five namespaces a person (`namespaces.recall`):

- `documents`: an item for each conversation (`Document`), several for a long one, with their
  number; the buckets of the parts below; and the watermark, a time up to which all changed
  conversations are indexed. Those that changed later are compared one by one.
- `new`: a part of the index for each conversation that is in no segment yet. The writer of number
  `MERGE_AT` makes them one.
- `segments`: parts of many conversations. An item is the table of these. Their postings are spread
  over buckets by word, so that a query reads only those of its words. A new segment takes in those
  that are not larger: there are a dozen at most.
- `texts`: for the store's semantic index, if it has one: passages of a few turns, embedded by their
  field `text`; a list of each conversation's, so that only those that changed are embedded again;
  and the model that embedded all of them.
- `waiting`: conversations whose passages are not there yet. Embedding takes long, so a search waits
  seconds for it; what is left goes on behind it (`embedding.py`).

The store has no transactions. So each conversation has keys of its own, and a merge puts its result
before it deletes what it has read. A segment's name comes from its parts' names, so two merges of
the same parts make the same segment. After two merges of different parts a conversation may be
there twice until the next merge, and the newer counts; none is ever lost. An index with an item
that cannot be read is made anew.
"""

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any, cast

import numpy as np
from langgraph.store.base import BaseStore, GetOp, PutOp, SearchItem, SearchOp

from lasting_memory import platform
from lasting_memory.memory import journal
from lasting_memory.people import identity, namespaces
from lasting_memory.people.namespaces import Namespace
from lasting_memory.recall.documents import Document, documents, postings
from lasting_memory.recall.format import (
    POSTINGS,
    TABLE,
    DamagedError,
    Part,
    conversation_of,
    joined,
    key_of,
    name_of,
    newest,
    packed,
    read_part,
    unpacked,
)
from lasting_memory.recall.lexical import Array
from lasting_memory.recall.meaning import text_ops
from lasting_memory.recall.threads import Conversation

# New conversations that become a segment, and postings of one of its buckets, roughly.
MERGE_AT = 64
_BUCKET_ROWS = 1_500
# The key of the watermark, beside those of conversations.
WATERMARK = "watermark"
# Items that are deleted at once, and far more items than merging lets there be.
_DELETE_PAGE = 200
MOST_PARTS = 1_000


@dataclass(slots=True)
class Index:
    """The index before any bucket is read: its parts, and the time up to which it is complete.

    `outstanding` counts the conversations that are not in it yet, or not by their meaning;
    `meaning` says whether that counts. `new_parts` counts those that are to be merged.
    """

    parts: list[Part] = field(default_factory=list)
    watermark: int = 0
    outstanding: int = 0
    meaning: bool = False
    new_parts: int = 0

    @property
    def table(self) -> Array:
        """The rows of all parts."""
        tables = list[Array]()
        for part in self.parts:
            tables.append(part.table)
        return joined(tables, TABLE)

    @property
    def keys(self) -> set[int]:
        """The numbers of all conversations."""
        document_keys = self.table["key"]
        conversations = conversation_of(document_keys)
        return set(conversations.tolist())

    def has(self, keys: Collection[int]) -> bool:
        """Whether these conversations, by number, are all in it."""
        return self.keys.issuperset(keys)

    @property
    def languages(self) -> set[str]:
        """The languages of all conversations."""
        languages = set[str]()
        for part in self.parts:
            languages.update(part.languages)
        return languages


async def load(store: BaseStore, actor: identity.Actor) -> Index:
    """The index in the store. Raises `DamagedError` if an item cannot be read.

    The store reads no two items at one time. What moves while this reads is found twice, never
    missed: it moves from `new` to `segments`, which are read last, and the watermark, which says
    that all before it is there, is read first (langgraph's stores get before they search). Without
    any part it says nothing: somebody is dropping the index.
    """
    documents_of = namespaces.recall(actor, "documents")
    new_of = namespaces.recall(actor, "new")
    read_watermark = GetOp(documents_of, WATERMARK)
    read_new = SearchOp(new_of, limit=MOST_PARTS)
    results = await store.abatch([read_watermark, read_new])
    watermark, new = cast("Any", results)
    segments = await _segments(store, actor)
    index = Index()
    index.new_parts = len(new)
    for item in (*segments, *new):
        part = read_part(item)
        index.parts.append(part)
    if watermark is not None and index.parts:
        index.watermark = watermark.value.get("version", 0)
    return index


async def state_of(store: BaseStore, actor: identity.Actor) -> frozenset[tuple[str, datetime]]:
    """The parts of the index, and when each was put.

    Another value says that somebody has changed the index.
    """
    new = await _new_parts(store, actor, MOST_PARTS)
    segments = await _segments(store, actor)
    return frozenset((part.key, part.updated_at) for part in (*new, *segments))


async def _new_parts(store: BaseStore, actor: identity.Actor, most: int) -> list[SearchItem]:
    new_of = namespaces.recall(actor, "new")
    return await store.asearch(new_of, limit=most)


async def _segments(store: BaseStore, actor: identity.Actor) -> list[SearchItem]:
    segments_of = namespaces.recall(actor, "segments")
    return await store.asearch(segments_of, limit=MOST_PARTS)


async def read_postings(
    store: BaseStore, actor: identity.Actor, parts: Sequence[Part], hashes: Collection[int]
) -> Array:
    """The postings of these words, and others, by places in the table of all parts.

    Raises `DamagedError` if a bucket cannot be read, or is gone: its part was just merged.
    """
    documents_of = namespaces.recall(actor, "documents")
    reads = list[GetOp]()
    first_places = list[int]()
    first_place = 0
    for part in parts:
        buckets = {hashed % part.buckets for hashed in hashes}
        for bucket in buckets:
            name = _bucket_name(part, bucket)
            reads.append(GetOp(documents_of, name))
            first_places.append(first_place)
        first_place += len(part.table)
    items = await store.abatch(reads)
    rows = list[Array]()
    for item, place in zip(items, first_places, strict=True):
        (stored,) = unpacked(item, postings=POSTINGS)
        moved = stored.copy()
        moved["place"] += place
        rows.append(moved)
    return joined(rows, POSTINGS)


def _bucket_name(part: Part, number: int) -> str:
    """The key of a bucket of a part's postings, among the documents."""
    return f"{part.name}/{number}"


def _put(namespace: Namespace, key: str, value: dict[str, Any]) -> PutOp:
    """The operation that puts an item which the store's semantic index leaves out."""
    return PutOp(namespace, key, value, index=False)


def _delete(namespace: Namespace, key: str) -> PutOp:
    """The operation that deletes an item."""
    return PutOp(namespace, key, None)


async def document_items(store: BaseStore, actor: identity.Actor, keys: Iterable[int]) -> list[Any]:
    """The items of the documents of these numbers; None where there is none."""
    documents_of = namespaces.recall(actor, "documents")
    names = map(name_of, keys)
    return await _items(store, documents_of, names)


async def _items(store: BaseStore, namespace: Namespace, names: Iterable[str]) -> list[Any]:
    """The items of these keys; None where there is none."""
    reads = list[GetOp]()
    for name in names:
        reads.append(GetOp(namespace, name))
    items: list[Any] = await store.abatch(reads)
    return items


async def index_conversations(
    store: BaseStore,
    actor: identity.Actor,
    talks: Sequence[Conversation],
    began: journal.Began | None = None,
    before: Index | None = None,
) -> bool:
    """Put conversations into their owner's index, in place of earlier versions. Safe to repeat.

    `before` is the index until now: it tells which documents a conversation that became shorter has
    too many, and counts what may be merged. Returns False, and writes nothing, if the person was forgotten since this began.
    """
    counts = dict[int, int]()
    if before:
        counts = _counts_in(before.table)
    has_meaning = platform.embedding_model(store) is not None
    ops = list[PutOp]()
    for talk in talks:
        made = await platform.in_thread(documents, talk)
        ops += await platform.in_thread(_conversation_ops, actor, made, counts)
        if has_meaning:
            first = made[0]
            ops.append(_waiting_op(actor, first))
    is_written = await write(store, actor, ops, began)
    if not is_written:
        return False
    if before:
        before.new_parts += len(talks)
    if before is None or before.new_parts >= MERGE_AT:
        await _merge(store, actor, began)
    return True


def _conversation_ops(
    actor: identity.Actor, made: Sequence[Document], counts: dict[int, int]
) -> list[PutOp]:
    """The operations that put a conversation's documents and its part of the index.

    `counts` are how many documents conversations had, where it was more than one.
    """
    documents_of = namespaces.recall(actor, "documents")
    ops = list[PutOp]()
    for document in made:
        name = name_of(document.key)
        value = document.stored()
        ops.append(_put(documents_of, name, value))
    key = made[0].key
    count = len(made)
    count_before = counts.get(key, 1)
    ops += _count_ops(actor, key, count, count_before)
    rows = _postings_of(made)
    buckets = 1
    if count > 1:
        buckets = _bucket_count(rows)
    part = _new_part(actor, made, buckets)
    ops += _part_ops(actor, part, rows)
    return ops


def _new_part(actor: identity.Actor, made: Sequence[Document], buckets: int) -> Part:
    """The part of the index of one conversation, which has these documents."""
    rows = list[Array]()
    for document in made:
        rows.append(document.row)
    where = namespaces.recall(actor, "new")
    first = made[0]
    name = _part_name(first)
    table = np.concatenate(rows)
    return Part(where, name, table, [first.language], buckets)


def _part_name(document: Document) -> str:
    """The name of the part of one conversation: another one for each version."""
    name = name_of(document.key)
    return f"{name}@{document.version}"


def _bucket_count(rows: Array) -> int:
    return 1 + len(rows) // _BUCKET_ROWS


def _waiting_op(actor: identity.Actor, document: Document) -> PutOp:
    """The operation that notes that a conversation's passages are to be embedded.

    Of another version it is another item: it may be put while this one is worked off.
    """
    name = _part_name(document)
    waiting = namespaces.recall(actor, "waiting")
    value = {"thread_id": document.thread_id, "version": document.version}
    return _put(waiting, name, value)


def _postings_of(made: Sequence[Document]) -> Array:
    """The postings of a conversation's documents."""
    all_rows = list[Array]()
    for place, document in enumerate(made):
        rows = postings(document)
        rows["place"] = place
        all_rows.append(rows)
    return joined(all_rows, POSTINGS)


def _counts_in(table: Array) -> dict[int, int]:
    """How many documents the conversations of a table have, where it is more than one."""
    keys = np.unique(table["key"])
    all_conversations = conversation_of(keys)
    conversations, counts = np.unique(all_conversations, return_counts=True)
    is_long = counts > 1
    long_ones = conversations[is_long].tolist()
    their_counts = counts[is_long].tolist()
    return dict(zip(long_ones, their_counts, strict=True))


async def _document_counts(
    store: BaseStore, actor: identity.Actor, keys: Sequence[int]
) -> dict[int, int]:
    """How many documents the conversations of these numbers have in the store.

    Only more than one are noted.
    """
    documents_of = namespaces.recall(actor, "documents")
    names = map(_count_name, keys)
    items = await _items(store, documents_of, names)
    counts = dict[int, int]()
    for key, item in zip(keys, items, strict=True):
        count = 1
        if item:
            count = item.value["documents"]
        counts[key] = count
    return counts


def _count_name(key: int) -> str:
    """The key of the item that notes how many documents a conversation has."""
    return f"{name_of(key)}/count"


def _count_ops(actor: identity.Actor, key: int, count: int, before: int) -> list[PutOp]:
    """The operations that note how many documents a conversation has, and delete those that it had
    beyond.
    """
    documents_of = namespaces.recall(actor, "documents")
    first_gone = max(1, count)
    ops = list[PutOp]()
    for number in range(first_gone, before):
        name = name_of(key + number)
        ops.append(_delete(documents_of, name))
    count_name = _count_name(key)
    if count > 1:
        ops.append(_put(documents_of, count_name, {"documents": count}))
    elif before > 1:
        ops.append(_delete(documents_of, count_name))
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
    if not thread_ids:
        return
    keys = list[int]()
    for thread_id in thread_ids:
        keys.append(key_of(thread_id))
    counts = await _document_counts(store, actor, keys)
    for key, count in counts.items():
        ops = _gone_ops(actor, key, count)
        ops += await text_ops(store, actor, key, None)
        await write(store, actor, ops, began)
    await _merge(store, actor, began)


def _gone_ops(actor: identity.Actor, key: int, count: int) -> list[PutOp]:
    """The operations that delete the documents of a conversation, of which it has so many.

    A row without words, newer than all before, marks it as gone.
    """
    name = name_of(key)
    version = time.time_ns() // 1_000
    table = np.zeros(1, TABLE)
    table["key"] = key
    table["version"] = version
    no_postings = np.zeros(0, POSTINGS)
    where = namespaces.recall(actor, "new")
    part = Part(where, f"{name}@gone", table, [], 1)
    ops = _part_ops(actor, part, no_postings)
    documents_of = namespaces.recall(actor, "documents")
    ops.append(_delete(documents_of, name))
    ops += _count_ops(actor, key, 0, count)
    return ops


def _part_ops(actor: identity.Actor, part: Part, rows: Array) -> list[PutOp]:
    """The operations that put a part of the index with these postings.

    It counts once its table exists, so that is put last.
    """
    documents_of = namespaces.recall(actor, "documents")
    buckets = _buckets(rows, part.buckets)
    ops = list[PutOp]()
    for number, bucket in enumerate(buckets):
        name = _bucket_name(part, number)
        value = packed({"postings": bucket})
        ops.append(_put(documents_of, name, value))
    languages = list(part.languages)
    arrays = {"table": part.table}
    table = packed(arrays, languages=languages, buckets=part.buckets)
    put_table = _put(part.namespace, part.name, table)
    ops.append(put_table)
    return ops


def _buckets(rows: Array, count: int) -> list[Array]:
    """Postings in so many buckets by word, each in the order of words."""
    terms = rows["term"]
    places = rows["place"]
    bucket_of_row = terms % count
    order = np.lexsort((places, terms, bucket_of_row))
    in_order = rows[order]
    sizes = np.bincount(bucket_of_row, minlength=count)
    ends = np.cumsum(sizes)
    inner_ends = ends[:-1]
    buckets: list[Array] = np.split(in_order, inner_ends)
    return buckets


async def write(
    store: BaseStore,
    actor: identity.Actor,
    ops: Sequence[PutOp],
    began: journal.Began | None,
    *,
    is_checked: bool = False,
) -> bool:
    """Write to a person's index, unless they were forgotten since the request of this `began`, or
    else the run, began. Returns whether it was written. `is_checked` as in the journal.
    """
    since = began
    if since is None:
        since = journal.began_of_run(actor)
    return await journal.put_unless_forgotten(store, ops, since, is_checked=is_checked)


async def _merge(store: BaseStore, actor: identity.Actor, began: journal.Began | None) -> None:
    """Put many new parts, and the segments that are not larger than all before, as one segment;
    then delete them.
    """
    new_parts = await _new_parts(store, actor, MERGE_AT)
    if len(new_parts) < MERGE_AT:
        return
    try:
        index = await load(store, actor)
        parts = _small(index)
        rows = await _all_postings(store, actor, parts)
    except DamagedError:
        # Another process is merging them. What cannot be read, the search that needs it notices.
        return
    if len(parts) <= 1:
        # Others have merged them, or forgotten their person, since they were counted.
        return
    segment, segment_rows = _segment_of(actor, parts, rows)
    ops = await platform.in_thread(_part_ops, actor, segment, segment_rows)
    await write(store, actor, ops, began)
    deletions = _deletions(actor, parts)
    await write(store, actor, deletions, began)


async def _all_postings(store: BaseStore, actor: identity.Actor, parts: Sequence[Part]) -> Array:
    """The postings of all words of these parts. Raises as `read_postings`."""
    most_buckets = 0
    for part in parts:
        most_buckets = max(most_buckets, part.buckets)
    return await read_postings(store, actor, parts, range(most_buckets))


def _segment_of(actor: identity.Actor, parts: Sequence[Part], rows: Array) -> tuple[Part, Array]:
    """One part in place of several, and its postings. Of a conversation that is there twice the
    newer row stays.
    """
    merged = Index(list(parts))
    table = merged.table
    is_kept = newest(table)
    new_places = np.cumsum(is_kept) - 1
    row_is_kept = is_kept[rows["place"]]
    kept_rows = rows[row_is_kept]
    kept_rows["place"] = new_places[kept_rows["place"]]
    segment = Part(
        namespaces.recall(actor, "segments"),
        _segment_name(parts),
        table[is_kept],
        sorted(merged.languages),
        _bucket_count(kept_rows),
    )
    return segment, kept_rows


def _segment_name(parts: Sequence[Part]) -> str:
    """The name of the segment of these parts: of the same ones always the same."""
    names = " ".join(part.name for part in parts)
    digest = blake2b(names.encode(), digest_size=16)
    return digest.hexdigest()


def _deletions(actor: identity.Actor, parts: Sequence[Part]) -> list[PutOp]:
    """The operations that delete parts: their tables first, so that no part is there without its
    postings.
    """
    documents_of = namespaces.recall(actor, "documents")
    ops = list[PutOp]()
    for part in parts:
        ops.append(_delete(part.namespace, part.name))
    for part in parts:
        for number in range(part.buckets):
            name = _bucket_name(part, number)
            ops.append(_delete(documents_of, name))
    return ops


def _small(index: Index) -> list[Part]:
    """The parts of the index that are merged: the smallest ones, as long as none is larger than all
    before it.
    """
    parts = list[Part]()
    size = 0
    for part in sorted(index.parts, key=_size_and_name):
        part_size = len(part.table)
        if part_size <= max(1, size):
            parts.append(part)
            size += part_size
    return parts


def _size_and_name(part: Part) -> tuple[int, str]:
    return len(part.table), part.name


async def reload(
    store: BaseStore,
    actor: identity.Actor,
    keys: Collection[int],
    version: int | None,
    began: journal.Began | None,
    *,
    is_checked: bool,
) -> Index:
    """The index after conversations were put into it, which has those of these numbers.

    With a version it is noted before that all up to this one are indexed, unless the person was
    forgotten since this began. `is_checked` as in the journal. Raises `DamagedError`, and leaves no
    note, if somebody dropped one of the conversations meanwhile.
    """
    documents_of = namespaces.recall(actor, "documents")
    if version is not None:
        watermark = _put(documents_of, WATERMARK, {"version": version})
        await write(store, actor, [watermark], began, is_checked=is_checked)
    # After the note: who drops the index deletes the note first, and then what is looked for here.
    present = await load(store, actor)
    if not present.has(keys):
        await store.adelete(documents_of, WATERMARK)
        raise DamagedError("Somebody dropped the index while conversations were put into it.")
    return present


async def forget(store: BaseStore, actor: identity.Actor) -> None:
    """Drop a person's index. The next search makes it anew.

    The watermark goes first: while it stands without the parts, a search would take the index for
    whole. Then the parts, so that somebody who moves the watermark meanwhile notices that they are
    gone.
    """
    documents_of = namespaces.recall(actor, "documents")
    await store.adelete(documents_of, WATERMARK)
    for part in sorted(namespaces.RECALL_PARTS, key=_documents_last):
        where = namespaces.recall(actor, part)
        await _delete_all(store, where)


def _documents_last(part: str) -> bool:
    return part == "documents"


async def _delete_all(store: BaseStore, where: Namespace) -> None:
    """Delete all items of a namespace, and of those below it."""
    while page := await store.asearch(where, limit=_DELETE_PAGE):
        ops = list[PutOp]()
        for item in page:
            ops.append(_delete(item.namespace, item.key))
        await store.abatch(ops)
