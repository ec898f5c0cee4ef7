"""A question to the index: its words as hashes, with other words for it, and the times that it
names.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from lasting_memory.days import WORLDS, local_days
from lasting_memory.recall import lexical, repetition
from lasting_memory.recall.cue_words import asks_for_answers, asks_for_newest
from lasting_memory.recall.format import accents_of, hash_of
from lasting_memory.recall.lexical import Array
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

    `words` are its words, each by the hashes of its stems. The first `own` of them are the query's
    own, the others are alternatives; `accents` has the number of each own word's accents
    (`format.accents_of`). The days of `times` are those of `zone`.

    `asks_newest`: it asks for what is so now, or was last. `asks_answers`: it comes back to what an
    assistant said.
    """

    words: list[list[int]]
    own: int
    times: list[lexical.Time]
    accents: list[int]
    zone: ZoneInfo = WORLDS
    asks_newest: bool = False
    asks_answers: bool = False

    @property
    def own_words(self) -> list[list[int]]:
        """The words of the query itself."""
        return self.words[: self.own]

    @property
    def hashes(self) -> set[int]:
        """The hashes of all words."""
        return _hashes(self.words)

    @property
    def own_hashes(self) -> set[int]:
        """The hashes of the query's own words."""
        return _hashes(self.own_words)

    @property
    def weights(self) -> Array:
        """The weight of each word: 1 for the query's own."""
        weights = np.full(len(self.words), ALTERNATIVE_WEIGHT)
        weights[: self.own] = 1.0
        return weights

    def fit(self, table: Array) -> Array:
        """How well the days of conversations fit a time in the question.

        Takes their rows of the table. Returns numbers from 0 to 1.
        """
        best = np.zeros(len(table))
        if not self.times:
            return best
        first = self._days(table["began"])
        last = self._days(table["ended"])
        for time in self.times:
            fits = time.fit(first, last)
            best = np.maximum(best, fits)
        return best

    def _days(self, seconds: Array) -> Array:
        """The days of times in seconds, as datetime64."""
        days = local_days(seconds.tolist(), self.zone)
        return np.array(days, "M8[D]")


def _hashes(words: Iterable[Iterable[int]]) -> set[int]:
    hashes = set[int]()
    for word in words:
        hashes.update(word)
    return hashes


def question(
    query: str,
    languages: Iterable[str],
    today: date,
    alternatives: Sequence[str] = (),
    period: lexical.Time | None = None,
    *,
    zone: ZoneInfo = WORLDS,
) -> Question:
    """A query as a question to an index with texts in these languages.

    `alternatives` are other words for it. `period` is a time beside those that the query names. The
    days of its times are those of the time zone.
    """
    text = query[:MAX_QUERY_CHARS]
    spoken = {lexical.language(text), *languages}
    times, rest = lexical.times(text, today)
    if period is not None:
        times.insert(0, period)
    own = lexical.query_words(rest, languages, MAX_QUERY_WORDS)
    own_stems = set[str]()
    for word in own:
        own_stems.update(word.stems)
    other_text = " ".join(alternatives)[:MAX_QUERY_CHARS]
    others = lexical.query_words(other_text, languages, MAX_QUERY_WORDS, own_stems)
    hashes = list[list[int]]()
    for word in (*own, *others):
        stem_hashes = [hash_of(stem) for stem in word.stems]
        hashes.append(stem_hashes)
    accents = [accents_of(word.accents) for word in own]
    return Question(
        hashes,
        len(own),
        times[:_MAX_TIMES],
        accents,
        zone,
        asks_newest=asks_for_newest(text, spoken),
        asks_answers=_is_message(text) or asks_for_answers(text, spoken),
    )


def _is_message(query: str) -> bool:
    """Whether a query is a message of a conversation that goes on, in any language: it says several
    things.
    """
    statements = 0
    for sentence, is_question in repetition.sentences(query):
        # An initial, as in "J. Smith", says nothing.
        letters = "".join(words(sentence))
        if not is_question and len(letters) > 1:
            statements += 1
    return statements >= _MESSAGE_STATEMENTS
