"""Counts that several writers add to. The store has no compare-and-set, so each writer has an item of its own, and the sum is
the count: nothing is lost, and nobody waits.
"""

from collections import Counter
from collections.abc import Mapping
from threading import get_ident
from uuid import uuid4

from langgraph.store.base import BaseStore, Item, PutOp

from memory.journal import all_items, file_lock
from memory.namespaces import Namespace

_PROCESS = uuid4().hex


async def count(
    store: BaseStore, namespace: Namespace, period: str, added: Mapping[str, int], keep: str, *, writer: str | None = None
) -> None:
    """Add numbers, by name, to the counts of a period.

    Args:
        namespace: of these counts alone.
        period: such as a day. Periods sort as texts.
        keep: the first period to keep; a new period deletes the counts of earlier ones.
        writer: such as a run; this thread of this process by default, because a lock holds in one event loop.
    """
    key = f"{period}/{writer or f'{_PROCESS}-{get_ident()}'}"
    async with file_lock(namespace, key):
        item = await store.aget(namespace, key)
        total = _numbers(item) if item else Counter()
        total.update(added)
        await store.aput(namespace, key, dict(total), index=False)
    if item is None:
        old = [each.key for each in await all_items(store, namespace) if each.key < keep]
        await store.abatch([PutOp(namespace, each, None) for each in old])


async def counted(store: BaseStore, namespace: Namespace, since: str) -> Counter[str]:
    """The counts of all periods from `since` on, added up."""
    total = Counter[str]()
    # By key: an item that is counted up while pages are read may be in two of them.
    for item in {item.key: item for item in await all_items(store, namespace) if item.key >= since}.values():
        total.update(_numbers(item))
    return total


def _numbers(item: Item) -> Counter[str]:
    return Counter({name: of for name, of in item.value.items() if isinstance(of, int)})
