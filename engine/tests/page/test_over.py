"""Facts with an end on the page: a day that one sets, and what becomes of a line after it."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from lasting_memory.memory.dated_lines import dated_lines
from tests.page.browser import Elsewhere
from tests.page.conftest import Visit

pytestmark = [pytest.mark.server, pytest.mark.browser]

OFFERS = "/memories/topics/offers.md"
SOURCE = "(2026-03-02, thread 0199c2f0-1111-4111-8111-111111111111)"


def test_a_person_says_until_when_a_fact_holds_and_that_one_still_does(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    today = datetime.now(UTC).date()
    passed = today - timedelta(days=30)
    before = (datetime.now(UTC) - timedelta(days=60)).isoformat()
    text = f"- Ten percent off {SOURCE} (until {passed})\n- Free tea\n"
    written = {line.key: before for line in dated_lines(text)}
    file = {"path": OFFERS, "content": text, "written": written}
    elsewhere.post("/memory/import", json={"version": 1, "files": [file]}).raise_for_status()
    visitor = visit()
    page = visitor.sign_in(me)
    offers = page.get_by_role("list", name="Offers", exact=True).get_by_role("listitem")
    expect(offers).to_have_count(1)
    expect(page.get_by_text("1 fact", exact=True)).to_be_visible()
    over = page.get_by_role("list", name="Over: Offers").get_by_role("listitem")
    expect(over.locator(".fact")).to_have_text(["Ten percent off"])
    visitor.button("Edit: Free tea").click()
    in_a_month = today + timedelta(days=30)
    page.get_by_label("Holds until").fill(in_a_month.isoformat())
    visitor.button("Save").click()
    expect(offers).to_contain_text("Until ")
    assert f"- Free tea (until {in_a_month})\n" in str(elsewhere.read(OFFERS))
    visitor.button("Still true: Ten percent off").click()
    expect(offers).to_have_count(2)
    expect(page.get_by_role("heading", name="Over", exact=True)).to_have_count(0)
    assert f"- Ten percent off {SOURCE}\n" in str(elsewhere.read(OFFERS))
    visitor.button("Edit: Free tea").click()
    expect(page.get_by_label("Holds until")).to_have_value(in_a_month.isoformat())
    page.get_by_label("Holds until").fill("")
    visitor.button("Save").click()
    expect(offers.filter(has_text="Until ")).to_have_count(0)
    assert str(elsewhere.read(OFFERS)) == f"- Ten percent off {SOURCE}\n- Free tea\n"
