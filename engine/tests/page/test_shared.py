"""The page where memory is everybody's, which nobody has files of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from lasting_memory.testing.dev_server import DevServer
from tests.page.conftest import Visit

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.proof]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with DevServer(tmp_path_factory.mktemp("page"), env={"AGENT_MODEL": "", "MEMORY_SCOPE": "assistant"}) as server:
        yield server.url


def test_where_memory_is_shared_the_page_says_so_and_offers_no_files(visit: Visit, me: str) -> None:
    visitor = visit()
    page = visitor.sign_in(me)
    expect(page.get_by_text("Memory is shared here by everybody")).to_be_visible()
    expect(page.get_by_role("list", name="Memory")).to_have_count(0)
    expect(visitor.button("Import")).to_have_count(0)
    visitor.say("What do you know about me?")
    expect(page.get_by_role("article").last).to_contain_text("I do not know anything about you yet")
    visitor.button("Consolidation").click()
    visitor.button("Rehearse").click()
    expect(page.get_by_role("alert")).to_contain_text("MEMORY_SCOPE=assistant")
