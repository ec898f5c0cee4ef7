"""Which documents of an index may answer a question: a first, rough ranking by their words as a
whole.
"""

import numpy as np

from lasting_memory.recall.bm25 import (
    Frequencies,
    inverse_frequency,
    saturated,
    telling_first,
    word_counts,
)
from lasting_memory.recall.format import conversation_of, newest
from lasting_memory.recall.lexical import Array
from lasting_memory.recall.question import Question
from lasting_memory.recall.ranking import TIME_WEIGHT

# Documents that are ranked exactly: more than any answer shows, because this ranking is rough.
CANDIDATES = 48
# The oldest of those with most of the question's words, beside these.
OLDEST = 48


def matching_documents(
    table: Array, postings: Array, question: Question, leave_out: int
) -> tuple[list[int], Frequencies]:
    """The numbers of the documents that match best, and how common the question's words are.

    Takes the table and postings of an index (`format.TABLE`, `format.POSTINGS`), and the number of
    a conversation to leave out. What asks for the past takes no place from what tells something,
    and changes nothing of how its words count.
    """
    hits = _Hits(table, postings, question, leave_out)
    places = hits.best_places()
    keys = table["key"][places]
    distinct = dict.fromkeys(keys.tolist())
    return list(distinct), hits.frequencies


class _Hits:
    """The hits of a question in an index: how often each of its words is told, and is there at all
    (`told` and `counts`, a row a word), in each document of the table.
    """

    frequencies: Frequencies

    def __init__(self, table: Array, postings: Array, question: Question, leave_out: int) -> None:
        conversations = conversation_of(table["key"])
        is_other = conversations != leave_out
        has_words = table["words"] > 0
        has_told = table["told"] > 0
        live = newest(table) & has_words & is_other
        tells = live & has_told
        told = _counts(table, postings, question, postings["count"])
        asked = postings["asked"] / 10
        asking = _counts(table, postings, question, asked)

        self._table = table
        self._question = question
        self._live = live
        self._known = tells if tells.any() else live
        self._told = live * told
        self._asking = live * asking
        self._counts = self._told + self._asking
        is_told = self._told > 0
        is_there = self._counts > 0
        self.frequencies = Frequencies(
            conversations=telling_first(is_told, is_there),
            passages=telling_first(self._told, self._counts),
            total=int(self._known.sum()),
            searched=len(np.unique(conversations[live])),
        )

    def best_places(self) -> list[int]:
        """The places in the table of the documents that match best."""
        own = self._question.own_count
        versions = self._table["version"]
        weights = self._weights()
        own_weights = weights[:own]
        time_scores = self._time_scores(own_weights)
        places = list[int]()
        for counts in self._rankings():
            scores = weights @ self._saturated(counts)
            scores += time_scores
            # The newest win ties.
            places += _best(scores, versions, CANDIDATES)
        # However many repeat it, the first that told it is there.
        is_told = self._told[:own] > 0
        shared = own_weights @ is_told
        places += _best(shared, -versions, OLDEST)
        return places

    def _weights(self) -> Array:
        """The weight of each word."""
        frequencies = self.frequencies
        rarity = inverse_frequency(frequencies.conversations, frequencies.total)
        return self._question.weights * rarity

    def _rankings(self) -> list[Array]:
        """The counts by which documents are ranked: all; and of what tells something alone."""
        if self._asking.any():
            return [self._counts, self._told]
        return [self._counts]

    def _saturated(self, counts: Array) -> Array:
        """The weight of each word's count in each document."""
        lengths = self._table["words"]
        average = 1.0
        if self._live.any():
            known_lengths = lengths[self._known]
            average = float(known_lengths.mean())
        return saturated(counts, lengths, average)

    def _time_scores(self, own_weights: Array) -> Array:
        """The score of each document's days."""
        unit = 1.0
        if len(own_weights):
            unit = float(own_weights.mean())
        fits = self._question.fit(self._table)
        weight = TIME_WEIGHT * unit
        scores: Array = weight * self._live * fits
        return scores


def _counts(table: Array, postings: Array, question: Question, times: Array) -> Array:
    """How often each word of the question is in each document."""
    terms = postings["term"]
    places = postings["place"]
    documents = len(table)
    return word_counts(question.words, terms, places, documents, times)


def _best(scores: Array, ties: Array, most: int) -> list[int]:
    """The places with the best scores above 0; of equal ones those with the larger tie first."""
    worst_first = np.lexsort((ties, scores))
    best_first = worst_first[::-1]
    best = best_first[:most]
    has_score = scores[best] > 0
    places: list[int] = best[has_score].tolist()
    return places
