"""The API without a platform around it, opened as somebody."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore

from lasting_memory.auth.admission import share_of
from lasting_memory.deployment import Deployment
from lasting_memory.testing.contract import http_client
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn
from tests.http.calls import Open


@pytest.fixture
def calling(store: BaseStore) -> Open:
    """Opens the API, without a platform around it, as somebody."""
    share_of.cache_clear()  # nothing is owed for the tests before

    def opened(
        identity: str | None = "alice",
        settings: Deployment = deployed(),  # noqa: B008  # frozen
        **claims: Any,
    ) -> httpx.AsyncClient:
        user = None if identity is None else SignedIn(identity=identity, **{"org_id": "acme", "permissions": [], **claims})
        return http_client(settings, store, user)

    return opened


@pytest.fixture
async def api(calling: Open) -> AsyncIterator[httpx.AsyncClient]:
    async with calling() as client:
        yield client
