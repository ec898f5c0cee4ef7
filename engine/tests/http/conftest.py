"""The API without a platform around it, opened as somebody; what its tests share."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore

from lasting_memory.auth.share import share_of
from lasting_memory.deployment import Deployment
from lasting_memory.testing.contract import http_client
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn

Open = Callable[..., Any]


@pytest.fixture
def calling(store: BaseStore) -> Open:
    """Opens the API, without a platform around it, as somebody."""
    share_of.cache_clear()  # nothing is owed for the tests before

    def opened(
        identity: str | None = "alice",
        settings: Deployment = deployed(),  # noqa: B008  # frozen
        **claims: Any,
    ) -> httpx.AsyncClient:
        user = (
            None
            if identity is None
            else SignedIn(identity=identity, **{"org_id": "acme", "permissions": [], **claims})
        )
        return http_client(settings, store, user)

    return opened


@pytest.fixture
async def api(calling: Open) -> AsyncIterator[httpx.AsyncClient]:
    async with calling() as client:
        yield client


MEMORIES = ("memories", "acme:alice")
NOTES = {"path": "/memories/notes.md"}


async def put(
    client: httpx.AsyncClient, content: str, path: str = "/memories/notes.md", **more: Any
) -> httpx.Response:
    return await client.put(
        "/memory/file", **{"params": {"path": path}, "json": {"content": content}, **more}
    )


def kept(store: BaseStore) -> dict[tuple[tuple[str, ...], str], Any]:
    return {(item.namespace, item.key): item.value for item in store.search((), limit=1000)}


async def texts(store: BaseStore, namespace: tuple[str, ...]) -> dict[str, str]:
    """The contents of the files of a namespace, by key."""
    return {item.key: item.value["content"] for item in await store.asearch(namespace)}


def exported(*files: Any) -> dict[str, Any]:
    return {"version": 1, "files": list(files)}
