"""What a person decides: temporary, pause. What the page says: why a line is known, what is left out, what is nearly full."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from lasting_memory.controls import NEARLY_FULL
from lasting_memory.limits import DEFAULTS
from lasting_memory.validation import MAX_FILE_BYTES
from tests.page.browser import Visitor
from tests.page.conftest import Elsewhere
from tests.page.test_person import METRIC, PREFERENCES

pytestmark = [pytest.mark.server, pytest.mark.browser]


def test_a_temporary_conversation_is_shown_as_one_and_leaves_nothing(visitor: Visitor, me: str, elsewhere: Elsewhere) -> None:
    page = visitor.page
    page.get_by_label("Temporary conversation").check()
    visitor.say(METRIC)
    expect(page.get_by_text("Temporary conversation: it knows nothing of you")).to_be_visible()
    expect(page.get_by_text("This is a temporary conversation. Nothing of earlier ones").first).to_be_visible()
    assert elsewhere.read(PREFERENCES) is None
    expect(page.get_by_role("list", name="Conversations")).to_contain_text(", temporary")
    visitor.sign_in(me)
    visitor.button("New conversation").click()
    expect(page.get_by_label("Temporary conversation")).not_to_be_checked()
    visitor.say(METRIC)
    assert "metric" in str(elsewhere.read(PREFERENCES))


def test_memory_is_paused_and_resumed_by_a_switch(visitor: Visitor, me: str, elsewhere: Elsewhere) -> None:
    page = visitor.page
    page.get_by_label("Pause memory").check()
    expect(page.get_by_text("Memory is paused: nothing new is remembered")).to_be_visible()
    visitor.say(METRIC)
    assert "metric" not in str(elsewhere.read(PREFERENCES))
    page.route("**/memory/controls", lambda route: route.abort())
    page.get_by_label("Show me changes first").click()
    expect(page.get_by_text("The server cannot be reached")).to_be_visible()
    expect(page.get_by_label("Show me changes first")).not_to_be_checked()
    expect(page.get_by_text("waits for your yes")).to_have_count(0)
    expect(page.get_by_label("Pause memory"), "a switch that failed says nothing of another").to_be_checked()
    page.unroute("**/memory/controls")
    page.get_by_label("Pause memory").uncheck()
    expect(page.get_by_text("Memory is paused: nothing new is remembered")).to_have_count(0)
    visitor.say(METRIC)
    assert "metric" in str(elsewhere.read(PREFERENCES))


def test_each_line_of_a_file_says_why_it_is_known(visitor: Visitor, elsewhere: Elsewhere) -> None:
    page = visitor.page
    visitor.say(METRIC)
    thread = page.url.partition("#")[2]
    elsewhere.write(PREFERENCES, f"{elsewhere.read(PREFERENCES)}- in short sentences\n")
    visitor.button("New conversation").click()
    fact = page.get_by_role("list", name="Preferences").get_by_role("listitem").filter(has_text="metric units")
    fact.get_by_role("button", name="Why").click()
    expect(fact.locator(".why")).to_contain_text("By the agent")
    expect(fact.locator(".excerpt").first).to_contain_text("metric units")
    assert str(fact.get_by_role("link", name="this conversation").get_attribute("href")).endswith(thread)
    visitor.file(PREFERENCES)
    visitor.button("Why").click()
    lines = page.get_by_role("list", name="Why each line is known").get_by_role("listitem")
    expect(lines.filter(has_text="in short sentences")).to_contain_text(re.compile("By you, "))
    said = lines.filter(has_text="metric units")
    expect(said).to_contain_text("By the agent")
    assert visitor.inaccessible() == []
    said.get_by_role("link", name="this conversation").click()
    expect(page.get_by_text(METRIC).first).to_be_visible()
    assert page.url.endswith(thread)


@pytest.mark.proof
def test_what_the_model_does_not_see_is_named_and_that_memory_is_nearly_full_said(
    visitor: Visitor, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    page.get_by_text("Nothing yet.").wait_for()
    full = page.get_by_text("Memory is nearly full: ")
    expect(full).to_have_count(0)
    elsewhere.write(PREFERENCES, "- tea\n" * DEFAULTS.memory_block_bytes)
    visitor.button("What the model sees").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"Left out: {PREFERENCES}: ")
    visitor.button("Close").click()
    for number in range(int(NEARLY_FULL * DEFAULTS.max_bytes / MAX_FILE_BYTES) + 1):
        elsewhere.write(f"/memories/{number}.md", "x" * MAX_FILE_BYTES)
    visitor.look()
    expect(full).to_contain_text("kB of 4,194.3 kB")
