"""How the next revision of a file is chosen among its writers, and published.

A file has a log, whose slots are filled in order. Slot `n` holds revision `n`: the whole content after it, who wrote it, and
the id of the revision it was made from. The file itself is a copy of the newest revision.

**Choosing a revision** is Disk Paxos with one disk (Gafni and Lamport, 2003; doi 10.1007/s00446-002-0070-8). Everybody who
wants slot `n` has a block of their own there, an item nobody else puts. They put it with a ballot, list the slot, and give way
to a higher ballot; otherwise they take over the revision that was accepted with the highest ballot, or where none was, make
their own from revision `n - 1`; they put their block with it, accepted, and list again. An accepted revision is chosen once
a listing shows its block and no higher ballot, whoever lists: who comes with a higher ballot after that listing finds the
accepted block in theirs, and takes the revision over. Needed is only that a listing shows all puts that ended before it
began. Clocks play no part, and neither does who is still alive. A listing need not show that a revision is chosen: a ballot
that came later, or too late, hides it. Who must know takes a ballot of their own, and finds it. So:

- A change is made from the revision it follows, never replayed: its outcome cannot change. A refused change is in no block.
- It is in one slot only: who wants the next slot knows what was chosen in the one before.
- What was acknowledged is chosen; every later revision was made from it.

**Publishing.** The store has one way to put the file: the last put wins. Alone in a slot, a writer puts the block, then the
file, then lists: nobody else there means chosen and published. With company it goes the careful way: it leaves a mark that
the file is unsettled, waits until its change is chosen, puts the best revision of the newest slot, lists, and repeats until
that is what it has put. Chosen or not, it was made from all that was acknowledged before. So after the last live writer's last
listing the file is right, unless somebody died between putting an old revision and listing. Whoever overtook that writer had
seen its block, and left the mark; a run that begins (`memory/prompt.py`) looks for marks, the next writer at the log, and they
put the file right.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import uuid4

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item, Op, PutOp, SearchOp

from memory import scopes
from memory.scopes import Author
from memory.validation import RefusedWriteError

T = TypeVar("T")
# What a writer does with the store: batches of operations to carry out, and seconds to sleep. `memory/files.py` carries them
# out, in a thread or in an event loop; tests do it one by one, in any order, and stop where they like.
Steps = Generator[Sequence[Op] | float, Any, T]
# What a change makes of a file (None: there is none). A ValueError refuses the change.
Change = Callable[[FileData | None], FileData | None]
Ballot = tuple[int, str]

ALL = 10_000
# Longer than any writer that is alive stops between two operations.
OUTSIDE_SECONDS = 600
# Of an item, beside its text: path, author, ids, times. Most take half.
OVERHEAD_BYTES = 1_000
_FIRST_SLEEP, _LONGEST_SLEEP = 0.03, 0.25  # seconds; measured with benchmarks/journal.py


@dataclass(frozen=True, slots=True)
class Revision:
    """A file after one change; `content` is None where the change deleted it. `at` and `created_at` are ISO times in UTC.

    `adopted` is the digest of the value it was made of, where that had been put around the journal. `written` says how many
    bytes were put into the journal so far, this revision's included: as much as it can take up (`memory/retention.py`).
    """

    number: int
    id: str
    previous: str
    content: str | None
    encoding: str
    created_at: str
    at: str
    author: Author
    adopted: str = ""
    written: int = field(default=0, compare=False)

    def file(self) -> FileData | None:
        """As deepagents' file data; None where there is no file."""
        if self.content is None:
            return None
        return FileData(content=self.content, encoding=self.encoding, created_at=self.created_at, modified_at=self.at)

    def is_copied_by(self, other: Revision) -> bool:
        """Whether the other is this one. One writer's revisions for different slots have one id."""
        return (self.number, self.id) == (other.number, other.id)


NOTHING = Revision(0, "", "", None, "utf-8", "", "", Author("outside"))


@dataclass(frozen=True, slots=True)
class Block:
    """What one writer says in one slot: its ballot, and the revision it accepted with which ballot."""

    slot: int
    ballot: Ballot
    accepted: Ballot | None = None
    revision: Revision | None = None

    def value(self) -> dict[str, Any]:
        value = asdict(self)
        if self.revision:  # beside the revision, not in it: what version 0.1 does not know there, it takes for damaged
            about = {"written": value["revision"].pop("written"), "deleted": self.revision.content is None}
            value = {**value, **about}
        # Postgres compares text, the in-memory store numbers: eight digits are the same in both.
        return {**value, "slot": f"{self.slot:08}"}


@dataclass(frozen=True, slots=True)
class Log:
    """What a listing shows: the highest slot with an accepted revision, the best of those there, and whether it is chosen."""

    blocks: tuple[Block, ...]
    top: int = field(init=False)
    best: Revision | None = field(init=False)
    chosen: bool = field(init=False)

    def __post_init__(self) -> None:
        top = max((block.slot for block in self.blocks if block.revision), default=0)
        accepted = [block for block in self.blocks if block.slot == top and block.accepted]
        best = max(accepted, key=lambda block: block.accepted or (0, ""), default=None)
        object.__setattr__(self, "top", top)
        object.__setattr__(self, "best", best.revision if best else None)
        highest = best.accepted if best and best.accepted else (0, "")
        object.__setattr__(self, "chosen", all(block.ballot <= highest for block in self.blocks if block.slot == top))

    def head(self) -> Revision | None:
        """The newest revision that this listing shows to be chosen. Where `chosen` is false, `best` may be chosen, too."""
        if self.best is None or self.chosen:
            return self.best
        return self.revision(self.top - 1, self.best.previous)

    def ends_with(self, revision: Revision) -> bool:
        """Whether a revision is certainly the newest that is chosen."""
        return self.chosen and (self.best or NOTHING).is_copied_by(revision)

    def back_from(self, revision: Revision | None) -> Iterator[Revision]:
        """A chosen revision and those it was made from, newest first, as far as they are kept."""
        while revision is not None:
            yield revision
            revision = self.revision(revision.number - 1, revision.previous)

    def revision(self, number: int, revision_id: str) -> Revision | None:
        found = (block.revision for block in self.blocks if block.slot == number and block.revision)
        return next((revision for revision in found if revision.id == revision_id), None)


class MovedError(Exception):
    """The newest revision is not the one that a change was to follow."""


class LoggedFile:
    """A file and its log in the store, as steps.

    Args:
        files: namespace of the file.
        path: its key there.
        clock: for time stamps.
        new_id: makes ids that nobody else makes.
    """

    def __init__(
        self,
        files: scopes.Namespace,
        path: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        self.files, self.path, self.clock, self.new_id = files, path, clock, new_id
        self.log, self.marks = scopes.journal(files, path), scopes.unsettled(files)
        # A value that somebody copied here from another file or person is no copy of this file's revision.
        self.name = hashlib.sha256(repr(self.log).encode()).hexdigest()[:16]

    def listed(self, slot: int) -> Steps[Log]:
        """The log from a slot on."""
        (found,) = yield [SearchOp(self.log, filter={"slot": {"$gte": f"{slot:08}"}}, limit=ALL)]
        return log_of(found, slot)

    def put_block(self, block: Block) -> Steps[None]:
        """Say something in a slot. Nobody else has the same key."""
        value = {**block.value(), "path": self.path}  # the namespace has its digest only
        yield [PutOp(self.log, f"{block.slot:08}-{block.ballot[1]}", value, index=False)]

    def put_file(self, revision: Revision) -> Steps[None]:
        """Make the file a copy of a revision."""
        file = revision.file()
        copy = {"revision": revision.number, "revision_id": revision.id, "journal": self.name, "written": revision.written}
        yield [PutOp(self.files, self.path, {**file, **copy} if file else None)]

    def publish(self, newest: Revision) -> Steps[None]:
        """Make the file a copy of the best revision of the newest slot: put, list, and repeat until it is."""
        while True:
            yield from self.put_file(newest)
            best = (yield from self.listed(newest.number)).best
            if best is None or best.is_copied_by(newest):
                return
            newest = best

    def mark(self) -> Steps[None]:
        """Note that somebody might yet put an old revision, and die."""
        yield [PutOp(self.marks, self.path, {"at": self.clock().isoformat()}, index=False)]


class Writer:
    """One change on its way into one file's log.

    Args:
        file: the file.
        change: what to do; None: only see to it that what is chosen is published.
        author: who is noted.
        expect: id of the only revision that the change may follow, "" for none yet. None: any.
        adopted: see `Revision`.
    """

    def __init__(
        self, file: LoggedFile, change: Change | None, author: Author, expect: str | None = None, adopted: str = ""
    ) -> None:
        self._file, self._change, self._author, self._expect, self._adopted = file, change, author, expect, adopted
        self._id, self._changed_once, self._blocks = file.new_id(), False, dict[int, Block]()
        self._made: Revision | None = None
        self._put_early = False  # whether the file may hold a revision of ours that was not chosen
        self.proposed = 0  # the slot in which its revision may have been chosen

    def alone(self, base: Revision) -> Steps[Revision | None]:
        """The short way, which works where nobody else is writing this file; otherwise None."""
        slot, ballot = base.number + 1, (1, self._id)
        try:
            revision = self._revision(base)
        except ValueError:
            if (yield from self._file.listed(base.number)).ends_with(base):
                raise
            return None
        yield from self._put(Block(slot, ballot))
        log = yield from self._file.listed(base.number)
        if self._rivals(log, slot) or not log.ends_with(base):
            return None
        yield from self._put(Block(slot, ballot, ballot, revision))
        self.proposed, self._put_early = slot, True
        yield from self._file.put_file(revision)
        return None if self._rivals((yield from self._file.listed(slot)), slot) else revision

    def among_others(self, floor: int) -> Steps[Revision]:
        """The careful way. `floor`: a slot not above the newest one that is known to be chosen."""
        try:
            return (yield from self._until_chosen(floor))
        except ValueError:
            best = (yield from self._file.listed(floor)).best if self._put_early else None
            if best is not None:
                yield from self._file.publish(best)
            raise

    def _until_chosen(self, floor: int) -> Steps[Revision]:
        yield from self._file.mark()
        tried = waited_at = tries = 0
        while True:
            log = yield from self._file.listed(floor)
            if self.proposed and (log.top > self.proposed or log.chosen):
                chosen = self._chosen(log)
                if chosen:
                    yield from self._file.publish(log.best or chosen)
                    return chosen
                self.proposed = 0
            head, free = log.head(), log.chosen or log.best is None
            if self._change is None and free:
                if head is None:
                    raise MovedError
                yield from self._file.publish(head)
                return head
            slot = log.top + 1 if free else log.top
            floor = min(self.proposed or log.top, log.top) if free else floor
            if self._rivals(log, slot) and waited_at != slot:
                waited_at, won = slot, False  # most rivals are alive, and done in a moment
            else:
                won = yield from self._compete(slot, log, head or NOTHING)
            if not won:
                tries, tried = tries + 1 if tried == slot else 1, slot  # what counts is how many want this slot
                yield random.uniform(0, min(_LONGEST_SLEEP, _FIRST_SLEEP * 2 ** min(tries, 10)))  # noqa: S311

    def _compete(self, slot: int, log: Log, head: Revision) -> Steps[bool]:
        """One ballot for a slot. Whether a revision, our own or an earlier one, was accepted with it."""
        highest = max((block.ballot[0] for block in log.blocks if block.slot == slot), default=0)
        ballot, mine = (highest + 1, self._id), self._blocks.get(slot)
        yield from self._put(Block(slot, ballot, mine.accepted if mine else None, mine.revision if mine else None))
        log = yield from self._file.listed(slot)
        if log.top > slot or any(block.slot == slot and block.ballot > ballot for block in log.blocks):
            return False
        revision = log.best if log.top == slot else None
        if revision is None:
            revision = self._revision(head)
        yield from self._put(Block(slot, ballot, ballot, revision))
        if revision.id == self._id:
            self.proposed = slot
        return True

    def _chosen(self, log: Log) -> Revision | None:
        """Our revision, if it was chosen where it was proposed; None if another was.

        Raises:
            RefusedWriteError: it is too long ago to be known.
        """
        mine = self._made  # its block may hold another's by now, that it helped to be chosen
        if log.top == self.proposed:
            return mine if log.best and log.best.id == self._id else None
        following = next((block.revision for block in log.blocks if block.slot == self.proposed + 1 and block.revision), None)
        if following is None:
            raise RefusedWriteError("So many others changed this file that nobody knows if this change is in it; read it.")
        return mine if following.previous == self._id else None

    def _revision(self, base: Revision) -> Revision:
        """The revision that the change makes of another."""
        if self._change is None or (self._expect is not None and base.id != self._expect):
            raise MovedError
        try:
            file = self._change(base.file())
        except ValueError as error:
            if self._changed_once:
                raise RefusedWriteError(f"{error} Somebody else changed the file meanwhile: read it again.") from None
            raise
        self._changed_once, now = True, self._file.clock().isoformat()
        self._made = Revision(
            number=base.number + 1,
            id=self._id,
            previous=base.id,
            content=None if file is None else file["content"],
            encoding=file["encoding"] if file else "utf-8",
            created_at=(base.created_at if base.content is not None else file.get("created_at", "") if file else "") or now,
            at=now,
            author=self._author,
            adopted=self._adopted,
            written=base.written + taken_by(None if file is None else file["content"]),
        )
        return self._made

    def _put(self, block: Block) -> Steps[None]:
        self._blocks[block.slot] = block
        yield from self._file.put_block(block)

    def _rivals(self, log: Log, slot: int) -> bool:
        return any(block.slot >= slot and block.ballot[1] != self._id for block in log.blocks)


def taken_by(content: str | None) -> int:
    """Bytes that a text takes up in the store, as a file or as a revision."""
    return len((content or "").encode(errors="replace")) + OVERHEAD_BYTES


def seconds_since(at: object, now: datetime) -> float:
    """Seconds since a time stamp; for ever, where it is none."""
    try:
        return (now - datetime.fromisoformat(str(at))).total_seconds()
    except (ValueError, TypeError):
        return float("inf")


def log_of(found: Sequence[Item], slot: int = 0) -> Log:
    """A log from a slot on, of the items of its namespace."""
    return Log(tuple(block for item in found if (block := block_of(item)) and block.slot >= slot))


def block_of(item: Item) -> Block | None:
    """A block as stored; None for what no writer put there."""
    try:
        value, revision, accepted = item.value, item.value["revision"], item.value["accepted"]
        number, who = value["ballot"]
        return Block(
            slot=int(value["slot"]),
            ballot=(int(number), str(who)),
            accepted=(int(accepted[0]), str(accepted[1])) if accepted else None,
            revision=_revision(revision, value.get("written")) if revision else None,
        )
    except (KeyError, TypeError, ValueError):
        return None


def _revision(value: dict[str, Any], written: object) -> Revision:
    """A revision as stored; `written` is not there in journals of version 0.1."""
    known = written if isinstance(written, int) else 0
    return Revision(**{**value, "author": Author(**value["author"]), "written": known})
