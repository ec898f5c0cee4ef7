"""Writes that lose nothing, on any `BaseStore`: no lock server, no compare-and-set.

When a change reports success it is in the file, or in a revision that was later made from it. It holds for any number of
processes on one store, whatever their clocks say, and whoever dies when (`memory/consensus.py` has the argument). What it
costs a writer who is alone: one read of all files (for the quota, the file among them), two puts and two listings of the
log, and the put that a file without a journal needs as well. Reading a file costs what it did.

**Around the journal.** A value without a revision, or with one of another file's, was put by other means (an operator, a
script). The next writer first makes it a revision of its own, once: by its digest, looked for among what was chosen. A file
that is gone though its newest revision is `OUTSIDE_SECONDS` old, and that no mark says a writer may have deleted late, was
deleted by other means. Neither takes an acknowledged change out of the history. Deciding that, and when a mark may go, is the
only use of a clock here: a writer that stops for longer than `OUTSIDE_SECONDS` between two operations, and then dies right
after putting an old revision, leaves it to be read until the next write.

**Compaction** deletes slots below the last `REVISIONS_KEPT`; where room is short (`memory/retention.py`), those below the
newest. Who is still in such a slot finds higher ones, and never wins; if its own was accepted there and the next slot is gone,
it says that it cannot know, rather than guess.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from deepagents.backends.protocol import FileData
from langgraph.store.base import GetOp, Item, Op, PutOp, SearchOp

from memory import retention, scopes
from memory.consensus import (
    ALL,
    NOTHING,
    OUTSIDE_SECONDS,
    Change,
    LoggedFile,
    MovedError,
    Revision,
    Steps,
    Writer,
    seconds_since,
)
from memory.scopes import Author
from memory.validation import RefusedWriteError, stored_file
from settings import MAX_MEMORY_FILES, REVISIONS_KEPT

# Given all files of the namespace as they were, and the new one: a ValueError says that there is no room for it.
Room = Callable[[Sequence[Item], FileData], None]

_OUTSIDE = Author("outside")
_COMPACT_EVERY = 25


class Journal:
    """The writers' and readers' side of one file's log.

    Args:
        file: the file.
        epoch: where it is kept how often the person was forgotten, and how often it was when the run began: a run of an
            older epoch writes nothing. None where nobody in particular writes.
        revisions: how many are kept; `REVISIONS_KEPT`, within `memory/retention.py`'s bounds, if not given. Of what is no file
            of anybody's, and has no history to show, few.
    """

    def __init__(
        self, file: LoggedFile, epoch: tuple[scopes.Namespace, int] | None = None, revisions: int | None = None
    ) -> None:
        self._file, self._epoch, self._revisions = file, epoch, revisions

    def change(
        self, change: Change, author: Author, room: Room | None = None, found: Sequence[Item] | None = None
    ) -> Steps[Revision]:
        """Change the file. When this returns, the change is in the file, or in one that was later made from it.

        Args:
            change: makes the new content; asked again whenever somebody else was faster.
            author: who is noted.
            room: asked about new content.
            found: all files, where they were just read.

        Raises:
            RefusedWriteError: the person was forgotten since the run began, it cannot be known what became of the change, or
                there are too many deleted files (`memory/retention.py`).
            ValueError: what `change` or `room` raised. Nothing was changed.
        """
        while True:
            items, item = yield from self._read(found)
            found = None

            def make(before: FileData | None, items: Sequence[Item] = items) -> FileData | None:
                after = change(before)
                if after is not None and room is not None:
                    room(items, after)
                return after

            writer, base = Writer(self._file, make, author), self._published(item)
            if self._revisions is None and (item is None or base is None):
                yield from retention.admit(self._file, items)
            revision = (yield from writer.alone(base)) if base else None
            if revision is None:
                if not writer.proposed and (item is None or base is None) and (yield from self._adopt()):
                    continue
                revision = yield from writer.among_others(max(base.number - 1, 0) if base else 0)
            if revision.number % min(_COMPACT_EVERY, self._revisions or _COMPACT_EVERY) == 0:
                yield from self._compact(revision.number)
            if self._revisions is None:
                yield from retention.enforce(self._file, items, revision)
            return revision

    def history(self) -> Steps[list[Revision]]:
        """The last `REVISIONS_KEPT` revisions, newest first."""
        log = yield from self._file.listed(0)
        head = log.head()
        if not log.chosen:
            head = yield from Writer(self._file, None, _OUTSIDE).among_others(0)
            log = yield from self._file.listed(0)
        return list(islice(log.back_from(head), REVISIONS_KEPT))

    def settle(self) -> Steps[None]:
        """Put a marked file right, and take the mark away once nobody can be about to put an old revision any more."""
        item, mark = yield from self._file_and_mark()
        base = self._published(item)
        log = yield from self._file.listed(base.number if base else 0)
        deleted = item is None and log.chosen and log.best is not None and log.best.content is None
        if base is not None and log.best is not None and not log.ends_with(base) and not deleted:
            yield from Writer(self._file, None, _OUTSIDE).among_others(max(base.number - 1, 0))
        elif mark is not None and self._age(mark.value.get("at")) > OUTSIDE_SECONDS:
            yield [PutOp(self._file.marks, self._file.path, None)]

    def _read(self, found: Sequence[Item] | None) -> Steps[tuple[Sequence[Item], Item | None]]:
        """All files, and this one. Goes no further for somebody who was forgotten."""
        ops: list[Op] = [SearchOp(self._file.files, limit=MAX_MEMORY_FILES + 1)] if found is None else []
        if self._epoch:
            ops.append(GetOp(self._epoch[0], scopes.EPOCH))
        results = (yield ops) if ops else []
        if self._epoch and epoch_of(results[-1]) != self._epoch[1]:
            raise RefusedWriteError("What is remembered of this person was deleted since this run began; it writes nothing.")
        items: Sequence[Item] = results[0] if found is None else found
        item = next((item for item in items if item.key == self._file.path), None)
        if item is None and len(items) > MAX_MEMORY_FILES:
            (item,) = yield [GetOp(self._file.files, self._file.path)]
        return items, item

    def _adopt(self) -> Steps[bool]:
        """Make a revision of what was done to the file around the journal. Whether anything was, or was already."""
        log = yield from self._file.listed(0)
        item, mark = yield from self._file_and_mark()  # after the log: what it shows is older than the file
        head = log.head() or NOTHING
        if item is not None and self._published(item) is None:
            digest = _digest(item)
            known = any(revision.adopted == digest for revision in log.back_from(head))
            file = stored_file(item)
            adopter = Writer(self._file, None if known else lambda _: file, _OUTSIDE, head.id, digest)
        elif item is None and mark is None and head.content is not None and self._age(head.at) > OUTSIDE_SECONDS:
            adopter = Writer(self._file, lambda _: None, _OUTSIDE, head.id)
        else:
            return False
        with suppress(MovedError):
            yield from adopter.among_others(0)
        return True

    def _file_and_mark(self) -> Steps[tuple[Item | None, Item | None]]:
        item, mark = yield [GetOp(self._file.files, self._file.path), GetOp(self._file.marks, self._file.path)]
        return item, mark

    def _compact(self, number: int) -> Steps[None]:
        kept = REVISIONS_KEPT if self._revisions is None else self._revisions
        last = f"{max(number - kept, 0):08}"
        (found,) = yield [SearchOp(self._file.log, filter={"slot": {"$lte": last}}, limit=ALL)]
        if found:
            yield [PutOp(self._file.log, item.key, None) for item in found]

    def _published(self, item: Item | None) -> Revision | None:
        """The revision that the file's item is a copy of; `NOTHING` where there is none; None if it was put by other means."""
        if item is None:
            return NOTHING
        number, revision_id = item.value.get("revision"), item.value.get("revision_id")
        if item.value.get("journal") != self._file.name or not isinstance(number, int) or not isinstance(revision_id, str):
            return None
        try:
            file = stored_file(item)
        except ValueError:
            return None
        created, modified, written = file.get("created_at", ""), file.get("modified_at", ""), item.value.get("written")
        revision = Revision(number, revision_id, "", file["content"], file["encoding"], created, modified, _OUTSIDE)
        return replace(revision, written=written) if isinstance(written, int) else revision

    def _age(self, at: object) -> float:
        return seconds_since(at, self._file.clock())


def epoch_of(item: Item | None) -> int:
    """How often a person was forgotten, as stored."""
    return int(item.value["count"]) if item else 0


def _digest(item: Item) -> str:
    text = json.dumps([item.value, item.updated_at.isoformat()], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
