"""What a person sees and decides of consolidation: what it would do and did, and what it proposes."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Elsewhere, Visit
from tests.page.test_person import PREFERENCES

pytestmark = [pytest.mark.server, pytest.mark.browser]


def test_consolidation_is_rehearsed_then_done_and_its_diff_shown(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    visitor = visit()
    page = visitor.sign_in(me)
    visitor.say("I play the cello.")
    visitor.button("Consolidation").click()
    expect(page.get_by_text("There were none yet.")).to_be_visible()
    visitor.button("Rehearse").click()
    would = page.get_by_role("region", name="What it would change")
    expect(would).to_contain_text("+- I play the cello")
    assert "cello" not in str(elsewhere.read(PREFERENCES))
    visitor.button("Consolidate now").click()
    expect(page.get_by_text("It is at work.")).to_have_count(0, timeout=30_000)
    expect(page.locator(".runs li")).to_contain_text("+- I play the cello")
    assert "cello" in str(elsewhere.read(PREFERENCES))
    visitor.button("Consolidate now").click()
    expect(page.get_by_text("There was nothing new.")).to_be_visible(timeout=30_000)
    page.keyboard.press("Escape")
    expect(page.get_by_role("list", name="Changes")).to_contain_text("Changed by consolidation")
    expect(page.get_by_role("list", name="Memory")).to_contain_text("I play the cello")
    expect(visitor.button("Consolidation")).to_be_focused()


def test_what_is_proposed_waits_behind_a_badge_and_is_accepted_or_declined(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    visitor = visit()
    page = visitor.sign_in(me)
    page.get_by_label("Show me changes first").check()
    for said, decision in (("I like leek.", "Decline"), ("I like fennel.", "Accept")):
        visitor.button("New conversation").click()
        visitor.say(said)
        visitor.button("Consolidation").click()
        visitor.button("Consolidate now").click()
        expect(page.get_by_text("proposed: 1 conversation").first).to_be_visible(timeout=20_000)
        page.keyboard.press("Escape")
        badge = page.get_by_role("button", name="Proposed changes 1")
        badge.click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(f"+- {said.rstrip('.')}")
        assert visitor.inaccessible() == []
        dialog.get_by_role("button", name=decision, exact=True).click()
        expect(dialog).to_contain_text("Nothing waits for you any more.")
        page.keyboard.press("Escape")
        expect(badge).to_have_count(0)
    assert "I like fennel" in str(elsewhere.read(PREFERENCES))
    assert "leek" not in str(elsewhere.read(PREFERENCES))
