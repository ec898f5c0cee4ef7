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
        conversation = int(ranking.corpus.conversations[number])
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
        counts[: question.own] -= ACCENT_LOSS * corpus.spelled_otherwise(question)
        echoes = find_echoes(corpus, question.own_words)
        has_word: Array = np.logical_or.reduce(counts, axis=0)

        self.corpus = corpus
        self._question = question
        self._is_echo = echoes.is_echo
        self._tells = corpus.tells & ~echoes.is_echo
        self._has_word = corpus.any_in_document(has_word)
        self._kind_weights = self._kinds(has_word)
        self._time_fits = question.fit(corpus.rows)
        self._whole_weight = ASKED_WHOLE_WEIGHT if question.asks_answers else WHOLE_WEIGHT

        frequencies = without_echoes(frequencies, corpus, counts, echoes.is_echo)
        word_weights = self._word_weights(frequencies)
        own_weights = word_weights[: question.own]
        pairs = corpus.pair_counts(question.own_words)
        self._time_unit = float(own_weights.mean()) if question.own else 1.0
        counts[: question.own][echoes.silent] = 0
        self._weigh(
            np.concatenate([counts, pairs]),
            np.concatenate([word_weights, self._pair_weights(pairs, own_weights)]),
        )

    def _kinds(self, has_word: Array) -> Array:
        """How much each document counts as a whole: as the best of its passages that have a word
        of the question.
        """
        weights = np.where(self._is_echo, ECHO_WEIGHT, self.corpus.kind_weights)
        return self.corpus.most_in_document(has_word * weights)

    def _word_weights(self, frequencies: Frequencies) -> Array:
        """The weight of each word: the mean of its rarity among conversations and among passages.

        A word of one conversation can be common there.
        """
        corpus = self.corpus
        telling_passages = self._telling_passages
        telling_documents = int(corpus.any_in_document(self._tells).sum()) or len(corpus.rows)
        passages = frequencies.total * telling_passages / telling_documents
        rarity = inverse_frequency(frequencies.conversations, frequencies.total)
        passage_rarity = inverse_frequency(frequencies.passages, passages)
        mean_rarity: Array = np.sqrt(rarity * passage_rarity)
        return self._question.weights * mean_rarity

    @property
    def _telling_passages(self) -> int:
        return int(self._tells.sum()) or len(self.corpus.lengths)

    def _pair_weights(self, pairs: Array, own_weights: Array) -> Array:
        """The weight of each two neighbouring words, as of their mean, and at most of their rarity
        together.
        """
        has_pair = pairs > 0
        frequencies = telling_first(has_pair & self._tells, has_pair)
        means = (own_weights[:-1] + own_weights[1:]) / 2
        rarity = inverse_frequency(frequencies, self._telling_passages)
        weights: Array = PAIR_WEIGHT * np.minimum(means, rarity)
        return weights

    def _weigh(self, counts: Array, weights: Array) -> None:
        """Set the scores of documents, and of each passage with its neighbours, for quotes.

        A row of `counts` is a word's, or a pair's.
        """
        corpus = self.corpus
        passage_weights = np.where(self._is_echo, ECHO_WEIGHT, corpus.weights)
        by_passage = counts * passage_weights
        lengths = corpus.lengths * passage_weights
        average = average_length(lengths, self._tells)
        passages = weights @ saturated(by_passage, lengths, average) * passage_weights

        # In quotes an echo counts as ever: within its conversation it is often what makes sense of
        # its neighbour.
        weighed_lengths = corpus.lengths * corpus.weights
        (lengths,) = corpus.with_neighbours(weighed_lengths[None, :])
        by_window = corpus.with_neighbours(counts * corpus.weights)
        average = average_length(lengths, self._tells)
        windows = weights @ saturated(by_window, lengths, average) * corpus.weights

        lengths = corpus.sum_in_document(corpus.lengths)
        by_document = corpus.sum_in_document(by_passage)
        average = average_length(lengths, corpus.any_in_document(self._tells))
        wholes = weights @ saturated(by_document, lengths, average)

        bonus = self._speaker_bonus()
        self._windows = windows * bonus
        self._scores = self._document_scores(passages * bonus, wholes)

    def _document_scores(self, passages: Array, wholes: Array) -> Array:
        """The score of each document, of BM25 of all passages and of all documents."""
        best = self.corpus.most_in_document(passages)
        whole = self._whole_weight * self._kind_weights * wholes
        time = TIME_WEIGHT * self._time_unit * self._time_fits
        scores: Array = best + whole + time
        return scores

    def _speaker_bonus(self) -> Array:
        """A factor for each passage: more than 1 for those of the one speaker whom the question
        names.
        """
        names = self.corpus.names
        named = self._question.own_hashes.intersection(names.tolist())
        if len(named) != 1:
            return np.ones(len(names))
        bonus: Array = 1 + SPEAKER_BONUS * (names == named.pop())
        return bonus

    def matches(self, number: int) -> bool:
        """Whether a document shares a word or a time with the question."""
        return bool(self._has_word[number] or self._time_fits[number])

    def scored(self, number: int, document: Document) -> Scored:
        """The score of a document, and its turns."""
        start = self.corpus.starts[number]
        end = self.corpus.starts[number + 1]
        total = float(self._scores[number])
        turns = _turns(document, self._windows[start:end])
        return Scored(total, turns, self._tells_something(number))

    def _tells_something(self, number: int) -> bool:
        """Whether a document has words of the question in what tells something; or none at all."""
        if not self._has_word[number]:
            return True
        return bool(self._kind_weights[number] == 1)


def _turns(document: Document, scores: Array) -> Turns:
    """The turns of a document, each with the score of its best passage, best first."""
    best_first = np.argsort(-scores, kind="stable")
    turns = document.passages["turn"][best_first]
    _, first_places = np.unique(turns, return_index=True)
    places = np.sort(first_places)
    turn_scores = scores[best_first][places]
    return tuple(zip(turns[places].tolist(), turn_scores.tolist(), strict=True))


def _together(one: Scored, other: Scored) -> Scored:
    """Two documents of one conversation. A turn can be in both."""
    best = dict[int, float]()
    for turn, value in sorted((*one.turns, *other.turns), key=itemgetter(1), reverse=True):
        best.setdefault(turn, value)
    return Scored(max(one.score, other.score), tuple(best.items()), tells=one.tells or other.tells)
