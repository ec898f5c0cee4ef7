"""The files of a namespace, and the histories of all, or of those that were deleted."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

from langgraph.store.base import BaseStore, Item

from memory import namespaces
from memory.journal.log import Journal
from memory.journal.revisions import ALL, LoggedFile, Revision, log_of
from memory.journal.runners import acarry_out
from settings import MAX_MEMORY_FILES

_NAMES = 1_000


async def all_items(store: BaseStore, namespace: namespaces.Namespace) -> list[Item]:
    """All items of a namespace, sorted by key."""
    items: list[Item] = []
    while page := await store.asearch(namespace, limit=MAX_MEMORY_FILES, offset=len(items)):
        items += page
        if len(page) < MAX_MEMORY_FILES:
            break
    return sorted(items, key=lambda item: item.key)


async def histories(store: BaseStore, files: namespaces.Namespace) -> list[tuple[str, list[Revision]]]:
    """Path and revisions, newest first, of each file with a history, also of deleted ones. One search reads them all."""
    logs = defaultdict[namespaces.Namespace, list[Item]](list)
    for item in await all_items(store, namespaces.journals(files)):
        if isinstance(item.value.get("path"), str):
            logs[item.namespace].append(item)

    def read() -> list[tuple[str, list[Revision]]]:
        known = [(str(items[0].value["path"]), log_of(items)) for items in logs.values()]
        return [(path, [*log.back_from(log.head())]) for path, log in known]

    return await asyncio.to_thread(read)


async def deleted_files(store: BaseStore, files: namespaces.Namespace) -> AsyncIterator[tuple[str | None, list[Revision]]]:
    """The deleted files of a namespace: path, if the journal names it, and revisions, newest first."""
    prefix, names = namespaces.journals(files), list[str]()
    while page := await store.alist_namespaces(prefix=prefix, max_depth=len(prefix) + 1, limit=_NAMES, offset=len(names)):
        names += [namespace[-1] for namespace in page]
    there = {namespaces.journal(files, item.key)[-1] for item in await all_items(store, files)}
    for name in names:
        if name in there:
            continue
        items = await store.asearch((*prefix, name), limit=ALL)
        path, log = next((str(item.value["path"]) for item in items if "path" in item.value), None), log_of(items)
        if path is None:
            history = list(log.back_from(log.head()))
        else:
            history = await acarry_out(store, Journal(LoggedFile(files, path)).history())
        if history:
            yield path, history
