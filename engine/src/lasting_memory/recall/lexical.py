"""Texts as comparable words: by language, without stop words, stemmed; their ranking; and the times that a question names.

The stop words of a text decide its language, among those that both PyStemmer and bm25s know. Chinese, Japanese, Korean, Thai,
Lao, Khmer and Burmese, which do not put spaces between words, become pairs of neighbouring characters, in a text of any
language. Times are days, months and years as English writes them, ISO dates and dates written 8.5.2023.
"""

import logging
import re
import unicodedata
from calendar import monthrange
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from typing import Any, NamedTuple

import bm25s
import bm25s.stopwords as lists
import numpy as np
import numpy.typing as npt
import Stemmer

Array = npt.NDArray[Any]

logging.getLogger("bm25s").setLevel(logging.WARNING)  # it would report every index

DEFAULT_LANGUAGE = "english"
_OTHERS = "german dutch french spanish portuguese italian russian swedish norwegian danish turkish"
# The long list of English is worth 5 points of 100 on LoCoMo.
_LISTS = {DEFAULT_LANGUAGE: "EN_PLUS", **{name: name.upper() for name in _OTHERS.split()}}
STOP_WORDS = {name: frozenset[str](getattr(lists, f"STOPWORDS_{which}")) for name, which in _LISTS.items()}
# Characters of a text's beginning that decide its language.
_SAMPLE_CHARS = 5_000
# Longer than any word, to bound a run of encoded bytes.
_MAX_WORD_CHARS = 64
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_UNSPACED = f"{_HAN}\u3040-\u30ff\uac00-\ud7af\u0e00-\u0eff\u1780-\u17ff\u1000-\u109f"
_TOKEN = re.compile(f"([{_UNSPACED}]+)|[^\\W_{_UNSPACED}]+")
# Normalizing takes time quadratic in the accents that follow each other. White space ends such a run.
_PIECE = re.compile(r".{1,256}(?<=\s)|.{1,256}", re.DOTALL)
_IS_HAN = re.compile(f"[{_HAN}]")


def language(text: str) -> str:
    """The language whose stop words are most frequent in the text; English where none is."""
    words = re.findall(r"[^\W\d_]+", text[:_SAMPLE_CHARS].lower())
    hits = {name: sum(word in stop for word in words) for name, stop in STOP_WORDS.items()}
    return max(hits, key=lambda name: (hits[name], name == DEFAULT_LANGUAGE))


def stems(text: str, language: str) -> list[str]:
    """The words of a text in this language, in order, stemmed, without stop words."""
    return Stemmer.Stemmer(language).stemWords(list(_words(text, language)))  # type: ignore[no-any-return]


def stem_groups(query: str, languages: Iterable[str]) -> list[tuple[str, ...]]:
    """For each distinct word of a query, the stems it has in these languages. Texts are stemmed in their own language."""
    spoken = language(query)
    stemmers = [Stemmer.Stemmer(name) for name in {*languages, spoken}]
    return list(dict.fromkeys(tuple(sorted({each.stemWord(word) for each in stemmers})) for word in _words(query, spoken)))


def normalized(text: str) -> str:
    """A text in the normal form NFKC. In linear time."""
    return text if text.isascii() else "".join(unicodedata.normalize("NFKC", piece) for piece in _PIECE.findall(text))


def _words(text: str, language: str) -> Iterator[str]:
    """Each word in lower case, without stop words. Text without spaces between words gives pairs of neighbouring characters."""
    for match in _TOKEN.finditer(normalized(text).lower()):
        if run := match[1]:
            yield from (run[i : i + 2] for i in range(len(run) - 1))
            # A single ideograph can be a word.
            yield from (char for char in run if len(run) == 1 or _IS_HAN.match(char))
        elif (word := match[0][:_MAX_WORD_CHARS]) not in STOP_WORDS[language]:
            yield word


def rank(query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    """The texts that share a word with the query, best first, as (index, score above 0), by BM25 (Robertson and others) in
    Lucene's variant, as `bm25s` implements it. Blocks for milliseconds per thousand texts.
    """
    spoken = language(" ".join(texts)[:_SAMPLE_CHARS])
    words = stems(query, spoken)
    corpus = [stems(text, spoken) for text in texts]
    if not words or not any(corpus):
        return []
    index = bm25s.BM25()
    index.index(corpus, show_progress=False)
    hits = [(i, score) for i, score in enumerate(index.get_scores(words).tolist()) if score > 0]
    return sorted(hits, key=lambda hit: -hit[1])


_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_SHORT = [*(name[:3] for name in _MONTHS), "sept"]
# Fit of a conversation at most so many days after a time: people tell what they did.
_SOON, _SOON_DAYS = 0.7, 3


class Time(NamedTuple):
    """A time that a question names: from a first day to a last one."""

    first: date
    last: date

    def fit(self, first: Array, last: Array) -> Array:
        """How well conversations fit, by their first and last days (datetime64): 0 to 1."""
        after = (first - np.datetime64(self.last, "D")).astype(int)
        fits = np.where(after <= 0, 1.0, np.where(after <= _SOON_DAYS, _SOON, 0.0))
        return np.where(last < np.datetime64(self.first, "D"), 0.0, fits)


def _written(match: re.Match[str], today: date) -> Time:
    """A day, a month or a year; without a year, the last one. "May" and "march" alone are no months."""
    parts = {name: text for name, text in match.groupdict().items() if text}
    name, day = parts.get("month", ""), int(parts.get("day") or parts.get("day_after") or 0)
    if not name:
        return Time(date(int(parts["year"]), 1, 1), date(int(parts["year"]), 12, 31))
    if len(parts) == 1 and name in {"march", *_SHORT}:
        raise ValueError(f"{name} is a word here.")
    month = int(name) if name.isdigit() else 1 + [full[:3] for full in _MONTHS].index(name[:3])
    year = int(parts.get("year") or today.year - ((month, day) > (today.month, today.day)))
    return Time(date(year, month, day or 1), date(year, month, day or monthrange(year, month)[1]))


_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_NTH = r"(?:st|nd|rd|th)?"
_NAME = rf"(?P<month>{'|'.join((*_MONTHS, *_SHORT))})\b\.?"
_BEFORE = rf"(?:(?P<day>\d\d?){_NTH}(?: of)?|(?P<within>in|since|during|until|by|of|early|late|mid))"
_FORMS = (
    rf"\b{_YEAR}-(?P<month>\d\d?)-(?P<day>\d\d?)\b",
    rf"\b(?P<day>\d\d?)\.(?P<month>\d\d?)\.{_YEAR}",
    rf"\b(?:{_BEFORE} )?{_NAME}(?: (?P<day_after>\d\d?){_NTH}\b)?(?:,? (?:of )?{_YEAR})?",
    rf"\b{_YEAR}",
)


def period(since: str | None, until: str | None) -> Time | None:
    """The time between two ISO days, each of which may be left out. Raises `ValueError`, which names what is none."""
    days = dict[str, date]()
    for name, text in (("since", since), ("until", until)):
        try:
            days |= {name: date.fromisoformat(text)} if text else {}
        except ValueError:
            raise ValueError(f"{name} is {text!r}; use a day such as 2023-05-01, or leave it out.") from None
    first = days.get("since", date.min)
    return Time(first, max(first, days.get("until", date.max))) if days else None


def times(text: str, today: date) -> tuple[list[Time], str]:
    """The times that a text names, and the text without their words. What is no day (31 February) stays text."""
    rest, named = " ".join(text.lower().split()), list[Time]()
    for form in _FORMS:
        for match in reversed(list(re.finditer(form, rest))):
            with suppress(ValueError):
                named.append(_written(match, today))
                rest = f"{rest[: match.start()]} {rest[match.end() :]}"
    return named, rest
