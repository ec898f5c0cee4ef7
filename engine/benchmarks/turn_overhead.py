"""A user's turn of `agent` against a bare `create_deep_agent`, both on one `langgraph dev`: python
-m benchmarks.turn_overhead

Goal: 1.02 or less, for the time inside the run, in each of the three judged shapes.

The model is a server on loopback that answers at once, so what is left is the platform and the
graph. A pair is, for each graph in turn: a new thread and a message, a second message in the same
thread, and a message in another new thread that makes the model call `read_file` once. The second
message matters: the bare agent loaded memory and skills for the thread's life, `agent` loads them
afresh in every run.

The client gives these threads their titles. Where it does not, the first run of `agent` does, with
two requests within its process; the bare agent names nothing. What that costs is a fourth shape,
which is printed and not judged.

What a client sees of a turn (`runs.wait`) hides any difference: the in-memory queue is polled every
half second, takes only runs created before its last look (langgraph_runtime_inmem/queue.py and
`Runs.next`), and a client that sends its next message as soon as it has an answer is always served
at the next tick. That ratio is near 1 for any agent, so it is printed and not judged. Judged is the
time inside the run: `run_ended_at - run_started_at` of the worker's own log line, in microseconds,
which is everything the graph does with its model calls, checkpoints and store. Between the two,
"turn without queue" is the whole turn minus the wait the worker logged: with HTTP, auth and the
creation of the run. The model's time is in all of them, a few milliseconds a call; with a real
model the ratios are nearer to 1.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from deepagents.backends.utils import create_file_data
from langgraph_sdk.client import LangGraphClient

from benchmarks import HERE
from benchmarks.pairs import Pairs, print_table
from benchmarks.stored import ORG, stored_files
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    ToolCall,
    system_text,
    tool_results,
)

GOAL = 1.02
USER = "bench"
WARM_UP_PAIRS = 3
JUDGED = ("new thread", "same thread", "one tool call")
UNTITLED = "new thread without a title"
SHAPES = (*JUDGED, UNTITLED)
READ = ToolCall("read_file", {"file_path": "/memories/preferences.md"})


@dataclass
class Turn:
    """One turn as the client saw it: seconds, and the id by which the worker logged it."""

    seconds: float
    run_id: str


Times = dict[str, tuple[float, float]]
CLOCKS: dict[str, Callable[[Turn, Times], float]] = {
    "inside the run": lambda turn, times: times[turn.run_id][1],
    "turn without queue": lambda turn, times: turn.seconds - times[turn.run_id][0],
    "whole turn": lambda turn, _: turn.seconds,
}


async def timed_turn(client: LangGraphClient, thread: str, graph: str, text: str) -> Turn:
    run_ids: list[str] = []
    start = time.perf_counter()
    await run_turn(
        client, thread, text, graph, on_run_created=lambda run: run_ids.append(run["run_id"])
    )
    return Turn(time.perf_counter() - start, run_ids[0])


async def turns(client: LangGraphClient, model: ScriptedAnthropic, graph: str) -> dict[str, Turn]:
    """A turn of every shape."""
    titled = [await client.threads.create(metadata={"title": "Hello"}) for _ in range(2)]
    untitled = await client.threads.create()
    first, second = [thread["thread_id"] for thread in titled]
    new_thread, same_thread, one_tool_call = JUDGED
    taken = dict[str, Turn]()
    taken[new_thread] = await timed_turn(client, first, graph, "Hello.")
    taken[same_thread] = await timed_turn(client, first, graph, "Hello.")
    model.script("What do I prefer?", [READ])
    taken[one_tool_call] = await timed_turn(client, second, graph, "What do I prefer?")
    taken[UNTITLED] = await timed_turn(client, untitled["thread_id"], graph, "Hello.")
    return taken


async def measure(
    server: DevServer, model: ScriptedAnthropic, pairs: int
) -> list[dict[str, dict[str, Turn]]]:
    """The turns of each graph, pair by pair; the graph that begins alternates."""
    operator, client = server.as_operator(), server.as_user(USER, ORG)
    for namespace, key, text in stored_files(USER):
        await operator.store.put_item(namespace, key, dict(create_file_data(text)), index=False)
    measured = []
    for pair in range(-WARM_UP_PAIRS, pairs):
        graphs = ("agent", "bare_agent") if pair % 2 else ("bare_agent", "agent")
        taken = {graph: await turns(client, model, graph) for graph in graphs}
        if pair >= 0:
            measured.append(taken)
    await server.close_clients()
    return measured


def request_bytes(model: ScriptedAnthropic, pairs: int) -> dict[str, int]:
    """Bytes of the largest request of each graph, once it is sure that both were shown the same
    memory and did the same.

    Raises:
        RuntimeError: they were not, so the times compare nothing.
    """
    ours = [
        body
        for body in model.requests
        if any(tool["name"] == "append_memory" for tool in body["tools"])
    ]
    theirs = [body for body in model.requests if body not in ours]
    for graph, bodies in (("agent", ours), ("bare_agent", theirs)):
        read = sum("Metric units" in "".join(tool_results(body)) for body in bodies)
        knew = sum(
            "Metric units" in system_text(body) and "summaries" in system_text(body)
            for body in bodies
        )
        calls = (len(SHAPES) + 1) * pairs  # one more, after the tool's call
        if (len(bodies), knew, read) != (calls, calls, pairs):
            raise RuntimeError(
                f"{graph}: {len(bodies)} requests, {knew} with memory and skills, {read} after a read"
            )
    return {
        "project": max(len(json.dumps(body)) for body in ours),
        "bare": max(len(json.dumps(body)) for body in theirs),
    }


def worker_times(log: str) -> Times:
    """Seconds in the queue and in the worker, by run id, from the server's JSON log."""
    times = {}
    for line in log.splitlines():
        entry: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
        if entry.get("event") == "Background run succeeded":
            created, started, ended = (
                datetime.fromisoformat(entry[name])
                for name in ("run_created_at", "run_started_at", "run_ended_at")
            )
            times[entry["run_id"]] = (
                (started - created).total_seconds(),
                (ended - started).total_seconds(),
            )
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Turn overhead of `agent` over a bare deep agent, on one server."
    )
    parser.add_argument(
        "--turns", type=int, default=20, help="pairs of each shape; one takes about eight seconds"
    )
    wanted = max(2, parser.parse_args().turns)
    with ScriptedAnthropic() as model, tempfile.TemporaryDirectory() as folder:
        env = {
            **model.env,
            "CONSOLIDATE_AFTER_SECONDS": "300",  # as by default: what a turn plans is a part of it
            "LOG_JSON": "true",
        }
        config = {"graphs": {"bare_agent": f"{HERE}/bare_agent.py:bare_agent"}}
        with DevServer(Path(folder), env, config) as server:
            measured = asyncio.run(measure(server, model, wanted))
        times = worker_times(server.log)
        sent = request_bytes(model, wanted + WARM_UP_PAIRS)
    table = [Pairs(f"{shape}: {clock}") for clock in CLOCKS for shape in SHAPES]
    for taken, pairs in itertools.product(measured, table):
        shape, clock = pairs.name.split(": ")
        pairs.ours.append(CLOCKS[clock](taken["agent"][shape], times))
        pairs.theirs.append(CLOCKS[clock](taken["bare_agent"][shape], times))
    print_table(table)
    judged = {f"{shape}: inside the run" for shape in JUDGED}
    worst = max(pairs.summary()["ratio"] for pairs in table if pairs.name in judged)
    print(f"largest request to the model: {sent['project']:,} bytes, bare {sent['bare']:,}")
    print(f"goal inside the run: {GOAL} or less; worst shape: {worst:.2f}")
    results = {pairs.name: pairs.summary() for pairs in table}
    report = {"pairs": wanted, "goal": GOAL, "worst": worst, "bytes": sent, "results": results}
    print(json.dumps({"benchmark": "turn_overhead", **report}))


if __name__ == "__main__":
    main()
