"""Changing a file so that nothing acknowledged is lost, reading its history, and deleting what is
more than is kept.

What began before its person was forgotten writes nothing afterwards. `http/forget.py`
writes that time. A run's id is a UUIDv7, which says when the run was created; a request knows when
it came. Every write compares the two. Subagents share their run's id. Nor does a run write anything
that was deleted since it began, or whose conversation was. Nor does what began before a fact of the
person was deleted for good: it may have read the fact.
"""

import asyncio
import json
import logging
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from uuid import uuid4

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, SearchOp

from lasting_memory import platform
from lasting_memory.deployment import DEFAULTS, Limits
from lasting_memory.memory import ends
from lasting_memory.memory.ends import Written
from lasting_memory.memory.journal.dropped import dropped_ops, within_bounds
from lasting_memory.memory.journal.revisions import (
    NOTHING,
    Change,
    Log,
    Revision,
    copied,
    copy,
    made_of,
    outside,
    put,
)
from lasting_memory.memory.sources import Vouch, keep_known, signs_of, vouched
from lasting_memory.memory.stored_files import check_room, deletions
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import identity, namespaces
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Author
from lasting_memory.people.namespaces import Namespace
from lasting_memory.plain_text import plain
from lasting_memory.platform import lock_of

# Items of one search for all, and of one search for some.
_ALL = 10_000
_SEARCHED = 500
# Items of one batch of writes that bypass the journal.
_PUT_AT_ONCE = 200
# Looks at the log after one change, and seconds before the second and each further one: of several
# writers one merges for all. Beyond these, others are writing so fast that one of them makes the
# next merge.
_ROUNDS = 50
_WAIT = 0.02
# How often a change is tried on a file that others are merging, and how many revisions before its
# own a writer looks at.
_TRIES = 20
_BEFORE = 4
# How often everything is looked at while `stored_bytes` are written; and for how many seconds
# revisions stay, whatever room there is, because somebody may be merging them.
_TRIMS = 25
_MERGING_SECONDS = 60
# An item's path, author, ids and times, beside its text.
_OVERHEAD_BYTES = 1_000
_FORGOTTEN = (
    "What is remembered of this person was deleted since this run began; it writes nothing."
)
_FORGOTTEN_MEANWHILE = "What is remembered of this person was deleted meanwhile."
_NO_THREAD = "none"  # of what is no run
_DELETED = "This conversation was deleted since its run began; it writes nothing."
_RUN_DELETED = "This run was deleted since it began; it writes nothing."
# Key of the time at which a fact of a person was deleted for good last, beside those of
# conversations and runs.
_FACTS = "facts"
ERASED = "A fact of this memory was deleted for good since this began; it writes nothing. What begins from now on writes again."
# How long the time of a deletion is kept: a run ends within a day. And how many older ones are
# deleted with one deletion.
_DELETED_KEPT = timedelta(days=2)
_DELETED_DROPPED = 100
logger = logging.getLogger(__name__)


# --- Who was forgotten, and which conversation deleted


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="microseconds")  # one width, so that texts compare as times


@dataclass(frozen=True, slots=True)
class Began:
    """Whose memory a run or a request writes, and the time at which it began, in ISO format, UTC:
    now.
    """

    actor: identity.Actor
    at: str = field(default_factory=lambda: _iso(datetime.now(UTC)))
    thread_id: str = ""  # of a run
    run_id: str = ""


def began_of_run(actor: identity.Actor) -> Began | None:
    """When the current run began. None without a server, which gives run ids."""
    run_id = identity.current_run_id()
    if run_id is None:
        return None
    at = identity.time_of_run(run_id)
    thread_id = identity.current_thread_id()
    return Began(actor, at, thread_id, run_id)


def began_of_caller(caller: Caller) -> Began | None:
    """The same of a caller's run, for the person for whom it acts."""
    if not caller.run_id:
        return None
    return Began(caller.actor, caller.began, caller.thread_id, caller.run_id)


async def forget(store: BaseStore, actor: identity.Actor) -> None:
    """Write the time: what began before can no longer write."""
    place = namespaces.forgotten(actor)
    now = Began(actor).at
    await store.aput(place, namespaces.FORGOTTEN, {"at": now}, index=False)


class Deleted(NamedTuple):
    """What of a person, or of a run of theirs, was deleted since the run or a request began."""

    everything: bool  # the person was forgotten
    conversation: bool  # the run, or its conversation
    fact: bool  # a fact, for good


_NOTHING_DELETED = Deleted(everything=False, conversation=False, fact=False)


async def read_deleted(store: BaseStore, began: Began | None) -> Deleted:
    """What was deleted since then, in one batch; nothing without a server."""
    if began is None:
        return _NOTHING_DELETED
    items = await store.abatch(deleted_ops(began))
    return deleted_in(items, began)


def deleted_ops(began: Began | None) -> list[GetOp]:
    """The operations whose results `deleted_in` takes; none without a server."""
    if began is None:
        return []
    forgotten = GetOp(namespaces.forgotten(began.actor), namespaces.FORGOTTEN)
    deleted = namespaces.deleted_threads(began.actor)
    ops = [forgotten, GetOp(deleted, _FACTS)]
    if began.thread_id:
        ops.append(GetOp(deleted, began.thread_id))
    if began.run_id:
        ops.append(GetOp(deleted, began.run_id))
    return ops


def deleted_in(items: Sequence[object], began: Began | None) -> Deleted:
    """What of a person, or of a run, was deleted since then."""
    if began is None:
        return _NOTHING_DELETED
    is_since = list[bool]()
    for item in items:
        deleted_at = _time_in(item) if isinstance(item, Item) else ""
        is_since.append(deleted_at >= began.at)
    forgotten, fact, *others = is_since
    return Deleted(forgotten, any(others), fact)


async def is_forgotten(store: BaseStore, began: Began | None) -> bool:
    """Whether the person was forgotten since then, or the run or its conversation deleted. For
    writes that bypass the journal; False without a server.
    """
    since = await read_deleted(store, began)
    return since.everything or since.conversation


async def note_erased(store: BaseStore, actor: identity.Actor) -> None:
    """Write that a fact of this person is deleted for good now: what began before, and may have
    read it, writes nothing.
    """
    await note_deleted(store, actor, [_FACTS])


async def is_erased(store: BaseStore, began: Began | None) -> bool:
    """Whether a fact of the person was deleted for good since then."""
    return (await read_deleted(store, began)).fact


async def note_deleted(store: BaseStore, actor: identity.Actor, ids: Iterable[str]) -> None:
    """Write when these conversations of a person, or runs, are deleted: runs that began before
    write nothing more.
    """
    place = namespaces.deleted_threads(actor)
    now = datetime.now(UTC)
    is_old = {"$lt": _slot(now - _DELETED_KEPT)}
    old = await store.asearch(place, filter={"slot": is_old}, limit=_DELETED_DROPPED)
    ops = deletions(old)
    value = {"at": _iso(now), "slot": _slot(now)}
    for deleted_id in ids:
        ops.append(PutOp(place, deleted_id, value, index=False))
    await store.abatch(ops)


async def deleted_since(store: BaseStore, actor: identity.Actor, at: str) -> set[str]:
    """The conversations and runs of a person that were deleted, or are being deleted, since a time,
    in ISO format.
    """
    items = await all_items(store, namespaces.deleted_threads(actor))
    since = _iso(datetime.fromisoformat(at))
    return {item.key for item in items if _time_in(item) >= since}


def _slot(at: datetime) -> str:
    """A time as stores compare it: some as text, some as a number."""
    return f"{int(at.timestamp()):010}"


async def put_unless_forgotten(
    store: BaseStore,
    ops: Sequence[PutOp],
    began: Began | None,
    *,
    quotes_facts: bool = False,
    is_checked: bool = False,
) -> bool:
    """Carry out puts and deletions for a person, unless they were forgotten since this `began`.
    Returns whether it did.

    With `quotes_facts` also unless a fact of theirs was deleted for good since then: the values may
    have its words. With `is_checked` the caller has looked at this moment (`read_deleted`).

    For writes that bypass the journal. A put may take seconds, because it embeds first. So this
    looks again afterwards, and takes back what was put. A forgetting that begins after that finds
    the items and deletes them itself.
    """

    async def is_refused() -> bool:
        since = await read_deleted(store, began)
        return since.everything or since.conversation or (quotes_facts and since.fact)

    if not is_checked and await is_refused():
        return False
    for start in range(0, len(ops), _PUT_AT_ONCE):
        some = ops[start : start + _PUT_AT_ONCE]
        try:
            await store.abatch(some)
        finally:  # an error, or a cancellation, does not say what was put
            taken_back = await asyncio.shield(_delete_if_refused(store, some, is_refused))
        if taken_back:
            return False
    return True


async def put_or_refuse(store: BaseStore, ops: Sequence[PutOp], began: Began | None) -> None:
    """Carry out puts that may quote facts of a person, as `put_unless_forgotten`. Raises
    `RefusedWrite` where it does not.
    """
    if await put_unless_forgotten(store, ops, began, quotes_facts=True):
        return
    erased = await is_erased(store, began)
    raise RefusedWrite(ERASED if erased else _FORGOTTEN_MEANWHILE)


async def _delete_if_refused(
    store: BaseStore, ops: Sequence[PutOp], is_refused: Callable[[], Awaitable[bool]]
) -> bool:
    """Delete the items that these operations put, if they are refused by now. Returns whether they
    are; False where the store does not say: the put itself succeeded, and a failure of this look
    must not be reported as a failed put.

    The person may have come back: only values equal to ours are deleted. If a later run put an
    equal one, it is lost too, and is derived again when it is missed.
    """
    try:
        if not await is_refused():
            return False
    except Exception:
        logger.warning(
            "The store failed after a put; whether its person was forgotten meanwhile is not known.",
            exc_info=True,
        )
        return False
    try:
        await _delete_equal(store, ops)
    except Exception:
        logger.warning(
            "The store failed to delete what was put while its person was forgotten; forget them "
            "once more.",
            exc_info=True,
        )
    return True


async def _delete_equal(store: BaseStore, ops: Sequence[PutOp]) -> None:
    """Delete the items whose values are those of these puts."""
    puts = [op for op in ops if op.value is not None]
    gets = [GetOp(op.namespace, op.key) for op in puts]
    items = await store.abatch(gets)
    put_by_us = list[Item]()
    for op, item in zip(puts, items, strict=True):
        if isinstance(item, Item) and _as_text(item.value) == _as_text(op.value):
            put_by_us.append(item)
    await store.abatch(deletions(put_by_us))


def _as_text(value: object) -> str:
    """A value as JSON, as a store may have changed it: its tuples are lists."""
    return json.dumps(value, sort_keys=True, default=str)


def _time_in(item: Item | None) -> str:
    """The time at which a person was forgotten last; "" for never."""
    if item is None:
        return ""
    try:
        at = datetime.fromisoformat(item.value["at"])
    except (KeyError, TypeError, ValueError):  # damaged
        return ""
    return _iso(at)


# --- One file


class MovedError(Exception):
    """The file's revision is not the expected one."""


class _File(NamedTuple):
    """A file, and who looks at it or changes it."""

    store: BaseStore
    files: Namespace
    path: str
    began: Began | None = None
    heeds_erased: bool = True  # whether a deletion of a fact for good since then refuses it

    async def look(self, since: int = 0) -> tuple[Log, Revision | None]:
        """Its revisions from a number on, and the one that it is a copy of; None for none. Raises
        as `read`.
        """
        listed = SearchOp(
            namespaces.journal(self.files, self.path),
            filter={"slot": {"$gte": f"{since:08}"}},
            limit=_ALL,
        )
        own = GetOp(self.files, self.path)
        items, item, forgotten = await self.read(listed, own)
        log = Log(items, forgotten)
        shown = self.copied(item) if item else NOTHING
        return log, shown

    async def item(self) -> Item | None:
        """The file as an item; None if there is none. Raises as `read`."""
        own = GetOp(self.files, self.path)
        item, _ = await self.read(own)
        return cast("Item | None", item)

    def copied(self, item: Item | None) -> Revision | None:
        """The revision of which this item, the file's, is a copy; None if it is none."""
        return copied(self.files, self.path, item)

    async def read(self, *ops: Op) -> list[Any]:
        """The results of a batch, and when the person was forgotten last. Raises `RefusedWrite` if
        the writer began before, or before it, its conversation, or a fact of the person's was
        deleted.
        """
        if self.began is None:
            results = cast("list[Any]", await self.store.abatch(ops))
            return [*results, ""]
        actor = self.began.actor
        place = namespaces.deleted_threads(actor)
        thread = self.began.thread_id or _NO_THREAD
        run = self.began.run_id or _NO_THREAD
        facts = _FACTS if self.heeds_erased else _NO_THREAD
        marks = [
            GetOp(namespaces.forgotten(actor), namespaces.FORGOTTEN),
            GetOp(place, thread),
            GetOp(place, run),
            GetOp(place, facts),
        ]
        results = cast("list[Any]", await self.store.abatch([*ops, *marks]))
        *found, forgotten, deleted, run_deleted, erased = results
        refusals = (
            (forgotten, _FORGOTTEN),
            (deleted, _DELETED),
            (run_deleted, _RUN_DELETED),
            (erased, ERASED),
        )
        for mark, reason in refusals:
            if _time_in(mark) >= self.began.at:
                raise RefusedWrite(reason)
        return [*found, _time_in(forgotten)]

    async def put(self, revisions: Sequence[Revision], newest: Revision) -> None:
        """Put revisions, and make the file a copy of the newest."""
        began = self.began.at if self.began else ""
        # The copy first: where a batch is not one step, a revision without its copy looks like a
        # deletion.
        ops = list[PutOp]()
        ops.append(copy(self.files, self.path, newest))
        for revision in revisions:
            ops.append(put(self.files, self.path, revision, began))
        is_new = bool(revisions) and revisions[0].number == 1
        noted = namespaces.noted(self.files) if is_new else None
        if noted is not None:
            ops.append(PutOp(*noted, {}, index=False))
        await self.store.abatch(ops)


async def change(
    store: BaseStore,
    files: Namespace,
    path: str,
    make: Change,
    author: Author,
    *,
    bounded: bool = False,  # whether `limits` bound all files of the namespace together
    expect: str
    | None = None,  # id of the only revision that the change may follow, "" for no file yet
    began: Began | None = None,  # None for files of nobody in particular
    limits: Limits = DEFAULTS,
    written: Written = MappingProxyType({}),  # times of new lines that were written before
    vouch: Vouch = keep_known,
) -> Revision:
    """Change a file, and return the newest revision, in which the change is: in the file, or in
    what the next file is made of. `vouch` says who vouches for its entries.

    Raises `MovedError`, or a `ValueError`: from `make`, of no room, or the person was forgotten.
    Nothing was changed.
    """
    file = _File(store, files, path, began)
    # An in-memory store never waits, so many files in a row would block the loop.
    await asyncio.sleep(0)
    # Nothing depends on the lock, but who waits for it has nothing to merge.
    async with lock_of(files, path):
        base, adopted, after = await _made(file, make, expect, limits, bounded=bounded)
        written_before = await _written_before(file, base, after, written)
        times = ends.earlier_of(written, written_before)
        signs = await _signs_after(path, base, after, vouch)
        mine = made_of(base, after, author, uuid4().hex, known=times, signs=signs)
        newest = await _publish(file, base, [*adopted, mine])
    # The more is written, the more often.
    weight = _TRIMS * _bytes(newest.content)
    if random.random() * limits.stored_bytes < weight:  # noqa: S311
        await _make_room(file, limits)
    return newest


async def _made(
    file: _File, make: Change, expect: str | None, limits: Limits, *, bounded: bool
) -> tuple[Revision, list[Revision], FileData | None]:
    """The revision that a change follows, revisions to put before it as `_base` gives them, and the
    new file. Raises as `change`.
    """
    tries = 0
    while True:
        tries += 1
        items, item = await _present(file, limits, bounded=bounded)
        base, adopted = await _base(file, item)
        if expect is not None and base.id != expect:
            if adopted:  # so that the history says to what it has moved
                await _publish(file, base, adopted)
            raise MovedError
        try:
            after = make(base.file())
            if bounded and after is not None:
                size = len(after["content"].encode())
                check_room(items, file.path, size, limits)
        except ValueError:
            # Merges what others have not merged yet.
            known = await history(file.store, file.files, file.path, limits, file.began)
            has_moved = bool(known) and known[0].id != base.id
            if adopted or not has_moved or tries == _TRIES:
                raise
        else:
            return base, adopted, after


async def _present(file: _File, limits: Limits, *, bounded: bool) -> tuple[list[Item], Item | None]:
    """The files that are bounded together, as items, and the file's own one; None for none."""
    if not bounded:
        own = await file.item()
        return [], own
    most = limits.max_files + 1
    items, _ = await file.read(SearchOp(file.files, limit=most))
    for item in items:
        if item.key == file.path:
            return items, item
    return items, None


async def _make_room(file: _File, limits: Limits) -> None:
    """Trim the file's folder after a change of the file. A later change does it where this fails."""
    try:
        await trim(file.store, file.files, limits, file.began)
    except Exception:
        logger.warning(
            "No room was made after a change of %r, which is made.", file.path, exc_info=True
        )


async def _written_before(
    file: _File, base: Revision, after: FileData | None, known: Written
) -> dict[str, str]:
    """When new lines of a file whose day has passed stood in this folder before: they are taken
    back, or come from another file. Few changes have such a line.
    """
    if after is None or after["encoding"] != "utf-8":
        return {}
    unknown = ends.of_unknown_time(base.text(), after["content"], known)
    if not unknown:
        return {}
    revisions = await all_items(file.store, namespaces.journals(file.files))
    return await platform.in_thread(ends.earliest, revisions, unknown)


async def _signs_after(path: str, base: Revision, after: FileData | None, vouch: Vouch) -> str:
    """Who vouches for the entries of a file after a change."""
    nothing_is_known = vouch is keep_known and not base.sources
    if after is None or after["encoding"] != "utf-8" or nothing_is_known:
        return ""
    content = plain(after["content"])
    found = await platform.in_thread(vouched, path, base.content, base.sources, content, vouch)
    return await platform.in_thread(signs_of, path, content, found)


async def _base(file: _File, item: Item | None) -> tuple[Revision, list[Revision]]:
    """The revision to change; and revisions to put before it, for what was done around the journal."""
    base = file.copied(item)
    if base is not None:
        return base, []
    log, shown = await file.look()
    # Read after the log, so that what the log lacks is not taken for a deletion.
    if shown is not NOTHING or log.known:
        item = await file.store.aget(file.files, file.path)
    base = file.copied(item)
    if base is not None:
        return base, []
    tips = log.tips() or [NOTHING]
    adopted = await log.merged(file.path, tips)
    newest = [*tips, *adopted][-1]
    around = outside(newest, item)
    if around is None:
        return newest, adopted
    return around, [*adopted, around]


async def _publish(file: _File, base: Revision, mine: Sequence[Revision]) -> Revision:
    """Put revisions that were made of `base`, and merge what others put meanwhile, until there is
    one newest revision, of which the file is a copy.
    """
    own = [base, *mine]
    newest = own[-1]
    known = {revision.id: revision for revision in own if revision.id}
    since = max(base.number - _BEFORE, 0)
    await file.put(mine, newest)
    try:
        for tries in range(_ROUNDS):
            log, shown = await file.look(since)
            log.known = {**known, **log.known}
            tips = log.tips()
            shown_id = shown.id if shown else None
            if len(tips) == 1 and tips[0].id in (newest.id, shown_id):
                return tips[0]
            if since and _lacks_parents(log, tips):
                since = 0
            elif len(tips) > 1 and tries % 2 == 0:
                longest = _WAIT * min(tries + 1, 10)
                await asyncio.sleep(random.uniform(0, longest))  # noqa: S311
            else:
                made = await log.merged(file.path, tips)
                newest = [*tips, *made][-1]
                mine = [*mine, *made]
                await file.put(made, newest)
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


def _lacks_parents(log: Log, tips: Sequence[Revision]) -> bool:
    """Whether a log that begins late lacks what some of its revisions to merge were made from."""
    parents = set[str]()
    for revision in log.lacking(tips):
        parents.update(revision.parents)
    return not parents <= log.known.keys()


async def _withdraw(file: _File, revisions: Sequence[Revision]) -> None:
    """Delete revisions, and make the file what it is without them."""
    ops = list[PutOp]()
    for revision in revisions:
        op = put(file.files, file.path, revision, "")
        ops.append(PutOp(op.namespace, op.key, None))
    await file.store.abatch(ops)
    others = file._replace(began=None)
    log, _ = await others.look()
    kept = log.history()
    newest = kept[0] if kept else NOTHING
    await others.put([], newest)
    await _unnote(file)


async def _unnote(file: _File) -> None:
    """Delete the note that a person has memory with an assistant, where no file and no history of
    theirs is left.
    """
    noted = namespaces.noted(file.files)
    if noted is None:
        return
    any_file = SearchOp(file.files, limit=1)
    any_revision = SearchOp(namespaces.journals(file.files), limit=1)
    left = await file.store.abatch([any_file, any_revision])
    if not any(left):
        await file.store.adelete(*noted)


async def withdraw_run(store: BaseStore, files: Namespace, path: str, run_id: str) -> None:
    """Delete what a run has changed in a file, as if it had not: not even the history says so."""
    file = _File(store, files, path)
    async with lock_of(files, path):
        log, _ = await file.look()
        own = [revision for revision in log.known.values() if revision.author.run_id == run_id]
        if own:
            await _withdraw(file, own)


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
    file = _File(store, files, path, began)
    reading = file._replace(heeds_erased=False)
    log, shown = await reading.look()
    tips = log.tips()
    if shown is not None and _is_unfinished(log, shown, tips):
        merged = await log.merged(path, tips)
        await _publish(file, max(tips), merged)
        log, _ = await reading.look()
    return log.history()[: limits.revisions_kept]


def _is_unfinished(log: Log, shown: Revision, tips: Sequence[Revision]) -> bool:
    """Whether a writer has left several newest revisions, or a file that is a copy of an older one."""
    if shown.id and shown.id not in log.known:
        return False
    if len(tips) > 1:
        return True
    tip_ids = [tip.id for tip in tips]
    return bool(shown.id) and shown.id not in tip_ids


async def histories(
    store: BaseStore, files: Namespace, limits: Limits = DEFAULTS
) -> list[tuple[str, list[Revision]]]:
    """Path and revisions, newest first, of each file with a history, also of deleted ones. One
    search reads them all.
    """
    items = await all_items(store, namespaces.journals(files))
    return histories_in(items, limits)


def histories_in(items: Sequence[Item], limits: Limits) -> list[tuple[str, list[Revision]]]:
    """The histories in all items of the journals of a folder (`namespaces.journals`)."""
    logs = defaultdict[str, list[Item]](list)
    for item in items:
        path = item.value.get("path")
        if isinstance(path, str):
            logs[path].append(item)
    histories = list[tuple[str, list[Revision]]]()
    for path, log in logs.items():
        revisions = Log(log).history()
        histories.append((path, revisions[: limits.revisions_kept]))
    return histories


async def all_items(store: BaseStore, namespace: Namespace) -> list[Item]:
    """All items of a namespace and those below, sorted by key."""
    (items,) = await all_items_of(store, [namespace])
    return items


async def all_items_of(store: BaseStore, places: Sequence[Namespace]) -> list[list[Item]]:
    """All items of each of these namespaces and those below, sorted by key.

    It takes one batch for as many items of each as one search finds.
    """
    found, _ = await all_items_and(store, places, [])
    return found


async def all_items_and(
    store: BaseStore, places: Sequence[Namespace], others: Sequence[Op]
) -> tuple[list[list[Item]], list[Any]]:
    """All items as `all_items_of`, and the results of other operations, which are in the first
    batch.
    """
    listings = [_Listing(place) for place in places]
    results = list[Any]()
    waiting = list(others)
    unfinished = listings
    while unfinished or waiting:
        searches = [listing.next_page() for listing in unfinished]
        answers = cast("list[Any]", await store.abatch([*searches, *waiting]))
        pages = answers[: len(searches)]
        results += answers[len(searches) :]
        waiting = []
        for listing, page in zip(unfinished, pages, strict=True):
            listing.add(page)
        unfinished = [listing for listing in unfinished if not listing.is_complete]
    return [listing.by_key() for listing in listings], results


class _Listing:
    """The items of a namespace, as far as they are read."""

    def __init__(self, place: Namespace) -> None:
        self._place = place
        self._items = list[Item]()
        self.is_complete = False

    def next_page(self) -> SearchOp:
        """The operation whose result `add` takes."""
        return SearchOp(self._place, limit=_SEARCHED, offset=len(self._items))

    def add(self, page: Sequence[Item]) -> None:
        self._items += page
        self.is_complete = len(page) < _SEARCHED

    def by_key(self) -> list[Item]:
        return sorted(self._items, key=lambda item: item.key)


class _Candidate(NamedTuple):
    """A revision that goes where there is no room."""

    must_stay: bool
    file_exists: bool
    at: datetime
    key: str
    item: Item


async def trim(
    store: BaseStore, files: Namespace, limits: Limits, began: Began | None = None
) -> None:
    """Delete revisions beyond those kept of a file, and beyond `stored_bytes`: deleted files'
    first, oldest first. The lines that they took back stay known.
    """
    revisions = await all_items(store, namespaces.journals(files))
    # Read after the revisions, so that a new file does not look deleted.
    present = await all_items(store, files)
    logs = defaultdict[Namespace, list[Item]](list)
    for item in reversed(revisions):
        logs[item.namespace].append(item)
    living = {namespaces.journal(files, item.key) for item in present}
    room = limits.stored_bytes - sum(map(_size, present))
    gone = _superfluous(logs, living, limits, room)
    if await _keep_lines(store, files, logs.values(), gone, began):
        await store.abatch(deletions(gone))


def _superfluous(
    logs: Mapping[Namespace, Sequence[Item]],
    living: Collection[Namespace],
    limits: Limits,
    room: int,
) -> list[Item]:
    """The revisions beyond those kept of a file, and those for which there is no room.

    `logs` are the revisions of each file, newest first, by its journal's namespace. `living` are
    the namespaces of files that are there, and `room` are the bytes left for revisions.
    """
    gone = list[Item]()
    candidates = list[_Candidate]()
    for namespace, log in logs.items():
        kept = _last_of(log, limits.revisions_kept)
        gone += log[len(kept) :]
        candidates += _candidates(kept, file_exists=namespace in living)
    return gone + _without_room(candidates, room)


def _without_room(candidates: Iterable[_Candidate], room: int) -> list[Item]:
    """Those of these revisions that go, so that the others take so many bytes at most."""
    gone = list[Item]()
    for candidate in sorted(candidates, reverse=True, key=_rank):
        room -= _size(candidate.item)
        if room < 0 and not candidate.must_stay:
            gone.append(candidate.item)
    return gone


def _rank(candidate: _Candidate) -> tuple[bool, bool, datetime, str]:
    """By which candidates are sorted: the smallest goes first."""
    return candidate.must_stay, candidate.file_exists, candidate.at, candidate.key


def _last_of(log: Sequence[Item], count: int) -> list[Item]:
    """The revisions of a file, newest first, whose numbers are among the last ones."""
    newest = _number_of(log[0])
    return [item for item in log if _number_of(item) > newest - count]


def _number_of(item: Item) -> int:
    return int(item.key[:8])


def _candidates(kept: Sequence[Item], *, file_exists: bool) -> list[_Candidate]:
    """A file's revisions, newest first. Those that somebody may be merging must stay, and one of a
    file that is there.
    """
    recent = datetime.now(UTC) - timedelta(seconds=_MERGING_SECONDS)
    count_recent = sum(item.updated_at > recent for item in kept)
    staying = max(count_recent, int(file_exists))
    candidates = list[_Candidate]()
    ages = accumulate((item.updated_at for item in kept), min)  # as old as the oldest after it
    for item, at in zip(kept, ages, strict=True):
        must_stay = len(candidates) < staying
        candidates.append(_Candidate(must_stay, file_exists, at, item.key, item))
    return candidates


async def _keep_lines(
    store: BaseStore,
    files: Namespace,
    logs: Iterable[Sequence[Item]],
    gone: Iterable[Item],
    began: Began | None,
) -> bool:
    """Keep the lines that were taken back in revisions that go. Returns whether these may go.

    It is done before they go: a process that dies in between has lost nothing.
    """
    places = {(item.namespace, item.key) for item in gone}
    ops = await platform.in_thread(dropped_ops, files, logs, places)
    if not ops:
        return True
    known = await all_items(store, namespaces.taken_back(files))
    ops = await platform.in_thread(within_bounds, ops, known)
    if not ops:
        return True
    return await put_unless_forgotten(store, ops, began, quotes_facts=True)


def _size(item: Item) -> int:
    revision = item.value.get("revision")
    value = revision if isinstance(revision, dict) else item.value
    return _bytes(value.get("content"))


def _bytes(content: object) -> int:
    """Bytes that a text takes in the store, as a file or as a revision."""
    return len(str(content or "").encode(errors="replace")) + _OVERHEAD_BYTES
