"""On the page: a fact is erased for good, with the conversation that it came from; what was
imported is shown as that.
"""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.browser import Elsewhere, Visitor
from tests.page.conftest import METRIC, PREFERENCES

pytestmark = pytest.mark.server


def test_a_fact_is_erased_for_good_with_the_conversation_that_it_came_from(
    visitor: Visitor, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    visitor.say(METRIC)
    lines = page.get_by_role("list", name="Preferences").get_by_role("listitem")
    line = lines.filter(has_text="metric")
    line.get_by_role("button", name="Erase for good").click()
    dialog = page.get_by_role("dialog", name="Delete this for good?")
    dialog.get_by_label("Delete this conversation, too").check()
    dialog.get_by_role("button", name="Delete it for good").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("list", name="Memory").get_by_text("metric units")).to_have_count(0)
    assert "metric" not in elsewhere.get("/memory/export").text
    assert "metric" not in elsewhere.get("/memory/history", params={"path": PREFERENCES}).text


def test_an_earlier_wording_in_the_trash_is_erased(visitor: Visitor, elsewhere: Elsewhere) -> None:
    page = visitor.page
    for text in ("- likes leek\n- likes dill\n", "- likes dill\n"):
        elsewhere.write("/memories/topics/food.md", text)
    visitor.look()
    visitor.button("Trash").click()
    page.get_by_role("button", name="Erase for good: likes leek").click()
    page.get_by_role("button", name="Delete it for good").click()
    expect(page.get_by_text("The line is gone for good.")).to_be_visible()
    expect(page.get_by_text("Nothing is in the trash.")).to_be_visible()
    assert (
        "leek"
        not in elsewhere.get("/memory/history", params={"path": "/memories/topics/food.md"}).text
    )


def test_an_imported_conversation_is_listed_and_read(
    visitor: Visitor, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    page = visitor.page
    visitor.say("Remember that my zebra is called Quirin.")
    (tmp_path / "memory.json").write_text(elsewhere.get("/memory/export").text, "utf-8")
    elsewhere.delete("/memory").raise_for_status()
    page.reload()
    visitor.go("Settings")
    (tmp_path / "conversations.json").write_text(
        '[{"title": "another assistant\'s", "mapping": {}}]'
    )
    page.get_by_label("Import").set_input_files(tmp_path / "conversations.json")
    expect(page.get_by_role("alert")).to_contain_text("for “Bring your memory”")
    page.get_by_label("Import").set_input_files(tmp_path / "memory.json")
    dialog = page.get_by_role("dialog", name="What was imported")
    expect(dialog).to_contain_text("1 conversation came back, to read and to search.")
    visitor.button("Close").click()
    page.reload()
    talks = page.get_by_role("list", name="Conversations").get_by_role("listitem")
    expect(talks).to_have_count(1)
    expect(talks).to_contain_text("imported")
    talks.get_by_role("button", name="Open").click()
    expect(page.get_by_text("I will remember that: my zebra").first).to_be_visible()
    expect(page.get_by_text("This conversation was imported")).to_be_visible()
    expect(page.get_by_label("Message", exact=True)).to_have_count(0)
    visitor.button("New conversation").click()
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
