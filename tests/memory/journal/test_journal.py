"""The journal against a model: any interleaving of writers, deaths at any point, clocks that differ, other code in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from langgraph.store.base import PutOp

from memory import namespaces
from memory.identity import Author
from memory.journal.log import Journal
from memory.journal.revisions import Block, Bounds, LoggedFile
from tests.memory.journal.world import FILES, KINDS, LONG_AGO, MAX_SKEW, PATH, Wanted, World, throw

WRITERS = st.integers(0, 4)


class Writers(RuleBasedStateMachine):
    """Up to five writers of one file, one batch of operations at a time."""

    world: World
    bounds = Bounds()
    others = False  # whether other code puts and deletes the file

    @initialize(there=st.booleans())
    def start(self, there: bool) -> None:
        self.world = World(bounds=self.bounds)
        if there:
            self.world.commit_uncontended("append")

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


# As deployed; compaction all the time; room for the newest revision alone.
KEPT_50, KEPT_3, KEPT_1 = Bounds(), Bounds(revisions=3, compact_every=2), Bounds(bytes=0)
kept = pytest.mark.parametrize(
    "bounds", [pytest.param(KEPT_50, marks=pytest.mark.proof), KEPT_3, KEPT_1], ids=["kept 50", "kept 3", "kept 1"]
)


def explore(machine: type[Writers], bounds: Bounds, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        type(machine.__name__, (machine,), {"bounds": bounds}),
        settings=hypothesis_settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=[*HealthCheck]
        ),
    )


@kept
@pytest.mark.parametrize("machine", [Writers, WritersAndOthers])
def test_nothing_acknowledged_is_lost_whatever_happens(machine: type[Writers], bounds: Bounds) -> None:
    explore(machine, bounds, examples=60, steps=60)


@kept
@pytest.mark.proof
@pytest.mark.parametrize("machine", [Writers, WritersAndOthers])
def test_nothing_acknowledged_is_lost_whatever_happens_in_many_more_worlds(machine: type[Writers], bounds: Bounds) -> None:
    explore(machine, bounds, examples=1_500, steps=120)


@kept
@pytest.mark.parametrize("others", [False, True])
def test_nothing_acknowledged_is_lost_in_worlds_thrown_by_a_die(bounds: Bounds, others: bool) -> None:
    for seed in range(150):
        throw(seed, others=others, world=World(bounds=bounds))


def test_the_history_takes_nothing_that_was_put_by_other_means() -> None:
    """Others died around the newest slot, so that to know what was chosen takes a ballot, whose winner is published."""
    throw(1531, others=True)


def test_a_value_is_adopted_once_also_when_its_revision_is_gone() -> None:
    """Its revision was compacted away before anybody put the file right, which still held the value."""
    throw(1688, others=True, world=World(bounds=KEPT_1))


@kept
@pytest.mark.proof
@pytest.mark.parametrize("others", [False, True])
def test_nothing_acknowledged_is_lost_in_many_worlds_thrown_by_a_die(bounds: Bounds, others: bool) -> None:
    for seed in range(1_000, 11_000):
        throw(seed, others=others, world=World(bounds=bounds))


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


def stopped_at(holds: Callable[[PutOp], bool], kind: str = "append", bounds: Bounds = KEPT_50) -> World:
    """A file of one revision, and writer 0 just after a put for which something holds."""
    world = World(bounds=bounds)
    world.commit_uncontended("append")
    world.begin(0, kind, 0, 0)
    until(world, 0, holds)
    return world


@pytest.mark.parametrize("stop", [begins, accepts])
def test_who_sleeps_until_its_slot_is_compacted_is_told_no_lie(stop: Any) -> None:
    """Who sleeps until its slot is compacted is told that nobody knows, or the truth."""
    world = stopped_at(stop, bounds=KEPT_3)
    if stop is begins:
        world.step(0)  # sees nobody in its slot, and is about to accept
    for _ in range(12):
        world.commit_uncontended("append")
    world.finish()
    chain = world.check_chain()
    applied = "<1>" in [revision.author.run_id for revision in chain]
    assert applied is (stop is accepts)
    assert "<1>" in world.unknown
    world.end()


def test_a_file_that_shows_a_writer_s_lost_attempt_is_put_right() -> None:
    """A file that shows a writer's lost attempt is put right, though its next one was chosen."""
    world = stopped_at(begins)
    world.step(0)
    world.commit_uncontended("append")  # wins the slot
    until(world, 0, accepts)
    until(world, 0, accepts)  # in the next slot, having put the file too early
    assert "<2>" not in str(world.text())
    world.die(0, "before")
    world.check_file()
    world.run(world.logged().settle())
    assert world.text() == "<0>\n<2>\n<1>\n"
    world.end()


def test_a_late_ballot_neither_hides_what_was_chosen_nor_unpublishes_it() -> None:
    world = stopped_at(accepts)
    world.begin(1, "append", 0, 0)
    until(world, 1, begins)
    world.die(1, "before")
    world.finish()
    assert set(world.acknowledged) == {"<0>", "<1>"}
    world.now += LONG_AGO
    for _ in range(2):
        world.commit_uncontended("settle")
        assert world.text() == "<0>\n<1>\n"
    assert [revision.number for revision in world.run(world.logged().history())] == [2, 1]


def test_a_refused_change_takes_back_what_it_had_put_early() -> None:
    world = stopped_at(begins, "edit")
    world.step(0)
    world.commit_uncontended("delete")
    world.finish()
    assert [running.wanted.kind for running, _ in world.refused] == ["edit"]
    assert world.text() is None


@pytest.mark.parametrize("written", [0, 3])
def test_a_value_copied_from_another_person_s_file_is_put_from_outside(written: int) -> None:
    """A value copied from another person's file is a file put by other means."""
    theirs, mine = World(), World()
    for world, times in ((theirs, 2), (mine, written)):
        for _ in range(times):
            world.commit_uncontended("append")
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
def test_who_puts_an_old_revision_late_puts_the_newest_after_it(
    hidden: bool,
) -> None:
    """Who puts an old revision late puts the newest after it, also where a ballot hides that it was chosen."""
    world = World()
    world.commit_uncontended("append")
    for who in (0, 1):
        world.begin(who, "append", 0, 0)
        until(world, who, begins)
    while not any(isinstance(op, PutOp) and op.namespace == FILES for op in batch(world, 0)):
        world.step(0)  # until it is about to publish
    while 1 in world.running:
        world.step(1)
    assert world.text() == "<0>\n<1>\n<2>\n"
    if hidden:
        world.store.put(namespaces.journal(FILES, PATH), "00000003-dead", Block(3, (99, "dead")).value())
    world.step(0)
    assert world.text() == "<0>\n<1>\n"
    world.finish()
    assert world.text() == "<0>\n<1>\n<2>\n"


def batch(world: World, who: int) -> Sequence[Any]:
    """What a writer is about to send; nothing while it sleeps."""
    pending = world.running[who].pending
    return () if isinstance(pending, float) else pending


def test_a_deletion_by_other_code_is_adopted_unless_it_may_be_a_writer_s() -> None:
    """A deletion by other code is adopted when it cannot be a writer's, and not while a mark says it might."""
    for marked in (False, True):
        world = World()
        world.commit_uncontended("append")
        world.now += LONG_AGO
        if marked:
            world.store.put(namespaces.unsettled(FILES), PATH, {"at": world.now.isoformat()})
        world.put_outside(None)
        world.commit_uncontended("append")
        assert world.text() == ("<0>\n<1>\n" if marked else "<1>\n")
        world.check_chain()
