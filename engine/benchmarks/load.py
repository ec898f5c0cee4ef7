"""Many people at once, then one who floods, on `langgraph dev` with Postgres: python -m
benchmarks.load

Goals: no error, nothing lost, nothing of one person's in another's prompts or answers; with one
person flooding at the limit, in every shape (`benchmarks/floods.py`), somebody else's turn takes
1.5 times as long as alone or less.

The people all talk at once: to remember something (a tool call), to be told what is remembered, to
search past conversations (a tool call), in two threads each. The model, a server on loopback,
answers at once, with all that it was shown of memory and of tools; every prompt and every answer is
looked through for every other person's marker. What was acknowledged must be in the person's file
at the end. The server's memory (RSS) is looked at after each tenth. While somebody floods, each
model call takes MODEL_SECONDS. Turns alone and turns beside a flood are taken by turns, so a ratio
compares the same minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk.client import LangGraphClient

from benchmarks.floods import SHAPES, flood
from lasting_memory.dev.configuration import ON_POSTGRES
from lasting_memory.testing import stores
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import (
    Answer,
    Body,
    ScriptedAnthropic,
    Slow,
    Text,
    ToolCall,
    last_user_text,
    system_text,
    tool_results,
)

GOAL = 1.5
MODEL_SECONDS = 1.0
ALONE_TURNS = 3  # before each flood, and as many after it
SETTLE_SECONDS = 2.0  # from the start of a flood to the first turn beside it
NOTES = "/memories/preferences.md"
# What names a person in all they say.
MARK = re.compile(r"person-\d{4}-[0-9a-f]{8}")


class People:
    """Everybody who talks, and what is found out meanwhile: seconds of each turn, errors, leaks and
    losses.
    """

    def __init__(self, count: int) -> None:
        self.marks = [f"person-{number:04}-{os.urandom(4).hex()}" for number in range(count)]
        self.acknowledged: dict[str, list[str]] = {mark: [] for mark in self.marks}
        self.seconds: list[float] = []
        self.errors = Counter[str]()
        self.leaks = self.lost = self.prompts = 0

    def reply(self, body: Body) -> Answer:
        """The scripted model: it does what it is asked, and says all that it was shown."""
        text, results = last_user_text(body), tool_results(body)
        mark = MARK.search(text)
        if mark is None:
            return Slow(MODEL_SECONDS, [Text("Hello.")])
        self.prompts += 1
        self.check(mark[0], json.dumps(body))
        if results:
            return [Text("\n".join(results))]
        if "Remember" in text:
            return [ToolCall("append_memory", {"path": NOTES, "text": text})]
        if "Search" in text:
            return [ToolCall("search_past_conversations", {"query": text})]
        return [Text(system_text(body).partition("<memory>")[2])]

    def check(self, mark: str, shown: str) -> None:
        self.leaks += bool({*MARK.findall(shown)} - {mark})

    async def talk(self, client: LangGraphClient, mark: str, turns: range) -> None:
        """A person's turns, one after the other."""
        threads = [str((await client.threads.create())["thread_id"]) for _ in range(2)]
        for number in turns:
            asks = ("Remember", "What is known of", "Search for", "Remember")[number % 4]
            note = f"{asks} {mark} number {number}."
            began = time.perf_counter()
            try:
                values = await run_turn(client, threads[number % 4 in {1, 2}], note)
            except Exception as error:  # noqa: BLE001  # counted, whatever it is
                self.errors[f"{type(error).__name__}: {error}"[:200]] += 1
                continue
            self.seconds.append(time.perf_counter() - began)
            answer = values["messages"][-1]["content"]
            self.check(mark, json.dumps(values))
            if asks == "Remember":
                self.acknowledged[mark].append(
                    note
                ) if "Added to" in answer else self.errors.update([answer[:200]])
            elif number % 4 == 1:
                self.lost += sum(each not in answer for each in self.acknowledged[mark])

    async def count_lost(self, server: DevServer) -> None:
        """Compare what was acknowledged with what is in everybody's file."""
        for mark in self.marks:
            async with Person(server.url, mark) as person:
                content = await person.read(NOTES) or ""
            self.lost += sum(note not in content for note in self.acknowledged[mark])
            self.check(mark, content)


class Listener(ScriptedAnthropic):
    """The scripted model as these people have it. It keeps nothing of what it was shown."""

    def __init__(self, people: People) -> None:
        super().__init__()
        self._people = people

    def _next(self, body: Body) -> Answer:
        return self._people.reply(body)


def resident_megabytes(group: int) -> float:
    """Memory of a group of processes, in MB."""
    pages = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) == group:
                pages += int((folder / "statm").read_text().split()[1])
        except (ProcessLookupError, FileNotFoundError):
            continue  # it has ended
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def load(server: DevServer, people: People, turns: int) -> dict[str, Any]:
    """Everybody's turns, at once; in up to ten parts, with the server's memory after each."""
    clients = {mark: server.as_user(mark) for mark in people.marks}
    await run_turn(
        server.as_user("warm-up"),
        str((await server.as_user("warm-up").threads.create())["thread_id"]),
        "Hi.",
    )
    used, step = [resident_megabytes(server.group)], max(4, turns // 10 // 4 * 4)
    began = time.perf_counter()
    for start in range(0, turns, step):
        part = range(start, min(start + step, turns))
        await asyncio.gather(*(people.talk(client, mark, part) for mark, client in clients.items()))
        used.append(resident_megabytes(server.group))
    taken = time.perf_counter() - began
    await people.count_lost(server)
    done = len(people.seconds)
    cuts = statistics.quantiles(people.seconds, n=20, method="inclusive")
    return {
        "turns": done,
        "turns_a_second": round(done / taken, 2),
        "p50_s": round(statistics.median(people.seconds), 2),
        "p95_s": round(cuts[18], 2),
        "errors": people.errors.total(),
        "lost": people.lost,
        "leaks": people.leaks,
        "prompts_scanned": people.prompts,
        "rss_mb": [round(each) for each in used],
        "rss_mb_per_1000_turns": round(
            (used[-1] - used[1]) / max(1, done - done * step / turns) * 1000, 1
        )
        if used[2:]
        else None,
    }


async def turn_times(client: LangGraphClient, turns: int) -> list[float]:
    """Seconds of one person's turns, each in a thread of its own."""
    taken = []
    for _ in range(turns):
        thread = str((await client.threads.create())["thread_id"])
        began = time.perf_counter()
        await run_turn(client, thread, "Hello.")
        taken.append(time.perf_counter() - began)
    return taken


async def beside(server: DevServer, shape: str, turns: int) -> dict[str, Any]:
    """Somebody's turns alone, beside a flood, and alone again."""
    client = server.as_user("somebody-else")
    counts: Any = multiprocessing.get_context("spawn").Array("q", 3)
    alone = await turn_times(client, ALONE_TURNS)
    flooder = multiprocessing.get_context("spawn").Process(
        target=flood, args=(server.url, shape, f"flooder-{shape}", counts), daemon=True
    )
    flooder.start()
    try:
        while not any(counts):
            await asyncio.sleep(0.1)  # the flooder is another process
            if not flooder.is_alive():
                raise RuntimeError(f"the flood {shape!r} ended before it began")
        await asyncio.sleep(SETTLE_SECONDS)
        before, began = list(counts), time.perf_counter()
        flooded = await turn_times(client, turns)
        taken = time.perf_counter() - began
        sent = [after - earlier for after, earlier in zip(counts, before, strict=True)]
    finally:
        flooder.terminate()
        flooder.join()
    await drained(server)
    alone += await turn_times(client, ALONE_TURNS)
    return {
        "ratio": round(statistics.median(flooded) / statistics.median(alone), 2),
        "alone_s": round(statistics.median(alone), 2),
        "flooded_s": round(statistics.median(flooded), 2),
        "worst_s": round(max(flooded), 2),
        **{
            f"{name}_a_second": round(count / taken, 1)
            for name, count in zip(("done", "refused", "other"), sent, strict=True)
        },
    }


async def drained(server: DevServer) -> None:
    """Wait until what a flood has left is done, at most a minute."""
    async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client:
        for _ in range(60):
            metrics = (await client.get("/metrics", params={"format": "json"})).json()
            if not metrics["workers"]["active"]:
                return
            await asyncio.sleep(1)


async def measure(
    server: DevServer, people: People, turns: int, flood_turns: int, shapes: list[str]
) -> dict[str, Any]:
    loaded = await load(server, people, turns)
    print(
        *(f"{name}: {value}" for name, value in loaded.items()),
        *people.errors.most_common(3),
        sep="\n",
        flush=True,
    )
    floods = {}
    for shape in shapes:
        floods[shape] = await beside(server, shape, flood_turns)
        print(
            f"{shape:14}",
            *(f"{name} {value:<7}" for name, value in floods[shape].items()),
            flush=True,
        )
    await server.close_clients()
    return {"load": loaded, "floods": floods}


def main() -> None:
    parser = argparse.ArgumentParser(description="Many people at once, then one who floods.")
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument(
        "--turns",
        type=int,
        default=4,
        help="of each; 40 of 50 people show the server's memory over 2,000",
    )
    parser.add_argument(
        "--flood-turns",
        type=int,
        default=6,
        help="somebody else's, beside each flood; 0 for no floods",
    )
    parser.add_argument("--shapes", nargs="*", default=[*SHAPES], choices=[*SHAPES])
    parser.add_argument(
        "--seconds",
        type=float,
        default=600,
        help="after which it ends as it is; what was found is printed by then",
    )
    asked = parser.parse_args()
    # So that the server, Postgres and a flood end with it, however it is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    people = People(asked.users)
    with ExitStack() as opened:
        model = opened.enter_context(Listener(people))
        env = {
            **model.env,
            "MEMORY_POSTGRES_URI": opened.enter_context(stores.embedded()),
            "CONSOLIDATE_AFTER_SECONDS": "300",  # as by default: what a turn plans is a part of it
            "LOG_LEVEL": "WARNING",  # as `make dev` has it
        }
        server = opened.enter_context(
            DevServer(Path(opened.enter_context(tempfile.TemporaryDirectory())), env, ON_POSTGRES)
        )
        shapes = asked.shapes if asked.flood_turns else []
        measured = measure(server, people, max(1, asked.turns), asked.flood_turns, shapes)
        figures = asyncio.run(asyncio.wait_for(measured, asked.seconds))
    loaded, floods = figures["load"], figures["floods"]
    worst = max((each["ratio"] for each in floods.values()), default=None)
    print(f"goal: 0 errors, 0 lost, 0 leaks, and {GOAL} or less beside every flood; worst: {worst}")
    print(
        json.dumps(
            {"benchmark": "load", "users": asked.users, "goal": GOAL, "worst": worst, **figures}
        )
    )
    if loaded["errors"] or loaded["lost"] or loaded["leaks"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
