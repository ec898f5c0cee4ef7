"""A browser, and people in it, for tests of the page."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser

from lasting_memory.people import namespaces
from tests.conftest import ServerWith
from tests.page.browser import MISSING, Elsewhere, Visitor, open_browser

Visit = Callable[..., Visitor]
RULE = "Nobody shares prices.\n"
PREFERENCES, NOTES = "/memories/preferences.md", "/memories/notes.md"
METRIC = "Remember that I prefer metric units."


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        if browser is None:
            pytest.skip(f"The page is not tested: {MISSING}.")
        yield browser


@pytest.fixture
def visit(browser: Browser, url: str) -> Iterator[Visit]:
    """Opens a browser of one's own; when the test ends, whatever should not have happened in it is
    an error.
    """
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
    httpx.put(
        f"{url}/store/items", json=item, headers={"x-auth-scheme": "langsmith"}, trust_env=False
    ).raise_for_status()


@pytest.fixture
def elsewhere(url: str, me: str) -> Iterator[Elsewhere]:
    with Elsewhere(url, me) as elsewhere:
        yield elsewhere


def answered(elsewhere: Elsewhere, content: str | list[Any]) -> str:
    """The id of a conversation with this answer, without a run."""
    thread = str(
        elsewhere.post("/threads", json={"metadata": {"graph_id": "agent"}})
        .raise_for_status()
        .json()["thread_id"]
    )
    said = [{"role": "user", "content": "go on"}, {"role": "assistant", "content": content}]
    state = {"values": {"messages": said}, "as_node": "__start__"}
    headers = {"x-auth-scheme": "langsmith"}
    elsewhere.post(f"/threads/{thread}/state", json=state, headers=headers).raise_for_status()
    return thread
