"""One person on two pages at once: neither loses anything by what the other does."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Elsewhere, Visit

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.proof]

NOTES = "/memories/notes.md"


def test_what_is_being_written_stays_when_the_file_is_deleted_elsewhere(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    visitor = visit()
    page, content = visitor.page, visitor.page.get_by_label("Content")
    elsewhere.write(NOTES, "- Tea\n")
    visitor.sign_in(me)
    visitor.file(NOTES)
    visitor.button("Edit").click()
    content.fill("- Tea, and a long thought\n")
    elsewhere.delete(NOTES)
    visitor.look()
    expect(page.get_by_role("list", name="Files")).to_contain_text("deleted")
    expect(page.get_by_text("Deleted by you")).to_have_count(1)
    expect(content).to_have_value("- Tea, and a long thought\n")
    visitor.button("Save").click()
    expect(page.get_by_text("(They deleted it.)")).to_be_visible()
    visitor.button("Save").click()
    expect(visitor.button("Edit")).to_be_visible()
    assert elsewhere.read(NOTES) == "- Tea, and a long thought\n"
    elsewhere.delete(NOTES)
    visitor.look()
    expect(visitor.button("Edit")).to_have_count(0)
    expect(visitor.button(NOTES)).to_have_count(0)


def test_a_conversation_that_is_removed_elsewhere_gives_way_to_a_new_one(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
    visitor = visit()
    page, message = visitor.sign_in(me), visitor.page.get_by_role("textbox", name="Message")
    visitor.say("hello")
    elsewhere.remove(page.url.partition("#")[2])
    message.fill("a long thought")
    visitor.button("Send").click()
    expect(page.get_by_text("There is no such conversation; this is a new one.")).to_be_visible()
    expect(message).to_have_value("a long thought")
    assert page.url == f"{visitor.url}/app"
    go_on = visitor.send()
    elsewhere.remove(page.url.partition("#")[2])
    go_on()
    expect(page.get_by_text("There is no such conversation; this is a new one.")).to_be_visible()
    visitor.say("hello again")
    expect(page.get_by_role("article")).to_have_count(2)
