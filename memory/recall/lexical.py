"""Texts as comparable words: by language, without stop words, stemmed; and their ranking.

The stop words of a text decide its language, among those that both PyStemmer and bm25s know. Chinese, Japanese, Korean, Thai,
Lao, Khmer and Burmese, which do not put spaces between words, become pairs of neighbouring characters, in a text of any
language.
"""

import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

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


def _words(text: str, language: str) -> Iterator[str]:
    """Each word in lower case, without stop words. Text without spaces between words gives pairs of neighbouring characters."""
    normal = text if text.isascii() else "".join(unicodedata.normalize("NFKC", piece) for piece in _PIECE.findall(text))
    for match in _TOKEN.finditer(normal.lower()):
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
