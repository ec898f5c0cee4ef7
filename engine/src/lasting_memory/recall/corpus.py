"""The passages of some documents as arrays, one after the other, in which questions look for words.

A document is a conversation, or a part of a long one. A passage is a few sentences of one of its
turns. An array has a place for each word that was spoken, each passage or each document. What is
about documents is made of what is about their passages by `any_in_document` and its like.

A word of a question is given by the hashes of its stems. A table has a row for each of these words
and a column for each passage.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lasting_memory.recall.arrays import Flags, Floats, Held, Integers, Rows
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
        tables = [document.passages for document in documents]
        passages = np.concatenate(tables)
        self._set_documents(documents)
        self._set_words(documents, passages)
        self._set_passages(documents, passages)
        self._set_weights(asks_answers=asks_answers)

    def _set_documents(self, documents: Sequence[Document]) -> None:
        """Sets the attributes that are about documents, and `document_of`."""
        rows = list[Rows]()
        sizes = list[int]()
        starts = [0]
        passage_count = 0
        for document in documents:
            size = len(document.passages)
            passage_count += size
            rows.append(document.row)
            sizes.append(size)
            starts.append(passage_count)
        numbers = np.arange(len(documents))
        table = np.concatenate(rows)
        self.passage_count = passage_count
        self.rows = table
        self.conversations = conversation_of(table["key"])
        self.starts = np.array(starts)
        self.document_of = np.repeat(numbers, sizes)

    def _set_words(self, documents: Sequence[Document], passages: Rows) -> None:
        """Sets the attributes that are about the words that were spoken."""
        words = list[Integers]()
        marks = list[Integers]()
        for document in documents:
            words.append(document.words)
            marks.append(document.marks)
        numbers = np.arange(len(passages))
        sizes = passages["words"]
        self.words = np.concatenate(words)
        self.passage_of_word = np.repeat(numbers, sizes)
        all_marks = np.concatenate(marks)
        question_marks = all_marks & IN_QUESTION
        self.in_question = question_marks.astype(bool)
        self.accents = all_marks >> ACCENTS_SHIFT

    def _set_passages(self, documents: Sequence[Document], passages: Rows) -> None:
        """Sets the attributes that are about passages, but their weights."""
        kinds = passages["kind"]
        speakers = passages["speaker"]
        words = passages["words"]
        self.lengths = words.astype(float)
        self.names = passages["name"]
        self.tells = kinds == TELLS
        self.kind_weights = TENTHS[kinds] / 10
        self.by_user = speakers == _USER
        self.by_assistant = speakers == _ASSISTANT

        lengths = list[Floats]()
        has_assistant = list[bool]()
        for document in documents:
            lengths.append(_turn_lengths(document))
            has_assistant.append(_has_assistant(document))
        turn_lengths = np.concatenate(lengths)
        is_long = turn_lengths > EXPLAINED_LENGTH
        is_tool = speakers == _TOOL
        is_long_answer = self.by_assistant & is_long
        self.is_explained = is_tool | is_long_answer
        in_document = np.array(has_assistant)
        self.with_assistant = in_document[self.document_of]

    def _set_weights(self, *, asks_answers: bool) -> None:
        """Sets `weights`: how much each passage counts."""
        weights = self.kind_weights.copy()
        is_explained = self.is_explained
        weights[is_explained] = EXPLAINED_WEIGHT
        if asks_answers:
            # What only repeats something at length is never what was asked for.
            is_asked_for = is_explained & self.tells
            weights[is_asked_for] = ASKED_EXPLAINED_WEIGHT
        self.weights = weights

    def any_in_document(self, of_passages: Flags) -> Flags:
        """For each document, whether the value of any of its passages is true."""
        return self._in_document(np.logical_or, of_passages)

    def most_in_document(self, of_passages: Floats) -> Floats:
        """For each document, the largest of its passages' values."""
        return self._in_document(np.maximum, of_passages)

    def sum_in_document(self, of_passages: Floats) -> Floats:
        """For each document, the sum of its passages' values."""
        return self._in_document(np.add, of_passages)

    def _in_document(self, joining: np.ufunc, of_passages: npt.NDArray[Held]) -> npt.NDArray[Held]:
        """For each document, the values of its passages, joined into one of the same kind by this
        function.

        The last dimension of `of_passages` is that of the passages.
        """
        first_passages = self.starts[:-1]
        of_documents: npt.NDArray[Held] = joining.reduceat(of_passages, first_passages, axis=-1)
        return of_documents

    def counts(self, words: Sequence[Sequence[int]]) -> Floats:
        """How often each word is in each passage. The name of a passage's speaker is one of its
        words.
        """
        named_passages = np.flatnonzero(self.names)
        names = self.names[named_passages]
        terms = np.concatenate([self.words, names])
        places = np.concatenate([self.passage_of_word, named_passages])
        return word_counts(words, terms, places, self.passage_count)

    def has(self, words: Sequence[Sequence[int]], where: Flags | None = None) -> Flags:
        """Whether each word was spoken in each passage.

        With `where` only those spoken words count for which it is true.
        """
        terms = self.words
        places = self.passage_of_word
        if where is not None:
            terms = terms[where]
            places = places[where]
        counts = word_counts(words, terms, places, self.passage_count)
        return counts > 0

    def spelled_otherwise(self, question: Question) -> Floats:
        """How often each of a question's own words is in each passage with other accents.

        It is 0 for a word that nobody spells as the question does.
        """
        spelled_words = self.words
        spelled_accents = self.accents
        shape = (question.own_count, self.passage_count)
        counts = np.zeros(shape)
        asks_with_accents = any(question.accents)
        has_accents = spelled_accents.any()
        if not asks_with_accents and not has_accents:
            return counts
        words = question.own_words
        for number, word in enumerate(words):
            is_word = np.isin(spelled_words, word)
            accents = question.accents[number]
            is_same = spelled_accents == accents
            is_as_asked = is_word & is_same
            if not is_as_asked.any():
                continue
            is_otherwise = is_word & ~is_same
            passages = self.passage_of_word[is_otherwise]
            counts_of_word = counts[number]
            np.add.at(counts_of_word, passages, 1)
        return counts

    def pair_counts(self, words: Sequence[Sequence[int]]) -> Floats:
        """How often two neighbouring words of the question are near each other in each passage, in
        either order. Returns a row for each such pair of words.
        """
        spelled_words = self.words
        passage_of_word = self.passage_of_word
        is_word = list[Flags]()
        for word in words:
            is_this_word = np.isin(spelled_words, word)
            is_word.append(is_this_word)
        pairs = list(pairwise(is_word))
        shape = (len(pairs), self.passage_count)
        counts = np.zeros(shape)
        for distance in range(1, PAIR_SPAN + 1):
            passages = passage_of_word[distance:]
            earlier_passages = passage_of_word[:-distance]
            is_within_passage = passages == earlier_passages
            for number, pair in enumerate(pairs):
                is_pair = _is_at_distance(*pair, distance)
                is_pair &= is_within_passage
                pair_passages = passages[is_pair]
                counts_of_pair = counts[number]
                np.add.at(counts_of_pair, pair_passages, 1)
        return counts

    def with_neighbours(self, values: Floats) -> Floats:
        """Adds to each passage's values, with less weight, those of its neighbours in the same
        document. A row of `values` is a word's, a column a passage's. Returns a new table.
        """
        document_of = self.document_of
        sums = values.astype(float)
        for distance, weight in enumerate(NEIGHBOURS, 1):
            documents = document_of[distance:]
            earlier_documents = document_of[:-distance]
            is_same = documents == earlier_documents
            weights = weight * is_same
            # Parts of `sums`: what is added to these is added to it.
            later_sums = sums[:, distance:]
            earlier_sums = sums[:, :-distance]
            earlier_values = values[:, :-distance]
            later_values = values[:, distance:]
            later_sums += weights * earlier_values
            earlier_sums += weights * later_values
        return sums


def _is_at_distance(is_one: Flags, is_other: Flags, distance: int) -> Flags:
    """Where two words stand so many places apart, in either order.

    Takes, for each place of a text, whether it is the one word, and whether it is the other.
    Returns it for the later place of the two, so it has no value for the first places.
    """
    one_before = is_one[:-distance]
    one_behind = is_one[distance:]
    other_before = is_other[:-distance]
    other_behind = is_other[distance:]
    is_pair = one_before & other_behind
    is_pair |= other_before & one_behind
    return is_pair


def _turn_lengths(document: Document) -> Floats:
    """For each passage of a document, the length of its turn."""
    passages = document.passages
    turns = passages["turn"]
    passage_lengths = passages["length"]
    numbers = turns - turns.min()
    lengths = np.bincount(numbers, passage_lengths)
    turn_lengths: Floats = lengths[numbers]
    return turn_lengths


def _has_assistant(document: Document) -> bool:
    """Whether somebody who speaks in a document is an assistant.

    Where all speakers, but tools, have names, people talk with each other.
    """
    passages = document.passages
    is_tool = passages["speaker"] == _TOOL
    has_name = passages["name"] > 0
    has_name_or_is_tool = has_name | is_tool
    return not has_name_or_is_tool.all()
