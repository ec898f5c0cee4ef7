"""Texts as words that can be compared: language by language, without the usual ones, by their stems; and their ranking.

The language is chosen per text by its stop words, among those for which both PyStemmer and bm25s have something. Chinese,
Japanese, Korean, Thai, Lao, Khmer and Burmese, which do not put spaces where a searcher does, become pairs of neighbouring
characters, whatever language is around them.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import bm25s
import bm25s.stopwords as lists
import Stemmer

logging.getLogger("bm25s").setLevel(logging.WARNING)  # it would report every index it builds

DEFAULT_LANGUAGE = "english"
STOP_WORDS: dict[str, frozenset[str]] = {
    # The long list is worth 5 points of 100 on LoCoMo.
    "english": frozenset(lists.STOPWORDS_EN_PLUS),
    "german": frozenset(lists.STOPWORDS_GERMAN),
    "dutch": frozenset(lists.STOPWORDS_DUTCH),
    "french": frozenset(lists.STOPWORDS_FRENCH),
    "spanish": frozenset(lists.STOPWORDS_SPANISH),
    "portuguese": frozenset(lists.STOPWORDS_PORTUGUESE),
    "italian": frozenset(lists.STOPWORDS_ITALIAN),
    "russian": frozenset(lists.STOPWORDS_RUSSIAN),
    "swedish": frozenset(lists.STOPWORDS_SWEDISH),
    "norwegian": frozenset(lists.STOPWORDS_NORWEGIAN),
    "danish": frozenset(lists.STOPWORDS_DANISH),
    "turkish": frozenset(lists.STOPWORDS_TURKISH),
}
# A text's beginning says its language.
_SAMPLE_CHARS = 5_000
# Longer than any word, so that a run of encoded bytes is not one.
_MAX_WORD_CHARS = 64
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_UNSPACED = f"{_HAN}\u3040-\u30ff\uac00-\ud7af\u0e00-\u0eff\u1780-\u17ff\u1000-\u109f"
_TOKEN = re.compile(f"([{_UNSPACED}]+)|[^\\W_{_UNSPACED}]+")
# Putting accents into order takes time quadratic in how many follow each other. White space ends such a run.
_PIECE = re.compile(r".{1,256}(?<=\s)|.{1,256}", re.DOTALL)
_IS_HAN = re.compile(f"[{_HAN}]")


def language(text: str) -> str:
    """The language whose stop words are most frequent in the text; English where none is."""
    words = re.findall(r"[^\W\d_]+", text[:_SAMPLE_CHARS].lower())
    hits = {name: sum(word in stop for word in words) for name, stop in STOP_WORDS.items()}
    return max(hits, key=lambda name: (hits[name], name == DEFAULT_LANGUAGE))


def stems(text: str, language: str) -> list[str]:
    """The text's words in this language in their order, stemmed, without stop words."""
    found: list[str] = []
    stop = STOP_WORDS[language]
    for word, unspaced in _words(text):
        if unspaced:
            found += _pairs(word)
        elif word not in stop:
            found.append(word)
    return _stemmer(language).stemWords(found)  # type: ignore[no-any-return]


def alternatives(query: str, languages: Iterable[str]) -> list[tuple[str, ...]]:
    """For each distinct word of a query, the stems it has in these languages. Texts are stemmed in their own language."""
    stop = STOP_WORDS[language(query)]
    stemmers = [_stemmer(name) for name in sorted({*languages, language(query)})]
    found: dict[tuple[str, ...], None] = {}
    for word, unspaced in _words(query):
        if unspaced:
            found |= dict.fromkeys((pair,) for pair in _pairs(word))
        elif word not in stop:
            found[tuple(sorted({stemmer.stemWord(word) for stemmer in stemmers}))] = None
    return list(found)


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """Each word in lower case, and whether it is a run of characters that does not end where words do."""
    normal = text if text.isascii() else "".join(unicodedata.normalize("NFKC", piece) for piece in _PIECE.findall(text))
    for match in _TOKEN.finditer(normal.lower()):
        yield (match[0], True) if match[1] else (match[0][:_MAX_WORD_CHARS], False)


def _pairs(run: str) -> list[str]:
    """Neighbouring characters in pairs, and the ideographs alone, of which a single one can be a word."""
    return [run[i : i + 2] for i in range(len(run) - 1)] + [char for char in run if len(run) == 1 or _IS_HAN.match(char)]


@cache
def _stemmer_of(language: str, thread: int) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language)


def _stemmer(language: str) -> Stemmer.Stemmer:
    import threading  # noqa: PLC0415

    return _stemmer_of(language, threading.get_ident())


def rank(query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    """The texts that share a word with the query, best first, as (index, score above 0).

    BM25 by Robertson and others, in Lucene's variant, as `bm25s` implements it. Blocks for milliseconds per thousand texts.
    """
    spoken = language(" ".join(texts)[:_SAMPLE_CHARS])
    words = stems(query, spoken)
    corpus = [stems(text, spoken) for text in texts]
    if not words or not any(corpus):
        return []
    index = bm25s.BM25()
    index.index(corpus, show_progress=False)
    scores = index.get_scores(words)
    best = sorted(range(len(texts)), key=lambda i: -scores[i])
    return [(i, float(scores[i])) for i in best if scores[i] > 0]
