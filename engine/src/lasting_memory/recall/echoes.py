"""Echoes: passages that only ask for, or repeat, what the person stated in another conversation.

They count less than the statement, and make none of its words common. Otherwise each question about
a fact would push down the conversation that told it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lasting_memory.recall.bm25 import Frequencies
from lasting_memory.recall.corpus import Corpus
from lasting_memory.recall.format import DAY_SECONDS
from lasting_memory.recall.lexical import Array

# New words of a passage with which it still may only ask for what was said, or repeat it.
NEW_WORDS = 2


class Echoes(NamedTuple):
    """Which passages are echoes; and of each, which of the question's own words count nothing
    there (`silent`, a row a word), because no passage that it repeats has them.
    """

    is_echo: Array
    silent: Array


def find_echoes(corpus: Corpus, words: Sequence[Sequence[int]]) -> Echoes:
    """The echoes of what has words of a question.

    An echo is, with words of the question in it, a passage

    - of the person's that has them in its questions only, or that has no word which the person had
      not said in an earlier conversation (beside a question: of whose words fewer than half are
      new), if at least half of them are in one passage that the person stated in another
      conversation;
    - or of an assistant's, no long explanation, if besides each of them was asked for in its
      conversation or is in that passage.
    """
    return _Search(corpus, words).echoes()


class _Search:
    """What decides which passages are echoes, of all passages at once. A row is a word's."""

    def __init__(self, corpus: Corpus, words: Sequence[Sequence[int]]) -> None:
        self._corpus = corpus
        by_user = corpus.by_user[corpus.passage_of_word]
        tells = corpus.tells[corpus.passage_of_word]
        in_statement = ~corpus.in_question
        user_asks = corpus.in_question & by_user
        user_states = in_statement & by_user & tells
        self._has = corpus.has(words)
        self._has_as_statement = corpus.has(words, in_statement)
        self._stated = corpus.has(words, user_states)
        asked = corpus.has(words, user_asks)
        self._asked_in_document = corpus.any_in_document(asked)

        states_any = self._stated.any(axis=0)
        self._sources = np.flatnonzero(states_any)
        days_began = corpus.rows["began"] // DAY_SECONDS
        self._days = days_began[corpus.document_of]
        self._conversations = corpus.conversations[corpus.document_of]
        self._only_asks = corpus.by_user & ~states_any
        self._repeats = corpus.by_assistant & corpus.tells & ~corpus.is_explained

    def echoes(self) -> Echoes:
        """The echoes among all passages."""
        count = len(self._corpus.lengths)
        is_echo = np.zeros(count, bool)
        silent = np.zeros((len(self._has), count), bool)
        for passage in self._candidates():
            repeated = self._repeated_by(passage)
            if len(repeated):
                is_echo[passage] = True
                silent[:, passage] = ~self._stated[:, repeated].any(axis=1)
        return Echoes(is_echo, silent)

    def _candidates(self) -> Array:
        """Passages that may be echoes."""
        corpus = self._corpus
        may_be = self._by_user_alone() | self._repeats
        has_word = self._has.any(axis=0)
        return np.flatnonzero(has_word & corpus.tells & corpus.with_assistant & may_be)

    def _by_user_alone(self) -> Array:
        """Passages of the person's that only ask, or say nothing new.

        One with several new words tells something, whatever it asks beside that.
        """
        corpus = self._corpus
        new_words = _new_words(corpus)
        question_words = np.bincount(
            corpus.passage_of_word, corpus.in_question, len(corpus.lengths)
        )
        is_mostly_known = (question_words > 0) & (2 * new_words < corpus.lengths)
        is_known = corpus.by_user & ((new_words == 0) | is_mostly_known)
        asks_or_repeats: Array = (self._only_asks | is_known) & (new_words <= NEW_WORDS)
        return asks_or_repeats

    def _repeated_by(self, passage: int) -> Array:
        """The person's statements, in other conversations, that a passage asks for or repeats."""
        sources = self._sources
        matched = self._matched(passage)
        stated = self._stated[np.ix_(matched, sources)]
        count_stated = stated.sum(axis=0)
        is_repeated = 2 * count_stated >= len(matched)
        is_repeated &= self._conversations[sources] != self._conversations[passage]
        if self._repeats[passage]:
            is_repeated &= self._says_no_more(passage, matched, stated)
        else:
            names = self._corpus.names
            is_repeated &= names[sources] == names[passage]
        if not self._only_asks[passage]:
            is_repeated &= self._days[sources] <= self._days[passage]
        repeated: Array = sources[is_repeated]
        return repeated

    def _says_no_more(self, passage: int, matched: Array, stated: Array) -> Array:
        """Whether an assistant's passage has no words of the question but those that a statement
        has, or that were asked for in its conversation. For each statement.
        """
        document = self._corpus.document_of[passage]
        was_asked = self._asked_in_document[matched, document]
        is_known = stated | was_asked[:, None]
        says_no_more: Array = is_known.all(axis=0)
        return says_no_more

    def _matched(self, passage: int) -> Array:
        """The question's words in a passage. Whether an assistant offers something more, as a
        question, says nothing.
        """
        stated = np.flatnonzero(self._has_as_statement[:, passage])
        if self._repeats[passage] and len(stated):
            return stated
        return np.flatnonzero(self._has[:, passage])


def _new_words(corpus: Corpus) -> Array:
    """How many words of each passage the person had not said in an earlier conversation."""
    passage_of_word = corpus.passage_of_word
    moments = _moments(corpus)
    moment_of_passage = moments[corpus.document_of]
    moment_of_word = moment_of_passage[passage_of_word]
    by_user = corpus.by_user[passage_of_word]

    terms, term_of_word = np.unique(corpus.words, return_inverse=True)
    first_said = np.full(len(terms), len(moments))
    said_terms = term_of_word[by_user]
    np.minimum.at(first_said, said_terms, moment_of_word[by_user])
    is_new = first_said[term_of_word] >= moment_of_word
    return np.bincount(passage_of_word, is_new, len(corpus.lengths))


def _moments(corpus: Corpus) -> Array:
    """For each document, which one its conversation is, in the order of time, from 0."""
    rows = corpus.rows
    days = rows["began"] // DAY_SECONDS
    order = np.lexsort((corpus.conversations, rows["version"], days))
    conversations = corpus.conversations[order]
    is_next = conversations[1:] != conversations[:-1]
    moments = np.empty(len(rows), int)
    moments[order] = np.cumsum([0, *is_next])
    return moments


def without_echoes(
    frequencies: Frequencies, corpus: Corpus, counts: Array, is_echo: Array
) -> Frequencies:
    """The frequencies without echoes: what repeats a word does not make it common.

    `counts` say how often each word is in each passage.
    """
    has_word = counts > 0
    tells = corpus.tells & ~is_echo
    told = corpus.any_in_document(has_word & tells)
    only_echoed = corpus.any_in_document(has_word & is_echo) & ~told
    # Of the conversations that are no candidates, as many only repeat it as of these.
    telling = told.sum(axis=1)
    share = telling / np.maximum(1, telling + only_echoed.sum(axis=1))
    share = np.where(share > 0, share, 1.0)
    gone = float((frequencies.conversations * (1 - share)).max(initial=0.0))

    echoing_passages = (has_word & is_echo).sum(axis=1)
    telling_passages = (has_word & tells).sum(axis=1)
    either = np.maximum(1, telling_passages + echoing_passages)
    passage_share = np.where(telling_passages > 0, telling_passages / either, 1.0)
    return frequencies._replace(
        conversations=frequencies.conversations * share,
        passages=frequencies.passages * passage_share,
        total=max(1, round(frequencies.total - gone)),
    )
