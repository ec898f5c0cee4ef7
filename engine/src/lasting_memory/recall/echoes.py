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
        by_user = corpus.by_user[corpus.passage_of_word]
        tells = corpus.tells[corpus.passage_of_word]
        in_statement = ~corpus.in_question
        user_asks = corpus.in_question & by_user
        user_states = in_statement & by_user & tells
        asked = corpus.has(words, user_asks)
        stated = corpus.has(words, user_states)
        states_any = stated.any(axis=0)
        is_short = ~corpus.is_explained
        days = _days_of(corpus)

        self._corpus = corpus
        self._has = corpus.has(words)
        self._has_as_statement = corpus.has(words, in_statement)
        self._stated = stated
        self._asked_in_document = corpus.any_in_document(asked)
        self._sources = np.flatnonzero(states_any)
        self._days = days[corpus.document_of]
        self._conversations = corpus.conversations[corpus.document_of]
        self._only_asks = corpus.by_user & ~states_any
        self._repeats = corpus.by_assistant & corpus.tells & is_short

    def echoes(self) -> Echoes:
        """The echoes among all passages."""
        is_echo = np.zeros(self._corpus.passage_count, bool)
        silent = np.zeros(self._has.shape, bool)
        for passage in self._candidates():
            sources = self._repeated_by(passage)
            if not len(sources):
                continue
            stated = self._stated[:, sources]
            is_stated = stated.any(axis=1)
            is_echo[passage] = True
            silent[:, passage] = ~is_stated
        return Echoes(is_echo, silent)

    def _candidates(self) -> Array:
        """Passages that may be echoes."""
        corpus = self._corpus
        has_word = self._has.any(axis=0)
        may_be = self._by_user_alone() | self._repeats
        may_be &= has_word
        may_be &= corpus.tells
        may_be &= corpus.with_assistant
        return np.flatnonzero(may_be)

    def _by_user_alone(self) -> Array:
        """Passages of the person's that only ask, or say nothing new.

        One with several new words tells something, whatever it asks beside that.
        """
        corpus = self._corpus
        new_words = _new_words(corpus)
        question_words = _count_by_passage(corpus, corpus.in_question)
        has_question = question_words > 0
        is_half_known = 2 * new_words < corpus.lengths
        says_nothing_new = new_words == 0
        says_nothing_new |= has_question & is_half_known
        asks_or_repeats: Array = corpus.by_user & says_nothing_new
        asks_or_repeats |= self._only_asks
        asks_or_repeats &= new_words <= NEW_WORDS
        return asks_or_repeats

    def _repeated_by(self, passage: int) -> Array:
        """The person's statements, in other conversations, that a passage asks for or repeats."""
        sources = self._sources
        matched = self._matched(passage)
        stated = self._stated[np.ix_(matched, sources)]
        count_stated = stated.sum(axis=0)
        least = len(matched) / 2
        is_repeated = count_stated >= least
        conversation = self._conversations[passage]
        is_repeated &= self._conversations[sources] != conversation
        if self._repeats[passage]:
            is_repeated &= self._says_no_more(passage, matched, stated)
        else:
            names = self._corpus.names
            name = names[passage]
            is_repeated &= names[sources] == name
        if not self._only_asks[passage]:
            day = self._days[passage]
            is_repeated &= self._days[sources] <= day
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
        if self._repeats[passage]:
            is_stated = self._has_as_statement[:, passage]
            if is_stated.any():
                return np.flatnonzero(is_stated)
        is_there = self._has[:, passage]
        return np.flatnonzero(is_there)


def _count_by_passage(corpus: Corpus, is_counted: Array) -> Array:
    """How many words of each passage count."""
    return np.bincount(corpus.passage_of_word, is_counted, corpus.passage_count)


def _new_words(corpus: Corpus) -> Array:
    """How many words of each passage the person had not said in an earlier conversation."""
    moments = _moments(corpus)
    moment_of_passage = moments[corpus.document_of]
    moment_of_word = moment_of_passage[corpus.passage_of_word]
    by_user = corpus.by_user[corpus.passage_of_word]

    terms, term_of_word = np.unique(corpus.words, return_inverse=True)
    never = len(moments)
    first_said = np.full(len(terms), never)
    said_terms = term_of_word[by_user]
    said_moments = moment_of_word[by_user]
    np.minimum.at(first_said, said_terms, said_moments)
    first_said_of_word = first_said[term_of_word]
    is_new = first_said_of_word >= moment_of_word
    return _count_by_passage(corpus, is_new)


def _days_of(corpus: Corpus) -> Array:
    """For each document, the day on which its conversation began."""
    seconds = corpus.rows["began"]
    days: Array = seconds // DAY_SECONDS
    return days


def _moments(corpus: Corpus) -> Array:
    """For each document, which one its conversation is, in the order of time, from 0."""
    days = _days_of(corpus)
    versions = corpus.rows["version"]
    order = np.lexsort((corpus.conversations, versions, days))
    conversations = corpus.conversations[order]
    later_ones = conversations[1:]
    is_next = later_ones != conversations[:-1]
    moments = np.zeros(len(order), int)
    later_places = order[1:]
    moments[later_places] = np.cumsum(is_next)
    return moments


def without_echoes(
    frequencies: Frequencies, corpus: Corpus, counts: Array, is_echo: Array
) -> Frequencies:
    """The frequencies without echoes: what repeats a word does not make it common.

    `counts` say how often each word is in each passage.
    """
    has_word = counts > 0
    tells = corpus.tells & ~is_echo
    telling = has_word & tells
    echoing = has_word & is_echo
    passage_share = _share(telling, echoing)

    told = corpus.any_in_document(telling)
    echoed = corpus.any_in_document(echoing)
    only_echoed = echoed & ~told
    # Of the conversations that are no candidates, as many only repeat it as of these.
    share = _share(told, only_echoed)
    gone = frequencies.conversations * (1 - share)
    most_gone = float(gone.max(initial=0.0))
    total = round(frequencies.total - most_gone)
    return frequencies._replace(
        conversations=frequencies.conversations * share,
        passages=frequencies.passages * passage_share,
        total=max(1, total),
    )


def _share(telling: Array, echoing: Array) -> Array:
    """For each word, the share of texts that tell it among these and those that repeat it; 1 if
    none tells it.
    """
    telling_texts = telling.sum(axis=1)
    echoing_texts = echoing.sum(axis=1)
    either = telling_texts + echoing_texts
    shares = telling_texts / np.maximum(1, either)
    return np.where(telling_texts > 0, shares, 1.0)
