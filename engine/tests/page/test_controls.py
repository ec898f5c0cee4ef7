"""What a person decides: temporary, pause, review, consolidation. What the page says: why, what is
left out or nearly full.
"""

import re

import pytest
from playwright.sync_api import Route, expect

from lasting_memory.deployment import DEFAULTS
from lasting_memory.memory.stored_files import NEARLY_FULL
from lasting_memory.memory.validation import MAX_FILE_BYTES
from tests.page.browser import Elsewhere, Held, Visitor
from tests.page.conftest import Visit
from tests.page.test_person import METRIC, PREFERENCES

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


# --- Consolidation
# --------------------------------------------------------------------------------------------------


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


def test_an_export_is_brought_as_a_file_and_what_is_left_out_is_said(
    visitor: Visitor, me: str
) -> None:
    page = visitor.page
    visitor.button("Bring your memory").click()
    dialog = page.get_by_role("dialog", name="Bring your memory")
    show, file = visitor.button("Show what would be added"), dialog.get_by_label("Or its export")
    show.click()
    expect(dialog).to_contain_text("Paste a text, or choose a file.")
    for name, data, says in (
        ("export.zip", b"PK\x03\x04", "export.zip is an archive. Unpack it"),
        ("latin.txt", "Müller".encode("latin-1"), "latin.txt is no text in UTF-8"),
        ("cut.json", b'[{"memory": "li', "begins as JSON and is none"),
    ):
        file.set_input_files({"name": name, "mimeType": "text/plain", "buffer": data})
        show.click()
        expect(dialog).to_contain_text(says)
    facts = [
        *(f"[2024-05-01] - fact number {number}" for number in range(300)),
        "[2024-05-01] - fact number 7",
    ]
    text = "```\n" + "\n".join(facts) + "\n```\nLet me know!"
    file.set_input_files(
        {"name": "memory.txt", "mimeType": "text/plain", "buffer": text.encode("utf-16")}
    )
    show.click()
    became = dialog.get_by_role("region", name="What became of it")
    expect(became).to_contain_text("301 found, 300 proposed, 1 left out.")
    expect(became).to_contain_text(
        "1 left out, because they stand there more than once: fact number 7"
    )
    expect(became).to_contain_text("One line says nothing about you: Let me know!")
    assert visitor.inaccessible() == []
    dialog.get_by_role("button", name="Decline", exact=True).click()
    expect(dialog).to_contain_text("Decided.")


def test_a_text_of_another_assistant_is_brought_along_and_edited(
    visitor: Visitor, me: str, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    visitor.button("Bring your memory").click()
    dialog = page.get_by_role("dialog", name="Bring your memory")
    expect(dialog).to_contain_text("Write down everything that you remember or know about me")
    dialog.get_by_label("What it knows about you").fill(
        "About me:\n- Plays the cello\n- Lives in Lyon\n- Likes leek"
    )
    visitor.button("Show what would be added").click()
    expect(dialog.get_by_role("heading", name="Preferences")).to_be_visible()
    assert "cello" not in str(elsewhere.read(PREFERENCES))
    assert visitor.inaccessible() == []
    dialog.get_by_label("+ Likes leek").uncheck()
    dialog.get_by_role("button", name="Edit: Lives in Lyon").click()
    instead = dialog.get_by_label("Instead of Lives in Lyon")
    expect(instead, "what is typed goes there").to_be_focused()
    expect(instead).to_have_value("Lives in Lyon")
    instead.fill("- Lives near Lyon")
    dialog.get_by_role("button", name="Accept", exact=True).click()
    expect(dialog).to_contain_text("Decided.")
    memory = str(elsewhere.read(PREFERENCES))
    assert "- Plays the cello\n- Lives near Lyon\n" in memory
    assert "leek" not in memory
    page.keyboard.press("Escape")
    visitor.go("Facts")
    expect(page.get_by_role("list", name="Memory")).to_contain_text("Lives near Lyon")
