"""Changing a file so that nothing acknowledged is lost.

A change puts a revision, and makes the file a copy of it. Then it looks at the log, which is all
revisions of the file, and merges what others put meanwhile (`publishing.py`). What was put or deleted
around the journal becomes a revision of its own, and is adopted by the next change.

If the writer may not write any more (`writers.py`), its revisions are withdrawn.
"""

import asyncio
import logging
import random
from types import MappingProxyType
from typing import NamedTuple, cast
from uuid import uuid4

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Item, SearchOp

from lasting_memory import platform
from lasting_memory.deployment import DEFAULTS, Limits
from lasting_memory.memory import line_times
from lasting_memory.memory.journal.histories import history_of
from lasting_memory.memory.journal.journaled_file import JournaledFile
from lasting_memory.memory.journal.publishing import publish
from lasting_memory.memory.journal.revisions import (
    NOTHING,
    Change,
    Revision,
    next_revision,
    outside_change,
)
from lasting_memory.memory.journal.trimming import stored_size, trim
from lasting_memory.memory.journal.writers import Writer
from lasting_memory.memory.line_times import LineTimes
from lasting_memory.memory.sources import signs_of
from lasting_memory.memory.stored_files import check_room
from lasting_memory.memory.vouches import Vouch, keep_known, vouched
from lasting_memory.people.identity import Author
from lasting_memory.people.namespaces import Namespace
from lasting_memory.plain_text import plain
from lasting_memory.platform import lock_of

# How often a change is tried on a file that others are merging.
_TRIES = 20
# How often a folder is trimmed while `stored_bytes` are written.
_TRIMS = 25
logger = logging.getLogger(__name__)


class MovedError(Exception):
    """The file's revision is not the expected one."""


async def change(
    store: BaseStore,
    files: Namespace,
    path: str,
    make: Change,
    author: Author,
    *,
    is_bounded: bool = False,
    expect: str | None = None,
    writer: Writer | None = None,
    limits: Limits = DEFAULTS,
    times: LineTimes = MappingProxyType({}),
    vouch: Vouch = keep_known,
) -> Revision:
    """Change a file, and return the newest revision, in which the change is: in the file, or in
    what the next file is made of.

    With `is_bounded` the `limits` bound all files of the namespace together. `expect` is the id of the
    only revision that the change may follow, "" for no file yet. `writer` is None for files of nobody
    in particular. `times` are times of new lines that were written before now. `vouch` says who
    vouches for the file's entries.

    Raises `MovedError` where the file is at another revision than `expect`, and a `ValueError`: from
    `make`, of no room, or because the person was forgotten. Nothing was changed then.
    """
    file = JournaledFile(store, files, path, writer)
    # An in-memory store never waits, so many files in a row would block the loop.
    await asyncio.sleep(0)
    # Nothing depends on the lock, but who waits for it has nothing to merge.
    async with lock_of(files, path):
        start, new_file = await _try_change(file, make, expect, limits, is_bounded=is_bounded)
        base = start.base
        written_before = await _written_before(file, base, new_file, times)
        own_revision = next_revision(
            base,
            new_file,
            author,
            revision_id=uuid4().hex,
            times=line_times.earlier_times(times, written_before),
            signs=await _signs_after(path, base, new_file, vouch),
        )
        newest = await publish(file, base, [*start.adopted_revisions, own_revision])
    # The more is written, the more often.
    weight = _TRIMS * stored_size(newest.content)
    share = random.random()  # noqa: S311
    if share * limits.stored_bytes < weight:
        await _make_room(file, limits)
    return newest


class _Start(NamedTuple):
    """The revision that a change follows, and revisions to put before the change, which are not
    stored yet: merges, and what was done around the journal.
    """

    base: Revision
    adopted_revisions: list[Revision]


async def _try_change(
    file: JournaledFile, make: Change, expect: str | None, limits: Limits, *, is_bounded: bool
) -> tuple[_Start, FileData | None]:
    """Where a change begins, and the new file that it makes; None for a deletion. Nothing of it is
    put. Raises as `change`.
    """
    tries = 0
    while True:
        tries += 1
        items, item = await _read_present(file, limits, is_bounded=is_bounded)
        start = await _find_start(file, item)
        if expect is not None and start.base.id != expect:
            if start.adopted_revisions:  # so that the history says to what it has moved
                await publish(file, start.base, start.adopted_revisions)
            raise MovedError
        try:
            new_file = make(start.base.file())
            if is_bounded and new_file is not None:
                size = len(new_file["content"].encode())
                check_room(items, file.path, size, limits)
        except ValueError:
            has_moved = await _has_moved(file, start.base, limits)
            may_try_again = has_moved and not start.adopted_revisions and tries < _TRIES
            if not may_try_again:
                raise
        else:
            return start, new_file


async def _read_present(
    file: JournaledFile, limits: Limits, *, is_bounded: bool
) -> tuple[list[Item], Item | None]:
    """The files of the namespace if they are bounded together, else none; and the file's own item,
    None if there is none.
    """
    if not is_bounded:
        own_item = await file.item()
        return [], own_item
    search_limit = limits.max_files + 1
    search = SearchOp(file.files, limit=search_limit)
    results, _ = await file.read(search)
    items = cast("list[Item]", results[0])
    for item in items:
        if item.key == file.path:
            return items, item
    return items, None


async def _find_start(file: JournaledFile, item: Item | None) -> _Start:
    """Where a change of a file begins. `item` is the file's as it was read."""
    base = file.revision_of(item)
    if base is not None:
        return _Start(base, [])
    log, shown_revision = await file.look()
    # Read after the log, so that what the log lacks is not taken for a deletion.
    has_item_or_log = shown_revision is not NOTHING or bool(log.by_id)
    if has_item_or_log:
        item = await file.store.aget(file.files, file.path)
    base = file.revision_of(item)
    if base is not None:
        return _Start(base, [])
    tips = log.tips() or [NOTHING]
    merges = await log.merges(file.path, tips)
    newest = [*tips, *merges][-1]
    outside_revision = outside_change(newest, item)
    if outside_revision is None:
        return _Start(newest, merges)
    return _Start(outside_revision, [*merges, outside_revision])


async def _has_moved(file: JournaledFile, base: Revision, limits: Limits) -> bool:
    """Whether the file has another newest revision by now. Merges what others have not merged yet."""
    revisions = await history_of(file, limits)
    if not revisions:
        return False
    newest = revisions[0]
    return newest.id != base.id


async def _written_before(
    file: JournaledFile, base: Revision, new_file: FileData | None, known_times: LineTimes
) -> dict[str, str]:
    """The times of new lines of a file whose day has passed: when they stood in this folder first.
    They are taken back, or come from another file. Few changes have such a line.
    """
    if new_file is None or new_file["encoding"] != "utf-8":
        return {}
    text_before = base.text()
    unknown_keys = line_times.lines_of_unknown_time(text_before, new_file["content"], known_times)
    if not unknown_keys:
        return {}
    revisions = await file.folder_revisions()
    return await platform.in_thread(line_times.first_times, revisions, unknown_keys)


async def _signs_after(path: str, base: Revision, new_file: FileData | None, vouch: Vouch) -> str:
    """Who vouches for the entries of a file after a change, as signs; "" where nothing is known."""
    nothing_is_known = vouch is keep_known and not base.sources
    if new_file is None or nothing_is_known:
        return ""
    if new_file["encoding"] != "utf-8":
        return ""
    content = plain(new_file["content"])
    sources = await platform.in_thread(
        vouched,
        path,
        before=base.content,
        signs=base.sources,
        after=content,
        vouch=vouch,
    )
    return await platform.in_thread(signs_of, path, content, sources)


async def _make_room(file: JournaledFile, limits: Limits) -> None:
    """Trim the file's folder after a change of the file. A later change does it where this fails."""
    try:
        await trim(file.store, file.files, limits, file.writer)
    except Exception:
        logger.warning(
            "No room was made after a change of %r, which is made.", file.path, exc_info=True
        )
