"""A search of a person's past conversations.

Candidates come from the index, are ranked exactly, and are read from their threads when they are
shown. It reads the headers of a dozen segments, the buckets of the query's words, some dozens of
documents, and the threads it shows.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from zoneinfo import ZoneInfo

from langgraph.store.base import BaseStore

from lasting_memory import days, platform
from lasting_memory.memory import journal
from lasting_memory.people import identity
from lasting_memory.people.scopes import ROUTES
from lasting_memory.recall import lexical
from lasting_memory.recall.candidates import matching_documents
from lasting_memory.recall.catching_up import catch_up
from lasting_memory.recall.documents import Document, read_document
from lasting_memory.recall.format import (
    ASKS,
    TENTHS,
    DamagedError,
    key_of,
)
from lasting_memory.recall.index import Index, document_items, drop, forget, read_postings, state_of
from lasting_memory.recall.meaning import Nearest, similar
from lasting_memory.recall.question import MAX_QUERY_CHARS, Question, build_question
from lasting_memory.recall.ranking import ConversationScore, ScoredTurns, score_conversations
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
    turns: ScoredTurns
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
    scored: Mapping[int, ConversationScore] = field(default_factory=dict)
    near: Mapping[int, Nearest] = field(default_factory=dict)
    searched: int = 0
    asks_newest: bool = False

    def ranked(self) -> list[int]:
        """The numbers of the conversations, best first (`in_order`)."""
        ended = dict[int, int]()
        for document in self.documents:
            conversation = key_of(document.thread_id)
            ended[conversation] = document.ended
        share = NEAR_BEST_FOR_NEWEST if self.asks_newest else NEAR_BEST
        scores = self.scores()
        return in_order(scores, ended, share)

    def scores(self) -> dict[int, float]:
        """The score of each conversation by words and meaning."""
        by_words = dict[int, float]()
        for key, scored in self.scored.items():
            by_words[key] = scored.score
        by_meaning = dict[int, float]()
        for key, (item, is_clear) in self.near.items():
            # What only meaning finds must be clearly near.
            is_match = is_clear or key in by_words
            if is_match:
                by_meaning[key] = item.score or 0.0
        best = self._best_by_words()
        return fused(by_words, by_meaning, best)

    def _best_by_words(self) -> float:
        """The score by words that counts as a whole one.

        Where no words tell anything, those of a question about the past are no hit by which others
        are measured.
        """
        telling = list[float]()
        asking = [0.0]
        for scored in self.scored.values():
            if scored.tells:
                telling.append(scored.score)
            else:
                asking.append(scored.score)
        if telling:
            return max(telling)
        weight = float(TENTHS[ASKS])
        return max(asking) * 10 / weight

    def turns(self, key: int) -> tuple[ScoredTurns, bool]:
        """The matching turns of a conversation, and whether it shares words with the query."""
        scored = self.scored.get(key)
        if scored is not None:
            return scored.turns, True
        item, _ = self.near[key]
        nearest_turn = (item.value["turn"], 1.0)
        return (nearest_turn,), False

    def by_key(self) -> dict[int, Document]:
        """For each conversation, by number, a document of it."""
        documents = dict[int, Document]()
        for document in self.documents:
            key = key_of(document.thread_id)
            documents[key] = document
        return documents


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
        return build_question(
            self.text, index.languages, self.today, self.alternatives, self.period, zone=self.zone
        )


class _Damage:
    """How often a search could not read an index that stayed as it was."""

    def __init__(self, store: BaseStore, actor: identity.Actor) -> None:
        self._store = store
        self._actor = actor
        self._state: object = None
        self._unchanged = 0

    async def noticed(self, error: DamagedError) -> None:
        """Note an error. Drops the index once it is damage, and not somebody's change."""
        # Somebody merged parts, dropped a conversation or forgot the person meanwhile. If
        # nothing has moved, it is damage.
        logger.info("The index of past conversations could not be read: %s", error)
        state = await state_of(self._store, self._actor)
        if state != self._state:
            self._unchanged = 0
        self._unchanged += 1
        self._state = state
        if self._unchanged >= _TRIES_OF_DAMAGED:
            await forget(self._store, self._actor)


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
    day = today or days.today(zone)
    wanted = _Query(query, alternatives, period, current or "", day, zone)
    damage = _Damage(store, actor)
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
            await damage.noticed(error)
    else:
        # It is derived data: the next search finds what this one could not read.
        logger.warning(
            "Past conversations were not searched: their index changed %s times while it was read.",
            _TRIES,
        )
        unsearched = max(1, len(index.table))
        return Results([], 0, unsearched)
    documents = candidates.by_key()
    best = candidates.ranked()[:limit]
    thread_ids = [documents[key].thread_id for key in best]
    talks = await read_conversations(threads, actor, agents, thread_ids, routes)
    present = {talk.thread_id: talk for talk in talks}
    gone = [thread_id for thread_id in thread_ids if thread_id not in present]
    await drop(store, actor, gone, began)
    matches = _matches(best, present, candidates)
    return Results(matches, candidates.searched, index.outstanding)


def _matches(
    keys: Sequence[int], talks: Mapping[str, Conversation], candidates: _Candidates
) -> list[Match]:
    """The conversations of these numbers as matches, in this order. `talks` are those that are
    there, by thread.
    """
    documents = candidates.by_key()
    matches = list[Match]()
    for key in keys:
        document = documents[key]
        talk = talks.get(document.thread_id)
        if talk is not None:
            turns, by_words = candidates.turns(key)
            matches.append(Match(talk, turns, by_words, document.left_out))
    return matches


async def _candidates(
    store: BaseStore, actor: identity.Actor, index: Index, wanted: _Query
) -> _Candidates:
    """The candidates for a query in the index.

    Raises `DamagedError` if an item cannot be read, or is gone meanwhile.
    """
    parts = index.parts
    asked = wanted.question(index)
    leave_out = key_of(wanted.current)
    rows = await read_postings(store, actor, parts, asked.hashes)
    keys, frequencies = await platform.in_thread(
        matching_documents, index.table, rows, asked, leave_out
    )
    near = dict[int, Nearest]()
    if index.meaning:
        text = wanted.text[:MAX_QUERY_CHARS]
        near = await similar(store, actor, text)
        near.pop(leave_out, None)
    distinct = dict.fromkeys([*keys, *near])
    documents = await _read_documents(store, actor, distinct)
    scored = await platform.in_thread(score_conversations, asked, documents, frequencies)
    return _Candidates(documents, scored, near, frequencies.searched, asked.asks_newest)


async def _read_documents(
    store: BaseStore, actor: identity.Actor, keys: Iterable[int]
) -> list[Document]:
    """The documents of these numbers. Raises as `_candidates`."""
    documents = list[Document]()
    for item in await document_items(store, actor, keys):
        document = read_document(item)
        documents.append(document)
    return documents


def in_order(scores: Mapping[int, float], ended: Mapping[int, int], near: float) -> list[int]:
    """The numbers of conversations, best first, by their scores and the times of their ends.

    Those whose score is at most by the share `near` below the best one come first, the newest of
    them before the others: what was replaced later so comes behind what replaced it.
    """
    if not scores:
        return []
    best = max(scores.values())
    least = (1 - near) * best
    as_good = list[int]()
    others = list[int]()
    for key in sorted(scores, key=scores.__getitem__, reverse=True):
        if scores[key] >= least:
            as_good.append(key)
        else:
            others.append(key)
    as_good.sort(key=ended.__getitem__, reverse=True)
    return as_good + others


def fused(
    by_words: Mapping[int, float], by_meaning: Mapping[int, float], best: float = 0.0
) -> dict[int, float]:
    """A weighted sum of scores by words, as shares of the best, and of similarities, stretched from
    0 for the lowest to 1.

    `best` is the score by words that counts as a whole one, if not the highest.
    """
    highest = max(by_words.values(), default=0.0)
    whole = best or highest or 1.0
    scores = dict[int, float]()
    for key, value in by_words.items():
        scores[key] = value / whole
    for key, similarity in _stretched(by_meaning).items():
        by_words_alone = scores.get(key, 0.0)
        added = DENSE_WEIGHT * similarity
        scores[key] = by_words_alone + added
    return scores


def _stretched(similarities: Mapping[int, float]) -> dict[int, float]:
    """Similarities, stretched from 0 for the lowest to 1 for the highest; all 1 if they are the
    same.
    """
    if not similarities:
        return {}
    low = min(similarities.values())
    high = max(similarities.values())
    span = high - low
    if span == 0:
        return dict.fromkeys(similarities, 1.0)
    stretched = dict[int, float]()
    for key, value in similarities.items():
        above_lowest = value - low
        stretched[key] = above_lowest / span
    return stretched
