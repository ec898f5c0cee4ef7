"""A search of a person's past conversations.

Candidates come from the index, are ranked exactly, and are read from their threads when they are
shown. It reads the headers of a dozen segments, the buckets of the query's words, some dozens of
documents, and the threads it shows.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from zoneinfo import ZoneInfo

from langgraph.store.base import BaseStore, GetOp, SearchItem

from lasting_memory import days, platform
from lasting_memory.memory import journal
from lasting_memory.people import identity, namespaces
from lasting_memory.people.scopes import ROUTES
from lasting_memory.recall import lexical
from lasting_memory.recall.candidates import matching_documents
from lasting_memory.recall.catching_up import catch_up
from lasting_memory.recall.documents import Document, read_document
from lasting_memory.recall.format import (
    ASKS,
    TENTHS,
    DamagedError,
    conversation_of,
    key_of,
)
from lasting_memory.recall.index import Index, drop, forget, read_postings, state_of
from lasting_memory.recall.meaning import similar
from lasting_memory.recall.question import MAX_QUERY_CHARS, Question, question
from lasting_memory.recall.ranking import Scored, Turns, score
from lasting_memory.recall.threads import Conversation, Threads, read_conversations

# Attempts of a search whose index others change meanwhile; of one whose index stays the same, and
# cannot be read, before the index is made anew.
_TRIES = 20
_TRIES_OF_DAMAGED = 3
# Unindexed conversations that a search reads and indexes at most, newest first; seconds that it
# waits for their embeddings.
MAX_CATCH_UP = 100
EMBED_SECONDS = 3.0
# Weight of similarity in meaning beside words, both up to 1. Higher ones find no more
# (docs/recall.md).
DENSE_WEIGHT = 0.2
# Conversations whose score is at most by this share below the best one answer as well as that one:
# where a question says that the newest is meant, and where it says nothing.
NEAR_BEST_FOR_NEWEST = 0.2
NEAR_BEST = 0.01

logger = logging.getLogger("memory")


@dataclass(frozen=True, slots=True)
class Match:
    """A matching conversation, its matching turns, best first, each with its score, and whether it
    shares words at all.

    `left_out` counts the turns at its beginning that are not in the index.
    """

    conversation: Conversation
    turns: Turns
    by_words: bool = True
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Results:
    """Matching conversations, best first; the number of searched ones, and of those that are not
    wholly indexed yet.
    """

    matches: list[Match]
    searched: int
    outstanding: int


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Documents that may match, with the scores by words and the nearest passages of their
    conversations, by number.

    `searched` is the number of all conversations. Of a nearest passage there is its item, and
    whether it is near at all. `asks_newest` is the question's.
    """

    documents: Sequence[Document] = ()
    scored: Mapping[int, Scored] = field(default_factory=dict)
    near: Mapping[int, tuple[SearchItem, bool]] = field(default_factory=dict)
    searched: int = 0
    asks_newest: bool = False

    def ranked(self) -> list[int]:
        """The numbers of the conversations, best first (`in_order`)."""
        ended = dict[int, int]()
        for document in self.documents:
            row = document.row[0]
            ended[int(conversation_of(row["key"]))] = int(row["ended"])
        share = NEAR_BEST_FOR_NEWEST if self.asks_newest else NEAR_BEST
        return in_order(self.scores(), ended, share)

    def scores(self) -> dict[int, float]:
        """The score of each conversation by words and meaning."""
        by_words = {key: scored.score for key, scored in self.scored.items()}
        by_meaning = dict[int, float]()
        for key, (item, is_clear) in self.near.items():
            # What only meaning finds must be clearly near.
            if is_clear or key in by_words:
                by_meaning[key] = item.score or 0.0
        return fused(by_words, by_meaning, self._best_by_words())

    def _best_by_words(self) -> float:
        """The score by words that counts as a whole one.

        Where no words tell anything, those of a question about the past are no hit by which others
        are measured.
        """
        telling = [scored.score for scored in self.scored.values() if scored.tells]
        if telling:
            return max(telling)
        asking = [scored.score for scored in self.scored.values()]
        return max(asking, default=0.0) * 10 / float(TENTHS[ASKS])

    def turns(self, key: int) -> tuple[Turns, bool]:
        """The matching turns of a conversation, and whether it shares words with the query."""
        if key in self.scored:
            return self.scored[key].turns, True
        item, _ = self.near[key]
        return ((item.value["turn"], 1.0),), False


@dataclass(frozen=True, slots=True)
class _Query:
    """What a search is for."""

    text: str
    alternatives: Sequence[str]
    period: lexical.Time | None
    current: str
    today: date
    zone: ZoneInfo

    def question(self, index: Index) -> Question:
        """The same for an index."""
        return question(
            self.text, index.languages, self.today, self.alternatives, self.period, zone=self.zone
        )


async def search(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    query: str,
    limit: int,
    *,
    agents: Collection[str],
    alternatives: Sequence[str] = (),
    period: lexical.Time | None = None,
    current: str | None = None,
    today: date | None = None,
    zone: ZoneInfo = days.WORLDS,
    began: journal.Began | None = None,
    routes: Collection[str] = tuple(ROUTES),
) -> Results:
    """The person's own past conversations with these agents that match a query, at most `limit`,
    without the thread `current`.

    `alternatives` are other words that people may have used: they count less. Conversations of
    `period` count more. Days are those of `zone`; of a day without a year the last before `today`
    (default: the present day) is meant. `began` says when a request did; None for the current run.
    Once the person was forgotten, nothing is put into their index. Of tools that read files of
    `routes` nothing is found.
    """
    wanted = _Query(query, alternatives, period, current or "", today or days.today(zone), zone)
    seen: object = None
    unchanged = 0
    index = Index()
    for _ in range(_TRIES):
        try:
            index = await catch_up(
                store,
                threads,
                actor,
                agents=agents,
                current=wanted.current,
                began=began,
                routes=routes,
                most=MAX_CATCH_UP,
                seconds=EMBED_SECONDS,
            )
            candidates = await _candidates(store, actor, index, wanted)
            break
        except DamagedError as error:
            # Somebody merged parts, dropped a conversation or forgot the person meanwhile. If
            # nothing has moved, it is damage.
            logger.info("The index of past conversations could not be read: %s", error)
            state = await state_of(store, actor)
            unchanged = unchanged + 1 if state == seen else 1
            seen = state
            if unchanged >= _TRIES_OF_DAMAGED:
                await forget(store, actor)
    else:
        # It is derived data: the next search finds what this one could not read.
        logger.warning(
            "Past conversations were not searched: their index changed %s times while it was read.",
            _TRIES,
        )
        return Results([], 0, max(1, len(index.table)))
    keys = candidates.ranked()[:limit]
    thread_ids = {key_of(text.thread_id): text.thread_id for text in candidates.documents}
    shown = [thread_ids[key] for key in keys]
    talks = await read_conversations(threads, actor, agents, shown, routes)
    there = {key_of(talk.thread_id): talk for talk in talks}
    await drop(store, actor, [thread_ids[key] for key in keys if key not in there], began)
    matches = _matches([key for key in keys if key in there], there, candidates)
    return Results(matches, candidates.searched, index.outstanding)


def _matches(
    keys: Sequence[int], there: Mapping[int, Conversation], candidates: _Candidates
) -> list[Match]:
    """The conversations of these numbers as matches, in this order."""
    left_out = {key_of(text.thread_id): text.left_out for text in candidates.documents}
    matches = list[Match]()
    for key in keys:
        turns, by_words = candidates.turns(key)
        matches.append(Match(there[key], turns, by_words, left_out[key]))
    return matches


async def _candidates(
    store: BaseStore, actor: identity.Actor, index: Index, wanted: _Query
) -> _Candidates:
    """The candidates for a query in the index.

    Raises `DamagedError` if an item cannot be read, or is gone meanwhile.
    """
    asked = wanted.question(index)
    leave_out = key_of(wanted.current)
    rows = await read_postings(store, actor, index.parts, asked.hashes)
    keys, frequencies = await platform.in_thread(
        matching_documents, index.table, rows, asked, leave_out
    )
    near = dict[int, tuple[SearchItem, bool]]()
    if index.meaning:
        near = await similar(store, actor, wanted.text[:MAX_QUERY_CHARS])
        near.pop(leave_out, None)
    where = namespaces.recall(actor, "documents")
    distinct = dict.fromkeys([*keys, *near])
    items = await store.abatch([GetOp(where, f"{key:016x}") for key in distinct])
    documents = [read_document(item) for item in items]
    scored = await platform.in_thread(score, asked, documents, frequencies)
    return _Candidates(documents, scored, near, frequencies.searched, asked.asks_newest)


def in_order(scores: Mapping[int, float], ended: Mapping[int, int], near: float) -> list[int]:
    """The numbers of conversations, best first, by their scores and the times of their ends.

    Those whose score is at most by the share `near` below the best one come first, the newest of
    them before the others: what was replaced later so comes behind what replaced it.
    """
    best_first = sorted(scores, key=scores.__getitem__, reverse=True)
    if not best_first:
        return []
    least = (1 - near) * scores[best_first[0]]
    as_good = [key for key in best_first if scores[key] >= least]
    others = best_first[len(as_good) :]
    as_good.sort(key=ended.__getitem__, reverse=True)
    return as_good + others


def fused(
    by_words: Mapping[int, float], by_meaning: Mapping[int, float], best: float = 0.0
) -> dict[int, float]:
    """A weighted sum of scores by words, as shares of the best, and of similarities, stretched from
    0 for the lowest to 1.

    `best` is the score by words that counts as a whole one, if not the highest.
    """
    whole = best or max(by_words.values(), default=0.0) or 1.0
    scores = {key: value / whole for key, value in by_words.items()}
    low = min(by_meaning.values(), default=0.0)
    high = max(by_meaning.values(), default=0.0)
    for key, value in by_meaning.items():
        stretched = (value - low) / (high - low) if high > low else 1.0
        scores[key] = scores.get(key, 0.0) + DENSE_WEIGHT * stretched
    return scores
