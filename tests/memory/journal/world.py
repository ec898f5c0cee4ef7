"""The model that the journal is held against: writers, deaths, clocks and other code in one store, step by step or by a die."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore, Item, PutOp
from langgraph.store.memory import InMemoryStore

from memory import namespaces
from memory.identity import Author
from memory.journal.log import Journal
from memory.journal.revisions import BOUNDS, OUTSIDE_SECONDS, Bounds, LoggedFile, Revision, Steps
from memory.validation import RefusedWriteError
from testing.steps import carry_out

FILES = ("memories", "acme:alice")
PATH = "/a.md"
LONG_AGO = timedelta(seconds=OUTSIDE_SECONDS + 200)
MAX_SKEW = 60
# A writer who meets nobody takes a dozen steps; more than this is one that never ends.
ENDLESS = 5_000


@dataclass(frozen=True)
class Wanted:
    """What a writer is asked to do. `tag` is a line that no other operation writes."""

    kind: str
    tag: str
    target: str = ""

    def __call__(self, before: FileData | None) -> FileData | None:
        text = self.of(before["content"] if before else None)
        return None if text is None else create_file_data(text)

    def of(self, before: str | None) -> str | None:
        """The text that this makes of another; None is no file.

        Raises:
            RefusedWriteError: it can make nothing of it.
        """
        if self.kind == "append":
            return f"{before or ''}{self.tag}\n"
        if self.kind == "write":
            return f"{self.tag}\n"
        if before is None:
            raise RefusedWriteError("not found")
        if self.kind == "delete":
            return None
        if before.count(f"{self.target}\n") != 1:
            raise RefusedWriteError("not found in file")
        return before.replace(f"{self.target}\n", f"{self.target}\n{self.tag}\n" if self.kind == "insert" else f"{self.tag}\n")

    def refuses(self, before: str | None) -> bool:
        try:
            self.of(before)
        except RefusedWriteError:
            return True
        return False


@dataclass
class Running:
    """An operation on its way, before its next batch reaches the store."""

    wanted: Wanted
    steps: Steps[Any]
    acknowledged_before: int  # the newest revision that somebody had been told of when this began
    pending: Any = None
    took: int = 0


@dataclass
class World:
    """A file in a store, those who write it, and what they were told."""

    bounds: Bounds = BOUNDS
    store: InMemoryStore = field(default_factory=InMemoryStore)
    now: datetime = datetime(2030, 1, 1, tzinfo=UTC)
    running: dict[int, Running] = field(default_factory=dict)
    landing: list[Sequence[Any]] = field(default_factory=list)  # what the dead sent, and has not arrived
    accepted: dict[tuple[int, str], Revision] = field(default_factory=dict)  # every revision that was ever in a block
    acknowledged: dict[str, Revision] = field(default_factory=dict)
    refused: list[tuple[Running, int]] = field(default_factory=list)  # with the highest revision there was
    unknown: set[str] = field(default_factory=set)
    wanted: dict[str, Wanted] = field(default_factory=dict)
    outside: Counter[str | None] = field(default_factory=Counter)
    due: str | None = None  # what other code put while nobody was writing, and nobody wrote since
    deaths: int = 0
    ids: int = 0

    @property
    def least(self) -> int:
        """Revisions that stay after any compaction."""
        return 3 if self.bounds.bytes else 1

    def new_id(self) -> str:
        self.ids += 1
        return f"{self.ids * 7919 % 9973:04}-{self.ids}"  # unique, and in no order

    def logged(self, skew: int = 0) -> Journal:
        return Journal(LoggedFile(FILES, PATH, lambda: self.now + timedelta(seconds=skew), self.new_id, self.bounds))

    # What happens ----------------------------------------------------------------------------------------------------

    def begin(self, who: int, kind: str, nth: int, skew: int) -> None:
        tag, tags = f"<{len(self.wanted)}>", list(self.wanted)
        wanted = Wanted(kind, tag, tags[-1 - nth % len(tags)] if tags else "")
        file = self.logged(skew)
        self.wanted[tag] = wanted
        steps: Steps[Any] = file.settle() if kind == "settle" else file.change(wanted, Author("agent", run_id=tag))
        newest = max((revision.number for revision in self.acknowledged.values()), default=0)
        self.running[who] = Running(wanted, steps, newest)
        self._advance(who, None)

    def step(self, who: int) -> None:
        """The next batch of a writer reaches the store, and its answer the writer."""
        self._advance(who, self._arrive(self.running[who].pending))

    def die(self, who: int, how: str) -> None:
        """`before` the next batch reaches the store, `after` it did but without its answer, or it arrives `later`."""
        running = self.running.pop(who)
        self.deaths += 1
        self.unknown.add(running.wanted.tag)
        if how == "after":
            self._arrive(running.pending)
        elif how == "later":
            self.landing.append(running.pending)
        running.steps.close()

    def land(self) -> None:
        self._arrive(self.landing.pop(0))

    def put_outside(self, text: str | None) -> None:
        if text is None and self.item() is None:
            return
        self.outside[text] += 1
        self.store.put(FILES, PATH, {**create_file_data(text)}) if text is not None else self.store.delete(FILES, PATH)
        self.due = None if self.running or self.landing else text

    def finish(self, seed: int = 0) -> None:
        """Everybody who is alive gets to the end, in any order."""
        order = random.Random(seed)
        while self.running:
            self.step(order.choice(sorted(self.running)))

    def commit_uncontended(self, kind: str, skew: int = 0) -> None:
        """One operation from begin to end, while nobody else moves."""
        self.begin(-1, kind, 0, skew)
        while -1 in self.running:
            self.step(-1)

    def _arrive(self, batch: Any) -> Any:
        if isinstance(batch, float):
            return None
        for op in batch:
            if isinstance(op, PutOp) and op.namespace == namespaces.journal(FILES, PATH) and op.value and op.value["revision"]:
                revision = Revision(**{**op.value["revision"], "author": Author(**op.value["revision"]["author"])})
                self.accepted[revision.number, revision.id] = revision
        return self.store.batch(batch)

    def _advance(self, who: int, answer: Any) -> None:
        running = self.running[who]
        running.took += 1
        assert running.took < ENDLESS, "a writer never ends"
        tag = running.wanted.tag
        try:
            running.pending = running.steps.send(answer)
        except StopIteration as done:
            if running.wanted.kind != "settle":
                self.acknowledged[tag] = done.value
        except RefusedWriteError as error:
            if "nobody knows" in str(error):
                self.unknown.add(tag)
            elif "ten minutes" not in str(error):  # turned away at the door (`memory/journal/retention.py`)
                self.refused.append((running, max((number for number, _ in self.accepted), default=0)))
        else:
            return
        del self.running[who]

    # What must hold ----------------------------------------------------------------------------------------------------

    def item(self) -> Item | None:
        return self.store.get(FILES, PATH)

    def text(self) -> str | None:
        item = self.item()
        return item.value["content"] if item else None

    def run(self, steps: Steps[Any]) -> Any:
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value
            answer = self._arrive(step)

    def chain(self) -> list[Revision]:
        """Every revision that was chosen, oldest first, from the newest that the history shows."""
        history: list[Revision] = self.run(self.logged().history())
        revisions: list[Revision] = history[:1]
        while revisions and revisions[-1].number > 1:
            revisions.append(self.accepted[revisions[-1].number - 1, revisions[-1].previous])
        assert history == revisions[: len(history)]
        assert len(history) >= min(len(revisions), self.least)
        return revisions[::-1]

    def check_chain(self) -> list[Revision]:
        """Every acknowledged operation is in the chain once, where it was said to be; each made of the one before."""
        chain = self.chain()
        assert [revision.number for revision in chain] == [*range(1, len(chain) + 1)]
        before: str | None = None
        for revision in chain:
            if revision.author.kind == "agent":
                assert revision.content == self.wanted[revision.author.run_id].of(before)
            before = revision.content
        times = Counter(revision.author.run_id for revision in chain if revision.author.kind == "agent")
        assert all(count == 1 for count in times.values()), "an operation was applied twice"
        for tag, revision in self.acknowledged.items():
            assert chain[revision.number - 1] == revision, f"{tag} was acknowledged and is not in the history"
        assert not {running.wanted.tag for running, _ in self.refused} & set(times), "a refused operation was applied"
        states = [None, *(revision.content for revision in chain)]
        for running, newest in self.refused:
            seen = states[running.acknowledged_before : newest + 1]
            assert any(running.wanted.refuses(text) for text in seen), "refused for no reason"
        adopted = Counter(revision.content for revision in chain if revision.author.kind == "outside")
        assert set(adopted - self.outside) <= {None}, "what other code did was adopted twice, or never happened"
        # A file that never was there, because its writer died first, is taken for deleted: nobody was told that it was there.
        gone = [number for number, revision in enumerate(chain) if revision.author.kind == "outside" and not revision.content]
        never_there = [number for number in gone if chain[number - 1].author.run_id in self.unknown]
        assert (adopted - self.outside)[None] <= len(never_there)
        assert self.outside[None] or all(number < 2 or chain[number - 2].content is None for number in never_there)
        return chain

    def check_file(self) -> None:
        """To be called when nobody is writing: the file is the newest revision. Marked, if somebody has to put it right."""
        chain = self.check_chain()
        head = chain[-1].content if chain else None
        if self.text() == head or self.outside:
            return
        item = self.item()
        shown = item.value["revision"] if item else 0
        assert self.deaths, "the file is not the newest revision though nobody died"
        told = max((revision.number for revision in self.acknowledged.values()), default=0)
        if shown < told or (item and (shown, item.value["revision_id"]) != (chain[shown - 1].number, chain[shown - 1].id)):
            assert self.store.get(namespaces.unsettled(FILES), PATH), "the file lacks what was acknowledged and is not marked"

    def end(self, seed: int = 0) -> None:
        """All that is still going on comes to an end; then the file is looked at, put right, looked at, written, looked at."""
        self.finish(seed)
        self.check_file()
        while self.landing:
            self.land()
        self.check_file()
        if not self.outside:
            self.run(self.logged().settle())
            chain = self.check_chain()
            assert self.text() == (chain[-1].content if chain else None), "not settled"
        self.commit_uncontended("append")
        chain = self.check_chain()
        assert self.text() == chain[-1].content
        assert self.due is None or self.due in [revision.content for revision in chain], "not adopted"


KINDS = ["append", "insert", "edit", "write", "delete", "settle"]


def history(store: BaseStore, path: str) -> list[Revision]:
    return carry_out(store, Journal(LoggedFile(FILES, path)).history())


# --- A die chooses: less clever and much faster, so that it meets what is rare ------------------------------------------


SLEEP = 0.97


def throw(seed: int, *, others: bool = False, world: World | None = None, kinds: Sequence[str] | None = None) -> World:
    """A world with everything drawn from one number."""
    dice, world = random.Random(seed), world or World()
    deadly, patience = dice.choice([0, 0.01, 0.05]), dice.choice([1, 3, 8])
    left = Counter({who: dice.randint(1, 6) for who in range(dice.randint(2, 5))})
    sleepy = dice.choice([None, 0])  # hardly ever moves, so that much happens between two of its steps
    kinds = kinds or dice.choice([["append"], ["append", "insert", "edit"], KINDS])
    if dice.random() < 0.5:
        world.commit_uncontended("append")
    while +left or world.running:
        for who in sorted(+left):
            if who not in world.running and dice.random() < 0.5:
                world.begin(who, dice.choice(kinds), dice.randrange(6), dice.randint(-MAX_SKEW, MAX_SKEW))
                left[who] -= 1
        chosen = dice.choice(sorted(world.running)) if world.running else None
        if chosen is not None and (chosen != sleepy or len(world.running) == 1 or dice.random() > SLEEP):
            some_steps(world, chosen, dice, patience, deadly)
        meanwhile(world, dice, others=others)
    world.end(seed)
    return world


def some_steps(world: World, who: int, dice: random.Random, patience: int, deadly: float) -> None:
    for _ in range(dice.randint(1, patience)):
        if who in world.running:
            world.step(who)
    if who in world.running and dice.random() < deadly:
        world.die(who, dice.choice(["before", "after", "later"]))


def meanwhile(world: World, dice: random.Random, *, others: bool) -> None:
    if world.landing and dice.random() < 0.05:
        world.land()
    if others and dice.random() < 0.02:
        world.put_outside(dice.choice(["outside 1\n", "outside 2\n", None]))
    if not world.running and not world.landing and dice.random() < 0.2:
        world.now += LONG_AGO
