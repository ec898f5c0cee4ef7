"""How long somebody's small request waits beside a person who floods: python -m
benchmarks.small_requests

Prints, for each shape of `benchmarks/floods.py`, the longest wait of `GET /memory/me` beside the
flood, that of the seconds before it, and the ratio of the medians. Goal: none waits longer than 1.5
seconds on two cores that do nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.floods import SHAPES, flood
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person

GOAL = 1.5
PAUSE_SECONDS = 0.05


async def waits(url: str, seconds: float) -> list[float]:
    """Seconds that each of these requests took, one after the other."""
    taken = list[float]()
    async with Person(url, "small@example.com", seconds=120) as person:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            await person.made("GET", "/memory/me")
            taken.append(time.monotonic() - began)
            await asyncio.sleep(PAUSE_SECONDS)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Somebody's small request beside a person who floods."
    )
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--shapes", nargs="*", default=[*SHAPES], choices=[*SHAPES])
    arguments = parser.parse_args()
    figures, spawn = dict[str, dict[str, float]](), multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, DevServer(Path(folder)) as server:
        for shape in arguments.shapes:
            alone = asyncio.run(waits(server.url, arguments.seconds / 4))
            counts: Any = spawn.Array("q", 3)
            flooding = spawn.Process(
                target=flood,
                args=(server.url, shape, f"{shape.replace(' ', '-')}@example.com", counts),
            )
            flooding.start()
            beside = asyncio.run(waits(server.url, arguments.seconds))
            flooding.terminate()
            flooding.join()
            medians = [statistics.median(each) for each in (beside, alone)]
            longest = {"longest": round(max(beside), 3), "alone": round(max(alone), 3)}
            figures[shape] = {
                **longest,
                "median ratio": round(medians[0] / medians[1], 2),
                "answers": sum(counts),
            }
            print(
                f"{shape:20}",
                *(f"{name} {value:<8}" for name, value in figures[shape].items()),
                flush=True,
            )
    print(json.dumps({"benchmark": "small_requests", "goal": GOAL, "figures": figures}))


if __name__ == "__main__":
    main()
