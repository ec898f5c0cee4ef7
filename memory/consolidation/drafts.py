"""Drafts: private copies of a person's memory files, on which consolidation works until a batch is accepted.

A draft is an in-memory store of this process. Parallel tools lose no writes in it, and a run that dies has changed nothing. A
run that continues in another process has no draft, and begins its batch again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp
from langgraph.store.memory import InMemoryStore

from memory import identity, namespaces
from memory.consolidation.positions import Position
from memory.validation import RefusedWriteError
from settings import MAX_MEMORY_FILES

# More runs than one process has at once. A run whose draft is dropped begins its batch again.
_KEPT = 100
_REVISION = {"revision", "revision_id"}


@dataclass(frozen=True, slots=True)
class Draft:
    """A copy of a person's files, for one batch.

    Args:
        batch: id of the batch.
        files: namespace of the files, the same in the draft and in the real store.
        base: the copied items, by key.
        follows: id of the last accepted batch before the copy (`memory/consolidation/acceptance.py`).
        consolidated: positions of a dry run's accepted batches, which changed its draft alone.
    """

    batch: str
    files: namespaces.Namespace
    base: Mapping[str, Item]
    follows: str
    consolidated: Mapping[str, Position] = field(default_factory=dict)
    store: BaseStore = field(default_factory=InMemoryStore)

    async def now(self) -> dict[str, Item]:
        """The draft's present files."""
        return await files_of(self.store, self.files)


async def files_of(store: BaseStore, files: namespaces.Namespace) -> dict[str, Item]:
    """All files of a namespace, by key."""
    return {item.key: item for item in await store.asearch(files, limit=MAX_MEMORY_FILES + 1)}


class Drafts:
    """The drafts of this process, by run id."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._drafts: OrderedDict[str, Draft] = OrderedDict()
        self._kept = kept

    async def begin(self, run_id: str, draft: Draft, epoch: GetOp, store: BaseStore) -> None:
        """Copy `draft.base` into a run's new draft, in place of its old one. `epoch` reads the person's epoch from `store`."""
        (count,) = await store.abatch([epoch])
        # Without revision numbers, because the draft has no journal of them.
        puts: list[Op] = [
            PutOp(draft.files, key, {name: item.value[name] for name in item.value.keys() - _REVISION})
            for key, item in draft.base.items()
        ]
        if isinstance(count, Item):
            puts.append(PutOp(epoch.namespace, epoch.key, count.value))
        await draft.store.abatch(puts)
        self._drafts[run_id] = draft
        self._drafts.move_to_end(run_id)
        while len(self._drafts) > self._kept:
            self._drafts.popitem(last=False)

    def of(self, run_id: str, batch: str) -> Draft | None:
        """A run's draft for this batch; None if it is gone, or belongs to another batch."""
        draft = self._drafts.get(run_id)
        return draft if draft and draft.batch == batch else None

    def end(self, run_id: str) -> None:
        """Drop a run's draft."""
        self._drafts.pop(run_id, None)

    def store(self) -> BaseStore | None:
        """The store of the current run's memory files; None for the real store, which only scripts use.

        Raises:
            RefusedWriteError: the process that had the draft is gone.
        """
        if not identity.on_server():
            return None
        if draft := self._drafts.get(identity.current_run_id() or ""):
            return draft.store
        raise RefusedWriteError("This consolidation was interrupted; it begins again.")
