"""Dry runs: a run that writes to a copy of the memory files, and not to the files."""

from __future__ import annotations

from collections import OrderedDict

from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore

from memory import scopes
from memory.validation import RefusedWriteError
from settings import MAX_MEMORY_FILES

_KEPT = 16
_REVISION = {"revision", "revision_id"}


class Rehearsals:
    """The copies of the dry runs that are going in this process, by run id."""

    def __init__(self) -> None:
        self._stores: OrderedDict[str, BaseStore] = OrderedDict()

    async def begin(self, run_id: str, store: BaseStore, files: scopes.Namespace) -> None:
        """Copy the files of a namespace for a run."""
        copy = InMemoryStore()
        items = await store.asearch(files, limit=MAX_MEMORY_FILES + 1)
        # Without their revisions: the copy has no journal in which those would be found.
        puts = [PutOp(files, item.key, {name: item.value[name] for name in item.value.keys() - _REVISION}) for item in items]
        await copy.abatch(puts)
        self._stores[run_id] = copy
        while len(self._stores) > _KEPT:
            self._stores.popitem(last=False)

    def end(self, run_id: str) -> None:
        """Throw a run's copy away."""
        self._stores.pop(run_id, None)

    def store(self) -> BaseStore | None:
        """Where the run this is called in reads and writes memory files, and notes its positions; None for the real store.

        Raises:
            RefusedWriteError: it is a dry run whose copy is gone, with the process that had it.
        """
        context = get_runtime().context
        if not (isinstance(context, scopes.Context) and context.dry_run):
            return None
        if copy := self._stores.get(scopes.current_run_id() or ""):
            return copy
        raise RefusedWriteError("This dry run was interrupted; start it again.")
