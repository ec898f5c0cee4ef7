"""What a person does on the page, in a real browser, on the real server with the offline model."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.browser import Elsewhere, Held, Visitor
from tests.page.conftest import METRIC, NOTES, PREFERENCES, Visit

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.begins_first]
THREAD = "0199f0aa-0000-7000-8000-000000000001"
# Brings an element into view, and tells where it is in that frame and the next twenty.
PLACES_IN_VIEW = """(element) => new Promise((done) => {
  element.scrollIntoView({ block: "center" });
  const places = [];
  const look = () => {
    places.push(Math.round(element.getBoundingClientRect().top));
    if (places.length > 20) done(places);
    else requestAnimationFrame(look);
  };
  look();
})"""


def test_a_remembered_line_lights_up_beside_the_chat_and_is_undone(
    visitor: Visitor, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    visitor.say(METRIC)
    expect(page.get_by_text("I will remember that: I prefer metric units.").first).to_be_visible()
    call = page.locator("details", has_text="append_memory")
    expect(call).not_to_have_attribute("open", "")
    call.locator("summary").click()
    expect(call).to_contain_text("Added to /memories/preferences.md.")
    fact = page.get_by_role("list", name="Preferences").get_by_role("listitem")
    expect(fact).to_have_class("new")
    expect(fact).to_contain_text("I prefer metric units")
    visitor.go("Changes")
    entry = page.get_by_role("list", name="Changes").locator("> li")
    expect(entry).to_contain_text("Changed by the agent")
    expect(entry).to_contain_text("+ I prefer metric units")
    expect(page.get_by_role("complementary", name="Remembered")).to_contain_text(
        "I prefer metric units"
    )
    assert "metric" in str(elsewhere.read(PREFERENCES))
    page.reload()
    visitor.go("Changes")
    expect(entry, "it is pointed out until one has seen it").to_contain_text(
        "+ I prefer metric units"
    )
    visitor.button("Undo").click()
    expect(visitor.button("Undo")).to_have_count(0)
    expect(page.locator(":focus"), "the keyboard stays near").to_have_count(1)
    assert "metric" not in str(elsewhere.read(PREFERENCES))
    visitor.say(METRIC)
    expect(page.get_by_role("status").filter(has_text="The agent has answered.")).to_have_count(1)
    visitor.say("Remember that my train leaves at nine.")
    notice = page.get_by_role("complementary", name="Remembered")
    expect(notice).to_contain_text("train")
    expect(notice, "it is of the last answer alone").not_to_contain_text("metric")
    visitor.button("Take back").click()
    expect(notice).to_have_count(0)
    assert "metric" in str(elsewhere.read(PREFERENCES))
    assert "train" not in str(elsewhere.read(PREFERENCES))


def test_a_line_is_changed_deleted_and_brought_back_from_the_trash(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    food = "/memories/topics/food.md"
    text = (
        f"# Food\n\n<!-- A comment. -->\n- likes dill\n- likes leek (2026-01-01, thread {THREAD})\n"
    )
    elsewhere.write(food, text)
    visitor = visit()
    page = visitor.sign_in(me)
    lines = page.get_by_role("list", name="Food").get_by_role("listitem")
    expect(lines).to_have_text([re.compile("^likes dill"), re.compile("^likes leekEdit")])
    lines.first.get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Fact")).to_be_focused()
    page.get_by_label("Fact").fill("likes dill, and\nfennel")
    elsewhere.write(
        food, f"# Food\n\nA line above.\n{text.partition('A comment. -->')[2].strip()}\n"
    )
    visitor.look()
    expect(lines, "what is being written stays").to_have_count(3)
    expect(page.get_by_label("Fact")).to_have_value("likes dill, and\nfennel")
    visitor.button("Save").click()
    expect(lines).to_have_count(3)
    expect(lines.nth(1)).to_contain_text("likes dill, and fennel")
    lines.nth(2).get_by_role("button", name="Delete").click()
    expect(lines).to_have_count(2)
    assert elsewhere.read(food) == "# Food\n\nA line above.\n- likes dill, and fennel\n"
    page.reload()
    visitor.button("Trash").click()
    deleted = page.get_by_role("list", name="Deleted lines").get_by_role("listitem")
    expect(deleted.first).to_contain_text("likes leek")
    deleted.first.get_by_role("button", name="Bring back").click()
    expect(page.get_by_text("The line is back.")).to_be_visible()
    page.keyboard.press("Escape")
    visitor.go("Facts")
    expect(lines).to_have_count(3)
    assert str(elsewhere.read(food)).endswith("- likes leek\n")
    page.get_by_label("Search in memory").fill("LEEK")
    expect(lines).to_have_count(1)


def test_titles_beyond_the_first_are_hidden_and_found_by_the_search(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    for number in range(110):
        elsewhere.write(
            f"/memories/topics/topic-{number:03}.md", f"# Topic {number:03}\n\n- Said {number:03}\n"
        )
    visitor = visit()
    page = visitor.sign_in(me)
    page.get_by_text("110 facts").wait_for()
    titles = page.get_by_role("list", name="Memory").locator("> li")
    expect(titles).to_have_count(100)
    page.get_by_label("Search in memory").fill("said 109")
    expect(titles).to_contain_text("Said 109")
    page.get_by_label("Search in memory").fill("")
    page.get_by_role("button", name=re.compile(r"Show \d+ more titles")).click()
    expect(titles.last).to_contain_text("Said 109")


def test_a_button_stays_where_it_came_into_view(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    for number in range(110):
        lines = "- a line of it\n" * 8
        elsewhere.write(f"/memories/topics/topic-{number:03}.md", f"# Topic {number:03}\n\n{lines}")
    visitor = visit()
    page = visitor.sign_in(me)
    titles = page.get_by_role("list", name="Memory").locator("> li")
    more = page.get_by_role("button", name=re.compile(r"Show \d+ more titles"))
    places = more.evaluate(PLACES_IN_VIEW)
    assert set(places) == {places[0]}
    more.evaluate("(element) => element.scrollIntoView({ block: 'end' })")
    box = more.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(titles.last).to_contain_text("Topic 109")
    visitor.button("Files").click()
    places = visitor.button("New file").evaluate(PLACES_IN_VIEW)
    assert set(places) == {places[0]}


def test_buttons_below_a_list_come_with_it(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    elsewhere.write(PREFERENCES, "- Tea\n" * 60)
    visitor = visit()
    page = visitor.page
    held = Held(page, "**/memory/facts")
    visitor.sign_in(me)
    expect(visitor.button("New conversation")).to_be_visible()
    expect(visitor.button("Files"), "the facts would push it away").to_have_count(0)
    expect(page.get_by_label("Pause memory")).to_have_count(0)
    held.next().continue_()
    expect(visitor.button("Files")).to_have_count(1)
    held = Held(page, "**/memory/file?*")
    visitor.file(PREFERENCES)
    expect(page.get_by_text("It is being read.")).to_be_visible()
    expect(visitor.button("History"), "the text would push it away").to_have_count(0)
    held.next().continue_()
    expect(visitor.button("History")).to_be_visible()


def test_a_conversation_that_is_being_opened_is_no_new_one(visitor: Visitor) -> None:
    page = visitor.page
    visitor.say("hello")
    visitor.button("New conversation").click()
    expect(page.get_by_text("What should it remember?")).to_be_visible()
    held = Held(page, "**/threads/*", "GET")
    page.get_by_role("list", name="Conversations").get_by_role("button").first.click()
    expect(page.get_by_role("status").filter(has_text="Opening the conversation.")).to_be_visible()
    expect(page.get_by_text("What should it remember?")).to_have_count(0)
    held.next().continue_()
    expect(
        page.get_by_role("group", name="What was said").get_by_text("hello", exact=True)
    ).to_be_visible()
    expect(page.get_by_text("Opening the conversation.")).to_have_count(0)


def test_a_button_is_busy_until_the_server_has_answered_and_does_its_work_once(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    elsewhere.write(PREFERENCES, "- Tea\n- Tee\n- Milk\n")
    visitor = visit()
    page = visitor.sign_in(me)
    lines = page.get_by_role("list", name="Preferences").get_by_role("listitem")
    delete = lines.first.get_by_role("button", name="Delete")
    held = Held(page, "**/memory/file?*")
    delete.click()
    expect(delete).to_have_attribute("aria-busy", "true")
    expect(delete).to_be_focused()
    delete.dispatch_event("click")
    delete.press("Enter")
    lines.last.get_by_role("button", name="Delete").click()
    expect(lines.last.get_by_role("button", name="Delete")).to_have_attribute("aria-busy", "true")
    first = held.next()
    second = held.next()
    assert held.routes == [], "one request for each line"
    held.end()
    first.continue_()
    expect(lines).to_have_count(2)
    second.abort()
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    assert elsewhere.read(PREFERENCES) == "- Tee\n- Milk\n"


def test_a_removed_conversation_goes_at_once_and_comes_back_with_a_word_if_the_server_refuses(
    visitor: Visitor,
) -> None:
    page = visitor.page
    visitor.say("hello")
    talks = page.get_by_role("list", name="Conversations").get_by_role("listitem")
    held = Held(page, "**/threads/*", "DELETE")
    talks.get_by_role("button", name="Remove").click()
    visitor.button("Remove it").click()
    expect(talks).to_have_count(0)
    held.next().fulfill(status=503, json={"detail": "Too much to do; try again."})
    expect(talks).to_have_count(1)
    expect(page.get_by_role("alert")).to_have_text("Too much to do; try again.")


def test_changes_marked_as_seen_come_back_where_the_server_refuses(visitor: Visitor) -> None:
    page = visitor.page
    visitor.say(METRIC)
    held = Held(page, "**/memory/seen")
    visitor.button("Seen").click()
    expect(page.get_by_role("list", name="Changes")).to_have_count(0)
    held.next().fulfill(status=503, json={"detail": "Too much to do; try again."})
    expect(page.get_by_role("alert").filter(has_text="Too much to do")).to_be_visible()
    expect(page.get_by_role("list", name="Changes")).to_be_visible()


def test_the_profile_is_a_form_of_its_fields(visitor: Visitor, elsewhere: Elsewhere) -> None:
    page = visitor.page
    visitor.button("Say who you are").click()
    expect(page.get_by_role("textbox", name=re.compile("^Name"))).to_be_focused()
    page.get_by_role("textbox", name=re.compile("^Name")).fill("Zoe")
    page.get_by_role("textbox", name=re.compile("^Language")).fill("German")
    visitor.button("Save").click()
    expect(page.get_by_role("definition")).to_have_text(["Zoe", "German"])
    assert json.loads(str(elsewhere.read("/memories/profile.json"))) == {
        "name": "Zoe",
        "language": "German",
    }
    visitor.button("Edit profile").click()
    page.get_by_role("textbox", name=re.compile("^Language")).fill("")
    elsewhere.write("/memories/profile.json", '{"name": "Zo\u00eb"}')
    visitor.look()
    visitor.button("Save").click()
    expect(page.get_by_role("alert")).to_contain_text("is at revision 2 or later")


def test_a_file_is_made_read_changed_deleted_and_brought_back(
    visitor: Visitor, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    visitor.button("Files").click()
    visitor.button("New file").click()
    page.get_by_label("Path").fill(NOTES)
    page.get_by_label("Content").fill("# Notes\n\n- Milk\n")
    visitor.button("Save").click()
    expect(page.get_by_text("# Notes")).to_be_visible()
    visitor.button("Edit").click()
    page.get_by_label("Content").fill("# Notes\n\n- Bread\n")
    visitor.button("Save").click()
    expect(page.get_by_text("- Bread", exact=True)).to_be_visible()
    assert elsewhere.read(NOTES) == "# Notes\n\n- Bread\n"
    visitor.button("Delete").click()
    expect(visitor.button(NOTES)).to_have_count(0)
    assert elsewhere.read(NOTES) is None
    page.keyboard.press("Escape")
    expect(visitor.button("Files")).to_be_focused()
    visitor.button("Undo").click()
    visitor.go("Facts")
    expect(page.get_by_role("list", name="Notes")).to_contain_text("Bread")
    assert elsewhere.read(NOTES) == "# Notes\n\n- Bread\n"
    elsewhere.remove(NOTES)
    page.reload()
    visitor.button("Trash").click()
    visitor.button("Bring back /memories/notes.md").click()
    expect(page.get_by_text("/memories/notes.md is back.")).to_be_visible()
    assert elsewhere.read(NOTES) == "# Notes\n\n- Bread\n"


def test_a_refusal_goes_with_the_next_action(
    visit: Visit, me: str, elsewhere: Elsewhere, tmp_path: Path
) -> None:
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
    visitor.button("Files").click()
    visitor.button("New file").click()
    page.get_by_label("Path").fill(PREFERENCES)
    visitor.button("Save").click()
    expect(alert).to_contain_text("is at revision")
    visitor.button("Cancel").click()
    page.keyboard.press("Escape")
    (tmp_path / "other.json").write_text("no JSON")
    page.get_by_label("Import").set_input_files(tmp_path / "other.json")
    expect(alert).to_contain_text("This is not JSON")
    page.get_by_label("Pause memory").check()
    expect(alert).to_have_count(0)


def test_the_history_says_who_and_when_links_the_conversation_and_restores(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    visitor = visit()
    elsewhere.write(PREFERENCES, "- Tea\n")
    page = visitor.sign_in(me)
    visitor.say(METRIC)
    address = page.url
    visitor.button("New conversation").click()
    expect(page.get_by_text("What should it remember?")).to_be_visible()
    visitor.file(PREFERENCES)
    visitor.button("History").click()
    entries = page.get_by_role("list", name="Revisions").get_by_role("listitem")
    expect(entries).to_have_count(2)
    expect(entries.first).to_contain_text("by the agent")
    expect(entries.last).to_contain_text("by you")
    entries.first.get_by_role("link").click()
    expect(page.get_by_text("I will remember that").first).to_be_visible()
    assert page.url == address
    visitor.file(PREFERENCES)
    visitor.button("History").click()
    visitor.button("Revision 1").click()
    expect(entries.last).to_contain_text("+- Tea")
    visitor.button("Restore").click()
    expect(entries).to_have_count(3)
    assert elsewhere.read(PREFERENCES) == "- Tea\n"


def test_policies_are_shown_to_read_and_so_is_what_the_model_sees(visitor: Visitor) -> None:
    page = visitor.page
    visitor.button("Policies").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("/policies/prices.md")
    expect(dialog).to_contain_text("Nobody shares prices.")
    expect(dialog.get_by_role("button")).to_have_text(["Close"])
    visitor.button("Close").click()
    visitor.button("What the model sees").click()
    texts = (
        "Agent",
        "Policies",
        "Nobody shares prices.",
        "Memory",
        "## /memories/preferences.md",
        "Skills",
        "of files fit",
    )
    for text in (
        *texts,
        "Together about",
        "Its tools have about",
        "append_memory, save_profile, search_past_conversations",
    ):
        expect(dialog).to_contain_text(text)


def test_a_person_s_memory_is_exported_forgotten_and_imported_again(
    visitor: Visitor, me: str, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    page = visitor.page
    visitor.say(METRIC)
    with page.expect_download() as download:
        visitor.button("Export").click()
    download.value.save_as(tmp_path / "memory.json")
    document = json.loads((tmp_path / "memory.json").read_text("utf-8"))
    assert (document["user_id"], len(document["conversations"])) == (me, 1)
    other = elsewhere.post("/threads", json={}).json()["thread_id"]
    run = {"assistant_id": "consolidation_agent", "input": {}}
    elsewhere.post(f"/threads/{other}/runs/wait", json=run).raise_for_status()

    visitor.button("Forget me").click()
    page.get_by_label("Identity", exact=True).fill(me[:-1])
    expect(visitor.button("Forget me")).to_be_disabled()
    page.get_by_label("Identity", exact=True).fill(me)
    visitor.button("Forget me").click()
    dialog = page.get_by_role("dialog", name="You are forgotten")
    expect(dialog, "the thread of a consolidation is none").to_contain_text(
        re.compile(r"Deleted\s*1 conversation(?!s)")
    )
    expect(dialog).to_contain_text("Traces, where this deployment sends them to LangSmith")
    visitor.button("Close").click()
    expect(visitor.button("Forget me")).to_be_focused()
    visitor.go("Facts")
    expect(page.get_by_text("Nothing yet.")).to_be_visible()
    expect(page.get_by_role("list", name="Conversations").get_by_role("listitem")).to_have_count(0)

    visitor.go("Settings")
    page.get_by_label("Import").set_input_files(tmp_path / "memory.json")
    expect(page.get_by_role("dialog", name="What was imported")).to_contain_text(
        f"{PREFERENCES}is new"
    )
    expect(page.get_by_role("dialog").get_by_role("heading", name="Preferences")).to_be_visible()
    visitor.button("Close").click()
    visitor.go("Facts")
    expect(page.get_by_role("list", name="Memory")).to_contain_text("I prefer metric units")
    assert "metric" in str(elsewhere.read(PREFERENCES))


def test_conversations_are_listed_searched_opened_after_a_reload_and_removed(
    visitor: Visitor, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    visitor.say("Remember that my zebra is called Quirin.")
    visitor.button("New conversation").click()
    visitor.say("What are the policies?")
    expect(page.get_by_text("Nobody shares prices.")).to_be_visible()
    elsewhere.patch(
        f"/threads/{page.url.split('#')[1]}", json={"metadata": {"title": "Send"}}
    ).raise_for_status()
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
    expect(page.get_by_text("I will remember that: my zebra").first).to_be_visible()
    assert page.url.endswith(at)
    talks.filter(has_text="zebra").get_by_role("button", name="Remove").click()
    visitor.button("Remove it").click()
    expect(talks).to_have_count(1)
    expect(page.get_by_text("What should it remember?")).to_be_visible()
    assert page.url == f"{visitor.url}/app"


def test_another_person_sees_nothing_also_later_in_the_same_browser(
    visitor: Visitor, me: str
) -> None:
    page = visitor.page
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
