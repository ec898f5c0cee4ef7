"""What the nightly sweep costs, by how many people there are and how many were active: python -m
benchmarks.consolidation.sweep

Goals: its requests and its time follow who is active. 100,000 people with 1% active cost 1.5 times
or less what 1,000 people cost who are all active; and 1% of 10,000 a tenth or less of all of them.

Everybody has CONVERSATIONS conversations, all of them consolidated; an active person's newest has
changed since the last sweep. The platform is testing/platform.py, which answers a search with the
page it was asked for: measured is what the sweep itself does and asks for, not how fast a database
finds a page. A repetition takes the sizes in turn, so that each meets the same weather; memory is
the largest that Python allocated during a sweep, in one more that is not timed, over what was there
before, the fake's own new runs included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
import tracemalloc
from dataclasses import dataclass, field
from datetime import timedelta

from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from lasting_memory.consolidation import sweep
from lasting_memory.people import identity, namespaces
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform

CONVERSATIONS = 3
SIZES = [(people, share) for people in (100, 1_000, 10_000) for share in (0.01, 1.0)] + [
    (100_000, 0.01)
]
# Two sizes, and how many times the second's time the first's may be.
GOALS = [((100_000, 0.01), (1_000, 1.0), 1.5), ((10_000, 0.01), (10_000, 1.0), 0.1)]
_BATCH = 10_000


@dataclass
class Measured:
    """Seconds of each sweep, requests of one, and the bytes one needs."""

    seconds: list[float] = field(default_factory=list)
    requests: int = 0
    peak: int = 0


async def prepare(people: int) -> tuple[Platform, InMemoryStore]:
    """A deployment in which everything is consolidated and a sweep has been."""
    platform, store = Platform(), InMemoryStore()
    platform.now -= timedelta(days=30)
    for number in range(people):
        for _ in range(CONVERSATIONS):
            platform.talk(f"user-{number}")
    ops = [
        PutOp(
            namespaces.positions(identity.Actor(thread["metadata"]["user_id"], "acme")),
            thread["thread_id"],
            {"updated_at": thread["updated_at"]},
        )
        for thread in platform.kept.values()
    ]
    for first in range(0, len(ops), _BATCH):
        await store.abatch(ops[first : first + _BATCH])
    return platform, store


async def night(
    platform: Platform, store: InMemoryStore, people: int, share: float, measured: Measured
) -> None:
    """Some people talk, then everybody sleeps and the sweep comes."""
    active = int(people * share)
    one_each = {
        thread["metadata"]["user_id"]: thread["thread_id"] for thread in platform.kept.values()
    }
    platform.now += timedelta(days=1)
    for number in range(active):
        platform.talk(f"user-{number}", thread_id=one_each[f"user-{number}"])
    platform.runs.kept.clear()
    await store.aput(
        *namespaces.LAST_SWEEP, {"began": (platform.now - timedelta(hours=12)).isoformat()}
    )
    await platform.threads.search(metadata={"graph_id": "agent"}, limit=1)  # the fake sorts now
    platform.calls.clear()
    begun = time.perf_counter()
    started = await sweep(deployed(), platform, store)  # type: ignore[arg-type]
    measured.seconds.append(time.perf_counter() - begun)
    measured.requests = sum(platform.calls.values())
    if started != active:
        raise RuntimeError(
            f"{active} of {people} people were active and {started} runs were created"
        )
    for number in range(active):  # until the next night they are consolidated
        thread = platform.kept[one_each[f"user-{number}"]]
        place = namespaces.positions(identity.Actor(f"user-{number}", "acme"))
        await store.aput(place, thread["thread_id"], {"updated_at": thread["updated_at"]})


async def measure(repetitions: int) -> dict[tuple[int, float], Measured]:
    worlds = {people: await prepare(people) for people in sorted({people for people, _ in SIZES})}
    by_size = {size: Measured() for size in SIZES}
    for _ in range(repetitions):
        for (people, share), measured in by_size.items():
            await night(*worlds[people], people, share, measured)
    for (people, share), measured in by_size.items():
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        await night(*worlds[people], people, share, Measured())
        measured.peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
    return by_size


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Time, requests and memory of the sweep, by people and share of active ones."
    )
    parser.add_argument("--repetitions", type=int, default=5)
    by_size = asyncio.run(measure(max(1, parser.parse_args().repetitions)))
    print(
        f"{'people':>8} {'active':>8} {'seconds':>9} {'ms a run':>9} {'requests':>9} {'peak MB':>8}"
    )
    results = []
    for (people, share), measured in by_size.items():
        seconds, active = statistics.median(measured.seconds), int(people * share)
        megabytes = measured.peak / 1_048_576
        each = 1_000 * seconds / active
        print(
            f"{people:8,} {active:8,} {seconds:9.4f} {each:9.2f} {measured.requests:9,} {megabytes:8.2f}"
        )
        results.append(
            {
                "people": people,
                "active": active,
                "seconds": seconds,
                "requests": measured.requests,
                "peak_mb": megabytes,
            }
        )
    ratios = []
    for first, second, goal in GOALS:
        one, other = by_size[first], by_size[second]
        ratio = statistics.median(a / b for a, b in zip(one.seconds, other.seconds, strict=True))
        ratios.append({"first": first, "second": second, "ratio": round(ratio, 3), "goal": goal})
        print(
            f"{first[0]:,} people with {first[1]:.0%} active over {second[0]:,} with {second[1]:.0%}: {ratio:.2f}, goal {goal}"
        )
    print(json.dumps({"benchmark": "sweep", "results": results, "ratios": ratios}))


if __name__ == "__main__":
    main()
