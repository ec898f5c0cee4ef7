"""Counts that several processes add to. The store has no compare-and-set, so each process has an item of its own, and the sum
is the count: nothing is lost, and nobody waits.
"""

from collections import Counter
from collections.abc import Mapping
from uuid import uuid4

from langgraph.store.base import BaseStore, PutOp

from memory.journal import file_lock
from memory.namespaces import Namespace

_PROCESS = uuid4().hex
# Processes of a deployment that have counted in one period.
_PROCESSES = 1_000


async def count(
    store: BaseStore, namespace: Namespace, period: str, added: Mapping[str, int], keep: str, *, process: str = _PROCESS
) -> None:
    """Add numbers, by name, to the counts of a period.

    Args:
        namespace: of these counts alone.
        period: such as a day. Periods sort as texts.
        keep: the first period to keep; a new period deletes the counts of earlier ones.
        process: unique to the process.
    """
    key = f"{period}/{process}"
    async with file_lock(namespace, key):
        item = await store.aget(namespace, key)
        total = Counter(item.value if item else {})
        total.update(added)
        await store.aput(namespace, key, dict(total), index=False)
    if item is None:
        counts = await store.asearch(namespace, limit=_PROCESSES)
        await store.abatch([PutOp(namespace, each.key, None) for each in counts if each.key < keep])


async def counted(store: BaseStore, namespace: Namespace, since: str) -> Counter[str]:
    """The counts of all periods from `since` on, added up."""
    total = Counter[str]()
    for item in await store.asearch(namespace, limit=_PROCESSES):
        if item.namespace == namespace and item.key >= since:
            total.update({name: of for name, of in item.value.items() if isinstance(of, int)})
    return total
