"""The files of a namespace, and the histories of those that were deleted."""

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
