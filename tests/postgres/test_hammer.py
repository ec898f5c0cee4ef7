"""Many processes write one file on one Postgres, and some are killed at it: what was acknowledged is there."""

from __future__ import annotations

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

import psycopg
import pytest
from langgraph.store.postgres import PostgresStore
from psycopg.rows import dict_row

from memory.files import ScopedFiles
from memory.identity import Author
from memory.journal.log import Journal
from memory.journal.revisions import LoggedFile
from memory.postgres.store import open_store
from settings import REVISIONS_KEPT, Settings
from testing.steps import carry_out

pytestmark = pytest.mark.postgres

FILES = ("memories", "acme:alice")
PATH, LAST = "/a.md", "/last.md"
WRITERS = 8
# Forked from a process that has imported everything: a start costs milliseconds, and no thread of pytest comes along.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.postgres.test_hammer"])


def write(uri: str, name: str, edits: int, told: Path) -> None:
    """One process: edits of the file in four ways, each noted in `told` as soon as it was acknowledged or refused."""
    asyncio.run(_write(uri, name, edits, told))


async def _write(uri: str, name: str, edits: int, told: Path) -> None:
    settings, mine = Settings(memory_postgres_uri=uri), random.Random(name)
    with told.open("a", buffering=1) as notes:
        async with open_store(settings) as store:
            files = ScopedFiles(
                namespace=lambda _: FILES,
                gate=lambda: None,
                route="/memories",
                author=lambda: Author("agent", run_id=name),
                store=store,
            )
            for number in range(edits):
                tag, kind, begun = f"<{name}.{number}>", mine.choice(["append", "insert", "race", "write"]), time.perf_counter()
                if kind == "append":
                    error = await files.achange(PATH, partial(_append, tag))
                elif kind == "insert":  # everybody's edits have the same old text, which all of them keep
                    error = (await files.aedit(PATH, "<top>\n", f"<top>\n{tag}\n")).error
                elif kind == "race":  # only one of those who read the same text may have it
                    text = (await files.aread(PATH)).file_data["content"]  # type: ignore[index]
                    baton = text.splitlines()[0]
                    error = (await files.aedit(PATH, f"{baton}\n", f"baton {tag}\n")).error
                else:
                    error = (await files.awrite(LAST, tag)).error
                took = time.perf_counter() - begun
                notes.write(f"{kind} {tag} {'refused' if error else 'acknowledged'} {took:.4f} {error!r}\n")


def _append(tag: str, text: str) -> str:
    return f"{text}{tag}\n"


class Hammer:
    """Writers on one database, and what they were told."""

    def __init__(self, uri: str, folder: Path) -> None:
        self._uri, self._folder = uri, folder
        self.processes: list[Any] = []
        self.connection = psycopg.connect(uri, autocommit=True, row_factory=dict_row)
        self.store = PostgresStore(self.connection)

    def start(self, edits: int) -> None:
        name = f"w{len(self.processes)}"
        process = PROCESSES.Process(target=write, args=(self._uri, name, edits, self._folder / name))
        process.start()
        self.processes.append(process)

    def alive(self) -> list[Any]:
        return [process for process in self.processes if process.is_alive()]

    def join(self) -> None:
        for process in self.processes:
            process.join()

    def told(self) -> list[list[str]]:
        """Kind, tag, outcome, seconds and reason of every change that its writer heard of."""
        notes = [path.read_text() for path in sorted(self._folder.glob("w*"))]
        return [line.split(" ", 4) for text in notes for line in text.splitlines()]

    def check(self, *, killed: bool) -> None:
        """What was acknowledged is in the files once, what was refused is not, and files and history are whole."""
        told = self.told()
        text = self.text(PATH)
        lines = Counter(text.replace("baton ", "").splitlines())
        acknowledged = {outcome: [note for note in told if note[2] == outcome] for outcome in ("acknowledged", "refused")}
        for kind, tag, *_ in acknowledged["acknowledged"]:
            if kind in {"append", "insert"}:
                assert lines[tag] == 1, f"{tag} was acknowledged and is there {lines[tag]} times"
        for kind, tag, _, _, why in acknowledged["refused"]:
            assert kind == "race", f"{tag} was refused: {why}"
            assert "not found" in why
            assert lines[tag] == 0
        batons = [line for line in text.splitlines() if line.startswith("baton ")]
        assert len(batons) == 1
        last = {tag.partition(".")[0]: tag for kind, tag, *_ in told if kind == "write"}
        assert killed or not last or self.text(LAST) in last.values()
        history = carry_out(self.store, Journal(LoggedFile(FILES, PATH)).history())
        assert history[0].content == text
        assert len(history) == min(REVISIONS_KEPT, history[0].number)

    def text(self, path: str) -> str:
        item = self.store.get(FILES, path)
        assert item
        return str(item.value["content"])


@pytest.fixture
def hammer(postgres_uri: str, tmp_path: Path) -> Iterator[Hammer]:
    hammer = Hammer(postgres_uri, tmp_path)

    async def begin() -> None:
        async with open_store(Settings(memory_postgres_uri=postgres_uri)) as store:
            hammer.connection.execute("TRUNCATE store CASCADE")
            top = ScopedFiles(
                namespace=lambda _: FILES, gate=lambda: None, route="/memories", author=lambda: Author("person"), store=store
            )
            assert not (await top.awrite(PATH, "baton <start>\n<top>\n")).error

    asyncio.run(begin())
    yield hammer
    for process in hammer.alive():
        process.kill()
    hammer.join()
    hammer.connection.close()


@pytest.mark.parametrize("edits", [25, pytest.param(50, marks=pytest.mark.proof)])
def test_eight_processes_that_write_one_file_lose_nothing(hammer: Hammer, edits: int) -> None:
    for _ in range(WRITERS):
        hammer.start(edits)
    hammer.join()
    assert len(hammer.told()) == WRITERS * edits
    hammer.check(killed=False)


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
    for path in (PATH, LAST):
        carry_out(hammer.store, Journal(LoggedFile(FILES, path)).settle())
    hammer.check(killed=True)
