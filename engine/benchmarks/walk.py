"""What of this library one request passes, counted on a running server: python -m benchmarks.walk

Four walks: a turn that remembers one line, a consolidation of that turn, `GET /memory` and `GET
/memory/search`. Of each it prints how many modules and functions of the library it passes and how
many calls of them it makes; how many of these calls ask who acts (functions of `people/identity.py`
and `people/caller.py`), and how many read the person's controls; how many batches of the store and
requests to the server itself it makes. Counts are the same on any machine, so they have no ratio:
compare two commits.

A profile function counts in all threads of the server (`sys.setprofile`); a coroutine that goes on
after it waited is no new call. Nothing else is asked of that server, which has no planned
consolidation.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType

from lasting_memory.settings import ENGINE
from lasting_memory.testing.dev_server import DevServer, serve_command
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall

LINE = "- plays the cello"
NOTE = ToolCall("append_memory", {"path": "/memories/preferences.md", "text": LINE})
LOOK = ToolCall("read_file", {"file_path": "/memories/preferences.md"})
COUNTED = "walk.json"
WAIT_SECONDS = 120
# Which functions of other packages count, by the end of their file: what asks the store, and what
# asks the server itself.
OTHERS = {
    ("langgraph/store/memory/__init__.py", "abatch"): "batches",
    ("langgraph/store/base/batch.py", "abatch"): "batches",
    ("langgraph_runtime_inmem/store.py", "abatch"): "batches",
    ("langgraph_api/asgi_transport.py", "handle_async_request"): "requests",
}
IDENTITY = ("people/identity.py", "people/caller.py")
CONTROLS = ("memory/controls.py", "controls")
PREFIX = f"{ENGINE}{os.sep}"


class Walk:
    """Counts calls while it is on."""

    def __init__(self) -> None:
        self.is_on = False
        self.calls = Counter[str]()
        self.others = Counter[str]()

    def hook(self, frame: FrameType, event: str, _: object) -> None:
        if not self.is_on or event != "call":
            return
        code = frame.f_code
        if (
            code.co_code[max(frame.f_lasti, 0) + 1] != 0
        ):  # RESUME's argument: 0 is a call, others go on after a wait
            return
        if code.co_filename.startswith(PREFIX):
            if not code.co_name.startswith("<"):
                self.calls[f"{code.co_filename.removeprefix(PREFIX)}:{code.co_qualname}"] += 1
            return
        for (end, name), what in OTHERS.items():
            if code.co_name == name and code.co_filename.endswith(end):
                self.others[f"{what} {end}"] += 1

    def switch(self, *_: object) -> None:
        """Begin to count, or end it and write what was counted."""
        self.is_on = not self.is_on
        if self.is_on:
            self.calls.clear()
            self.others.clear()
            return
        threading.Thread(target=self.write).start()  # a signal's handler runs in the event loop

    def write(self) -> None:
        partial = Path(f"{COUNTED}.partial")
        partial.write_text(json.dumps({"calls": self.calls, "others": self.others}))
        partial.replace(COUNTED)


def serve_counted(
    folder: Path, command: list[str], env: dict[str, str], queue_seconds: float | None
) -> None:
    """What a server's process does, and counts."""
    walk = Walk()
    threading.setprofile(walk.hook)
    sys.setprofile(walk.hook)
    signal.signal(signal.SIGUSR1, walk.switch)
    serve_command(folder, command, env, queue_seconds)


def totals(counted: dict[str, dict[str, int]]) -> dict[str, int]:
    calls, others = counted["calls"], counted["others"]
    batches = {where: count for where, count in others.items() if where.startswith("batches")}
    return {
        "modules": len({name.split(":")[0] for name in calls}),
        "functions": len(calls),
        "calls": sum(calls.values()),
        "identity": sum(count for name, count in calls.items() if name.split(":")[0] in IDENTITY),
        "controls": calls.get(":".join(CONTROLS), 0),
        "batches": max(
            batches.values(), default=0
        ),  # one batch passes several stores, each inside the other
        "requests": sum(count for where, count in others.items() if where.startswith("requests")),
    }


async def counted(
    server: DevServer, walk: Callable[[], Awaitable[object]]
) -> dict[str, dict[str, int]]:
    """What is passed while this is awaited, and until the server has nothing to do."""
    os.kill(server.group, signal.SIGUSR1)
    await walk()
    await asyncio.sleep(1)  # what goes on behind an answer
    path = server.folder / COUNTED
    path.unlink(missing_ok=True)
    os.kill(server.group, signal.SIGUSR1)
    deadline = time.monotonic() + WAIT_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"the server did not write {path} within {WAIT_SECONDS} s; its log says:\n{server.log[-2_000:]}"
            )
        await asyncio.sleep(0.05)
    found: dict[str, dict[str, int]] = json.loads(path.read_text())
    return found


async def walks(
    server: DevServer, model: ScriptedAnthropic
) -> dict[str, dict[str, dict[str, int]]]:
    """The four walks of somebody who has talked before."""
    person = server.person("ada@example.com")
    await person.say("Hello.")
    await remember(model, person, "Note this once.")
    await consolidate(model, person)
    result = {
        "turn": await counted(
            server, lambda: remember(model, person, "Please note that I play the cello.")
        ),
        "consolidation": await counted(server, lambda: consolidate(model, person)),
        "GET /memory": await counted(server, lambda: person.made("GET", "/memory")),
        "GET /memory/search": await counted(
            server, lambda: person.made("GET", "/memory/search", q="cello")
        ),
    }
    await server.close_clients()
    return result


async def remember(model: ScriptedAnthropic, person: Person, text: str) -> None:
    model.script(text, [NOTE], [Text("I will.")])
    await person.say(text)


async def consolidate(model: ScriptedAnthropic, person: Person) -> None:
    model.script("Conversations with something new", [LOOK], [Text("Nothing more to note.")])
    await person.say("", "consolidation_agent")


def main() -> None:
    parser = argparse.ArgumentParser(description="Modules, functions and calls that requests pass.")
    parser.add_argument(
        "--calls", action="store_true", help="list the calls of the turn, most of them first"
    )
    asked = parser.parse_args()
    with (
        ScriptedAnthropic() as model,
        tempfile.TemporaryDirectory() as folder,
        DevServer(Path(folder), model.env, serve=serve_counted) as server,
    ):
        found = asyncio.run(walks(server, model))
    table = {name: totals(walk) for name, walk in found.items()}
    print(f"{'':20}" + "".join(f"{name:>11}" for name in next(iter(table.values()))))
    for name, row in table.items():
        print(f"{name:20}" + "".join(f"{count:11,}" for count in row.values()))
    if asked.calls:
        for walk, counts in found.items():
            print(f"\n{walk}: {counts['others']}")
            for name, count in sorted(counts["calls"].items(), key=lambda item: -item[1])[:70]:
                print(f"{count:6} {name}")
    print(json.dumps(table))


if __name__ == "__main__":
    main()
