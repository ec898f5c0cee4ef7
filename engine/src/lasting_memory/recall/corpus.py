"""The passages of some documents as arrays, one after the other, in which questions look for words.

An array has a place for each word, each passage or each document. What is about documents is made
of what is about their passages by `any_in_document` and its like.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lasting_memory.recall.bm25 import word_counts
from lasting_memory.recall.documents import Document
from lasting_memory.recall.format import (
    ACCENTS_SHIFT,
    IN_QUESTION,
    SPEAKERS,
    TELLS,
    TENTHS,
    conversation_of,
)
from lasting_memory.recall.lexical import Array
from lasting_memory.recall.question import Question

# Weight of a tool's text, and of an assistant's turn of more than that length (`words.length_of`),
# beside the person's words; and where a question comes back to what an assistant said.
EXPLAINED_WEIGHT = 0.3
ASKED_EXPLAINED_WEIGHT = 1.0
EXPLAINED_LENGTH = 630
# Two neighbouring words of the question are a pair if they are at most so many words apart.
PAIR_SPAN = 2
# Weights of a passage's neighbours when turns are chosen to be quoted, nearest first. In the order
# of conversations they gain a point where people chat, and cost four and a half where an assistant
# explains.
NEIGHBOURS = (0.6, 0.3)

_USER = SPEAKERS.index("user")
_ASSISTANT = SPEAKERS.index("assistant")
_TOOL = SPEAKERS.index("tool")


class Corpus:
    """The passages of documents, each of which has some.

    Attributes, by word that was spoken: `words` (hashes), `passage_of_word`, `in_question`, and
    `accents`.

    By passage: `lengths` in words, `names` (hash of the speaker's, 0 without one), `tells`,
    `is_explained` (an assistant's long turn, or a tool's text), `weights`, `by_user`,
    `by_assistant`, `with_assistant` (somebody in the conversation is an assistant), and
    `document_of`.

    By document: `rows` of the table, `conversations` (their numbers), and `starts`, the number of
    its first passage, with the number of all passages at the end.
    """

    def __init__(self, documents: Sequence[Document], *, asks_answers: bool) -> None:
        """`asks_answers`: a question comes back to what an assistant said."""
        passages = np.concatenate([document.passages for document in documents])
        self._set_documents(documents)
        self._set_words(documents, passages["words"])
        self._set_passages(documents, passages)
        self.weights = self._passage_weights(asks_answers=asks_answers)

    def _set_documents(self, documents: Sequence[Document]) -> None:
        """Set what is known by document."""
        sizes = [len(document.passages) for document in documents]
        self.rows = np.concatenate([document.row for document in documents])
        self.conversations = conversation_of(self.rows["key"])
        self.starts = np.cumsum([0, *sizes])
        self.document_of = np.repeat(np.arange(len(documents)), sizes)

    def _set_words(self, documents: Sequence[Document], lengths: Array) -> None:
        """Set what is known by word. `lengths` are those of all passages, in words."""
        self.words = np.concatenate([document.words for document in documents])
        self.passage_of_word = np.repeat(np.arange(len(lengths)), lengths)
        marks = np.concatenate([document.marks for document in documents])
        self.accents = marks >> ACCENTS_SHIFT
        question_marks = marks & IN_QUESTION
        self.in_question = question_marks.astype(bool)

    def _set_passages(self, documents: Sequence[Document], passages: Array) -> None:
        """Set what is known by passage."""
        kinds = passages["kind"]
        speakers = passages["speaker"]
        self.lengths = passages["words"].astype(float)
        self.names = passages["name"]
        self.tells = kinds == TELLS
        self.kind_weights = TENTHS[kinds] / 10
        self.by_user = speakers == _USER
        self.by_assistant = speakers == _ASSISTANT

        turn_lengths = np.concatenate([_turn_lengths(document) for document in documents])
        is_long = turn_lengths > EXPLAINED_LENGTH
        is_tool = speakers == _TOOL
        self.is_explained = is_tool | (self.by_assistant & is_long)

        has_assistant = np.array([_has_assistant(document) for document in documents])
        self.with_assistant = has_assistant[self.document_of]

    def _passage_weights(self, *, asks_answers: bool) -> Array:
        """How much each passage counts."""
        asked_weight = ASKED_EXPLAINED_WEIGHT if asks_answers else EXPLAINED_WEIGHT
        # What only repeats something at length is never what was asked for.
        explained_weights = np.where(self.tells, asked_weight, EXPLAINED_WEIGHT)
        weights: Array = np.where(self.is_explained, explained_weights, self.kind_weights)
        return weights

    def any_in_document(self, of_passages: Array) -> Array:
        """For each document, whether a truth is there of any of its passages."""
        any_of: Array = np.logical_or.reduceat(of_passages, self.starts[:-1], axis=-1)
        return any_of

    def most_in_document(self, of_passages: Array) -> Array:
        """For each document, the largest number of its passages."""
        most: Array = np.maximum.reduceat(of_passages, self.starts[:-1], axis=-1)
        return most

    def sum_in_document(self, of_passages: Array) -> Array:
        """For each document, the sum of the numbers of its passages."""
        total: Array = np.add.reduceat(of_passages, self.starts[:-1], axis=-1)
        return total

    def counts(self, words: Sequence[Sequence[int]]) -> Array:
        """How often each word is in each passage. A speaker's name is a word of each of theirs."""
        named = np.flatnonzero(self.names)
        terms = np.concatenate([self.words, self.names[named]])
        places = np.concatenate([self.passage_of_word, named])
        return word_counts(words, terms, places, len(self.lengths))

    def has(self, words: Sequence[Sequence[int]], where: Array | None = None) -> Array:
        """Whether each word was spoken in each passage, among the words where `where` is true."""
        terms = self.words
        places = self.passage_of_word
        if where is not None:
            terms = terms[where]
            places = places[where]
        return word_counts(words, terms, places, len(self.lengths)) > 0

    def spelled_otherwise(self, question: Question) -> Array:
        """How often each of a question's own words is in each passage with other accents.

        It is 0 for a word that nobody spells as the question does.
        """
        times = np.zeros((question.own, len(self.lengths)))
        if not self.accents.any() and not any(question.accents):
            return times
        for number, word in enumerate(question.own_words):
            has_word = np.isin(self.words, word)
            is_other = has_word & (self.accents != question.accents[number])
            if (has_word & ~is_other).any():
                np.add.at(times[number], self.passage_of_word[is_other], 1)
        return times

    def pair_counts(self, words: Sequence[Sequence[int]]) -> Array:
        """How often each two neighbouring words of the question are near each other in each
        passage, in either order.
        """
        pair_count = max(0, len(words) - 1)
        counts = np.zeros((pair_count, len(self.lengths)))
        hits = [np.isin(self.words, word) for word in words]
        for distance in range(1, PAIR_SPAN + 1):
            passages = self.passage_of_word[distance:]
            is_within_one = passages == self.passage_of_word[:-distance]
            for number, (one, other) in enumerate(pairwise(hits)):
                is_pair = _at_distance(one, other, distance)
                is_pair &= is_within_one
                np.add.at(counts[number], passages[is_pair], 1)
        return counts

    def with_neighbours(self, values: Array) -> Array:
        """Each passage's values and, with less weight, those of its neighbours in the same
        document. A row is a word's.
        """
        total = values.astype(float)
        for distance, weight in enumerate(NEIGHBOURS, 1):
            is_same = self.document_of[distance:] == self.document_of[:-distance]
            weights = weight * is_same
            total[:, distance:] += weights * values[:, :-distance]
            total[:, :-distance] += weights * values[:, distance:]
        return total


def _at_distance(one: Array, other: Array, distance: int) -> Array:
    """Where one of two words is so many words behind the other, in either order.

    Takes where each of them is. Says it for all words but the first ones.
    """
    one_first = one[:-distance] & other[distance:]
    other_first = other[:-distance] & one[distance:]
    is_pair: Array = one_first | other_first
    return is_pair


def _turn_lengths(document: Document) -> Array:
    """For each passage the length of its turn."""
    turns = document.passages["turn"]
    numbers = turns - turns.min()
    lengths: Array = np.bincount(numbers, document.passages["length"])
    of_passage: Array = lengths[numbers]
    return of_passage


def _has_assistant(document: Document) -> bool:
    """Whether somebody in a document is an assistant: where all have names, people talk with each
    other.
    """
    is_person = document.passages["speaker"] != _TOOL
    has_name = document.passages["name"] > 0
    return not has_name[is_person].all()
