"""Texts as comparable words: by language, without stop words, stemmed; their ranking; and the times
that a question names.

What a word is says `lasting_memory.words`. A term is a word with its spelling and accents
(`words.Term`); a stem is a word without its ending. Stop words are the words that are frequent in
all texts of a language. A language has its English name in lower case, such as "german".

Its letters tell the language of a text; where they do not, the stop words do, among those that both
PyStemmer and bm25s know. Times are days, months and years as English writes them, ISO dates, and
dates written 8.5.2023.
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
from typing import NamedTuple

import bm25s
import bm25s.stopwords as lists
import numpy as np
import regex
import Stemmer

from lasting_memory.recall import bengali
from lasting_memory.recall.arrays import Days, Floats
from lasting_memory.recall.function_words import FUNCTION_WORDS, MORE_FUNCTION_WORDS
from lasting_memory.words import Term, ascii_terms, comparable, is_unspaced, search_terms, words

logging.getLogger("bm25s").setLevel(logging.WARNING)  # it would report every index

DEFAULT_LANGUAGE = "english"
_OTHER_LANGUAGES = (
    "german dutch french spanish portuguese italian russian swedish norwegian danish turkish"
)
# The long list of English is worth 5 points of 100 on LoCoMo.
_LIST_NAMES = {DEFAULT_LANGUAGE: "EN_PLUS"}
for _name in _OTHER_LANGUAGES.split():
    _LIST_NAMES[_name] = _name.upper()


def _listed_words(list_name: str) -> list[str]:
    """The words of one of the library's lists."""
    stop_words = getattr(lists, f"STOPWORDS_{list_name}")
    return [str(word) for word in stop_words]


def _stop_words() -> dict[str, frozenset[str]]:
    """The words of each language that a search leaves out: those of the library's list, or ours, and
    some more.
    """
    words_of_language = dict[str, list[str]]()
    for name, list_name in _LIST_NAMES.items():
        words_of_language[name] = _listed_words(list_name)
    for name, text in FUNCTION_WORDS.items():
        words_of_language[name] = text.split()
    for name, text in MORE_FUNCTION_WORDS.items():
        words_of_language[name] += text.split()
    stop_words = dict[str, frozenset[str]]()
    for name, spellings in words_of_language.items():
        stop_words[name] = frozenset(map(comparable, spellings))
    return stop_words


STOP_WORDS = _stop_words()
# What stems the words of a search; of facts only those whose endings do not tell a son from a
# daughter. Ukrainian has the endings of Russian; what stems Hindi drops the vowels at the end.
_FACT_STEMMERS = {name: name for name in _LIST_NAMES} | {"ukrainian": "russian"}
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
    highest = _count_of(STOP_WORDS[best], counts)
    for name, stop_words in STOP_WORDS.items():
        count = _count_of(stop_words, counts)
        if count > highest:
            best = name
            highest = count
    return best


def _language_by_letters(sample: str) -> str:
    """The language that special letters of a text tell; "" where they tell none."""
    if sample.isascii():
        return ""
    letters = _LETTER.findall(sample)
    letter_count = len(letters)
    for name, special, least_share in _SPECIAL:
        special_letters = special.findall(sample)
        least = least_share * letter_count
        if len(special_letters) > least:
            return name
    return ""


def _count_of(stop_words: frozenset[str], counts: Counter[str]) -> int:
    """How often stop words are in a text. `counts` says how often each word is in it."""
    total = 0
    for word in stop_words.intersection(counts):
        total += counts[word]
    return total


def stems(text: str, language: str) -> list[str]:
    """The stems of a text's words in this language, in order, without stop words.

    Accents make a difference. It is for comparisons of facts.
    """
    terms = _without_stop_words(text, language)
    spellings = [term.spelled for term in terms]
    stemmer = _FACT_STEMMERS.get(language)
    return _stemmed(spellings, stemmer)


def search_stems(text: str, language: str) -> list[Term]:
    """The words of a text in this language as a search compares them, in order, without stop words.

    The text of each term is its stem.
    """
    if text.isascii():
        return [Term(stem, stem) for stem in ascii_search_stems(text, language)]
    terms = _without_stop_words(text, language)
    texts = [term.text for term in terms]
    stemmer = _SEARCH_STEMMERS.get(language)
    term_stems = _search_stemmed(texts, stemmer)
    stemmed_terms = list[Term]()
    for term, stem in zip(terms, term_stems, strict=True):
        stemmed_term = Term(stem, term.spelled, term.accents)
        stemmed_terms.append(stemmed_term)
    return stemmed_terms


def ascii_search_stems(text: str, language: str) -> list[str]:
    """The stems of `search_stems`, of an ASCII text, which has no accents. Quicker."""
    stop_words = STOP_WORDS.get(language, frozenset())
    low = text.lower()
    texts = [term for term in ascii_terms(low) if term not in stop_words]
    stemmer = _SEARCH_STEMMERS.get(language)
    return _stemmed(texts, stemmer)


class Word(NamedTuple):
    """A word of a query: the stems that it has in some languages, and its accents."""

    stems: tuple[str, ...]
    accents: str


def query_words(
    query: str, languages: Iterable[str], limit: int, known_stems: Collection[str] = ()
) -> list[Word]:
    """The distinct words of a query, at most `limit`, each with its stems in these languages and in
    the query's own.

    Two words with the same stems are one. Words with a stem of `known_stems` are left out. Of
    writing without spaces a term takes a quarter of a word's room, so there may be four times as
    many.
    """
    query_language = language(query)
    terms = _without_stop_words(query, query_language)
    words_of_terms = _words_of_terms(terms, {*languages, query_language})
    excluded_stems = frozenset(known_stems)
    distinct = dict[tuple[str, ...], Word]()
    room = float(limit)
    for term, word in zip(terms, words_of_terms, strict=True):
        is_known = not excluded_stems.isdisjoint(word.stems)
        if is_known or word.stems in distinct:
            continue
        share = 1.0
        if is_unspaced(term.text):
            share = _TERM_SHARE
        room -= share
        if room < 0:
            break
        distinct[word.stems] = word
    return list(distinct.values())


def _words_of_terms(terms: Sequence[Term], languages: Collection[str]) -> list[Word]:
    """Each term as a word, with its stems in these languages."""
    texts = [term.text for term in terms]
    # Several languages can have one stemmer, or none.
    stemmers = set[str | None]()
    for name in languages:
        stemmers.add(_SEARCH_STEMMERS.get(name))
    stemmed_texts = list[list[str]]()
    for stemmer in stemmers:
        stems_of_texts = _search_stemmed(texts, stemmer)
        stemmed_texts.append(stems_of_texts)
    words = list[Word]()
    for place, term in enumerate(terms):
        stems = {stems_of_texts[place] for stems_of_texts in stemmed_texts}
        sorted_stems = tuple(sorted(stems))
        word = Word(sorted_stems, term.accents)
        words.append(word)
    return words


# A word of writing without spaces is two characters, and each is in two terms.
_TERM_SHARE = 0.25


def _without_stop_words(text: str, language: str) -> list[Term]:
    """The words of a text but the stop words of a language."""
    stop_words = STOP_WORDS.get(language, frozenset())
    terms = search_terms(text)
    return [term for term in terms if term.spelled not in stop_words]


def _search_stemmed(texts: list[str], stemmer: str | None) -> list[str]:
    """The stems of words of a search, as `_stemmed`.

    Words of Bengali, which their letters tell, have their own stemmer in a text of any language.
    """
    word_stems = list(_stemmed(texts, stemmer))
    for place, text in enumerate(texts):
        if bengali.is_bengali(text):
            word_stems[place] = bengali.stem(text)
    return word_stems


def _stemmed(texts: list[str], stemmer: str | None) -> list[str]:
    """The stems of words, by PyStemmer's stemmer of this name; the words themselves without one."""
    if stemmer is None or not texts:
        return texts
    stemmers = _stemmers_of_thread.__dict__
    if stemmer not in stemmers:
        stemmers[stemmer] = Stemmer.Stemmer(stemmer)
    stems: list[str] = stemmers[stemmer].stemWords(texts)
    return stems


# A stemmer is of one thread: it keeps what it has stemmed.
_stemmers_of_thread = threading.local()


def rank(query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    """The texts that share a word with the query, best first, as (index, score above 0), by BM25
    (Robertson and others) in Lucene's variant, as `bm25s` implements it. Blocks for milliseconds
    per thousand texts.
    """
    joined_texts = " ".join(texts)
    text_language = language(joined_texts[:_SAMPLE_CHARS])
    query_words = _words_with_spellings(query, text_language)
    corpus = list[list[str]]()
    for text in texts:
        text_words = _words_with_spellings(text, text_language)
        corpus.append(text_words)
    if not query_words or not any(corpus):
        return []
    index = bm25s.BM25()
    index.index(corpus, show_progress=False)
    scores = index.get_scores(query_words)
    hits = list[tuple[int, float]]()
    for number, score in enumerate(scores.tolist()):
        if score > 0:
            hit = (number, score)
            hits.append(hit)
    hits.sort(key=itemgetter(1), reverse=True)
    return hits


def _words_with_spellings(text: str, language: str) -> list[str]:
    """The words of a text for BM25.

    A word with accents is there twice, without and with them, so that a text with the same spelling
    comes first.
    """
    words_found = list[str]()
    for term in search_stems(text, language):
        stem = term.text
        words_found.append(stem)
        if term.accents:
            with_accents = f"{stem} {term.accents}"
            words_found.append(with_accents)
    return words_found


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

    def fit(self, first: Days, last: Days) -> Floats:
        """How well conversations fit this time: for each 0 if it ended before, 1 if it began until
        then, less if it began soon after, 0 if later.

        Takes the first and the last day of each conversation (datetime64).
        """
        own_first = np.datetime64(self.first, "D")
        own_last = np.datetime64(self.last, "D")
        soon = own_last + _SOON_DAYS
        is_before = last < own_first
        is_within = first <= own_last
        is_soon = first <= soon
        # The first case that is true counts.
        cases = [is_before, is_within, is_soon]
        fits = [0.0, 1.0, _SOON]
        return np.select(cases, fits)


def _named_time(match: re.Match[str], today: date) -> Time:
    """The day, month or year that a match of one of `_FORMS` names; without a year, the last one
    until `today`.

    Raises `ValueError` for what is no time: "May" and "march" alone are no months.
    """
    parts = dict[str, str]()
    groups = match.groupdict()
    for name, text in groups.items():
        if text:
            parts[name] = text
    month_text = parts.get("month")
    if month_text is None:
        return _whole_year(parts["year"])
    stands_alone = len(parts) == 1
    if stands_alone and month_text in _WORDS_TOO:
        raise ValueError(f"{month_text} is a word here.")
    month = _month(month_text)
    day_after = parts.get("day_after", "0")
    day = int(parts.get("day", day_after))
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
    """Whether a day comes later in a year than today; with the day 0, whether the month does."""
    if month == today.month:
        return day > today.day
    return month > today.month


def _whole_year(digits: str) -> Time:
    """The time from the first to the last day of a year."""
    year = int(digits)
    first_day = date(year, 1, 1)
    last_day = date(year, 12, 31)
    return Time(first_day, last_day)


def _whole_month(year: int, month: int) -> Time:
    """The time from the first to the last day of a month. Raises `ValueError` if there is none."""
    _, last_day = monthrange(year, month)
    first_day = date(year, month, 1)
    last_date = date(year, month, last_day)
    return Time(first_day, last_date)


def _month(name: str) -> int:
    """The number of a month, by its name, by the beginning of its name, or by digits."""
    if name.isdigit():
        return int(name)
    beginning = name[:3]
    for number, month in enumerate(_MONTHS, 1):
        if month.startswith(beginning):
            return number
    raise ValueError(f"{name} is no month.")


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
    """The time from one ISO day to another, each of which may be left out; None without both.

    Raises `ValueError` for what is no ISO day. Its message names the argument.
    """
    if not since and not until:
        return None
    first_day = date.min
    last_day = date.max
    if since:
        first_day = _day("since", since)
    if until:
        last_day = _day("until", until)
    return Time(first_day, max(first_day, last_day))


def _day(name: str, text: str) -> date:
    """The day of an ISO text. Raises `ValueError`, whose message names the argument `name`."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        fix = "use a day such as 2023-05-01, or leave it out"
        raise ValueError(f"{name} is {text!r}; {fix}.") from None


def times(text: str, today: date) -> tuple[list[Time], str]:
    """The times that a text names, and the text without their words, in lower case.

    What is no day (31 February) stays text.
    """
    words_of_text = text.lower().split()
    remaining_text = " ".join(words_of_text)
    named_times = list[Time]()
    for form in _FORMS:
        matches = list(re.finditer(form, remaining_text))
        # From the last one on, so that the others stay where they are.
        for match in reversed(matches):
            with suppress(ValueError):
                named_time = _named_time(match, today)
                named_times.append(named_time)
                text_before = remaining_text[: match.start()]
                text_behind = remaining_text[match.end() :]
                remaining_text = f"{text_before} {text_behind}"
    return named_times, remaining_text
