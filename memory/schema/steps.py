"""The steps of `memory/schema/migration.py`."""

from langgraph.store.base import BaseStore, Item

from memory import identity, journal, namespaces

_PAGE = 1_000


async def complete_run_records(store: BaseStore) -> int:
    """Schema 2: records of consolidations say how many batches were `undone`."""
    records: list[Item] = []
    read = 0
    while page := await store.asearch(namespaces.ALL_RUN_RECORDS, limit=_PAGE, offset=read):
        read += len(page)
        records += [item for item in page if "undone" not in item.value]
    for item in records:
        await _add(store, item, {"undone": 0})
    return len(records)


async def _add(store: BaseStore, item: Item, added: dict[str, int]) -> None:
    """Add fields to a person's item, unless they are forgotten meanwhile: deleted data must not come back."""
    org, user = map(identity.part_of, item.namespace[-1].split(":"))
    actor = identity.Actor(user, org)
    epoch = await journal.current_epoch(store, actor)
    now = await store.aget(item.namespace, item.key)
    if now is None:
        return
    await store.aput(item.namespace, item.key, {**now.value, **added}, index=False)
    if await journal.current_epoch(store, actor) != epoch:
        await store.adelete(item.namespace, item.key)
