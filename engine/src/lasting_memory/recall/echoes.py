"""Echoes: passages that only ask for, or repeat, what the person stated in another conversation.

They count less than the statement, and make none of its words common. Otherwise each question about
a fact would push down the conversation that told it.

A passage is a few sentences of a turn. It is given by its number in a corpus, the passages of all
documents that may answer a question (`corpus.py`). An array has a value for each passage, unless it
says otherwise; a table has a row for each word of the question and a column for each passage. A
statement is a passage of the person's that has a word of the question outside of questions, and
tells something.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lasting_memory.recall.arrays import Flags, Floats, Integers, Numbers
from lasting_memory.recall.bm25 import Frequencies
from lasting_memory.recall.corpus import Corpus
from lasting_memory.recall.format import DAY_SECONDS

# New words of a passage with which it still may only ask for what was said, or repeat it.
NEW_WORDS = 2


class Echoes(NamedTuple):
    """`is_echo` says which passages are echoes.

    `silent` is a table. It says which words of the question count nothing in a passage, because the
    passage is an echo, and no statement that it repeats has them.
    """

    is_echo: Flags
    silent: Flags


def find_echoes(corpus: Corpus, words: Sequence[Sequence[int]]) -> Echoes:
    """Finds the echoes for a question of these words.

    An echo has words of the question, and at least half of them are in one statement of another
    conversation. Besides, it is a passage

    - of the person's that has these words in its questions only, or in which no word is new: the
      person had said all of them in an earlier conversation (beside a question: more than half of
      them);
    - or of an assistant's, no long explanation, of which each of these words was asked for in its
      conversation or is in the statement.
    """
    search = _EchoSearch(corpus, words)
    return search.echoes()


class _EchoSearch:
    """What decides which passages of a corpus are echoes."""

    def __init__(self, corpus: Corpus, words: Sequence[Sequence[int]]) -> None:
        passage_of_word = corpus.passage_of_word
        by_user = corpus.by_user[passage_of_word]
        tells = corpus.tells[passage_of_word]
        in_question = corpus.in_question
        in_statement = ~in_question
        is_asked = in_question & by_user
        is_stated = in_statement & by_user
        is_stated &= tells
        asked_words = corpus.has(words, is_asked)
        stated_words = corpus.has(words, is_stated)
        states_any = stated_words.any(axis=0)
        document_of = corpus.document_of
        days = _days_of(corpus)
        short_answers = corpus.by_assistant & ~corpus.is_explained

        self._corpus = corpus
        self._has = corpus.has(words)
        self._has_in_statement = corpus.has(words, in_statement)
        self._stated = stated_words
        self._asked_in_document = corpus.any_in_document(asked_words)
        self._statements = np.flatnonzero(states_any)
        self._days = days[document_of]
        self._conversations = corpus.conversations[document_of]
        self._only_asks = corpus.by_user & ~states_any
        self._is_answer = short_answers & corpus.tells

    def echoes(self) -> Echoes:
        """The echoes among all passages."""
        passage_count = self._corpus.passage_count
        shape = self._has.shape
        is_echo = np.zeros(passage_count, bool)
        silent = np.zeros(shape, bool)
        for passage in self._candidates():
            statements = self._repeated_by(passage)
            if not len(statements):
                continue
            stated_words = self._stated[:, statements]
            is_stated = stated_words.any(axis=1)
            is_echo[passage] = True
            silent[:, passage] = ~is_stated
        return Echoes(is_echo, silent)

    def _candidates(self) -> Integers:
        """The passages that may be echoes, by what they say themselves."""
        corpus = self._corpus
        has_word = self._has.any(axis=0)
        may_be_echo = self._asks_or_repeats() | self._is_answer
        may_be_echo &= has_word
        may_be_echo &= corpus.tells
        may_be_echo &= corpus.with_assistant
        return np.flatnonzero(may_be_echo)

    def _asks_or_repeats(self) -> Flags:
        """Whether each passage is the person's and only asks, or says nothing new.

        One with several new words tells something, whatever it asks beside that.
        """
        corpus = self._corpus
        new_words = _new_words(corpus)
        question_words = _count_by_passage(corpus, corpus.in_question)
        has_question = question_words > 0
        is_half_known = 2 * new_words < corpus.lengths
        says_nothing_new = new_words == 0
        says_nothing_new |= has_question & is_half_known
        asks_or_repeats: Flags = corpus.by_user & says_nothing_new
        asks_or_repeats |= self._only_asks
        asks_or_repeats &= new_words <= NEW_WORDS
        return asks_or_repeats

    def _repeated_by(self, passage: int) -> Integers:
        """The statements that a passage asks for or repeats.

        They are in other conversations, and have at least half of the passage's words of the
        question.
        """
        statements = self._statements
        words = self._words_of(passage)
        cells = np.ix_(words, statements)
        stated_words = self._stated[cells]
        shared_counts = stated_words.sum(axis=0)
        is_repeated = shared_counts >= len(words) / 2
        conversations = self._conversations
        conversation = conversations[passage]
        is_repeated &= conversations[statements] != conversation
        if self._is_answer[passage]:
            is_repeated &= self._says_no_more(passage, words, stated_words)
        else:
            # Only the person themselves repeats their statement.
            names = self._corpus.names
            name = names[passage]
            is_repeated &= names[statements] == name
        # One can ask for what is said later, but not repeat it.
        if not self._only_asks[passage]:
            days = self._days
            day = days[passage]
            is_repeated &= days[statements] <= day
        repeated_statements: Integers = statements[is_repeated]
        return repeated_statements

    def _says_no_more(self, passage: int, words: Integers, stated_words: Flags) -> Flags:
        """For each statement, whether it accounts for an assistant's passage: each of the passage's
        words of the question is in the statement, or was asked for in the passage's conversation.

        `words` are the numbers of these words. `stated_words` says which statement has which of
        them.
        """
        document = self._corpus.document_of[passage]
        was_asked = self._asked_in_document[words, document]
        as_column = was_asked[:, None]
        is_accounted_for = stated_words | as_column
        says_no_more: Flags = is_accounted_for.all(axis=0)
        return says_no_more

    def _words_of(self, passage: int) -> Integers:
        """The numbers of the question's words that a passage has.

        Of an assistant's passage only those outside of questions, if there are any: whether it
        offers something more, as a question, says nothing.
        """
        if self._is_answer[passage]:
            is_stated = self._has_in_statement[:, passage]
            if is_stated.any():
                return np.flatnonzero(is_stated)
        has_word = self._has[:, passage]
        return np.flatnonzero(has_word)


def _count_by_passage(corpus: Corpus, is_counted: Flags) -> Numbers:
    """How many of its words count, for each passage. `is_counted` says it of each word spoken."""
    passages = corpus.passage_of_word
    return np.bincount(passages, is_counted, corpus.passage_count)


def _new_words(corpus: Corpus) -> Numbers:
    """How many words of each passage the person had not said in an earlier conversation."""
    moments = _moments(corpus)
    passage_of_word = corpus.passage_of_word
    moment_of_passage = moments[corpus.document_of]
    moment_of_word = moment_of_passage[passage_of_word]
    by_user = corpus.by_user[passage_of_word]

    terms, term_of_word = np.unique(corpus.words, return_inverse=True)
    terms_by_user = term_of_word[by_user]
    moments_by_user = moment_of_word[by_user]
    # For each term the moment at which the person said it first; later than all if they never did.
    never = len(moments)
    first_moments = np.full(len(terms), never)
    np.minimum.at(first_moments, terms_by_user, moments_by_user)
    first_moment_of_word = first_moments[term_of_word]
    is_new = first_moment_of_word >= moment_of_word
    return _count_by_passage(corpus, is_new)


def _days_of(corpus: Corpus) -> Integers:
    """For each document, the day on which its conversation began, counted since 1970."""
    seconds = corpus.rows["began"]
    days: Integers = seconds // DAY_SECONDS
    return days


def _moments(corpus: Corpus) -> Integers:
    """For each document, the number of its conversation in the order of time, from 0."""
    days = _days_of(corpus)
    versions = corpus.rows["version"]
    keys = (corpus.conversations, versions, days)
    order = np.lexsort(keys)
    conversations = corpus.conversations[order]
    later_conversations = conversations[1:]
    is_next = later_conversations != conversations[:-1]
    moments = np.zeros(len(order), int)
    later_documents = order[1:]
    moments[later_documents] = np.cumsum(is_next)
    return moments


def without_echoes(
    frequencies: Frequencies, corpus: Corpus, counts: Floats, is_echo: Flags
) -> Frequencies:
    """The frequencies of the question's words without echoes: what repeats a word does not make it
    common.

    `counts` say how often each word is in each passage.
    """
    has_word = counts > 0
    tells = corpus.tells & ~is_echo
    tells_word = has_word & tells
    echoes_word = has_word & is_echo
    passage_shares = _telling_shares(tells_word, echoes_word)

    is_told = corpus.any_in_document(tells_word)
    is_echoed = corpus.any_in_document(echoes_word)
    is_only_echoed = is_echoed & ~is_told
    # Of the conversations that are no candidates, as many only repeat a word as of these.
    shares = _telling_shares(is_told, is_only_echoed)
    conversations = frequencies.conversations
    only_echoing = conversations * (1 - shares)
    most_echoing = float(only_echoing.max(initial=0.0))
    total = round(frequencies.total - most_echoing)
    return frequencies._replace(
        conversations=conversations * shares,
        passages=frequencies.passages * passage_shares,
        total=max(1, total),
    )


def _telling_shares(tells: Flags, echoes: Flags) -> Floats:
    """For each word, the share of the texts that tell it among those that tell or echo it; 1 if
    none tells it.

    Both tables say it of each word, by row, and each text.
    """
    telling_counts = tells.sum(axis=1)
    echoing_counts = echoes.sum(axis=1)
    all_counts = telling_counts + echoing_counts
    shares = telling_counts / np.maximum(1, all_counts)
    is_told = telling_counts > 0
    return np.where(is_told, shares, 1.0)
