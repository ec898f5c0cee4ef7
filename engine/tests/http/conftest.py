"""The API without a platform around it, opened as somebody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore
from starlette.types import Receive, Scope, Send

from lasting_memory.deployment import Deployment
from lasting_memory.http.app import build_http
from lasting_memory.testing.deployed import deployed
from tests.http.calls import Caller, Open


@pytest.fixture
def calling(store: BaseStore) -> Open:
    """Opens the API, without a platform around it, as somebody."""

    async def the_store() -> BaseStore:
        return store

    @asynccontextmanager
    async def opened(
        identity: str | None = "alice",
        settings: Deployment = deployed(),  # noqa: B008  # frozen
        **claims: Any,
    ) -> AsyncIterator[httpx.AsyncClient]:
        app = build_http(settings, store=the_store)

        async def signed_in(scope: Scope, receive: Receive, send: Send) -> None:
            user = None if identity is None else Caller({"identity": identity, "org_id": "acme", "permissions": [], **claims})
            await app({**scope, "user": user}, receive, send)

        transport = httpx.ASGITransport(signed_in)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield client

    return opened


@pytest.fixture
async def api(calling: Open) -> AsyncIterator[httpx.AsyncClient]:
    async with calling() as client:
        yield client
