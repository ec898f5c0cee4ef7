"""Ranks the candidates for a question, passage by passage, by their words.

A conversation counts with its best passage, because a turn answers a question, and half as much as
a whole. Where the question comes back to what an assistant said, it counts as much as a whole, and
long explanations count in full. For a quote, a passage counts together with its neighbours, because
a short turn often makes sense only beside the one before it.

What asks for the past, and what repeats it, counts less (`echoes.py`), so that it does not come
before what told it. The average lengths are those of what tells something, too.

What each part gains is in docs/recall.md, by `python -m benchmarks.recall --ablate`.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from lasting_memory.recall.bm25 import (
    Frequencies,
    average_length,
    inverse_frequency,
    saturated,
    telling_first,
)
from lasting_memory.recall.corpus import Corpus
from lasting_memory.recall.documents import Document
from lasting_memory.recall.echoes import find_echoes, without_echoes
from lasting_memory.recall.lexical import Array
from lasting_memory.recall.question import Question

# Weight of the whole conversation beside its best passage; and where a question comes back to what
# an assistant said.
WHOLE_WEIGHT = 0.5
ASKED_WHOLE_WEIGHT = 1.0
# Weight of what repeats, or only asks for, what the person stated in another conversation.
ECHO_WEIGHT = 0.2
# How much less a word counts that is spelled with other accents than in the question, where others
# have it as it is there.
ACCENT_LOSS = 0.5
# Weight of two neighbouring words of the question that are near each other in a passage.
PAIR_WEIGHT = 1.0
# Weight of days that fit a time in the question.
TIME_WEIGHT = 2.0
# Bonus for the passages of a speaker whom the question names.
SPEAKER_BONUS = 0.7

# Turns of a conversation with their scores, best first.
Turns = tuple[tuple[int, float], ...]


class Scored(NamedTuple):
    """A conversation's score, and its turns. `tells`: not only what asks or repeats has words of
    the question.
    """

    score: float
    turns: Turns
    tells: bool


def score(
    question: Question, documents: Sequence[Document], frequencies: Frequencies
) -> dict[int, Scored]:
    """The conversations that share a word or a time with the question, by number, scored.

    A long conversation counts with its best document. Blocks for milliseconds.
    """
    documents = [document for document in documents if len(document.passages)]
    if not documents:
        return {}
    ranking = _Ranking(question, documents, frequencies)
    scored = dict[int, Scored]()
    for number, document in enumerate(documents):
        if not ranking.matches(number):
            continue
        result = ranking.scored(number, document)
        conversation = ranking.conversation(number)
        if conversation in scored:
            result = _together(scored[conversation], result)
        scored[conversation] = result
    return scored


class _Ranking:
    """The scores of all passages and documents for one question."""

    def __init__(
        self, question: Question, documents: Sequence[Document], frequencies: Frequencies
    ) -> None:
        corpus = Corpus(documents, asks_answers=question.asks_answers)
        counts = corpus.counts(question.words)
        own_counts = counts[: question.own]
        own_counts -= ACCENT_LOSS * corpus.spelled_otherwise(question)
        echoes = find_echoes(corpus, question.own_words)
        has_word: Array = np.logical_or.reduce(counts, axis=0)

        self._corpus = corpus
        self._question = question
        self._is_echo = echoes.is_echo
        # What repeats something counts less.
        self._passage_weights = np.where(echoes.is_echo, ECHO_WEIGHT, corpus.weights)
        self._tells = corpus.tells & ~echoes.is_echo
        self._has_word = corpus.any_in_document(has_word)
        self._kind_weights = self._kinds(has_word)
        self._time_fits = question.fit(corpus.rows)

        word_weights = self._word_weights(frequencies, counts)
        own_weights = word_weights[: question.own]
        pairs = corpus.pair_counts(question.own_words)
        pair_weights = self._pair_weights(pairs, own_weights)
        own_counts[echoes.silent] = 0
        all_counts = np.concatenate([counts, pairs])
        all_weights = np.concatenate([word_weights, pair_weights])

        bonus = self._speaker_bonus()
        weighed_counts = all_counts * self._passage_weights
        passages = bonus * self._by_passage(weighed_counts, all_weights)
        wholes = self._by_document(weighed_counts, all_weights)
        self._windows = bonus * self._by_window(all_counts, all_weights)
        self._scores = self._document_scores(passages, wholes, own_weights)

    def _kinds(self, has_word: Array) -> Array:
        """How much each document counts as a whole: as the best of its passages that have a word
        of the question.
        """
        weights = np.where(self._is_echo, ECHO_WEIGHT, self._corpus.kind_weights)
        weights_of_hits = has_word * weights
        return self._corpus.most_in_document(weights_of_hits)

    def _word_weights(self, frequencies: Frequencies, counts: Array) -> Array:
        """The weight of each word: the mean of its rarity among conversations and among passages.

        A word of one conversation can be common there. `counts` say how often each word is in each
        passage.
        """
        told = without_echoes(frequencies, self._corpus, counts, self._is_echo)
        passages = told.total * self._telling_passages / self._telling_documents
        rarity = inverse_frequency(told.conversations, told.total)
        passage_rarity = inverse_frequency(told.passages, passages)
        mean_rarity: Array = np.sqrt(rarity * passage_rarity)
        return self._question.weights * mean_rarity

    @property
    def _telling_passages(self) -> int:
        """How many passages tell something; or how many there are, if none does."""
        telling = int(self._tells.sum())
        return telling or len(self._tells)

    @property
    def _telling_documents(self) -> int:
        """How many documents tell something; or how many there are, if none does."""
        tells = self._corpus.any_in_document(self._tells)
        telling = int(tells.sum())
        return telling or len(tells)

    def _pair_weights(self, pairs: Array, own_weights: Array) -> Array:
        """The weight of each two neighbouring words, as of their mean, and at most of their rarity
        together.
        """
        has_pair = pairs > 0
        tells_pair = has_pair & self._tells
        frequencies = telling_first(tells_pair, has_pair)
        rarity = inverse_frequency(frequencies, self._telling_passages)
        first_weights = own_weights[:-1]
        second_weights = own_weights[1:]
        means = (first_weights + second_weights) / 2
        weights: Array = PAIR_WEIGHT * np.minimum(means, rarity)
        return weights

    def _by_passage(self, counts: Array, weights: Array) -> Array:
        """The score of each passage. A row of `counts` is a word's, or a pair's, and weighed."""
        lengths = self._corpus.lengths * self._passage_weights
        average = average_length(lengths, self._tells)
        scores: Array = weights @ saturated(counts, lengths, average)
        return scores * self._passage_weights

    def _by_window(self, counts: Array, weights: Array) -> Array:
        """The score of each passage with its neighbours, for quotes.

        Here an echo counts as ever: within its conversation it is often what makes sense of its
        neighbour.
        """
        corpus = self._corpus
        window_counts = corpus.with_neighbours(counts * corpus.weights)
        own_lengths = corpus.lengths * corpus.weights
        (lengths,) = corpus.with_neighbours(own_lengths[None, :])
        average = average_length(lengths, self._tells)
        scores: Array = weights @ saturated(window_counts, lengths, average)
        return scores * corpus.weights

    def _by_document(self, counts: Array, weights: Array) -> Array:
        """The score of each document as a whole, by the weighed counts of its passages."""
        corpus = self._corpus
        lengths = corpus.sum_in_document(corpus.lengths)
        document_counts = corpus.sum_in_document(counts)
        tells = corpus.any_in_document(self._tells)
        average = average_length(lengths, tells)
        scores: Array = weights @ saturated(document_counts, lengths, average)
        return scores

    def _document_scores(self, passages: Array, wholes: Array, own_weights: Array) -> Array:
        """The score of each document, of BM25 of all passages and of all documents."""
        best = self._corpus.most_in_document(passages)
        whole_weight = ASKED_WHOLE_WEIGHT if self._question.asks_answers else WHOLE_WEIGHT
        whole = whole_weight * self._kind_weights * wholes
        time_unit = float(own_weights.mean()) if len(own_weights) else 1.0
        time = TIME_WEIGHT * time_unit * self._time_fits
        scores: Array = best + whole + time
        return scores

    def _speaker_bonus(self) -> Array:
        """A factor for each passage: more than 1 for those of the one speaker whom the question
        names.
        """
        names = self._corpus.names
        named = self._question.own_hashes.intersection(names.tolist())
        if len(named) != 1:
            return np.ones(len(names))
        is_named = names == named.pop()
        bonus: Array = 1 + SPEAKER_BONUS * is_named
        return bonus

    def matches(self, number: int) -> bool:
        """Whether a document shares a word or a time with the question."""
        shares_word = bool(self._has_word[number])
        shares_time = bool(self._time_fits[number])
        return shares_word or shares_time

    def conversation(self, number: int) -> int:
        """The number of a document's conversation."""
        return int(self._corpus.conversations[number])

    def scored(self, number: int, document: Document) -> Scored:
        """The score of a document, and its turns."""
        start = self._corpus.starts[number]
        end = self._corpus.starts[number + 1]
        windows = self._windows[start:end]
        turns = _turns(document, windows)
        total = float(self._scores[number])
        tells = self._tells_something(number)
        return Scored(total, turns, tells)

    def _tells_something(self, number: int) -> bool:
        """Whether a document has words of the question in what tells something; or none at all."""
        if not self._has_word[number]:
            return True
        weight = self._kind_weights[number]
        return bool(weight == 1)


def _turns(document: Document, scores: Array) -> Turns:
    """The turns of a document, each with the score of its best passage, best first."""
    best_first = np.argsort(-scores, kind="stable")
    sorted_scores = scores[best_first]
    sorted_turns = document.passages["turn"][best_first]
    _, first_places = np.unique(sorted_turns, return_index=True)
    places = np.sort(first_places)
    turns = sorted_turns[places].tolist()
    turn_scores = sorted_scores[places].tolist()
    return tuple(zip(turns, turn_scores, strict=True))


def _together(one: Scored, other: Scored) -> Scored:
    """Two documents of one conversation. A turn can be in both."""
    turns = [*one.turns, *other.turns]
    turns.sort(key=itemgetter(1), reverse=True)
    best = dict[int, float]()
    for turn, value in turns:
        best.setdefault(turn, value)
    most = max(one.score, other.score)
    return Scored(most, tuple(best.items()), tells=one.tells or other.tells)
