"""What planning a consolidation adds to a user's turn: python -m
benchmarks.consolidation.idle_trigger

Goal: 1.05 or less, inside the run and for the turn without the queue.

Both graphs are the project's agent, on one `langgraph dev`, the one with the trigger and the other
without. The model is a server on loopback that answers at once: with a real model the ratios are
nearer to 1. A pair is a turn of each in a thread of its own, all of one person's, so that each turn
but the first replaces the run that the one before has planned. The clocks are those of
benchmarks/turn_overhead.py. The trigger works after the run it belongs to, in the background, so a
third clock says what it takes from the next: "two at once" is the time for two turns of two people
sent at the same moment, for the later of the two to end inside its run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from langgraph_sdk.client import LangGraphClient

from benchmarks import HERE
from benchmarks.pairs import Pairs, print_table
from benchmarks.turn_overhead import CLOCKS, Turn, timed_turn, worker_times
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic

GOAL = 1.05
WARM_UP_PAIRS = 5
GRAPHS = ("agent", "agent_without_trigger")
JUDGED = ("inside the run", "turn without queue")
TOGETHER = "two at once"


async def turn(client: LangGraphClient, graph: str) -> Turn:
    return await timed_turn(client, (await client.threads.create())["thread_id"], graph, "Hello.")


async def measure(server: DevServer, pairs: int) -> list[dict[str, list[Turn]]]:
    """Of each graph one turn alone and two at once, pair by pair; the graph that begins alternates."""
    people = [server.as_user(f"bench-{number}") for number in range(2)]
    measured = []
    for pair in range(-WARM_UP_PAIRS, pairs):
        taken: dict[str, list[Turn]] = {}
        for graph in GRAPHS[:: 1 if pair % 2 else -1]:
            taken[graph] = [
                await turn(people[0], graph),
                *await asyncio.gather(*(turn(each, graph) for each in people)),
            ]
        if pair >= 0:
            measured.append(taken)
    await check(people[0], (pairs + WARM_UP_PAIRS) * 2)
    await server.close_clients()
    return measured


async def check(client: LangGraphClient, turns: int) -> None:
    """Raises RuntimeError unless the turns with the trigger, and only they, planned one run, again
    and again.
    """
    (thread,) = await client.threads.search(metadata={"graph_id": "consolidation_agent"})
    runs: list[Any] = await client.runs.list(thread["thread_id"])
    if [run["status"] for run in runs] != ["pending"]:
        raise RuntimeError(f"after {turns} turns there is not one pending run: {runs}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A turn with the idle trigger over a turn without, on one server."
    )
    parser.add_argument("--turns", type=int, default=60, help="pairs; one takes about four seconds")
    wanted = max(2, parser.parse_args().turns)
    with ScriptedAnthropic() as model, tempfile.TemporaryDirectory() as folder:
        env = {
            **model.env,
            "CONSOLIDATE_AFTER_SECONDS": "86400",
            "LOG_JSON": "true",
        }
        config = {"graphs": {GRAPHS[1]: f"{HERE}/consolidation/{GRAPHS[1]}.py:{GRAPHS[1]}"}}
        with DevServer(Path(folder), env, config) as server:
            measured = asyncio.run(measure(server, wanted))
        times = worker_times(server.log)
    table = [Pairs(clock) for clock in (*CLOCKS, TOGETHER)]
    for taken in measured:
        for pairs in table:
            for graph, seconds in zip(GRAPHS, (pairs.ours, pairs.theirs), strict=True):
                alone, *together = taken[graph]
                clock = CLOCKS.get(pairs.name)
                seconds.append(
                    clock(alone, times)
                    if clock
                    else max(times[each.run_id][1] for each in together)
                )
    print_table(table, "with ms", "without ms")
    worst = max(pairs.summary()["ratio"] for pairs in table if pairs.name in JUDGED)
    print(f"goal for {' and '.join(JUDGED)}: {GOAL} or less; worst: {worst:.2f}")
    results = {pairs.name: pairs.summary() for pairs in table}
    print(
        json.dumps(
            {
                "benchmark": "idle_trigger",
                "pairs": wanted,
                "goal": GOAL,
                "worst": worst,
                "results": results,
            }
        )
    )


if __name__ == "__main__":
    main()
