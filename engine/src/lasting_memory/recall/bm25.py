"""The parts of BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009), in
Lucene's variant, on arrays.

A text is a passage or a whole document. A table of counts has a row for each word of a question and
a column for each text. A text tells something, unless it only asks for, or repeats, what was said
elsewhere.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lasting_memory.recall.arrays import Flags, Floats, Integers, Numbers

K1 = 1.5
B = 0.75


class Frequencies(NamedTuple):
    """How common the words of a question are.

    `conversations` and `passages` count those with each word, among `total` conversations that tell
    anything. `searched` also counts the conversations that only ask.
    """

    conversations: Numbers
    passages: Numbers
    total: int
    searched: int


def word_counts(
    words: Sequence[Sequence[int]],
    terms: Integers,
    places: Integers,
    count: int,
    weights: Numbers | None = None,
) -> Floats:
    """How often each word is in each of `count` texts, as a table.

    A word is given by the hashes of its stems. `terms` are the hashes in all texts, `places` the
    number of the text of each of them, `weights` how often each counts (None: once).
    """
    stems = list[int]()
    for word in words:
        stems += word
    stem_hashes = np.array(stems, terms.dtype)
    hashes = np.unique(stem_hashes)
    is_hit = np.isin(terms, hashes)
    hit_terms = terms[is_hit]
    hit_places = places[is_hit]
    hit_weights: Numbers | int = 1
    if weights is not None:
        hit_weights = weights[is_hit]
    rows = np.searchsorted(hashes, hit_terms)
    shape = (len(hashes), count)
    counts_of_hashes = np.zeros(shape)
    cells = (rows, hit_places)
    np.add.at(counts_of_hashes, cells, hit_weights)
    has_hash = _has_hash(words, hashes)
    counts: Floats = has_hash @ counts_of_hashes
    return counts


def _has_hash(words: Sequence[Sequence[int]], hashes: Integers) -> Floats:
    """A table that has 1 for each hash of a word, with a row for each word, a column for each hash.

    Two words of a question can have a hash in common. `hashes` are those of all words, sorted.
    """
    shape = (len(words), len(hashes))
    has_hash = np.zeros(shape)
    for number, word in enumerate(words):
        columns = np.searchsorted(hashes, word)
        has_hash[number, columns] = 1
    return has_hash


def telling_first(tells: Numbers | Flags, counts: Numbers | Flags) -> Numbers:
    """In how many texts each word is told; or in how many it is at all, if none tells it.

    Takes two tables: what tells a word, and all there is of it. Questions make no word common that
    is told.
    """
    telling_texts: Numbers = tells.sum(axis=1)
    texts: Numbers = counts.sum(axis=1)
    is_told = telling_texts > 0
    return np.where(is_told, telling_texts, texts)


def inverse_frequency(texts: Numbers, total: float) -> Floats:
    """The weight of each word: the higher, the fewer of all texts have it.

    `texts` says how many have it, of `total`.
    """
    texts_without = np.maximum(total - texts, 0)
    odds: Floats = (texts_without + 0.5) / (texts + 0.5)
    return np.log1p(odds)


def saturated(counts: Floats, lengths: Numbers, average: float) -> Floats:
    """The table of counts with numbers from 0 to 1: each further time that a word is in a text
    counts less, and so does a word in a text that is longer than the average.
    """
    typical = max(average, 1e-9)
    length_parts = B * lengths / typical
    norms = 1 - B + length_parts
    return counts / (counts + K1 * norms)


def relevances(counts: Floats, weights: Floats, lengths: Floats, tells: Flags) -> Floats:
    """The score of each text for a question.

    Takes the table of counts, the weight of each word, the length of each text, and whether each
    text tells something.
    """
    average = average_length(lengths, tells)
    shares = saturated(counts, lengths, average)
    scores: Floats = weights @ shares
    return scores


def average_length(lengths: Numbers, tells: Flags) -> float:
    """The average length of the texts that tell something; of all texts, if none does.

    Questions are short, and would make the others look long.
    """
    if tells.any():
        lengths = lengths[tells]
    return float(lengths.mean())
