"""What a search of past conversations costs as they become many: python -m benchmarks.recall_scale

    --threads 10,100,1000,10000    numbers of conversations, of 20 turns each
    --plot FILE                    where the plot goes (default: benchmarks/plots/recall_scale.svg)

On the in-memory store and on embedded Postgres, in turns within one run: the search that the tool
calls; the published recipe (the five newest threads and the history of each); and this project's
first form, which read up to 1,000 threads at every question. The platform's threads are played by
this process, and what they hand out goes through JSON as it does over HTTP: less than a real server
needs, so that what reads many threads looks better here than it is.

Goals: at 10,000 conversations at most 4 times the time of 100; at 1,000 at least 10 times faster
than reading the threads. What the update for one conversation costs at each number is printed, too:
it grows, because parts are merged.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import random
import statistics
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

from langgraph.store.base import BaseStore, Item, Op, Result
from langgraph.store.memory import InMemoryStore

from lasting_memory import recall
from lasting_memory.people import identity
from lasting_memory.recall import conversation, owned_by, rank, results_text, search
from lasting_memory.recall.index import index_conversations
from lasting_memory.testing import stores
from lasting_memory.testing.platform import Platform

AGENTS = ("agent",)
ACTOR = identity.Actor("alice", "acme")
TURNS, WORDS_A_TURN, VOCABULARY = 20, 25, 20_000
# Enough for a p95 that is not the maximum.
QUESTIONS, SLOW_QUESTIONS, UPDATES = 40, 5, 128
PLOT = Path(__file__).parent / "plots" / "recall_scale.svg"
START = datetime(2020, 1, 1, tzinfo=UTC)
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]


class Counted(BaseStore):
    """A store that counts what is read from it, in bytes of JSON."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store
        self.read = 0

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._store.batch(ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        results = await self._store.abatch(ops)
        for result in results:
            items: list[Any] = result if isinstance(result, list) else [result]
            self.read += sum(
                len(json.dumps(item.value)) for item in items if isinstance(item, Item)
            )
        return results


class Speech:
    """Made-up conversations: words as frequent as words are (Zipf), and some that are a
    conversation's own subject.
    """

    def __init__(self) -> None:
        self._random = random.Random(7)  # noqa: S311  # the same in every run
        self._words = ["".join(self._random.choices(_SYLLABLES, k=3)) for _ in range(VOCABULARY)]
        self._weights = [1 / (rank + 10) for rank in range(VOCABULARY)]

    def messages(self) -> list[dict[str, Any]]:
        """A conversation of 20 turns."""
        subject = self._random.choices(self._words, k=8)
        turns = [
            " ".join(
                [
                    *self._random.choices(self._words, self._weights, k=WORDS_A_TURN - 5),
                    *self._random.choices(subject, k=5),
                ]
            )
            for _ in range(TURNS)
        ]
        return [
            {"type": "ai" if n % 2 else "human", "id": str(n), "content": text}
            for n, text in enumerate(turns)
        ]

    def question(self, messages: list[dict[str, Any]]) -> str:
        """Six words of one turn."""
        return " ".join(self._random.sample(self._random.choice(messages)["content"].split(), 6))


def thread_id(number: int) -> str:
    """Of the conversation with this number."""
    return str(UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128))


def fill(threads: Platform, speech: Speech, count: int) -> None:
    """As many conversations as wanted, one an hour."""
    for number in range(len(threads.kept), count):
        threads.put(
            ACTOR,
            thread_id(number),
            (START + timedelta(hours=number)).isoformat(),
            speech.messages(),
        )


async def the_recipe(threads: Platform, question: str) -> str:
    """The newest five, whole, and the ten last states of each."""
    listed = await threads.search(metadata=owned_by(ACTOR, AGENTS)[0], limit=5)
    states = []
    for thread in listed:
        messages = (thread["values"] or {})["messages"]
        states += json.loads(
            json.dumps([{"values": {"messages": messages[: len(messages) - n]}} for n in range(10)])
        )
    return str(states)


async def first_form(threads: Platform, question: str) -> str:
    """Every thread read at every question, windows of turns ranked by BM25."""
    listed = await threads.search(
        metadata=owned_by(ACTOR, AGENTS)[0],
        limit=1_000,
        select=["thread_id", "updated_at", "values"],
    )
    talks = [conversation(thread) for thread in listed]
    windows = [
        (talk, " ".join(turn.text for turn in talk.turns[max(0, place - 2) : place + 2]))
        for talk in talks
        for place in range(len(talk.turns))
    ]
    ranked = await asyncio.to_thread(rank, question, [text for _, text in windows])
    return str([windows[index][0].thread_id for index, _ in ranked[:5]])


async def timed(ask: Callable[[str], Awaitable[object]], questions: list[str]) -> list[float]:
    """Milliseconds of each question."""
    milliseconds = []
    for question in questions:
        start = time.perf_counter()
        await ask(question)
        milliseconds.append(1_000 * (time.perf_counter() - start))
    return milliseconds


def quantile95(values: list[float]) -> float:
    """The value that 95 of 100 are below."""
    return sorted(values)[int(0.95 * (len(values) - 1))]


async def measure(name: str, raw: BaseStore, counts: list[int]) -> list[dict[str, Any]]:
    """A row for each number of conversations."""
    store, threads, speech, rows = Counted(raw), Platform(), Speech(), []
    threads.as_json = True
    for count in counts:
        fill(threads, speech, count)
        start = time.perf_counter()
        await recall.catch_up(store, threads, ACTOR, agents=AGENTS)
        built = time.perf_counter() - start
        texts = random.Random(count).choices(  # noqa: S311
            [thread["values"]["messages"] for thread in threads.kept.values()], k=QUESTIONS
        )
        questions = [speech.question(messages) for messages in texts]

        async def ask(question: str) -> str:
            return results_text(
                question, await search(store, threads, ACTOR, question, 5, agents=AGENTS)
            )

        await timed(ask, questions[:3])
        store.read = 0
        ours = await timed(ask, questions)
        read = store.read / len(questions)
        tracemalloc.start()
        await ask(questions[0])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        recipe = await timed(lambda question: the_recipe(threads, question), questions[:10])
        before = await timed(
            lambda question: first_form(threads, question), questions[:SLOW_QUESTIONS]
        )
        updates = []
        # Conversations that are there already, said again: as many as make the merges of two
        # segments.
        for number in random.Random(1).choices(range(count), k=UPDATES):  # noqa: S311
            talk = conversation(threads.kept[thread_id(number)])
            start = time.perf_counter()
            await index_conversations(store, ACTOR, [talk])
            updates.append(1_000 * (time.perf_counter() - start))
        rows.append(
            {
                "store": name,
                "threads": count,
                "search_ms": round(statistics.median(ours), 1),
                "search_p95_ms": round(quantile95(ours), 1),
                "read_kb": round(read / 1_000, 1),
                "peak_mb": round(peak / 1e6, 2),
                "update_ms": round(statistics.median(updates), 2),
                "update_mean_ms": round(statistics.mean(updates), 2),
                "recipe_ms": round(statistics.median(recipe), 1),
                "first_form_ms": round(statistics.median(before), 1),
                "faster_than_first_form": round(
                    statistics.median(before) / statistics.median(ours), 2
                ),
                "over_recipe": round(statistics.median(ours) / statistics.median(recipe), 2),
                "built_s": round(built, 1),
            }
        )
        print_row(rows[-1])
    return rows


COLUMNS = {
    "store": "store", "threads": "threads", "search_ms": "search ms", "search_p95_ms": "p95", "read_kb": "read kB",
    "peak_mb": "peak MB", "update_ms": "update ms", "update_mean_ms": "mean", "recipe_ms": "recipe ms",
    "first_form_ms": "first form ms", "faster_than_first_form": "times faster",
}  # fmt: skip


def print_row(row: dict[str, Any]) -> None:
    """A line of the table."""
    print(
        " ".join(f"{row[key]!s:>{max(8, len(title))}}" for key, title in COLUMNS.items()),
        flush=True,
    )


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Both curves: time of a search, and of the update for one conversation, by number of
    conversations.
    """
    import matplotlib as mpl  # noqa: PLC0415  # of the dev extra

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    # Text as text and no random ids: the same figures make the same file.
    plt.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "recall",
            "font.size": 9,
            "axes.grid": True,
            "grid.alpha": 0.3,
        }
    )
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name in dict.fromkeys(row["store"] for row in rows):
        mine = [row for row in rows if row["store"] == name]
        counts = [row["threads"] for row in mine]
        left.plot(counts, [row["search_ms"] for row in mine], marker="o", label=f"search, {name}")
        right.plot(
            counts, [row["update_mean_ms"] for row in mine], marker="o", label=f"update, {name}"
        )
    counts = [row["threads"] for row in mine]
    left.plot(
        counts,
        [row["first_form_ms"] for row in mine],
        "--",
        color="gray",
        label="reading the threads (at most 1,000)",
    )
    left.plot(
        counts,
        [row["recipe_ms"] for row in mine],
        ":",
        color="gray",
        label="recipe: the newest five",
    )
    for axes in (left, right):
        axes.set(xscale="log", xlabel="past conversations", ylabel="milliseconds")
    # Room for the legend above the slowest.
    left.set(yscale="log", ylim=(1, 20 * max(row["first_form_ms"] for row in rows)))
    right.set(ylim=(0, None))
    for axes in (left, right):
        axes.legend(fontsize=7.5)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    path.write_text(
        "\n".join(line.rstrip() for line in path.read_text("utf-8").splitlines()) + "\n", "utf-8"
    )


async def main() -> None:
    """Measure, print, and plot."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--threads", default="10,100,1000,10000", help="numbers of conversations, growing"
    )
    parser.add_argument("--plot", type=Path, default=PLOT)
    args = parser.parse_args()
    counts = [int(count) for count in args.threads.split(",")]
    versions = ", ".join(
        f"{name} {version(name)}"
        for name in ("langgraph", "langgraph-checkpoint-postgres", "numpy")
    )
    print(f"{platform.machine()}, Python {platform.python_version()}, {versions}")
    print(" ".join(f"{title:>8}" for title in COLUMNS.values()))
    rows = await measure("memory", InMemoryStore(), counts)
    with stores.embedded() as uri:
        async with stores.opened(uri) as store:
            rows += await measure("postgres", store, counts)
    plot(rows, args.plot)
    growth = {}
    for name in ("memory", "postgres"):
        times = {row["threads"]: row["search_ms"] for row in rows if row["store"] == name}
        if {100, 10_000} <= times.keys():
            growth[f"{name}_10000_over_100"] = round(times[10_000] / times[100], 2)
    print(json.dumps({"rows": rows, **growth}))


if __name__ == "__main__":
    asyncio.run(main())
