"""Which of a person's conversations answer a question, by their words: first candidates among all, then the candidates exactly.

A conversation counts with its best windows of neighbouring passages, because a question is answered by a few turns and not by a
whole conversation, and a turn is often understood only beside the one before it. The settings below were tuned on LoCoMo's
conversations 1-5 (`benchmarks/locomo.py`); the result depends little on any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from memory import dates, lexical
from memory.conversations import SPEAKERS
from memory.documents import Document, beginning_of, hash_of
from memory.postings import Array

# Characters and distinct words of a query that are looked at.
MAX_QUERY_CHARS, MAX_QUERY_WORDS = 2_000, 48
# What the neighbours of a passage count in its window: nearest first.
BEFORE, AFTER = (0.6, 0.4), (0.6, 0.3)
WINDOWS_COUNTED = 3
K1, B = 1.5, 0.75
# What tools say repeats what people asked for.
TOOL_WEIGHT = 0.5
# The whole conversation, and how well its days fit a time in the question, against its windows.
WHOLE_WEIGHT, TIME_WEIGHT = 0.3, 2.0
# Where the question names one speaker: what that one said counts more, the name itself little.
SPEAKER_BONUS, NAME_WEIGHT = 0.4, 0.2
# Words that only begin alike ("tourney" for "tournament") find nothing by themselves, but rank what is found. Half of a word's
# weight where both match; on LoCoMo 0.7 to 1.5 and beginnings of 3 to 5 letters all help.
ALIKE_WEIGHT = 1.0
# Words of the best passages, added to the question (relevance model RM3, Abdul-Jaleel and others, TREC 2004).
FEEDBACK_WEIGHT, FEEDBACK_PASSAGES, FEEDBACK_WORDS = 0.2, 8, 10


@dataclass(frozen=True, slots=True)
class Question:
    """A query as the index is asked for it: for each word the hashes and beginnings it may have, and the times it names."""

    words: tuple[tuple[int, ...], ...]
    beginnings: tuple[tuple[int, ...], ...]
    times: tuple[dates.Time, ...]

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """Hashes of each word and, after them, of the days of each time."""
        return [*self.words, *(tuple(map(hash_of, time.tokens())) for time in self.times)]


def question(query: str, languages: Iterable[str], today: date) -> Question:
    """A query for an index in which texts of these languages are."""
    found, rest = dates.times(query[:MAX_QUERY_CHARS], today)
    words = lexical.alternatives(rest, languages)[:MAX_QUERY_WORDS]
    hashes, beginnings = (tuple(tuple(map(number, word)) for word in words) for number in (hash_of, beginning_of))
    return Question(hashes, beginnings, tuple(found[:4]))


@dataclass(frozen=True, slots=True)
class Scored:
    """A conversation's score, and of its turns those with one, best first."""

    document: Document
    score: float
    turns: tuple[tuple[int, float], ...]


def inverse_frequency(found_in: Array, total: int) -> Array:
    """Weight of words by the number of conversations they are in (BM25's, in Lucene's variant)."""
    return np.log1p((total - found_in + 0.5) / (found_in + 0.5))


def saturated(counts: Array, lengths: Array, average: float) -> Array:
    """BM25's weight of how often a word is in a text of some length (Robertson and Zaragoza, 2009)."""
    return counts / (counts + K1 * (1 - B + B * lengths / max(average, 1e-9)))


def score(asked: Question, talks: Sequence[Document], found_in: Array, total: int) -> list[Scored]:
    """Conversations that share a word or a time with the question, best first. Blocks for milliseconds.

    Args:
        asked: the question.
        talks: the candidates.
        found_in: for each word of the question, in how many of all the conversations it is.
        total: how many there are.
    """
    talks = [talk for talk in talks if len(talk.lengths)]
    if not talks:
        return []
    corpus = _Corpus(talks)
    counts = corpus.counts(asked.words)
    names = np.array([not corpus.names.isdisjoint(word) for word in asked.words], bool)
    weights = inverse_frequency(found_in[: len(asked.words)], total) * np.where(names, NAME_WEIGHT, 1.0)
    windows, wholes = corpus.scores(counts, weights)
    matching = wholes > 0
    alike = corpus.alike(asked.beginnings)
    # Rare only if its beginning is.
    in_talks = (np.add.reduceat(alike, corpus.starts[:-1], axis=1) > 0).sum(axis=1)
    rarity = np.minimum(weights, inverse_frequency(in_talks, len(talks)))
    more_windows, more_wholes = corpus.scores(alike, ALIKE_WEIGHT * rarity)
    windows, wholes = windows + more_windows, wholes + more_wholes
    extra, extra_weights = corpus.feedback(windows, asked.words)
    if len(extra):
        more_windows, more_wholes = corpus.scores(corpus.counts(extra), extra_weights)
        windows, wholes = windows + more_windows, wholes + more_wholes
    said_by = {hashed for word, name in zip(asked.words, names, strict=True) if name for hashed in word} & corpus.names
    if len(said_by) == 1:
        windows = windows * (1 + SPEAKER_BONUS * (corpus.speaker_names == said_by.pop()))
    unit = float(weights[~names].mean()) if (~names).any() else 1.0
    results = []
    for number, talk in enumerate(talks):
        mine = windows[corpus.starts[number] : corpus.starts[number + 1]]
        fit = dates.best_fit(asked.times, *talk.days)
        if not (matching[number] or fit):
            continue
        best = float(np.sort(mine)[::-1][:WINDOWS_COUNTED].sum()) / WINDOWS_COUNTED
        turns: dict[int, float] = {}
        for place in np.argsort(-mine, kind="stable"):
            turns.setdefault(int(talk.turns[place]), float(mine[place]))
        total_score = best + WHOLE_WEIGHT * float(wholes[number]) + TIME_WEIGHT * fit * unit
        results.append(Scored(talk, total_score, tuple(turns.items())))
    return sorted(results, key=lambda scored: -scored.score)


class _Corpus:
    """The passages of some conversations, one after the other."""

    def __init__(self, talks: Sequence[Document]) -> None:
        self.words = np.concatenate([talk.words for talk in talks])
        self.beginnings = np.concatenate([talk.beginnings for talk in talks])
        self.lengths = np.concatenate([talk.lengths for talk in talks]).astype(float)
        self.passage_of = np.repeat(np.arange(len(self.lengths)), self.lengths.astype(int))
        self.talk_of = np.repeat(np.arange(len(talks)), [len(talk.lengths) for talk in talks])
        self.starts = np.cumsum([0, *(len(talk.lengths) for talk in talks)])
        self.speaker_names = np.concatenate([talk.names for talk in talks])
        self.names = {int(name) for name in np.unique(self.speaker_names) if name}
        tool = np.concatenate([talk.speakers for talk in talks]) == SPEAKERS.index("tool")
        self.weights = np.where(tool, TOOL_WEIGHT, 1.0)
        self.window_lengths = self._windowed(self.lengths[None, :])[0]
        self.talk_lengths = np.add.reduceat(self.lengths, self.starts[:-1])

    def alike(self, beginnings: Sequence[tuple[int, ...]]) -> Array:
        """How often words of each beginning are in each passage."""
        return self._counted(beginnings, self.beginnings)

    def counts(self, words: Sequence[tuple[int, ...]]) -> Array:
        """How often each word is in each passage."""
        return self._counted(words, self.words)

    def _counted(self, words: Sequence[tuple[int, ...]], among: Array) -> Array:
        pairs = sorted((hashed, number) for number, word in enumerate(words) for hashed in set(word))
        counts = np.zeros((len(words), len(self.lengths)))
        if not pairs:
            return counts
        hashes, numbers = np.array([pair[0] for pair in pairs], among.dtype), np.array([pair[1] for pair in pairs])
        for shift in range(_most_alike(hashes)):
            place = np.searchsorted(hashes, among) + shift
            hit = hashes[np.minimum(place, len(hashes) - 1)] == among
            hit &= place < len(hashes)
            np.add.at(counts, (numbers[place[hit]], self.passage_of[hit]), 1)
        return counts

    def _windowed(self, values: Array) -> Array:
        """Each passage's value and, with less weight, those of its neighbours in the same conversation."""
        total = values.astype(float)
        for distance, weight in [*((-n, w) for n, w in enumerate(BEFORE, 1)), *((n, w) for n, w in enumerate(AFTER, 1))]:
            near = slice(distance, None) if distance > 0 else slice(None, distance)
            here = slice(None, -distance) if distance > 0 else slice(-distance, None)
            same = self.talk_of[near] == self.talk_of[here]
            total[:, here] += weight * values[:, near] * same
        return total

    def scores(self, counts: Array, weights: Array) -> tuple[Array, Array]:
        """BM25 of each passage's window, and of each conversation."""
        window = saturated(self._windowed(counts), self.window_lengths, float(self.window_lengths.mean()))
        whole = np.add.reduceat(counts, self.starts[:-1], axis=1)
        whole = saturated(whole, self.talk_lengths, float(self.talk_lengths.mean()))
        return weights @ window * self.weights, weights @ whole

    def feedback(self, windows: Array, asked: Sequence[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], Array]:
        """Words that are frequent in the best windows and rare elsewhere, and the weight of each."""
        best = np.argsort(-windows, kind="stable")[:FEEDBACK_PASSAGES]
        best = best[windows[best] > 0]
        if not len(best):
            return [], np.zeros(0)
        relevance = np.zeros(len(windows))
        relevance[best] = windows[best] / windows[best].sum()
        # A window's neighbours speak of the same with less weight, as above.
        shares = self._windowed((relevance / np.maximum(self.window_lengths, 1))[None, :])[0][self.passage_of]
        words, places = np.unique(self.words, return_inverse=True)
        distinct = np.unique(places.astype("<u8") << np.uint64(32) | self.passage_of.astype("<u8")) >> np.uint64(32)
        rarity = inverse_frequency(np.bincount(distinct.astype(int), minlength=len(words)), len(windows))
        gain = np.bincount(places, weights=shares, minlength=len(words)) * rarity
        gain[np.isin(words, [hashed for word in asked for hashed in word])] = 0
        gain[np.isin(words, list(self.names))] = 0
        top = np.argsort(-gain, kind="stable")[:FEEDBACK_WORDS]
        top = top[gain[top] > 0]
        counts = self.counts([(int(words[i]),) for i in top])
        talks = (np.add.reduceat(counts, self.starts[:-1], axis=1) > 0).sum(axis=1)
        weights = FEEDBACK_WEIGHT * gain[top] / max(gain.max(), 1e-9) * inverse_frequency(talks, len(self.starts) - 1)
        return [(int(words[i]),) for i in top], weights


def _most_alike(hashes: Array) -> int:
    """How many words of the question the most frequent hash belongs to: alternatives of two words can be one stem."""
    return int(np.unique(hashes, return_counts=True)[1].max())


def fused(lexical_scores: Mapping[int, float], dense_scores: Mapping[int, float], weight: float) -> dict[int, float]:
    """Weighted sum of both, each brought to 0 to 1 first. Measured: rank fusion with equal votes is worse than either."""
    best = max(lexical_scores.values(), default=0.0) or 1.0
    low, high = min(dense_scores.values(), default=0.0), max(dense_scores.values(), default=0.0)
    dense = {key: (value - low) / (high - low) if high > low else 1.0 for key, value in dense_scores.items()}
    return {
        key: lexical_scores.get(key, 0.0) / best + weight * dense.get(key, 0.0) for key in {**lexical_scores, **dense_scores}
    }
