"""Deterministic local embeddings for tests of the semantic index."""

from collections.abc import Sequence
from typing import Any

SUBJECTS = (("dog", "puppy", "pet"), ("car", "engine", "vehicle"), ("bread", "oven", "baking"))


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Words of one subject share a direction: how many of each subject a text has. No vector is zero."""
    return [[0.01 + sum(word in text.lower() for word in words) for words in SUBJECTS] for text in texts]


# A store's index, and what a server's langgraph.json says of it.
INDEX: Any = {"embed": embed, "dims": len(SUBJECTS), "fields": ["content"]}
SERVED = {**INDEX, "embed": f"{__file__}:embed"}
