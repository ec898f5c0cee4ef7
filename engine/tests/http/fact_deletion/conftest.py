"""Deleting one fact for good: what tests of that share."""

import json
from contextlib import nullcontext
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore

from lasting_memory import platform
from lasting_memory.http import delete_for_good
from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Memory
from lasting_memory.people.identity import Actor, Author
from lasting_memory.testing.contract import http_client
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.platform import Platform
from tests.http.conftest import MEMORIES, NOTES, kept

ALICE = Actor("alice", "acme")
AGENT = Author("agent", "alice", "run-1", "")
FACT, OLD = "The safe opens with tulip seven", "The safe opens with crocus six"


@pytest.fixture(autouse=True)
def talks(monkeypatch: pytest.MonkeyPatch) -> Platform:
    """The conversations of a platform without a server, where everybody may delete their own."""
    talks = Platform()
    monkeypatch.setattr(delete_for_good, "get_client", lambda: talks)
    monkeypatch.setattr(delete_for_good, "GRACE_SECONDS", 0.01)
    monkeypatch.setattr(platform, "acting_as_caller", lambda _: nullcontext())
    return talks


async def delete(
    api: httpx.AsyncClient, text: str = FACT, path: str = NOTES["path"], **more: Any
) -> httpx.Response:
    body = {"text": text, **more.pop("body", {})}
    params = {"path": path, **more.pop("params", {})}
    return await api.request("DELETE", "/memory/fact", params=params, json=body, **more)


async def deleted(api: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    answer = await delete(api, **more)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def opened_on(store: BaseStore) -> httpx.AsyncClient:
    """The API on this store, as Alice."""
    return http_client(deployed(), store, SignedIn(identity="alice", org_id="acme", permissions=[]))


def stored(store: BaseStore) -> str:
    return json.dumps([[*place, value] for place, value in kept(store).items()], default=str)


def memory(store: BaseStore, writer: journal.Writer | None = None) -> Memory:
    return Memory(store, ALICE, MEMORIES, deployed(), writer)
