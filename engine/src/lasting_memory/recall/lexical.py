"""Texts as comparable words: by language, without stop words, stemmed; their ranking; and the times
that a question names.

What a word is says `lasting_memory.words`. Its letters tell the language of a text; where they do
not, the stop words do, among those that both PyStemmer and bm25s know. Times are days, months and
years as English writes them, ISO dates, and dates written
8.5.2023.
"""

import logging
import re
import threading
from calendar import monthrange
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import date
from operator import itemgetter
from typing import Any, NamedTuple

import bm25s
import bm25s.stopwords as lists
import numpy as np
import numpy.typing as npt
import regex
import Stemmer

from lasting_memory.recall import bengali
from lasting_memory.recall.function_words import FUNCTION_WORDS, MORE_FUNCTION_WORDS
from lasting_memory.words import Term, ascii_terms, comparable, is_unspaced, search_terms, words

Array = npt.NDArray[Any]

logging.getLogger("bm25s").setLevel(logging.WARNING)  # it would report every index

DEFAULT_LANGUAGE = "english"
_OTHERS = "german dutch french spanish portuguese italian russian swedish norwegian danish turkish"
# The long list of English is worth 5 points of 100 on LoCoMo.
_LISTS = {DEFAULT_LANGUAGE: "EN_PLUS", **{name: name.upper() for name in _OTHERS.split()}}
_WORDS = {
    name: [str(word) for word in getattr(lists, f"STOPWORDS_{which}")]
    for name, which in _LISTS.items()
}
_WORDS |= {name: text.split() for name, text in FUNCTION_WORDS.items()}
for _name, _text in MORE_FUNCTION_WORDS.items():
    _WORDS[_name] = [*_WORDS[_name], *_text.split()]
STOP_WORDS = {name: frozenset(map(comparable, found)) for name, found in _WORDS.items()}
# What stems the words of a search; of facts only those whose endings do not tell a son from a
# daughter. Ukrainian has the endings of Russian; what stems Hindi drops the vowels at the end.
_FACT_STEMMERS = {name: name for name in _LISTS} | {"ukrainian": "russian"}
_SEARCH_STEMMERS = _FACT_STEMMERS | {
    name: name for name in ("arabic", "armenian", "greek", "persian", "tamil")
}
# Characters of a text's beginning that decide its language.
_SAMPLE_CHARS = 5_000
# Languages by the letters that they are written with, the more special ones first. Where these are
# more than a share of all letters, a text is in the language.
_LETTERS = (
    ("persian", "[\u067e\u0686\u0698\u06af\u06a9\u06cc]", 0.02),
    ("arabic", r"\p{Arabic}", 0.5),
    ("hindi", r"\p{Devanagari}", 0.5),
    ("bengali", r"\p{Bengali}", 0.5),
    ("tamil", r"\p{Tamil}", 0.5),
    ("telugu", r"\p{Telugu}", 0.5),
    ("ukrainian", "[\u0454\u0456\u0457\u0491]", 0.02),
    ("russian", r"\p{Cyrillic}", 0.5),
    ("greek", r"\p{Greek}", 0.5),
    ("armenian", r"\p{Armenian}", 0.5),
    ("vietnamese", "[\u1ea0-\u1ef9\u01a1\u01b0\u0111]", 0.05),
)
_SPECIAL = [(name, regex.compile(letters), least_share) for name, letters, least_share in _LETTERS]
_LETTER = regex.compile(r"[\p{L}\p{Mn}\p{Mc}]")


def language(text: str) -> str:
    """The language of a text by its letters, or the one whose stop words are most frequent in it;
    English where none is.
    """
    sample = comparable(text[:_SAMPLE_CHARS])
    by_letters = _language_by_letters(sample)
    if by_letters:
        return by_letters
    counts = Counter(words(sample))
    best = DEFAULT_LANGUAGE
    most = _count_in(STOP_WORDS[best], counts)
    for name, stop_words in STOP_WORDS.items():
        count = _count_in(stop_words, counts)
        if count > most:
            best = name
            most = count
    return best


def _language_by_letters(sample: str) -> str:
    """The language that special letters of a text tell; "" where they tell none."""
    if sample.isascii():
        return ""
    letters = _LETTER.findall(sample)
    for name, special, least_share in _SPECIAL:
        special_letters = special.findall(sample)
        least = least_share * len(letters)
        if len(special_letters) > least:
            return name
    return ""


def _count_in(stop_words: frozenset[str], counts: Counter[str]) -> int:
    """How often these stop words are in a text, of which the counts are."""
    total = 0
    for word in stop_words.intersection(counts):
        total += counts[word]
    return total


def stems(text: str, language: str) -> list[str]:
    """The words of a text in this language, in order, stemmed, without stop words. Accents make a
    difference: for facts.
    """
    terms = _telling(text, language)
    spelled = [term.spelled for term in terms]
    stemmer = _FACT_STEMMERS.get(language)
    return _stemmed(spelled, stemmer)


def search_stems(text: str, language: str) -> list[Term]:
    """The words of a text in this language as a search compares them, in order, stemmed, without
    stop words.
    """
    found = list[Term]()
    if text.isascii():
        for stem in ascii_search_stems(text, language):
            found.append(Term(stem, stem))
        return found
    terms = _telling(text, language)
    texts = [term.text for term in terms]
    stemmer = _SEARCH_STEMMERS.get(language)
    stemmed = _search_stemmed(texts, stemmer)
    for term, stem in zip(terms, stemmed, strict=True):
        found.append(Term(stem, term.spelled, term.accents))
    return found


def ascii_search_stems(text: str, language: str) -> list[str]:
    """The texts of `search_stems` of an ASCII text, which has no accents. Quicker."""
    stop_words = STOP_WORDS.get(language, frozenset())
    terms = ascii_terms(text.lower())
    telling = [term for term in terms if term not in stop_words]
    stemmer = _SEARCH_STEMMERS.get(language)
    return _stemmed(telling, stemmer)


class Word(NamedTuple):
    """A word of a query: the stems that it has in some languages, and its accents."""

    stems: tuple[str, ...]
    accents: str


def query_words(
    query: str, languages: Iterable[str], most: int, known: Collection[str] = ()
) -> list[Word]:
    """The distinct words of a query, at most so many, by their stems in these languages. Texts are
    stemmed in their own.

    Words with a stem of `known` are left out.

    Of writing without spaces four terms count as one word.
    """
    spoken = language(query)
    terms = _telling(query, spoken)
    words_of_terms = _words_of_terms(terms, {*languages, spoken})
    known_stems = frozenset(known)
    words = dict[tuple[str, ...], Word]()
    room = float(most)
    for term, word in zip(terms, words_of_terms, strict=True):
        is_new = known_stems.isdisjoint(word.stems)
        if not is_new or word.stems in words:
            continue
        share = _TERM_SHARE if is_unspaced(term.text) else 1.0
        room -= share
        if room < 0:
            break
        words[word.stems] = word
    return list(words.values())


def _words_of_terms(terms: Sequence[Term], languages: Collection[str]) -> list[Word]:
    """Each term as a word, with its stems in these languages."""
    texts = [term.text for term in terms]
    stemmers = {_SEARCH_STEMMERS.get(name) for name in languages}
    stemmed_texts = [_search_stemmed(texts, stemmer) for stemmer in stemmers]
    words = list[Word]()
    for place, term in enumerate(terms):
        stems = set[str]()
        for stemmed in stemmed_texts:
            stems.add(stemmed[place])
        in_order = tuple(sorted(stems))
        word = Word(in_order, term.accents)
        words.append(word)
    return words


# A word of writing without spaces is two characters, and each is in two terms.
_TERM_SHARE = 0.25


def _telling(text: str, language: str) -> list[Term]:
    """The words of a text but the stop words of a language."""
    stop_words = STOP_WORDS.get(language, frozenset())
    terms = search_terms(text)
    return [term for term in terms if term.spelled not in stop_words]


def _search_stemmed(found: list[str], stemmer: str | None) -> list[str]:
    """Words of a search, stemmed. Letters tell those of Bengali in a text of any language."""
    stemmed = list(_stemmed(found, stemmer))
    for place, word in enumerate(found):
        if bengali.is_bengali(word):
            stemmed[place] = bengali.stem(word)
    return stemmed


def _stemmed(found: list[str], stemmer: str | None) -> list[str]:
    if stemmer is None or not found:
        return found
    known: dict[str, Any] = _stemmers.__dict__
    if stemmer not in known:
        known[stemmer] = Stemmer.Stemmer(stemmer)
    own_stemmer = known[stemmer]
    stemmed: list[str] = own_stemmer.stemWords(found)
    return stemmed


# A stemmer is of one thread: it keeps what it has stemmed.
_stemmers = threading.local()


def rank(query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    """The texts that share a word with the query, best first, as (index, score above 0), by BM25
    (Robertson and others) in Lucene's variant, as `bm25s` implements it. Blocks for milliseconds
    per thousand texts.
    """
    sample = " ".join(texts)[:_SAMPLE_CHARS]
    spoken = language(sample)
    words = _exact(query, spoken)
    corpus = [_exact(text, spoken) for text in texts]
    if not words or not any(corpus):
        return []
    index = bm25s.BM25()
    index.index(corpus, show_progress=False)
    scores = index.get_scores(words)
    hits = list[tuple[int, float]]()
    for hit in enumerate(scores.tolist()):
        _, score = hit
        if score > 0:
            hits.append(hit)
    hits.sort(key=itemgetter(1), reverse=True)
    return hits


def _exact(text: str, language: str) -> list[str]:
    """The words of a text for BM25. One with accents is two, so that the same spelling comes
    first.
    """
    found = list[str]()
    for term in search_stems(text, language):
        found.append(term.text)
        if term.accents:
            found.append(f"{term.text} {term.accents}")
    return found


_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_SHORT = [*(name[:3] for name in _MONTHS), "sept"]
# Alone these are no months.
_WORDS_TOO = frozenset({"march", *_SHORT})
# Fit of a conversation at most so many days after a time: people tell what they did.
_SOON = 0.7
_SOON_DAYS = 3


class Time(NamedTuple):
    """A time that a question names: from a first day to a last one."""

    first: date
    last: date

    def fit(self, first: Array, last: Array) -> Array:
        """How well conversations fit, by their first and last days (datetime64): 0 to 1."""
        own_first = np.datetime64(self.first, "D")
        own_last = np.datetime64(self.last, "D")
        soon = own_last + _SOON_DAYS
        is_before = last < own_first
        is_within = first <= own_last
        is_soon = first <= soon
        cases = [is_before, is_within, is_soon]
        return np.select(cases, [0.0, 1.0, _SOON])


def _written(match: re.Match[str], today: date) -> Time:
    """A day, a month or a year; without a year, the last one.

    Raises `ValueError` for what is no time: "May" and "march" alone are no months.
    """
    parts = {name: text for name, text in match.groupdict().items() if text}
    name = parts.get("month", "")
    if not name:
        return _whole_year(parts["year"])
    stands_alone = len(parts) == 1
    if stands_alone and name in _WORDS_TOO:
        raise ValueError(f"{name} is a word here.")
    month = _month(name)
    digits = parts.get("day") or parts.get("day_after")
    day = int(digits or 0)
    year = today.year
    if "year" in parts:
        year = int(parts["year"])
    elif _is_later_in_year(month, day, today):
        year -= 1
    if day:
        named_day = date(year, month, day)
        return Time(named_day, named_day)
    return _whole_month(year, month)


def _is_later_in_year(month: int, day: int, today: date) -> bool:
    """Whether a day of a year, or with 0 its month, is later in it than today."""
    if month == today.month:
        return day > today.day
    return month > today.month


def _whole_year(digits: str) -> Time:
    year = int(digits)
    first = date(year, 1, 1)
    last = date(year, 12, 31)
    return Time(first, last)


def _whole_month(year: int, month: int) -> Time:
    _, last_day = monthrange(year, month)
    first = date(year, month, 1)
    last = date(year, month, last_day)
    return Time(first, last)


def _month(name: str) -> int:
    """The number of a month, of its name, the beginning of its name, or its digits."""
    if name.isdigit():
        return int(name)
    beginnings = [month[:3] for month in _MONTHS]
    place = beginnings.index(name[:3])
    return place + 1


_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_NTH = r"(?:st|nd|rd|th)?"
_NAME = rf"(?P<month>{'|'.join((*_MONTHS, *_SHORT))})\b\.?"
_BEFORE = (
    rf"(?:(?P<day>\d\d?){_NTH}(?: of)?|(?P<within>in|since|during|until|by|of|early|late|mid))"
)
_FORMS = (
    rf"\b{_YEAR}-(?P<month>\d\d?)-(?P<day>\d\d?)\b",
    rf"\b(?P<day>\d\d?)\.(?P<month>\d\d?)\.{_YEAR}",
    rf"\b(?:{_BEFORE} )?{_NAME}(?: (?P<day_after>\d\d?){_NTH}\b)?(?:,? (?:of )?{_YEAR})?",
    rf"\b{_YEAR}",
)


def period(since: str | None, until: str | None) -> Time | None:
    """The time between two ISO days, each of which may be left out. Raises `ValueError`, which
    names what is none.
    """
    if not since and not until:
        return None
    first = date.min
    last = date.max
    if since:
        first = _day("since", since)
    if until:
        last = _day("until", until)
    return Time(first, max(first, last))


def _day(name: str, text: str) -> date:
    """An ISO day. Raises `ValueError`, which names what is none."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        fix = "use a day such as 2023-05-01, or leave it out"
        raise ValueError(f"{name} is {text!r}; {fix}.") from None


def times(text: str, today: date) -> tuple[list[Time], str]:
    """The times that a text names, and the text without their words. What is no day (31 February)
    stays text.
    """
    rest = " ".join(text.lower().split())
    named = list[Time]()
    for form in _FORMS:
        matches = list(re.finditer(form, rest))
        for match in reversed(matches):
            with suppress(ValueError):
                named.append(_written(match, today))
                before = rest[: match.start()]
                behind = rest[match.end() :]
                rest = f"{before} {behind}"
    return named, rest
