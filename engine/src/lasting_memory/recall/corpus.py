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
    its first passage, with the number of all passages at the end. `passage_count` is that number.
    """

    def __init__(self, documents: Sequence[Document], *, asks_answers: bool) -> None:
        """`asks_answers`: a question comes back to what an assistant said."""
        passages = np.concatenate([document.passages for document in documents])
        self._set_documents(documents)
        self._set_words(documents, passages)
        self._set_passages(documents, passages)
        self._set_weights(asks_answers=asks_answers)

    def _set_documents(self, documents: Sequence[Document]) -> None:
        """Set what is known by document."""
        rows = list[Array]()
        sizes = list[int]()
        for document in documents:
            rows.append(document.row)
            sizes.append(len(document.passages))
        document_count = len(documents)
        numbers = np.arange(document_count)
        self.passage_count = sum(sizes)
        self.rows = np.concatenate(rows)
        self.conversations = conversation_of(self.rows["key"])
        self.starts = np.cumsum([0, *sizes])
        self.document_of = np.repeat(numbers, sizes)

    def _set_words(self, documents: Sequence[Document], passages: Array) -> None:
        """Set what is known by word."""
        words = list[Array]()
        marks = list[Array]()
        for document in documents:
            words.append(document.words)
            marks.append(document.marks)
        numbers = np.arange(len(passages))
        self.words = np.concatenate(words)
        self.passage_of_word = np.repeat(numbers, passages["words"])
        all_marks = np.concatenate(marks)
        question_marks = all_marks & IN_QUESTION
        self.in_question = question_marks.astype(bool)
        self.accents = all_marks >> ACCENTS_SHIFT

    def _set_passages(self, documents: Sequence[Document], passages: Array) -> None:
        """Set what is known by passage."""
        kinds = passages["kind"]
        speakers = passages["speaker"]
        words = passages["words"]
        self.lengths = words.astype(float)
        self.names = passages["name"]
        self.tells = kinds == TELLS
        self.kind_weights = TENTHS[kinds] / 10
        self.by_user = speakers == _USER
        self.by_assistant = speakers == _ASSISTANT

        turn_lengths = list[Array]()
        has_assistant = list[bool]()
        for document in documents:
            turn_lengths.append(_turn_lengths(document))
            has_assistant.append(_has_assistant(document))
        all_turn_lengths = np.concatenate(turn_lengths)
        is_long = all_turn_lengths > EXPLAINED_LENGTH
        is_tool = speakers == _TOOL
        is_long_answer = self.by_assistant & is_long
        self.is_explained = is_tool | is_long_answer
        in_document = np.array(has_assistant)
        self.with_assistant = in_document[self.document_of]

    def _set_weights(self, *, asks_answers: bool) -> None:
        """Set how much each passage counts."""
        weights = self.kind_weights.copy()
        weights[self.is_explained] = EXPLAINED_WEIGHT
        if asks_answers:
            # What only repeats something at length is never what was asked for.
            is_asked_for = self.is_explained & self.tells
            weights[is_asked_for] = ASKED_EXPLAINED_WEIGHT
        self.weights = weights

    def any_in_document(self, of_passages: Array) -> Array:
        """For each document, whether a truth is there of any of its passages."""
        return self._in_document(np.logical_or, of_passages)

    def most_in_document(self, of_passages: Array) -> Array:
        """For each document, the largest number of its passages."""
        return self._in_document(np.maximum, of_passages)

    def sum_in_document(self, of_passages: Array) -> Array:
        """For each document, the sum of the numbers of its passages."""
        return self._in_document(np.add, of_passages)

    def _in_document(self, joining: np.ufunc, of_passages: Array) -> Array:
        """For each document, the values of its passages, joined."""
        first_passages = self.starts[:-1]
        of_documents: Array = joining.reduceat(of_passages, first_passages, axis=-1)
        return of_documents

    def counts(self, words: Sequence[Sequence[int]]) -> Array:
        """How often each word is in each passage. A speaker's name is a word of each of theirs."""
        named = np.flatnonzero(self.names)
        names = self.names[named]
        terms = np.concatenate([self.words, names])
        places = np.concatenate([self.passage_of_word, named])
        return word_counts(words, terms, places, self.passage_count)

    def has(self, words: Sequence[Sequence[int]], where: Array | None = None) -> Array:
        """Whether each word was spoken in each passage, among the words where `where` is true."""
        terms = self.words
        places = self.passage_of_word
        if where is not None:
            terms = terms[where]
            places = places[where]
        counts = word_counts(words, terms, places, self.passage_count)
        return counts > 0

    def spelled_otherwise(self, question: Question) -> Array:
        """How often each of a question's own words is in each passage with other accents.

        It is 0 for a word that nobody spells as the question does.
        """
        times = np.zeros((question.own, self.passage_count))
        asks_with_accents = any(question.accents)
        if not asks_with_accents and not self.accents.any():
            return times
        for number, word in enumerate(question.own_words):
            accents = question.accents[number]
            is_same = self.accents == accents
            has_word = np.isin(self.words, word)
            has_same = has_word & is_same
            if not has_same.any():
                continue
            has_other = has_word & ~is_same
            passages = self.passage_of_word[has_other]
            of_word = times[number]
            np.add.at(of_word, passages, 1)
        return times

    def pair_counts(self, words: Sequence[Sequence[int]]) -> Array:
        """How often each two neighbouring words of the question are near each other in each
        passage, in either order.
        """
        hits = [np.isin(self.words, word) for word in words]
        pairs = list(pairwise(hits))
        counts = np.zeros((len(pairs), self.passage_count))
        for distance in range(1, PAIR_SPAN + 1):
            passages = self.passage_of_word[distance:]
            passages_before = self.passage_of_word[:-distance]
            is_within_one = passages == passages_before
            for number, (one, other) in enumerate(pairs):
                is_pair = _at_distance(one, other, distance)
                is_pair &= is_within_one
                of_pair = counts[number]
                np.add.at(of_pair, passages[is_pair], 1)
        return counts

    def with_neighbours(self, values: Array) -> Array:
        """Each passage's values and, with less weight, those of its neighbours in the same
        document. A row is a word's.
        """
        total = values.astype(float)
        for distance, weight in enumerate(NEIGHBOURS, 1):
            documents = self.document_of[distance:]
            documents_before = self.document_of[:-distance]
            is_same = documents == documents_before
            weights = weight * is_same
            values_before = values[:, :-distance]
            values_behind = values[:, distance:]
            total[:, distance:] += weights * values_before
            total[:, :-distance] += weights * values_behind
        return total


def _at_distance(one: Array, other: Array, distance: int) -> Array:
    """Where one of two words is so many words behind the other, in either order.

    Takes where each of them is. Says it for all words but the first ones.
    """
    one_before = one[:-distance]
    one_behind = one[distance:]
    other_before = other[:-distance]
    other_behind = other[distance:]
    is_pair = one_before & other_behind
    is_pair |= other_before & one_behind
    return is_pair


def _turn_lengths(document: Document) -> Array:
    """For each passage the length of its turn."""
    passages = document.passages
    turns = passages["turn"]
    first_turn = turns.min()
    numbers = turns - first_turn
    lengths: Array = np.bincount(numbers, passages["length"])
    of_passages: Array = lengths[numbers]
    return of_passages


def _has_assistant(document: Document) -> bool:
    """Whether somebody in a document is an assistant: where all have names, people talk with each
    other.
    """
    passages = document.passages
    is_person = passages["speaker"] != _TOOL
    has_name = passages["name"] > 0
    of_persons = has_name[is_person]
    return not of_persons.all()
