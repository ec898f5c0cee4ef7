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
    keys = table["key"]
    lengths = table["words"]
    is_other = conversation_of(keys) != leave_out
    live = newest(table) & (lengths > 0) & is_other
    tells = live & (table["told"] > 0)
    known = tells if tells.any() else live
    told = live * _counts(table, postings, question, postings["count"])
    asking = live * _counts(table, postings, question, postings["asked"] / 10)
    counts = told + asking
    frequencies = Frequencies(
        conversations=telling_first(told > 0, counts > 0),
        passages=telling_first(told, counts),
        total=int(known.sum()),
        searched=len(np.unique(conversation_of(keys[live]))),
    )
    rarity = inverse_frequency(frequencies.conversations, frequencies.total)
    weights = question.weights * rarity
    own_weights = weights[: question.own]
    unit = float(own_weights.mean()) if question.own else 1.0
    time_scores = TIME_WEIGHT * unit * live * question.fit(table)
    average = float(lengths[known].mean()) if live.any() else 1.0

    places = list[int]()
    rankings = [counts, told] if asking.any() else [counts]
    for ranked in rankings:
        by_words = weights @ saturated(ranked, lengths, average)
        # The newest win ties.
        places += _best(by_words + time_scores, table["version"], CANDIDATES)
    # However many repeat it, the first that told it is there.
    is_told = told[: question.own] > 0
    shared = own_weights @ is_told
    places += _best(shared, -table["version"], OLDEST)
    found = dict.fromkeys(keys[places].tolist())
    return list(found), frequencies


def _counts(table: Array, postings: Array, question: Question, times: Array) -> Array:
    """How often each word of the question is in each document."""
    return word_counts(question.words, postings["term"], postings["place"], len(table), times)


def _best(scores: Array, ties: Array, most: int) -> list[int]:
    """The places with the best scores above 0; of equal ones those with the larger tie first."""
    order = np.lexsort((ties, scores))[::-1][:most]
    best: list[int] = order[scores[order] > 0].tolist()
    return best
