"""The lease of a consolidation of version 0.1, which the next run closes.

Version 0.1 wrote into the files themselves, and noted their revisions first. A run of it that is still alive notices that its
lease is gone, reverts its changes, and ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore

from memory import identity, journal, namespaces
from memory.consolidation.drafts import files_of
from memory.consolidation.guard import revert_file
from memory.consolidation.positions import Position, commit
from memory.journal import NOTHING, MovedError, Revision
from memory.validation import RefusedWriteError


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease of version 0.1.

    Args:
        worker: the run that began the batch.
        base: number of each file's newest revision when the batch began, by key.
        moved: the positions of the batch, once it was accepted.
    """

    worker: str = ""
    base: dict[str, int] | None = None
    moved: dict[str, Position] | None = None

    def is_open(self) -> bool:
        """Whether the run left its batch unfinished."""
        return self.moved is not None or (self.base is not None and bool(self.worker))


async def close_lease(store: BaseStore, actor: identity.Actor, files: namespaces.Namespace, lease: Lease) -> None:
    """Finish the run's accepted batch, or revert its changes and keep others' later ones."""
    if lease.moved is not None:
        await commit(store, actor, lease.moved)
        return
    base, author = lease.base or {}, identity.Author("consolidation", actor.user_id, lease.worker)
    epoch = await journal.run_epoch(store, actor)
    for key in sorted({*base, *await files_of(store, files)}):
        moved = True
        while moved:
            history = await journal.history(store, files, key)
            reverted = _without(key, history, base.get(key, 0), author)
            if not history or reverted == (history[0].content or ""):
                break
            before = next((each for each in history if each.content == reverted), None)
            encoding = before.encoding if before else "utf-8"
            file = FileData(content=reverted, encoding=encoding) if reverted else None
            try:
                await journal.change(store, files, key, lambda _, file=file: file, author, expect=history[0].id, epoch=epoch)  # type: ignore[misc]
                moved = False
            except MovedError:
                continue


def _without(key: str, history: Sequence[Revision], since: int, author: identity.Author) -> str:
    """A file's text without its author's changes after revision `since`, reverted one by one, newest first.

    Args:
        key: the file's key.
        history: newest first.
        since: 0 for no file, or one put around the journal: then the last such revision.
        author: the author of the changes to revert.
    """
    since = since or max((each.number for each in history if each.content is None or each.author.kind == "outside"), default=0)
    known = [*history, NOTHING] if history and history[-1].number == 1 else history
    text = (history[0].content or "") if history else ""
    for new, old in pairwise(known):
        if new.number > since and (new.author.kind, new.author.run_id) == (author.kind, author.run_id):
            try:
                text = revert_file(key, text, old.content or "", new.content or "")
            except RefusedWriteError:  # an invalid profile stays as it is
                return history[0].content or ""
    return text
