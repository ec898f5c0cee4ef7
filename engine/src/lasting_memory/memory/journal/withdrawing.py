"""Withdrawing changes of a file, as if they had not been made."""

from collections.abc import Sequence

from langgraph.store.base import BaseStore, PutOp, SearchOp

from lasting_memory.memory.journal.journaled_file import JournaledFile
from lasting_memory.memory.journal.revisions import NOTHING, Revision, revision_op
from lasting_memory.people import namespaces
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import lock_of


async def withdraw_run(store: BaseStore, files: Namespace, path: str, run_id: str) -> None:
    """Delete what a run has changed in a file, as if it had not: not even the history says so."""
    file = JournaledFile(store, files, path)
    async with lock_of(files, path):
        log, _ = await file.look()
        of_run = list[Revision]()
        for revision in log.by_id.values():
            if revision.author.run_id == run_id:
                of_run.append(revision)
        if of_run:
            await withdraw(file, of_run)


async def withdraw(file: JournaledFile, revisions: Sequence[Revision]) -> None:
    """Delete revisions, and make the file what it is without them."""
    ops = list[PutOp]()
    for revision in revisions:
        put_op = revision_op(file.files, file.path, revision, began="")
        ops.append(PutOp(put_op.namespace, put_op.key, None))
    await file.store.abatch(ops)
    # The writer may not look any more.
    for_anybody = file._replace(writer=None)
    log, _ = await for_anybody.look()
    revisions_left = log.history()
    newest = revisions_left[0] if revisions_left else NOTHING
    await for_anybody.put([], newest)
    await _delete_note_of_memory(file)


async def _delete_note_of_memory(file: JournaledFile) -> None:
    """Delete the note that a person has memory with an assistant, where no file and no history of
    theirs is left.
    """
    note = namespaces.noted(file.files)
    if note is None:
        return
    journals = namespaces.journals(file.files)
    any_file = SearchOp(file.files, limit=1)
    any_revision = SearchOp(journals, limit=1)
    items_left = await file.store.abatch([any_file, any_revision])
    if not any(items_left):
        await file.store.adelete(*note)
