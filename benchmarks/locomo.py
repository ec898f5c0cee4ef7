"""How often the right past conversation is found and the right turns quoted: python -m benchmarks.locomo --data FILE

    --conversations 1-5    which of the file's, counted from 1

Data: `locomo10.json` in the public format (Maharana and others, "Evaluating Very Long-Term Conversational Memory of LLM
Agents", ACL 2024), which is not part of the project. Each conversation becomes one user's threads, a thread a session: the
first speaker's turns are the user's, the other's the assistant's, with their names; an image's caption is part of its turn.
Every question of categories 1-4 with evidence is asked through the function that the tool calls; an evidence turn counts as
quoted if at least 200 of its characters, or all of them, are in the result.

Settings were tuned on conversations 1-5 only: what is found there says less than the figures of the others.
Goal on conversations 6-10: session_all@5 at least 85, turn@5 at least 72, without embeddings.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from langgraph.store.memory import InMemoryStore

from memory import scopes
from memory.conversations import conversation, owned_by
from memory.episodes import answer
from memory.lexical import rank
from memory.recall import rebuild
from memory.search import search
from tests.threads import Threads

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
CUTS = (1, 3, 5, 10)
FEW = 5
MOST = max(CUTS)
_QUOTED_CHARS = 200


@dataclass
class Asked:
    """A question's result: rank of each evidence session (from 0), recall of evidence turns, characters, seconds."""

    category: int
    ranks: list[int]
    turns: dict[int, float] = field(default_factory=dict)
    chars: int = 0
    seconds: float = 0.0


class Person:
    """A LoCoMo conversation as one user's threads."""

    def __init__(self, sample: dict[str, Any]) -> None:
        self.actor = scopes.Actor(str(sample["sample_id"]), "locomo")
        self.threads, self.store = Threads(), InMemoryStore()
        self.texts: dict[str, tuple[str, str]] = {}
        said = sample["conversation"]
        roles = {said["speaker_a"]: "human", said["speaker_b"]: "ai"}
        number = 1
        while f"session_{number}" in said:
            moment = datetime.strptime(said[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            thread_id = str(uuid5(NAMESPACE_URL, f"{sample['sample_id']}/{number}"))
            messages = []
            for turn in said[f"session_{number}"]:
                text = turn["text"] + (f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else "")
                self.texts[turn["dia_id"]] = (thread_id, " ".join(text.split()))
                role = roles[turn["speaker"]]
                messages.append({"type": role, "id": turn["dia_id"], "name": turn["speaker"], "content": text})
            self.threads.put(self.actor, thread_id, moment.isoformat(), messages)
            number += 1
        self.last = moment.date()
        self.questions = [
            (str(qa["question"]), evidence, int(qa["category"]))
            for qa in sample["qa"]
            if qa["category"] in CATEGORIES and (evidence := self._evidence(qa.get("evidence") or []))
        ]

    def _evidence(self, given: list[str]) -> list[str]:
        """Ids of turns that exist; some entries of the file hold two, or are misspelt."""
        ids = (f"D{int(session)}:{int(turn)}" for entry in given for session, turn in re.findall(r"D:?(\d+):(\d+)", entry))
        return sorted({turn for turn in ids if turn in self.texts})

    def quoted(self, turn: str, result: str) -> bool:
        """Whether a result shows the turn, below its thread."""
        thread_id, text = self.texts[turn]
        part = next((part for part in result.split("\n\n") if f"thread_id={thread_id}" in part), "")
        return any(text[start : start + _QUOTED_CHARS] in part for start in range(0, max(1, len(text) - _QUOTED_CHARS + 1), 20))


Ranker = Callable[[Person, str], Awaitable[list[str]]]


async def newest(person: Person, question: str) -> list[str]:
    """What the published recipe returns: the threads that changed last."""
    found = await person.threads.search(metadata=owned_by(person.actor), limit=MOST)
    return [thread["thread_id"] for thread in found]


async def whole_sessions(person: Person, question: str) -> list[str]:
    """BM25 over whole conversations, stemmed, read at every question."""
    found = await person.threads.search(metadata=owned_by(person.actor), limit=1_000)
    texts = [" ".join(turn.text for turn in conversation(thread).turns) for thread in found]
    return [found[index]["thread_id"] for index, _ in rank(question, texts)[:MOST]]


async def ours(person: Person, question: str) -> list[str]:
    """The function that the tool calls."""
    results = await search(person.store, person.threads, person.actor, question, MOST, today=person.last)
    return [item.conversation.thread_id for item in results.found]


async def measure(people: list[Person], ranker: Ranker) -> list[Asked]:
    """Every question of everybody."""
    every = []
    for person in people:
        for question, evidence, category in person.questions:
            start = time.perf_counter()
            ranked = await ranker(person, question)
            seconds = time.perf_counter() - start
            sessions = {person.texts[turn][0] for turn in evidence}
            asked = Asked(category, [ranked.index(thread) if thread in ranked else MOST for thread in sorted(sessions)])
            asked.seconds = seconds
            if ranker is ours:
                for limit in (5, 10):
                    found = await search(person.store, person.threads, person.actor, question, limit, today=person.last)
                    text = answer(question, found)
                    asked.chars = max(asked.chars, len(text))
                    asked.turns[limit] = statistics.mean(person.quoted(turn, text) for turn in evidence)
            every.append(asked)
    return every


def share(values: list[float]) -> float:
    """A mean in percent."""
    return round(100 * statistics.mean(values), 1) if values else 0.0


def figures(every: list[Asked]) -> dict[str, float]:
    """The measures of some questions, in percent."""
    found = {f"session_all@{cut}": share([float(max(item.ranks) < cut) for item in every]) for cut in CUTS}
    found["session_frac@5"] = share([statistics.mean(rank < FEW for rank in item.ranks) for item in every])
    found["mrr"] = share([0.0 if min(item.ranks) >= MOST else 1 / (1 + min(item.ranks)) for item in every])
    for limit in (5, 10):
        if every and every[0].turns:
            found[f"turn@{limit}"] = share([item.turns[limit] for item in every])
    return found


def print_row(name: str, every: list[Asked]) -> None:
    """A line of the table."""
    found = figures(every)
    cells = [f"{found[f'session_all@{cut}']:6.1f}" for cut in CUTS]
    cells += [f"{found['session_frac@5']:6.1f}", f"{found['mrr']:6.1f}"]
    cells += [f"{found[name]:6.1f}" if name in found else "     -" for name in ("turn@5", "turn@10")]
    milliseconds = 1_000 * statistics.mean(item.seconds for item in every)
    print(f"{name:24} {len(every):5} {' '.join(cells)} {milliseconds:8.1f}")


def span(text: str) -> range:
    """1-5, or a single number."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


async def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the public locomo10.json, or a part of it")
    parser.add_argument("--conversations", type=span, help="which of the file's, e.g. 6-10; all if left out")
    args = parser.parse_args()
    samples = json.loads(args.data.read_text("utf-8"))
    chosen = [sample for number, sample in enumerate(samples, 1) if args.conversations is None or number in args.conversations]
    people = [Person(sample) for sample in chosen]
    for person in people:
        await rebuild(person.store, person.threads, person.actor)
    print(f"{'all sessions in the top':30} {'1':>6} {'3':>6} {'5':>6} {'10':>6} frac@5    mrr turn@5 turn@10     ms")
    for name, ranker in (("five newest", newest), ("BM25, whole sessions", whole_sessions)):
        print_row(name, await measure(people, ranker))
    every = await measure(people, ours)
    print_row("ours", every)
    for category, name in CATEGORIES.items():
        if some := [item for item in every if item.category == category]:
            print_row(f"  {name}", some)
    found = figures(every)
    names = ("session_all@5", "session_frac@5", "turn@5", "turn@10", "mrr")
    chars = sorted(item.chars for item in every)[int(0.95 * (len(every) - 1))]
    print(json.dumps({**{name: found[name] for name in names}, "chars_p95": chars, "questions": len(every)}))


if __name__ == "__main__":
    asyncio.run(main())
