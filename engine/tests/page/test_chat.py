"""The chat: long answers, all directions and keyboards, what was stopped, edited and attached."""

import base64
import json
import re

import pytest
from playwright.sync_api import Locator, expect

from tests.page.browser import UNSENT, Elsewhere, Held, Visitor
from tests.page.conftest import Visit, answered
from tests.page.test_streaming import png

pytestmark = [pytest.mark.server, pytest.mark.browser]

ARABIC = "مرحبا، كيف حالك؟"
HEBREW = "שלום עולם"


def long_answer() -> str:
    """Some 100 kB as models write it: each list, table, paragraph and code is longer than one block
    may be.
    """
    ones = "\n".join(f"1. step {number} is **strong**" for number in range(250))
    nested = "\n".join(f"   {number}. part {number} has `code`" for number in range(1, 351))
    loose = "\n\n".join(
        f"{number}. point {number}\n\n   - under it\n\n   ```\n   # no heading\n   ```"
        for number in range(1, 61)
    )
    rows = "\n".join(f"| {number} | **{number}** | cell |" for number in range(900))
    table = f"| number | strong | text |\n|---|---|---|\n{rows}"
    code = (
        "```python\n"
        + "\n".join(f"value_{number} = 1  # no *sign* counts here" for number in range(3_000))
        + "\n```"
    )
    sentence = "They **rest** in the `shade` of a tree, *all* of them. "
    return "\n\n".join([
        "# Long", "The steps:\n" + ones, "## Nested", f"1. first\n2. second\n{nested}\n3. third", "## Loose", loose,
        "## Table", table, "## Code", code, "## Words", sentence * 300, "# The end",
    ])  # fmt: skip


def test_a_long_answer_is_markdown_to_its_end(visitor: Visitor, elsewhere: Elsewhere) -> None:
    page = visitor.page
    page.goto("about:blank")
    page.goto(f"{visitor.url}/app#{answered(elsewhere, long_answer())}")
    answer = page.get_by_role("article").last
    expect(answer.get_by_role("heading", name="The end")).to_be_visible()
    # Signs outside of code that would have been read as Markdown.
    expect(answer.locator("strong")).to_have_count(250 + 900 + 300)
    expect(answer.locator("code", has_text="shade")).to_have_count(300)
    expect(answer.locator("td")).to_have_count(2_700)
    expect(answer.get_by_role("heading")).to_have_count(
        7 + 1
    )  # with the unseen one that says whose answer it is
    left = answer.evaluate(
        "(answer) => [...answer.querySelectorAll('.text')].map((text) => text.textContent)"
    )
    assert left == [], "nothing of it is left as raw text"
    numbers = answer.evaluate("""(answer) => [...answer.querySelectorAll("ol")].map((list) => [list.start, list.children.length,
      (list.querySelector(":scope > li > p") ?? list.firstElementChild).textContent.trim().split("\\n")[0]])""")
    assert numbers[:3] == [
        [1, 99, "step 0 is strong"],
        [100, 100, "step 99 is strong"],
        [200, 51, "step 199 is strong"],
    ]
    parts = [(start, first) for start, _, first in numbers if re.match(r"part \d", first)]
    assert all(first == f"part {start} has code" for start, first in parts)
    assert len(parts) > 3
    assert [start for start, _, first in numbers if first == "third"] == [3]
    points = [(start, first) for start, _, first in numbers if first.startswith("point")]
    assert all(first == f"point {start}" for start, first in points)
    expect(answer.locator("pre", has_text="# no heading")).to_have_count(60)
    expect(answer.locator("pre", has_text="value_2999 = 1  # no *sign* counts here")).to_have_count(
        1
    )


def test_a_picture_that_a_model_made_is_shown(visitor: Visitor, elsewhere: Elsewhere) -> None:
    """In the form in which Gemini's client gives it. Only what is in the message is shown."""
    page = visitor.page
    address = f"data:image/png;base64,{base64.b64encode(png(40, 20)).decode()}"
    content = [
        {"type": "text", "text": "Here it is."},
        {"type": "image_url", "image_url": {"url": address}},
    ]
    page.goto("about:blank")
    page.goto(f"{visitor.url}/app#{answered(elsewhere, content)}")
    answer = page.get_by_role("article").last
    expect(answer).to_contain_text("Here it is.")
    expect(answer.get_by_role("img")).to_have_count(1)
    page.wait_for_function("() => document.querySelector('article img').naturalWidth === 40")


def test_each_text_has_its_own_direction(visitor: Visitor, elsewhere: Elsewhere) -> None:
    page = visitor.page
    text = f"# {HEBREW}\n\n{ARABIC}\n\nAnd in English.\n\n- {ARABIC}\n- English\n\n1. {HEBREW}\n\n   more\n\n> {HEBREW}\n"
    thread = answered(elsewhere, text)
    elsewhere.patch(f"/threads/{thread}", json={"metadata": {"title": HEBREW}}).raise_for_status()
    page.goto("about:blank")
    page.goto(f"{visitor.url}/app#{thread}")
    answer = page.get_by_role("article").last
    expect(answer.get_by_role("heading", name=HEBREW)).to_be_visible()
    expect_direction(answer.get_by_role("heading", name=HEBREW), "rtl")
    items = answer.locator("li")
    expect(items).to_have_count(3)
    for number, direction in enumerate(["rtl", "ltr", "rtl"]):
        expect_direction(items.nth(number), direction)
    expect_direction(answer.locator(":scope .markdown > p", has_text=ARABIC), "rtl")
    expect_direction(answer.locator(":scope .markdown > p", has_text="And in English."), "ltr")
    expect_direction(answer.locator("blockquote p"), "rtl")
    expect_direction(page.get_by_role("button", name=f"Open: {HEBREW}"), "rtl")
    message = page.get_by_label("Message")
    message.fill(ARABIC)
    expect_direction(message, "rtl")
    visitor.button("Send").click()
    expect(page.locator(".mine", has_text=ARABIC)).to_have_count(1)
    expect_direction(page.locator(".mine .text", has_text=ARABIC), "rtl")


def expect_direction(place: Locator, direction: str) -> None:
    """Wait until a browser lays out what is there in this direction."""
    expect(place).to_have_css("direction", direction)


# What a keyboard does in the box, and whether that was for somebody who sends the message. An input
# method says so while its words are chosen; Safari says it of its last Enter in another way.
PRESS = """([more, code]) => {
  const box = document.getElementById("message");
  const event = new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, ...more });
  if (code) Object.defineProperty(event, "keyCode", { value: code });
  box.dispatchEvent(event);
  return event.defaultPrevented;
}"""


def test_enter_sends_only_what_is_ready_and_on_a_phone_the_button_does(
    visit: Visit, visitor: Visitor, me: str
) -> None:
    page = visitor.page
    page.get_by_label("Message").fill("東京")
    assert not page.evaluate(PRESS, [{"isComposing": True}, 0])
    assert not page.evaluate(PRESS, [{}, 229])
    assert not page.evaluate(PRESS, [{"shiftKey": True}, 0])
    expect(page.locator(".mine")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.locator(".mine .text")).to_have_text("東京")
    phone = visit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    small = phone.sign_in(me)
    small.get_by_label("Message").fill("one")
    small.get_by_label("Message").press("Enter")
    small.get_by_label("Message").press_sequentially("two")
    expect(small.get_by_label("Message")).to_have_value("one\ntwo")
    phone.button("Send").click()
    expect(small.locator(".mine")).to_contain_text("two")


def test_the_last_message_is_edited_and_asked_again(visitor: Visitor, elsewhere: Elsewhere) -> None:
    page, mine = visitor.page, visitor.page.locator(".mine")
    edit, field = (
        page.get_by_role("button", name="Edit and ask again"),
        page.get_by_label("Other words for it"),
    )
    visitor.say("Remember that I like dill.")
    expect(page.get_by_role("button", name="Open: Remember that I like dill.")).to_be_visible()
    edit.click()
    expect(field).to_be_focused()
    expect(field).to_have_value("Remember that I like dill.")
    field.press("Escape")
    edit.click()
    field.fill("Remember that I like fennel.")
    visitor.button("Ask again").click()
    expect(page.get_by_text("I will remember that: I like fennel")).to_be_visible()
    visitor.button("Send").wait_for()
    expect(mine).to_have_count(1)
    expect(page.get_by_role("button", name="Open: Remember that I like fennel.")).to_be_visible()
    expect(page.get_by_role("list", name="Memory"), "what was remembered stays").to_contain_text(
        "I like dill"
    )
    visitor.say("What do you know about me?")
    expect(edit).to_have_count(1)
    page.route("**/runs", lambda request: request.fulfill(status=429, json={"detail": "Wait."}))
    edit.click()
    field.fill("Hello.")
    visitor.button("Ask again").click()
    expect(page.get_by_text("Wait.")).to_be_visible()
    expect(mine, "what was not replaced is there").to_have_count(2)
    expect(page.get_by_label("Message")).to_have_value("Hello.")
    page.unroute("**/runs")
    page.reload()
    expect(mine).to_have_count(2)
    expect(mine.first).to_contain_text("fennel")
    found = elsewhere.get("/memory/search", params={"q": "dill"}).json()["conversations"]
    said = [turn["text"] for talk in found for turn in talk["turns"] if turn["speaker"] == "user"]
    assert "dill" not in str(said), "that it was said is not found any more"


KEPT = f"sessionStorage.getItem('{UNSENT}')"


def test_a_reload_loses_nothing_of_what_is_just_being_sent(
    visitor: Visitor, elsewhere: Elsewhere
) -> None:
    page, mine, message = (
        visitor.page,
        visitor.page.locator(".mine"),
        visitor.page.get_by_label("Message"),
    )
    threads = Held(page, "**/threads", "POST")
    message.fill("Remember that I like dill.")
    visitor.button("Send").click()
    threads.next()
    page.reload()
    expect(message, "it was not sent").to_have_value("Remember that I like dill.")
    assert page.evaluate(KEPT) is None
    threads.end()
    runs = Held(page, "**/runs", "POST")
    visitor.button("Send").click()
    run = runs.next()
    expect(page, "the address has the conversation before its first answer begins").to_have_url(
        re.compile("#[0-9a-f-]{36}$")
    )
    run.fetch()  # it arrives, and its answer does not
    page.reload()
    expect(mine).to_have_count(1)
    expect(mine).to_contain_text("Remember that I like dill.")
    visitor.button("Send").wait_for()
    expect(message).to_have_value("")
    message.fill("And fennel.")
    visitor.button("Send").click()
    runs.next()
    page.reload()
    expect(message).to_have_value("And fennel.")
    expect(mine).to_have_count(1)
    runs.end()


def test_a_message_that_was_being_sent_is_for_its_person_alone(visit: Visit, me: str) -> None:
    visitor = visit()
    page = visitor.sign_in(me)
    Held(page, "**/threads", "POST")
    page.get_by_label("Message").fill("Between us.")
    visitor.button("Send").click()
    expect(page.locator(".mine")).to_have_count(1)
    kept = page.evaluate(KEPT)
    assert "Between us." in kept
    visitor.sign_in(f"other-{me}")  # which empties the session's storage
    page.evaluate(f"sessionStorage.setItem('{UNSENT}', {json.dumps(kept)})")
    page.reload()
    expect(page.get_by_text("What should it remember?")).to_be_visible()
    expect(page.get_by_label("Message")).to_have_value("")
    assert page.evaluate(KEPT) is None


def test_the_page_says_that_the_model_takes_no_pictures(visitor: Visitor) -> None:
    page = visitor.page
    choose = page.get_by_label("Attach", exact=True)
    choose.set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": b"x"})
    expect(page.get_by_role("alert")).to_contain_text("This model takes no pictures")
    choose.set_input_files(
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"Remember that I like dill."}
    )
    visitor.button("Send").click()
    expect(page.get_by_text("I cannot see pictures, and do not read files")).to_be_visible()
    visitor.button("Send").wait_for()
    expect(page.get_by_role("button", name="Open: notes.txt")).to_be_visible()
    expect(page.get_by_role("list", name="Changes")).to_have_count(0)


def test_a_temporary_conversation_says_how_long_it_stays_and_a_phone_where_memory_is(
    visit: Visit, me: str
) -> None:
    phone = visit(viewport={"width": 390, "height": 844})
    page = phone.sign_in(me)
    expect(page.get_by_text("appears under “Facts”")).to_be_visible()
    expect(
        page.get_by_role("navigation", name="Places").get_by_role("button", name="Facts")
    ).to_be_visible()
    expect(page.get_by_text("appears beside this conversation")).to_be_hidden()
    page.get_by_label("Temporary conversation").check()
    phone.say("hello")
    expect(
        page.get_by_text(
            "It stays for 24 hours, and is deleted when you begin another one after that."
        )
    ).to_be_visible()
