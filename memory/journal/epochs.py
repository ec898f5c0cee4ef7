"""Epochs: a run that began before its person was forgotten writes nothing afterwards.

Forgetting a person counts their epoch up (`api/forget.py`). A run notes the count when it begins. Each of its writes reads the
count along with the files (`memory/journal/log.py`), and is refused if it has changed. Subagents share their run's id and
epoch.
"""

from collections import OrderedDict

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from memory import identity, namespaces
from memory.journal.log import epoch_of
from memory.journal.revisions import Steps

# The namespace of the count, and its value.
Epoch = tuple[namespaces.Namespace, int]

# By run id; more runs than one process has at once. A run that is dropped counts as beginning anew.
_RUNS_KEPT = 10_000
_BEGAN: OrderedDict[str, int] = OrderedDict()


def read_epoch(actor: identity.Actor) -> GetOp:
    """The operation whose result `note_epoch` takes."""
    return GetOp(namespaces.epoch(actor), namespaces.EPOCH)


def note_epoch(item: Item | None) -> None:
    """Note the epoch in which the current run began; the first note stays. Without a server there is nothing to note."""
    if run_id := identity.current_run_id():
        _BEGAN.setdefault(run_id, epoch_of(item))
        _BEGAN.move_to_end(run_id)
        while len(_BEGAN) > _RUNS_KEPT:
            _BEGAN.popitem(last=False)


async def begin_epoch(store: BaseStore, actor: identity.Actor) -> None:
    """Read and note the epoch, before the current run reads anything else of the person."""
    note_epoch(await store.aget(namespaces.epoch(actor), namespaces.EPOCH))


def epoch_of_run(actor: identity.Actor) -> Steps[Epoch | None]:
    """The epoch of the current run; the present one if none was noted. None without a server, which gives run ids."""
    run_id = identity.current_run_id()
    if run_id is None:
        return None
    if run_id not in _BEGAN:
        (item,) = yield [read_epoch(actor)]
        note_epoch(item)
    return namespaces.epoch(actor), _BEGAN[run_id]


async def current_epoch(store: BaseStore, actor: identity.Actor) -> Epoch:
    """The present epoch, in which a request begins."""
    return namespaces.epoch(actor), epoch_of(await store.aget(namespaces.epoch(actor), namespaces.EPOCH))


async def epoch_is_over(store: BaseStore, actor: identity.Actor, began: Epoch | None = None) -> bool:
    """Whether the person was forgotten since the current run began, or since the epoch in which a request did. For writes that
    bypass the journal.
    """
    noted = began[1] if began else _BEGAN.get(identity.current_run_id() or "")
    return noted is not None and noted != (await current_epoch(store, actor))[1]


async def count_epoch_up(store: BaseStore, actor: identity.Actor) -> None:
    """Begin another epoch: runs of earlier ones can no longer write."""
    namespace, count = await current_epoch(store, actor)
    await store.abatch([PutOp(namespace, namespaces.EPOCH, {"count": count + 1}, index=False)])
