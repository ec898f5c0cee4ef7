"""The size of a namespace's journals: counting it, keeping a note of it, and choosing the revisions to delete."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from langgraph.store.base import GetOp, Item, PutOp, SearchOp
from pydantic import TypeAdapter, ValidationError

from memory import namespaces
from memory.journal.revisions import NOTHING, LoggedFile, Steps, block_of, taken_by

# Shares of the budget (`Bounds.bytes`) that need no count: for existing files with their journals, and again for journals of
# deleted files; then for those of the latter that version 0.1 wrote, which a deletion does not see.
UNCOUNTED, AGED = 7 / 16, 1 / 8
# An excess goes until this share of its bound is left, so that not every write deletes something.
GOAL = 0.75
_PAGE = 200
_NOTE = "note"


@dataclass(slots=True)
class Note:
    """The result of the last count. Times are ISO times; a journal's name is the last part of its namespace."""

    journals: dict[str, tuple[int, int]] = field(default_factory=dict)  # bytes written and bytes taken, where they differ
    aged: int = 0  # bytes of deleted files' journals of version 0.1
    going: dict[str, str] = field(default_factory=dict)  # the time since which a deleted file is being cleared away
    full_until: str = ""  # the time until which no new file may be created
    at: str = ""  # the time of the count

    def taken(self, digest: str, written: int) -> int:
        """The most bytes that a journal can take, after so many bytes were written to it."""
        then, took = self.journals.get(digest, (0, 0))
        return took + written - then if written >= then else written


class Stored(NamedTuple):
    """A block of a journal without its text."""

    key: str
    slot: int
    bytes: int
    at: str
    accepted: bool
    deletion: bool
    written: int
    aged: bool  # version 0.1 wrote it


@dataclass(slots=True)
class Journal:
    """A counted journal. `there`: its file exists."""

    name: str
    there: bool
    blocks: list[Stored] = field(default_factory=list)

    @property
    def newest(self) -> Stored:
        return max(self.blocks, key=lambda block: (block.accepted, block.slot))

    @property
    def older(self) -> list[Stored]:
        newest = self.newest.slot
        return [block for block in self.blocks if block.slot < newest]

    @property
    def deleted(self) -> bool:
        return not self.there and self.newest.deletion

    @property
    def taken(self) -> int:
        return sum(block.bytes for block in self.blocks)


def all_journals(file: LoggedFile, living: set[str]) -> Steps[tuple[dict[str, Journal], Note]]:
    """All journals of the namespace, read page by page, and the note."""
    journals, note, read = dict[str, Journal](), Note(), 0
    while True:
        (page,) = yield [SearchOp(namespaces.journals(file.files), limit=_PAGE, offset=read)]
        for item in page:
            name = item.namespace[-1]
            if item.namespace == namespaces.retained(file.files):
                note = _read(item)
            elif stored := _stored(item):
                journals.setdefault(name, Journal(name, name in living)).blocks.append(stored)
        read += len(page)
        if len(page) < _PAGE:
            return journals, note


def _stored(item: Item) -> Stored | None:
    if (block := block_of(item)) is None:
        return None
    accepted, revision = block.revision is not None, block.revision or NOTHING
    deletion, aged = accepted and revision.content is None, accepted and "deleted" not in item.value
    size = taken_by(revision.content)
    return Stored(item.key, block.slot, size, revision.at, accepted, deletion, revision.written, aged)


def too_much(journals: Mapping[str, Journal], files: int, budget: int) -> dict[str, int]:
    """The revisions to delete: for each journal the slot below which they go. Deleted files first, then the oldest of all.

    `files` are the bytes of all files, `budget` those for files and journals.
    """
    total, cuts = files + sum(each.taken for each in journals.values()), dict[str, int]()
    deleted = sorted((each for each in journals.values() if each.deleted), key=lambda each: each.newest.at)
    goal = budget * GOAL if total > budget else total
    for aged, share in ((True, AGED), (False, UNCOUNTED)):
        part = [each for each in deleted if each.newest.aged is aged]
        taken = sum(each.taken for each in part)
        most = budget * share * GOAL if taken > budget * share else taken
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
    (item,) = yield [GetOp(namespaces.retained(file.files), _NOTE)]
    return _read(item) if item else Note()


def put_note(file: LoggedFile, note: Note) -> Steps[None]:
    yield [PutOp(namespaces.retained(file.files), _NOTE, asdict(note), index=False)]


def _read(item: Item) -> Note:
    try:
        return _NOTES.validate_python(item.value)
    except ValidationError:  # damaged; a new count replaces it
        return Note()


_NOTES = TypeAdapter(Note)
