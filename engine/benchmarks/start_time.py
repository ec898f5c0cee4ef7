"""From the start of the process to 200 at /ok, against a server with a trivial graph: python -m
benchmarks.start_time

Goal: 1.5 or less.

Servers are `langgraph dev` in a new folder with the same options, started and stopped in turns, in
changing order; a first round, which fills the file cache and writes the bytecode, is not counted.
The trivial server has no auth and a graph of one node that does nothing, under both of the
project's graph ids (the second costs it well under a millisecond). The project is started twice:
with AGENT_MODEL unset, as `make dev` first starts it, and with an Anthropic model. A third of what
the latter needs is the import of Anthropic's SDK, which every server with such a model pays, so the
bare deep agent with the same model is started too: what the project needs over that is its own. A
server is a process of its own, as people start it. (Tests fork theirs from one that has imported
what takes longest.) /ok is asked every 0.02 s, which is the resolution of a single start.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import HERE
from benchmarks.pairs import Pairs, print_table
from lasting_memory.testing.dev_server import DevServer

GOAL = 1.5


def only(graph: str) -> dict[str, object]:
    """A configuration of one graph without auth."""
    return {"graphs": {"agent": graph, "consolidation_agent": graph}, "auth": None}


ANTHROPIC = {"AGENT_MODEL": "anthropic:claude-sonnet-4-6", "ANTHROPIC_API_KEY": "test"}
# Environment and configuration of each server.
SERVERS: dict[str, tuple[dict[str, str], dict[str, object]]] = {
    "project": ({"AGENT_MODEL": ""}, {}),
    "project, anthropic": (ANTHROPIC, {}),
    "bare, anthropic": (ANTHROPIC, only(f"{HERE}/bare_agent.py:bare_agent")),
    "trivial": ({"AGENT_MODEL": ""}, only(f"{HERE}/trivial_graph.py:graph")),
}
COMPARED = [
    ("project", "trivial"),
    ("project, anthropic", "trivial"),
    ("bare, anthropic", "trivial"),
    ("project, anthropic", "bare, anthropic"),
]


def start_seconds(name: str) -> float:
    """Seconds until a new server of this kind answers; it is stopped again."""
    with tempfile.TemporaryDirectory() as folder:
        server = DevServer(Path(folder), *SERVERS[name])
        command, env = server.command()
        env["PYTHONPATH"] += f"{os.pathsep}{HERE.parent}"  # of the bare agent
        log, begun = Path(folder) / "server.log", time.perf_counter()
        with (
            log.open("wb") as output,
            subprocess.Popen(  # noqa: S603  # this project's own server
                [sys.executable, "-m", "langgraph_cli", *command],
                cwd=folder,
                env=env,
                stdout=output,
                stderr=output,
            ) as process,
        ):
            while process.poll() is None and not server.answers():
                time.sleep(0.02)
            seconds, ended = time.perf_counter() - begun, process.poll()
            process.send_signal(signal.SIGINT)
        if ended is not None:
            raise RuntimeError(
                f"The server {name!r} exited with {ended}:\n{log.read_text('utf-8')[-2_000:]}"
            )
        return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Time to /ok of the project over a server with a trivial graph."
    )
    parser.add_argument(
        "--runs", type=int, default=10, help="starts of each; a round takes about twenty seconds"
    )
    wanted = max(2, parser.parse_args().runs)
    taken: dict[str, list[float]] = {name: [] for name in SERVERS}
    for round_ in range(-1, wanted):
        for name in list(SERVERS)[:: 1 if round_ % 2 else -1]:
            seconds = start_seconds(name)
            if round_ >= 0:
                taken[name].append(seconds)
    table = [
        Pairs(f"{first} : {second}", taken[first], taken[second]) for first, second in COMPARED
    ]
    print_table(table, "first ms", "second ms")
    results = {pairs.name: pairs.summary() for pairs in table}
    print(f"goal for the first two: {GOAL} or less")
    print(
        json.dumps({"benchmark": "start_time", "rounds": wanted, "goal": GOAL, "results": results})
    )


if __name__ == "__main__":
    main()
