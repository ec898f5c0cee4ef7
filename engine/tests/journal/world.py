"""A world of writers of one file, drawn from a number: their operations interleave, they die, and
what they sent arrives late.

It counts what they were told and what is there.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from unittest.mock import patch

from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore, Op
from langgraph.store.memory import InMemoryStore

from lasting_memory.deployment import DEFAULTS, Limits
from lasting_memory.memory import journal
from lasting_memory.memory.journal import Change, publishing, writing
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people.identity import Author
from lasting_memory.testing.stores import WrappedStore

FILES, PATH = ("memories", "acme:alice"), "/a.md"
AUTHOR = Author("agent")


class DiedError(BaseException):
    """The writer died. No code may catch it, as none could."""


def append(line: str) -> Change:
    return lambda before: create_file_data(f"{before['content'] if before else ''}{line}\n")


def replace(line: str, *lines: str) -> Change:
    """Replaces a whole line; without others it goes."""

    def change(before: FileData | None) -> FileData:
        if before is None or f"{line}\n" not in before["content"]:
            raise RefusedWrite("not found")
        return create_file_data(
            before["content"].replace(f"{line}\n", "".join(f"{each}\n" for each in lines))
        )

    return change


def mortal(
    inner: BaseStore, dice: random.Random, deadly: float, late: list[list[Op]], patience: float = 0
) -> WrappedStore:
    """One writer's way to the store: others come in between, it dies before or after a batch, or
    that arrives late.
    """

    async def others() -> None:
        for _ in range(dice.randrange(6)):
            await asyncio.sleep(dice.random() * patience)

    async def before(ops: list[Op]) -> None:
        await others()
        if dice.random() < deadly:
            late.extend([ops] if dice.random() < 0.5 else [])
            raise DiedError

    async def after(_: list[Op]) -> None:
        await others()
        if dice.random() < deadly:
            raise DiedError

    return WrappedStore(inner, before=before, after=after)


@dataclass
class World:
    """What the writers were told, by line, and what is there."""

    there: set[str] = field(default_factory=set)  # acknowledged, and never taken back
    gone: set[str] = field(default_factory=set)  # taken back, acknowledged
    unknown: set[str] = field(default_factory=set)  # of writers who died
    acknowledged: int = 0
    deaths: int = 0
    late: list[list[Op]] = field(default_factory=list)
    limits: Limits = DEFAULTS

    async def write(self, store: BaseStore, name: str, times: int, dice: random.Random) -> None:
        """One writer's life: it appends, changes and removes lines of its own."""
        own = list[str]()
        try:
            for number in range(times):
                line, kind = (
                    f"{name} {number}",
                    dice.choice(["append", "append", "change", "remove"]),
                )
                old = dice.choice(own) if own and kind != "append" else ""
                make = replace(old, *([line] if kind == "change" else [])) if old else append(line)
                self.unknown |= {line, old}
                self.there.discard(old)
                await journal.change(store, FILES, PATH, make, AUTHOR, limits=self.limits)
                self.unknown -= {line, old}
                self.acknowledged += 1
                if old:
                    self.gone.add(old)
                    own.remove(old)
                if kind != "remove" or not old:
                    self.there.add(line)
                    own.append(line)
        except DiedError:
            self.deaths += 1

    async def check(self, store: BaseStore) -> None:
        """The file has what it should, and each line once."""
        item = await store.aget(FILES, PATH)
        lines = Counter(str(item.value["content"]).splitlines() if item else ())
        assert self.there <= lines.keys(), f"acknowledged and lost: {self.there - lines.keys()}"
        assert not self.gone & lines.keys(), f"taken back and there: {self.gone & lines.keys()}"
        assert max(lines.values(), default=0) <= 1, (
            f"twice: {[line for line in lines if lines[line] > 1]}"
        )


Connect = Callable[[], AbstractAsyncContextManager[BaseStore]]


async def throw(
    seed: int, connect: Connect | None = None, *, tight: bool = False, patience: float = 0
) -> World:
    """A world with everything drawn from one number, looked at when all is over. `connect` gives
    each writer its store.
    """
    world = World(limits=Limits(max_bytes=1) if tight else DEFAULTS)
    dice, memory = random.Random(seed), InMemoryStore()
    connect = connect or (lambda: nullcontext(memory))
    deadly, trims = dice.choice([0, 0, 0.01, 0.05]), dice.choice([0, 1_000, 10_000])

    async def live(name: str) -> None:
        own = random.Random(dice.random())
        async with connect() as store:
            await world.write(
                mortal(store, own, deadly, world.late, patience), name, own.randint(2, 6), own
            )

    async def land(writers: Sequence[asyncio.Task[None]], store: BaseStore) -> None:
        while world.late or not all(writer.done() for writer in writers):
            await asyncio.sleep(patience)
            if world.late and dice.random() < 0.1:
                await store.abatch(world.late.pop(dice.randrange(len(world.late))))

    async with connect() as store, asyncio.timeout(300):
        with (
            patch.multiple(writing, lock_of=lambda *_: asyncio.Lock(), _TRIMS=trims),
            patch.object(publishing, "_WAIT", patience),
        ):
            writers = [
                asyncio.create_task(live(f"w{number}")) for number in range(dice.randint(2, 8))
            ]
            await asyncio.gather(*writers, land(writers, store))
            if not world.deaths:
                await world.check(store)
            look: list[Callable[[], Awaitable[object]]] = [
                lambda: journal.change(
                    store, FILES, PATH, append("the last"), AUTHOR, limits=world.limits
                ),
                lambda: journal.history(store, FILES, PATH, world.limits),
            ]
            await dice.choice(look)()
            await world.check(store)
    return world
