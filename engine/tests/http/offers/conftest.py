"""Lines of one's own memory, offered to a group: nothing but the text crosses, by the person's own
yes, and whoever may write in the group's folder decides. What tests of that share.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest
from langgraph.store.base import BaseStore

from lasting_memory.deployment import Deployment
from lasting_memory.people.identity import OPERATE, Actor
from lasting_memory.people.scopes import ROUTES, group
from lasting_memory.testing.deployed import deployed
from tests.http.conftest import Open, put

ALICE = Actor("alice", "acme")
FACT = "The build breaks on Fridays"
PATH = "/memories/topics/work.md"
RED = {"team_id": "red"}
OPERATOR: dict[str, Any] = {"permissions": [OPERATE]}
TEAM = ("groups", "acme:team_id:red")
ACCEPTED = "/team/from-members.md"
Call = Callable[..., Awaitable[httpx.Response]]


def with_team(writes: Any = "members", **more: Any) -> Deployment:
    routes = {**ROUTES, "/team/": group("team_id", writes=writes)}
    return replace(deployed(), **{"routes": routes, **more})


MEMBERS = with_team()


class World:
    """People of a deployment, each by a token of their own."""

    def __init__(self, calling: Open, stack: AsyncExitStack, store: BaseStore) -> None:
        self._calling = calling
        self._stack = stack
        self.store = store
        self.deployment = MEMBERS

    async def api(self, name: str = "alice", **claims: Any) -> httpx.AsyncClient:
        claims = {"claims": RED, **claims}
        opened = self._calling(name, self.deployment, **claims)
        return await self._stack.enter_async_context(opened)

    async def operator(self, name: str = "root", **claims: Any) -> httpx.AsyncClient:
        return await self.api(name, org_id="default", **{"claims": {}, **OPERATOR, **claims})

    def team_file(self) -> str:
        item = self.store.get(TEAM, "/from-members.md")
        return item.value["content"] if item else ""


@pytest.fixture
async def world(calling: Open, store: BaseStore) -> Any:
    async with AsyncExitStack() as stack:
        yield World(calling, stack, store)


def body(text: str = FACT, **more: Any) -> dict[str, Any]:
    return {"path": PATH, "text": text, "folder": "/team/", "group": "red", "keep": True, **more}


async def remember(api: httpx.AsyncClient, *lines: str, path: str = PATH) -> None:
    text = "\n".join(["# Work", "", *(lines or (f"- {FACT}",)), ""])
    assert (await put(api, text, path)).status_code == 200


async def offer(api: httpx.AsyncClient, text: str = FACT, **more: Any) -> dict[str, Any]:
    answer = await api.post("/memory/offers", json=body(text, **more))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def offers(api: httpx.AsyncClient) -> dict[str, Any]:
    answer = await api.get("/memory/offers")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def decide(api: httpx.AsyncClient, made: dict[str, Any], *, accept: bool = True) -> Any:
    return await api.post(f"/memory/offers/{made['id']}", json={"accept": accept})


async def own_file(api: httpx.AsyncClient, path: str = PATH) -> str:
    return str((await api.get("/memory/file", params={"path": path})).json()["content"])
