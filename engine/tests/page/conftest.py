"""A browser, and people in it, for tests of the page."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser

from lasting_memory.people import namespaces
from lasting_memory.testing.dev_server import dev_token
from tests.conftest import ServerWith
from tests.page.browser import MISSING, Visitor, open_browser

Visit = Callable[..., Visitor]
RULE = "Nobody shares prices.\n"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        if browser is None:
            pytest.skip(f"The page is not tested: {MISSING}.")
        yield browser


@pytest.fixture
def visit(browser: Browser, url: str) -> Iterator[Visit]:
    """Opens a browser of one's own; when the test ends, whatever should not have happened in it is an error."""
    visitors: list[Visitor] = []

    def arrive(**options: Any) -> Visitor:
        visitors.append(Visitor.arrive(browser, url, **options))
        return visitors[-1]

    yield arrive
    for visitor in visitors:
        visitor.leave()


@pytest.fixture
def visitor(visit: Visit, me: str) -> Visitor:
    """Me, signed in."""
    visitor = visit()
    visitor.sign_in(me)
    return visitor


@pytest.fixture
def me() -> str:
    """An identity like real ones, new in every test, and no part of a name that the page shows."""
    return f"zoe+{uuid.uuid4().hex[:8]}@example.com"


@pytest.fixture(scope="session")
def url(server_with: ServerWith) -> str:
    server = server_with(AGENT_MODEL="")  # the offline model
    put_item(server.url, namespaces.policies("acme"), "/prices.md", RULE)
    return server.url


def put_item(url: str, namespace: namespaces.Namespace, key: str, content: str) -> None:
    """Put a file into the store as an operator, whom nothing checks."""
    item = {"namespace": namespace, "key": key, "value": {"content": content, "encoding": "utf-8"}}
    httpx.put(f"{url}/store/items", json=item, headers={"x-auth-scheme": "langsmith"}, trust_env=False).raise_for_status()


class Elsewhere:
    """The same person without a browser."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def write(self, path: str, content: str) -> None:
        self._http.put("/memory/file", params={"path": path}, json={"content": content}).raise_for_status()

    def delete(self, path: str) -> None:
        self._http.delete("/memory/file", params={"path": path}).raise_for_status()

    def remove(self, thread_id: str) -> None:
        self._http.delete(f"/threads/{thread_id}").raise_for_status()

    def rename(self, thread_id: str, title: str) -> None:
        self._http.patch(f"/threads/{thread_id}", json={"metadata": {"title": title}}).raise_for_status()

    def read(self, path: str) -> str | None:
        answer = self._http.get("/memory/file", params={"path": path})
        return None if answer.status_code == 404 else str(answer.json()["content"])


@pytest.fixture
def elsewhere(url: str, me: str) -> Iterator[Elsewhere]:
    headers = {"authorization": f"Bearer {dev_token('acme', me)}"}
    with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=30) as http:
        yield Elsewhere(http)
