"""A file of the journal: its item in the store, which is a copy of its newest revision, and its log.

Every look at the log also asks whether the writer may still write (`writers.py`).
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, Result, SearchOp

from lasting_memory.memory.journal.listing import all_items
from lasting_memory.memory.journal.log import Log
from lasting_memory.memory.journal.revisions import (
    NOTHING,
    Revision,
    copy_op,
    revision_of_copy,
    revision_op,
)
from lasting_memory.memory.journal.writers import Writer, mark_ops, refuse_if_marked
from lasting_memory.people import namespaces
from lasting_memory.people.namespaces import Namespace

# Items of one search for all revisions of a file.
_ALL = 10_000


class JournaledFile(NamedTuple):
    """A file, and who looks at it or changes it.

    `writer` is None for files of nobody in particular. With `heeds_erased` it is refused if a fact
    was deleted for good since it began.
    """

    store: BaseStore
    files: Namespace
    path: str
    writer: Writer | None = None
    heeds_erased: bool = True

    async def look(self, since: int = 0) -> tuple[Log, Revision | None]:
        """Its revisions from a number on, and the one that it shows: `NOTHING` if there is no file,
        None if the file is no copy of a revision. Raises as `read`.
        """
        revisions = SearchOp(
            namespaces.journal(self.files, self.path),
            filter={"slot": {"$gte": f"{since:08}"}},
            limit=_ALL,
        )
        own_item = GetOp(self.files, self.path)
        results, forgotten_at = await self.read(revisions, own_item)
        # A search gives items, and a get an item or None.
        items = cast("list[Item]", results[0])
        item = cast("Item | None", results[1])
        log = Log(items, forgotten_at)
        if item is None:
            return log, NOTHING
        shown_revision = self.revision_of(item)
        return log, shown_revision

    async def item(self) -> Item | None:
        """The file as an item; None if there is none. Raises as `read`."""
        own_item = GetOp(self.files, self.path)
        results, _ = await self.read(own_item)
        return cast("Item | None", results[0])

    def revision_of(self, item: Item | None) -> Revision | None:
        """The revision that this item, the file's, shows; None if it is no copy of a revision."""
        return revision_of_copy(self.files, self.path, item)

    async def read(self, *ops: Op) -> tuple[list[Result], str]:
        """The results of a batch, and when the person was forgotten last; "" for never. Raises
        `RefusedWrite` if the writer began before that, or before its conversation, or a fact of the
        person's, was deleted.
        """
        if self.writer is None:
            results = await self.store.abatch(ops)
            return results, ""
        marks = mark_ops(self.writer, heeds_erased=self.heeds_erased)
        all_ops = [*ops, *marks]
        all_results = await self.store.abatch(all_ops)
        count = len(ops)
        forgotten_at = refuse_if_marked(all_results[count:], self.writer)
        return all_results[:count], forgotten_at

    async def folder_revisions(self) -> list[Item]:
        """The revisions of all files of its folder, as items."""
        place = namespaces.journals(self.files)
        return await all_items(self.store, place)

    async def put(self, revisions: Sequence[Revision], newest: Revision) -> None:
        """Put revisions, and make the file a copy of the newest."""
        writer = self.writer.at if self.writer else ""
        # The copy first: where a batch is not one step, a revision without its copy looks like a
        # deletion.
        ops = list[PutOp]()
        ops.append(copy_op(self.files, self.path, newest))
        for revision in revisions:
            ops.append(revision_op(self.files, self.path, revision, writer))
        is_new = bool(revisions) and revisions[0].number == 1
        memory_note = namespaces.noted(self.files)
        if is_new and memory_note is not None:
            ops.append(PutOp(*memory_note, {}, index=False))
        await self.store.abatch(ops)
