"""What two pages at once, or another program, change of the same file or conversation."""

import pytest
from playwright.sync_api import expect

from tests.page.browser import Elsewhere
from tests.page.conftest import NOTES, PREFERENCES, Visit

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.begins_first]


@pytest.mark.proof
def test_an_edit_stays_when_its_file_is_deleted_elsewhere(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    visitor = visit()
    page, content = visitor.page, visitor.page.get_by_label("Content")
    elsewhere.write(NOTES, "- Tea\n")
    visitor.sign_in(me)
    visitor.file(NOTES)
    visitor.button("Edit").click()
    content.fill("- Tea, and a long thought\n")
    elsewhere.remove(NOTES)
    visitor.look()
    expect(page.get_by_role("list", name="Files")).to_contain_text("deleted")
    expect(page.get_by_text("Deleted by you")).to_have_count(1)
    expect(content).to_have_value("- Tea, and a long thought\n")
    visitor.button("Save").click()
    expect(page.get_by_text("(They deleted it.)")).to_be_visible()
    visitor.button("Save").click()
    expect(visitor.button("Edit")).to_be_visible()
    assert elsewhere.read(NOTES) == "- Tea, and a long thought\n"
    elsewhere.remove(NOTES)
    visitor.look()
    expect(visitor.button("Edit")).to_have_count(0)
    expect(visitor.button(NOTES)).to_have_count(0)


@pytest.mark.proof
def test_a_conversation_that_is_removed_elsewhere_gives_way_to_a_new_one(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    visitor = visit()
    page, message = visitor.sign_in(me), visitor.page.get_by_role("textbox", name="Message")
    visitor.say("hello")
    elsewhere.delete(f"/threads/{page.url.partition('#')[2]}").raise_for_status()
    message.fill("a long thought")
    visitor.button("Send").click()
    expect(page.get_by_text("There is no such conversation; this is a new one.")).to_be_visible()
    expect(message).to_have_value("a long thought")
    assert page.url == f"{visitor.url}/app"
    go_on = visitor.send()
    elsewhere.delete(f"/threads/{page.url.partition('#')[2]}").raise_for_status()
    go_on()
    expect(page.get_by_text("There is no such conversation; this is a new one.")).to_be_visible()
    visitor.say("hello again")
    expect(page.get_by_role("article")).to_have_count(2)


def test_a_line_that_changed_meanwhile_is_not_taken_for_another(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    drinks = "/memories/topics/drinks.md"
    elsewhere.write(drinks, "# Drinks\n- I like tea\n- <!-- a note --> I like pie\n")
    visitor = visit()
    page = visitor.sign_in(me)
    lines = page.get_by_role("list", name="Drinks").get_by_role("listitem")
    expect(lines).to_have_count(2)
    changed = (
        "# Drinks\n- I like coffee\n- I like tea (only in winter)\n- <!-- a note --> I like pie\n"
    )
    elsewhere.write(drinks, changed)
    lines.first.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody else changed this line")
    assert elsewhere.read(drinks) == changed
    expect(lines).to_have_count(3)
    lines.filter(has_text="pie").get_by_role("button", name="Delete").click()
    expect(lines).to_have_count(2)
    assert elsewhere.read(drinks) == "# Drinks\n- I like coffee\n- I like tea (only in winter)\n"


def test_an_edit_of_a_file_that_changed_meanwhile_shows_both_versions(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    visitor = visit()
    elsewhere.write(PREFERENCES, "- Tea\n")
    page = visitor.sign_in(me)
    visitor.file(PREFERENCES)
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
