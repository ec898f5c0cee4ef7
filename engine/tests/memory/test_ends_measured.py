"""How many lines that are over stand in a prompt or a search, and how many others are missing there,
over a year of a memory that people, agents and consolidation change: none and none.
"""

import json
import random
from dataclasses import dataclass, field
from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory.agent.memory_block import memory_files
from lasting_memory.agent.memory_search import search_files
from lasting_memory.agent.prompt import PromptBlocks
from lasting_memory.agent.snapshot import read_snapshot
from lasting_memory.memory import journal
from lasting_memory.people.identity import Actor, Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import AGENT
from tests.conftest import Clock

MEMORIES = ("memories", "acme:alice")
PREFERENCES = "/preferences.md"
SOURCE = "(2026-03-02, thread 0199c2f0-1111-4111-8111-111111111111)"
WORDS = ["tea", "お茶", "شاي", "чай", "thé", "चाय", "Tee", "ชา"]


@dataclass
class Fact:
    """A line, and whether its end counts: what the test knows of it, not what the file says."""

    name: str
    end: date | None
    counts: bool
    source: str = ""

    def line(self) -> str:
        end = f" (until {self.end})" if self.end else ""
        return f"- {self.name}{self.source}{end}"

    def is_over(self, today: date) -> bool:
        return self.counts and self.end is not None and self.end < today


@dataclass
class World:
    """A memory that changes by chance, and what should be in it."""

    store: BaseStore
    clock: Clock
    zone: ZoneInfo
    dice: random.Random
    facts: list[Fact] = field(default_factory=list)
    removed: list[Fact] = field(default_factory=list)
    count: int = 0

    @property
    def today(self) -> date:
        return self.clock.now().astimezone(self.zone).date()

    async def save(self) -> None:
        text = "".join(f"{fact.line()}\n" for fact in self.facts)
        author = Author(self.dice.choice(["person", "agent", "consolidation"]), "alice")
        await journal.change(
            self.store, MEMORIES, PREFERENCES, lambda _: create_file_data(text), author
        )

    async def step(self) -> None:
        """One change of the memory."""
        change = self.dice.choice(
            [self.add, self.add, self.add, self.remove, self.bring_back, self.move, self.word_anew]
        )
        change()
        await self.save()

    def add(self) -> None:
        self.count += 1
        name = f"fact{self.count:03}x {self.dice.choice(WORDS)}"
        days = self.dice.choice([None, -400, -30, -1, 0, 1, 5, 40])
        end = None if days is None else self.today + timedelta(days=days)
        source = self.dice.choice(["", f" {SOURCE}"])
        self.facts.append(
            Fact(name, end, counts=end is not None and end >= self.today, source=source)
        )

    def remove(self) -> None:
        if self.facts:
            self.removed.append(self.facts.pop(self.dice.randrange(len(self.facts))))

    def bring_back(self) -> None:
        if self.removed:
            self.facts.append(self.removed.pop())

    def move(self) -> None:
        self.dice.shuffle(self.facts)

    def word_anew(self) -> None:
        if self.facts:
            fact = self.dice.choice(self.facts)
            fact.name += " now"


@pytest.mark.proof
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin"])
async def test_a_year_of_prompts_shows_no_line_that_is_over_and_misses_no_other(
    store: BaseStore, clock: Clock, zone: str
) -> None:
    dice = random.Random(zone)
    world = World(store, clock, ZoneInfo(zone), dice)
    profile = create_file_data(json.dumps({"timezone": zone}))
    await journal.change(
        store, MEMORIES, "/profile.json", lambda _: profile, Author("person", "alice")
    )
    alice = Actor("alice", "acme")
    prompts = PromptBlocks(deployed(), memory_files(deployed()))
    over_shown = 0
    others_missing = 0
    looked_at = 0
    for _ in range(100):
        clock.time += timedelta(hours=dice.randrange(1, 145))
        await world.step()
        snapshot = await read_snapshot(deployed(), store, alice, AGENT)
        blocks = await prompts.preview(store, alice, AGENT, snapshot)
        shown = "\n".join(block.text for block in blocks)
        found = await search_files(store, MEMORIES, "fact tea", deployed())
        in_search = "\n".join(file.text for file in found)
        for fact in world.facts:
            name = fact.name.split()[0]
            looked_at += 1
            if fact.is_over(world.today):
                over_shown += (name in shown) + (name in in_search)
            else:
                others_missing += f"{fact.line()}\n" not in f"{shown}\n"
    assert looked_at > 1_000
    assert (over_shown, others_missing) == (0, 0)
