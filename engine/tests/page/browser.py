"""A real browser for tests of the page. Every test also checks that the page loads nothing from
elsewhere and keeps nothing.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import axe_playwright_python
import httpx
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Dialog,
    Locator,
    Page,
    Route,
    expect,
    sync_playwright,
)

from lasting_memory.testing.people import dev_token

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_LAUNCHER = Path(__file__).parent / "chromium"
_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
_FLAGS += ["--disable-component-update", "--disable-sync"]
WAIT_MILLISECONDS = 300_000  # a limit, not a wait: what takes longer does not come
_AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
# An endless animation has no end to go to.
_END_ANIMATIONS = """() => document.getAnimations()
  .filter((each) => each.effect.getComputedTiming().endTime !== Infinity).forEach((each) => each.finish())"""
expect.set_options(timeout=WAIT_MILLISECONDS)
# All that a reload finds again: on a development server, where people sign in at a provider, and
# until the server has it.
DEVELOPMENT_TOKEN, SIGNED_IN, UNSENT = "development token", "signed in", "unsent message"
MISSING = "no Chromium is found; `apt-get install chromium`, or `.venv/bin/playwright install --with-deps chromium`"
# In which place beside the conversation a button is.
_PLACE_OF = {
    **dict.fromkeys(("Say who you are", "Edit profile"), "Facts"),
    **dict.fromkeys(("Undo", "Seen", "Trash", "Consolidation"), "Changes"),
    "Read all my conversations again": "Changes",
    **dict.fromkeys(("Files", "Policies", "What the model sees", "Operations"), "Settings"),
    **dict.fromkeys(("Bring your memory", "Export", "Import", "Forget me"), "Settings"),
}
# Nodes of the accessibility tree that only hold the text of another node.
_TEXT_ROLES = {"StaticText", "InlineTextBox", "LabelText", "RootWebArea"}


@contextmanager
def open_browser() -> Iterator[Browser | None]:
    """A browser; None where there is none. With REQUIRE_BROWSER set that is an error, so that CI
    cannot skip by mistake.
    """
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        path = next(filter(None, map(shutil.which, _NAMES)), own if Path(own).exists() else None)
        if path is None:
            if os.environ.get("REQUIRE_BROWSER"):
                raise RuntimeError(f"REQUIRE_BROWSER is set and {MISSING}.")
            yield None
            return
        browser = playwright.chromium.launch(
            executable_path=_LAUNCHER, args=_FLAGS, env={**os.environ, "CHROMIUM": str(path)}
        )
        yield browser
        browser.close()


class Elsewhere(httpx.Client):
    """The same person without a browser."""

    def __init__(self, url: str, identity: str) -> None:
        headers = {"authorization": f"Bearer {dev_token('acme', identity)}"}
        super().__init__(
            base_url=url, headers=headers, trust_env=False, timeout=WAIT_MILLISECONDS / 1000
        )

    def write(self, path: str, content: str) -> None:
        self.put(
            "/memory/file", params={"path": path}, json={"content": content}
        ).raise_for_status()

    def remove(self, path: str) -> None:
        self.delete("/memory/file", params={"path": path}).raise_for_status()

    def read(self, path: str) -> str | None:
        answer = self.get("/memory/file", params={"path": path})
        return None if answer.status_code == 404 else str(answer.json()["content"])


class Held:
    """Requests to these addresses, with a method if one is named, which wait until a test takes
    them and lets them go on.
    """

    def __init__(self, page: Page, url: str, method: str | None = None) -> None:
        self.page = page
        self.url = url
        self.method = method
        self.routes: list[Route] = []
        self.is_over = False
        page.route(url, self._hold)

    def _hold(self, route: Route) -> None:
        if not self.is_over and self.method in (None, route.request.method):
            self.routes.append(route)
        else:
            route.fallback()

    def next(self) -> Route:
        """Wait for a request, and take it."""
        for _ in range(WAIT_MILLISECONDS // 20):
            if self.routes:
                return self.routes.pop(0)
            self.page.wait_for_timeout(20)
        raise AssertionError(f"no request came to {self.url}")

    def end(self) -> None:
        """Hold no more of them."""
        self.is_over = True  # `unroute` would end the requests that are held


@dataclass
class Visitor:
    """Somebody with the page open, in a browser that knows nothing of anybody else's."""

    context: BrowserContext
    page: Page
    url: str
    provider: str = ""  # the origin at which people sign in, if there is one
    wrong: list[str] = field(default_factory=list)

    @classmethod
    def arrive(cls, browser: Browser, url: str, provider: str = "", **options: Any) -> Visitor:
        """Open a browser of one's own at the address of a server; the page is not open yet."""
        context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", **options}
        )
        visitor = cls(context, context.new_page(), url, provider)
        visitor.watch(visitor.page)
        return visitor

    def watch(self, page: Page) -> None:
        page.set_default_timeout(WAIT_MILLISECONDS)
        allowed = tuple(filter(None, (self.url, "blob:", self.provider)))
        page.on(
            "request",
            lambda request: self._note(
                f"request to {request.url}", request.url.startswith(allowed)
            ),
        )
        page.on("dialog", self._dismiss)
        page.on("pageerror", lambda error: self.wrong.append(f"error {error}"))
        page.on(
            "console",
            lambda message: self._note(message.text, "Content Security Policy" not in message.text),
        )
        page.on("popup", lambda popup: self.wrong.append(f"popup {popup.url}"))

    def _dismiss(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _note(self, what: str, is_fine: bool) -> None:
        if not is_fine:
            self.wrong.append(what)

    def sign_in(self, identity: str, organization: str = "acme", at: str = "") -> Page:
        """Open the page, and sign in as on a development server, also while somebody is signed in
        there.
        """
        if self.page.url.startswith(self.url):
            self.page.evaluate("() => sessionStorage.clear()")
            self.page.goto("about:blank")
        self.page.goto(f"{self.url}/app{at}")
        self.page.get_by_label("Identity").fill(identity)
        self.page.get_by_label("Organization").fill(organization)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_label("Message").wait_for()
        return self.page

    def go(self, place: str) -> None:
        """Open one of the places beside the conversation, if it is not open."""
        goer = self._places().get_by_role("button", name=place)
        if goer.get_attribute("aria-current") != "page":
            goer.click()

    def _places(self) -> Locator:
        return self.page.get_by_role("navigation", name="Places")

    def button(self, name: str) -> Locator:
        """The button of this name, in the place where it is; while a dialog is open, the one in it."""
        dialog = self.page.locator("dialog[open]")
        if name in _PLACE_OF and not dialog.count():
            self.go(_PLACE_OF[name])
        return (dialog if dialog.count() else self.page).get_by_role(
            "button", name=name, exact=True
        )

    def file(self, path: str) -> Locator:
        """Open the dialog of files, and one of them; its place in the dialog."""
        self.button("Files").click()
        dialog = self.page.get_by_role("dialog")
        dialog.get_by_role("button", name=path, exact=True).click()
        return dialog

    def look(self) -> None:
        """What happens when somebody comes back to the page."""
        with self.page.expect_response("**/memory/facts"):
            self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    def say(self, text: str) -> None:
        """Send a message, and wait until it is answered."""
        self.page.get_by_label("Message").fill(text)
        self.send()()
        self.button("Send").wait_for()

    def send(self) -> Callable[[], None]:
        """Send what is in the message box, until it can be stopped. The answer is not followed
        before the result is called.
        """
        held = Held(self.page, "**/stream")
        self.button("Send").click()
        self.button("Stop").wait_for()
        stream = held.next()
        held.end()
        return stream.continue_

    def names(self, until: Collection[str]) -> Counter[str]:
        """How often each accessible name is there, of all that is no mere text, once these are (the
        tree is made late).

        Without a dialog it looks into every place; a name counts as often as it is there at once.
        """
        goers = (
            []
            if self.page.locator("dialog[open]").count()
            else self._places().get_by_role("button").all()
        )
        names = Counter[str]()
        for _ in range(WAIT_MILLISECONDS // 100):
            names = self._names_shown()
            for goer in goers:
                goer.click()
                names |= self._names_shown()
            if all(names[name] for name in until):
                break
            self.page.wait_for_timeout(100)
        return names

    def _names_shown(self) -> Counter[str]:
        session = self.context.new_cdp_session(self.page)
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
        session.detach()
        shown = (
            node
            for node in nodes
            if not node["ignored"] and node["role"]["value"] not in _TEXT_ROLES
        )
        return Counter(str(node.get("name", {}).get("value", "")) for node in shown)

    def kept(self) -> Any:
        """All that the browser keeps of the page."""
        kept = self.page.evaluate(
            """async () => ({...localStorage, ...sessionStorage, databases: await indexedDB.databases(), name: window.name,
            caches: await caches.keys(), workers: (await navigator.serviceWorker.getRegistrations()).length})"""
        )
        return {**kept, "cookies": self.context.cookies()}

    def inaccessible(self) -> list[str]:
        """The serious and critical findings of axe-core, once what lights up for a moment has done
        so.
        """
        self.page.evaluate(_END_ANIMATIONS)
        self.page.evaluate(f"() => {{ {_AXE} }}")
        violations = self.page.evaluate("() => axe.run()")["violations"]
        return [
            f"{rule['id']}: {node['html']}"
            for rule in violations
            if rule["impact"] in {"serious", "critical"}
            for node in rule["nodes"]
        ]

    def leave(self) -> None:
        """Close the browser. Raises for any violation meanwhile."""
        kept = self.kept() if self.page.url.startswith(self.url) else {}
        self.context.close()
        assert not self.wrong, self.wrong
        token = kept.pop(DEVELOPMENT_TOKEN, "dev:")
        assert token.startswith("dev:"), "any other token is in memory alone"
        kept.pop(UNSENT, None)  # of a message that the server had not answered yet
        assert kept.pop(SIGNED_IN, "") in ("", "at the provider" if self.provider else "")
        assert kept in (
            {},
            {"databases": [], "name": "", "caches": [], "workers": 0, "cookies": []},
        ), kept
