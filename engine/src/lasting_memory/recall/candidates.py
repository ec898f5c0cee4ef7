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
    is_other = conversation_of(table["key"]) != leave_out
    live = newest(table) & (table["words"] > 0) & is_other
    tells = live & (table["told"] > 0)
    known = tells if tells.any() else live
    told = _counts(table, postings, question, postings["count"]) * live
    asking = _counts(table, postings, question, postings["asked"] / 10) * live
    counts = told + asking
    frequencies = Frequencies(
        conversations=telling_first(told > 0, counts > 0),
        passages=telling_first(told, counts),
        total=int(known.sum()),
        searched=len(np.unique(conversation_of(table["key"][live]))),
    )
    rarity = inverse_frequency(frequencies.conversations, frequencies.total)
    weights = question.weights * rarity
    own_weights = weights[: question.own]
    unit = float(own_weights.mean()) if question.own else 1.0
    time_scores = TIME_WEIGHT * unit * live * question.fit(table)
    average = float(table["words"][known].mean()) if live.any() else 1.0

    places = list[int]()
    rankings = [counts, told] if asking.any() else [counts]
    for ranked in rankings:
        scores = weights @ saturated(ranked, table["words"], average) + time_scores
        # The newest win ties.
        places += _best(scores, table["version"], CANDIDATES)
    # However many repeat it, the first that told it is there.
    shared = own_weights @ (told[: question.own] > 0)
    places += _best(shared, -table["version"], OLDEST)
    keys = table["key"][places].tolist()
    return list(dict.fromkeys(keys)), frequencies


def _counts(table: Array, postings: Array, question: Question, times: Array) -> Array:
    """How often each word of the question is in each document."""
    return word_counts(question.words, postings["term"], postings["place"], len(table), times)


def _best(scores: Array, ties: Array, most: int) -> list[int]:
    """The places with the best scores above 0; of equal ones those with the larger tie first."""
    order = np.lexsort((ties, scores))[::-1][:most]
    best: list[int] = order[scores[order] > 0].tolist()
    return best
