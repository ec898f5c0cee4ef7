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
from collections.abc import Awaitable, Callable, Iterable, Sequence
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
from lasting_memory.memory.sources import Vouch, keep, signs_of, vouched
from lasting_memory.memory.stored_files import check_room
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


def began(actor: identity.Actor) -> Began | None:
    """When the current run began. None without a server, which gives run ids."""
    run_id = identity.current_run_id()
    return (
        None
        if run_id is None
        else Began(actor, identity.time_of_run(run_id), identity.current_thread_id(), run_id)
    )


def began_by(caller: Caller) -> Began | None:
    """The same of a caller's run, for the person for whom it acts."""
    return (
        Began(caller.actor, caller.began, caller.thread_id, caller.run_id)
        if caller.run_id
        else None
    )


async def forget(store: BaseStore, actor: identity.Actor) -> None:
    """Write the time: what began before can no longer write."""
    await store.aput(
        namespaces.forgotten(actor), namespaces.FORGOTTEN, {"at": Began(actor).at}, index=False
    )


class Ended(NamedTuple):
    """What of a person, or of a run of theirs, was deleted since the run or a request began."""

    all_of_it: bool  # the person was forgotten
    conversation: bool  # the run, or its conversation
    fact: bool  # a fact, for good


async def ended(store: BaseStore, began: Began | None) -> Ended:
    """What was deleted since then, in one batch; nothing without a server."""
    if began is None:
        return Ended(False, False, False)
    return ended_in(await store.abatch(ended_ops(began)), began)


def ended_ops(began: Began | None) -> list[GetOp]:
    """The operations whose results `ended_in` takes; none without a server."""
    if began is None:
        return []
    place = namespaces.deleted_threads(began.actor)
    ids = [deleted_id for deleted_id in (began.thread_id, began.run_id) if deleted_id]
    forgotten = GetOp(namespaces.forgotten(began.actor), namespaces.FORGOTTEN)
    return [forgotten, *(GetOp(place, key) for key in (_FACTS, *ids))]


def ended_in(items: Sequence[object], began: Began | None) -> Ended:
    """What of a person, or of a run, was deleted since then."""
    if began is None:
        return Ended(False, False, False)
    times = [_time_in(item if isinstance(item, Item) else None) for item in items]
    forgotten, fact, *others = [time >= began.at for time in times]
    return Ended(forgotten, any(others), fact)


async def is_forgotten(store: BaseStore, began: Began | None) -> bool:
    """Whether the person was forgotten since then, or the run or its conversation deleted. For
    writes that bypass the journal; False without a server.
    """
    since = await ended(store, began)
    return since.all_of_it or since.conversation


async def note_erased(store: BaseStore, actor: identity.Actor) -> None:
    """Write that a fact of this person is deleted for good now: what began before, and may have
    read it, writes nothing.
    """
    await note_deleted(store, actor, [_FACTS])


async def is_erased(store: BaseStore, began: Began | None) -> bool:
    """Whether a fact of the person was deleted for good since then."""
    return (await ended(store, began)).fact


async def note_deleted(store: BaseStore, actor: identity.Actor, ids: Iterable[str]) -> None:
    """Write when these conversations of a person, or runs, are deleted: runs that began before
    write nothing more.
    """
    place = namespaces.deleted_threads(actor)
    now = datetime.now(UTC)
    old = await store.asearch(
        place, filter={"slot": {"$lt": _slot(now - _DELETED_KEPT)}}, limit=_DELETED_DROPPED
    )
    value = {"at": _iso(now), "slot": _slot(now)}
    gone = [PutOp(place, item.key, None) for item in old]
    await store.abatch(
        [*gone, *(PutOp(place, deleted_id, value, index=False) for deleted_id in ids)]
    )


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
    have its words. With `is_checked` the caller has looked at this moment (`ended`).

    For writes that bypass the journal. A put may take seconds, because it embeds first. So this
    looks again afterwards, and takes back what was put. A forgetting that begins after that finds
    the items and deletes them itself.
    """

    async def is_refused() -> bool:
        since = await ended(store, began)
        return since.all_of_it or since.conversation or (quotes_facts and since.fact)

    if not is_checked and await is_refused():
        return False
    for start in range(0, len(ops), _PUT_AT_ONCE):
        some = ops[start : start + _PUT_AT_ONCE]
        try:
            await store.abatch(some)
        finally:  # an error, or a cancellation, does not say what was put
            taken_back = await asyncio.shield(_take_back(store, some, is_refused))
        if taken_back:
            return False
    return True


async def _take_back(
    store: BaseStore, ops: Sequence[PutOp], is_refused: Callable[[], Awaitable[bool]]
) -> bool:
    """Delete what these have put, if they are refused by now. Returns whether they are.

    The person may have come back: a later run's value under the same key stays. It differs by a
    time, an id of a thread or a text; where two values are equal they are derived from the same,
    and are made again when they are missed.
    """
    try:
        if not await is_refused():
            return False
        puts = [op for op in ops if op.value is not None]
        items = await store.abatch([GetOp(op.namespace, op.key) for op in puts])
        deletions = list[Op]()
        for op, item in zip(puts, items, strict=True):
            if isinstance(item, Item) and _as_text(item.value) == _as_text(op.value):
                deletions.append(PutOp(op.namespace, op.key, None))
        await store.abatch(deletions)
    except (
        Exception
    ):  # what was put is made, as the caller is told: a second failure must not say that it is not
        logger.warning(
            "The store failed after a put; whether its person was forgotten meanwhile is not known.",
            exc_info=True,
        )
        return False
    return True


def _as_text(value: object) -> str:
    """A value as JSON, as a store may have changed it: its tuples are lists."""
    return json.dumps(value, sort_keys=True, default=str)


def _time_in(item: Item | None) -> str:
    """The time at which a person was forgotten last; "" for never."""
    try:
        return _iso(datetime.fromisoformat(item.value["at"])) if item else ""
    except (KeyError, TypeError, ValueError):  # damaged
        return ""


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
        items, item, forgotten = await self.read(listed, GetOp(self.files, self.path))
        return Log(items, forgotten), copied(self.files, self.path, item) if item else NOTHING

    async def read(self, *ops: Op) -> list[Any]:
        """The results of a batch, and when the person was forgotten last. Raises `RefusedWrite` if
        the writer began before, or before it, its conversation, or a fact of the person's was
        deleted.
        """
        if self.began is None:
            return [*cast("list[Any]", await self.store.abatch(ops)), ""]
        actor = self.began.actor
        marks = [GetOp(namespaces.forgotten(actor), namespaces.FORGOTTEN)]
        marks.append(GetOp(namespaces.deleted_threads(actor), self.began.thread_id or _NO_THREAD))
        marks.append(GetOp(namespaces.deleted_threads(actor), self.began.run_id or _NO_THREAD))
        marks.append(
            GetOp(namespaces.deleted_threads(actor), _FACTS if self.heeds_erased else _NO_THREAD)
        )
        *found, forgotten, deleted, run_deleted, erased = cast(
            "list[Any]", await self.store.abatch([*ops, *marks])
        )
        if _time_in(forgotten) >= self.began.at:
            raise RefusedWrite(_FORGOTTEN)
        if _time_in(deleted) >= self.began.at:
            raise RefusedWrite(_DELETED)
        if _time_in(run_deleted) >= self.began.at:
            raise RefusedWrite(_RUN_DELETED)
        if _time_in(erased) >= self.began.at:
            raise RefusedWrite(ERASED)
        return [*found, _time_in(forgotten)]

    async def put(self, revisions: Sequence[Revision], newest: Revision) -> None:
        """Put revisions, and make the file a copy of the newest."""
        began = self.began.at if self.began else ""
        # The copy first: where a batch is not one step, a revision without its copy looks like a
        # deletion.
        ops = [
            copy(self.files, self.path, newest),
            *(put(self.files, self.path, each, began) for each in revisions),
        ]
        if revisions and revisions[0].number == 1 and (noted := namespaces.noted(self.files)):
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
    vouch: Vouch = keep,
) -> Revision:
    """Change a file, and return the newest revision, in which the change is: in the file, or in
    what the next file is made of. `vouch` says who vouches for its entries.

    Raises `MovedError`, or a `ValueError`: from `make`, of no room, or the person was forgotten.
    Nothing was changed.
    """
    file = _File(store, files, path, began)
    await asyncio.sleep(
        0
    )  # an in-memory store never waits, so many files in a row would block the loop
    async with lock_of(files, path):  # nothing depends on it, but who waits has nothing to merge
        for tries in range(_TRIES):
            found, _ = await file.read(
                SearchOp(files, limit=limits.max_files + 1) if bounded else GetOp(files, path)
            )
            item = next((item for item in found if item.key == path), None) if bounded else found
            base, adopted = await _base(file, item)
            if expect is not None and base.id != expect:
                if adopted:  # so that the history says to what it has moved
                    await _publish(file, base, adopted)
                raise MovedError
            try:
                after = make(base.file())
                if after is not None and bounded:
                    check_room(found, path, len(after["content"].encode()), limits)
                break
            except ValueError:
                known = await history(
                    store, files, path, limits, began
                )  # merges what others have not merged yet
                if adopted or not known or known[0].id == base.id or tries == _TRIES - 1:
                    raise
        times = ends.earlier_of(written, await _written_before(file, base, after, written))
        signs = await _signs_after(path, base, after, vouch)
        mine = made_of(base, after, author, uuid4().hex, known=times, signs=signs)
        newest = await _publish(file, base, [*adopted, mine])
    if random.random() * limits.stored_bytes < _TRIMS * _bytes(newest.content):  # noqa: S311
        try:
            await trim(store, files, limits, began)
        except Exception:  # the change is made; a later one trims
            logger.warning(
                "No room was made after a change of %r, which is made.", path, exc_info=True
            )
    return newest


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
    nothing_is_known = vouch is keep and not base.sources
    if after is None or after["encoding"] != "utf-8" or nothing_is_known:
        return ""
    content = plain(after["content"])
    found = await platform.in_thread(vouched, path, base.content, base.sources, content, vouch)
    return await platform.in_thread(signs_of, path, content, found)


async def _base(file: _File, item: Item | None) -> tuple[Revision, list[Revision]]:
    """The revision to change; and revisions to put before it, for what was done around the journal."""
    if base := copied(file.files, file.path, item):
        return base, []
    log, shown = await file.look()
    if (
        shown is not NOTHING or log.known
    ):  # read after the log, so that what the log lacks is not taken for a deletion
        item = await file.store.aget(file.files, file.path)
    if base := copied(file.files, file.path, item):
        return base, []
    tips = log.tips() or [NOTHING]
    adopted = await log.merged(file.path, tips)
    if around := outside([*tips, *adopted][-1], item):
        adopted.append(around)
    return [*tips, *adopted][-1], adopted


async def _publish(file: _File, base: Revision, mine: Sequence[Revision]) -> Revision:
    """Put revisions that were made of `base`, and merge what others put meanwhile, until there is
    one newest revision, of which the file is a copy.
    """
    newest = [base, *mine][-1]
    own = {each.id: each for each in [base, *mine] if each.id}
    since = max(base.number - _BEFORE, 0)
    await file.put(mine, newest)
    try:
        for tries in range(_ROUNDS):
            log, shown = await file.look(since)
            log.known = {**own, **log.known}
            tips = log.tips()
            if len(tips) == 1 and tips[0].id in {newest.id, shown and shown.id}:
                return tips[0]
            if since and any(
                parent not in log.known for each in log.lacking(tips) for parent in each.parents
            ):
                since = 0
            elif len(tips) > 1 and tries % 2 == 0:
                await asyncio.sleep(random.uniform(0, _WAIT * min(tries + 1, 10)))  # noqa: S311
            else:
                made = await log.merged(file.path, tips)
                newest = [*tips, *made][-1]
                mine = [*mine, *made]
                await file.put(made, newest)
    except (
        RefusedWrite
    ):  # the person was forgotten meanwhile, or the conversation or a fact deleted
        await _withdraw(file, mine)
        raise
    except Exception:  # the change is made, and whoever looks next merges it
        logger.warning(
            "The store failed at the end of a change of %r, which is made.",
            file.path,
            exc_info=True,
        )
    return newest


async def _withdraw(file: _File, revisions: Sequence[Revision]) -> None:
    """Delete revisions, and make the file what it is without them."""
    place = namespaces.journal(file.files, file.path)
    await file.store.abatch(
        [PutOp(place, put(file.files, file.path, each, "").key, None) for each in revisions]
    )
    others = file._replace(began=None)
    kept, _ = await others.look()
    await others.put([], [NOTHING, *kept.history()[:1]][-1])
    await _unnote(file)


async def _unnote(file: _File) -> None:
    """Delete the note that a person has memory with an assistant, where no file and no history of
    theirs is left.
    """
    noted = namespaces.noted(file.files)
    if noted is None:
        return
    left = [SearchOp(place, limit=1) for place in (file.files, namespaces.journals(file.files))]
    if not any(await file.store.abatch(left)):
        await file.store.adelete(*noted)


async def take_back(store: BaseStore, files: Namespace, path: str, run_id: str) -> None:
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
    if (
        shown
        and shown.id in {"", *log.known}
        and (len(tips) > 1 or (shown.id and [shown.id] != [tip.id for tip in tips]))
    ):
        await _publish(file, max(tips), await log.merged(path, tips))
        log, _ = await reading.look()
    return log.history()[: limits.revisions_kept]


async def histories(
    store: BaseStore, files: Namespace, limits: Limits = DEFAULTS
) -> list[tuple[str, list[Revision]]]:
    """Path and revisions, newest first, of each file with a history, also of deleted ones. One
    search reads them all.
    """
    return histories_in(await all_items(store, namespaces.journals(files)), limits)


def histories_in(items: Sequence[Item], limits: Limits) -> list[tuple[str, list[Revision]]]:
    """The histories in all items of the journals of a folder (`namespaces.journals`)."""
    logs = defaultdict[str, list[Item]](list)
    for item in items:
        path = item.value.get("path")
        if isinstance(path, str):
            logs[path].append(item)
    return [(path, Log(log).history()[: limits.revisions_kept]) for path, log in logs.items()]


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
    found = [list[Item]() for _ in places]
    results = list[Any]()
    waiting = list(others)
    unfinished = list(range(len(places)))
    while unfinished or waiting:
        searches = [
            SearchOp(places[number], limit=_SEARCHED, offset=len(found[number]))
            for number in unfinished
        ]
        answers = cast("list[Any]", await store.abatch([*searches, *waiting]))
        results += answers[len(searches) :]
        waiting = []
        full = list[int]()
        for number, page in zip(unfinished, answers[: len(searches)], strict=True):
            found[number] += page
            if len(page) >= _SEARCHED:
                full.append(number)
        unfinished = full
    return [sorted(items, key=lambda item: item.key) for items in found], results


async def trim(
    store: BaseStore, files: Namespace, limits: Limits, began: Began | None = None
) -> None:
    """Delete revisions beyond those kept of a file, and beyond `stored_bytes`: deleted files'
    first, oldest first. The lines that they took back stay known.
    """
    logs = defaultdict[Namespace, list[Item]](list)
    for item in reversed(await all_items(store, namespaces.journals(files))):
        logs[item.namespace].append(item)
    there = await all_items(
        store, files
    )  # read after the logs, so that a new file does not look deleted
    living = {namespaces.journal(files, item.key) for item in there}
    room = limits.stored_bytes - sum(map(_size, there))
    recent = datetime.now(UTC) - timedelta(seconds=_MERGING_SECONDS)
    gone = list[Item]()
    ranked = list[tuple[bool, bool, datetime, str, Item]]()
    for namespace, log in logs.items():
        kept = [
            item for item in log if int(item.key[:8]) > int(log[0].key[:8]) - limits.revisions_kept
        ]
        is_living = namespace in living
        staying = max(is_living, sum(item.updated_at > recent for item in kept))
        ages = accumulate(
            (item.updated_at for item in kept), min
        )  # of an item, or any later one of its file
        ranked += [
            (n < staying, is_living, at, item.key, item)
            for n, (at, item) in enumerate(zip(ages, kept, strict=True))
        ]
        gone += log[len(kept) :]
    for stays, *_, item in sorted(ranked, reverse=True, key=lambda each: each[:4]):
        room -= _size(item)
        if room < 0 and not stays:
            gone.append(item)
    places = {(item.namespace, item.key) for item in gone}
    kept_lines = await platform.in_thread(dropped_ops, files, logs.values(), places)
    if kept_lines:
        known = await all_items(store, namespaces.taken_back(files))
        kept_lines = await platform.in_thread(within_bounds, kept_lines, known)
    # Before the revisions go: a process that dies in between has lost nothing.
    if kept_lines and not await put_unless_forgotten(store, kept_lines, began, quotes_facts=True):
        return
    await store.abatch([PutOp(item.namespace, item.key, None) for item in gone])


def _size(item: Item) -> int:
    revision = item.value.get("revision")
    return _bytes(
        revision.get("content") if isinstance(revision, dict) else item.value.get("content")
    )


def _bytes(content: object) -> int:
    """Bytes that a text takes in the store, as a file or as a revision."""
    return len(str(content or "").encode(errors="replace")) + _OVERHEAD_BYTES
