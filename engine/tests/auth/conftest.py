"""A person whose requests may be refused before they are read."""

import httpx
import pytest

from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person

ANEW = httpx.Limits(
    max_keepalive_connections=0
)  # the server ends a connection of which it has not read all


@pytest.fixture
def person(server: DevServer, alice: str) -> Person:
    return server.person(alice, limits=ANEW, seconds=90)
