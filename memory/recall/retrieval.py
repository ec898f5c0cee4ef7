"""A search of a person's past conversations: candidates from the index, ranked exactly, verified against their threads.

It reads the headers of a dozen segments, the buckets of the query's words, `CANDIDATES` documents, and the threads it shows.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial

import numpy as np
from langgraph.store.base import BaseStore, GetOp

from memory import identity, journal, namespaces
from memory.recall import ranking, semantic
from memory.recall.conversations import Conversation, Threads
from memory.recall.documents import Document, document, key_of, read_document, version_of
from memory.recall.index import catch_up, drop_conversations, index_conversations, read_conversations
from memory.recall.postings import Bucket, DamagedError, placed, together
from memory.recall.segments import WATERMARK, Index, document_key, load, read_buckets

# Conversations in an answer. Twelve in the same number of characters name all evidence more often than five, and quote as much
# of it: the best turns are quoted, whichever conversations they are in (docs/recall.md).
DEFAULT_LIMIT = 12
_Rank = Callable[[Sequence[Document]], list[ranking.Scored]]
# Conversations that are ranked exactly: more than any answer shows, because the first ranking is rough.
CANDIDATES = 48
# Unindexed conversations that one search reads and indexes at most, newest first.
MAX_CATCH_UP = 100
# Weight of similarity in meaning beside words. With vectors of a person's own words only (LSA) it finds as many conversations
# as words alone on each development set, and quotes 0.3 points fewer turns on one. A higher weight is worse.
DENSE_WEIGHT = 0.2


@dataclass(frozen=True, slots=True)
class Match:
    """A matching conversation, and its matching turns, best first, each with its score."""

    conversation: Conversation
    turns: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Results:
    """Matching conversations, best first; the number of searched ones, and of those that are not indexed yet."""

    matches: list[Match]
    searched: int
    outstanding: int


async def search(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    query: str,
    limit: int,
    *,
    alternatives: Sequence[str] = (),
    current: str | None = None,
    today: date | None = None,
    began: journal.Began | None = None,
) -> Results:
    """The person's own past conversations that match a query, at most `limit`, without the thread `current`.

    `alternatives` are other words that people may have used: they count less. `today` (default: UTC's) follows "yesterday".
    `began` says when a request did; None for the current run. Once the person was forgotten, nothing is put into their index.
    """
    index = await catch_up(store, threads, actor, current=current or "", most=MAX_CATCH_UP, began=began)
    outstanding, today, own = index.outstanding, today or datetime.now(UTC).date(), key_of(str(current))
    while True:
        languages = {name for part in index.parts for name in part.languages}
        asked = ranking.question(query, languages, today, alternatives)
        try:
            hashes = {hashed for group in asked.groups for hashed in group}
            buckets = await read_buckets(store, actor, index.parts, hashes)
            break
        except DamagedError:  # a segment was merged meanwhile, or was damaged and is now deleted
            index = await load(store, actor)
    keys, frequencies = await asyncio.to_thread(_matching, index, buckets, asked, own)
    near = await semantic.similar(store, actor, query[: ranking.MAX_QUERY_CHARS])
    near.pop(own, None)
    documents = await _documents(store, actor, list(dict.fromkeys([*keys, *near])), began)
    rank = partial(_ranked, asked, frequencies, near)
    matches = await _verified(store, threads, actor, documents, rank, limit=limit, began=began)
    return Results(matches, frequencies.total, outstanding)


def _matching(
    index: Index, buckets: Sequence[Sequence[Bucket]], asked: ranking.Question, leave_out: int
) -> tuple[list[int], ranking.Frequencies]:
    """Numbers of the conversations that match best as a whole, and the frequency of each word of the question."""
    (keys, versions, lengths), newest = together(index.parts)
    live, groups, words = newest & (versions > 0), asked.groups, len(asked.words)
    counts = np.zeros((len(groups), len(live)), np.float32)
    pairs = sorted({(hashed, number) for number, group in enumerate(groups) for hashed in group})
    hashes = np.array([hashed for hashed, _ in pairs], "<u4")
    for terms, places, passages in placed(index.parts, buckets):
        lows, highs = np.searchsorted(terms, hashes), np.searchsorted(terms, hashes, "right")
        for hit in np.flatnonzero(highs > lows):
            run = slice(lows[hit], highs[hit])
            counts[pairs[hit][1], places[run]] += passages[run]
    counts[:, ~live | (keys == leave_out)] = 0
    frequencies = ranking.Frequencies((counts > 0).sum(axis=1), counts.sum(axis=1), int(live.sum()))
    weights = ranking.inverse_frequency(frequencies.conversations, frequencies.total)
    weights[:words] *= asked.weights
    weights[words:] = ranking.TIME_WEIGHT * (weights[: asked.own].mean() if asked.own else 1.0)
    counts[:words] = ranking.saturated(counts[:words], lengths, float(lengths[live].mean()) if live.any() else 1.0)
    scores = weights @ np.minimum(counts, 1)
    # The newest, which are last, win ties.
    best = np.lexsort((-np.arange(len(scores)), -scores))[:CANDIDATES]
    return [int(keys[place]) for place in best if scores[place] > 0], frequencies


async def _documents(
    store: BaseStore, actor: identity.Actor, keys: Sequence[int], began: journal.Began | None
) -> list[Document]:
    """The conversations with these numbers. Drops unreadable ones, which the next search indexes again."""
    namespace = namespaces.recall(actor, "documents")
    items = await store.abatch([GetOp(namespace, document_key(key)) for key in keys])
    documents, damaged = [], []
    for key, item in zip(keys, items, strict=True):
        try:
            read = read_document(getattr(item, "value", {}))
        except DamagedError:
            read = None
        if read is not None and key_of(read.thread_id) == key:
            documents.append(read)
        else:
            damaged.append(key)
    if damaged and not await journal.is_forgotten(store, began or journal.began(actor)):
        await drop_conversations(store, actor, damaged)
        await store.adelete(namespace, WATERMARK)
    return documents


def _ranked(
    asked: ranking.Question, frequencies: ranking.Frequencies, near: dict[int, tuple[float, int]], documents: Sequence[Document]
) -> list[ranking.Scored]:
    """Candidates ranked by words, and by meaning where there is an index of it."""
    scored = {key_of(item.document.thread_id): item for item in ranking.score(asked, documents, frequencies)}
    by_key = {key_of(document.thread_id): document for document in documents}
    dense = {key: similarity for key, (similarity, _) in near.items() if key in by_key}
    for key, score in fused({key: item.score for key, item in scored.items()}, dense, DENSE_WEIGHT).items():
        item = scored[key] if key in scored else ranking.Scored(by_key[key], 0.0, ((near[key][1], 1.0),))
        scored[key] = replace(item, score=score)
    return sorted(scored.values(), key=lambda item: -item.score)


def fused(lexical_scores: Mapping[int, float], dense_scores: Mapping[int, float], weight: float) -> dict[int, float]:
    """Weighted sum of both, each scaled to 0 to 1 first. Measured: rank fusion with equal votes is worse than either."""
    best = max(lexical_scores.values(), default=0.0) or 1.0
    low, high = min(dense_scores.values(), default=0.0), max(dense_scores.values(), default=0.0)
    dense = {key: (value - low) / (high - low) if high > low else 1.0 for key, value in dense_scores.items()}
    scores = {key: value / best for key, value in lexical_scores.items()}
    return scores | {key: scores.get(key, 0.0) + weight * value for key, value in dense.items()}


async def _verified(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    documents: Sequence[Document],
    rank: _Rank,
    *,
    limit: int,
    began: journal.Began | None,
) -> list[Match]:
    """The best candidates that still exist, with their present text."""
    ranked = await asyncio.to_thread(rank, documents)
    there: dict[str, Conversation] = {}
    left = [item.document for item in ranked]
    while len(there) < limit and left:
        wanted = {talk.thread_id: talk.version for talk in left[: limit - len(there)]}
        left = left[len(wanted) :]
        there |= {talk.thread_id: talk for talk in await read_conversations(threads, actor, list(wanted))}
        gone = wanted.keys() - there.keys()
        if gone and not await journal.is_forgotten(store, began or journal.began(actor)):
            await drop_conversations(store, actor, list(map(key_of, gone)))
    versions = {talk.thread_id: talk.version for talk in documents}
    changed = [talk for talk in there.values() if version_of(talk.updated_at) != versions[talk.thread_id]]
    if changed:
        await index_conversations(store, actor, changed, began)
        anew = {talk.thread_id: await asyncio.to_thread(document, talk) for talk in changed}
        ranked = await asyncio.to_thread(rank, [anew.get(talk.thread_id, talk) for talk in documents])
    shown = ((there.get(item.document.thread_id), item) for item in ranked)
    return [Match(talk, item.turns) for talk, item in shown if talk]
