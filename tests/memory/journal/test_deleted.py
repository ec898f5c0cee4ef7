"""Many deleted files: the oldest are cleared away, and nothing goes that must not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore, PutOp

from memory import namespaces
from memory.identity import Author
from memory.journal.log import Journal
from memory.journal.revisions import OUTSIDE_SECONDS, Bounds, LoggedFile, Revision
from memory.validation import RefusedWriteError
from testing.steps import carry_out
from tests.memory.journal.world import FILES, World, history, throw


class Clock:
    """A clock that is set forward."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


# Deleted files that are kept.
FEW = 8


def write(store: BaseStore, path: str, text: str | None, clock: Callable[[], datetime]) -> Revision:
    changed = None if text is None else create_file_data(text)
    file = LoggedFile(FILES, path, clock, bounds=Bounds(deleted_files=FEW))
    revision: Revision = carry_out(store, Journal(file).change(lambda _: changed, Author("agent")))
    return revision


def journals(store: BaseStore) -> int:
    return len({item.namespace for item in store.search(namespaces.journals(FILES), limit=1_000) if "slot" in item.value})


async def test_of_many_deleted_files_the_oldest_are_cleared_away(store: BaseStore) -> None:
    """Of many deleted files the oldest are cleared away, and new ones are refused until then."""

    def attack() -> None:
        clock, refused = Clock(), 0
        write(store, "/kept.md", "kept", clock)
        for number in range(10 * FEW):
            try:
                write(store, f"/{number}.md", "tiny", clock)
                write(store, f"/{number}.md", None, clock)
            except RefusedWriteError as error:
                assert "ten minutes" in str(error)  # noqa: PT017  # most are not refused
                refused += 1
                clock.now += timedelta(seconds=OUTSIDE_SECONDS + 1)
                write(store, "/kept.md", "still", clock)
            clock.now += timedelta(seconds=1)
            assert journals(store) <= 2 * FEW + 2
        assert 1 <= refused <= 20, "who waits goes on"
        assert history(store, "/0.md") == []
        assert history(store, f"/{10 * FEW - 1}.md") or refused
        assert [revision.content for revision in history(store, "/kept.md")][-1] == "kept"

    await asyncio.to_thread(attack)


async def test_a_file_being_cleared_away_is_not_made_again_until_it_is_gone(store: BaseStore) -> None:
    """A file that is being cleared away is not made again until it is gone, and then begins anew."""

    def again() -> None:
        clock = Clock()
        write(store, "/kept.md", "kept", clock)
        for number in range(FEW + 1):
            write(store, f"/{number}.md", "text", clock)
            write(store, f"/{number}.md", None, clock)
            clock.now += timedelta(seconds=1)
        with pytest.raises(RefusedWriteError, match=r"'/0\.md' was deleted and is being cleared away"):
            write(store, "/0.md", "again", clock)
        assert write(store, f"/{FEW}.md", "again", clock).number == 3, "one that was deleted later goes on"
        clock.now += timedelta(seconds=OUTSIDE_SECONDS + 1)
        assert write(store, "/0.md", "again", clock).number == 1
        assert [revision.content for revision in history(store, "/0.md")] == ["again"]

    await asyncio.to_thread(again)


class Lives(World):
    """A file that is deleted, cleared away and made anew, in the journal's world."""

    least = 1
    cleared = 0

    def _arrive(self, batch: Any) -> Any:
        log = namespaces.journal(FILES, "/a.md")
        deletes = not isinstance(batch, float) and any(
            isinstance(op, PutOp) and op.namespace == log and op.value is None for op in batch
        )
        chain = self.check_chain() if deletes and self.accepted else []
        answer = super()._arrive(batch)
        for op in () if isinstance(batch, float) else batch:
            if isinstance(op, PutOp) and (item := self.store.get(op.namespace, op.key)):
                item.updated_at = self.now  # the in-memory store's own object
        if deletes and self.accepted and not self.store.search(log):
            assert chain[-1].content is None, "a file that was there was cleared away"
            self.cleared += 1
            for kept in (self.accepted, self.acknowledged, self.refused):
                kept.clear()
            for running in self.running.values():
                running.acknowledged_before = 0
        return answer


# A single deleted file is one too many, but not twice.
ONE_TOO_MANY = Bounds(deleted_files=0.6)


def test_nothing_acknowledged_is_lost_where_deleted_files_are_cleared_away() -> None:
    assert sum(lives(seed) for seed in range(150)) > 20


@pytest.mark.proof
def test_nothing_is_lost_where_deleted_files_are_cleared_in_many_worlds() -> None:
    """Nothing acknowledged is lost where deleted files are cleared away in many more worlds."""
    assert sum(lives(seed) for seed in range(1_000, 11_000)) > 1_000


def lives(seed: int) -> int:
    """How often a file was cleared away in a world."""
    world = Lives(bounds=ONE_TOO_MANY)
    throw(seed, world=world, kinds=["append", "write", "delete", "delete"])
    return world.cleared
