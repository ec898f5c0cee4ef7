"""Revisions of a file, and its log in the store."""

import hashlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import uuid4

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item, Op, PutOp, SearchOp
from pydantic import ConfigDict, TypeAdapter, ValidationError

from memory import namespaces
from memory.identity import Author
from settings import MAX_DELETED_FILES, MAX_FILE_BYTES, MAX_STORED_BYTES, REVISIONS_KEPT

T = TypeVar("T")
# A writer's steps: batches of store operations, and seconds to sleep. `runners.py` carries them out in a thread or in an event
# loop; tests interleave and interrupt them.
Steps = Generator[Sequence[Op] | float, Any, T]
# Makes a file's new content from the old one; None is no file. A ValueError refuses the change.
Change = Callable[[FileData | None], FileData | None]
Ballot = tuple[int, str]

ALL = 10_000
# A live writer never pauses longer than this between two operations.
OUTSIDE_SECONDS = 600
# An item's path, author, ids and times, beside its text. Most take half.
OVERHEAD_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a namespace's journals."""

    bytes: int = MAX_STORED_BYTES - 2 * MAX_FILE_BYTES  # all files and journals; one more file and its revision still fit
    revisions: int = REVISIONS_KEPT  # of one file
    compact_every: int = 25  # revisions, after which a file's log is compacted
    deleted_files: float = MAX_DELETED_FILES  # those that keep their last revision


BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class Revision:
    """A file after one change; `content` is None if the change deleted it. `at` and `created_at` are ISO times in UTC.

    `adopted` is the digest of the last value put around the journal from which this revision or an earlier one was made: the
    file may still hold that value when its revision is gone. `written` counts all bytes written to the journal so far, an upper
    bound of its size (`memory/journal/retention.py`).
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # a stored one with other fields is damaged
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
        """As deepagents' file data; None for a deletion."""
        if self.content is None:
            return None
        return FileData(content=self.content, encoding=self.encoding, created_at=self.created_at, modified_at=self.at)

    def is_copied_by(self, other: "Revision") -> bool:
        """Whether the other is this one. One writer's revisions for different slots have one id."""
        return (self.number, self.id) == (other.number, other.id)


NOTHING = Revision(0, "", "", None, "utf-8", "", "", Author("outside"))


@dataclass(frozen=True, slots=True)
class Block:
    """One writer's state in one slot: its ballot, and the revision it accepted, with the ballot of that."""

    slot: int
    ballot: Ballot
    accepted: Ballot | None = None
    revision: Revision | None = None

    def value(self) -> dict[str, Any]:
        # Postgres compares text, the in-memory store numbers: eight digits are the same in both.
        value = {**asdict(self), "slot": f"{self.slot:08}"}
        if self.revision:  # not inside the revision, where version 0.1 takes unknown fields for damage
            value |= {"written": value["revision"].pop("written"), "deleted": self.revision.content is None}
        return value


class Log:
    """A listing: the highest slot with an accepted revision, the best revision there, and whether it is chosen."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = blocks
        self.top = max((block.slot for block in blocks if block.revision), default=0)
        ballots = {block.accepted: block.revision for block in blocks if block.slot == self.top and block.accepted}
        highest = max(ballots, default=(0, ""))
        self.best = ballots.get(highest)
        self.chosen = all(block.ballot <= highest for block in blocks if block.slot == self.top)

    def head(self) -> Revision | None:
        """The newest revision that this listing shows as chosen. If `chosen` is false, `best` may be chosen too."""
        if self.best is None or self.chosen:
            return self.best
        return self.revision(self.top - 1, self.best.previous)

    def ends_with(self, revision: Revision) -> bool:
        """Whether a revision is certainly the newest chosen one."""
        return self.chosen and (self.best or NOTHING).is_copied_by(revision)

    def back_from(self, revision: Revision | None) -> Iterator[Revision]:
        """A chosen revision and its kept predecessors, newest first."""
        while revision is not None:
            yield revision
            revision = self.revision(revision.number - 1, revision.previous)

    def revision(self, number: int, revision_id: str) -> Revision | None:
        revisions = (block.revision for block in self.blocks if block.slot == number and block.revision)
        return next((revision for revision in revisions if revision.id == revision_id), None)


class MovedError(Exception):
    """The newest revision is not the expected one."""


class LoggedFile:
    """A file and its log in the store, as steps. `files` is the file's namespace, `path` its key there."""

    def __init__(
        self,
        files: namespaces.Namespace,
        path: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_id: Callable[[], str] = lambda: uuid4().hex,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self.files, self.path, self.clock, self.new_id, self.bounds = files, path, clock, new_id, bounds
        self.log, self.marks = namespaces.journal(files, path), namespaces.unsettled(files)
        # Distinguishes a copy of this file's revision from a value copied from another file or person.
        self.name = hashlib.sha256(repr(self.log).encode()).hexdigest()[:16]

    def age(self, at: object) -> float:
        """Seconds since a time stamp; infinite for an invalid one."""
        try:
            return (self.clock() - datetime.fromisoformat(str(at))).total_seconds()
        except (ValueError, TypeError):
            return float("inf")

    def listed(self, slot: int) -> Steps[Log]:
        """The log from a slot on."""
        (items,) = yield [SearchOp(self.log, filter={"slot": {"$gte": f"{slot:08}"}}, limit=ALL)]
        return log_of(items, slot)

    def put_block(self, block: Block) -> Steps[None]:
        """Write this writer's block in a slot, under a key of its own."""
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
        """Note that a writer might still put an old revision, and die."""
        yield [PutOp(self.marks, self.path, {"at": self.clock().isoformat()}, index=False)]


def taken_by(content: str | None) -> int:
    """Bytes that a text takes in the store, as a file or as a revision."""
    return len((content or "").encode(errors="replace")) + OVERHEAD_BYTES


def log_of(items: Sequence[Item], slot: int = 0) -> Log:
    """The log in these items of its namespace, from a slot on."""
    return Log([block for item in items if (block := block_of(item)) and block.slot >= slot])


def block_of(item: Item) -> Block | None:
    """A stored block; None for foreign or damaged values."""
    try:
        block = _BLOCKS.validate_python({name: item.value.get(name) for name in ("slot", "ballot", "accepted", "revision")})
    except ValidationError:
        return None
    if (block.accepted is None) is not (block.revision is None):
        return None
    if block.revision and (written := written_of(item)) is not None:
        return replace(block, revision=replace(block.revision, written=written))
    return block


def written_of(item: Item) -> int | None:
    """The bytes written to a journal, as its items record it; None in journals of version 0.1, and for a damaged value."""
    written = item.value.get("written")
    return written if isinstance(written, int) else None


_BLOCKS = TypeAdapter(Block)
