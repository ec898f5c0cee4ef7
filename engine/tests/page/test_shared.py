"""The page of deployments unlike the shipped one: shared memory, a group's folder, a second agent,
operators.
"""

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Route, expect

from lasting_memory import group
from lasting_memory.people.identity import Actor
from lasting_memory.testing.dev_server import DevServer
from tests.conftest import ServerWith
from tests.page.browser import Visitor
from tests.page.conftest import put_item

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.proof]


@pytest.fixture(scope="module")
def url(server_with: ServerWith) -> str:
    return server_with(AGENT_MODEL="", MEMORY_SCOPE="assistant").url


def test_the_page_of_shared_memory_says_so_and_offers_no_files(visitor: Visitor, me: str) -> None:
    page = visitor.page
    expect(page.get_by_text("Memory is shared here by everybody")).to_be_visible()
    expect(page.get_by_role("list", name="Memory")).to_have_count(0)
    expect(visitor.button("Import")).to_have_count(0)
    visitor.say("What do you know about me?")
    expect(page.get_by_role("article").last).to_contain_text("I do not know anything about you yet")
    visitor.go("Settings")
    expect(visitor.button("Export")).to_be_visible()
    for name in ("Consolidation", "Trash", "Bring your memory", "Files"):
        expect(page.get_by_role("button", name=name), "it would be refused").to_have_count(0)
    expect(page.get_by_label("Pause memory")).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_count(0)
    for name in ("Policies", "What the model sees"):
        visitor.button(name).click()
        expect(page.get_by_role("dialog").get_by_role("alert")).to_have_count(0)
        page.keyboard.press("Escape")
    assert "MEMORY_SCOPE" not in page.content()


def test_the_page_without_memory_says_so_and_offers_no_files(
    browser: Browser, url: str, me: str
) -> None:
    visitor = Visitor.arrive(browser, url)

    def without_memory(route: Route) -> None:
        """As a deployment without the route answers."""
        answer = route.fetch()
        told = answer.json()
        del told["routes"]["/memories/"]
        route.fulfill(response=answer, json=told)

    visitor.page.route("**/memory/me", without_memory)
    page = visitor.sign_in(me)
    expect(page.get_by_text("This assistant has no memory")).to_be_visible()
    expect(page.get_by_text("Memory is shared here")).to_have_count(0)
    expect(page.get_by_role("list", name="Memory")).to_have_count(0)
    expect(visitor.button("Import")).to_have_count(0)
    visitor.say("hello")
    visitor.leave()


@pytest.fixture(scope="module")
def fork_url(server_with: ServerWith) -> str:
    return server_with(
        {"graphs": {"support": "./agent.py:agent"}}, '"/team/": group("team_id")', AGENT_MODEL=""
    ).url


def test_a_group_s_folder_is_shown_to_its_members_beside_their_own_memory(
    browser: Browser, fork_url: str, me: str
) -> None:
    put_item(fork_url, ("groups", "acme:team_id:red"), "/plan.md", "# Plan\n\n- Ship on Monday\n")
    for team in ("red", "blue"):
        visitor = Visitor.arrive(browser, fork_url)
        visitor.page.goto(f"{fork_url}/app#token=dev:acme:{quote(me)}?team_id={team}")
        visitor.button("Yes, sign in").click()
        folder = visitor.page.get_by_role("region", name=f"Shared with {team}")
        expect(folder).to_contain_text("/team/, for everybody whose team_id is")
        expect(folder.get_by_text("Ship on Monday")).to_have_count(int(team == "red"))
        expect(folder.get_by_role("button")).to_have_count(0)
        assert visitor.inaccessible() == []
        visitor.leave()


def test_a_person_signs_in_with_a_claim_of_a_group(
    browser: Browser, fork_url: str, me: str
) -> None:
    folder = group("team_id").namespace(Actor("", "acme"), "", {"team_id": "red & blue"})
    put_item(fork_url, folder, "/plan.md", "- Ship on Tuesday\n")
    visitor = Visitor.arrive(browser, fork_url)
    page = visitor.page
    page.goto(f"{fork_url}/app")
    page.get_by_label("Identity").fill(me)
    page.get_by_label("Organization").fill("acme")
    page.get_by_text("More", exact=True).click()
    claims = page.get_by_label("Claims")
    for wrong in ("team_id", "=red", "team_id=red\nteam_id=blue"):
        claims.fill(wrong)
        visitor.button("Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("claim")
    assert visitor.inaccessible() == []
    claims.fill("\n team_id = red & blue \n")
    visitor.button("Sign in").click()
    expect(page.get_by_role("region", name="Shared with red & blue")).to_contain_text(
        "Ship on Tuesday"
    )
    visitor.leave()


def test_a_person_chooses_an_agent_and_finds_the_conversations_with_all_again(
    browser: Browser, fork_url: str, me: str
) -> None:
    visitor = Visitor.arrive(browser, fork_url)
    page = visitor.sign_in(me)
    visitor.say("Remember that I prefer metric units.")
    visitor.button("New conversation").click()
    page.get_by_label("Agent", exact=True).select_option("support")
    visitor.say("What do you know about me?")
    expect(page.get_by_role("article").last).to_contain_text("metric")
    expect(page.get_by_label("Agent", exact=True)).to_be_disabled()
    talks = page.get_by_role("list", name="Conversations").get_by_role("listitem")
    expect(talks).to_have_count(2)
    page.reload()
    expect(talks).to_have_count(2)
    talks.first.get_by_role("button").first.click()
    expect(page.get_by_label("Agent", exact=True)).to_have_value("support")
    assert visitor.inaccessible() == []
    visitor.leave()


def test_operators_see_what_is_due(browser: Browser, tmp_path: Path) -> None:
    with DevServer(tmp_path, env={"CONSOLIDATE_AFTER_SECONDS": "0", "OPERATORS": "root"}) as server:
        visitor = Visitor.arrive(browser, server.url)
        page = visitor.sign_in("root")
        visitor.say("hello")
        visitor.button("Operations").click()
        expect(page.get_by_role("region", name="Due")).to_contain_text(
            "1 conversation of 1 person, the oldest since"
        )
        visitor.leave()
