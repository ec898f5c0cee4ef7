"""Which documents of an index may answer a question: a first, rough ranking by their words as a
whole.

A document is a conversation, or a part of a long one. The index has a table of documents
(`format.TABLE`), and postings (`format.POSTINGS`): how often each word is in a document, where it
tells something, and where it only asks for what was said or repeats it. A word is told where it
stands in what tells something. A document's place is the number of its row.
"""

import numpy as np

from lasting_memory.recall.arrays import Floats, Integers, Numbers, Rows
from lasting_memory.recall.bm25 import (
    Frequencies,
    inverse_frequency,
    saturated,
    telling_first,
    word_counts,
)
from lasting_memory.recall.format import conversation_of, newest
from lasting_memory.recall.question import Question
from lasting_memory.recall.ranking import TIME_WEIGHT

# Documents that are ranked exactly: more than any answer shows, because this ranking is rough.
CANDIDATES = 48
# The oldest of those with most of the question's words, beside these.
OLDEST = 48


def matching_documents(
    table: Rows, postings: Rows, question: Question, leave_out: int
) -> tuple[list[int], Frequencies]:
    """The numbers of the documents that match best, and how common the question's words are.

    Takes the table and postings of an index, and the number of a conversation to leave out. What
    asks for the past takes no place from what tells something, and does not make its words common.
    """
    hits = _Hits(table, postings, question, leave_out)
    places = hits.best_places()
    keys = table["key"][places]
    distinct = dict.fromkeys(keys.tolist())
    return list(distinct), hits.frequencies


class _Hits:
    """How often each word of a question is in each document of an index: where it is told
    (`_told_counts`), where it only asks or repeats (`_asking_counts`), and both (`_counts`).

    `frequencies` say how common these words are among all conversations.
    """

    frequencies: Frequencies

    def __init__(self, table: Rows, postings: Rows, question: Question, leave_out: int) -> None:
        conversations = conversation_of(table["key"])
        is_other = conversations != leave_out
        has_words = table["words"] > 0
        tells_any = table["told"] > 0
        is_searched = newest(table) & has_words
        is_searched &= is_other
        tells = is_searched & tells_any
        # Questions make no word common that is told, and no text long.
        is_typical = tells if tells.any() else is_searched
        told_times = postings["count"]
        asking_times = postings["asked"] / 10  # stored in tenths
        told_counts = _counts(table, postings, question, told_times)
        asking_counts = _counts(table, postings, question, asking_times)
        told_counts *= is_searched
        asking_counts *= is_searched
        counts = told_counts + asking_counts
        searched_conversations = conversations[is_searched]

        self._table = table
        self._question = question
        self._is_searched = is_searched
        self._is_typical = is_typical
        self._told_counts = told_counts
        self._asking_counts = asking_counts
        self._counts = counts
        self.frequencies = Frequencies(
            conversations=telling_first(told_counts > 0, counts > 0),
            passages=telling_first(told_counts, counts),
            total=int(is_typical.sum()),
            searched=len(np.unique(searched_conversations)),
        )

    def best_places(self) -> list[int]:
        """The places of the documents that match best. A place may be there several times."""
        own_count = self._question.own_count
        versions = self._table["version"]
        weights = self._weights()
        own_weights = weights[:own_count]
        time_scores = self._time_scores(own_weights)
        places = list[int]()
        for counts in self._rankings():
            shares = self._saturated(counts)
            scores = weights @ shares
            scores += time_scores
            # The newest win ties.
            places += _best(scores, versions, CANDIDATES)
        # However many repeat it, the first that told it is there.
        own_told_counts = self._told_counts[:own_count]
        is_told = own_told_counts > 0
        told_weights = own_weights @ is_told
        places += _best(told_weights, -versions, OLDEST)
        return places

    def _weights(self) -> Floats:
        """The weight of each word."""
        frequencies = self.frequencies
        rarity = inverse_frequency(frequencies.conversations, frequencies.total)
        return self._question.weights * rarity

    def _rankings(self) -> list[Floats]:
        """The tables of counts, by each of which documents are ranked: all counts; and those of
        what tells something, where these differ.
        """
        if self._asking_counts.any():
            return [self._counts, self._told_counts]
        return [self._counts]

    def _saturated(self, counts: Floats) -> Floats:
        """The table of counts, each as a share from 0 to 1 (`bm25.saturated`)."""
        lengths = self._table["words"]
        average = 1.0
        if self._is_searched.any():
            typical_lengths = lengths[self._is_typical]
            average = float(typical_lengths.mean())
        return saturated(counts, lengths, average)

    def _time_scores(self, own_weights: Floats) -> Floats:
        """The score of each document for days that fit a time of the question.

        A time counts in proportion to the mean weight of the question's own words.
        """
        mean = 1.0
        if len(own_weights):
            mean = float(own_weights.mean())
        weight = TIME_WEIGHT * mean
        weights = weight * self._is_searched
        fits = self._question.fit(self._table)
        scores: Floats = weights * fits
        return scores


def _counts(table: Rows, postings: Rows, question: Question, times: Numbers) -> Floats:
    """How often each word of the question is in each document. `times` says it for each posting."""
    terms = postings["term"]
    places = postings["place"]
    document_count = len(table)
    return word_counts(question.words, terms, places, document_count, times)


def _best(scores: Floats, ties: Integers, limit: int) -> list[int]:
    """The places of the best scores above 0, best first, at most so many.

    Of equal scores the one with the larger value in `ties` comes first.
    """
    keys = (ties, scores)
    worst_first = np.lexsort(keys)
    best_first = worst_first[::-1]
    best_places = best_first[:limit]
    has_score = scores[best_places] > 0
    places: list[int] = best_places[has_score].tolist()
    return places
