"""Consolidation on the page: it is rehearsed and done, proposes changes, tidies memory, and reads all
conversations again.
"""

import pytest
from playwright.sync_api import Route, expect

from tests.page.browser import Elsewhere, Visitor
from tests.page.conftest import PREFERENCES, Visit

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.begins_first]


def test_consolidation_is_rehearsed_then_done_and_its_diff_shown(
    visitor: Visitor, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    visitor.say("I play the cello.")
    visitor.button("Consolidation").click()
    expect(page.get_by_text("There were none yet.")).to_be_visible()
    visitor.button("Rehearse").click()
    would = page.get_by_role("region", name="What it would change")
    expect(would).to_contain_text("+ I play the cello")
    assert "cello" not in str(elsewhere.read(PREFERENCES))
    visitor.button("Consolidate now").click()
    expect(page.get_by_text("It is at work.")).to_have_count(0)
    expect(page.locator(".runs li").first).to_contain_text("+ I play the cello")
    assert "cello" in str(elsewhere.read(PREFERENCES))
    visitor.button("Consolidate now").click()
    expect(page.get_by_text("There was nothing new.")).to_be_visible()
    page.keyboard.press("Escape")
    expect(visitor.button("Consolidation")).to_be_focused()
    expect(page.get_by_role("list", name="Changes")).to_contain_text("Changed by consolidation")
    visitor.go("Facts")
    expect(page.get_by_role("list", name="Memory")).to_contain_text("I play the cello")


def test_a_proposal_waits_behind_a_badge_and_is_accepted_or_declined(
    visitor: Visitor, me: str, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    visitor.go("Settings")
    page.get_by_label("Show me changes first").check()
    for said, decision in (("I like leek.", "Decline"), ("I like fennel.", "Accept")):
        visitor.button("New conversation").click()
        visitor.say(said)
        visitor.button("Consolidation").click()
        visitor.button("Consolidate now").click()
        expect(page.get_by_text("proposed: 1 conversation").first).to_be_visible()
        page.keyboard.press("Escape")
        badge = page.get_by_role("button", name="Proposed changes 1")
        badge.click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(f"+ {said.rstrip('.')}")
        assert visitor.inaccessible() == []
        dialog.get_by_role("button", name=decision, exact=True).click()
        expect(dialog).to_contain_text("Nothing waits for you any more.")
        page.keyboard.press("Escape")
        expect(badge).to_have_count(0)
    assert "I like fennel" in str(elsewhere.read(PREFERENCES))
    assert "leek" not in str(elsewhere.read(PREFERENCES))


def test_a_write_of_the_agent_waits_as_well(visitor: Visitor, elsewhere: Elsewhere) -> None:
    page = visitor.page
    visitor.go("Settings")
    page.get_by_label("Also what it writes while we talk").check()
    expect(page.get_by_text("waits for your yes")).to_contain_text(
        "between conversations counts at once"
    )
    visitor.say("Remember that I like fennel.")
    expect(page.get_by_text("not remembered before you accept it")).to_be_visible()
    expect(page.get_by_text("Wrote to memory (waits for your yes)")).to_be_visible()
    assert "fennel" not in str(elsewhere.read(PREFERENCES))
    visitor.go("Changes 1")
    page.get_by_role("button", name="Proposed changes 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("what it wanted to write while you talked")
    assert visitor.inaccessible() == []
    dialog.get_by_role("button", name="Accept", exact=True).click()
    expect(dialog).to_contain_text("Nothing waits for you any more.")
    page.keyboard.press("Escape")
    visitor.go("Facts")
    expect(page.get_by_role("list", name="Memory")).to_contain_text("fennel")
    page.reload()
    expect(page.get_by_label("Also what it writes while we talk")).to_be_checked()


def test_memory_is_tidied_and_one_decides_line_by_line(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    elsewhere.write(
        PREFERENCES,
        "- Metric units\n- Short answers\n- Metric units.\n- Sources for numbers\n- Short answers!\n",
    )
    elsewhere.write("/memories/topics/home.md", "- Likes rain\n- Likes rain.\n")
    visitor = visit()
    page = visitor.sign_in(me)
    visitor.button("Consolidation").click()
    visitor.button("Tidy").click()
    expect(page.get_by_text("It waits for you under")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Proposed changes 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("how your memory could be put in order")
    expect(dialog.get_by_role("heading", name="Preferences")).to_be_visible()
    assert visitor.inaccessible() == []
    dialog.get_by_label("\N{MINUS SIGN} Metric units.").uncheck()
    dialog.get_by_role("button", name="Accept", exact=True).click()
    expect(dialog).to_contain_text("Nothing waits for you any more.")
    assert (
        elsewhere.read(PREFERENCES)
        == "- Metric units\n- Short answers\n- Metric units.\n- Sources for numbers\n"
    )
    assert elsewhere.read("/memories/topics/home.md") == "- Likes rain\n", (
        "a file without a choice is accepted whole"
    )


def test_a_dream_reads_all_conversations_again_and_the_person_decides(
    visit: Visit, me: str
) -> None:
    visitor = visit()
    page = visitor.sign_in(me)
    visitor.say("I play the cello.")
    visitor.button("Read all my conversations again").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="How much would that take?").click()
    expect(dialog).to_contain_text("1 conversation")
    assert visitor.inaccessible() == []
    dialog.get_by_role("button", name="Begin", exact=True).click()
    proposed = page.get_by_role("button", name="Proposed changes 1", include_hidden=True)
    expect(proposed).to_be_attached()
    page.keyboard.press("Escape")
    proposed.click()
    expect(dialog).to_contain_text("cello")
    dialog.get_by_role("button", name="Accept", exact=True).click()
    expect(dialog).to_contain_text("Nothing waits for you any more.")
    page.keyboard.press("Escape")
    visitor.go("Facts")
    expect(page.get_by_text("cello").last).to_be_visible()


@pytest.mark.parametrize(("path", "opens", "says"), [
    ("/memory/changes", "", "3 older changes are not shown here"),
    ("/memory/proposals", "Proposed changes 4", "3 more proposals will be shown once"),
])  # fmt: skip
def test_changes_and_proposals_that_an_answer_leaves_out_are_counted(
    visit: Visit, me: str, path: str, opens: str, says: str
) -> None:
    visitor = visit()

    def with_more(route: Route) -> None:
        told = route.fetch().json()
        one = {
            "id": "1",
            "at": "2026-01-01T00:00:00Z",
            "kind": "agent",
            "threads": [],
            "files": {},
            "lines": {},
        }
        proposals = {"proposals": [one]} if "proposals" in told else {}
        route.fulfill(json={**told, **proposals, "more": 3})

    visitor.page.route(f"**{path}", with_more)
    page = visitor.sign_in(me)
    visitor.go("Changes")
    if opens:
        page.get_by_role("button", name=opens).click()
    expect(page.get_by_text(says)).to_be_visible()
