"""Texts as comparable words: by language, without stop words, stemmed; their ranking; and the times that a question names.

The stop words of a text decide its language, among those that both PyStemmer and bm25s know. Chinese, Japanese, Korean, Thai,
Lao, Khmer and Burmese, which do not put spaces between words, become pairs of neighbouring characters, in a text of any
language. Times are English expressions, ISO dates and dates written 8.5.2023.
"""

import logging
import re
import unicodedata
from calendar import isleap, monthrange
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, timedelta
from typing import NamedTuple

import bm25s
import bm25s.stopwords as lists
import Stemmer

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
    scores = enumerate(index.get_scores(words).tolist())
    return sorted(((i, score) for i, score in scores if score > 0), key=lambda hit: -hit[1])


_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
# Fit of a conversation within the time, and of one at most so many days after it: people tell what they did.
EXACT, SOON, _SOON_DAYS = 1.0, 0.7, 3
# Days of a time for which each day is looked up; of a longer one, the months.
_FEW_DAYS, _MANY_DAYS = 31, 3_700
_COUNTS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "few": 3, "couple of": 2}


class Time(NamedTuple):
    """A time that a question names: from a first day to a last one."""

    first: date
    last: date

    def fit(self, first: date, last: date) -> float:
        """How well a conversation that went on from one day to another fits: 0 to 1."""
        after = (first - self.last).days
        return EXACT if after <= 0 and last >= self.first else SOON if 0 < after <= _SOON_DAYS else 0.0

    def tokens(self) -> list[str]:
        """Words of an index (`day_tokens`) of which a conversation that fits has at least one."""
        days = (self.last - self.first).days + 1
        if days > _MANY_DAYS:
            return []
        return sorted({_token(self.first + timedelta(n), days <= _FEW_DAYS) for n in range(days + _SOON_DAYS)})


def _token(day: date, exact: bool) -> str:
    return f"@{day}" if exact else f"@{day:%Y-%m}"


def day_tokens(first: date, last: date) -> list[str]:
    """Words by which an index finds a conversation that went on from one day to another; at most its first and last month."""
    days = [first + timedelta(n) for n in range(min((last - first).days, _FEW_DAYS) + 1)] + [last]
    return sorted({_token(day, exact) for day in days for exact in (True, False)})


def _days(first: date, count: int = 1) -> Time:
    return Time(first, first + timedelta(count - 1))


def _month(year: int, month: int) -> Time:
    return _days(date(year, month, 1), monthrange(year, month)[1])


def _relative(match: re.Match[str], today: date) -> Time:
    """Last week, this month, last Friday, last May."""
    unit, back = match["unit"], match["which"] != "this"
    if unit in _WEEKDAYS:
        return _days(today - timedelta((today.weekday() - _WEEKDAYS.index(unit)) % 7 or 7))
    if unit in _MONTHS:
        month = _MONTHS.index(unit) + 1
        return _month(today.year - (month >= today.month), month)
    if unit == "week":
        return _days(today - timedelta(today.weekday() + 7 * back), 7)
    if unit == "weekend":
        return _days(today - timedelta((today.weekday() - 5) % 7), 2)
    if unit == "month":
        end = today.replace(day=1) - timedelta(back)
        return _month(end.year, end.month)
    return _days(date(today.year - back, 1, 1), 365 + isleap(today.year - back))


def _ago(match: re.Match[str], today: date) -> Time:
    count = _COUNTS.get(match["count"]) or int(match["count"])
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[match["unit"]]
    # As exact as it is said: three weeks ago is three days more or less.
    return _days(date.fromordinal(today.toordinal() - count * days - days // 2), days // 2 * 2 + 1)


def _written(match: re.Match[str], today: date) -> Time:
    """A day, a month or both; without a year, the last one. "May" and "march" alone are no months."""
    parts = {name: text for name, text in match.groupdict().items() if text}
    name, day = parts["month"], int(parts.get("day") or parts.get("day_after") or 0)
    if len(parts) == 1 and name in {"march", "may", *_SHORT}:
        raise ValueError(f"{name} is a word here.")
    month = int(name) if name.isdigit() else next(n for n, full in enumerate(_MONTHS, 1) if full.startswith(name[:3]))
    year = int(parts.get("year") or today.year - ((month, day) > (today.month, today.day)))
    return _days(date(year, month, day)) if day else _month(year, month)


_SHORT = (*(name[:3] for name in _MONTHS), "sept")
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_NTH = r"(?:st|nd|rd|th)?"
_NAME = rf"(?P<month>{'|'.join((*_MONTHS, *_SHORT))})\b\.?"
_BEFORE = rf"(?:(?P<day>\d\d?){_NTH}(?: of)?|(?P<within>in|since|during|until|by|of|early|late|mid))"
_UNIT = rf"(?P<unit>week|weekend|month|year|{'|'.join((*_WEEKDAYS, *_MONTHS))})"
_FORMS: tuple[tuple[str, Callable[[re.Match[str], date], Time]], ...] = (
    (rf"{_YEAR}-(?P<month>\d\d?)-(?P<day>\d\d?)\b", _written),
    (rf"(?P<day>\d\d?)\.(?P<month>\d\d?)\.{_YEAR}", _written),
    (r"(?:today|(?P<yesterday>yesterday))\b", lambda match, today: _days(today - timedelta(bool(match["yesterday"])))),
    (rf"(?P<which>last|this|past|previous) {_UNIT}\b", _relative),
    (rf"(?P<count>\d{{1,3}}|{'|'.join(_COUNTS)}) (?P<unit>day|week|month|year)s? ago\b", _ago),
    (rf"(?:{_BEFORE} )?{_NAME}(?: (?P<day_after>\d\d?){_NTH}\b)?(?:,? (?:of )?{_YEAR})?", _written),
    (_YEAR, lambda match, _: _days(date(int(match["year"]), 1, 1), 365 + isleap(int(match["year"])))),
)


def period(since: str | None, until: str | None) -> Time | None:
    """The time between two ISO days, each of which may be left out. Raises `ValueError`, which names what is none."""
    if not (since or until):
        return None
    first, last = _iso_day("since", since), _iso_day("until", until)
    open_end = timedelta(_MANY_DAYS - _SOON_DAYS)
    first = first or (last or date.max) - open_end
    return Time(first, max(first, last or first + open_end))


def _iso_day(name: str, text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise ValueError(f"{name} is {text!r}; use a day such as 2023-05-01, or leave it out.") from None


def times(text: str, today: date) -> tuple[list[Time], str]:
    """The times that a text names, and the text without their words. What is no day (31 February) stays text."""
    rest, named = " ".join(text.lower().split()), list[Time]()
    for pattern, read in _FORMS:
        for match in reversed(list(re.finditer(rf"\b{pattern}", rest))):
            with suppress(ValueError):
                named.append(read(match, today))
                rest = f"{rest[: match.start()]} {rest[match.end() :]}"
    return named, rest
