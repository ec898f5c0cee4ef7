"""Changing a file so that nothing acknowledged is lost, and reading its history.

A change puts a revision, and makes the file a copy of it. Then it looks at the log, which is all
revisions of the file, and merges what others put meanwhile. A tip is a revision that no other was
made from. The file shows the revision of which it is a copy: all is merged when there is one tip, and
the file shows it. What was put or deleted around the journal becomes a revision of its own, and is
adopted by the next change.

Every look at the log also asks whether the writer may still write (`writers.py`). If not, its
revisions are withdrawn.
"""

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Sequence
from types import MappingProxyType
from typing import NamedTuple, cast
from uuid import uuid4

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, Result, SearchOp

from lasting_memory import platform
from lasting_memory.deployment import DEFAULTS, Limits
from lasting_memory.memory import ends
from lasting_memory.memory.ends import Written
from lasting_memory.memory.journal.listing import all_items
from lasting_memory.memory.journal.revisions import (
    NOTHING,
    Change,
    Log,
    Revision,
    copy_op,
    next_revision,
    outside_change,
    revision_of_copy,
    revision_op,
)
from lasting_memory.memory.journal.trimming import stored_size, trim
from lasting_memory.memory.journal.writers import Began, mark_ops, refuse_if_marked
from lasting_memory.memory.sources import Vouch, keep_known, signs_of, vouched
from lasting_memory.memory.stored_files import check_room
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Author
from lasting_memory.people.namespaces import Namespace
from lasting_memory.plain_text import plain
from lasting_memory.platform import lock_of

# Items of one search for all revisions of a file.
_ALL = 10_000
# Looks at the log after one change, and seconds before the second and each further one: of several
# writers one merges for all. Beyond these, others are writing so fast that one of them makes the
# next merge.
_ROUNDS = 50
_WAIT = 0.02
# A wait grows with each look, up to so many times the first one.
_LONGEST_WAITS = 10
# How often a change is tried on a file that others are merging, and how many revisions before its
# own a writer looks at.
_TRIES = 20
_BEFORE = 4
# How often a folder is trimmed while `stored_bytes` are written.
_TRIMS = 25
logger = logging.getLogger(__name__)


# The path of a file, and its revisions, newest first.
FileHistory = tuple[str, list[Revision]]


class MovedError(Exception):
    """The file's revision is not the expected one."""


class JournaledFile(NamedTuple):
    """A file, and who looks at it or changes it.

    `began` is when the writer began; None for files of nobody in particular. With `heeds_erased` a
    deletion of a fact for good since then refuses the writer.
    """

    store: BaseStore
    files: Namespace
    path: str
    began: Began | None = None
    heeds_erased: bool = True

    async def look(self, since: int = 0) -> tuple[Log, Revision | None]:
        """Its revisions from a number on, and the one that it shows: `NOTHING` if there is no file,
        None if the file is no copy of a revision. Raises as `read`.
        """
        revisions = SearchOp(
            namespaces.journal(self.files, self.path),
            filter={"slot": {"$gte": f"{since:08}"}},
            limit=_ALL,
        )
        own_item = GetOp(self.files, self.path)
        results, forgotten = await self.read(revisions, own_item)
        # A search gives items, and a get an item or None.
        items = cast("list[Item]", results[0])
        item = cast("Item | None", results[1])
        log = Log(items, forgotten)
        if item is None:
            return log, NOTHING
        shown = self.revision_of(item)
        return log, shown

    async def item(self) -> Item | None:
        """The file as an item; None if there is none. Raises as `read`."""
        own_item = GetOp(self.files, self.path)
        results, _ = await self.read(own_item)
        return cast("Item | None", results[0])

    def revision_of(self, item: Item | None) -> Revision | None:
        """The revision that this item, the file's, shows; None if it is no copy of a revision."""
        return revision_of_copy(self.files, self.path, item)

    async def read(self, *ops: Op) -> tuple[list[Result], str]:
        """The results of a batch, and when the person was forgotten last; "" for never. Raises
        `RefusedWrite` if the writer began before that, or before its conversation, or a fact of the
        person's, was deleted.
        """
        if self.began is None:
            results = await self.store.abatch(ops)
            return results, ""
        marks = mark_ops(self.began, heeds_erased=self.heeds_erased)
        all_ops = [*ops, *marks]
        all_results = await self.store.abatch(all_ops)
        count = len(ops)
        forgotten = refuse_if_marked(all_results[count:], self.began)
        return all_results[:count], forgotten

    async def folder_revisions(self) -> list[Item]:
        """The revisions of all files of its folder, as items."""
        place = namespaces.journals(self.files)
        return await all_items(self.store, place)

    async def put(self, revisions: Sequence[Revision], newest: Revision) -> None:
        """Put revisions, and make the file a copy of the newest."""
        began = self.began.at if self.began else ""
        # The copy first: where a batch is not one step, a revision without its copy looks like a
        # deletion.
        ops = list[PutOp]()
        ops.append(copy_op(self.files, self.path, newest))
        for revision in revisions:
            ops.append(revision_op(self.files, self.path, revision, began))
        is_new = bool(revisions) and revisions[0].number == 1
        memory_note = namespaces.noted(self.files)
        if is_new and memory_note is not None:
            ops.append(PutOp(*memory_note, {}, index=False))
        await self.store.abatch(ops)


# --- A change


async def change(
    store: BaseStore,
    files: Namespace,
    path: str,
    make: Change,
    author: Author,
    *,
    bounded: bool = False,
    expect: str | None = None,
    began: Began | None = None,
    limits: Limits = DEFAULTS,
    written: Written = MappingProxyType({}),
    vouch: Vouch = keep_known,
) -> Revision:
    """Change a file, and return the newest revision, in which the change is: in the file, or in
    what the next file is made of.

    With `bounded` the `limits` bound all files of the namespace together. `expect` is the id of the
    only revision that the change may follow, "" for no file yet. `began` is None for files of nobody
    in particular. `written` are times of new lines that were written before now. `vouch` says who
    vouches for the file's entries.

    Raises `MovedError` where the file is at another revision than `expect`, and a `ValueError`: from
    `make`, of no room, or because the person was forgotten. Nothing was changed then.
    """
    file = JournaledFile(store, files, path, began)
    # An in-memory store never waits, so many files in a row would block the loop.
    await asyncio.sleep(0)
    # Nothing depends on the lock, but who waits for it has nothing to merge.
    async with lock_of(files, path):
        start, after = await _try_change(file, make, expect, limits, bounded=bounded)
        base = start.base
        written_before = await _written_before(file, base, after, written)
        mine = next_revision(
            base,
            after,
            author,
            revision_id=uuid4().hex,
            times=ends.earlier_times(written, written_before),
            signs=await _signs_after(path, base, after, vouch),
        )
        newest = await publish(file, base, [*start.adopted, mine])
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
    adopted: list[Revision]


async def _try_change(
    file: JournaledFile, make: Change, expect: str | None, limits: Limits, *, bounded: bool
) -> tuple[_Start, FileData | None]:
    """Where a change begins, and the new file that it makes; None for a deletion. Nothing of it is
    put. Raises as `change`.
    """
    tries = 0
    while True:
        tries += 1
        items, item = await _read_present(file, limits, bounded=bounded)
        start = await _find_start(file, item)
        if expect is not None and start.base.id != expect:
            if start.adopted:  # so that the history says to what it has moved
                await publish(file, start.base, start.adopted)
            raise MovedError
        try:
            after = make(start.base.file())
            if bounded and after is not None:
                size = len(after["content"].encode())
                check_room(items, file.path, size, limits)
        except ValueError:
            has_moved = await _has_moved(file, start.base, limits)
            may_try_again = has_moved and not start.adopted and tries < _TRIES
            if not may_try_again:
                raise
        else:
            return start, after


async def _read_present(
    file: JournaledFile, limits: Limits, *, bounded: bool
) -> tuple[list[Item], Item | None]:
    """The files of the namespace if they are bounded together, else none; and the file's own item,
    None if there is none.
    """
    if not bounded:
        own_item = await file.item()
        return [], own_item
    most = limits.max_files + 1
    search = SearchOp(file.files, limit=most)
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
    log, shown = await file.look()
    # Read after the log, so that what the log lacks is not taken for a deletion.
    has_item_or_log = shown is not NOTHING or bool(log.by_id)
    if has_item_or_log:
        item = await file.store.aget(file.files, file.path)
    base = file.revision_of(item)
    if base is not None:
        return _Start(base, [])
    tips = log.tips() or [NOTHING]
    merges = await log.merges(file.path, tips)
    newest = [*tips, *merges][-1]
    around = outside_change(newest, item)
    if around is None:
        return _Start(newest, merges)
    return _Start(around, [*merges, around])


async def _has_moved(file: JournaledFile, base: Revision, limits: Limits) -> bool:
    """Whether the file has another newest revision by now. Merges what others have not merged yet."""
    revisions = await _history(file, limits)
    if not revisions:
        return False
    newest = revisions[0]
    return newest.id != base.id


async def _written_before(
    file: JournaledFile, base: Revision, after: FileData | None, known: Written
) -> dict[str, str]:
    """The times of new lines of a file whose day has passed: when they stood in this folder first.
    They are taken back, or come from another file. Few changes have such a line.
    """
    if after is None or after["encoding"] != "utf-8":
        return {}
    text_before = base.text()
    unknown = ends.lines_of_unknown_time(text_before, after["content"], known)
    if not unknown:
        return {}
    revisions = await file.folder_revisions()
    return await platform.in_thread(ends.first_times, revisions, unknown)


async def _signs_after(path: str, base: Revision, after: FileData | None, vouch: Vouch) -> str:
    """Who vouches for the entries of a file after a change, as signs; "" where nothing is known."""
    nothing_is_known = vouch is keep_known and not base.sources
    if after is None or nothing_is_known:
        return ""
    if after["encoding"] != "utf-8":
        return ""
    content = plain(after["content"])
    sources = await platform.in_thread(
        vouched,
        path,
        before=base.content,
        signs=base.sources,
        after=content,
        vouch=vouch,
    )
    return await platform.in_thread(signs_of, path, content, sources)


async def publish(file: JournaledFile, base: Revision, mine: Sequence[Revision]) -> Revision:
    """Put revisions that were made of `base`, and merge what others put meanwhile, until there is
    one newest revision, of which the file is a copy. Returns the newest one.

    Raises `RefusedWrite` if the writer may not write by now; its revisions are withdrawn then. After
    any other error of the store the change is made, and is merged later.
    """
    made_here = [base, *mine]
    newest = made_here[-1]
    known = {revision.id: revision for revision in made_here if revision.id}
    since = max(base.number - _BEFORE, 0)
    await file.put(mine, newest)
    try:
        for tries in range(_ROUNDS):
            log, shown = await file.look(since)
            log.by_id = {**known, **log.by_id}
            tips = log.tips()
            has_one_tip = len(tips) == 1
            if has_one_tip:
                # The file shows what this writer put, or what it is read to show.
                shown_id = shown.id if shown else None
                is_shown = tips[0].id in (newest.id, shown_id)
                if is_shown:
                    return tips[0]
            if since and _lacks_parents(log, tips):
                since = 0  # all revisions, in the next round
                continue
            # Every second time it waits, in which another writer may merge for all.
            is_turn_of_others = tries % 2 == 0
            if is_turn_of_others and not has_one_tip:
                await _wait_for_merge(tries)
                continue
            merges = await log.merges(file.path, tips)
            newest = [*tips, *merges][-1]
            mine = [*mine, *merges]
            await file.put(merges, newest)
    except RefusedWrite:
        # The person was forgotten meanwhile, or the conversation or a fact deleted.
        await _withdraw(file, mine)
        raise
    except Exception:
        # The change is made, and whoever looks next merges it.
        logger.warning(
            "The store failed at the end of a change of %r, which is made.",
            file.path,
            exc_info=True,
        )
    return newest


async def _wait_for_merge(tries: int) -> None:
    """Wait at random, so that of several writers one merges first."""
    waits = min(tries + 1, _LONGEST_WAITS)
    seconds = random.uniform(0, _WAIT * waits)  # noqa: S311
    await asyncio.sleep(seconds)


def _lacks_parents(log: Log, tips: Sequence[Revision]) -> bool:
    """Whether a log that begins late lacks what some of its revisions to merge were made from."""
    parents = set[str]()
    for revision in log.missing(tips):
        parents.update(revision.parents)
    return not parents <= log.by_id.keys()


async def _make_room(file: JournaledFile, limits: Limits) -> None:
    """Trim the file's folder after a change of the file. A later change does it where this fails."""
    try:
        await trim(file.store, file.files, limits, file.began)
    except Exception:
        logger.warning(
            "No room was made after a change of %r, which is made.", file.path, exc_info=True
        )


# --- Withdrawing changes


async def withdraw_run(store: BaseStore, files: Namespace, path: str, run_id: str) -> None:
    """Delete what a run has changed in a file, as if it had not: not even the history says so."""
    file = JournaledFile(store, files, path)
    async with lock_of(files, path):
        log, _ = await file.look()
        of_run = list[Revision]()
        for revision in log.by_id.values():
            if revision.author.run_id == run_id:
                of_run.append(revision)
        if of_run:
            await _withdraw(file, of_run)


async def _withdraw(file: JournaledFile, revisions: Sequence[Revision]) -> None:
    """Delete revisions, and make the file what it is without them."""
    ops = list[PutOp]()
    for revision in revisions:
        put = revision_op(file.files, file.path, revision, began="")
        ops.append(PutOp(put.namespace, put.key, None))
    await file.store.abatch(ops)
    # The writer may not look any more.
    for_anybody = file._replace(began=None)
    log, _ = await for_anybody.look()
    revisions_left = log.history()
    newest = revisions_left[0] if revisions_left else NOTHING
    await for_anybody.put([], newest)
    await _delete_note_of_memory(file)


async def _delete_note_of_memory(file: JournaledFile) -> None:
    """Delete the note that a person has memory with an assistant, where no file and no history of
    theirs is left.
    """
    note = namespaces.noted(file.files)
    if note is None:
        return
    journals = namespaces.journals(file.files)
    any_file = SearchOp(file.files, limit=1)
    any_revision = SearchOp(journals, limit=1)
    items_left = await file.store.abatch([any_file, any_revision])
    if not any(items_left):
        await file.store.adelete(*note)


# --- Histories


async def history(
    store: BaseStore,
    files: Namespace,
    path: str,
    limits: Limits = DEFAULTS,
    began: Began | None = None,
) -> list[Revision]:
    """The last revisions of a file that are kept, newest first. Finishes what a writer who died has
    left.

    Raises `RefusedWrite` if the file's person was forgotten since this `began`, which would bring
    the file back.
    """
    file = JournaledFile(store, files, path, began)
    return await _history(file, limits)


async def _history(file: JournaledFile, limits: Limits) -> list[Revision]:
    """As `history`."""
    reading = file._replace(heeds_erased=False)
    log, shown = await reading.look()
    tips = log.tips()
    if shown is not None and _is_unfinished(log, shown, tips):
        merges = await log.merges(file.path, tips)
        await publish(file, max(tips), merges)
        log, _ = await reading.look()
    revisions = log.history()
    return revisions[: limits.revisions_kept]


def _is_unfinished(log: Log, shown: Revision, tips: Sequence[Revision]) -> bool:
    """Whether a writer has left several tips, or a file that shows an older revision. `shown` is
    `NOTHING` if there is no file.
    """
    is_there = shown.id != ""
    if is_there and shown.id not in log.by_id:
        return False  # its revision is not there yet, is no longer kept, or cannot be read
    if len(tips) > 1:
        return True
    tip_ids = [tip.id for tip in tips]
    return is_there and shown.id not in tip_ids


async def renew_copy(file: JournaledFile) -> None:
    """Make a file the copy of its newest revision, where it shows an older one, or another text.
    Leaves a file alone that is no copy.
    """
    item = await file.item()
    log, _ = await file.look()
    shown = file.revision_of(item)
    newest = max(log.tips(), default=None)
    if shown is None or newest is None:
        return
    is_other_revision = shown.id != newest.id
    if is_other_revision or shown.content != newest.content:
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
