"""What the journal costs on an embedded Postgres: python -m benchmarks.journal

An edit that meets nobody, and a read, against the same of deepagents' plain `StoreBackend` in one
run, pair by pair. Then 8 processes that edit one file as fast as they can: seconds a write, store
calls a write, and writes a second of all together. The plain backend would be faster there, and
lose most of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import time
from typing import Any

from deepagents.backends import StoreBackend
from langgraph.store.base import BaseStore

from benchmarks.pairs import Pairs, print_table
from lasting_memory.agent.scoped_files import ScopedFiles
from lasting_memory.people.identity import Author
from lasting_memory.testing import stores
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.stores import WrappedStore

WARM_UP_PAIRS = 20
WRITERS = 8
TEXT = "# Preferences\n\n" + "- Something she said.\n" * 100 + "\nnumber 0\n"
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["benchmarks.journal"])


def plain(store: BaseStore, user: str) -> StoreBackend:
    return StoreBackend(namespace=lambda _: ("memories", f"bench:{user}"), store=store)


def ours(store: BaseStore, user: str) -> ScopedFiles:
    place = ("memories", f"bench:{user}")
    return ScopedFiles(
        deployed(), lambda _: place, route="/memories", author=Author("agent"), store=store
    )


async def alone(uri: str, wanted: int) -> list[Pairs]:
    """Seconds of an edit and of a read, of a person with one file and of one with a hundred."""
    measured = []
    async with stores.opened(uri) as store:
        for files in (1, 100):
            edits, reads = Pairs(f"edit, {files} files"), Pairs(f"read, {files} files")
            backends = {
                edits_of: build(store, f"{build.__name__}{files}")
                for edits_of, build in (("ours", ours), ("theirs", plain))
            }
            for backend in backends.values():
                for number in range(files):
                    await backend.awrite(f"/{number}.md", TEXT)
            for pair in range(-WARM_UP_PAIRS, wanted):
                for whose in ("ours", "theirs") if pair % 2 else ("theirs", "ours"):
                    number, backend = pair + WARM_UP_PAIRS, backends[whose]
                    begun = time.perf_counter()
                    edited = await backend.aedit(
                        "/0.md", f"number {number}\n", f"number {number + 1}\n"
                    )
                    middle = time.perf_counter()
                    await backend.aread("/0.md")
                    if edited.error:
                        raise RuntimeError(edited.error)
                    if pair >= 0:
                        getattr(edits, whose).append(middle - begun)
                        getattr(reads, whose).append(time.perf_counter() - middle)
            measured += [edits, reads]
    return measured


def contend(uri: str, writes: int, go: Any, results: Any) -> None:
    """One process: its seconds a write, and the store calls of all."""

    async def run() -> tuple[list[float], int, int]:
        seconds, refused = [], 0
        async with stores.opened(uri) as store:
            calls = list[Any]()
            watched = WrappedStore(store, before=calls.append)
            files = ours(watched, "together")
            await watched.aget(("memories",), "/connect")
            await asyncio.to_thread(go.wait)
            calls.clear()
            for _ in range(writes):
                begun = time.perf_counter()
                refused += await files.achange("/a.md", lambda text: f"{text}line\n") is not None
                seconds.append(time.perf_counter() - begun)
        return seconds, len(calls), refused

    results.put(asyncio.run(run()))


def together(uri: str, writes: int) -> dict[str, float]:
    """8 processes, one file."""
    go, results = PROCESSES.Barrier(WRITERS + 1), PROCESSES.Queue()
    processes = [
        PROCESSES.Process(target=contend, args=(uri, writes, go, results)) for _ in range(WRITERS)
    ]
    for process in processes:
        process.start()
    go.wait()
    begun = time.perf_counter()
    measured = [results.get() for _ in processes]
    took = time.perf_counter() - begun
    for process in processes:
        process.join()
    seconds = sorted(second for each, *_ in measured for second in each)
    return {
        "writes": len(seconds),
        "refused": sum(refused for *_, refused in measured),
        "writes_per_second": round(len(seconds) / took, 1),
        "calls_per_write": round(sum(calls for _, calls, _ in measured) / len(seconds), 1),
        "median_ms": round(statistics.median(seconds) * 1000, 1),
        "p90_ms": round(seconds[len(seconds) * 9 // 10] * 1000, 1),
        "p99_ms": round(seconds[len(seconds) * 99 // 100] * 1000, 1),
        "max_ms": round(seconds[-1] * 1000, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The journal's cost on an embedded Postgres.")
    parser.add_argument("--pairs", type=int, default=200, help="pairs of each case")
    parser.add_argument("--writes", type=int, default=50, help="writes of each of the 8 processes")
    wanted = parser.parse_args()
    with stores.embedded() as uri:
        measured = asyncio.run(alone(uri, max(2, wanted.pairs)))
        contended = together(uri, wanted.writes)
    print_table(measured, "journal ms", "plain ms")
    print(f"{WRITERS} processes, one file: {contended}")
    results = {pairs.name: pairs.summary() for pairs in measured}
    print(
        json.dumps(
            {
                "benchmark": "journal",
                "pairs": wanted.pairs,
                "results": results,
                "contended": contended,
            }
        )
    )


if __name__ == "__main__":
    main()
