"""A search of a person's past conversations.

Candidates come from the index, are ranked exactly, and are read from their threads when they are
shown. It reads the headers of a dozen segments, the buckets of the query's words, some dozens of
documents, and the threads it shows.

A conversation has a number, its key (`format.key_of`), and one document in the index, or several.
"By words" is what a query shares words with, "by meaning" what the store's semantic index finds near
to it. A conversation's score is a sum of both (`fused`).
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
    """A conversation that matches a query, and its matching turns, by place and with their scores,
    best first.

    `by_words`: it shares words with the query. `left_out` counts the turns at its beginning that
    are not in the index.
    """

    conversation: Conversation
    turns: ScoredTurns
    by_words: bool = True
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Results:
    """The conversations that match a query, best first; how many were searched, and how many are
    not wholly indexed yet.
    """

    matches: list[Match]
    searched: int
    outstanding: int


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Documents that may match a query; by their conversations' keys, the scores by words, and the
    nearest passages by meaning.

    `searched` is the number of all conversations. `asks_newest` is the question's.
    """

    documents: Sequence[Document] = ()
    scores_by_words: Mapping[int, ConversationScore] = field(default_factory=dict)
    nearest: Mapping[int, Nearest] = field(default_factory=dict)
    searched: int = 0
    asks_newest: bool = False

    def ranked(self) -> list[int]:
        """The keys of the conversations, best first (`in_order`)."""
        end_times = dict[int, int]()
        for document in self.documents:
            key = key_of(document.thread_id)
            end_times[key] = document.ended
        share = NEAR_BEST
        if self.asks_newest:
            share = NEAR_BEST_FOR_NEWEST
        scores = self.scores()
        return in_order(scores, end_times, share)

    def scores(self) -> dict[int, float]:
        """The score of each conversation by words and meaning, by key."""
        by_words = dict[int, float]()
        for key, score in self.scores_by_words.items():
            by_words[key] = score.score
        by_meaning = dict[int, float]()
        for key, (item, is_clear) in self.nearest.items():
            # What only meaning finds must be clearly near.
            if is_clear or key in by_words:
                by_meaning[key] = item.score or 0.0
        best = self._best_by_words()
        return fused(by_words, by_meaning, best)

    def _best_by_words(self) -> float:
        """The score by words that counts as a whole one.

        It is the best of what tells something. Where nothing does, what only asks for the past is
        no hit by which others are measured: its score is taken as if it told something.
        """
        telling = list[float]()
        asking = [0.0]
        for score in self.scores_by_words.values():
            if score.tells:
                telling.append(score.score)
            else:
                asking.append(score.score)
        if telling:
            return max(telling)
        weight = float(TENTHS[ASKS])
        return max(asking) * 10 / weight

    def turns(self, key: int) -> tuple[ScoredTurns, bool]:
        """The matching turns of the conversation of this key, and whether it shares words with the
        query. Without words it is the first turn of the nearest passage.
        """
        score = self.scores_by_words.get(key)
        if score is not None:
            return score.turns, True
        item, _ = self.nearest[key]
        turn = item.value["turn"]
        nearest_turn = (turn, 1.0)
        return (nearest_turn,), False

    def by_key(self) -> dict[int, Document]:
        """A document of each conversation, by the conversation's key."""
        documents = dict[int, Document]()
        for document in self.documents:
            key = key_of(document.thread_id)
            documents[key] = document
        return documents


@dataclass(frozen=True, slots=True)
class _Query:
    """What a search is for: a text, other words for it, and a period that counts more.

    `current` is the thread that is left out.
    """

    text: str
    alternatives: Sequence[str]
    period: lexical.Time | None
    current: str
    today: date
    zone: ZoneInfo

    def question(self, index: Index) -> Question:
        """The query as a question to an index."""
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
        """Counts an error. Drops the index at error number `_TRIES_OF_DAMAGED` with the same state
        of the index.

        Somebody may have merged parts, dropped a conversation or forgotten the person meanwhile. If
        nothing has changed, it is damage.
        """
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
    writer: journal.Writer | None = None,
    routes: Collection[str] = tuple(ROUTES),
) -> Results:
    """Searches the person's own past conversations with these agents. Returns the `limit` best
    matches at most, without the thread `current`.

    `alternatives` are other words that people may have used: they count less. Conversations of
    `period` count more. Days are those of `zone`; of a day without a year the last before `today`
    (default: the present day) is meant. `writer` is a request; None for the current run.
    Once the person was forgotten, nothing is put into their index. Of tools that read files of
    `routes` nothing is found.

    If others change the index each time that it is read, it returns no matches, and all
    conversations as outstanding.
    """
    day = today or days.today(zone)
    search_query = _Query(query, alternatives, period, current or "", day, zone)
    past = _Past(store, threads, actor, agents, routes, writer)
    index, candidates = await past.candidates(search_query)
    if candidates is None:
        unsearched_count = max(1, len(index.table))
        return Results([], 0, unsearched_count)
    matches = await past.matches(candidates, limit)
    return Results(matches, candidates.searched, index.outstanding)


@dataclass(frozen=True, slots=True)
class _Past:
    """The past conversations of a person with these agents. Once the person was forgotten since
    the `writer` began, nothing is put into their index.
    """

    store: BaseStore
    threads: Threads
    actor: identity.Actor
    agents: Collection[str]
    routes: Collection[str]
    writer: journal.Writer | None

    async def candidates(self, search_query: _Query) -> tuple[Index, _Candidates | None]:
        """The index, with what was said since, and the candidates for a query in it; None if others
        change the index each time that it is read.
        """
        damage = _Damage(self.store, self.actor)
        index = Index()
        for _ in range(_TRIES):
            try:
                index = await self._caught_up(search_query.current)
                candidates = await _candidates(self.store, self.actor, index, search_query)
            except DamagedError as error:
                await damage.noticed(error)
            else:
                return index, candidates
        # It is derived data: the next search finds what this one could not read.
        logger.warning(
            "Past conversations were not searched: their index changed %s times while it was read.",
            _TRIES,
        )
        return index, None

    async def _caught_up(self, current: str) -> Index:
        """The index, with what was said since but in the thread `current`. Raises `DamagedError`."""
        return await catch_up(
            self.store,
            self.threads,
            self.actor,
            agents=self.agents,
            current=current,
            writer=self.writer,
            routes=self.routes,
            limit=MAX_CATCH_UP,
            seconds=EMBED_SECONDS,
        )

    async def matches(self, candidates: _Candidates, limit: int) -> list[Match]:
        """The best of these candidates, at most so many, as they are now. Those that are deleted
        leave the index.
        """
        documents = candidates.by_key()
        best = candidates.ranked()[:limit]
        thread_ids = [documents[key].thread_id for key in best]
        talks = await read_conversations(
            self.threads, self.actor, self.agents, thread_ids, self.routes
        )
        talk_of_thread = {talk.thread_id: talk for talk in talks}
        deleted_ids = list[str]()
        for thread_id in thread_ids:
            if thread_id not in talk_of_thread:
                deleted_ids.append(thread_id)
        await drop(self.store, self.actor, deleted_ids, self.writer)
        return _matches(best, talk_of_thread, candidates)


def _matches(
    keys: Sequence[int], talk_of_thread: Mapping[str, Conversation], candidates: _Candidates
) -> list[Match]:
    """The conversations of these keys as matches, in this order, without those that are deleted.

    `talk_of_thread` has those that still exist, by thread.
    """
    documents = candidates.by_key()
    matches = list[Match]()
    for key in keys:
        document = documents[key]
        talk = talk_of_thread.get(document.thread_id)
        if talk is None:
            continue
        turns, by_words = candidates.turns(key)
        match = Match(talk, turns, by_words, document.left_out)
        matches.append(match)
    return matches


async def _candidates(
    store: BaseStore, actor: identity.Actor, index: Index, search_query: _Query
) -> _Candidates:
    """The candidates for a query in the index.

    Raises `DamagedError` if an item cannot be read, or is deleted meanwhile.
    """
    parts = index.parts
    table = index.table
    question = search_query.question(index)
    leave_out = key_of(search_query.current)
    rows = await read_postings(store, actor, parts, question.hashes)
    keys, frequencies = await platform.in_thread(
        matching_documents, table, rows, question, leave_out
    )
    nearest_passages = dict[int, Nearest]()
    if index.meaning:
        text = search_query.text[:MAX_QUERY_CHARS]
        nearest_passages = await similar(store, actor, text)
        nearest_passages.pop(leave_out, None)
    all_keys = [*keys, *nearest_passages]
    distinct_keys = dict.fromkeys(all_keys)
    documents = await _read_documents(store, actor, distinct_keys)
    scores = await platform.in_thread(score_conversations, question, documents, frequencies)
    searched_count = frequencies.searched
    return _Candidates(documents, scores, nearest_passages, searched_count, question.asks_newest)


async def _read_documents(
    store: BaseStore, actor: identity.Actor, keys: Iterable[int]
) -> list[Document]:
    """The documents of these numbers. Raises `DamagedError` as `_candidates` does."""
    documents = list[Document]()
    for item in await document_items(store, actor, keys):
        document = read_document(item)
        documents.append(document)
    return documents


def in_order(
    scores: Mapping[int, float], end_times: Mapping[int, int], near_share: float
) -> list[int]:
    """The keys of conversations, best first, by their scores and the times of their ends.

    Those whose score is at most by `near_share` below the best one come first, the newest of them
    before the others: what was replaced later so comes behind what replaced it.
    """
    if not scores:
        return []
    best_score = max(scores.values())
    least_score = (1 - near_share) * best_score
    keys_near_best = list[int]()
    other_keys = list[int]()
    for key in sorted(scores, key=scores.__getitem__, reverse=True):
        if scores[key] >= least_score:
            keys_near_best.append(key)
        else:
            other_keys.append(key)
    keys_near_best.sort(key=end_times.__getitem__, reverse=True)
    return keys_near_best + other_keys


def fused(
    by_words: Mapping[int, float], by_meaning: Mapping[int, float], best: float = 0.0
) -> dict[int, float]:
    """The score of each key: its score by words as a share of the best one, and its similarity in
    meaning, stretched from 0 for the lowest to 1, with a smaller weight.

    `best` is the score by words that counts as a whole one; 0 for the highest.
    """
    highest = max(by_words.values(), default=0.0)
    full_score = best or highest or 1.0
    scores = dict[int, float]()
    for key, value in by_words.items():
        scores[key] = value / full_score
    for key, similarity in _stretched(by_meaning).items():
        by_words_alone = scores.get(key, 0.0)
        by_meaning_alone = DENSE_WEIGHT * similarity
        scores[key] = by_words_alone + by_meaning_alone
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
    stretched_similarities = dict[int, float]()
    for key, value in similarities.items():
        above_lowest = value - low
        stretched_similarities[key] = above_lowest / span
    return stretched_similarities
