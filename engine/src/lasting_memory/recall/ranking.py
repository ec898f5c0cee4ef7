"""Ranks the candidates for a question, passage by passage, by their words.

A conversation counts with its best passage, because a turn answers a question, and half as much as
a whole. For a quote, a passage counts together with its neighbours, because a short turn often
makes sense only beside the one before it.

What asks for the past, and what repeats it, counts a tenth, so that it does not come before what
told it. The average lengths are those of what tells something, too.

What each part gains is in docs/recall.md, by `python -m benchmarks.recall --ablate`.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from lasting_memory.days import WORLDS, local_days
from lasting_memory.recall import lexical
from lasting_memory.recall.conversations import (
    ACCENTS_SHIFT,
    DAY_SECONDS,
    IN_QUESTION,
    SPEAKERS,
    TELLS,
    TENTHS,
    Document,
    accents_of,
    conversation_of,
    hash_of,
)
from lasting_memory.recall.lexical import Array

# Most characters and distinct words of a query, and of its alternatives.
MAX_QUERY_CHARS, MAX_QUERY_WORDS = 2_000, 48
# Weights of a passage's neighbours when turns are chosen to be quoted, nearest first. In the order
# of conversations they gain a point where people chat, and cost four and a half where an assistant
# explains.
NEIGHBOURS = (0.6, 0.3)
# Weight of the whole conversation beside its best passage.
WHOLE_WEIGHT = 0.5
K1, B = 1.5, 0.75
# Weight of a tool's text, and of an assistant's turn of more than that length (`words.length_of`),
# beside the person's words.
EXPLAINED_WEIGHT, EXPLAINED_LENGTH = 0.3, 630
# Weight of what repeats, or only asks for, what the person stated in another conversation
# (`_Corpus.weigh_echoes`).
ECHO_WEIGHT = 0.2
# How much less a word counts that is spelled with other accents than in the question, where others
# have it as it is there.
ACCENT_LOSS = 0.5
# Weight of two neighbouring words of the question that are at most so many words apart in a
# passage.
PAIR_WEIGHT, PAIR_SPAN = 1.0, 2
# Weight of days that fit a time in the question.
TIME_WEIGHT = 2.0
# Bonus for the passages of a speaker whom the question names.
SPEAKER_BONUS = 0.7
# Weight of alternatives that the asking model gives.
ALTERNATIVE_WEIGHT = 0.3

# Turns of a conversation with their scores, best first.
Turns = tuple[tuple[int, float], ...]


class Question(NamedTuple):
    """A query for the index: the hashes of each word's stems (the first `own` words are the query's
    own), and its times.

    `accents`: the number of each own word's accents (`conversations.accents_of`). The days of times
    are those of `zone`.
    """

    words: list[list[int]]
    own: int
    times: list[lexical.Time]
    accents: list[int]
    zone: ZoneInfo = WORLDS

    @property
    def weights(self) -> Array:
        """The weight of each word."""
        return np.where(np.arange(len(self.words)) < self.own, 1.0, ALTERNATIVE_WEIGHT)

    def fit(self, table: Array) -> Array:
        """How well the days of conversations fit a time in the question, 0 to 1, by their rows in
        the table.
        """
        if not self.times:
            return np.zeros(len(table))
        first, last = (
            np.array(local_days(table[name].tolist(), self.zone), "M8[D]")
            for name in ("began", "ended")
        )
        fits = [time.fit(first, last) for time in self.times]
        best: Array = np.max([np.zeros(len(table)), *fits], axis=0)
        return best


def question(
    query: str,
    languages: Iterable[str],
    today: date,
    alternatives: Sequence[str] = (),
    period: lexical.Time | None = None,
    *,
    zone: ZoneInfo = WORLDS,
) -> Question:
    """A query, with other words for it and a time beside those that it names, for an index with
    texts in these languages.

    The days of its times are those of the time zone.
    """
    times, rest = lexical.times(query[:MAX_QUERY_CHARS], today)
    own = lexical.query_words(rest, languages, MAX_QUERY_WORDS)
    known = {stem for word in own for stem in word.stems}
    others = lexical.query_words(
        " ".join(alternatives)[:MAX_QUERY_CHARS], languages, MAX_QUERY_WORDS, known
    )
    hashes = [list(map(hash_of, word.stems)) for word in (*own, *others)]
    named = [*([period] if period else []), *times]
    return Question(hashes, len(own), named[:4], [accents_of(word.accents) for word in own], zone)


class Scored(NamedTuple):
    """A conversation's score and its turns. `tells`: not only what asks or repeats has words of the
    question.
    """

    score: float
    turns: Turns
    tells: bool


class Frequencies(NamedTuple):
    """The number of conversations and of passages with each word of a question, among `total`
    conversations that tell anything.

    `searched` also counts those that only ask.
    """

    conversations: Array
    passages: Array
    total: int
    searched: int


def told_first(told: Array, counts: Array) -> Array:
    """How often each word is told; or how often it is there, if nobody tells it. Questions make no
    word common that is told.
    """
    frequencies: Array = told.sum(axis=1)
    all_of_them: Array = counts.sum(axis=1)
    return np.where(frequencies > 0, frequencies, all_of_them)


def inverse_frequency(texts: Array, total: float) -> Array:
    """Weights of words by the number of texts with them (BM25's, in Lucene's variant)."""
    return np.log1p((np.maximum(total - texts, 0) + 0.5) / (texts + 0.5))


def saturated(counts: Array, lengths: Array, average: float) -> Array:
    """BM25's weight of a word's count in a text of some length (Robertson and Zaragoza, 2009)."""
    return counts / (counts + K1 * (1 - B + B * lengths / max(average, 1e-9)))


def counted(
    words: Sequence[Sequence[int]],
    terms: Array,
    places: Array,
    count: int,
    times: Array | None = None,
) -> Array:
    """How often each word, given by the hashes of its stems, is in each of `count` texts: of terms,
    and the text of each.
    """
    hashes = np.unique(np.array([hashed for word in words for hashed in word], terms.dtype))
    counts = np.zeros((len(hashes), count))
    hit = np.flatnonzero(np.isin(terms, hashes))
    np.add.at(
        counts,
        (np.searchsorted(hashes, terms[hit]), places[hit]),
        1 if times is None else times[hit],
    )
    # Two words of the question can have one stem in common.
    return (
        np.array([np.isin(hashes, word) for word in words], float).reshape(len(words), len(hashes))
        @ counts
    )


def score(
    asked: Question, talks: Sequence[Document], frequencies: Frequencies
) -> dict[int, Scored]:
    """The candidates that share a word or a time with the question, by number of the conversation,
    with their scores.

    A long conversation counts with its best document. Blocks for milliseconds.
    """
    talks = [talk for talk in talks if len(talk.passages)]
    if not talks:
        return {}
    corpus = _Corpus(talks)
    counts = counted(asked.words, corpus.words, corpus.passage_of, len(corpus.lengths))
    counts[: asked.own] -= ACCENT_LOSS * corpus.spelled_otherwise(asked)
    echoes = corpus.weigh_echoes(
        asked.words[: asked.own], np.concatenate([talk.row for talk in talks])
    )
    frequencies = corpus.without(echoes, counts, frequencies)
    # The mean of a word's rarity among conversations and among passages: a word of one conversation
    # can be common there.
    told_passages = int(corpus.tells.sum()) or len(corpus.lengths)
    telling_talks = int(np.logical_or.reduceat(corpus.tells, corpus.starts[:-1]).sum()) or len(
        talks
    )
    every = frequencies.total * told_passages / telling_talks
    rarity = inverse_frequency(frequencies.conversations, frequencies.total)
    weights = asked.weights * np.sqrt(rarity * inverse_frequency(frequencies.passages, every))
    matching = np.logical_or.reduceat(counts.any(axis=0), corpus.starts[:-1])
    # A conversation counts as a whole as much as the best of its passages that have a word of the
    # question.
    passage_weights = np.where(echoes, ECHO_WEIGHT, TENTHS[corpus.kinds] / 10)
    kind_weights = np.maximum.reduceat(counts.any(axis=0) * passage_weights, corpus.starts[:-1])
    telling = kind_weights == 1
    pairs, own = corpus.pairs(asked.words[: asked.own]), weights[: asked.own]
    pair_counts = told_first((pairs > 0) & corpus.tells, pairs > 0)
    together = np.minimum((own[:-1] + own[1:]) / 2, inverse_frequency(pair_counts, told_passages))
    each = np.concatenate([weights, PAIR_WEIGHT * together])
    counts[: asked.own][corpus.silent] = 0
    passages, windows, wholes = corpus.scores(np.concatenate([counts, pairs]), each)
    said_by = {hashed for word in asked.words[: asked.own] for hashed in word} & set(
        corpus.speakers.tolist()
    )
    if len(said_by) == 1:
        bonus = 1 + SPEAKER_BONUS * (corpus.speakers == said_by.pop())
        passages, windows = passages * bonus, windows * bonus
    fits, unit = (
        asked.fit(np.concatenate([talk.row for talk in talks])),
        float(own.mean()) if asked.own else 1.0,
    )
    scored = dict[int, Scored]()
    for number, talk in enumerate(talks):
        part = slice(corpus.starts[number], corpus.starts[number + 1])
        if matching[number] or fits[number]:
            order = np.argsort(-windows[part], kind="stable")
            # Each turn's best passage.
            order = order[np.sort(np.unique(talk.passages["turn"][order], return_index=True)[1])]
            turns = tuple(
                zip(
                    talk.passages["turn"][order].tolist(),
                    windows[part][order].tolist(),
                    strict=True,
                )
            )
            total = (
                passages[part].max()
                + WHOLE_WEIGHT * kind_weights[number] * wholes[number]
                + TIME_WEIGHT * fits[number] * unit
            )
            key = int(corpus.conversations[number])
            found = Scored(float(total), turns, tells=bool(telling[number] or not matching[number]))
            scored[key] = _together(scored[key], found) if key in scored else found
    return scored


def _together(one: Scored, other: Scored) -> Scored:
    """Two documents of one conversation."""
    best = dict[int, float]()
    for turn, value in sorted((*one.turns, *other.turns), key=itemgetter(1), reverse=True):
        best.setdefault(turn, value)  # a turn can be in both
    return Scored(max(one.score, other.score), tuple(best.items()), tells=one.tells or other.tells)


class _Corpus:
    """The passages of some conversations, one after the other."""

    def __init__(self, talks: Sequence[Document]) -> None:
        passages, self.said = (
            np.concatenate([talk.passages for talk in talks]),
            np.concatenate([talk.words for talk in talks]),
        )
        self.speakers, self.lengths = passages["name"], passages["words"].astype(float)
        self.kinds, self.tells = passages["kind"], passages["kind"] == TELLS
        # A speaker's name is a word of each of their passages.
        named = np.flatnonzero(self.speakers)
        self.words = np.concatenate([self.said, self.speakers[named]])
        self.passage_of = np.concatenate(
            [np.repeat(np.arange(len(passages)), passages["words"]), named]
        )
        self.talk_of = np.repeat(np.arange(len(talks)), [len(talk.passages) for talk in talks])
        self.conversations = conversation_of(np.concatenate([talk.row["key"] for talk in talks]))
        self.starts = np.cumsum([0, *(len(talk.passages) for talk in talks)])
        turns = [(talk.passages["turn"], talk.passages["length"]) for talk in talks]
        length_of_turn = np.concatenate(
            [np.bincount(turn - turn.min(), length)[turn - turn.min()] for turn, length in turns]
        )
        long_answer = (passages["speaker"] == SPEAKERS.index("assistant")) & (
            length_of_turn > EXPLAINED_LENGTH
        )
        explained = long_answer | (passages["speaker"] == SPEAKERS.index("tool"))
        self.weights = np.where(explained, EXPLAINED_WEIGHT, TENTHS[self.kinds] / 10)
        self.score_weights = self.weights
        self.speech = passages["speaker"]
        # Where all have names, people talk with each other: nobody there is an assistant who
        # repeats.
        unnamed = [
            not (talk.passages["name"] > 0)[
                talk.passages["speaker"] != SPEAKERS.index("tool")
            ].all()
            for talk in talks
        ]
        self.with_assistant = np.array(unnamed)[self.talk_of]
        self.by_user = self.speech == SPEAKERS.index("user")
        marks = np.concatenate([talk.marks for talk in talks])
        self.in_question = (marks & IN_QUESTION).astype(bool)
        self.accents = marks >> ACCENTS_SHIFT

    def spelled_otherwise(self, asked: Question) -> Array:
        """How often each own word of a question is in each passage with other accents; 0 where
        nobody spells it that way.
        """
        times = np.zeros((asked.own, len(self.lengths)))
        if not self.accents.any() and not any(asked.accents):
            return times
        passage_of = self.passage_of[: len(self.said)]
        for row, word, accents in zip(times, asked.words, asked.accents, strict=False):
            has = np.isin(self.said, word)
            other = has & (self.accents != accents)
            if (has & ~other).any():
                np.add.at(row, passage_of[other], 1)
        return times

    def weigh_echoes(self, words: Sequence[Sequence[int]], rows: Array) -> Array:
        """Weigh the passages less that only ask for or repeat what the person stated elsewhere;
        which ones these are.

        `words` are the question's own, `rows` the conversations' in the table. An echo is

        - a passage of the person's that has words of the question in its questions only, or that
          has no word which the person
          had not said in an earlier conversation (beside a question: of whose words fewer than half
          are new). At least half of its words of the question are
        - or a passage of an assistant's, no long explanation, all of whose words of the question
          were asked for in its
          conversation or are, by that day,

        in one passage that the person stated in another conversation. `silent` are an echo's words
        that no such passage has: they count nothing.
        """
        count, passage_of = len(self.lengths), self.passage_of[: len(self.said)]
        stating = ~self.in_question & (self.by_user & self.tells)[passage_of]
        has = counted(words, self.said, passage_of, count) > 0
        stated = counted(words, self.said[stating], passage_of[stating], count) > 0
        self.silent = np.zeros((len(words), count), bool)
        asked_words = self.in_question & self.by_user[passage_of]
        asked = counted(words, self.said[asked_words], passage_of[asked_words], count) > 0
        asked_in_talk = np.logical_or.reduceat(asked, self.starts[:-1], axis=1)
        asks = self.by_user & ~stated.any(axis=0)
        new_words = self._new_words(passage_of, rows)
        mixed = np.bincount(passage_of, self.in_question, count) > 0
        known = self.by_user & ((new_words == 0) | (mixed & (2 * new_words < self.lengths)))
        repeats = (self.speech == SPEAKERS.index("assistant")) & (self.weights == 1)
        began, sources = (
            rows["began"][self.talk_of] // DAY_SECONDS,
            np.flatnonzero(stated.any(axis=0)),
        )
        spoken_in = self.conversations[self.talk_of]
        said = (
            counted(words, self.said[~self.in_question], passage_of[~self.in_question], count) > 0
        )
        echoes = np.zeros(count, bool)
        for passage in np.flatnonzero(
            has.any(axis=0) & self.tells & self.with_assistant & (asks | known | repeats)
        ):
            # Whether an assistant offers something more says nothing.
            matched = np.flatnonzero(
                said[:, passage] if repeats[passage] and said[:, passage].any() else has[:, passage]
            )
            shared = stated[np.ix_(matched, sources)].sum(axis=0)
            enough = 2 * shared >= len(matched)
            if repeats[passage]:
                answered = asked_in_talk[matched, self.talk_of[passage]]
                enough &= (stated[np.ix_(matched, sources)] | answered[:, None]).all(axis=0)
            elsewhere = spoken_in[sources] != spoken_in[passage]
            before = asks[passage] | (began[sources] <= began[passage])
            same = repeats[passage] | (self.speakers[sources] == self.speakers[passage])
            found = sources[enough & elsewhere & before & same]
            echoes[passage] = len(found) > 0
            if len(found):
                self.silent[: len(words), passage] = ~stated[:, found].any(axis=1)
        self.score_weights = np.where(echoes, ECHO_WEIGHT, self.weights)
        self.tells = self.tells & ~echoes
        return echoes

    def without(self, echoes: Array, counts: Array, frequencies: Frequencies) -> Frequencies:
        """The frequencies without these echoes: what repeats a word does not make it common."""
        has = counts > 0
        starts = self.starts[:-1]
        told = np.logical_or.reduceat(has & self.tells, starts, axis=1)
        echoed = np.logical_or.reduceat(has & echoes, starts, axis=1) & ~told
        # Of the conversations that are no candidates, as many only repeat it as of these.
        share = told.sum(axis=1) / np.maximum(1, told.sum(axis=1) + echoed.sum(axis=1))
        share = np.where(share > 0, share, 1.0)
        gone = float((frequencies.conversations * (1 - share)).max(initial=0.0))
        echoing = (has & echoes).sum(axis=1)
        telling = (has & self.tells).sum(axis=1)
        passage_share = np.where(telling > 0, telling / np.maximum(1, telling + echoing), 1.0)
        return frequencies._replace(
            conversations=frequencies.conversations * share,
            passages=frequencies.passages * passage_share,
            total=max(1, round(frequencies.total - gone)),
        )

    def _new_words(self, passage_of: Array, rows: Array) -> Array:
        """How many words of each passage the person had not said in an earlier conversation."""
        ordered = np.lexsort((self.conversations, rows["version"], rows["began"] // DAY_SECONDS))
        changes = self.conversations[ordered][1:] != self.conversations[ordered][:-1]
        order = np.empty(len(rows), int)
        order[ordered] = np.cumsum([0, *changes])
        moment = order[self.talk_of][passage_of]
        terms, term = np.unique(self.said, return_inverse=True)
        first = np.full(len(terms), len(rows))
        by_user = self.by_user[passage_of]
        np.minimum.at(first, term[by_user], moment[by_user])
        return np.bincount(passage_of, first[term] >= moment, len(self.lengths))

    def pairs(self, words: Sequence[Sequence[int]]) -> Array:
        """How often each two neighbouring words of the question are near each other in each
        passage, in either order.
        """
        passage, hits = (
            self.passage_of[: len(self.said)],
            [np.isin(self.said, word) for word in words],
        )
        counts = np.zeros((max(0, len(hits) - 1), len(self.lengths)))
        for row, (one, other) in zip(counts, pairwise(hits), strict=True):
            for apart in range(1, PAIR_SPAN + 1):
                near = (one[:-apart] & other[apart:]) | (other[:-apart] & one[apart:])
                np.add.at(row, passage[apart:][near & (passage[apart:] == passage[:-apart])], 1)
        return counts

    def _windowed(self, values: Array) -> Array:
        """Each passage's value and, with less weight, those of its neighbours in the same
        conversation.
        """
        total = values.astype(float)
        for distance, weight in enumerate(NEIGHBOURS, 1):
            weights = weight * (self.talk_of[distance:] == self.talk_of[:-distance])
            total[:, distance:] += weights * values[:, :-distance]
            total[:, :-distance] += weights * values[:, distance:]
        return total

    def scores(self, counts: Array, weights: Array) -> tuple[Array, Array, Array]:
        """BM25 of each passage, of each passage with its neighbours, and of each conversation."""
        by_passage, lengths = counts * self.score_weights, self.lengths * self.score_weights
        passages = saturated(by_passage, lengths, _average(lengths, self.tells))
        # In quotes an echo counts as ever: within its conversation it is often what makes sense of
        # its neighbour.
        lengths = self._windowed((self.lengths * self.weights)[None, :])[0]
        windows = saturated(
            self._windowed(counts * self.weights), lengths, _average(lengths, self.tells)
        )
        lengths = np.add.reduceat(self.lengths, self.starts[:-1])
        tells = np.logical_or.reduceat(self.tells, self.starts[:-1])
        wholes = saturated(
            np.add.reduceat(by_passage, self.starts[:-1], axis=1), lengths, _average(lengths, tells)
        )
        return (
            weights @ passages * self.score_weights,
            weights @ windows * self.weights,
            weights @ wholes,
        )


def _average(lengths: Array, tells: Array) -> float:
    """The average length of the texts that tell something: questions are short, and would make them
    look long.
    """
    return float(lengths[tells].mean() if tells.any() else lengths.mean())
