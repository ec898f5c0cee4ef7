"""Answers as they come, whatever becomes of the connection, behind tokens and below a prefix, on
the scripted model.
"""

import base64
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import httpx
import jwt
import pytest
from playwright.sync_api import FilePayload, Page, expect

from lasting_memory.people.identity import WRITE_POLICIES
from lasting_memory.testing.scripted_anthropic import (
    DELTA_CHARACTERS,
    Changed,
    Ended,
    Failure,
    ScriptedAnthropic,
    Text,
)
from tests.conftest import ServerWith
from tests.page.browser import Visitor
from tests.page.conftest import Visit

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.begins_first]

SECRET = "a-secret-of-at-least-32-bytes-for-tests"
# Between the events of an answer: long enough to see it grow.
BEAT_SECONDS = 0.15
OVER = "The token is over."
SAYING = "The quick brown fox jumps over the lazy dog, and then it rests. " * 12


@pytest.fixture(scope="module")
def url(server_with: ServerWith) -> str:
    server = server_with(
        {"http": {"mount_prefix": "/below"}}, AUTH_JWT_SECRET=SECRET, MEMORY_WRITES="background"
    )
    return f"{server.url}/below"


def token(identity: str, seconds: float = 600, **claims: Any) -> str:
    return jwt.encode(
        {"sub": identity, "org_id": "acme", "exp": time.time() + seconds, **claims}, SECRET, "HS256"
    )


def enter(visitor: Visitor, identity: str, **claims: Any) -> None:
    """Open the page with a token in its address, and say yes."""
    visitor.page.goto(f"{visitor.url}/app#token={token(identity, **claims)}")
    visitor.button("Yes, sign in").click()
    visitor.page.get_by_label("Message").wait_for()


def sign_in(visitor: Visitor, given: str) -> None:
    visitor.page.get_by_label("Token").fill(given)
    visitor.button("Sign in").click()


@pytest.fixture
def visitor(visit: Visit, me: str) -> Visitor:
    visitor = visit()
    enter(visitor, me)
    return visitor


@pytest.fixture
def to_the_end() -> Iterator[threading.Event]:
    """Set by a test that has seen enough of an answer that grows."""
    event = threading.Event()
    yield event
    event.set()


def slowly(to_the_end: threading.Event, may_come: threading.Semaphore | None = None) -> Changed:
    """The saying, which ends when the test says so, however slow the browser is. Until then spaces
    come.

    With `may_come` each piece of it waits for the test as well.
    """

    def change(events: list[bytes]) -> Iterable[bytes | float]:
        end = len(events) - 3
        for event in events[:end]:
            while may_come and not to_the_end.is_set() and not may_come.acquire(blocking=False):
                yield BEAT_SECONDS
            yield event
        while not to_the_end.is_set():
            yield BEAT_SECONDS
            yield events[2].replace(SAYING[:DELTA_CHARACTERS].encode(), b" ")
        yield from events[end:]

    return Changed([Text(SAYING)], change)


def ask(visitor: Visitor, text: str) -> None:
    visitor.page.get_by_label("Message").fill(text)
    visitor.button("Send").click()
    visitor.button("Stop").wait_for()


def refuse(page: Page, route: str) -> None:
    """Answer the requests of this route as when the token is over."""
    page.route(route, lambda request: request.fulfill(status=401, json={"detail": OVER}))


def test_a_token_signs_in_by_field_or_by_address_after_a_yes_and_is_erased_from_there(
    visit: Visit, me: str
) -> None:
    visitor, asked, mallory = visit(), "Sign in as {} of acme?", f"mallory-{me}"
    page = visitor.page
    page.goto(f"{visitor.url}/app")
    sign_in(visitor, "junk")
    expect(page.get_by_role("alert")).to_be_visible()
    sign_in(visitor, token(me))
    expect(page.get_by_role("banner")).to_contain_text(me)
    expect(page.get_by_text("The agent does not write while you talk.")).to_be_visible()
    visitor.button("Sign out").click()
    page.goto("about:blank")
    page.goto(f"{visitor.url}/app#token={token(mallory)}")
    expect(page.get_by_text(asked.format(mallory))).to_be_visible()
    assert page.url == f"{visitor.url}/app"
    expect(page.get_by_label("Message")).to_have_count(0)
    assert visitor.inaccessible() == []
    visitor.button("That is not me").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.evaluate("token => { location.hash = `token=${token}`; }", token(me))
    expect(page.get_by_text(asked.format(me))).to_be_visible()
    visitor.button("Yes, sign in").click()
    expect(page.get_by_role("banner")).to_contain_text(me)
    assert page.url == f"{visitor.url}/app"
    for _ in range(2):  # neither token is in the history
        page.go_back()
        assert "token" not in page.url
    page.go_forward()
    expect(page.get_by_label("Token")).to_be_visible()


def test_a_token_in_the_address_replaces_nobody_who_is_signed_in(visitor: Visitor, me: str) -> None:
    page, other, used = visitor.page, token(f"mallory-{me}"), set[str]()
    page.on("request", lambda request: used.add(request.headers.get("authorization", "")))
    visitor.say("hello")
    address = page.url
    page.get_by_label("Message").fill("a long thought")
    page.evaluate("token => { location.hash = `token=${token}`; }", other)
    expect(page).to_have_url(address)
    expect(page.get_by_label("Message")).to_have_value("a long thought")
    visitor.say("hello again")
    expect(page.get_by_role("banner")).to_contain_text(me)
    expect(page.get_by_role("banner")).not_to_contain_text("mallory")
    visitor.button("Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert f"Bearer {other}" not in used


def test_a_message_that_met_the_end_of_a_token_is_in_the_box_again_for_the_same_person(
    visitor: Visitor, me: str
) -> None:
    page, message = visitor.page, visitor.page.get_by_label("Message")
    visitor.say("hello")
    address = page.url
    refuse(page, "**/runs")
    message.fill("a long thought")
    visitor.button("Send").click()
    expect(page.get_by_role("alert")).to_have_text(OVER)
    page.unroute("**/runs")
    page.evaluate("token => { location.hash = `token=${token}`; }", token(me))
    visitor.button("Yes, sign in").click()
    expect(message).to_have_value("a long thought")
    expect(page).to_have_url(address)
    visitor.button("Send").click()
    expect(page.get_by_text("ok", exact=True)).to_have_count(2)
    expect(message).to_have_value("")


def test_an_unsent_message_is_found_by_nobody_else_and_goes_with_the_sign_out(
    visitor: Visitor, me: str
) -> None:
    page, message = visitor.page, visitor.page.get_by_label("Message")
    refuse(page, "**/memory/policies")
    message.fill("a secret")
    visitor.button("Policies").click()
    expect(page.get_by_role("alert")).to_have_text(OVER)
    page.unroute("**/memory/policies")
    for who in (f"other-{me}", me):
        sign_in(visitor, token(who))
        expect(page.get_by_role("banner")).to_contain_text(who)
        expect(message).to_have_value("")
        message.fill("a secret")
        visitor.button("Sign out").click()


def test_an_answer_that_grows_is_taken_up_after_a_reload_and_a_lost_connection_or_stopped(
    visit: Visit, model: ScriptedAnthropic, me: str, to_the_end: threading.Event
) -> None:
    visitor = visit()
    page, answer = visitor.page, visitor.page.get_by_role("article").last
    enter(visitor, me)
    may_come = threading.Semaphore(5)
    model.script("stop this", slowly(to_the_end, may_come))
    ask(visitor, "stop this")
    expect(answer).to_contain_text("The quick")
    for step in range(1, 5):
        more = SAYING[: DELTA_CHARACTERS * (5 * step + 2)].strip()
        expect(answer).not_to_contain_text(more)
        may_come.release(5)
        expect(answer).to_contain_text(more)
    visitor.button("Stop").click()
    visitor.button("Send").wait_for()
    expect(page.get_by_label("Message"), "one goes on writing").to_be_focused()
    stopped = answer.inner_text()
    assert "The quick" in stopped, "what was said stays"
    assert len(stopped) < len(SAYING)
    expect(page.get_by_text("You stopped this answer.")).to_be_visible()
    expect(visitor.button("Retry")).to_have_count(0)
    expect(page.get_by_label("Message")).to_be_focused()
    visitor.say("go on")
    expect(page.get_by_role("article").nth(1)).to_have_text(stopped.replace("\n", ""))
    shown = [
        message
        for message in model.requests_for("go on")[-1]["messages"]
        if message["role"] == "assistant"
    ]
    assert "The quick" in str(shown), "the model sees what the page shows"
    page.reload()
    sign_in(visitor, token(me))
    expect(page.get_by_role("article").nth(1)).to_have_text(stopped.replace("\n", ""))

    visitor.button("New conversation").click()
    model.script("tell me", slowly(to_the_end))
    ask(visitor, "tell me")
    expect(answer).to_contain_text("The quick")
    at = page.url.partition("#")[2]
    page.reload()
    sign_in(visitor, token(me))
    visitor.button("Stop").wait_for()
    expect(page.locator(".mine")).to_contain_text("tell me")
    expect(page.get_by_role("button", name="Open: tell me")).to_be_visible()
    expect(answer).to_contain_text("The quick")
    assert page.url.endswith(at)
    visitor.context.set_offline(True)
    to_the_end.set()
    expect(page.get_by_text("The connection was lost")).to_be_visible()
    visitor.context.set_offline(False)
    visitor.button("Send").wait_for()
    expect(answer).to_contain_text(SAYING.strip())
    expect(page.get_by_text("The connection was lost")).to_have_count(0)
    expect(page.get_by_role("article")).to_have_count(2)
    assert len(model.requests_for("tell me")) == 1


@pytest.mark.proof
def test_a_failure_is_explained_in_a_sentence_and_no_message_is_lost(
    visitor: Visitor, model: ScriptedAnthropic, me: str
) -> None:
    page = visitor.page
    model.script("fail", Failure(400, "invalid_request_error", "no"))
    visitor.say("fail")
    expect(page.get_by_text("The model's provider refused the request")).to_be_visible()
    model.script("no key", Failure(401, "authentication_error", "invalid x-api-key secret-key"))
    visitor.say("no key")
    refused = page.get_by_text("The model's provider refused the key: the operator has to look.")
    expect(refused).to_be_visible()
    assert "secret-key" not in page.content()
    at = page.url.partition("#")[2]
    page.goto("about:blank")
    enter(visitor, me)
    page.get_by_role("list", name="Conversations").get_by_role("button").first.click()
    assert page.url.endswith(at)
    expect(refused).to_be_visible()
    model.script("no key", [Text("now it works")])
    visitor.button("Retry").click()
    expect(page.get_by_text("now it works")).to_be_visible()
    expect(visitor.button("Retry")).to_have_count(0)
    expect(page.locator(".mine", has_text="no key"), "it is not sent twice").to_have_count(1)
    visitor.context.set_offline(True)
    page.get_by_label("Message").fill("a long thought")
    visitor.button("Send").click()
    expect(page.get_by_label("Message")).to_have_value("a long thought")
    visitor.context.set_offline(False)
    visitor.button("Send").click()
    expect(page.get_by_text("ok", exact=True)).to_be_visible()


def test_an_answer_that_is_none_says_why_and_one_that_was_cut_says_so(
    visitor: Visitor, model: ScriptedAnthropic, me: str
) -> None:
    page = visitor.page
    model.script("refuse", Ended([], "refusal"))
    visitor.say("refuse")
    expect(
        page.get_by_text(
            "There is no answer. The model refused to answer (refusal); say it in other words"
        )
    ).to_be_visible()
    model.script("refuse", Ended([Text("Of wombats I know")], "max_tokens"))
    visitor.button("Retry").click()
    expect(page.get_by_text("Of wombats I know")).to_be_visible()
    cut = page.get_by_text("This was cut at the model's limit of tokens (max_tokens).")
    expect(cut).to_be_visible()
    visitor.button("Send").wait_for()
    model.script("silence", [])
    visitor.say("silence")
    expect(page.get_by_text("The model ended its answer without a word")).to_be_visible()
    expect(visitor.button("Retry")).to_be_visible()
    page.reload()
    sign_in(visitor, token(me))
    expect(cut).to_be_visible()


MARKDOWN = """# Packing

Take **all** of *this*:

- [x] tent
- sleeping bag
  1. inner
- `rope` and [a map](https://maps.example/a?b=c)

| What | Weight |
|---|---|
| tent | 2 kg |

> Or stay at home.

```sh
rm -rf "<tent>"
```
"""
# What each of these would do elsewhere, it must not do here; all of it is to be read.
TRICKS = [
    "[click](javascript:alert(1))",
    "[x](  JaVaScRiPt:alert(2))",
    "[data](data:text/html,<script>alert(3)</script>)",
    "[vb](vbscript:alert(4)) [file](file:///etc/passwd) [blob](blob:https://evil.example/x)",
    "![picture](https://evil.example/p.png)",
    "<a href='javascript:alert(5)'>a</a><img src=x onerror=alert(6)>",
    "[//](//evil.example/y) [rel](../app/main.js)",
    "[user](https://bank.example@evil.example/)",
    "[ref][r]",
    "[pass](https://:google.com@evil.example/)",
]
# Within what is read as Markdown at all, but for the last.
HUGE = {
    "a table of many columns": "|" + "a|" * 300 + "\n|" + "-|" * 300 + "\n" + "x\n" * 1_000 + "end",
    "lines of one paragraph": "- a\n" + " b\n" * 4_000 + "end",
    "a table of many rows": "| a | b |\n|---|---|\n" + "| **1** | 2 |\n" * 1_000 + "\nend",
    "quotes of quotes": "> " * 5_000 + "end",
    "lists of lists": "\n".join("  " * n + "- x" for n in range(100)),
    "signs": "**a_" * 4_000,
    "brackets": "[" * 20_000 + "end",
}


# Renders the first characters of a text, more of them, and all, for many such numbers; and, to
# compare with, all at once.
PIECES = r"""async (text) => {
  const { html, render } = await import(new URL("app/lib/preact.js", document.baseURI));
  const { Markdown } = await import(new URL("app/markdown.js", document.baseURI));
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const shown = async (...ends) => {
    const place = document.createElement("div");
    for (const end of ends) render(html`<${Markdown} text=${text.slice(0, end)} />`, place);
    await frame();
    await frame();
    const answer = place.textContent;
    render(null, place);
    return answer;
  };
  const whole = await shown(text.length);
  const others = new Set();
  for (let first = 1; first < text.length; first += 7)
    for (let second = first; second < text.length; second += 7) others.add(await shown(first, second, text.length));
  others.delete(whole);
  return { whole, others: [...others] };
}"""
IN_PIECES = [
    "[https://good.example/?to=evil.example](https://evil.example/login) <https://good.example/>",
    "a **b** <https://x.example/> [c](https://d.example/) *e* https://f.example/ end",
    "- a **b**\n  - <https://x.example/>\n\n| a | b |\n|---|---|\n| `c` | [m](https://n.example/) |",
]


@pytest.mark.parametrize("text", IN_PIECES, ids=["links", "words", "lists and tables"])
def test_an_answer_reads_the_same_whatever_pieces_it_came_in(visitor: Visitor, text: str) -> None:
    seen = visitor.page.evaluate(PIECES, text)
    assert seen["whole"]
    assert seen["others"] == []


def test_answers_are_markdown_with_links_that_open_apart(
    visitor: Visitor, model: ScriptedAnthropic
) -> None:
    page, answer = visitor.page, visitor.page.get_by_role("article").last
    model.script("show", [Text(MARKDOWN)])
    visitor.say("show")
    expect(answer.get_by_role("heading", name="Packing")).to_be_visible()
    expect(answer.locator("strong")).to_have_text("all")
    expect(answer.get_by_role("listitem")).to_have_count(4)
    tops = [item.bounding_box() for item in answer.get_by_role("listitem").all()]
    assert len({round(box["y"]) for box in tops if box}) == 4, "each has a line of its own"
    expect(answer.get_by_role("cell")).to_have_text(["tent", "2 kg"])
    expect(answer.locator("pre")).to_have_text('rm -rf "<tent>"')
    link = answer.get_by_role("link", name="a map")
    assert [link.get_attribute(name) for name in ("href", "target", "rel")] == [
        "https://maps.example/a?b=c",
        "_blank",
        "noopener noreferrer nofollow",
    ]
    expect(answer).to_contain_text("(maps.example)")
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor.button("Copy").click()
    assert page.evaluate("() => navigator.clipboard.readText()") == 'rm -rf "<tent>"'
    assert visitor.inaccessible() == []
    model.script(
        "lie",
        [
            Text(
                "[https://good.example/?to=evil.example](https://evil.example/login) <https://good.example/>"
            )
        ],
    )
    visitor.say("lie")
    expect(answer).to_contain_text(
        "https://good.example/?to=evil.example (evil.example) https://good.example/"
    )


def png(width: int, height: int) -> bytes:
    """A picture of one color."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")
        )

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    rows = (b"\0" + b"\x20\x80\x40" * width) * height
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def test_pictures_and_text_files_go_with_a_message_and_are_shown_in_it(
    visitor: Visitor, model: ScriptedAnthropic, me: str
) -> None:
    page, choose = visitor.page, visitor.page.get_by_label("Attach", exact=True)
    files: list[FilePayload] = [
        {"name": "meadow.png", "mimeType": "image/png", "buffer": png(3_000, 1_500)},
        {
            "name": "notes.md",
            "mimeType": "text/markdown",
            "buffer": b"# Wombats\n\n```\ncode\n```\n",
        },
    ]
    choose.set_input_files(files)
    attached = page.get_by_role("list", name="Attached")
    expect(attached.get_by_role("listitem")).to_have_count(2)
    choose.set_input_files(
        {"name": "plan.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-\xff\xfe"}
    )
    expect(page.get_by_role("alert")).to_have_text(
        "plan.pdf is no text in UTF-8; save it as plain text."
    )
    choose.set_input_files(
        {"name": "x.svg", "mimeType": "image/svg+xml", "buffer": b"<svg onload='alert(1)'/>"}
    )
    expect(page.get_by_role("alert")).to_contain_text("x.svg is no PNG")
    choose.set_input_files({"name": "long.txt", "mimeType": "text/plain", "buffer": b"x" * 200_001})
    expect(page.get_by_role("alert")).to_contain_text("long.txt is larger than")
    assert visitor.inaccessible() == []
    visitor.button("Take off: notes.md").click()
    expect(attached.get_by_role("listitem")).to_have_count(1)
    choose.set_input_files(files[1])
    expect(attached.get_by_role("listitem")).to_have_count(2)
    visitor.say("what is this?")
    (said,) = (
        one for one in model.requests_for("what is this?")[-1]["messages"] if one["role"] == "user"
    )
    text, picture, file = said["content"]
    assert text["text"] == "what is this?"
    assert picture["source"]["media_type"] == "image/png"
    width = int.from_bytes(base64.b64decode(picture["source"]["data"])[16:20], "big")
    assert width == 1_568, "it is made smaller"
    assert file["text"] == "notes.md\n````\n# Wombats\n\n```\ncode\n```\n\n````"
    for _ in range(2):
        shown = page.locator(".mine")
        expect(shown.get_by_role("img", name="meadow.png")).to_be_visible()
        page.wait_for_function("() => document.querySelector('.mine img').naturalWidth === 1568")
        expect(shown).to_contain_text("notes.md")
        expect(shown).not_to_contain_text("Wombats")
        expect(page.get_by_role("button", name="Open: what is this?")).to_be_visible()
        page.reload()
        sign_in(visitor, token(me))
    visitor.button("Edit and ask again").click()
    page.get_by_label("Other words for it").fill("and what is that?")
    visitor.button("Ask again").click()
    expect(page.locator(".mine")).to_contain_text("and what is that?")
    visitor.button("Send").wait_for()
    again = model.requests_for("and what is that?")[-1]["messages"]
    assert [len(one["content"]) for one in again if one["role"] == "user"] == [3], (
        "what is attached stays"
    )


def test_a_picture_is_what_its_bytes_are(visitor: Visitor, model: ScriptedAnthropic) -> None:
    page, choose = visitor.page, visitor.page.get_by_label("Attach", exact=True)
    choose.set_input_files(
        {"name": "notes.gif", "mimeType": "image/gif", "buffer": b"GIF89a is how they begin"}
    )
    expect(page.get_by_role("alert")).to_have_text(
        "notes.gif cannot be read as a picture; choose another one."
    )
    choose.set_input_files({"name": "meadow.gif", "mimeType": "image/gif", "buffer": png(20, 10)})
    expect(page.get_by_role("list", name="Attached").get_by_role("listitem")).to_have_count(1)
    visitor.say("what is in it?")
    (said,) = (
        one for one in model.requests_for("what is in it?")[-1]["messages"] if one["role"] == "user"
    )
    assert said["content"][1]["source"]["media_type"] == "image/png"


# Counts the characters that the library which reads Markdown is given.
COUNT_READ = """async () => {
  const { Lexer } = await import(new URL("app/lib/marked.js", location.href.replace(/app.*/, "")).href);
  const { blockTokens } = Lexer.prototype;
  window.read = 0;
  Lexer.prototype.blockTokens = function (text, ...more) {
    window.read += text.length;
    return blockTokens.call(this, text, ...more);
  };
}"""


def test_only_the_part_of_an_answer_that_grows_is_read_again(
    visitor: Visitor, model: ScriptedAnthropic
) -> None:
    page = visitor.page
    text = "\n\n".join(f"Part **{number}** of it." for number in range(100))
    page.evaluate(COUNT_READ)
    model.script("grow", [Text(text)])
    visitor.say("grow")
    expect(page.get_by_role("article").last.locator("strong")).to_have_count(100)
    read = page.evaluate("() => window.read")
    assert len(text) / 2 < read < 8 * len(text)


@pytest.mark.proof
def test_no_trick_of_markdown_does_anything(visitor: Visitor, model: ScriptedAnthropic) -> None:
    page, answer = visitor.page, visitor.page.get_by_role("article").last
    model.script("tricks", [Text("\n\n".join([*TRICKS, "[r]: javascript:alert(7)", "the end"]))])
    visitor.say("tricks")
    expect(answer).to_contain_text("the end")
    for trick in TRICKS:
        expect(answer).to_contain_text(trick)
    assert answer.locator("a, img, script, iframe").count() == 0
    for what, text in HUGE.items():
        model.script(what, [Text(text)])
        visitor.say(what)
        expect(answer).to_contain_text(text[-3:].strip())
        assert page.evaluate("() => document.querySelectorAll('article').length") >= 4


def test_a_person_with_the_permission_changes_policies_and_sees_a_refusal(
    visit: Visit, me: str
) -> None:
    visitor = visit()
    enter(visitor, me, permissions=[WRITE_POLICIES], org_id=f"org-{me}")
    page = visitor.page
    visitor.button("Policies").click()
    visitor.button("Add rules").click()
    page.get_by_label("Name").fill("/travel.txt")
    page.get_by_label("Rules").fill("Take the train.")
    visitor.button("Save rules").click()
    expect(page.get_by_role("alert")).to_contain_text("does not end in .md")
    page.get_by_label("Name").fill("/travel.md")
    visitor.button("Save rules").click()
    expect(page.get_by_role("dialog")).to_contain_text("/policies/travel.md")
    visitor.button("Change /policies/travel.md").click()
    page.get_by_label("Rules").fill("Take the night train.")
    visitor.button("Save rules").click()
    expect(page.get_by_text("Take the night train.")).to_be_visible()
    told = httpx.get(
        f"{visitor.url}/memory/policies",
        headers={"authorization": f"Bearer {token(me, org_id=f'org-{me}')}"},
        trust_env=False,
    ).json()
    assert [(file["key"], file["content"]) for file in told["files"]] == [
        ("/travel.md", "Take the night train.")
    ]
