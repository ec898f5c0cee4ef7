"""A question to the index: a query's words as hashes, other words for them (alternatives), and the
times that the query names.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from lasting_memory.days import WORLDS, local_days
from lasting_memory.recall import lexical, repetition
from lasting_memory.recall.arrays import Days, Floats, Integers, Rows
from lasting_memory.recall.cue_words import asks_for_answers, asks_for_newest
from lasting_memory.recall.format import hash_of, hash_of_accents
from lasting_memory.words import words

# Most characters and distinct words of a query, and of its alternatives.
MAX_QUERY_CHARS = 2_000
MAX_QUERY_WORDS = 48
# Weight of alternatives that the asking model gives.
ALTERNATIVE_WEIGHT = 0.3
# Times of one question that count.
_MAX_TIMES = 4
# Sentences without a question mark that make a query a message. Who asks about the past writes one
# sentence, or says one thing before it; who goes on with what an assistant made says more.
_MESSAGE_STATEMENTS = 2


class Question(NamedTuple):
    """A query for the index.

    `words` are its words, each by the hashes of its stems. The first `own_count` of them are the
    query's own words, the others are alternatives; `accents` has the hash of each own word's
    accents (`format.hash_of_accents`). The days of `times` are those of `zone`.

    `asks_newest`: it asks for what is so now, or was last. `asks_answers`: it comes back to what an
    assistant said.
    """

    words: list[list[int]]
    own_count: int
    times: list[lexical.Time]
    accents: list[int]
    zone: ZoneInfo = WORLDS
    asks_newest: bool = False
    asks_answers: bool = False

    @property
    def own_words(self) -> list[list[int]]:
        """The words of the query itself."""
        return self.words[: self.own_count]

    @property
    def hashes(self) -> set[int]:
        """The hashes of all words."""
        return _hashes(self.words)

    @property
    def own_hashes(self) -> set[int]:
        """The hashes of the query's own words."""
        return _hashes(self.own_words)

    @property
    def weights(self) -> Floats:
        """The weight of each word: 1 for the query's own."""
        weights = np.full(len(self.words), ALTERNATIVE_WEIGHT)
        weights[: self.own_count] = 1.0
        return weights

    def fit(self, table: Rows) -> Floats:
        """How well the days of each conversation fit the best of the question's times.

        Takes the conversations' rows of the table. Returns a number from 0 to 1 for each; 0 for all
        if the question names no time.
        """
        best = np.zeros(len(table))
        if not self.times:
            return best
        first_days = self._days(table["began"])
        last_days = self._days(table["ended"])
        for time in self.times:
            fits = time.fit(first_days, last_days)
            best = np.maximum(best, fits)
        return best

    def _days(self, seconds: Integers) -> Days:
        """The days, in the question's time zone, of times in seconds since 1970, as datetime64."""
        days = local_days(seconds.tolist(), self.zone)
        return np.array(days, "M8[D]")


def _hashes(words: Iterable[Iterable[int]]) -> set[int]:
    """The hashes of all stems of these words."""
    hashes = set[int]()
    for word in words:
        hashes.update(word)
    return hashes


def build_question(
    query: str,
    languages: Iterable[str],
    today: date,
    alternatives: Sequence[str] = (),
    period: lexical.Time | None = None,
    *,
    zone: ZoneInfo = WORLDS,
) -> Question:
    """Makes a query a question to an index with texts in these languages.

    `alternatives` are other words for the query. `period` is a time that counts beside those that
    the query names. A day without a year is the last one before `today`. The days of the question's
    times are those of `zone`.
    """
    text = query[:MAX_QUERY_CHARS]
    query_language = lexical.language(text)
    times, text_without_times = lexical.times(text, today)
    if period is not None:
        times.insert(0, period)
    own_words = lexical.query_words(text_without_times, languages, MAX_QUERY_WORDS)
    own_stems = set[str]()
    hashes = list[list[int]]()
    accents = list[int]()
    for word in own_words:
        own_stems.update(word.stems)
        hashes.append(_stem_hashes(word))
        accents.append(hash_of_accents(word.accents))
    other_text = " ".join(alternatives)[:MAX_QUERY_CHARS]
    other_words = lexical.query_words(other_text, languages, MAX_QUERY_WORDS, own_stems)
    for word in other_words:
        hashes.append(_stem_hashes(word))
    cue_languages = {query_language, *languages}
    return Question(
        hashes,
        len(own_words),
        times[:_MAX_TIMES],
        accents,
        zone,
        asks_newest=asks_for_newest(text, cue_languages),
        asks_answers=_is_message(text) or asks_for_answers(text, cue_languages),
    )


def _stem_hashes(word: lexical.Word) -> list[int]:
    """The hashes of a word's stems."""
    return [hash_of(stem) for stem in word.stems]


def _is_message(query: str) -> bool:
    """Whether a query is a message of a conversation that goes on, in any language.

    It is if it has `_MESSAGE_STATEMENTS` sentences that are no questions.
    """
    statements = 0
    for sentence, is_question in repetition.sentences(query):
        if is_question:
            continue
        # An initial, as in "J. Smith", says nothing.
        letters = "".join(words(sentence))
        if len(letters) > 1:
            statements += 1
    return statements >= _MESSAGE_STATEMENTS
