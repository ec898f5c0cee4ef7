"""What a namespace's files and their journals take up together, and what goes when it is too much.

**Bounds.** Files and journals take at most `MAX_STORED_BYTES`, the journals of deleted files at most about half of it. Beyond
that deleted files are reduced to their last revision, which says that they are gone, the longest deleted first; then the oldest
revisions of all files go. The newest of a file that is there never goes. A revision goes only once a later one is known to be
chosen: this is compaction (`memory/journal.py`), earlier. Deleted files beyond `MAX_DELETED_FILES` are cleared away whole.

**Knowing it cheaply.** A revision says how many bytes its journal was given so far, and a file says it of its newest. So the
files, which every write reads, tell the most that their journals can take. The last revisions of deleted files, which each
deletion looks for, tell the same of theirs. Only where that is too much, everything is counted, and what each journal really
takes is noted for the next time. Journals of version 0.1 say nothing: where there may be such, everything is counted, too.

**Clearing a deleted file away** takes two steps: a writer that knows its last revision would go on from it, while another one
began a new journal. First it is noted, and nobody makes that file any more. `OUTSIDE_SECONDS` later, when whoever had not read
the note is done, its journal is deleted. This supposes that no writer stops for longer between two operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from langgraph.store.base import GetOp, Item, Op, PutOp, SearchOp

from memory import scopes, stored
from memory.consensus import ALL, OUTSIDE_SECONDS, LoggedFile, Revision, Steps, log_of, seconds_since, taken_by
from memory.stored import Journal, Note, all_journals, put_note, read_note, too_much
from memory.validation import RefusedWriteError
from settings import MAX_DELETED_FILES

# Seconds between two counts for the sake of the number of deleted files.
_COUNT_SECONDS = 60

# By path of a file that is there: what it takes up, and what its journal was given, if it says so.
_There = Mapping[str, tuple[int, int | None]]


def admit(file: LoggedFile, items: Sequence[Item]) -> Steps[None]:
    """To be called before a file is made that is not there.

    Args:
        file: the file.
        items: all files that are there.

    Raises:
        RefusedWriteError: too many were deleted a moment ago, or this one is being cleared away.
    """
    known = any("written" in item.value for item in items)
    note = (yield from read_note(file)) if known else (yield from _count(file, _there(items), always=False))
    if note.full_until > file.clock().isoformat():
        raise RefusedWriteError("Too many files were deleted here; change one that is there, or try again in ten minutes.")
    name = file.log[-1]
    if name in note.going:
        if seconds_since(note.going[name], file.clock()) <= OUTSIDE_SECONDS or not (yield from _clear_away(file, name)):
            raise RefusedWriteError(
                f"'{file.path}' was deleted and is being cleared away; try again in ten minutes, or use another path."
            )
        del note.going[name]
        note.journals.pop(name, None)
        yield from put_note(file, note)


def enforce(file: LoggedFile, items: Sequence[Item], revision: Revision) -> Steps[None]:
    """To be called after a file was changed: makes room where there is too little.

    Args:
        file: the file.
        items: all files as they were before.
        revision: what the file is now.
    """
    there = {**_there(items), file.path: (taken_by(revision.content), revision.written)}
    if revision.content is None:
        del there[file.path]
        fits = yield from _deleted_fit(file, there)
    else:
        aged = any("revision" in item.value and "written" not in item.value for item in items)
        fits = not aged and _living(Note(), file, there) <= stored.BUDGET * stored.UNCOUNTED
        fits = fits or (yield from _all_fit(file, there))
    if not fits:
        yield from _count(file, there, always=True)


def _there(items: Sequence[Item]) -> dict[str, tuple[int, int | None]]:
    return {item.key: (taken_by(str(item.value.get("content", ""))), item.value.get("written")) for item in items}


def _deleted_fit(file: LoggedFile, there: _There) -> Steps[bool]:
    """Whether deleted files are few enough and take no more than their part, as far as is known without counting."""
    deleted = yield from _deleted(file, there)
    if len(deleted) <= MAX_DELETED_FILES and sum(deleted.values()) <= stored.BUDGET * stored.UNCOUNTED:
        return True
    note, now = (yield from read_note(file)), file.clock()
    overfull = len(deleted) > 2 * MAX_DELETED_FILES and note.full_until <= now.isoformat()
    counted = seconds_since(note.at, now) <= _COUNT_SECONDS and not overfull
    if len(deleted) > MAX_DELETED_FILES and not counted:
        return False
    return sum(note.taken(*each) for each in deleted.items()) <= stored.BUDGET * stored.UNCOUNTED


def _all_fit(file: LoggedFile, there: _There) -> Steps[bool]:
    """Whether everything is within bounds, as far as the last count tells."""
    note = yield from read_note(file)
    living = _living(note, file, there)
    if not note.at or living <= stored.BUDGET * stored.UNCOUNTED:
        return bool(note.at)
    deleted = yield from _deleted(file, there)
    return living + note.aged + sum(note.taken(*each) for each in deleted.items()) <= stored.BUDGET


def _living(note: Note, file: LoggedFile, there: _There) -> int:
    """The most that the files and their journals take."""
    total = 0
    for path, (taken, written) in there.items():
        name = scopes.journal(file.files, path)[-1] if note.journals else ""
        total += taken + note.taken(name, written or 0)
    return total


def _deleted(file: LoggedFile, there: _There) -> Steps[dict[str, int]]:
    """What the journals of deleted files were given."""
    (found,) = yield [SearchOp(scopes.journals(file.files), filter={"deleted": True}, limit=ALL)]
    living, deleted = _names(file, there), dict[str, int]()
    for item in found:
        if (name := item.namespace[-1]) not in living:
            deleted[name] = max(deleted.get(name, 0), int(item.value["written"]))
    return deleted


def _names(file: LoggedFile, there: _There) -> set[str]:
    return {scopes.journal(file.files, path)[-1] for path in there}


def _count(file: LoggedFile, there: _There, *, always: bool) -> Steps[Note]:
    """Count everything, let go what is too much, and note what is left.

    Args:
        file: one of the namespace's.
        there: all files that are there.
        always: whether to note also what tells no more than the files do.
    """
    journals, note = yield from all_journals(file, _names(file, there))
    for name, slot in too_much(journals, sum(taken for taken, _ in there.values())).items():
        yield from _let_go(file, journals[name], slot)
    yield from _clear_oldest(file, journals, note)
    noted = always or bool(note.at or note.going)
    found = journals.values()
    note.journals = {each.name: [each.newest.written, each.taken] for each in found if each.newest.written != each.taken}
    note.aged = sum(each.taken for each in found if each.deleted and each.newest.aged)
    if noted or note.aged:
        note.at = file.clock().isoformat()
        yield from put_note(file, note)
    return note


def _let_go(file: LoggedFile, journal: Journal, slot: int) -> Steps[None]:
    """Delete the revisions below a slot, as far as a later one is known to be chosen."""
    namespace = (*scopes.journals(file.files), journal.name)
    (found,) = yield [SearchOp(namespace, filter={"slot": {"$gte": f"{slot - 1:08}"}}, limit=ALL)]
    head = log_of(found).head()
    end = min(slot, head.number) if head else 0
    if gone := [block.key for block in journal.blocks if block.slot < end]:
        yield [PutOp(namespace, key, None) for key in gone]
    journal.blocks = [block for block in journal.blocks if block.slot >= end]


def _clear_oldest(file: LoggedFile, journals: dict[str, Journal], note: Note) -> Steps[None]:
    """Go on clearing away the longest deleted files, where there are too many."""
    now = file.clock()
    for name, since in list(note.going.items()):
        if name in journals and journals[name].deleted:
            if seconds_since(since, now) <= OUTSIDE_SECONDS:
                continue
            if (yield from _clear_away(file, name)):
                del journals[name]
        del note.going[name]
    deleted = sorted((each for each in journals.values() if each.deleted), key=lambda each: each.newest.at)
    staying = [each.name for each in deleted if each.name not in note.going]
    if len(staying) > MAX_DELETED_FILES:
        note.going |= dict.fromkeys(staying[: len(staying) - int(MAX_DELETED_FILES * stored.GOAL)], now.isoformat())
    full = len(deleted) > 2 * MAX_DELETED_FILES
    note.full_until = (now + timedelta(seconds=OUTSIDE_SECONDS)).isoformat() if full else ""


def _clear_away(file: LoggedFile, name: str) -> Steps[bool]:
    """Delete the journal of a deleted file, unless somebody may be at it. Whether it is gone."""
    namespace, now = (*scopes.journals(file.files), name), file.clock()
    (found,) = yield [SearchOp(namespace, limit=ALL)]
    log, path = log_of(found), next((str(item.value["path"]) for item in found if "path" in item.value), None)
    last = log.best if log.chosen else None
    if found and (last is None or last.content is not None):
        return False
    if any(seconds_since(item.updated_at.isoformat(), now) <= OUTSIDE_SECONDS for item in found):
        return False
    # The last revision last: what is left when this is stopped midway says that the file is deleted.
    older = [item.key for item in found if item.key < f"{log.top:08}"]
    last_ops: list[Op] = [PutOp(namespace, item.key, None) for item in found if item.key not in older]
    if path is not None:
        item, mark = yield [GetOp(file.files, path), GetOp(scopes.unsettled(file.files), path)]
        if item is not None or (mark is not None and seconds_since(mark.value.get("at"), now) <= OUTSIDE_SECONDS):
            return False
        last_ops += [PutOp(scopes.unsettled(file.files), path, None)] if mark is not None else []
    if older:
        yield [PutOp(namespace, key, None) for key in older]
    if last_ops:
        yield last_ops
    return True
