"""Fixtures of other folders' tests that are made on Postgres, too."""

from pathlib import Path

from tests.recall.conftest import threads

__all__ = ["embedded_in", "threads"]


def embedded_in(folder: Path) -> str:
    """The address of the Postgres that a server in this folder starts."""
    return f"postgresql://postgres@/postgres?host={folder}/.postgres"
