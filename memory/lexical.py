"""Ranking texts by the words of a question: BM25 over stemmed words, without the usual ones."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import bm25s
import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

logging.getLogger("bm25s").setLevel(logging.WARNING)  # it would report every index it builds
_WORD = r"(?u)\b\w+\b"  # the library's own leaves out words of one character
_STEMMER = Stemmer.Stemmer("english")


def rank(query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    """The texts that share a word with the query, best first, as (index, score above 0).

    BM25 by Robertson and others, in Lucene's variant, as `bm25s` implements it. Blocks for milliseconds per thousand texts.
    """
    words = _words([query])[0]
    corpus = _words(texts)
    if not words or not any(corpus):
        return []
    index = bm25s.BM25()
    index.index(corpus, show_progress=False)
    scores = index.get_scores(words)
    best = sorted(range(len(texts)), key=lambda i: -scores[i])
    return [(i, float(scores[i])) for i in best if scores[i] > 0]


def _words(texts: Sequence[str]) -> list[list[str]]:
    words: list[list[str]] = bm25s.tokenize(
        list(texts),
        token_pattern=_WORD,
        stopwords=list(STOPWORDS_EN_PLUS),
        stemmer=_STEMMER,
        return_ids=False,
        show_progress=False,
    )
    return words
