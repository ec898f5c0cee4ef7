"""What tests on Postgres share: a database of one's own, a server's own Postgres, and conversations to search."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lasting_memory.settings import Settings


def embedded_in(folder: Path) -> str:
    """The address of the Postgres that a server in this folder starts."""
    return f"postgresql://postgres@/postgres?host={folder}/.postgres"


@pytest.fixture
def database(postgres_uri: str) -> Iterator[Settings]:
    """Settings with an empty database of this test's own."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        yield Settings(memory_postgres_uri=postgres_uri.replace("/postgres?", f"/{name}?"))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
