"""The page of a person with much, over that of somebody with nothing: python -m benchmarks.page

On `langgraph dev` with the offline model, in a real Chromium. One person gets `--files` memory
files and `--conversations` conversations of two messages. Then, alternately, `--pairs` times: from
the click on "Sign in" until one can write, what is remembered is listed, and the newest
conversations are. The same person's files are opened, and a search asked, at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, expect

from benchmarks.pairs import Pairs, print_table
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import OPERATOR, Person
from tests.page.browser import MISSING, Visitor, open_browser

ORG, MUCH, NOTHING = "acme", "much@example.com", "nothing@example.com"
AT_ONCE = 8


async def fill(url: str, files: int, conversations: int) -> None:
    """Give the person files and conversations, without a run."""
    room = asyncio.Semaphore(AT_ONCE)
    async with (
        Person(url, MUCH, ORG, seconds=120) as person,
        Person(url, "", headers=OPERATOR, seconds=120) as operator,
    ):

        async def file(number: int) -> None:
            async with room:
                path = f"/memories/topics/topic-{number:03}.md"
                await person.write(path, f"# Topic {number}\n\n- Said something about it\n")

        async def conversation(number: int) -> None:
            said = [
                {"role": "user", "content": f"What about number {number}, and the gliders?"},
                {"role": "assistant", "content": "They were packed before noon."},
            ]
            async with room:
                thread, state = (
                    await person.thread(graph_id="agent"),
                    {"values": {"messages": said}, "as_node": "__start__"},
                )
                await operator.made("POST", f"/threads/{thread}/state", state)

        await asyncio.gather(*map(file, range(files)), *map(conversation, range(conversations)))


def seconds_to_use(browser: Browser, url: str, who: str, files: int, conversations: int) -> float:
    """From the click on "Sign in" until all of the page is there."""
    visitor = Visitor.arrive(browser, url)
    page = visitor.page
    page.goto(f"{url}/app")
    page.get_by_label("Identity").fill(who)
    page.get_by_label("Organization").fill(ORG)
    start = time.perf_counter()
    visitor.button("Sign in").click()
    page.get_by_label("Message").fill("x")
    expect(page.get_by_text(f"{files} facts", exact=True)).to_be_visible()
    expect(page.get_by_role("list", name="Conversations").get_by_role("listitem")).to_have_count(
        min(conversations, 40)
    )
    taken = time.perf_counter() - start
    visitor.leave()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--conversations", type=int, default=1_000)
    parser.add_argument("--pairs", type=int, default=10)
    args = parser.parse_args()
    with TemporaryDirectory() as folder, DevServer(Path(folder), env={"AGENT_MODEL": ""}) as server:
        asyncio.run(fill(server.url, args.files, args.conversations))
        with open_browser() as browser:
            if browser is None:
                sys.exit(f"Nothing was measured: {MISSING}.")
            measure(browser, server.url, args.files, args.conversations, args.pairs)


expect.set_options(timeout=30_000)


def measure(browser: Browser, url: str, files: int, conversations: int, times: int) -> None:
    pairs = Pairs("from sign-in until all is there")
    for _ in range(times):
        pairs.ours.append(seconds_to_use(browser, url, MUCH, files, conversations))
        pairs.theirs.append(seconds_to_use(browser, url, NOTHING, 0, 0))
    print_table([pairs], "much ms", "nothing ms")
    visitor = Visitor.arrive(browser, url)
    page = visitor.sign_in(MUCH, ORG)
    start = time.perf_counter()
    visitor.button("Files").click()
    visitor.button("/memories/topics/topic-250.md").click()
    visitor.button("Edit").wait_for()
    opened = time.perf_counter() - start
    page.keyboard.press("Escape")
    page.get_by_label("Search past conversations").fill("gliders number 7")
    start = time.perf_counter()
    page.get_by_role("list", name="Found").wait_for()
    print(
        f"a file opened in {opened * 1000:.0f} ms, a first search answered in {time.perf_counter() - start:.2f} s"
    )
    visitor.leave()


if __name__ == "__main__":
    main()
