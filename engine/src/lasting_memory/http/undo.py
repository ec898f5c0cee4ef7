"""A file is made again what it was at a revision of its history, or changes are taken back from it."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Self

from deepagents.backends.protocol import FileData
from pydantic import Field, model_validator
from starlette.exceptions import HTTPException

from lasting_memory import platform
from lasting_memory.deployment import Source
from lasting_memory.http import requests
from lasting_memory.http.file_revisions import IfMatch, history, replace_file, replace_unless_moved
from lasting_memory.http.models.files import WrittenFile
from lasting_memory.http.requests import Caller, MemoryQuery, Sent
from lasting_memory.memory import journal
from lasting_memory.memory.journal import NOTHING, Revision
from lasting_memory.memory.sources import sources_in
from lasting_memory.memory.vouches import Vouch, vouch_all_by, vouch_new_as, vouch_new_by

router = requests.memory_router(requests.IN_TURN)
# Of taking changes back from a file that others are changing.
_MAX_TRIES = 5


class Undo(Sent):
    path: requests.Path
    revision: (
        Annotated[int, Field(ge=0)]
        | Annotated[str, Field(pattern="^([0-9]+|[0-9a-f][0-9a-f-]{31,})$", max_length=200)]
    ) = ""
    changes: (
        Annotated[list[str], Field(max_length=1_000, description="ids of revisions")] | None
    ) = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.revision == "") == (self.changes is None):
            raise ValueError("give revision, or changes")
        return self


@router.post("/memory/undo")
async def undo(
    caller: Caller, query: MemoryQuery, body: Undo, if_match: IfMatch = None
) -> WrittenFile:
    """Make a file again what it was at a `revision`, or take back `changes`.

    To take back is to undo what these revisions changed, and nothing later. Either is a revision
    itself. 404: there is no such revision in the history. 412: the file is at another revision.
    """
    path = body.path
    if body.changes is None:
        revisions = await history(caller, path)
        revision = _revision_to_restore(body, revisions)
        vouch = await platform.in_thread(_vouch_of_old, path, [revision], is_restored=True)
        return await replace_file(caller, path, revision.file(), if_match, vouch)
    tries_left = _MAX_TRIES if body.changes and not if_match else 1
    while True:
        try:
            return await _take_back(caller, path, body.changes, if_match)
        except HTTPException as error:
            tries_left -= 1
            has_moved = error.status_code == HTTPStatus.PRECONDITION_FAILED
            if not has_moved or not tries_left:
                raise


async def _take_back(
    caller: requests.PersonRequest, path: str, changes: Sequence[str], if_match: str | None
) -> WrittenFile:
    """Take changes back from a file as it is now. Raises 412 where somebody else writes meanwhile."""
    revisions = await history(caller, path)
    file = await platform.in_thread(_without_changes, path, changes, revisions)
    vouch = await platform.in_thread(_vouch_of_old, path, revisions)
    return await replace_unless_moved(caller, path, file, if_match, revisions, vouch=vouch)


def _revision_to_restore(body: Undo, revisions: Sequence[Revision]) -> Revision:
    """The revision to which a file is undone. Raises `HTTPException` 404."""
    id_or_number = str(body.revision)
    for revision in revisions:
        if id_or_number in {revision.id, str(revision.number)}:
            return revision
    raise _unknown_revision(body.path, id_or_number)


def _vouch_of_old(path: str, revisions: Sequence[Revision], *, is_restored: bool = False) -> Vouch:
    """Who vouches for lines that come back: whoever did in the newest of these revisions that has
    them. `is_restored`: also for those that are there now. Blocks.
    """
    source_by_entry = dict[str, Source]()
    for revision in reversed(revisions):
        if revision.encoding == "utf-8":
            sources = sources_in(path, revision.content, revision.sources)
            source_by_entry.update(sources)
    vouch_of_others = vouch_new_as(Source.INFERRED)
    if is_restored:
        return vouch_all_by(source_by_entry, vouch_of_others)
    return vouch_new_by(source_by_entry, vouch_of_others)


def _without_changes(
    path: str, changes: Sequence[str], revisions: Sequence[Revision]
) -> FileData | None:
    """The file without what these revisions changed. Raises `HTTPException` 404 or 409. Blocks."""
    ids = {revision.id for revision in revisions}
    for change in changes:
        if change not in ids:
            raise _unknown_revision(path, change)
    predecessors = [*revisions[1:], NOTHING]
    content = revisions[0].content if revisions else None
    for revision, predecessor in zip(revisions, predecessors, strict=True):
        if revision.id not in changes:
            continue
        if not predecessor.number and revision.number > 1:
            raise HTTPException(
                404, f"What revision {revision.number} of {path} changed is not kept any more."
            )
        are_texts = revision.encoding == "utf-8" and predecessor.encoding == "utf-8"
        if not are_texts:
            raise HTTPException(409, f"{path} is no text; undo it to a revision.")
        content = journal.without_change(path, content, predecessor.content, revision.content)
    if content is None:
        return None
    return FileData(content=content, encoding="utf-8")


def _unknown_revision(path: str, revision: str) -> HTTPException:
    """The refusal of a revision that the history of a file does not have."""
    return HTTPException(
        404,
        f"{path} has no revision {revision[:40]} in its history; GET /memory/history lists them.",
    )
