"""How far consolidation is with a person, which run is at it, and what the runs did: its state in the store.

**Positions.** For each thread the hashes of the messages that were consolidated, and the thread's time stamp when they were
read. A message is new if its hash is not there: forks, edited and deleted messages, and equal times make no difference.

**The lease.** Runs for one person are queued on one thread, but anybody may start one on another. A run takes the lease before
it changes anything, by the journal, which makes that an atomic step, and renews it. In it is noted where every file stood
when the batch began, and then what was decided of the batch. Who finds the lease of a dead run finishes what was decided, or
undoes what the run wrote since: no conversation is dropped, and none is consolidated twice. A run that was only slow finds
that it is no longer its own, takes back what it has written since, and ends.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from memory import scopes
from memory.consensus import LoggedFile
from memory.episodes import Turn
from memory.epochs import Epoch
from memory.files import acarry_out
from memory.guard import Base
from memory.journal import Journal
from memory.validation import RefusedWriteError, stored_file
from settings import CONSOLIDATIONS_KEPT, LEASE_SECONDS, MAX_CONSOLIDATIONS_BYTES, MAX_RECORD_CHARS

_PAGE = 100
_AUTHOR = scopes.Author("consolidation")
# Revisions of a lease, which names every file: nobody looks at its history.
_LEASES_KEPT = 5


@dataclass(frozen=True, slots=True)
class Position:
    """How far one thread is consolidated.

    Args:
        updated_at: its time stamp when it was read. Empty: it is due whatever its time stamp says.
        message_id: the last message that was consolidated.
        seen: hashes of all of them. However many: without one its message would be new again, for ever.
        undone: how many runs have undone what they made of what is new in it.
    """

    updated_at: str = ""
    message_id: str = ""
    seen: tuple[str, ...] = ()
    undone: int = 0


def turn_hash(turn: Turn) -> str:
    """What a consolidated turn is known by: its message's id and its text."""
    return hashlib.sha256(f"{turn.message_id}\0{turn.speaker}\0{turn.text}".encode(errors="replace")).hexdigest()[:12]


async def positions(store: BaseStore, actor: scopes.Actor) -> dict[str, Position]:
    """The positions of a person's threads, by thread id."""
    found: dict[str, Position] = {}
    read = 0
    while page := await store.asearch(scopes.consolidation(actor), limit=_PAGE, offset=read):
        read += len(page)
        found |= {item.key: _position(item) for item in page}
        if len(page) < _PAGE:
            break
    return found


async def positions_of(store: BaseStore, actor: scopes.Actor, thread_ids: Sequence[str]) -> dict[str, Position]:
    """The positions of some threads, each as it is at this moment."""
    items = await store.abatch([GetOp(scopes.consolidation(actor), thread_id) for thread_id in thread_ids])
    return {thread_id: _position(item) for thread_id, item in zip(thread_ids, items, strict=True)}


async def drop_positions(store: BaseStore, actor: scopes.Actor, thread_ids: Iterable[str]) -> None:
    """Forget how far threads are consolidated that are gone."""
    if ops := [PutOp(scopes.consolidation(actor), thread_id, None) for thread_id in thread_ids]:
        await store.abatch(ops)


async def commit(store: BaseStore, actor: scopes.Actor, moved: Mapping[str, Position]) -> None:
    """Add what was consolidated to the threads' positions. Doing it again changes nothing.

    Args:
        store: the real one.
        actor: whose threads.
        moved: by thread id, the new time stamp and the new hashes only.
    """
    namespace = scopes.consolidation(actor)
    items = await store.abatch([GetOp(namespace, key) for key in moved])
    puts = list[PutOp]()
    for (key, new), item in zip(moved.items(), items, strict=True):
        seen = dict.fromkeys((*_position(item).seen, *new.seen))
        position = Position(new.updated_at, new.message_id or _position(item).message_id, tuple(seen))
        puts.append(PutOp(namespace, key, asdict(position), index=False))
    if puts:
        await store.abatch(puts)


async def put_off(store: BaseStore, actor: scopes.Actor, thread_ids: Sequence[str]) -> None:
    """Note that a run has undone what it made of these threads."""
    known = await positions_of(store, actor, thread_ids)
    later = {thread_id: replace(position, undone=position.undone + 1) for thread_id, position in known.items()}
    await store.abatch([PutOp(scopes.consolidation(actor), key, asdict(at), index=False) for key, at in later.items()])


@dataclass(frozen=True, slots=True)
class Lease:
    """Which run is at work.

    Args:
        run_id: the run; "" for none.
        until: ISO time after which it is taken for dead.
        worker: the run that began the batch: `run_id`, or the dead one that it took over from.
        base: where the files stood when that batch began; None where there is none. What the worker wrote since is undone, if
            it dies.
        moved: the positions of the batch, once it was decided that the batch stands. Then those are committed instead.
        decided: the last batch of the worker's that was decided: its `batch` number, and the `reason` why it does not stand.
    """

    run_id: str = ""
    until: str = ""
    worker: str = ""
    base: Base | None = None
    moved: dict[str, dict[str, Any]] | None = None
    decided: dict[str, Any] | None = None

    def alive(self) -> bool:
        """Whether the run must be left alone."""
        return bool(self.run_id) and bool(self.until) and datetime.fromisoformat(self.until) > datetime.now(UTC)

    def positions(self) -> dict[str, Position]:
        """What is to be committed."""
        return {key: Position(at["updated_at"], at["message_id"], tuple(at["seen"])) for key, at in (self.moved or {}).items()}


class LeaseHeldError(RefusedWriteError):
    """Another run is at work for this person, or was since."""


async def take_lease(
    store: BaseStore,
    actor: scopes.Actor,
    key: str,
    run_id: str,
    epoch: Epoch | None = None,
    *,
    renewing: bool = False,
    **noted: Any,
) -> Lease:
    """Take or renew the lease; what it was before.

    Args:
        store: the real one.
        actor: the person.
        key: which memory of theirs.
        run_id: who takes it.
        epoch: the run's.
        renewing: it must be that run's still.
        noted: fields of the lease to set. The others stay as they are, a dead run's included.

    Raises:
        LeaseHeldError: it is another living run's; or renewing, and another run's, whether that lives or not.
        RefusedWriteError: the person was forgotten.
    """
    earlier = [Lease()]

    def taken(file: FileData | None) -> FileData:
        earlier[0] = was = _lease(file)
        if renewing and was.run_id != run_id:
            raise LeaseHeldError("Another consolidation has taken over from this one.")
        if was.run_id != run_id and was.alive():
            raise LeaseHeldError(f"The consolidation {was.run_id} is at work.")
        until = (datetime.now(UTC) + timedelta(seconds=LEASE_SECONDS)).isoformat()
        return _file(replace(was, run_id=run_id, until=until, **noted))

    await _change(store, actor, key, taken, epoch)
    return earlier[0]


async def release_lease(store: BaseStore, actor: scopes.Actor, key: str, run_id: str) -> None:
    """Give the lease back, unless it is another run's by now.

    It keeps saying what was decided: a run that is stopped right after this, and goes on before it, decides the same.
    """

    def released(file: FileData | None) -> FileData:
        was = _lease(file)
        return _file(replace(was, until="", base=None, moved=None) if was.run_id == run_id else was)

    await _change(store, actor, key, released)


async def holds_lease(store: BaseStore, actor: scopes.Actor, key: str, run_id: str) -> bool:
    """Whether the lease is still this run's, as far as one read shows."""
    item = await store.aget(scopes.lease(actor), key)
    return item is not None and _lease(stored_file(item)).run_id == run_id


@dataclass
class Record:
    """What one run did, as `GET /memory/consolidations` shows it. Times are ISO in UTC; `files` are diffs by path.

    `status` is running; then done; undone, where some of it may not stand; failed; or interrupted, where the next run found it
    dead. `reason` says why.
    """

    run_id: str
    started_at: str
    ended_at: str = ""
    status: str = "running"
    reason: str = ""
    conversations: int = 0
    messages: int = 0
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dry_run: bool = False
    files: dict[str, str] = field(default_factory=dict)


async def record(store: BaseStore, actor: scopes.Actor, done: Record) -> None:
    """Keep a record, and of the others the newest: `CONSOLIDATIONS_KEPT` and `MAX_CONSOLIDATIONS_BYTES` in all."""
    namespace = scopes.consolidations(actor)
    await store.aput(namespace, f"{done.started_at}-{done.run_id}", asdict(_shortened(done)), index=False)
    kept = sorted(await store.asearch(namespace, limit=10 * CONSOLIDATIONS_KEPT), key=lambda item: item.key, reverse=True)
    sizes = accumulate(len(json.dumps(item.value).encode()) for item in kept)
    old = [item.key for n, (item, size) in enumerate(zip(kept, sizes, strict=True)) if n and not _fits(n, size)]
    if old:
        await store.abatch([PutOp(namespace, key, None) for key in old])


def _fits(number: int, size: int) -> bool:
    return number < CONSOLIDATIONS_KEPT and size <= MAX_CONSOLIDATIONS_BYTES


def _shortened(done: Record) -> Record:
    """A record whose diffs are within `MAX_RECORD_CHARS` together: of those beyond it there is a line."""
    room, files = MAX_RECORD_CHARS, dict[str, str]()
    for path, text in done.files.items():
        files[path] = text if len(text) <= room else "(left out: too many changes in one run; /memory/history has them)"
        room -= len(files[path])
    return replace(done, files=files)


async def interrupted(store: BaseStore, actor: scopes.Actor, run_id: str) -> None:
    """Note in the record of a dead run that it is."""
    for item in await store.asearch(scopes.consolidations(actor), filter={"run_id": run_id, "status": "running"}):
        value = {**item.value, "status": "interrupted", "ended_at": datetime.now(UTC).isoformat()}
        await store.aput(scopes.consolidations(actor), item.key, value, index=False)


async def records(store: BaseStore, actor: scopes.Actor) -> list[dict[str, Any]]:
    """What the last runs did for a person, newest first."""
    found = await store.asearch(scopes.consolidations(actor), limit=10 * CONSOLIDATIONS_KEPT)
    return [item.value for item in sorted(found, key=lambda item: item.key, reverse=True)][:CONSOLIDATIONS_KEPT]


def _position(item: object) -> Position:
    value = item.value if isinstance(item, Item) else {}
    seen = value.get("seen")
    hashes = tuple(map(str, seen)) if isinstance(seen, list | tuple) else ()
    undone = value.get("undone")
    times = undone if isinstance(undone, int) else 0
    return Position(str(value.get("updated_at") or ""), str(value.get("message_id") or ""), hashes, times)


def _lease(file: FileData | None) -> Lease:
    try:
        return Lease(**json.loads(file["content"])) if file else Lease()
    except (ValueError, TypeError):
        return Lease()


def _file(lease: Lease) -> FileData:
    return FileData(content=json.dumps(asdict(lease)), encoding="utf-8")


async def _change(
    store: BaseStore, actor: scopes.Actor, key: str, change: Callable[[FileData | None], FileData], epoch: Epoch | None = None
) -> None:
    journal = Journal(LoggedFile(scopes.lease(actor), key), epoch, _LEASES_KEPT)
    await acarry_out(store, journal.change(change, _AUTHOR))
