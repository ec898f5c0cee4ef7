"""What a person decides: temporary, pause, review. What the page says: why, what is left out or nearly
full.
"""

import re

import pytest
from playwright.sync_api import expect

from lasting_memory.deployment import DEFAULTS
from lasting_memory.memory.stored_files import NEARLY_FULL
from lasting_memory.memory.validation import MAX_FILE_BYTES
from tests.page.browser import Elsewhere, Held, Visitor
from tests.page.conftest import METRIC, PREFERENCES

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.begins_first]


def test_a_temporary_conversation_is_shown_as_one_and_leaves_nothing(
    visitor: Visitor, me: str, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    page.get_by_label("Temporary conversation").check()
    visitor.say(METRIC)
    expect(page.get_by_text("Temporary conversation: it knows nothing of you")).to_be_visible()
    expect(
        page.get_by_text("This is a temporary conversation. Nothing of earlier ones").first
    ).to_be_visible()
    assert elsewhere.read(PREFERENCES) is None
    expect(page.get_by_role("list", name="Conversations")).to_contain_text(", temporary")
    visitor.sign_in(me)
    visitor.button("New conversation").click()
    expect(page.get_by_label("Temporary conversation")).not_to_be_checked()
    visitor.say(METRIC)
    assert "metric" in str(elsewhere.read(PREFERENCES))


def test_memory_is_paused_and_resumed_by_a_switch(
    visitor: Visitor, me: str, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    visitor.go("Settings")
    page.get_by_label("Pause memory").check()
    expect(page.get_by_text("Memory is paused: nothing new is remembered")).to_be_visible()
    visitor.say(METRIC)
    expect(page.get_by_text("Wrote to memory (failed)"), "nothing was written").to_be_visible()
    assert "metric" not in str(elsewhere.read(PREFERENCES))
    page.route("**/memory/controls", lambda route: route.abort())
    page.get_by_label("Show me changes first").click()
    expect(page.get_by_text("The server cannot be reached")).to_be_visible()
    expect(page.get_by_label("Show me changes first")).not_to_be_checked()
    expect(page.get_by_text("waits for your yes")).to_have_count(0)
    expect(
        page.get_by_label("Pause memory"), "a switch that failed says nothing of another"
    ).to_be_checked()
    page.unroute("**/memory/controls")
    page.get_by_label("Pause memory").uncheck()
    expect(page.get_by_text("Memory is paused: nothing new is remembered")).to_have_count(0)
    visitor.say(METRIC)
    assert "metric" in str(elsewhere.read(PREFERENCES))


SWITCHES = {
    "Pause memory": "Memory is paused",
    "Show me changes first": "between conversations waits for your yes",
    "Also what it writes while we talk": "while you talk waits for your yes",
}


def test_a_switch_changes_at_once_and_goes_back_with_a_word_if_the_server_refuses(
    visitor: Visitor,
) -> None:
    page = visitor.page
    alert = page.get_by_role("alert")
    held = Held(page, "**/memory/controls", "PUT")
    visitor.go("Settings")
    for label, note in SWITCHES.items():
        switch = page.get_by_label(label)
        switch.check()
        put = held.next()
        expect(switch).to_be_checked()
        expect(alert).to_have_count(0)
        put.fulfill(status=409, json={"detail": "You were forgotten meanwhile; call again."})
        expect(alert).to_contain_text(label)
        expect(alert).to_contain_text("You were forgotten meanwhile; call again.")
        expect(switch).not_to_be_checked()
        switch.check()  # while the word is there, which goes with the click
        expect(alert).to_have_count(0)
        held.next().continue_()
        expect(page.locator(".decisions")).to_contain_text(re.compile(note.replace(" ", r"\s+")))
        expect(switch).to_be_checked()
    assert held.routes == []
    page.reload()
    for label in SWITCHES:
        expect(page.get_by_label(label)).to_be_checked()


def test_the_last_of_several_clicks_on_a_switch_counts(
    visitor: Visitor, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    pause = page.get_by_label("Pause memory")
    review = page.get_by_label("Show me changes first")
    visitor.go("Settings")
    held = Held(page, "**/memory/controls", "PUT")
    for _ in range(2):
        pause.check()
        pause.uncheck()
    review.check()
    expect(pause).not_to_be_checked()
    for body in ({"paused": True}, {"paused": False}, {"review": True}):
        put = held.next()
        assert put.request.post_data_json == body
        assert held.routes == [], "one after the other"
        with page.expect_response("**/memory/controls"):
            put.continue_()
    expect(page.get_by_text("waits for your yes")).to_be_visible()
    expect(pause).not_to_be_checked()
    expect(review).to_be_checked()
    stored = elsewhere.get("/memory/controls").json()
    assert (stored["paused"], stored["review"]) == (False, True)


def test_a_message_waits_for_the_switch_that_was_clicked_before_it(
    visitor: Visitor, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    pause = page.get_by_label("Pause memory")
    held = Held(page, "**/memory/controls", "PUT")
    visitor.go("Settings")
    pause.check()
    page.get_by_label("Message").fill(METRIC)
    visitor.button("Send").click()
    expect(visitor.button("Stop")).to_be_visible()
    held.next().fulfill(status=503, json={"detail": "Too much to do."})
    expect(
        page.get_by_text("It was not sent, since a switch went back. Too much to do.")
    ).to_be_visible()
    expect(page.get_by_label("Message")).to_have_value(METRIC)
    pause.check()
    visitor.button("Send").click()
    expect(visitor.button("Stop")).to_be_visible()
    held.next().continue_()
    visitor.button("Send").wait_for()
    expect(page.get_by_role("article").filter(has_text=METRIC)).to_have_count(1)
    assert "metric" not in str(elsewhere.read(PREFERENCES))


def test_each_line_of_a_file_says_why_it_is_known(visitor: Visitor, elsewhere: Elsewhere) -> None:
    page = visitor.page
    visitor.say(METRIC)
    thread = page.url.partition("#")[2]
    elsewhere.write(PREFERENCES, f"{elsewhere.read(PREFERENCES)}- in short sentences\n")
    visitor.button("New conversation").click()
    fact = (
        page.get_by_role("list", name="Preferences")
        .get_by_role("listitem")
        .filter(has_text="metric units")
    )
    fact.get_by_role("button", name="Why").click()
    expect(fact.locator(".why")).to_contain_text("By the agent")
    expect(fact.locator(".excerpt").first).to_contain_text("metric units")
    expect(fact.locator(".excerpt b").first, "no role of a model's message").to_have_text("You")
    assert str(fact.get_by_role("link", name="this conversation").get_attribute("href")).endswith(
        thread
    )
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
def test_the_page_names_what_prompts_leave_out_and_a_memory_nearly_full(
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
