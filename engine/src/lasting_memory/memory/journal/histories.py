"""Histories of files: their revisions, newest first. What a writer who died has left is finished
first.
"""

from collections import defaultdict
from collections.abc import Sequence

from langgraph.store.base import BaseStore, Item

from lasting_memory.deployment import DEFAULTS, Limits
from lasting_memory.memory.journal.journaled_file import JournaledFile
from lasting_memory.memory.journal.listing import all_items
from lasting_memory.memory.journal.log import Log
from lasting_memory.memory.journal.publishing import publish
from lasting_memory.memory.journal.revisions import Revision
from lasting_memory.memory.journal.writers import Writer
from lasting_memory.people import namespaces
from lasting_memory.people.namespaces import Namespace

# The path of a file, and its revisions, newest first.
FileHistory = tuple[str, list[Revision]]


async def history(
    store: BaseStore,
    files: Namespace,
    path: str,
    limits: Limits = DEFAULTS,
    writer: Writer | None = None,
) -> list[Revision]:
    """The last revisions of a file that are kept, newest first. Finishes what a writer who died has
    left.

    Raises `RefusedWrite` if the file's person was forgotten since the `writer` began, which would bring
    the file back.
    """
    file = JournaledFile(store, files, path, writer)
    return await history_of(file, limits)


async def history_of(file: JournaledFile, limits: Limits) -> list[Revision]:
    """As `history`, of a file that somebody looks at or changes."""
    reading = file._replace(heeds_erased=False)
    log, shown_revision = await reading.look()
    tips = log.tips()
    if shown_revision is not None and _is_unfinished(log, shown_revision, tips):
        merges = await log.merges(file.path, tips)
        await publish(file, max(tips), merges)
        log, _ = await reading.look()
    revisions = log.history()
    return revisions[: limits.revisions_kept]


def _is_unfinished(log: Log, shown_revision: Revision, tips: Sequence[Revision]) -> bool:
    """Whether a writer has left several tips, or a file that shows an older revision.
    `shown_revision` is `NOTHING` if there is no file.
    """
    is_there = shown_revision.id != ""
    if is_there and shown_revision.id not in log.by_id:
        return False  # its revision is not there yet, is no longer kept, or cannot be read
    if len(tips) > 1:
        return True
    tip_ids = [tip.id for tip in tips]
    return is_there and shown_revision.id not in tip_ids


async def renew_copy(file: JournaledFile) -> None:
    """Make a file the copy of its newest revision, where it shows an older one, or another text.
    Leaves a file alone that is no copy.
    """
    item = await file.item()
    log, _ = await file.look()
    shown_revision = file.revision_of(item)
    newest = max(log.tips(), default=None)
    if shown_revision is None or newest is None:
        return
    is_other_revision = shown_revision.id != newest.id
    if is_other_revision or shown_revision.content != newest.content:
        await publish(file, newest, [])


async def histories(
    store: BaseStore, files: Namespace, limits: Limits = DEFAULTS
) -> list[FileHistory]:
    """The history of each file that has one, also of deleted ones. One search reads them all."""
    place = namespaces.journals(files)
    items = await all_items(store, place)
    return histories_in(items, limits)


def histories_in(items: Sequence[Item], limits: Limits) -> list[FileHistory]:
    """The histories, as `histories` gives them, in all items of the journals of a folder
    (`namespaces.journals`). An item without a path is left out.
    """
    logs = defaultdict[str, list[Item]](list)
    for item in items:
        path = item.value.get("path")
        if isinstance(path, str):
            logs[path].append(item)
    histories = list[FileHistory]()
    for path, log in logs.items():
        revisions = Log(log).history()
        last_revisions = revisions[: limits.revisions_kept]
        histories.append((path, last_revisions))
    return histories
