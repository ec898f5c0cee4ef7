"""The page without a mouse, on a telephone, in the dark, or read aloud: its names, its keys, and
what axe-core finds.
"""

import pytest
from playwright.sync_api import expect

from tests.page.browser import Elsewhere
from tests.page.conftest import METRIC, PREFERENCES, Visit

pytestmark = [pytest.mark.server, pytest.mark.browser]

# The name of what has the keyboard, roughly.
FOCUSED = """() => { const it = document.activeElement;
    return it.ariaLabel || it.labels?.[0]?.innerText.trim() || it.innerText; }"""


def test_every_name_that_is_promised_is_there_once_while_it_is_shown(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    visitor = visit()
    page = visitor.page
    page.goto(f"{visitor.url}/app")
    page.get_by_label("Identity").wait_for()
    always = [
        "Message",
        "New conversation",
        "Search past conversations",
        "Memory",
        "Search in memory",
        "Policies",
    ]
    always += [
        "What the model sees",
        "Export",
        "Import",
        "Forget me",
        "Sign out",
        "Consolidation",
        "Files",
        "Trash",
    ]

    def shown(*names: str) -> None:
        counts = visitor.names(until=names)
        assert {name: counts[name] for name in names} == dict.fromkeys(names, 1)

    shown("Identity", "Organization", "Sign in")
    elsewhere.write("/memories/a.md", "one")
    visitor.sign_in(me)
    page.get_by_text("one", exact=True).wait_for()
    shown(*always, "Facts", "Settings", "Send", "Edit: one", "Delete: one", "Why: one")
    elsewhere.write("/memories/b.md", "one")
    page.get_by_label("Message").fill(METRIC)
    go_on = visitor.send()
    shown(*always, "Stop")
    go_on()
    visitor.button("Send").wait_for()
    elsewhere.write("/memories/a.md", "two")
    elsewhere.write("/memories/b.md", "two")
    visitor.say("Forget that I live on the moon.")
    expect(page.get_by_text("Changed by")).to_have_count(4)
    shown(*always, "Send", "Undo")
    visitor.file("/memories/b.md")
    visitor.button("History").click()
    visitor.button("Revision 1").click()
    visitor.button("Restore").wait_for()
    names = [
        "New file",
        "Edit",
        "Delete",
        "History",
        "Restore",
        "/memories/a.md",
        "/memories/b.md",
        PREFERENCES,
    ]
    shown(*names)
    page.keyboard.press("Escape")
    visitor.button("Consolidation").click()
    visitor.button("Rehearse").wait_for()
    shown("Rehearse", "Consolidate now")
    page.keyboard.press("Escape")
    visitor.button("Forget me").click()
    page.get_by_label("Identity", exact=True).wait_for()
    shown("Identity", "Forget me")


def test_the_page_goes_by_keyboard_alone(visit: Visit, me: str, elsewhere: Elsewhere) -> None:
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
                outline = page.evaluate(
                    "() => getComputedStyle(document.activeElement).outlineStyle"
                )
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
    visitor.button("Send").wait_for()
    go_to("Changes 1")
    keys.press("Enter")
    go_to("Undo")
    keys.press("Enter")
    expect(visitor.button("Undo")).to_have_count(0)
    for name in ("Settings", "Files"):
        go_to(name)
        keys.press("Enter")
    page.get_by_role("dialog").wait_for()
    go_to("New file")
    keys.press("Enter")
    expect(page.get_by_label("Path")).to_be_focused()
    keys.type("keys.md")
    go_to("Content")
    keys.type("typed")
    go_to("Save")
    keys.press("Space")
    visitor.button("/memories/keys.md").wait_for()
    assert elsewhere.read("/memories/keys.md") == "typed"
    keys.press("Escape")
    expect(visitor.button("Files")).to_be_focused()
    go_to("Forget me")
    keys.press("Enter")
    page.get_by_role("dialog").wait_for()
    for _ in range(6):  # the keyboard stays in the dialog
        keys.press("Tab")
        assert page.evaluate(
            "() => document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
    keys.press("Escape")
    expect(visitor.button("Forget me")).to_be_focused()
    go_to("New conversation")
    keys.press("Enter")
    expect(page.get_by_text("What should it remember?")).to_be_visible()


@pytest.mark.parametrize(
    ("scheme", "width"), [pytest.param("light", 1280, marks=pytest.mark.proof), ("dark", 360)]
)
def test_the_page_has_no_serious_barrier_for_people_with_a_disability(
    visit: Visit, me: str, elsewhere: Elsewhere, scheme: str, width: int
) -> None:
    visitor = visit(
        color_scheme=scheme, viewport={"width": width, "height": 740}, reduced_motion="reduce"
    )
    page = visitor.page
    page.goto(f"{visitor.url}/app")
    page.get_by_label("Identity").wait_for()
    problems = visitor.inaccessible()
    elsewhere.write(
        "/memories/a/rather/long/path/for/a/telephone/and-a-name-without-any-space-in-it.md",
        "x" * 300,
    )
    visitor.sign_in(me)
    visitor.say("Remember that I prefer metric units, **really**.")
    problems += visitor.inaccessible()
    places = page.get_by_role("navigation", name="Places")
    if width < 900:
        assert (
            places.get_by_role("button", name="Conversation", exact=True).get_attribute(
                "aria-current"
            )
            == "page"
        )
        visitor.go("Past conversations")
        expect(visitor.button("New conversation")).to_be_visible()
        problems += visitor.inaccessible()
        visitor.go("Facts")
        expect(page.get_by_label("Message")).to_be_hidden()
    page.get_by_role("list", name="Preferences").get_by_role("button", name="Why").last.click()
    expect(page.locator(".why")).to_contain_text("really")
    visitor.button("Edit profile").or_(visitor.button("Say who you are")).click()
    problems += visitor.inaccessible()
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    visitor.file(PREFERENCES)
    visitor.button("History").click()
    visitor.button("Revision 1").click()
    problems += visitor.inaccessible()
    page.keyboard.press("Escape")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    for name in ("Trash", "Consolidation", "Policies", "What the model sees", "Forget me"):
        visitor.button(name).click()
        page.get_by_role("dialog").wait_for()
        problems += visitor.inaccessible()
        page.keyboard.press("Escape")
    assert problems == []
    moving = "() => document.getAnimations().filter((animation) => animation.playState === 'running').length"
    assert page.evaluate(moving) == 0
