"""On the page: a line of one's own memory is offered to a group, by the text and the group that one
sees, and another member decides.
"""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect

from lasting_memory.testing.people import dev_token
from tests.conftest import ServerWith
from tests.page.browser import Visitor

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.proof]
PATH = "/memories/topics/work.md"
FACT = "Builds break on Fridays"
ROUTE = '"/team/": group("team_id", writes="members")'


@pytest.fixture(scope="module")
def team_url(server_with: ServerWith) -> str:
    return server_with(None, ROUTE, AGENT_MODEL="").url


def token(name: str) -> str:
    return f"{dev_token('acme', name)}?team_id=red"


@pytest.fixture
def member(browser: Browser, team_url: str) -> Iterator[Visitor]:
    visitor = Visitor.arrive(browser, team_url)
    yield visitor
    visitor.leave()


def enter(visitor: Visitor, url: str, name: str) -> None:
    visitor.page.goto(f"{url}/app#token={token(name)}")
    visitor.button("Yes, sign in").click()


def remember(url: str, name: str, text: str) -> None:
    headers = {"Authorization": f"Bearer {token(name)}"}
    with httpx.Client(base_url=url, headers=headers, trust_env=False) as api:
        put = api.put("/memory/file", params={"path": PATH}, json={"content": text})
        put.raise_for_status()


def test_a_line_goes_to_a_group_by_one_s_own_yes_and_another_member_s(
    browser: Browser, team_url: str, member: Visitor, me: str
) -> None:
    remember(team_url, me, f"# Work\n\n- {FACT}\n- likes leek\n")
    enter(member, team_url, me)
    page = member.page
    for text in (FACT, "likes leek"):
        page.get_by_role("button", name=f"Offer to red: {text}").click()
        dialog = page.get_by_role("dialog", name="Offer to red")
        expect(dialog.get_by_text(text, exact=True)).to_be_visible()
        expect(dialog).to_contain_text("For red (/team/)")
        assert member.inaccessible() == []
        if text == FACT:
            dialog.get_by_label("My own line stays").uncheck()
        dialog.get_by_role("button", name=f"Offer to red: {text}").click()
        expect(dialog.get_by_role("status")).to_have_text("Offered to red.")
        dialog.get_by_role("button", name="Close").click()
    other = Visitor.arrive(browser, team_url)
    enter(other, team_url, f"bob-{me}")
    other.go("Changes")
    other.page.get_by_role("button", name="Offers to groups").click()
    waiting = other.page.get_by_role("list", name="Offered to groups, for you to decide")
    expect(waiting.get_by_role("listitem")).to_have_count(2)
    expect(waiting).to_contain_text(me)
    assert other.inaccessible() == []
    other.page.get_by_role("button", name=f"Accept: {FACT}").click()
    expect(waiting.get_by_role("listitem")).to_have_count(1)
    other.page.get_by_role("button", name="Close").click()
    other.go("Facts")
    expect(other.page.get_by_role("region", name="Shared with red")).to_contain_text(FACT)
    other.leave()
    member.go("Changes")
    page.get_by_role("button", name="Offers to groups").click()
    mine = page.get_by_role("list", name="Your offers")
    page.get_by_role("button", name="Withdraw: likes leek").click()
    expect(mine).to_contain_text("accepted by red")
    expect(mine.get_by_role("listitem")).to_have_count(1)
    page.get_by_role("button", name="Close").click()
    member.go("Facts")
    own = page.get_by_role("list", name="Work")
    expect(own.get_by_text("likes leek", exact=True)).to_be_visible()
    expect(own.get_by_text(FACT, exact=True)).to_have_count(0)
