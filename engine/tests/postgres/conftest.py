"""Fixtures of other folders' tests that are made on Postgres, too."""

from tests.recall.conftest import threads

__all__ = ["threads"]
