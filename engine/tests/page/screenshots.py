"""The pictures of README and docs: `make screenshots` takes it, on a server of its own with the
offline model.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from lasting_memory.testing.deployed import PROJECT
from lasting_memory.testing.dev_server import DevServer
from tests.page.browser import MISSING, Elsewhere, Visitor, open_browser

DOCS = Path(__file__).parents[2] / "docs"
WHO = "alice@example.com"
FILES = {
    "/memories/profile.json": '{"name": "Alice", "language": "English"}\n',
    "/memories/topics/garden.md": "# Garden\n\n- Grows tomatoes on the balcony, facing south\n",
    "/memories/topics/index.md": "# Topics\n\n- garden.md: what she grows\n",
}
EARLIER = ("What did we say about the balcony?", "What are the policies?")
NOW = ("Remember that I prefer metric units.", "Remember that my train to Lisbon leaves at nine.")


def take(url: str) -> None:
    with Elsewhere(url, WHO) as elsewhere, open_browser() as browser:
        if browser is None:
            sys.exit(f"No picture was taken: {MISSING}.")
        visitor = Visitor.arrive(
            browser,
            url,
            viewport={"width": 1280, "height": 760},
            device_scale_factor=2,
            color_scheme="light",
        )
        page = visitor.sign_in(WHO)
        for text in EARLIER:
            visitor.button("New conversation").click()
            visitor.say(text)
        for path, content in FILES.items():
            elsewhere.write(path, content)
        page.reload()
        visitor.button("New conversation").click()
        for text in NOW:
            visitor.say(text)
        visitor.button("Undo").wait_for()
        page.wait_for_timeout(2_000)  # what lit up has settled
        page.screenshot(path=DOCS / "screenshot.png")
        visitor.leave()
        small = {"width": 390, "height": 760}
        phone = Visitor.arrive(
            browser, url, viewport=small, device_scale_factor=2, color_scheme="light"
        )
        phone.sign_in(WHO)
        phone.page.get_by_role("navigation", name="Places").get_by_role(
            "button", name="Facts"
        ).click()
        phone.page.wait_for_timeout(2_000)
        phone.page.screenshot(path=DOCS / "screenshot-phone.png")
        phone.leave()


if __name__ == "__main__":
    with TemporaryDirectory() as folder, DevServer(Path(folder), env={"AGENT_MODEL": ""}) as server:
        seeds = [sys.executable, "-m", "seeds", "--url", server.url]
        subprocess.run(seeds, cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)  # our own
        take(server.url)
