"""What a person does on the page, in a real browser, on the real server with the offline model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Elsewhere, Visit

pytestmark = [pytest.mark.server, pytest.mark.browser]

PREFERENCES = "/memories/preferences.md"
METRIC = "Remember that I prefer metric units."
# The name of what has the keyboard, roughly.
FOCUSED = """() => { const it = document.activeElement;
    return it.ariaLabel || it.labels?.[0]?.innerText.trim() || it.innerText; }"""


def test_every_name_that_is_promised_is_there_once_while_it_is_shown(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    visitor = visit()
    page = visitor.page
    page.goto(f"{visitor.url}/app")
    page.get_by_label("Identity").wait_for()
    always = ["Message", "New conversation", "Search past conversations", "Memory", "New file", "Policies"]
    always += ["What the model sees", "Export", "Import", "Forget me", "Sign out", "Consolidation"]

    def shown(*names: str) -> None:
        counts = visitor.names(until=names)
        assert {name: counts[name] for name in names} == dict.fromkeys(names, 1)

    shown("Identity", "Organization", "Sign in")
    elsewhere.write("/memories/a.md", "one")
    elsewhere.write("/memories/b.md", "one")
    visitor.sign_in(me)
    visitor.button("/memories/b.md").wait_for()
    shown(*always, "Send", "/memories/a.md", "/memories/b.md")
    page.get_by_label("Message").fill(METRIC)
    visitor.button("Send").click()
    visitor.button("Stop").wait_for()
    shown(*always, "Stop")
    visitor.button("Send").wait_for()
    elsewhere.write("/memories/a.md", "two")
    elsewhere.write("/memories/b.md", "two")
    visitor.say("Forget that I live on the moon.")
    expect(page.get_by_text("Changed by")).to_have_count(3)
    visitor.button("/memories/b.md").click()
    visitor.button("History").click()
    visitor.button("Revision 1").click()
    visitor.button("Restore").wait_for()
    shown(*always, "Send", "Undo", "Edit", "Delete", "History", "Restore", "/memories/a.md", "/memories/b.md", PREFERENCES)
    visitor.button("Consolidation").click()
    visitor.button("Rehearse").wait_for()
    shown("Rehearse", "Consolidate now")
    page.keyboard.press("Escape")
    visitor.button("Forget me").click()
    page.get_by_label("Identity", exact=True).wait_for()
    shown("Identity", "Forget me")


def test_what_is_remembered_lights_up_beside_the_chat_and_is_undone(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    visitor = visit()
    page = visitor.sign_in(me)
    visitor.say(METRIC)
    expect(page.get_by_text("I will remember that: I prefer metric units.").first).to_be_visible()
    call = page.locator("details", has_text="append_memory")
    expect(call).not_to_have_attribute("open", "")
    call.locator("summary").click()
    expect(call).to_contain_text("Added to /memories/preferences.md.")
    entry = page.get_by_role("list", name="Memory").get_by_role("listitem")
    expect(entry).to_contain_text("Changed by the agent")
    expect(entry).to_contain_text("+- I prefer metric units")
    assert "metric" in str(elsewhere.read(PREFERENCES))
    visitor.button("Undo").click()
    expect(visitor.button("Undo")).to_have_count(0)
    assert "metric" not in str(elsewhere.read(PREFERENCES))
    expect(page.get_by_role("status").filter(has_text="The agent has answered.")).to_have_count(1)


def test_a_file_is_made_read_changed_deleted_and_brought_back(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    visitor = visit()
    page = visitor.sign_in(me)
    visitor.button("New file").click()
    page.get_by_label("Path").fill("/memories/notes.md")
    page.get_by_label("Content").fill("# Notes\n\n- Milk\n")
    visitor.button("Save").click()
    expect(page.get_by_text("# Notes")).to_be_visible()
    visitor.button("Edit").click()
    page.get_by_label("Content").fill("# Notes\n\n- Bread\n")
    visitor.button("Save").click()
    expect(page.get_by_text("- Bread")).to_be_visible()
    assert elsewhere.read("/memories/notes.md") == "# Notes\n\n- Bread\n"
    visitor.button("Delete").click()
    expect(visitor.button("/memories/notes.md")).to_have_count(0)
    assert elsewhere.read("/memories/notes.md") is None
    visitor.button("Undo").click()
    visitor.button("/memories/notes.md").wait_for()
    assert elsewhere.read("/memories/notes.md") == "# Notes\n\n- Bread\n"
    visitor.button("New file").click()
    page.get_by_label("Path").fill("/memories/notes.md")
    visitor.button("Save").click()
    expect(page.get_by_role("alert")).to_contain_text("/memories/notes.md is at revision")


def test_a_refusal_goes_with_the_next_action(visit: Visit, me: str, elsewhere: Elsewhere, tmp_path: Path) -> None:
    visitor = visit()
    elsewhere.write(PREFERENCES, "- Tea\n")
    page, alert = visitor.page, visitor.page.get_by_role("alert")
    page.goto(f"{visitor.url}/app")
    page.get_by_label("Identity").fill(me)
    page.get_by_label("Organization").fill("a:b")
    visitor.button("Sign in").click()
    expect(alert).to_contain_text("without a colon")
    page.get_by_label("Organization").fill("acme")
    visitor.button("Sign in").click()
    visitor.button("New file").click()
    page.get_by_label("Path").fill(PREFERENCES)
    visitor.button("Save").click()
    expect(alert).to_contain_text("is at revision")
    visitor.button("Cancel").click()
    (tmp_path / "other.json").write_text("no JSON")
    page.get_by_label("Import").set_input_files(tmp_path / "other.json")
    expect(alert).to_contain_text("This is not JSON")
    page.get_by_label("Pause memory").check()
    expect(alert).to_have_count(0)


def test_when_somebody_else_wrote_meanwhile_both_versions_are_there(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    visitor = visit()
    elsewhere.write(PREFERENCES, "- Tea\n")
    page = visitor.sign_in(me)
    visitor.button(PREFERENCES).click()
    visitor.button("Edit").click()
    page.get_by_label("Content").fill("- Tea with milk\n")
    elsewhere.write(PREFERENCES, "- Coffee\n")
    visitor.button("Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Both versions are here")
    expect(page.locator(".editor .text")).to_have_text("- Coffee\n")
    expect(page.get_by_label("Content")).to_have_value("- Tea with milk\n")
    assert elsewhere.read(PREFERENCES) == "- Coffee\n"
    page.get_by_label("Content").fill("- Coffee\n- Tea with milk\n")
    visitor.button("Save").click()
    expect(visitor.button("Edit")).to_be_visible()
    assert elsewhere.read(PREFERENCES) == "- Coffee\n- Tea with milk\n"


def test_the_history_says_who_and_when_links_the_conversation_and_restores(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    visitor = visit()
    elsewhere.write(PREFERENCES, "- Tea\n")
    page = visitor.sign_in(me)
    visitor.say(METRIC)
    address = page.url
    visitor.button("New conversation").click()
    expect(page.get_by_text("What should it remember?")).to_be_visible()
    visitor.button(PREFERENCES).click()
    visitor.button("History").click()
    entries = page.get_by_role("list", name="Revisions").get_by_role("listitem")
    expect(entries).to_have_count(2)
    expect(entries.first).to_contain_text("by the agent")
    expect(entries.last).to_contain_text("by you")
    entries.first.get_by_role("link").click()
    expect(page.get_by_text("I will remember that").first).to_be_visible()
    assert page.url == address
    visitor.button("Revision 1").click()
    expect(entries.last).to_contain_text("+- Tea")
    visitor.button("Restore").click()
    expect(entries).to_have_count(3)
    assert elsewhere.read(PREFERENCES) == "- Tea\n"


def test_policies_are_shown_to_read_and_so_is_what_the_model_sees(visit: Visit, me: str) -> None:
    visitor = visit()
    page = visitor.sign_in(me)
    visitor.button("Policies").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("/policies/prices.md")
    expect(dialog).to_contain_text("Nobody shares prices.")
    expect(dialog.get_by_role("button")).to_have_text(["Close"])
    visitor.button("Close").click()
    visitor.button("What the model sees").click()
    for text in ("Policies", "Nobody shares prices.", "Memory", "## /memories/preferences.md", "Skills", "of files fit"):
        expect(dialog).to_contain_text(text)


def test_everything_is_exported_forgotten_and_imported_again(
    visit: Visit, me: str, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    visitor = visit()
    page = visitor.sign_in(me)
    visitor.say(METRIC)
    with page.expect_download() as download:
        visitor.button("Export").click()
    download.value.save_as(tmp_path / "memory.json")
    document = json.loads((tmp_path / "memory.json").read_text("utf-8"))
    assert (document["user_id"], len(document["conversations"])) == (me, 1)

    visitor.button("Forget me").click()
    page.get_by_label("Identity", exact=True).fill(me[:-1])
    expect(visitor.button("Forget me")).to_be_disabled()
    page.get_by_label("Identity", exact=True).fill(me)
    visitor.button("Forget me").click()
    dialog = page.get_by_role("dialog", name="You are forgotten")
    expect(dialog).to_contain_text("1 thread")
    expect(dialog).to_contain_text("Traces, where this deployment sends them to LangSmith")
    visitor.button("Close").click()
    expect(visitor.button("Forget me")).to_be_focused()
    expect(page.get_by_text("Nothing yet.")).to_be_visible()
    expect(page.get_by_role("list", name="Conversations").get_by_role("listitem")).to_have_count(0)

    page.get_by_label("Import").set_input_files(tmp_path / "memory.json")
    expect(page.get_by_role("dialog", name="What was imported")).to_contain_text(f"{PREFERENCES}is new")
    visitor.button("Close").click()
    visitor.button(PREFERENCES).wait_for()
    expect(page.get_by_role("list", name="Memory")).to_contain_text("+- I prefer metric units")
    assert "metric" in str(elsewhere.read(PREFERENCES))


def test_conversations_are_listed_searched_opened_after_a_reload_and_removed(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    visitor = visit()
    page = visitor.sign_in(me)
    visitor.say("Remember that my zebra is called Quirin.")
    visitor.button("New conversation").click()
    visitor.say("What are the policies?")
    expect(page.get_by_text("Nobody shares prices.")).to_be_visible()
    elsewhere.rename(page.url.split("#")[1], "Send")
    visitor.say("Thanks.")
    expect(page.get_by_role("button", name="Open: Send")).to_be_visible()
    assert visitor.names(["Send"])["Send"] == 1, "no title takes the name of something else"
    talks = page.get_by_role("list", name="Conversations").get_by_role("listitem")
    expect(talks).to_have_count(2)
    page.get_by_label("Search past conversations").fill("zebra")
    results = page.get_by_role("list", name="Found").get_by_role("listitem")
    expect(results.first).to_contain_text("my zebra is called Quirin")
    results.first.get_by_role("button").click()
    expect(page.get_by_text("I will remember that: my zebra").first).to_be_visible()
    at = page.url.removeprefix(f"{visitor.url}/app")
    assert len(at) == 37
    page.reload()
    visitor.sign_in(me, at=at)
    expect(page.get_by_text("I will remember that: my zebra").first).to_be_visible()
    talks.filter(has_text="zebra").get_by_role("button", name="Remove").click()
    visitor.button("Remove it").click()
    expect(talks).to_have_count(1)
    expect(page.get_by_text("What should it remember?")).to_be_visible()
    assert page.url == f"{visitor.url}/app"


def test_another_person_sees_nothing_also_later_in_the_same_browser(visit: Visit, me: str) -> None:
    visitor = visit()
    page = visitor.sign_in(me)
    visitor.say("Remember that my zebra is called Quirin.")
    at = page.url.removeprefix(f"{visitor.url}/app")
    visitor.button("Sign out").click()
    for organization, identity in (("globex", me), ("acme", f"other-{me}")):
        visitor.sign_in(identity, organization, at=at)
        expect(page.get_by_text("There is no such conversation")).to_be_visible()
        page.get_by_label("Search past conversations").fill("zebra")
        expect(page.get_by_text("0 matches in 0 conversations")).to_be_visible()
        expect(page.get_by_text("Nothing yet.")).to_be_visible()
        assert "Quirin" not in page.content()
        visitor.button("Sign out").click()


def test_all_of_it_goes_by_keyboard_alone(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    visitor = visit(reduced_motion="reduce")
    page = visitor.page
    page.goto(f"{visitor.url}/app")
    page.get_by_label("Identity").wait_for()
    keys = page.keyboard

    def go_to(name: str) -> None:
        for _ in range(60):
            keys.press("Tab")
            focused = page.evaluate(FOCUSED)
            if str(focused).split("\n")[0] == name:
                outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none" or name == "Import"
                return
        raise AssertionError(f"{name} is not reached by the keyboard")

    for field, text in (("Identity", me), ("Organization", "acme")):
        go_to(field)
        keys.type(text)
    keys.press("Enter")
    expect(page.get_by_label("Message"), "what had the focus is gone").to_be_focused()
    keys.type(METRIC)
    keys.press("Enter")
    visitor.button("Undo").wait_for()
    visitor.button("Send").wait_for()
    for name in ("Undo", "New file"):
        go_to(name)
        keys.press("Enter")
    keys.type("keys.md")
    go_to("Content")
    keys.type("typed")
    go_to("Save")
    keys.press("Space")
    visitor.button("/memories/keys.md").wait_for()
    assert elsewhere.read("/memories/keys.md") == "typed"
    go_to("Forget me")
    keys.press("Enter")
    page.get_by_role("dialog").wait_for()
    for _ in range(6):  # the keyboard stays in the dialog
        keys.press("Tab")
        assert page.evaluate("() => document.activeElement === document.body || !!document.activeElement.closest('dialog')")
    keys.press("Escape")
    expect(visitor.button("Forget me")).to_be_focused()
    go_to("New conversation")
    keys.press("Enter")
    expect(page.get_by_text("What should it remember?")).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), [pytest.param("light", 1280, marks=pytest.mark.proof), ("dark", 360)])
def test_nothing_serious_is_in_the_way_of_people_with_a_disability(
    visit: Visit, me: str, elsewhere: Elsewhere, scheme: str, width: int
) -> None:
    visitor = visit(color_scheme=scheme, viewport={"width": width, "height": 740}, reduced_motion="reduce")
    page = visitor.page
    page.goto(f"{visitor.url}/app")
    page.get_by_label("Identity").wait_for()
    problems = visitor.inaccessible()
    elsewhere.write("/memories/a/rather/long/path/for/a/telephone/and-a-name-without-any-space-in-it.md", "x" * 300)
    visitor.sign_in(me)
    visitor.say(METRIC)
    visitor.button(PREFERENCES).click()
    visitor.button("History").click()
    visitor.button("Revision 1").click()
    problems += visitor.inaccessible()
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    for name in ("Consolidation", "Policies", "What the model sees", "Forget me"):
        visitor.button(name).click()
        page.get_by_role("dialog").wait_for()
        problems += visitor.inaccessible()
        page.keyboard.press("Escape")
    assert problems == []
    moving = "() => document.getAnimations().filter((animation) => animation.playState === 'running').length"
    assert page.evaluate(moving) == 0
