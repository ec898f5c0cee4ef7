"""Epochs: a run that began before its person was forgotten writes nothing afterwards.

A person's epoch counts up when they are forgotten (`memory/forget.py`). A run notes the count when it begins, together with
what it loads into its prompt, and each of its writes is refused unless the count is still the same (`memory/journal.py`
reads it along with the files). Subagents share their run's id, and so its epoch.
"""

from __future__ import annotations

from collections import OrderedDict

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from memory import scopes
from memory.consensus import Steps
from memory.journal import epoch_of

# Where the count is kept, and what it was.
Epoch = tuple[scopes.Namespace, int]

# By run id. As many runs as could be going in one process, and then some: who falls out is taken to begin anew.
_RUNS_KEPT = 10_000
_BEGAN: OrderedDict[str, int] = OrderedDict()


def read(actor: scopes.Actor) -> GetOp:
    """The operation whose result `begin` takes."""
    return GetOp(scopes.epoch(actor), scopes.EPOCH)


def begin(item: Item | None) -> None:
    """Note the epoch in which the current run began; what was noted first stays. Nothing is noted without a server."""
    if run_id := scopes.current_run_id():
        _BEGAN.setdefault(run_id, epoch_of(item))
        _BEGAN.move_to_end(run_id)
        while len(_BEGAN) > _RUNS_KEPT:
            _BEGAN.popitem(last=False)


async def begin_now(store: BaseStore, actor: scopes.Actor) -> None:
    """Read and note it, before the current run reads anything else of the person."""
    begin(await store.aget(scopes.epoch(actor), scopes.EPOCH))


def of_run(actor: scopes.Actor) -> Steps[Epoch | None]:
    """The epoch of the current run; the one it is now, where none was noted. None without a server: there are no run ids."""
    run_id = scopes.current_run_id()
    if run_id is None:
        return None
    if run_id not in _BEGAN:
        (item,) = yield [read(actor)]
        begin(item)
    return scopes.epoch(actor), _BEGAN[run_id]


async def current(store: BaseStore, actor: scopes.Actor) -> Epoch:
    """The epoch of a request, which begins now."""
    return scopes.epoch(actor), epoch_of(await store.aget(scopes.epoch(actor), scopes.EPOCH))


async def is_over(store: BaseStore, actor: scopes.Actor) -> bool:
    """Whether the person was forgotten since the current run began. For what a run writes past the journal."""
    noted = _BEGAN.get(scopes.current_run_id() or "")
    return noted is not None and noted != (await current(store, actor))[1]


async def count_up(store: BaseStore, actor: scopes.Actor) -> None:
    """Begin another epoch: runs of earlier ones write nothing from now on."""
    namespace, count = await current(store, actor)
    await store.abatch([PutOp(namespace, scopes.EPOCH, {"count": count + 1}, index=False)])
