"""A turn and a search on aegra over the same on the development server: python -m benchmarks.aegra

Both serve the template with the same scripted model on this machine: `langgraph dev` in memory, and
aegra with two processes, Postgres and Redis. They are asked in turns. Prints the median seconds of
each and their ratios. It needs what `make dev-aegra` needs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from lasting_memory.dev import aegra_environment
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from lasting_memory.testing.stores import embedded, hurry

CONVERSATIONS = 20
NAME = "ada@example.com"


async def prepare(person: Person) -> None:
    """Conversations that a search can find."""
    for number in range(CONVERSATIONS):
        await person.say(f"The wombat number {number} is called Bruno.")


async def turn_seconds(person: Person) -> float:
    """How long a turn takes in a new conversation."""
    thread = await person.thread()
    began = time.monotonic()
    await person.turn(thread, "hello")
    return time.monotonic() - began


async def search_seconds(person: Person) -> float:
    """How long a search of past conversations takes."""
    began = time.monotonic()
    await person.made("GET", "/memory/search?q=wombat")
    return time.monotonic() - began


async def measured(urls: dict[str, str], times: int) -> dict[str, dict[str, float]]:
    """The median seconds of a turn and of a search, by the server's name."""
    seconds: dict[str, dict[str, list[float]]] = {name: {"turn": [], "search": []} for name in urls}
    people = {name: Person(url, NAME, seconds=300) for name, url in urls.items()}
    for person in people.values():
        await prepare(person)
        await person.idle()
    for _ in range(times):
        for name, person in people.items():
            seconds[name]["turn"].append(await turn_seconds(person))
            seconds[name]["search"].append(await search_seconds(person))
    for person in people.values():
        await person.raw.aclose()
    medians = dict[str, dict[str, float]]()
    for name, taken in seconds.items():
        medians[name] = {what: statistics.median(values) for what, values in taken.items()}
    return medians


def main() -> None:
    # The development server's process imports this module, too, and must not read settings before it
    # knows what it is.
    from tests.aegra.servers import AegraServer  # noqa: PLC0415
    from tests.conftest import free_port  # noqa: PLC0415

    parser = argparse.ArgumentParser(description="aegra over the development server.")
    parser.add_argument("--times", type=int, default=30)
    arguments = parser.parse_args()
    root = Path(__file__).parents[2]
    python = aegra_environment.python_of_aegra(root)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = stack.enter_context(ScriptedAnthropic())
        database = stack.enter_context(embedded())
        hurry(database)
        redis = stack.enter_context(aegra_environment.redis({}))
        env = {
            **model.env,
            "AGENT_MODEL": "anthropic:claude-sonnet-4-6",
            "CONSOLIDATE_AFTER_SECONDS": "0",
        }
        dev = stack.enter_context(DevServer(folder, env=env))
        servers = [
            AegraServer(python, folder, free_port(), database=database, redis=redis, env=env)
            for _ in range(2)
        ]
        servers[0].make_tables()
        for server in servers:
            stack.enter_context(server)
        urls = {"dev": dev.url, "aegra": servers[0].url}
        medians = asyncio.run(measured(urls, arguments.times))
    ratios = {
        what: round(medians["aegra"][what] / medians["dev"][what], 2) for what in ("turn", "search")
    }
    for name, taken in medians.items():
        print(f"{name:8}", *(f"{what} {seconds:.3f} s  " for what, seconds in taken.items()))
    print(json.dumps({"benchmark": "aegra", "aegra over dev": ratios}))


if __name__ == "__main__":
    main()
