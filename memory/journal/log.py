"""One file's log: changes, history and repair. `memory/journal/consensus.py` has the argument that nothing is lost.

An uncontended change costs one read of all files (for the quota, and the file among them), two puts and two listings of the
log, and the put that a file without a journal needs too. Reading a file costs no more than without a journal.

**Around the journal.** A value without a revision, or with a revision of another file, was put by other means (an operator, a
script). The next writer first makes it a revision, once: chosen revisions name its digest. A missing file was deleted by other
means if its newest revision is `OUTSIDE_SECONDS` old and no mark says that a writer may have deleted it late. A file newer than
the readable part of its journal counts as put by other means. None of this takes an acknowledged change out of the history. A
clock decides only this, and when a mark may go: a writer that stops for longer than `OUTSIDE_SECONDS` between two operations,
and dies right after putting an old revision, leaves that revision in the file until the next write.

**Compaction** deletes slots below the last `REVISIONS_KEPT`; where room is short (`memory/journal/retention.py`), those below
the newest. A writer still in such a slot sees higher ones, and never wins. If its own revision was accepted there and the next
slot is gone, it reports that it cannot know the outcome.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from deepagents.backends.protocol import FileData
from langgraph.store.base import GetOp, Item, Op, PutOp, SearchOp

from memory.identity import Author
from memory.journal import retention
from memory.journal.consensus import Writer
from memory.journal.forgetting import Began, check_not_forgotten, read_forgotten
from memory.journal.revisions import ALL, NOTHING, OUTSIDE_SECONDS, Change, LoggedFile, MovedError, Revision, Steps, written_of
from memory.validation import stored_file
from settings import MAX_MEMORY_FILES

# Takes all present files of the namespace, and the new one. Raises a ValueError if there is no room for it.
Room = Callable[[Sequence[Item], FileData], None]

_OUTSIDE = Author("outside")
_logger = logging.getLogger(__name__)


class Journal:
    """Writes and reads one file's log.

    Args:
        began: whoever began before the person was forgotten writes nothing. None for files of nobody in particular.
        revisions: the number of kept revisions; None for `REVISIONS_KEPT` within the bounds of `memory/journal/retention.py`.
            Items that are no memory files, and show no history, keep few.
    """

    def __init__(self, file: LoggedFile, began: Began | None = None, revisions: int | None = None) -> None:
        self._file, self._began, self._revisions = file, began, revisions

    def change(
        self,
        change: Change,
        author: Author,
        room: Room | None = None,
        files: Sequence[Item] | None = None,
        expect: str | None = None,
    ) -> Steps[Revision]:
        """Change the file. When this returns, the change is in the file, or in a later revision made from it.

        Args:
            change: makes the new content; called again whenever another writer was faster.
            room: checks new content.
            files: all files, if they were just read.
            expect: id of the only revision that the change may follow, "" for none yet. None: any.

        Raises:
            MovedError: the newest revision is not the expected one. Nothing was changed.
            RefusedWriteError: the person was forgotten since the run began, the outcome of the change cannot be known, or there
                are too many deleted files (`memory/journal/retention.py`).
            ValueError: from `change` or `room`. Nothing was changed.
        """
        while True:
            items, item = yield from self._read(files)
            files = None

            def make(before: FileData | None, items: Sequence[Item] = items) -> FileData | None:
                after = change(before)
                if after is not None and room is not None:
                    room(items, after)
                return after

            writer, base = Writer(self._file, make, author, expect), self._published(item)
            if self._revisions is None and (item is None or base is None):
                yield from retention.admit(self._file, items)
            # A missing file may have revisions. Only the careful way knows whether the expected one is the newest.
            revision = (yield from writer.commit_uncontended(base)) if base and expect in {None, base.id} else None
            if revision is None:
                if not writer.proposed and (yield from self._adopt(base)):
                    continue
                revision = yield from writer.commit_contended(max(base.number - 1, 0) if base else 0)
            try:
                yield from self._make_room(revision, items)
            except Exception:  # the change is made; a later one makes room
                _logger.warning("No room was made after a change of %r, which is made.", self._file.path, exc_info=True)
            return revision

    def _make_room(self, revision: Revision, items: Sequence[Item]) -> Steps[None]:
        """Call this after a change, with all files before it."""
        every = self._file.bounds.compact_every
        if revision.number % min(every, self._revisions or every) == 0:
            yield from self._compact(revision.number)
        if self._revisions is None:
            yield from retention.enforce(self._file, items, revision)

    def history(self) -> Steps[list[Revision]]:
        """The last `REVISIONS_KEPT` revisions, newest first."""
        log = yield from self._file.listed(0)
        head = log.head()
        if not log.chosen:
            item, _ = yield from self._file_and_mark()
            while (yield from self._adopt(self._published(item))):  # publishing below would replace the value
                item, _ = yield from self._file_and_mark()
            head = yield from Writer(self._file, None, _OUTSIDE).commit_contended(0)
            log = yield from self._file.listed(0)
        return list(islice(log.back_from(head), self._file.bounds.revisions))

    def settle(self) -> Steps[None]:
        """Repair a marked file. Remove the mark once no writer can still put an old revision."""
        item, mark = yield from self._file_and_mark()
        base = self._published(item)
        log = yield from self._file.listed(base.number if base else 0)
        deleted = item is None and log.chosen and log.best is not None and log.best.content is None
        if base is not None and log.best is not None and not log.ends_with(base) and not deleted:
            yield from Writer(self._file, None, _OUTSIDE).commit_contended(max(base.number - 1, 0))
        elif mark is not None and self._file.age(mark.value.get("at")) > OUTSIDE_SECONDS:
            yield [PutOp(self._file.marks, self._file.path, None)]

    def _read(self, files: Sequence[Item] | None) -> Steps[tuple[Sequence[Item], Item | None]]:
        """All files, and this one. Raises `RefusedWriteError` if the person was forgotten since the run began."""
        ops: list[Op] = [SearchOp(self._file.files, limit=MAX_MEMORY_FILES + 1)] if files is None else []
        if self._began:
            ops.append(read_forgotten(self._began))
        results = (yield ops) if ops else []
        if self._began:
            check_not_forgotten(results[-1], self._began)
        items: Sequence[Item] = results[0] if files is None else files
        item = next((item for item in items if item.key == self._file.path), None)
        if item is None and len(items) > MAX_MEMORY_FILES:
            (item,) = yield [GetOp(self._file.files, self._file.path)]
        return items, item

    def _adopt(self, base: Revision | None) -> Steps[bool]:
        """Make a revision of a change around the journal. Returns whether there was one, or another writer has just adopted it.

        A file whose revision is newer than the readable journal is adopted too: the journal was damaged.

        Args:
            base: the revision that the file is a copy of; None if it was put by other means.
        """
        if base is not None and base.number and (yield from self._file.listed(base.number)).top >= base.number:
            return False
        log = yield from self._file.listed(0)
        item, mark = yield from self._file_and_mark()  # read after the log, so the log is the older one
        head, base = log.head() or NOTHING, self._published(item)
        if item is not None and (base is None or base.number > log.top):
            digest = _digest(item)
            known = any(revision.adopted == digest for revision in log.back_from(head))
            file = stored_file(item)
            adopter = Writer(self._file, None if known else lambda _: file, _OUTSIDE, head.id, digest)
        elif item is None and mark is None and head.content is not None and self._file.age(head.at) > OUTSIDE_SECONDS:
            adopter = Writer(self._file, lambda _: None, _OUTSIDE, head.id)
        else:
            return False
        with suppress(MovedError):
            yield from adopter.commit_contended(0)
        return True

    def _file_and_mark(self) -> Steps[tuple[Item | None, Item | None]]:
        item, mark = yield [GetOp(self._file.files, self._file.path), GetOp(self._file.marks, self._file.path)]
        return item, mark

    def _compact(self, number: int) -> Steps[None]:
        kept = self._file.bounds.revisions if self._revisions is None else self._revisions
        last = f"{max(number - kept, 0):08}"
        (blocks,) = yield [SearchOp(self._file.log, filter={"slot": {"$lte": last}}, limit=ALL)]
        if blocks:
            yield [PutOp(self._file.log, item.key, None) for item in blocks]

    def _published(self, item: Item | None) -> Revision | None:
        """The revision that the file's item is a copy of; `NOTHING` without an item; None if it was put by other means."""
        if item is None:
            return NOTHING
        number, revision_id = item.value.get("revision"), item.value.get("revision_id")
        if item.value.get("journal") != self._file.name or not isinstance(number, int) or not isinstance(revision_id, str):
            return None
        try:
            file = stored_file(item)
        except ValueError:
            return None
        created, modified, written = file.get("created_at", ""), file.get("modified_at", ""), written_of(item)
        revision = Revision(number, revision_id, "", file["content"], file["encoding"], created, modified, _OUTSIDE)
        return revision if written is None else replace(revision, written=written)


def _digest(item: Item) -> str:
    text = json.dumps([item.value, item.updated_at.isoformat()], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
