"""The four places beside the conversation, and the words in them: people's own, in their language,
and by keyboard.
"""

import re

import pytest
from playwright.sync_api import expect

from tests.page.browser import Elsewhere, Visitor
from tests.page.conftest import METRIC, PREFERENCES, Visit

pytestmark = [pytest.mark.server, pytest.mark.browser]

PROFILE, GARDEN = "/memories/profile.json", "/memories/topics/garden.md"
ARABIC = "يحب الشاي بالنعناع"
TEXT = f"""# Garden

- Grows **tomatoes** on the _balcony_, 2*3*4 pots
- {ARABIC}

| plant | when |
|---|---|
| leek | March |

```sh
npm run dev
```
"""
DIRECTION = "(element) => getComputedStyle(element).direction"


def test_each_of_four_places_has_what_people_look_for_there(visitor: Visitor) -> None:
    page = visitor.page
    expect(page.get_by_role("heading", name="Past conversations")).to_be_visible()
    places = page.get_by_role("navigation", name="Places").get_by_role("button")
    expect(places).to_have_text(["Facts", "Changes", "Settings"])
    expect(page.get_by_label("Search past conversations")).to_be_visible()
    for place, names in {
        "Facts": ["Say who you are"],
        "Changes": ["Consolidation", "Trash"],
        "Settings": [
            "Export",
            "Forget me",
            "Bring your memory",
            "Files",
            "Policies",
            "What the model sees",
        ],
    }.items():
        visitor.go(place)
        expect(places.filter(has_text=place)).to_have_attribute("aria-current", "page")
        for name in names:
            expect(page.get_by_role("button", name=name, exact=True)).to_be_visible()
    visitor.say(METRIC)
    expect(places, "what is new is counted, and pushes nothing away").to_have_text(
        ["Facts", "Changes 1", "Settings"]
    )
    visitor.go("Facts")
    expect(page.get_by_role("list", name="Preferences")).to_be_in_viewport()
    visitor.go("Changes")
    visitor.button("Seen").click()
    expect(page.get_by_text("Nothing has changed since you last looked.")).to_be_visible()


def test_facts_are_said_to_people_and_corrected_by_keyboard(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    elsewhere.write(GARDEN, TEXT)
    visitor = visit()
    page = visitor.sign_in(me)
    facts = page.get_by_role("list", name="Garden").get_by_role("listitem")
    said = [
        "Grows tomatoes on the balcony, 2*3*4 pots",
        ARABIC,
        "plant: leek, when: March",
        "npm run dev",
    ]
    expect(facts.locator(".fact")).to_have_text(said)
    expect(facts.locator("strong")).to_have_text("tomatoes")
    expect(page.get_by_text("4 facts", exact=True)).to_be_visible()
    assert [fact.evaluate(DIRECTION) for fact in facts.locator(".fact").all()] == [
        "ltr",
        "rtl",
        "ltr",
        "ltr",
    ]
    visitor.button("Edit: plant: leek, when: March").click()
    expect(page.get_by_label("Fact", exact=True)).to_have_value("| leek | March |")
    page.get_by_label("Fact", exact=True).fill("| leek | April |")
    page.keyboard.press("Enter")
    expect(facts.nth(2)).to_contain_text("plant: leek, when: April")
    assert elsewhere.read(GARDEN) == TEXT.replace("March", "April")
    expect(page.get_by_label("Message")).not_to_be_focused()
    visitor.button("Delete: npm run dev").click()
    expect(facts).to_have_count(3)
    visitor.button("Trash").click()
    expect(page.get_by_role("list", name="Deleted lines")).to_contain_text(
        "Taken out of Garden by you"
    )
    page.keyboard.press("Escape")
    elsewhere.write(PREFERENCES, "".join(f"- line {number}\n" for number in range(410)))
    visitor.look()
    visitor.go("Facts")
    page.get_by_role("button", name="Show 10 more").click()
    expect(
        page.get_by_role("button", name="Edit: line 400"), "the keyboard goes to the first new one"
    ).to_be_focused()


def test_a_profile_is_fields_with_names_wherever_it_stands(
    visitor: Visitor, elsewhere: Elsewhere
) -> None:
    page = visitor.page
    page.get_by_text("Nothing yet.").wait_for()
    elsewhere.write(PROFILE, '{"name": "Anna", "language": "English"}\n')
    visitor.look()
    visitor.go("Changes")
    changes = page.get_by_role("list", name="Changes")
    expect(changes.get_by_role("heading")).to_have_text("Profile")
    expect(changes).to_contain_text("+ Name: Anna")
    expect(changes).not_to_contain_text("{")
    visitor.go("Settings")
    visitor.button("Files").click()
    page.get_by_role("dialog").get_by_role("button", name=PROFILE).click()
    visitor.button("Delete").click()
    page.keyboard.press("Escape")
    visitor.button("Trash").click()
    files = page.get_by_role("list", name="Deleted files")
    expect(files.get_by_role("heading")).to_have_text("Profile")
    visitor.button(f"Bring back {PROFILE}").click()
    expect(page.get_by_text(f"{PROFILE} is back.")).to_be_visible()


def test_the_page_speaks_german_to_who_reads_german(
    visit: Visit, me: str, elsewhere: Elsewhere
) -> None:
    elsewhere.write(PROFILE, '{"name": "Zoe", "timezone": "Europe/Vienna"}')
    elsewhere.write("/memories/preferences.md", "- kurze Sätze\n")
    visitor = visit(locale="de-AT")
    page = visitor.page
    page.goto(f"{visitor.url}/app")
    expect(page.locator("html")).to_have_attribute("lang", "de")
    expect(page).to_have_title("Ein Agent, der sich erinnert")
    page.get_by_label("Kennung").fill(me)
    page.get_by_label("Organisation").fill("acme")
    page.get_by_role("button", name="Anmelden").click()
    expect(page.get_by_label("Nachricht")).to_be_focused()
    places = page.get_by_role("navigation", name="Bereiche").get_by_role("button")
    expect(places).to_have_text(["Tatsachen", re.compile("^Änderungen"), "Einstellungen"])
    expect(page.get_by_role("term")).to_have_text(["Name", "Zeitzone"])
    page.get_by_role("button", name="Profil bearbeiten").click()
    expect(page.locator("form label")).to_contain_text(
        [re.compile("Wie der Agent"), re.compile("Was du machst"), re.compile("In welcher Sprache"),
         re.compile("Der IANA-Name"), re.compile("Welche Maßeinheiten")]
    )  # fmt: skip
    page.get_by_role("button", name="Abbrechen").click()
    page.get_by_role("button", name="Warum: kurze Sätze").click()
    expect(page.locator(".why")).to_contain_text("Geschrieben von dir, ")
    for place in places.all():
        place.click()
        assert visitor.inaccessible() == []


def test_notices_that_the_server_is_away_go_when_it_is_back(visitor: Visitor) -> None:
    page = visitor.page
    visitor.go("Settings")
    page.get_by_label("Pause memory").wait_for()
    away = page.get_by_text("The server cannot be reached")
    page.route("**/*", lambda route: route.abort())
    page.get_by_label("Message").fill("hello")
    visitor.button("Send").click()
    page.get_by_label("Pause memory").click()
    page.get_by_label("Search past conversations").fill("zebra")
    expect(away, "the answer, the switch, the search and memory say so").to_have_count(4)
    with page.expect_event("requestfailed", lambda request: request.method == "HEAD"):
        pass
    page.unroute("**/*")
    expect(away).to_have_count(0)
    expect(page.get_by_label("Message")).to_have_value("hello")
    expect(page.get_by_text("0 matches in 0 conversations")).to_be_visible()
