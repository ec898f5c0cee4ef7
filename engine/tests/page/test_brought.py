"""A memory that is brought along: a text or an export of another assistant, on the page."""

import pytest
from playwright.sync_api import expect

from tests.page.browser import Elsewhere, Visitor
from tests.page.conftest import PREFERENCES

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.begins_first]


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
