"""What a person sees and decides of consolidation: what it would do and did, and what it proposes."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.page.browser import Visitor
from tests.page.conftest import Elsewhere, Visit
from tests.page.test_person import PREFERENCES

pytestmark = [pytest.mark.server, pytest.mark.browser]


def test_consolidation_is_rehearsed_then_done_and_its_diff_shown(visitor: Visitor, elsewhere: Elsewhere) -> None:
    page = visitor.page
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


def test_what_is_proposed_waits_behind_a_badge_and_is_accepted_or_declined(
    visitor: Visitor, me: str, elsewhere: Elsewhere
) -> None:
    page = visitor.page
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


def test_what_the_agent_would_write_waits_as_well(visitor: Visitor, elsewhere: Elsewhere) -> None:
    page = visitor.page
    page.get_by_label("Also what it writes while we talk").check()
    expect(page.get_by_text("waits for your yes")).to_contain_text("between conversations counts at once")
    visitor.say("Remember that I like fennel.")
    expect(page.get_by_text("not remembered before you accept it")).to_be_visible()
    expect(page.get_by_text("append_memory (waits for your yes)")).to_be_visible()
    assert "fennel" not in str(elsewhere.read(PREFERENCES))
    page.get_by_role("button", name="Proposed changes 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("what it wanted to write while you talked")
    assert visitor.inaccessible() == []
    dialog.get_by_role("button", name="Accept", exact=True).click()
    expect(dialog).to_contain_text("Nothing waits for you any more.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("list", name="Memory")).to_contain_text("fennel")
    page.reload()
    expect(page.get_by_label("Also what it writes while we talk")).to_be_checked()


def test_memory_is_tidied_and_one_decides_line_by_line(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    elsewhere.write(PREFERENCES, "- Metric units\n- Short answers\n- Metric units.\n- Sources for numbers\n- Short answers!\n")
    visitor = visit()
    page = visitor.sign_in(me)
    visitor.button("Consolidation").click()
    visitor.button("Tidy").click()
    expect(page.get_by_text("It waits for you under")).to_be_visible(timeout=30_000)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Proposed changes 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("how your memory could be put in order")
    expect(dialog.get_by_role("heading", name="Preferences")).to_be_visible()
    assert visitor.inaccessible() == []
    dialog.get_by_label("-- Metric units.").uncheck()
    dialog.get_by_role("button", name="Accept", exact=True).click()
    expect(dialog).to_contain_text("Nothing waits for you any more.")
    assert elsewhere.read(PREFERENCES) == "- Metric units\n- Short answers\n- Metric units.\n- Sources for numbers\n"


def test_what_another_assistant_knows_is_brought_along_and_edited(visitor: Visitor, me: str, elsewhere: Elsewhere) -> None:
    page = visitor.page
    visitor.button("Bring your memory").click()
    dialog = page.get_by_role("dialog", name="Bring your memory")
    expect(dialog).to_contain_text("Write down everything that you remember or know about me")
    dialog.get_by_label("What it knows about you").fill("About me:\n- Plays the cello\n- Lives in Lyon\n- Likes leek")
    visitor.button("Show what would be added").click()
    expect(dialog.get_by_role("heading", name="Preferences")).to_be_visible(timeout=30_000)
    assert "cello" not in str(elsewhere.read(PREFERENCES))
    assert visitor.inaccessible() == []
    dialog.get_by_label("+- Likes leek").uncheck()
    dialog.get_by_role("button", name="Edit - Lives in Lyon").click()
    dialog.get_by_label("Instead of - Lives in Lyon").fill("- Lives near Lyon")
    dialog.get_by_role("button", name="Accept", exact=True).click()
    expect(dialog).to_contain_text("Decided.")
    memory = str(elsewhere.read(PREFERENCES))
    assert "- Plays the cello\n- Lives near Lyon\n" in memory
    assert "leek" not in memory
    page.keyboard.press("Escape")
    expect(page.get_by_role("list", name="Memory")).to_contain_text("Lives near Lyon")
