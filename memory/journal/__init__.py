"""Writes that lose nothing, and a history of every file, on any `BaseStore`: no lock server, no compare-and-set.

A change that reports success is in the file, or in a later revision made from it. That holds for any number of processes on one
store, with any clocks, and whenever a process dies. Behind this door: `log.py` (one file's log, and values put around it),
`consensus.py` (agreement on the next revision, with the proof), `retention.py` (bounds), `forgetting.py` (refusing writes of
runs from before their person was forgotten), `diffs.py` (comparing texts).
"""

from collections.abc import Callable
from uuid import uuid4

from langgraph.store.base import BaseStore

from memory.identity import Author
from memory.journal.deleted import all_items, deleted_files, histories
from memory.journal.diffs import cut, diff, edits, line_origins, lines_of, revert_change
from memory.journal.forgetting import Began, began, began_now, forget, is_forgotten
from memory.journal.log import Journal
from memory.journal.revisions import NOTHING, Change, LoggedFile, MovedError, Revision, Steps
from memory.journal.runners import acarry_out, file_lock
from memory.langgraph_internals import read_any_value
from memory.namespaces import Namespace

__all__ = [
    "NOTHING", "Began", "Change", "MovedError", "Revision", "Steps", "acarry_out", "all_items", "began", "began_now",
    "change", "cut", "deleted_files", "diff", "edits", "file_lock", "forget", "histories", "history", "is_forgotten",
    "line_origins", "lines_of", "open_log", "revert_change", "settle",
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
    began: Began | None = None,
    revisions: int | None = None,
    new_id: Callable[[], str] = lambda: uuid4().hex,
) -> Revision:
    """Change a file. `Journal.change` documents arguments, result and errors."""
    log = Journal(LoggedFile(namespace, path, new_id=new_id), began, revisions)
    return await acarry_out(store, log.change(make, author, expect=expect))


async def history(store: BaseStore, namespace: Namespace, path: str) -> list[Revision]:
    """The last `REVISIONS_KEPT` revisions of a file, newest first."""
    return await acarry_out(store, open_log(namespace, path).history())


async def settle(store: BaseStore, namespace: Namespace, path: str) -> None:
    """Finish the work of a writer that may have died."""
    await acarry_out(store, open_log(namespace, path).settle())


def open_log(namespace: Namespace, path: str, began: Began | None = None) -> Journal:
    """A file's log. Its changes are steps, for `acarry_out`."""
    return Journal(LoggedFile(namespace, path), began)
