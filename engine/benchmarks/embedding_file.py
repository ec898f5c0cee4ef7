"""Any embedding for measurements, with its vectors kept in a file, so that each text is embedded
once.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import numpy as np

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]


class KeptVectors:
    """The function `MODULE:FUNCTION` from texts to vectors, and the vectors that it gave so far, in
    an SQLite file.
    """

    def __init__(self, name: str, path: Path) -> None:
        module, _, function = name.partition(":")
        self._name = name
        self.function: Embed = getattr(import_module(module), function)
        self._kept = sqlite3.connect(path, check_same_thread=False)
        self._kept.execute(
            "CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB)"
        )
        self.dims = len(self.embed(["dimensions"])[0])

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text."""
        keys = [hashlib.sha256(f"{self._name}\0{text}".encode()).digest() for text in texts]
        found = "SELECT vector FROM vectors WHERE text = ?"
        kept = {
            key: row[0] for key in keys if (row := self._kept.execute(found, (key,)).fetchone())
        }
        if new := {key: text for key, text in zip(keys, texts, strict=True) if key not in kept}:
            vectors = self.function(list(new.values()))
            made = {
                key: np.array(vector, "<f4").tobytes()
                for key, vector in zip(new, vectors, strict=True)
            }
            self._kept.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", made.items())
            self._kept.commit()
            kept |= made
        return [np.frombuffer(kept[key], "<f4").tolist() for key in keys]
