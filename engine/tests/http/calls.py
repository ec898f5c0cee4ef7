"""What tests of the API share: callers, their requests, the routes, and what the store then has."""

from collections.abc import Callable
from typing import Any

import httpx
from langgraph.store.base import BaseStore

MEMORIES = ("memories", "acme:alice")
NOTES = {"path": "/memories/notes.md"}


Open = Callable[..., Any]


async def put(client: httpx.AsyncClient, content: str, path: str = "/memories/notes.md", **more: Any) -> httpx.Response:
    return await client.put("/memory/file", **{"params": {"path": path}, "json": {"content": content}, **more})


def kept(store: BaseStore) -> dict[tuple[tuple[str, ...], str], Any]:
    return {(item.namespace, item.key): item.value for item in store.search((), limit=1000)}


ROUTES = [
    ("GET", "/memory", {}),
    ("GET", "/memory/file", NOTES),
    ("PUT", "/memory/file", NOTES),
    ("DELETE", "/memory/file", NOTES),
    ("GET", "/memory/history", NOTES),
    ("POST", "/memory/undo", {}),
    ("GET", "/memory/export", {}),
    ("POST", "/memory/import", {}),
    ("POST", "/memory/bring", {}),
    ("POST", "/memory/consolidate", {"tidy": "true"}),
    ("DELETE", "/memory", {}),
]


def exported(*files: Any) -> dict[str, Any]:
    return {"version": 1, "files": list(files)}
