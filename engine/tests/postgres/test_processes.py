"""Many write one file on one Postgres, each in a process of its own, and some are killed at it."""

import asyncio
import multiprocessing
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore

from lasting_memory.agent.scoped_files import ScopedFiles
from lasting_memory.deployment import DEFAULTS
from lasting_memory.memory import journal
from lasting_memory.people.identity import Author
from lasting_memory.testing import stores
from lasting_memory.testing.deployed import deployed

pytestmark = pytest.mark.postgres

FILES = ("memories", "acme:alice")
PATH = "/a.md"
WRITERS = 8
# Forked from a process that has imported everything: a start costs milliseconds, and no thread of
# pytest comes along.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.postgres.test_processes"])


def files_of(store: BaseStore, name: str) -> ScopedFiles:
    return ScopedFiles(
        deployed(), lambda _: FILES, author=Author("agent", run_id=name), store=store
    )


def write(uri: str, name: str, edits: int, told: Path) -> None:
    """One process: edits of the file in two ways, each noted in `told` as soon as it was
    acknowledged or refused.
    """
    asyncio.run(_write(uri, name, edits, told))


async def _write(uri: str, name: str, edits: int, told: Path) -> None:
    mine = random.Random(name)
    with told.open("a", buffering=1) as notes:
        async with stores.opened(uri) as store:
            files = files_of(store, name)
            for number in range(edits):
                tag = f"<{name}.{number}>"
                if mine.random() < 0.5:
                    error = await files.achange(PATH, partial(_append, tag))
                else:  # everybody's edits have the same old text, which all of them keep
                    error = (await files.aedit(PATH, "<top>\n", f"<top>\n{tag}\n")).error
                notes.write(f"{tag} {error!r}\n")


def _append(tag: str, text: str) -> str:
    return f"{text}{tag}\n"


class Hammer:
    """Writers on one database, and what they were told."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri, self._folder, self.processes = uri, folder, list[Any]()

    def start(self, edits: int) -> None:
        name = f"w{len(self.processes)}"
        process = PROCESSES.Process(target=write, args=(self.uri, name, edits, self._folder / name))
        process.start()
        self.processes.append(process)

    def alive(self) -> list[Any]:
        return [process for process in self.processes if process.is_alive()]

    def join(self) -> None:
        for process in self.processes:
            process.join()

    def told(self) -> list[list[str]]:
        """Tag and reason of refusal of every change that its writer heard of."""
        notes = [path.read_text() for path in sorted(self._folder.glob("w*"))]
        return [line.split(" ", 1) for text in notes for line in text.splitlines()]

    async def check(self) -> None:
        """What was acknowledged is in the files once, and files and history are whole."""
        told = self.told()
        assert [note for note in told if note[1] != "None"] == []
        async with stores.opened(self.uri) as store:
            history = await journal.history(store, FILES, PATH)
            item = await store.aget(FILES, PATH)
        assert item
        lines = Counter(item.value["content"].splitlines())
        wrong = {tag: lines[tag] for tag, _ in told if lines[tag] != 1}
        assert wrong == {}, "acknowledged, and so often there"
        assert max(lines.values()) == 1
        assert history[0].content == item.value["content"]
        assert len(history) == min(DEFAULTS.revisions_kept, history[0].number)


@pytest.fixture
def hammer(postgres_uri: str, tmp_path: Path) -> Iterator[Hammer]:
    hammer = Hammer(postgres_uri, tmp_path)

    async def begin() -> None:
        async with stores.emptied(postgres_uri) as store:
            assert not (await files_of(store, "").awrite(PATH, "<top>\n")).error

    asyncio.run(begin())
    yield hammer
    for process in hammer.alive():
        process.kill()
    hammer.join()


@pytest.mark.proof
@pytest.mark.parametrize("kills", [6, pytest.param(40, marks=pytest.mark.proof)])
def test_writers_that_are_killed_lose_nothing_acknowledged(hammer: Hammer, kills: int) -> None:
    """Writers that are killed at any moment lose nothing they were told was written."""
    for _ in range(WRITERS):
        hammer.start(20)
    while kills and (alive := hammer.alive()):
        time.sleep(random.uniform(0.02, 0.2))
        if any(hammer.told()):
            random.choice(alive).kill()
            kills -= 1
            hammer.start(20)
    hammer.join()
    assert [process for process in hammer.processes if process.exitcode == -signal.SIGKILL]
    asyncio.run(hammer.check())
