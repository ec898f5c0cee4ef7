"""Deterministic local embeddings for tests of the semantic index."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lasting_memory.recall import stems

Array = npt.NDArray[np.float64]

SUBJECTS = (("dog", "puppy", "pet"), ("car", "engine", "vehicle"), ("bread", "oven", "baking"))


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Words of one subject share a direction: how many of each subject a text has. No vector is zero."""
    return [[0.01 + sum(word in text.lower() for word in words) for words in SUBJECTS] for text in texts]


class LatentSemanticAnalysis:
    """Vectors of realistic shape, from nothing but texts: words that occur in the same ones come near each other.

    Deerwester and others, "Indexing by Latent Semantic Analysis", 1990. `texts` are in one of the languages with stems.
    """

    def __init__(self, texts: Sequence[str], dims: int = 100, language: str = "english") -> None:
        self.dims, self._language = dims, language
        counted = [Counter(stems(text, language)) for text in texts]
        self._column = {word: number for number, word in enumerate(sorted(set().union(*counted)))}
        matrix = np.array([self._counts(words) for words in counted])
        self._rarity = np.log(len(texts) / np.maximum((matrix > 0).sum(axis=0), 1))
        _, _, directions = np.linalg.svd(self._weighted(matrix), full_matrices=False)
        self._directions = directions[:dims].T

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector of `dims` numbers for each text."""
        matrix = self._weighted(np.array([self._counts(Counter(stems(text, self._language))) for text in texts]))
        vectors = np.zeros((len(texts), self.dims))
        vectors[:, : self._directions.shape[1]] = matrix @ self._directions
        # A text without a known word is near nothing, and no vector is zero.
        vectors[:, -1] += 1e-6
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).tolist()  # type: ignore[no-any-return]

    def _counts(self, words: Counter[str]) -> list[float]:
        row = [0.0] * len(self._column)
        for word in words.keys() & self._column.keys():
            row[self._column[word]] = float(words[word])
        return row

    def _weighted(self, counts: Array) -> Array:
        weighted: Array = np.log1p(counts) * self._rarity
        weighted /= np.linalg.norm(weighted, axis=1, keepdims=True) + 1e-9
        return weighted
