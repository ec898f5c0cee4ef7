"""The journal against a model: any interleaving of writers, deaths at any point, clocks that differ, other code in between."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from langgraph.store.base import Item, PutOp
from langgraph.store.memory import InMemoryStore

from memory import journal, scopes, stored
from memory.consensus import OUTSIDE_SECONDS, Block, LoggedFile, Revision, Steps
from memory.journal import Journal
from memory.scopes import Author
from memory.validation import RefusedWriteError

FILES = ("memories", "acme:alice")
PATH = "/a.md"
LONG_AGO = timedelta(seconds=OUTSIDE_SECONDS + 200)
MAX_SKEW = 60
# A writer who meets nobody takes a dozen steps; more than this is one that never ends.
ENDLESS = 5_000


# --- The model -------------------------------------------------------------------------------------------------------


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

    least: ClassVar[int] = 3  # revisions that stay, whatever is compacted

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

    def new_id(self) -> str:
        self.ids += 1
        return f"{self.ids * 7919 % 9973:04}-{self.ids}"  # unique, and in no order

    def logged(self, skew: int = 0) -> Journal:
        return Journal(LoggedFile(FILES, PATH, lambda: self.now + timedelta(seconds=skew), self.new_id))

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

    def alone(self, kind: str, skew: int = 0) -> None:
        """One operation from begin to end, while nobody else moves."""
        self.begin(-1, kind, 0, skew)
        while -1 in self.running:
            self.step(-1)

    def _arrive(self, batch: Any) -> Any:
        if isinstance(batch, float):
            return None
        for op in batch:
            if isinstance(op, PutOp) and op.namespace == scopes.journal(FILES, PATH) and op.value and op.value["revision"]:
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
            elif "ten minutes" not in str(error):  # turned away at the door (`memory/retention.py`)
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
            answer = None if isinstance(step, float) else self.store.batch(step)

    def chain(self) -> list[Revision]:
        """Every revision that was chosen, oldest first, from the newest that the history shows."""
        history: list[Revision] = self.run(self.logged().history())
        found: list[Revision] = history[:1]
        while found and found[-1].number > 1:
            found.append(self.accepted[found[-1].number - 1, found[-1].previous])
        assert history == found[: len(history)]
        assert len(history) >= min(len(found), self.least)
        return found[::-1]

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
            assert self.store.get(scopes.unsettled(FILES), PATH), "the file lacks what was acknowledged and is not marked"

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
        self.alone("append")
        chain = self.check_chain()
        assert self.text() == chain[-1].content
        assert self.due is None or self.due in [revision.content for revision in chain], "not adopted"


# --- Hypothesis chooses ----------------------------------------------------------------------------------------------

KINDS = ["append", "insert", "edit", "write", "delete", "settle"]
WRITERS = st.integers(0, 4)


class Writers(RuleBasedStateMachine):
    """Up to five writers of one file, one batch of operations at a time."""

    world: World
    others = False  # whether other code puts and deletes the file

    @initialize(there=st.booleans())
    def start(self, there: bool) -> None:
        self.world = World()
        if there:
            self.world.alone("append")

    @rule(who=WRITERS, kind=st.sampled_from(KINDS), nth=st.integers(0, 5), skew=st.integers(-MAX_SKEW, MAX_SKEW))
    def begin_or_step(self, who: int, kind: str, nth: int, skew: int) -> None:
        if who in self.world.running:
            self.world.step(who)
        else:
            self.world.begin(who, kind, nth, skew)

    @precondition(lambda self: self.world.running)
    @rule(who=WRITERS, times=st.integers(1, 12))
    def steps(self, who: int, times: int) -> None:
        for _ in range(times):
            if who in self.world.running:
                self.world.step(who)

    @precondition(lambda self: self.world.running and self.world.deaths < 4)
    @rule(who=WRITERS, how=st.sampled_from(["before", "after", "later"]))
    def die(self, who: int, how: str) -> None:
        if who in self.world.running:
            self.world.die(who, how)

    @precondition(lambda self: self.world.landing)
    @rule()
    def land(self) -> None:
        self.world.land()

    @precondition(lambda self: not self.world.running and not self.world.landing)
    @rule()
    def long_after(self) -> None:
        self.world.now += LONG_AGO

    @precondition(lambda self: not self.world.running)
    @rule()
    def nobody_writes(self) -> None:
        self.world.check_file()

    @precondition(lambda self: self.others)
    @rule(text=st.sampled_from(["outside 1\n", "outside 2\n", None]))
    def other_code(self, text: str | None) -> None:
        self.world.put_outside(text)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.end()


class WritersAndOthers(Writers):
    """The same, while other code that knows of no journal puts and deletes the file."""

    others = True


@pytest.fixture(params=[(50, 25), (3, 2), (1, 25)], ids=["kept 50", "kept 3", "kept 1"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many revisions stay: as deployed; so few that compaction happens all the time; no room for any but the newest."""
    revisions, every = request.param
    if revisions == 1:
        monkeypatch.setattr(stored, "BUDGET", 0)
        monkeypatch.setattr(World, "least", 1)
    else:
        monkeypatch.setattr(journal, "REVISIONS_KEPT", revisions)
    monkeypatch.setattr(journal, "_COMPACT_EVERY", every)
    return int(revisions)


def explore(machine: type[Writers], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=hypothesis_settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=[*HealthCheck]
        ),
    )


@pytest.mark.parametrize("machine", [Writers, WritersAndOthers])
def test_nothing_acknowledged_is_lost_whatever_happens(machine: type[Writers], kept: int) -> None:
    explore(machine, examples=60, steps=60)


@pytest.mark.proof
@pytest.mark.parametrize("machine", [Writers, WritersAndOthers])
def test_nothing_acknowledged_is_lost_whatever_happens_in_many_more_worlds(machine: type[Writers], kept: int) -> None:
    explore(machine, examples=1_500, steps=120)


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
        world.alone("append")
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


@pytest.mark.parametrize("others", [False, True])
def test_nothing_acknowledged_is_lost_in_worlds_thrown_by_a_die(kept: int, others: bool) -> None:
    for seed in range(150):
        throw(seed, others=others)


@pytest.mark.proof
@pytest.mark.parametrize("others", [False, True])
def test_nothing_acknowledged_is_lost_in_many_worlds_thrown_by_a_die(kept: int, others: bool) -> None:
    for seed in range(1_000, 11_000):
        throw(seed, others=others)


# --- What was met once, step by step ------------------------------------------------------------------------------------


def until(world: World, who: int, holds: Callable[[PutOp], bool]) -> None:
    """Run a writer until a put for which something holds has reached the store."""
    while who in world.running:
        sent = batch(world, who)
        world.step(who)
        if any(isinstance(op, PutOp) and holds(op) for op in sent):
            return


def accepts(op: PutOp) -> bool:
    return bool(op.value and op.value.get("accepted"))


def begins(op: PutOp) -> bool:
    return bool(op.value and "accepted" in op.value and not op.value["accepted"])


@pytest.mark.parametrize("stop", [begins, accepts])
@pytest.mark.parametrize("kept", [(3, 2)], ids=["kept 3"], indirect=True)
def test_who_sleeps_until_its_slot_is_compacted_is_told_that_nobody_knows_or_the_truth(kept: int, stop: Any) -> None:
    world = World()
    world.alone("append")
    world.begin(0, "append", 0, 0)
    until(world, 0, stop)
    if stop is begins:
        world.step(0)  # sees nobody in its slot, and is about to accept
    for _ in range(12):
        world.alone("append")
    world.finish()
    chain = world.check_chain()
    applied = "<1>" in [revision.author.run_id for revision in chain]
    assert applied is (stop is accepts)
    assert "<1>" in world.unknown
    world.end()


def test_a_file_that_shows_a_writer_s_lost_attempt_is_put_right_though_its_next_one_was_chosen() -> None:
    world = World()
    world.alone("append")
    world.begin(0, "append", 0, 0)
    until(world, 0, begins)
    world.step(0)
    world.alone("append")  # wins the slot
    until(world, 0, accepts)
    until(world, 0, accepts)  # in the next slot, having put the file too early
    assert "<2>" not in str(world.text())
    world.die(0, "before")
    world.check_file()
    world.run(world.logged().settle())
    assert world.text() == "<0>\n<2>\n<1>\n"
    world.end()


def test_a_late_ballot_neither_hides_what_was_chosen_nor_unpublishes_it() -> None:
    world = World()
    world.alone("append")
    world.begin(0, "append", 0, 0)
    until(world, 0, accepts)
    world.begin(1, "append", 0, 0)
    until(world, 1, begins)
    world.die(1, "before")
    world.finish()
    assert set(world.acknowledged) == {"<0>", "<1>"}
    world.now += LONG_AGO
    for _ in range(2):
        world.alone("settle")
        assert world.text() == "<0>\n<1>\n"
    assert [revision.number for revision in world.run(world.logged().history())] == [2, 1]


def test_a_refused_change_takes_back_what_it_had_put_early() -> None:
    world = World()
    world.alone("append")
    world.begin(0, "edit", 0, 0)
    until(world, 0, begins)
    world.step(0)
    world.alone("delete")
    world.finish()
    assert [running.wanted.kind for running, _ in world.refused] == ["edit"]
    assert world.text() is None


@pytest.mark.parametrize("written", [0, 3])
def test_a_value_copied_from_another_person_s_file_is_a_file_put_by_other_means(written: int) -> None:
    theirs, mine = World(), World()
    for world, times in ((theirs, 2), (mine, written)):
        for _ in range(times):
            world.alone("append")
    item = theirs.item()
    assert item
    other = LoggedFile(("memories", "acme:bob"), PATH)
    for _ in range(written):
        mine.run(Journal(other).change(Wanted("append", "<mine>"), Author("agent")))
    mine.store.put(other.files, PATH, item.value)
    mine.run(Journal(other).change(Wanted("append", "<added>"), Author("agent")))
    kept = mine.store.get(other.files, PATH)
    assert kept
    assert kept.value["content"] == "<0>\n<1>\n<added>\n"


@pytest.mark.parametrize("hidden", [False, True])
def test_who_puts_an_old_revision_late_puts_the_newest_after_it_also_where_a_ballot_hides_that_it_was_chosen(
    hidden: bool,
) -> None:
    world = World()
    world.alone("append")
    for who in (0, 1):
        world.begin(who, "append", 0, 0)
        until(world, who, begins)
    while not any(isinstance(op, PutOp) and op.namespace == FILES for op in batch(world, 0)):
        world.step(0)  # until it is about to publish
    while 1 in world.running:
        world.step(1)
    assert world.text() == "<0>\n<1>\n<2>\n"
    if hidden:
        world.store.put(scopes.journal(FILES, PATH), "00000003-dead", Block(3, (99, "dead")).value())
    world.step(0)
    assert world.text() == "<0>\n<1>\n"
    world.finish()
    assert world.text() == "<0>\n<1>\n<2>\n"


def batch(world: World, who: int) -> Sequence[Any]:
    """What a writer is about to send; nothing while it sleeps."""
    pending = world.running[who].pending
    return () if isinstance(pending, float) else pending


def test_a_deletion_by_other_code_is_adopted_when_it_cannot_be_a_writer_s_and_not_while_a_mark_says_it_might() -> None:
    for marked in (False, True):
        world = World()
        world.alone("append")
        world.now += LONG_AGO
        if marked:
            world.store.put(scopes.unsettled(FILES), PATH, {"at": world.now.isoformat()})
        world.put_outside(None)
        world.alone("append")
        assert world.text() == ("<0>\n<1>\n" if marked else "<1>\n")
        world.check_chain()
