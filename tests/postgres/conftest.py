"""Fixtures of other folders' tests that are made on Postgres, too."""

from tests.memory.recall.conftest import threads

__all__ = ["threads"]
