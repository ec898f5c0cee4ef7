"""The index of a person's past conversations, derived from their threads, in the store.

A conversation has one document, or several if it is long. Both have numbers (`format.key_of`). The
index has parts, each of some documents: a table with a row for each document, and postings, which
say what words are in them. The postings of a part are in buckets, by word. The functions below with
"ops" in their names make store operations, and write nothing.

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
from typing import cast

import numpy as np
from langgraph.store.base import BaseStore, GetOp, Item, PutOp, SearchItem, SearchOp

from lasting_memory import platform
from lasting_memory.memory import journal
from lasting_memory.people import identity, namespaces
from lasting_memory.people.namespaces import Namespace
from lasting_memory.recall.arrays import Rows
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
    """The index before any bucket is read: its parts, and the watermark.

    `outstanding` counts the conversations that are not in it yet, or whose passages are not embedded
    yet. `meaning`: passages are embedded, so that a search finds them by their meaning. `new_parts`
    counts the parts that are in no segment yet.
    """

    parts: list[Part] = field(default_factory=list)
    watermark: int = 0
    outstanding: int = 0
    meaning: bool = False
    new_parts: int = 0

    @property
    def table(self) -> Rows:
        """The rows of all parts, one part after the other."""
        tables = list[Rows]()
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
    watermark = cast("Item | None", results[0])
    new_items = cast("list[SearchItem]", results[1])
    segments = await _segments(store, actor)
    index = Index()
    index.new_parts = len(new_items)
    for item in (*segments, *new_items):
        part = read_part(item)
        index.parts.append(part)
    if watermark is not None and index.parts:
        value = watermark.value
        index.watermark = value.get("version", 0)
    return index


async def state_of(store: BaseStore, actor: identity.Actor) -> frozenset[tuple[str, datetime]]:
    """The state of the index: the key of each of its parts, and when it was put.

    It is another one once somebody has changed the index.
    """
    new_items = await _new_parts(store, actor, MOST_PARTS)
    segments = await _segments(store, actor)
    state = set[tuple[str, datetime]]()
    for item in (*new_items, *segments):
        key_and_time = (item.key, item.updated_at)
        state.add(key_and_time)
    return frozenset(state)


async def _new_parts(store: BaseStore, actor: identity.Actor, limit: int) -> list[SearchItem]:
    """The items of parts that are in no segment yet, at most so many."""
    new_of = namespaces.recall(actor, "new")
    return await store.asearch(new_of, limit=limit)


async def _segments(store: BaseStore, actor: identity.Actor) -> list[SearchItem]:
    """The items of all segments."""
    segments_of = namespaces.recall(actor, "segments")
    return await store.asearch(segments_of, limit=MOST_PARTS)


async def read_postings(
    store: BaseStore, actor: identity.Actor, parts: Sequence[Part], hashes: Collection[int]
) -> Rows:
    """The postings in the buckets of these words, which have other words, too.

    A posting names a document by its place in the table of all these parts (`Index.table`). Raises
    `DamagedError` if a bucket cannot be read, or is gone because its part was just merged.
    """
    names = list[str]()
    offsets = list[int]()
    offset = 0
    for part in parts:
        buckets = set[int]()
        for word_hash in hashes:
            bucket = word_hash % part.buckets
            buckets.add(bucket)
        for bucket in buckets:
            names.append(_bucket_name(part, bucket))
            offsets.append(offset)
        offset += len(part.table)
    items = await _documents_items(store, actor, names)
    rows = list[Rows]()
    for item, offset_of_part in zip(items, offsets, strict=True):
        (stored_rows,) = unpacked(item, postings=POSTINGS)
        moved_rows = stored_rows.copy()
        moved_rows["place"] += offset_of_part
        rows.append(moved_rows)
    return joined(rows, POSTINGS)


def _bucket_name(part: Part, number: int) -> str:
    """The key of a bucket of a part's postings, in the namespace `documents`."""
    return f"{part.name}/{number}"


def _put(namespace: Namespace, key: str, value: dict[str, object]) -> PutOp:
    """The operation that puts an item which the store's semantic index leaves out."""
    return PutOp(namespace, key, value, index=False)


def _put_document(actor: identity.Actor, key: str, value: dict[str, object]) -> PutOp:
    """The operation that puts an item of the namespace `documents`."""
    documents_of = namespaces.recall(actor, "documents")
    return _put(documents_of, key, value)


def _delete(namespace: Namespace, key: str) -> PutOp:
    """The operation that deletes an item."""
    return PutOp(namespace, key, None)


def _delete_document(actor: identity.Actor, key: str) -> PutOp:
    """The operation that deletes an item of the namespace `documents`."""
    documents_of = namespaces.recall(actor, "documents")
    return _delete(documents_of, key)


async def document_items(
    store: BaseStore, actor: identity.Actor, keys: Iterable[int]
) -> list[Item | None]:
    """The items of the documents of these numbers, in their order; None for each that is missing."""
    names = map(name_of, keys)
    return await _documents_items(store, actor, names)


async def _documents_items(
    store: BaseStore, actor: identity.Actor, names: Iterable[str]
) -> list[Item | None]:
    """The items of these keys in the namespace `documents`, in their order; None for each that is
    missing.
    """
    documents_of = namespaces.recall(actor, "documents")
    reads = list[GetOp]()
    for name in names:
        reads.append(GetOp(documents_of, name))
    items = await store.abatch(reads)
    return cast("list[Item | None]", items)


async def index_conversations(
    store: BaseStore,
    actor: identity.Actor,
    talks: Sequence[Conversation],
    writer: journal.Writer | None = None,
    index: Index | None = None,
) -> bool:
    """Puts conversations into their owner's index, in place of earlier versions. Safe to repeat.

    `index` is the index until now. From it comes which documents a conversation that became
    shorter has too many, and how many parts may be merged; its `new_parts` are counted up. Without
    it, a merge is tried. Returns False, and writes nothing, if the person was forgotten since this
    began.
    """
    counts = dict[int, int]()
    if index:
        counts = _counts_in(index.table)
    has_meaning = platform.embedding_model(store) is not None
    ops = list[PutOp]()
    for talk in talks:
        talk_documents = await platform.in_thread(documents, talk)
        talk_ops = await platform.in_thread(_conversation_ops, actor, talk_documents, counts)
        ops += talk_ops
        if has_meaning:
            first_document = talk_documents[0]
            ops.append(_waiting_op(actor, first_document))
    is_written = await write(store, actor, ops, writer)
    if not is_written:
        return False
    may_merge = True
    if index:
        index.new_parts += len(talks)
        may_merge = index.new_parts >= MERGE_AT
    if may_merge:
        await _merge(store, actor, writer)
    return True


def _conversation_ops(
    actor: identity.Actor, talk_documents: Sequence[Document], counts: dict[int, int]
) -> list[PutOp]:
    """The operations that put a conversation's documents and its part of the index.

    `talk_documents` are all of its documents. `counts` say, by number, how many documents
    conversations had before, where it was more than one.
    """
    ops = list[PutOp]()
    for document in talk_documents:
        name = name_of(document.key)
        value = document.stored()
        put_op = _put_document(actor, name, value)
        ops.append(put_op)
    key = talk_documents[0].key
    count = len(talk_documents)
    earlier_count = counts.get(key, 1)
    ops += _count_ops(actor, key, count, earlier_count)
    rows = _postings_of(talk_documents)
    bucket_count = 1
    if count > 1:
        bucket_count = _bucket_count(rows)
    part = _new_part(actor, talk_documents, bucket_count)
    ops += _part_ops(actor, part, rows)
    return ops


def _new_part(actor: identity.Actor, talk_documents: Sequence[Document], bucket_count: int) -> Part:
    """The part of the index of one conversation, which has these documents."""
    rows = list[Rows]()
    for document in talk_documents:
        rows.append(document.row)
    new_of = namespaces.recall(actor, "new")
    first_document = talk_documents[0]
    name = _part_name(first_document)
    table = np.concatenate(rows)
    languages = [first_document.language]
    return Part(new_of, name, table, languages, bucket_count)


def _part_name(document: Document) -> str:
    """The name of the part of the conversation of this first document: another one for each version
    of the conversation.
    """
    name = name_of(document.key)
    return f"{name}@{document.version}"


def _bucket_count(rows: Rows) -> int:
    """Over how many buckets these postings are spread."""
    full_buckets = len(rows) // _BUCKET_ROWS
    return 1 + full_buckets


def _waiting_op(actor: identity.Actor, document: Document) -> PutOp:
    """The operation that notes that a conversation's passages are to be embedded.

    Takes its first document. Another version of the conversation has another item, which may be put
    while this one is worked off.
    """
    name = _part_name(document)
    waiting_place = namespaces.recall(actor, "waiting")
    thread_id = document.thread_id
    version = document.version
    value = {"thread_id": thread_id, "version": version}
    return _put(waiting_place, name, value)


def _postings_of(talk_documents: Sequence[Document]) -> Rows:
    """The postings of a conversation's documents, which name each by its place among these."""
    all_rows = list[Rows]()
    for place, document in enumerate(talk_documents):
        rows = postings(document)
        rows["place"] = place
        all_rows.append(rows)
    return joined(all_rows, POSTINGS)


def _counts_in(table: Rows) -> dict[int, int]:
    """How many documents each conversation of a table has, by its number, where it has several."""
    keys = np.unique(table["key"])
    conversation_of_key = conversation_of(keys)
    conversations, counts = np.unique(conversation_of_key, return_counts=True)
    is_long = counts > 1
    long_conversations = conversations[is_long].tolist()
    document_counts = counts[is_long].tolist()
    return dict(zip(long_conversations, document_counts, strict=True))


async def _document_counts(
    store: BaseStore, actor: identity.Actor, keys: Sequence[int]
) -> dict[int, int]:
    """How many documents the conversations of these numbers have in the store; 1 for each that is
    missing there.
    """
    names = map(_count_name, keys)
    items = await _documents_items(store, actor, names)
    counts = dict[int, int]()
    for key, item in zip(keys, items, strict=True):
        count = 1
        # Only a conversation of several documents has this item.
        if item:
            count = item.value["documents"]
        counts[key] = count
    return counts


def _count_name(key: int) -> str:
    """The key of the item that notes how many documents a conversation has."""
    name = name_of(key)
    return f"{name}/count"


def _count_ops(actor: identity.Actor, key: int, count: int, earlier_count: int) -> list[PutOp]:
    """The operations that note how many documents a conversation has, and delete those beyond.

    `count` is their number from now on, `earlier_count` the one before. The first document is never
    deleted here.
    """
    first_deleted = max(1, count)
    ops = list[PutOp]()
    for number in range(first_deleted, earlier_count):
        name = name_of(key + number)
        deletion = _delete_document(actor, name)
        ops.append(deletion)
    count_name = _count_name(key)
    if count > 1:
        value: dict[str, object] = {"documents": count}
        note = _put_document(actor, count_name, value)
        ops.append(note)
    elif earlier_count > 1:
        deletion = _delete_document(actor, count_name)
        ops.append(deletion)
    return ops


async def drop(
    store: BaseStore,
    actor: identity.Actor,
    thread_ids: Collection[str],
    writer: journal.Writer | None = None,
) -> None:
    """Removes deleted conversations from a person's index: documents and texts now, postings with
    the next merges.
    """
    if not thread_ids:
        return
    keys = list[int]()
    for thread_id in thread_ids:
        keys.append(key_of(thread_id))
    counts = await _document_counts(store, actor, keys)
    for key, count in counts.items():
        index_ops = _removal_ops(actor, key, count)
        passage_ops = await text_ops(store, actor, key, None)
        ops = [*index_ops, *passage_ops]
        await write(store, actor, ops, writer)
    await _merge(store, actor, writer)


def _removal_ops(actor: identity.Actor, key: int, count: int) -> list[PutOp]:
    """The operations that remove a conversation, which has so many documents, from the index.

    A row without words, newer than all before, marks it as gone until its postings are merged.
    """
    name = name_of(key)
    version = time.time_ns() // 1_000
    table = np.zeros(1, TABLE)
    table["key"] = key
    table["version"] = version
    no_postings = np.zeros(0, POSTINGS)
    new_of = namespaces.recall(actor, "new")
    mark_name = f"{name}@gone"
    mark = Part(new_of, mark_name, table, [], 1)
    ops = _part_ops(actor, mark, no_postings)
    deletion = _delete_document(actor, name)
    ops.append(deletion)
    ops += _count_ops(actor, key, 0, count)
    return ops


def _part_ops(actor: identity.Actor, part: Part, rows: Rows) -> list[PutOp]:
    """The operations that put a part of the index with these postings.

    It counts once its table exists, so that is put last.
    """
    bucket_count = part.buckets
    buckets = _buckets(rows, bucket_count)
    ops = list[PutOp]()
    for number, bucket in enumerate(buckets):
        name = _bucket_name(part, number)
        value = packed({"postings": bucket})
        put_bucket = _put_document(actor, name, value)
        ops.append(put_bucket)
    languages = list(part.languages)
    arrays = {"table": part.table}
    table = packed(arrays, languages=languages, buckets=bucket_count)
    put_table = _put(part.namespace, part.name, table)
    ops.append(put_table)
    return ops


def _buckets(rows: Rows, count: int) -> list[Rows]:
    """Postings in so many buckets by word, each in the order of words."""
    terms = rows["term"]
    places = rows["place"]
    bucket_of_row = terms % count
    keys = (places, terms, bucket_of_row)
    order = np.lexsort(keys)
    sorted_rows = rows[order]
    sizes = np.bincount(bucket_of_row, minlength=count)
    ends = np.cumsum(sizes)
    inner_ends = ends[:-1]
    return np.split(sorted_rows, inner_ends)


async def write(
    store: BaseStore,
    actor: identity.Actor,
    ops: Sequence[PutOp],
    writer: journal.Writer | None,
    *,
    is_checked: bool = False,
) -> bool:
    """Writes to a person's index, unless the person was forgotten since the `writer` began: a
    request; None for the current run. Returns whether it was written. `is_checked` as in the
    journal.
    """
    if writer is None:
        writer = journal.writer_of_run(actor)
    return await journal.put_unless_forgotten(store, ops, writer, is_checked=is_checked)


async def _merge(store: BaseStore, actor: identity.Actor, writer: journal.Writer | None) -> None:
    """Once there are `MERGE_AT` new parts, puts them, and the segments that are not larger than all
    before, as one segment; then deletes them.

    Does nothing if there are fewer, or if one cannot be read.
    """
    new_parts = await _new_parts(store, actor, MERGE_AT)
    if len(new_parts) < MERGE_AT:
        return
    try:
        index = await load(store, actor)
        parts = _mergeable(index)
        rows = await _all_postings(store, actor, parts)
    except DamagedError:
        # Another process is merging them. What cannot be read, the search that needs it notices.
        return
    is_merged_by_others = len(parts) <= 1
    if is_merged_by_others:
        # Or others have forgotten their person since they were counted.
        return
    segment, segment_rows = _segment_of(actor, parts, rows)
    ops = await platform.in_thread(_part_ops, actor, segment, segment_rows)
    await write(store, actor, ops, writer)
    deletions = _deletion_ops(actor, parts)
    await write(store, actor, deletions, writer)


async def _all_postings(store: BaseStore, actor: identity.Actor, parts: Sequence[Part]) -> Rows:
    """The postings of all words of these parts. Raises as `read_postings`."""
    most_buckets = 0
    for part in parts:
        most_buckets = max(most_buckets, part.buckets)
    # As hashes, these numbers are in each bucket of each part.
    hashes = range(most_buckets)
    return await read_postings(store, actor, parts, hashes)


def _segment_of(actor: identity.Actor, parts: Sequence[Part], rows: Rows) -> tuple[Part, Rows]:
    """One part in place of several, and its postings. Of a conversation that is there twice the
    newer version stays.

    `rows` are all postings of the parts.
    """
    merged_index = Index(list(parts))
    table = merged_index.table
    is_newest = newest(table)
    new_places = np.cumsum(is_newest) - 1
    is_of_newest = is_newest[rows["place"]]
    segment_rows = rows[is_of_newest]
    old_places = segment_rows["place"]
    segment_rows["place"] = new_places[old_places]
    segment = Part(
        namespaces.recall(actor, "segments"),
        _segment_name(parts),
        table[is_newest],
        sorted(merged_index.languages),
        _bucket_count(segment_rows),
    )
    return segment, segment_rows


def _segment_name(parts: Sequence[Part]) -> str:
    """The name of the segment of these parts: of the same ones always the same."""
    names = [part.name for part in parts]
    text = " ".join(names)
    digest = blake2b(text.encode(), digest_size=16)
    return digest.hexdigest()


def _deletion_ops(actor: identity.Actor, parts: Sequence[Part]) -> list[PutOp]:
    """The operations that delete parts: their tables first, so that no part is there without its
    postings.
    """
    ops = list[PutOp]()
    for part in parts:
        table = _delete(part.namespace, part.name)
        ops.append(table)
    for part in parts:
        for number in range(part.buckets):
            name = _bucket_name(part, number)
            bucket = _delete_document(actor, name)
            ops.append(bucket)
    return ops


def _mergeable(index: Index) -> list[Part]:
    """The parts of the index that are merged: the smallest ones, as long as none is larger than all
    before it.
    """
    mergeable = list[Part]()
    total_size = 0
    for part in sorted(index.parts, key=_size_and_name):
        size = len(part.table)
        if size <= max(1, total_size):
            mergeable.append(part)
            total_size += size
    return mergeable


def _size_and_name(part: Part) -> tuple[int, str]:
    """Sorts parts by their number of documents, and by name."""
    size = len(part.table)
    return size, part.name


async def reload(
    store: BaseStore,
    actor: identity.Actor,
    keys: Collection[int],
    version: int | None,
    writer: journal.Writer | None,
    *,
    is_checked: bool,
) -> Index:
    """The index after the conversations of these numbers were put into it.

    A `version` is noted as the watermark before: all conversations up to it are indexed. Nothing is
    noted if the person was forgotten since the `writer` began (as in `write`; `is_checked` as in
    the journal).

    Raises `DamagedError`, and deletes the watermark, if one of the conversations is missing because
    somebody dropped the index meanwhile.
    """
    if version is not None:
        value: dict[str, object] = {"version": version}
        watermark = _put_document(actor, WATERMARK, value)
        ops = [watermark]
        await write(store, actor, ops, writer, is_checked=is_checked)
    # After the note: who drops the index deletes the note first, and then what is looked for here.
    present = await load(store, actor)
    if not present.has(keys):
        documents_of = namespaces.recall(actor, "documents")
        await store.adelete(documents_of, WATERMARK)
        raise DamagedError("Somebody dropped the index while conversations were put into it.")
    return present


async def forget(store: BaseStore, actor: identity.Actor) -> None:
    """Drops a person's index. The next search makes it anew.

    The watermark goes first: while it stands without the parts, a search would take the index for
    whole. Then the parts, so that somebody who moves the watermark meanwhile notices that they are
    gone.
    """
    documents_of = namespaces.recall(actor, "documents")
    await store.adelete(documents_of, WATERMARK)
    for name in sorted(namespaces.RECALL_PARTS, key=_documents_last):
        namespace = namespaces.recall(actor, name)
        await _delete_all(store, namespace)


def _documents_last(name: str) -> bool:
    """Sorts the names of namespaces so that `documents` comes last."""
    return name == "documents"


async def _delete_all(store: BaseStore, namespace: Namespace) -> None:
    """Deletes all items of a namespace, and of those below it."""
    while page := await store.asearch(namespace, limit=_DELETE_PAGE):
        ops = list[PutOp]()
        for item in page:
            deletion = _delete(item.namespace, item.key)
            ops.append(deletion)
        await store.abatch(ops)
