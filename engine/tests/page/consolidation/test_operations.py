"""The page's section for operators: there for them alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from lasting_memory.testing.dev_server import DevServer
from tests.page.conftest import Visit

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.proof]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    env = {"CONSOLIDATE_AFTER_SECONDS": "0", "OPERATORS": "root"}
    with DevServer(tmp_path_factory.mktemp("page"), env=env) as server:
        yield server.url


def test_operators_see_what_is_due(visit: Visit) -> None:
    visitor = visit()
    page = visitor.sign_in("root")
    visitor.say("hello")
    visitor.button("Operations").click()
    expect(page.get_by_role("region", name="Due")).to_contain_text("1 conversation of 1 person, the oldest since")
