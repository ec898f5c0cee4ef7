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
    inverse_frequency,
    relevances,
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
        other_accents = corpus.spelled_otherwise(question)
        own_counts -= ACCENT_LOSS * other_accents
        echoes = find_echoes(corpus, question.own_words)
        is_echo = echoes.is_echo
        has_word: Array = np.logical_or.reduce(counts, axis=0)

        self._corpus = corpus
        self._question = question
        self._is_echo = is_echo
        self._tells = corpus.tells & ~is_echo
        self._passage_weights = self._less_for_echoes(corpus.weights)
        self._has_word = corpus.any_in_document(has_word)
        self._kind_weights = self._kinds(has_word)
        self._time_fits = question.fit(corpus.rows)
        told = without_echoes(frequencies, corpus, counts, is_echo)
        self._set_scores(counts, told, echoes.silent)

    def _less_for_echoes(self, weights: Array) -> Array:
        """Weights of passages, of which what repeats something counts less."""
        return np.where(self._is_echo, ECHO_WEIGHT, weights)

    def _kinds(self, has_word: Array) -> Array:
        """How much each document counts as a whole: as the best of its passages that have a word
        of the question.
        """
        weights = self._less_for_echoes(self._corpus.kind_weights)
        weights_of_hits = has_word * weights
        return self._corpus.most_in_document(weights_of_hits)

    def _set_scores(self, counts: Array, frequencies: Frequencies, silent: Array) -> None:
        """Set the scores of documents, and of each passage with its neighbours, for quotes.

        `counts` say how often each word is in each passage, `silent` which of the question's own
        words count nothing there.
        """
        own = self._question.own
        word_weights = self._word_weights(frequencies)
        own_weights = word_weights[:own]
        pairs = self._corpus.pair_counts(self._question.own_words)
        pair_weights = self._pair_weights(pairs, own_weights)
        own_counts = counts[:own]
        own_counts[silent] = 0
        all_counts = np.concatenate([counts, pairs])
        all_weights = np.concatenate([word_weights, pair_weights])

        weighed_counts = all_counts * self._passage_weights
        passages = self._by_passage(weighed_counts, all_weights)
        wholes = self._by_document(weighed_counts, all_weights)
        windows = self._by_window(all_counts, all_weights)
        bonus = self._speaker_bonus()
        passages *= bonus
        windows *= bonus
        time_weight = self._time_weight(own_weights)
        self._windows = windows
        self._scores = self._document_scores(passages, wholes, time_weight)

    def _word_weights(self, frequencies: Frequencies) -> Array:
        """The weight of each word: the mean of its rarity among conversations and among passages.

        A word of one conversation can be common there.
        """
        total = frequencies.total
        told_passages = total * self._telling_passages
        passages = told_passages / self._telling_documents
        rarity = inverse_frequency(frequencies.conversations, total)
        passage_rarity = inverse_frequency(frequencies.passages, passages)
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
        lesser: Array = np.minimum(means, rarity)
        return PAIR_WEIGHT * lesser

    def _by_passage(self, counts: Array, weights: Array) -> Array:
        """The score of each passage. A row of `counts` is a word's, or a pair's, and weighed."""
        lengths = self._corpus.lengths * self._passage_weights
        relevance = relevances(counts, weights, lengths, self._tells)
        return relevance * self._passage_weights

    def _by_window(self, counts: Array, weights: Array) -> Array:
        """The score of each passage with its neighbours, for quotes.

        Here an echo counts as ever: within its conversation it is often what makes sense of its
        neighbour.
        """
        corpus = self._corpus
        own_counts = counts * corpus.weights
        own_lengths = corpus.lengths * corpus.weights
        window_counts = corpus.with_neighbours(own_counts)
        one_row = own_lengths[None, :]
        (lengths,) = corpus.with_neighbours(one_row)
        relevance = relevances(window_counts, weights, lengths, self._tells)
        scores: Array = relevance * corpus.weights
        return scores

    def _by_document(self, counts: Array, weights: Array) -> Array:
        """The score of each document as a whole, by the weighed counts of its passages."""
        corpus = self._corpus
        lengths = corpus.sum_in_document(corpus.lengths)
        document_counts = corpus.sum_in_document(counts)
        tells = corpus.any_in_document(self._tells)
        return relevances(document_counts, weights, lengths, tells)

    def _time_weight(self, own_weights: Array) -> float:
        """The weight of days that fit, as of a word of the question."""
        if not len(own_weights):
            return TIME_WEIGHT
        mean = float(own_weights.mean())
        return TIME_WEIGHT * mean

    def _document_scores(self, passages: Array, wholes: Array, time_weight: float) -> Array:
        """The score of each document, of BM25 of all passages and of all documents."""
        best = self._corpus.most_in_document(passages)
        whole_weight = WHOLE_WEIGHT
        if self._question.asks_answers:
            whole_weight = ASKED_WHOLE_WEIGHT
        whole = whole_weight * self._kind_weights * wholes
        time = time_weight * self._time_fits
        scores: Array = best + whole + time
        return scores

    def _speaker_bonus(self) -> Array:
        """A factor for each passage: more than 1 for those of the one speaker whom the question
        names.
        """
        names = self._corpus.names
        asked = self._question.own_hashes
        named = asked.intersection(names.tolist())
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
        starts = self._corpus.starts
        start = starts[number]
        end = starts[number + 1]
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
    turns = document.passages["turn"]
    best_first = np.argsort(-scores, kind="stable")
    sorted_turns = turns[best_first]
    _, first_places = np.unique(sorted_turns, return_index=True)
    first_places.sort()
    best_passages = best_first[first_places]
    best_turns = turns[best_passages].tolist()
    best_scores = scores[best_passages].tolist()
    return tuple(zip(best_turns, best_scores, strict=True))


def _together(one: Scored, other: Scored) -> Scored:
    """Two documents of one conversation. A turn can be in both."""
    turns = [*one.turns, *other.turns]
    turns.sort(key=itemgetter(1), reverse=True)
    best = dict[int, float]()
    for turn, value in turns:
        if turn not in best:
            best[turn] = value
    most = max(one.score, other.score)
    tells = one.tells or other.tells
    best_turns = tuple(best.items())
    return Scored(most, best_turns, tells)
