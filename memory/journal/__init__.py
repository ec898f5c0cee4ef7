"""Writes that lose nothing, and a history of every file, on any `BaseStore`: no lock server, no compare-and-set.

A change that reports success is in the file, or in a later revision made from it. That holds for any number of processes on one
store, with any clocks, and whenever a process dies. Behind this door: `log.py` (one file's log, and values put around it),
`consensus.py` (agreement on the next revision, with the proof), `retention.py` (bounds), `epochs.py` (refusing writes of runs
from before their person was forgotten), `diffs.py` (comparing texts).
"""

from collections.abc import Callable
from uuid import uuid4

from langgraph.store.base import BaseStore

from memory.identity import Actor, Author
from memory.journal.deleted import all_items, deleted_files, histories
from memory.journal.diffs import cut, diff, edits, line_origins, lines_of, revert_change
from memory.journal.epochs import (
    Epoch,
    begin_epoch,
    count_epoch_up,
    current_epoch,
    epoch_is_over,
    epoch_of_run,
    note_epoch,
    read_epoch,
)
from memory.journal.log import Journal
from memory.journal.revisions import NOTHING, Change, LoggedFile, MovedError, Revision, Steps
from memory.journal.runners import acarry_out, file_lock
from memory.langgraph_internals import read_any_value
from memory.namespaces import Namespace

__all__ = [
    "NOTHING", "Change", "Epoch", "MovedError", "Revision", "Steps", "acarry_out", "all_items", "begin_epoch",
    "change", "count_epoch_up", "current_epoch", "cut", "deleted_files", "diff", "edits", "epoch_is_over", "epoch_of_run",
    "file_lock", "histories", "history", "line_origins", "lines_of", "note_epoch", "open_log", "read_epoch", "revert_change",
    "run_epoch", "settle",
]  # fmt: skip

read_any_value()  # whatever reads items imports this package


async def change(
    store: BaseStore,
    namespace: Namespace,
    path: str,
    make: Change,
    author: Author,
    *,
    expect: str | None = None,
    epoch: Epoch | None = None,
    revisions: int | None = None,
    new_id: Callable[[], str] = lambda: uuid4().hex,
) -> Revision:
    """Change a file. `Journal.change` documents arguments, result and errors."""
    log = Journal(LoggedFile(namespace, path, new_id=new_id), epoch, revisions)
    return await acarry_out(store, log.change(make, author, expect=expect))


async def history(store: BaseStore, namespace: Namespace, path: str) -> list[Revision]:
    """The last `REVISIONS_KEPT` revisions of a file, newest first."""
    return await acarry_out(store, open_log(namespace, path).history())


async def settle(store: BaseStore, namespace: Namespace, path: str) -> None:
    """Finish the work of a writer that may have died."""
    await acarry_out(store, open_log(namespace, path).settle())


async def run_epoch(store: BaseStore, actor: Actor) -> Epoch | None:
    """The epoch in which the current run began."""
    return await acarry_out(store, epoch_of_run(actor))


def open_log(namespace: Namespace, path: str, epoch: Epoch | None = None) -> Journal:
    """A file's log. Its changes are steps, for `acarry_out`."""
    return Journal(LoggedFile(namespace, path), epoch)
