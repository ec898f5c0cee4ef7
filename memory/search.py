"""A search of a person's past conversations: candidates from the index, ranked exactly, verified against their threads.

What it reads is bounded: headers of a dozen segments, the buckets of the query's words, `CANDIDATES` documents, and the threads
that are shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

import numpy as np
from langgraph.store.base import BaseStore, GetOp, PutOp
from langgraph_sdk.auth.types import StudioUser

from memory import ranking, scopes, semantic
from memory.conversations import Conversation
from memory.documents import Document, document, key_of, read_document, version_of
from memory.postings import Array, DamagedError
from memory.recall import Threads, catch_up, drop_conversations, index_conversations, read_conversations
from memory.segments import WATERMARK, Index, document_key, load, read_buckets
from settings import Settings

# Conversations that are ranked exactly. More than are ever shown, because the first ranking is a rough one.
CANDIDATES = 48
# Conversations that one search reads and indexes at most, when nobody has before; the newest first.
MAX_CATCH_UP = 100
# What similarity in meaning adds to words. Equal votes make both worse.
DENSE_WEIGHT = 0.5
# A segment that is read while somebody merges it is gone; the index is then read again.
_ATTEMPTS = 3
_PAGE = 100


@dataclass(frozen=True, slots=True)
class Found:
    """A conversation that matches, and its turns that do, best first, each with its score."""

    conversation: Conversation
    score: float
    turns: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Results:
    """What a search found, best first; in how many conversations, and how many it could not look at."""

    found: list[Found]
    searched: int
    outstanding: int


async def search(
    store: BaseStore,
    threads: Threads,
    actor: scopes.Actor,
    query: str,
    limit: int,
    *,
    current: str | None = None,
    today: date | None = None,
) -> Results:
    """The person's past conversations that match a query.

    Args:
        store: where their index is.
        threads: of the platform, for what is newer than the index, and for what is shown.
        actor: whose conversations. Nobody else's are looked at.
        query: any text.
        limit: of conversations.
        current: a thread to leave out.
        today: what "yesterday" is the day before; by the clock in UTC if not given.
    """
    index = await catch_up(store, threads, actor, current=current, most=MAX_CATCH_UP)
    outstanding, today = index.outstanding, today or datetime.now(UTC).date()
    for _ in range(_ATTEMPTS):
        asked = ranking.question(query, index.languages, today)
        try:
            keys, found_in = await _candidates(store, index, asked, leave_out=key_of(str(current)))
            break
        except DamagedError:
            index = await load(store, actor)
    else:
        index = await _without_damage(store, actor)
        asked = ranking.question(query, index.languages, today)
        keys, found_in = await _candidates(store, index, asked, leave_out=key_of(str(current)))
    near = await semantic.similar(store, actor, query[: ranking.MAX_QUERY_CHARS])
    near.pop(key_of(str(current)), None)
    documents = await _documents(store, actor, [*keys, *(key for key in near if key not in keys)])
    total = int(index.live().sum())
    how = _Ranking(asked, found_in, total, near)
    found = await _verified(store, threads, actor, documents, how=how, limit=limit)
    return Results(found, total, outstanding)


async def _candidates(store: BaseStore, index: Index, asked: ranking.Question, leave_out: int) -> tuple[list[int], Array]:
    """Numbers of the conversations that match best as a whole; and in how many each word of the question is."""
    groups = asked.groups
    hashes = sorted({hashed for group in groups for hashed in group})
    large = [part for part in index.parts if not part.bucket]
    wanted = [(part, n) for part in large for n in sorted({hashed % part.buckets for hashed in hashes})]
    read = iter(await read_buckets(store, index.actor, wanted))
    contents = {part.name: [next(read) for owner, _ in wanted if owner is part] for part in large}
    return await asyncio.to_thread(_matching, index, contents, groups, len(asked.words), leave_out)


def _matching(
    index: Index,
    contents: dict[str, list[tuple[Array, Array, Array]]],
    groups: Sequence[Sequence[int]],
    words: int,
    leave_out: int,
) -> tuple[list[int], Array]:
    live = index.live()
    if not len(live):
        return [], np.zeros(len(groups))
    keys, lengths = (np.concatenate([getattr(part.table, name) for part in index.parts]) for name in ("keys", "words"))
    counts = np.zeros((len(groups), len(live)), np.float32)
    pairs = sorted({(hashed, number) for number, group in enumerate(groups) for hashed in group})
    hashes = np.array([hashed for hashed, _ in pairs], "<u4")
    start = 0
    for part in index.parts:
        for terms, places, found in [part.bucket] if part.bucket else contents[part.name]:
            lows, highs = np.searchsorted(terms, hashes), np.searchsorted(terms, hashes, "right")
            for hit in np.flatnonzero(highs > lows):
                run = slice(lows[hit], highs[hit])
                counts[pairs[hit][1], start + places[run]] += found[run]
        start += len(part.table.keys)
    counts[:, ~live | (keys == leave_out)] = 0
    found_in = (counts > 0).sum(axis=1)
    weights = ranking.inverse_frequency(found_in, int(live.sum()))
    weights[words:] = ranking.TIME_WEIGHT * (weights[:words].mean() if words else 1.0)
    counts[words:] = counts[words:] > 0
    average = float(lengths[live].mean()) if live.any() else 1.0
    scores = weights[:words] @ ranking.saturated(counts[:words], lengths, average) + weights[words:] @ counts[words:]
    # Of equals the newest, which are last.
    best = np.lexsort((-np.arange(len(scores)), -scores))[:CANDIDATES]
    return [int(keys[place]) for place in best if scores[place] > 0], found_in


async def _documents(store: BaseStore, actor: scopes.Actor, keys: Sequence[int]) -> list[Document]:
    """The conversations with these numbers. What cannot be read is dropped, and indexed again by the next search."""
    namespace = scopes.recall(actor, "documents")
    items = await store.abatch([GetOp(namespace, document_key(key)) for key in keys])
    found, damaged = [], []
    for key, item in zip(keys, items, strict=True):
        try:
            found.append(read_document(getattr(item, "value", {})))
        except DamagedError:
            damaged.append(key)
    if damaged:
        await drop_conversations(store, actor, damaged)
        await store.adelete(namespace, WATERMARK)
    return found


@dataclass(frozen=True, slots=True)
class _Ranking:
    """How candidates are ranked: by words, and by meaning where there is an index of it."""

    asked: ranking.Question
    found_in: Array
    total: int
    near: dict[int, tuple[float, int]]

    def ranked(self, documents: Sequence[Document]) -> list[ranking.Scored]:
        scored = ranking.score(self.asked, documents, self.found_in, self.total)
        if not self.near:
            return scored
        by_key = {key_of(document.thread_id): document for document in documents}
        by_words = {key_of(item.document.thread_id): item for item in scored}
        scores = ranking.fused(
            {key: item.score for key, item in by_words.items()},
            {key: hit[0] for key, hit in self.near.items() if key in by_key},
            DENSE_WEIGHT,
        )
        return [
            replace(by_words[key], score=scores[key])
            if key in by_words
            else ranking.Scored(by_key[key], scores[key], ((self.near[key][1], 1.0),))
            for key in sorted(scores, key=lambda key: -scores[key])
        ]


async def _verified(
    store: BaseStore, threads: Threads, actor: scopes.Actor, documents: list[Document], *, how: _Ranking, limit: int
) -> list[Found]:
    """The best of the candidates that are still there, with what is said in them now."""
    ranked = await asyncio.to_thread(how.ranked, documents)
    there: dict[str, Conversation] = {}
    place = 0
    while len(there) < limit and place < len(ranked):
        wanted = [item.document for item in ranked[place : place + limit - len(there)]]
        place += len(wanted)
        talks = await read_conversations(threads, actor, [talk.thread_id for talk in wanted])
        there |= {talk.thread_id: talk for talk in talks}
        if gone := [key_of(talk.thread_id) for talk in wanted if talk.thread_id not in there]:
            await drop_conversations(store, actor, gone)
    versions = {item.document.thread_id: item.document.version for item in ranked}
    changed = [talk for talk in there.values() if version_of(talk.updated_at) != versions[talk.thread_id]]
    if changed:
        await index_conversations(store, actor, changed)
        anew = {talk.thread_id: await asyncio.to_thread(document, talk) for talk in changed}
        ranked = await asyncio.to_thread(how.ranked, [anew.get(talk.thread_id, talk) for talk in documents])
    return [
        Found(there[item.document.thread_id], item.score, item.turns) for item in ranked if item.document.thread_id in there
    ]


async def _without_damage(store: BaseStore, actor: scopes.Actor) -> Index:
    """The index without segments of which a bucket is damaged. Their conversations are indexed again by the next search."""
    index = await load(store, actor)
    for part in [part for part in index.parts if not part.bucket]:
        try:
            await read_buckets(store, actor, [(part, number) for number in range(part.buckets)])
        except DamagedError:
            index.parts.remove(part)
            await store.abatch(
                [
                    PutOp(scopes.recall(actor, "segments"), part.name, None),
                    PutOp(scopes.recall(actor, "documents"), WATERMARK, None),
                ]
            )
    return index


async def search_organization(
    store: BaseStore,
    threads: Threads,
    user: scopes.User | StudioUser,
    settings: Settings,
    *,
    org_id: str,
    query: str,
    limit: int,
) -> list[tuple[scopes.Actor, Found]]:
    """Conversations of everybody in an organization that match, best first. For code on the server's side, not for a model.

    Takes as long as one search for each person.

    Raises:
        PermissionError: the user is no operator.
    """
    if not scopes.is_operator(user, settings):
        raise PermissionError(f"{user.identity!r} is no operator; only operators search a whole organization.")
    people: list[scopes.Actor] = []
    offset = 0
    while page := await store.alist_namespaces(prefix=("recall_documents",), limit=_PAGE, offset=offset):
        people += [actor for namespace in page if (actor := scopes.recalled(org_id, namespace))]
        offset += _PAGE
    found = [(actor, item) for actor in people for item in (await search(store, threads, actor, query, limit)).found]
    return sorted(found, key=lambda pair: -pair[1].score)[:limit]
