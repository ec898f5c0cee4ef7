"""Ranks the candidates for a question by their words.

A candidate is a document: a conversation, or a part of a long one. A document has passages, each of
a few sentences of one turn. Most arrays here have a number for each passage, or for each document;
a table of counts has a row for each word and a column for each passage or document.

A conversation counts with its best passage, because a turn answers a question, and half as much as
a whole. Where the question comes back to what an assistant said, it counts as much as a whole, and
long explanations count in full. For a quote, a passage counts together with its neighbours (its
window), because a short turn often makes sense only beside the one before it.

A passage tells something, unless it asks for the past, stands beside such a question, or is an echo:
it repeats what the person stated elsewhere (`echoes.py`). What does not tell something counts less,
so that it does not come before what told it. The average lengths are those of what tells something,
too.

A question has its own words, and alternatives for them. Two of its own words that are neighbours
are a pair.

What each part gains is in docs/recall.md, by `python -m benchmarks.recall --ablate`.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from lasting_memory.recall.arrays import Flags, Floats
from lasting_memory.recall.bm25 import (
    Frequencies,
    inverse_frequency,
    relevances,
    telling_first,
)
from lasting_memory.recall.corpus import Corpus
from lasting_memory.recall.documents import Document
from lasting_memory.recall.echoes import find_echoes, without_echoes
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

# Turns of a conversation, by number, with their scores, best first.
ScoredTurns = tuple[tuple[int, float], ...]


class ConversationScore(NamedTuple):
    """A conversation's score, and its turns with theirs.

    `tells`: a passage that tells something has words of the question, or none has any and only the
    conversation's days fit.
    """

    score: float
    turns: ScoredTurns
    tells: bool


def score_conversations(
    question: Question, documents: Sequence[Document], frequencies: Frequencies
) -> dict[int, ConversationScore]:
    """Scores the conversations that share a word or a time with the question.

    Returns their scores by the conversations' numbers. A conversation of several documents has the
    score of the best one. Blocks for milliseconds.
    """
    ranked_documents = list[Document]()
    for document in documents:
        if len(document.passages):
            ranked_documents.append(document)
    if not ranked_documents:
        return {}
    ranking = _Ranking(question, ranked_documents, frequencies)
    scores = dict[int, ConversationScore]()
    for number, document in enumerate(ranked_documents):
        if not ranking.matches(number):
            continue
        score = ranking.score_of(number, document)
        conversation = ranking.conversation_of(number)
        earlier_score = scores.get(conversation)
        if earlier_score is not None:
            score = _merged(earlier_score, score)
        scores[conversation] = score
    return scores


class _Ranking:
    """The scores of all passages and documents for one question."""

    def __init__(
        self, question: Question, documents: Sequence[Document], frequencies: Frequencies
    ) -> None:
        corpus = Corpus(documents, asks_answers=question.asks_answers)
        counts = corpus.counts(question.words)
        own_words = question.own_words
        own_counts = counts[: question.own_count]
        other_accents = corpus.spelled_otherwise(question)
        # The own words' counts are a part of all counts: these change, too.
        own_counts -= ACCENT_LOSS * other_accents
        echoes = find_echoes(corpus, own_words)
        is_echo = echoes.is_echo
        has_word: Flags = np.logical_or.reduce(counts, axis=0)

        self._corpus = corpus
        self._question = question
        self._is_echo = is_echo
        self._tells = corpus.tells & ~is_echo
        self._passage_weights = self._less_for_echoes(corpus.weights)
        self._has_word = corpus.any_in_document(has_word)
        self._kind_weights = self._document_kind_weights(has_word)
        self._time_fits = question.fit(corpus.rows)
        told_frequencies = without_echoes(frequencies, corpus, counts, is_echo)
        # What is silent counts no more, but it was there for the frequencies.
        own_counts[echoes.silent] = 0
        self._set_scores(counts, told_frequencies)

    def _less_for_echoes(self, weights: Floats) -> Floats:
        """The weights of passages, with `ECHO_WEIGHT` for each echo."""
        return np.where(self._is_echo, ECHO_WEIGHT, weights)

    def _document_kind_weights(self, has_word: Flags) -> Floats:
        """For each document, the highest weight, by its kind, of a passage with a word of the
        question; 0 where no passage has one.

        The kind of a passage says whether it tells something; an echo weighs less, too.
        """
        corpus = self._corpus
        weights = self._less_for_echoes(corpus.kind_weights)
        weights_of_hits = has_word * weights
        return corpus.most_in_document(weights_of_hits)

    def _set_scores(self, counts: Floats, frequencies: Frequencies) -> None:
        """Sets the score of each document, and that of each passage's window.

        `counts` say how often each word is in each passage.
        """
        corpus = self._corpus
        question = self._question
        word_weights = self._word_weights(frequencies)
        own_weights = word_weights[: question.own_count]
        pairs = corpus.pair_counts(question.own_words)
        pair_weights = self._pair_weights(pairs, own_weights)
        all_counts = np.concatenate([counts, pairs])
        weights = np.concatenate([word_weights, pair_weights])

        weighted_counts = all_counts * self._passage_weights
        passage_scores = self._passage_scores(weighted_counts, weights)
        whole_scores = self._whole_scores(weighted_counts, weights)
        window_scores = self._window_scores(all_counts, weights)
        bonus = self._speaker_bonus()
        passage_scores *= bonus
        window_scores *= bonus
        time_weight = _time_weight(own_weights)
        time_scores = time_weight * self._time_fits
        best_scores = corpus.most_in_document(passage_scores)
        whole_weight = WHOLE_WEIGHT
        if question.asks_answers:
            whole_weight = ASKED_WHOLE_WEIGHT
        whole_weights = whole_weight * self._kind_weights
        weighted_wholes = whole_weights * whole_scores
        self._window_score = window_scores
        self._document_score = best_scores + weighted_wholes + time_scores

    def _word_weights(self, frequencies: Frequencies) -> Floats:
        """The weight of each word: the mean of its rarity among conversations and among passages.

        A word of one conversation can be common there.
        """
        total = frequencies.total
        conversations = frequencies.conversations
        told_passages = total * self._telling_passages
        passages = told_passages / self._telling_documents
        rarity = inverse_frequency(conversations, total)
        passage_rarity = inverse_frequency(frequencies.passages, passages)
        mean_rarity: Floats = np.sqrt(rarity * passage_rarity)
        return self._question.weights * mean_rarity

    @property
    def _telling_passages(self) -> int:
        """How many passages tell something; or how many there are, if none does."""
        return _count_or_size(self._tells)

    @property
    def _telling_documents(self) -> int:
        """How many documents tell something; or how many there are, if none does."""
        tells = self._corpus.any_in_document(self._tells)
        return _count_or_size(tells)

    def _pair_weights(self, pairs: Floats, own_weights: Floats) -> Floats:
        """The weight of each pair: the mean of its words' weights, and at most the rarity of the
        pair itself.

        `pairs` say how often each pair is in each passage.
        """
        has_pair = pairs > 0
        tells_pair = has_pair & self._tells
        frequencies = telling_first(tells_pair, has_pair)
        rarity = inverse_frequency(frequencies, self._telling_passages)
        first_weights = own_weights[:-1]
        second_weights = own_weights[1:]
        means = (first_weights + second_weights) / 2
        weights: Floats = np.minimum(means, rarity)
        return PAIR_WEIGHT * weights

    def _passage_scores(self, weighted_counts: Floats, weights: Floats) -> Floats:
        """The score of each passage by itself.

        Takes the counts of words and pairs in each passage, which are weighted by passage already,
        and the weights of these words and pairs.
        """
        passage_weights = self._passage_weights
        lengths = self._corpus.lengths
        weighted_lengths = lengths * passage_weights
        tells = self._tells
        relevance = relevances(weighted_counts, weights, weighted_lengths, tells)
        return relevance * passage_weights

    def _window_scores(self, counts: Floats, weights: Floats) -> Floats:
        """The score of each passage with its neighbours, for quotes.

        Takes the counts of words and pairs in each passage, and the weights of these.

        An echo counts here like any other passage: within its conversation it is often what makes
        sense of its neighbour.
        """
        corpus = self._corpus
        passage_weights = corpus.weights
        weighted_counts = counts * passage_weights
        weighted_lengths = corpus.lengths * passage_weights
        window_counts = corpus.with_neighbours(weighted_counts)
        # `with_neighbours` takes a table.
        lengths_as_row = weighted_lengths[None, :]
        (window_lengths,) = corpus.with_neighbours(lengths_as_row)
        tells = self._tells
        relevance = relevances(window_counts, weights, window_lengths, tells)
        scores: Floats = relevance * passage_weights
        return scores

    def _whole_scores(self, weighted_counts: Floats, weights: Floats) -> Floats:
        """The score of each document as a whole. Takes the same as `_passage_scores`."""
        corpus = self._corpus
        lengths = corpus.sum_in_document(corpus.lengths)
        document_counts = corpus.sum_in_document(weighted_counts)
        tells = corpus.any_in_document(self._tells)
        return relevances(document_counts, weights, lengths, tells)

    def _speaker_bonus(self) -> Floats:
        """A factor for each passage: more than 1 if its speaker is the only one of all whom the
        question names.
        """
        names = self._corpus.names
        asked_words = self._question.own_hashes
        distinct_names = set(names.tolist())
        asked_names = asked_words & distinct_names
        if len(asked_names) != 1:
            return np.ones(len(names))
        (asked_name,) = asked_names
        is_asked = names == asked_name
        bonus: Floats = 1 + SPEAKER_BONUS * is_asked
        return bonus

    def matches(self, number: int) -> bool:
        """Whether the document of this number shares a word or a time with the question."""
        shares_word = self._has_word[number]
        shares_time = self._time_fits[number]
        return bool(shares_word or shares_time)

    def conversation_of(self, number: int) -> int:
        """The number of the conversation of the document of this number."""
        conversation = self._corpus.conversations[number]
        return int(conversation)

    def score_of(self, number: int, document: Document) -> ConversationScore:
        """The score of a document, which has this number here, and those of its turns."""
        starts = self._corpus.starts
        start = starts[number]
        end = starts[number + 1]
        all_window_scores = self._window_score
        window_scores = all_window_scores[start:end]
        turns = _scored_turns(document, window_scores)
        score = self._document_score[number]
        tells = self._tells_something(number)
        return ConversationScore(float(score), turns, tells)

    def _tells_something(self, number: int) -> bool:
        """Whether a passage of a document tells something with words of the question, or no passage
        has any of them.
        """
        if not self._has_word[number]:
            return True
        # Only what tells something has the weight 1.
        weight = self._kind_weights[number]
        return bool(weight == 1)


def _count_or_size(is_counted: Flags) -> int:
    """How many values of an array are true; its size if none is."""
    count = int(is_counted.sum())
    return count or len(is_counted)


def _time_weight(own_weights: Floats) -> float:
    """The weight of a time that fits, measured by the mean weight of the question's own words."""
    if not len(own_weights):
        return TIME_WEIGHT
    mean = float(own_weights.mean())
    return TIME_WEIGHT * mean


def _scored_turns(document: Document, passage_scores: Floats) -> ScoredTurns:
    """The turns of a document, each with the score of its best passage, best first."""
    turns = document.passages["turn"]
    best_first = np.argsort(-passage_scores, kind="stable")
    sorted_turns = turns[best_first]
    # Of each turn, the place of its best passage in that order.
    _, first_places = np.unique(sorted_turns, return_index=True)
    first_places.sort()
    best_passages = best_first[first_places]
    best_turns = turns[best_passages].tolist()
    best_scores = passage_scores[best_passages].tolist()
    return tuple(zip(best_turns, best_scores, strict=True))


def _merged(first: ConversationScore, second: ConversationScore) -> ConversationScore:
    """The score of a conversation from those of two of its documents. A turn that is in both has
    its better score.
    """
    turns = [*first.turns, *second.turns]
    turns.sort(key=itemgetter(1), reverse=True)
    score_of_turn = dict[int, float]()
    for turn, score in turns:
        score_of_turn.setdefault(turn, score)
    best_score = max(first.score, second.score)
    tells = first.tells or second.tells
    best_turns = tuple(score_of_turn.items())
    return ConversationScore(best_score, best_turns, tells)
