"""What the journals of a namespace take up: counted, noted for the next time, and which revisions are too much of it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field

from langgraph.store.base import GetOp, Item, PutOp, SearchOp

from memory import scopes
from memory.consensus import LoggedFile, Steps, block_of, taken_by
from settings import MAX_FILE_BYTES, MAX_STORED_BYTES

# One more write, the file and its revision, still fits.
BUDGET = MAX_STORED_BYTES - 2 * MAX_FILE_BYTES
# Shares of the budget: what living files with their journals, and journals of deleted ones, may take without being counted,
# and what those of version 0.1 among the latter may take, which a deletion does not find.
UNCOUNTED, AGED = 7 / 16, 1 / 8
# What is too much goes until this share of its bound is left, so that something need not go at every write.
GOAL = 0.75
_PAGE = 200
_NOTE = "note"


@dataclass(slots=True)
class Note:
    """What the last count found. Times are ISO times; journals are named by their namespace's last part.

    Args:
        journals: what a journal had been given, and what it took up, where that is not the same.
        aged: bytes of the journals of version 0.1 of deleted files.
        going: since when a deleted file is being cleared away.
        full_until: when new files may be made again.
        at: of the count.
    """

    journals: dict[str, list[int]] = field(default_factory=dict)
    aged: int = 0
    going: dict[str, str] = field(default_factory=dict)
    full_until: str = ""
    at: str = ""

    def taken(self, digest: str, written: int) -> int:
        """The most that a journal can take up which was given so many bytes."""
        then, took = self.journals.get(digest, (0, 0))
        return took + written - then if written >= then else written


@dataclass(frozen=True, slots=True)
class Stored:
    """A block of a journal, without its text. `aged`: of version 0.1."""

    key: str
    slot: int
    bytes: int
    at: str
    accepted: bool
    deletion: bool
    written: int
    aged: bool


@dataclass(slots=True)
class Journal:
    """A journal as counted. `there`: so is its file."""

    name: str
    there: bool
    blocks: list[Stored] = field(default_factory=list)

    @property
    def newest(self) -> Stored:
        return max(self.blocks, key=lambda block: (block.accepted, block.slot))

    @property
    def older(self) -> list[Stored]:
        return [block for block in self.blocks if block.slot < self.newest.slot]

    @property
    def deleted(self) -> bool:
        return not self.there and self.newest.deletion

    @property
    def taken(self) -> int:
        return sum(block.bytes for block in self.blocks)


def all_journals(file: LoggedFile, living: set[str]) -> Steps[tuple[dict[str, Journal], Note]]:
    """All journals of the namespace, a page at a time, and the note."""
    journals, note, read = dict[str, Journal](), Note(), 0
    while True:
        (page,) = yield [SearchOp(scopes.journals(file.files), limit=_PAGE, offset=read)]
        for item in page:
            name = item.namespace[-1]
            if item.namespace == scopes.retained(file.files):
                note = _read(item)
            elif stored := _stored(item):
                journals.setdefault(name, Journal(name, name in living)).blocks.append(stored)
        read += len(page)
        if len(page) < _PAGE:
            return journals, note


def _stored(item: Item) -> Stored | None:
    if (block := block_of(item)) is None:
        return None
    revision = block.revision
    return Stored(
        key=item.key,
        slot=block.slot,
        bytes=taken_by(revision.content if revision else None),
        at=revision.at if revision else "",
        accepted=revision is not None,
        deletion=revision is not None and revision.content is None,
        written=revision.written if revision else 0,
        aged=revision is not None and "deleted" not in item.value,
    )


def too_much(journals: Mapping[str, Journal], files: int) -> dict[str, int]:
    """What has to go: the slots below which journals' revisions go. Deleted files first, then the oldest revisions of all.

    Args:
        journals: all.
        files: bytes of all files.
    """
    total, cuts = files + sum(each.taken for each in journals.values()), dict[str, int]()
    deleted = sorted((each for each in journals.values() if each.deleted), key=lambda each: each.newest.at)
    goal = BUDGET * GOAL if total > BUDGET else total
    for aged, share in ((True, AGED), (False, UNCOUNTED)):
        part = [each for each in deleted if each.newest.aged is aged]
        taken = sum(each.taken for each in part)
        most = BUDGET * share * GOAL if taken > BUDGET * share else taken
        for journal in part:
            if journal.older and (taken > most or total > goal):
                freed = sum(block.bytes for block in journal.older)
                total, taken = total - freed, taken - freed
                cuts[journal.name] = journal.newest.slot
    others = [(block.at, each.name, block) for each in journals.values() if not each.deleted for block in each.older]
    for _, name, block in sorted(others, key=lambda other: other[:2]):
        if total > goal:
            total -= block.bytes
            cuts[name] = max(cuts.get(name, 0), block.slot + 1)
    return cuts


def read_note(file: LoggedFile) -> Steps[Note]:
    (item,) = yield [GetOp(scopes.retained(file.files), _NOTE)]
    return _read(item) if item else Note()


def put_note(file: LoggedFile, note: Note) -> Steps[None]:
    yield [PutOp(scopes.retained(file.files), _NOTE, asdict(note), index=False)]


def _read(item: Item) -> Note:
    try:
        return Note(**deepcopy(item.value))  # the in-memory store gives its own object
    except TypeError:  # of another version
        return Note()
