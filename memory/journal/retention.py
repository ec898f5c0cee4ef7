"""Bounds on the size of a namespace's files and journals, and deletion beyond them.

**Bounds.** Files and journals take at most `MAX_STORED_BYTES`, the journals of deleted files at most about half of it. Beyond
that, deleted files keep only their last revision, which records the deletion; the longest deleted files come first. Then the
oldest revisions of all files go. The newest revision of an existing file never goes. A revision goes only once a later one is
known to be chosen: this is early compaction (`memory/journal/log.py`). Deleted files beyond `MAX_DELETED_FILES` go entirely.

**Cheap counting.** Each revision records how many bytes were written to its journal so far, and each file records it of its
newest. So every write, which reads the files, knows an upper bound of their journals; every deletion reads the last revisions
of deleted files, and knows an upper bound of theirs. Only if the bounds are too high does it count everything, and note the
real sizes for the next time. Journals of version 0.1 record nothing: where some may exist, everything is counted, too.

**Clearing a deleted file away** takes two steps, because a writer that knows its last revision would continue from it while
another began a new journal. First a note says so, and nobody creates that file any more. `OUTSIDE_SECONDS` later, when all
writers that had not read the note are done, its journal is deleted. This supposes that no writer stops for longer between two
operations.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from langgraph.store.base import GetOp, Item, Op, PutOp, SearchOp

from memory import namespaces
from memory.journal.revisions import ALL, OUTSIDE_SECONDS, LoggedFile, Revision, Steps, block_of, log_of, taken_by, written_of
from memory.journal.stored import GOAL, UNCOUNTED, Journal, Note, all_journals, put_note, read_note, too_much
from memory.validation import RefusedWriteError

# Seconds between two counts for the sake of the number of deleted files.
_COUNT_SECONDS = 60

# By path of an existing file: its bytes, and the bytes written to its journal, if it records them.
_There = Mapping[str, tuple[int, int | None]]


def admit(file: LoggedFile, items: Sequence[Item]) -> Steps[None]:
    """Call this before creating a file; `items` are all existing files.

    Raises:
        RefusedWriteError: too many files were deleted a moment ago, or this one is being cleared away.
    """
    known = any(written_of(item) is not None for item in items)
    note = (yield from read_note(file)) if known else (yield from _count(file, _there(items), always=False))
    if -2 * OUTSIDE_SECONDS < file.age(note.full_until) < 0:  # one further ahead was put when the clock was
        raise RefusedWriteError("Too many files were deleted here; change one that is there, or try again in ten minutes.")
    name = file.log[-1]
    if name in note.going:
        if file.age(note.going[name]) <= OUTSIDE_SECONDS or not (yield from _clear_away(file, name)):
            said = "was deleted and is being cleared away; try again in ten minutes, or use another path."
            raise RefusedWriteError(f"'{file.path}' {said}")
        del note.going[name]
        note.journals.pop(name, None)
        yield from put_note(file, note)


def enforce(file: LoggedFile, items: Sequence[Item], revision: Revision) -> Steps[None]:
    """Call this after a change, with all files before it: it makes room if there is too little."""
    there = {**_there(items), file.path: (taken_by(revision.content), revision.written)}
    if revision.content is None:
        del there[file.path]
        fits = yield from _deleted_fit(file, there)
    else:
        aged = any("revision" in item.value and written_of(item) is None for item in items)
        fits = not aged and _living(Note(), file, there) <= file.bounds.bytes * UNCOUNTED
        fits = fits or (yield from _all_fit(file, there))
    if not fits:
        yield from _count(file, there, always=True)


def _there(items: Sequence[Item]) -> dict[str, tuple[int, int | None]]:
    return {item.key: (taken_by(str(item.value.get("content", ""))), written_of(item)) for item in items}


def _deleted_fit(file: LoggedFile, there: _There) -> Steps[bool]:
    """Whether deleted files are within their bounds, as far as this is known without a count."""
    deleted = yield from _deleted(file, there)
    if len(deleted) <= file.bounds.deleted_files and sum(deleted.values()) <= file.bounds.bytes * UNCOUNTED:
        return True
    note = yield from read_note(file)
    overfull = len(deleted) > 2 * file.bounds.deleted_files and note.full_until <= file.clock().isoformat()
    counted = abs(file.age(note.at)) <= _COUNT_SECONDS and not overfull
    if len(deleted) > file.bounds.deleted_files and not counted:
        return False
    return sum(note.taken(*each) for each in deleted.items()) <= file.bounds.bytes * UNCOUNTED


def _all_fit(file: LoggedFile, there: _There) -> Steps[bool]:
    """Whether everything is within bounds, as far as the last count tells."""
    note = yield from read_note(file)
    living = _living(note, file, there)
    if not note.at or living <= file.bounds.bytes * UNCOUNTED:
        return bool(note.at)
    deleted = yield from _deleted(file, there)
    return living + note.aged + sum(note.taken(*each) for each in deleted.items()) <= file.bounds.bytes


def _living(note: Note, file: LoggedFile, there: _There) -> int:
    """The most bytes that the files and their journals can take."""
    total = 0
    for path, (taken, written) in there.items():
        name = namespaces.journal(file.files, path)[-1] if note.journals else ""
        total += taken + note.taken(name, written or 0)
    return total


def _deleted(file: LoggedFile, there: _There) -> Steps[dict[str, int]]:
    """The bytes written to the journals of deleted files, by name."""
    (items,) = yield [SearchOp(namespaces.journals(file.files), filter={"deleted": True}, limit=ALL)]
    living, deleted = _names(file, there), dict[str, int]()
    for item in items:
        block, name = block_of(item), item.namespace[-1]
        if name not in living and block and block.revision:
            deleted[name] = max(deleted.get(name, 0), block.revision.written)
    return deleted


def _names(file: LoggedFile, there: _There) -> set[str]:
    return {namespaces.journal(file.files, path)[-1] for path in there}


def _count(file: LoggedFile, there: _There, *, always: bool) -> Steps[Note]:
    """Count everything, delete the excess, and note the rest. `always`: even if that adds nothing to what the files say."""
    journals, note = yield from all_journals(file, _names(file, there))
    for name, slot in too_much(journals, sum(taken for taken, _ in there.values()), file.bounds.bytes).items():
        yield from _let_go(file, journals[name], slot)
    yield from _clear_oldest(file, journals, note)
    noted = always or bool(note.at or note.going)
    counted = journals.values()
    note.journals = {each.name: (each.newest.written, each.taken) for each in counted if each.newest.written != each.taken}
    note.aged = sum(each.taken for each in counted if each.deleted and each.newest.aged)
    if noted or note.aged:
        note.at = file.clock().isoformat()
        yield from put_note(file, note)
    return note


def _let_go(file: LoggedFile, journal: Journal, slot: int) -> Steps[None]:
    """Delete the revisions below a slot that precede a chosen one."""
    namespace = (*namespaces.journals(file.files), journal.name)
    (items,) = yield [SearchOp(namespace, filter={"slot": {"$gte": f"{slot - 1:08}"}}, limit=ALL)]
    head = log_of(items).head()
    end = min(slot, head.number) if head else 0
    if gone := [block.key for block in journal.blocks if block.slot < end]:
        yield [PutOp(namespace, key, None) for key in gone]
    journal.blocks = [block for block in journal.blocks if block.slot >= end]


def _clear_oldest(file: LoggedFile, journals: dict[str, Journal], note: Note) -> Steps[None]:
    """Clear away the files deleted first, if there are too many deleted files."""
    now = file.clock()
    for name, since in list(note.going.items()):
        if name in journals and journals[name].deleted:
            if file.age(since) <= OUTSIDE_SECONDS:
                continue
            if (yield from _clear_away(file, name)):
                del journals[name]
        del note.going[name]
    deleted = sorted((each for each in journals.values() if each.deleted), key=lambda each: each.newest.at)
    staying = [each.name for each in deleted if each.name not in note.going]
    if len(staying) > file.bounds.deleted_files:
        note.going |= dict.fromkeys(staying[: len(staying) - int(file.bounds.deleted_files * GOAL)], now.isoformat())
    full = len(deleted) > 2 * file.bounds.deleted_files
    note.full_until = (now + timedelta(seconds=OUTSIDE_SECONDS)).isoformat() if full else ""


def _clear_away(file: LoggedFile, name: str) -> Steps[bool]:
    """Delete the journal of a deleted file, unless a writer may be using it. Returns whether it is gone."""
    namespace = (*namespaces.journals(file.files), name)
    (items,) = yield [SearchOp(namespace, limit=ALL)]
    log, path = log_of(items), next((str(item.value["path"]) for item in items if "path" in item.value), None)
    last = log.best if log.chosen else None
    living = bool(items) and (last is None or last.content is not None)
    if living or any(file.age(item.updated_at) <= OUTSIDE_SECONDS for item in items):
        return False
    # The last revision goes last: after a crash in between, it still says that the file is deleted.
    older = [item.key for item in items if item.key < f"{log.top:08}"]
    last_ops: list[Op] = [PutOp(namespace, item.key, None) for item in items if item.key not in older]
    if path is not None:
        item, mark = yield [GetOp(file.files, path), GetOp(namespaces.unsettled(file.files), path)]
        if item is not None or (mark is not None and file.age(mark.value.get("at")) <= OUTSIDE_SECONDS):
            return False
        last_ops += [PutOp(namespaces.unsettled(file.files), path, None)] if mark is not None else []
    for ops in ([PutOp(namespace, key, None) for key in older], last_ops):
        if ops:
            yield ops
    return True
