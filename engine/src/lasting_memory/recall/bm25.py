"""The parts of BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009), in
Lucene's variant, on arrays.

A table of counts has a row for each word of a question and a column for each text.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lasting_memory.recall.lexical import Array

K1 = 1.5
B = 0.75


class Frequencies(NamedTuple):
    """How common the words of a question are.

    `conversations` and `passages` count those with each word, among `total` conversations that tell
    anything. `searched` also counts the conversations that only ask.
    """

    conversations: Array
    passages: Array
    total: int
    searched: int


def word_counts(
    words: Sequence[Sequence[int]],
    terms: Array,
    places: Array,
    count: int,
    times: Array | None = None,
) -> Array:
    """How often each word is in each of `count` texts.

    A word is given by the hashes of its stems. `terms` are hashes in texts, `places` the number of
    the text of each, `times` how often each counts (None: once).
    """
    stems = list[int]()
    for word in words:
        stems += word
    all_hashes = np.array(stems, terms.dtype)
    hashes = np.unique(all_hashes)
    is_hit = np.isin(terms, hashes)
    hit_terms = terms[is_hit]
    hit_places = places[is_hit]
    hit_times = 1 if times is None else times[is_hit]
    rows = np.searchsorted(hashes, hit_terms)
    by_hash = np.zeros((len(hashes), count))
    np.add.at(by_hash, (rows, hit_places), hit_times)
    has_stem = _has_stem(words, hashes)
    counts: Array = has_stem @ by_hash
    return counts


def _has_stem(words: Sequence[Sequence[int]], hashes: Array) -> Array:
    """Which of these hashes each word has: two words of a question can have a stem in common.

    The hashes are those of all words, in order.
    """
    has_stem = np.zeros((len(words), len(hashes)))
    for number, word in enumerate(words):
        columns = np.searchsorted(hashes, word)
        has_stem[number, columns] = 1
    return has_stem


def telling_first(told: Array, counts: Array) -> Array:
    """In how many texts each word is told; or in how many it is, if none tells it.

    Questions make no word common that is told.
    """
    telling: Array = told.sum(axis=1)
    having: Array = counts.sum(axis=1)
    is_told = telling > 0
    return np.where(is_told, telling, having)


def inverse_frequency(texts: Array, total: float) -> Array:
    """Weights of words by the number of texts with them."""
    others = np.maximum(total - texts, 0)
    for_it = texts + 0.5
    against_it = others + 0.5
    return np.log1p(against_it / for_it)


def saturated(counts: Array, lengths: Array, average: float) -> Array:
    """The weight of a word's count in a text of some length."""
    typical = max(average, 1e-9)
    length_parts = B * lengths / typical
    norms = 1 - B + length_parts
    limits = counts + K1 * norms
    return counts / limits


def relevances(counts: Array, weights: Array, lengths: Array, tells: Array) -> Array:
    """The score of each text. Takes how often each word is in it, the weights of words, the lengths
    of texts, and which of them tell something.
    """
    average = average_length(lengths, tells)
    shares = saturated(counts, lengths, average)
    scores: Array = weights @ shares
    return scores


def average_length(lengths: Array, tells: Array) -> float:
    """The average length of the texts that tell something.

    Questions are short, and would make the others look long.
    """
    counted = lengths
    if tells.any():
        counted = lengths[tells]
    return float(counted.mean())
