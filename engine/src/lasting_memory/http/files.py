"""A person's files over HTTP: list, read, write, delete, history, undo.

A history is a file's revisions, the newest first. Where a client sends `If-Match`, the file is
changed only if it is still at this revision. The source of a line is who vouches for it.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Literal, Self

from deepagents.backends.protocol import FileData
from fastapi import Header
from fastapi.responses import Response
from langgraph.store.base import Item
from pydantic import Field, model_validator
from starlette.exceptions import HTTPException

from lasting_memory import platform
from lasting_memory.deployment import Source
from lasting_memory.http import requests
from lasting_memory.http.models.base import author_of, usage_from
from lasting_memory.http.models.files import (
    FileHistory,
    LineOrigin,
    ListedFile,
    MemoryFile,
    MemoryFiles,
    RevisionSummary,
    SharedFolder,
    UnreadableFile,
    WrittenFile,
    summary_of,
)
from lasting_memory.http.requests import (
    ROUTE,
    Caller,
    FileQuery,
    MemoryQuery,
    NoBody,
    ReadableQuery,
    Sent,
)
from lasting_memory.memory import journal
from lasting_memory.memory.journal import NOTHING, Revision
from lasting_memory.memory.sources import shown_sources, sources_in
from lasting_memory.memory.stored_files import stored_file, usage_of
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.memory.vouches import Vouch, vouch_all_by, vouch_new_as, vouch_new_by

_SOURCE_NAMES: Mapping[Source, Literal["confirmed", "inferred", "unconfirmed"]] = {
    Source.CONFIRMED: "confirmed",
    Source.INFERRED: "inferred",
    Source.UNCONFIRMED: "unconfirmed",
}
router = requests.memory_router(requests.IN_TURN)
# Of taking changes back from a file that others are changing.
_MAX_TRIES = 5
IfMatch = Annotated[str | None, Header(description="only if the file is still at this revision")]


class Content(Sent):
    content: str


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


@router.get("/memory")
async def list_files(caller: Caller, query: MemoryQuery) -> MemoryFiles:
    """The files that are remembered of you, and those that your groups share.

    `shared` has an entry for each folder of a group of yours.
    """
    items = await caller.items()
    shared = list[SharedFolder]()
    for group in caller.groups:
        group_items = await journal.all_items(caller.store, group.namespace)
        group_files = [_list_entry(item, group.path_of(item.key)) for item in group_items]
        folder = SharedFolder(
            path=group.path,
            claim=group.claim,
            group=group.value,
            writes=group.writes,
            files=group_files,
        )
        shared.append(folder)
    files = [_list_entry(item, f"{ROUTE}{item.key}") for item in items]
    usage = usage_of(items, caller.deployment.limits)
    return MemoryFiles(files=files, usage=usage_from(usage), shared=shared)


def _list_entry(item: Item, path: str) -> ListedFile | UnreadableFile:
    """A file as a list shows it, or the error of an item that is no file."""
    try:
        file = stored_file(item)
    except RefusedWrite as error:
        return UnreadableFile(path=path, error=str(error))
    return ListedFile(
        encoding=file["encoding"],
        created_at=file.get("created_at", ""),
        modified_at=file.get("modified_at", ""),
        path=path,
        bytes=len(file["content"].encode()),
        revision=requests.revision_of(item),
    )


@router.get("/memory/file")
async def read_file(caller: Caller, query: ReadableQuery, response: Response) -> MemoryFile:
    """A file of yours, or of a group of yours.

    `lines` say where each line of the content comes from: the one conversation that the line names,
    or else those that its author read. Of a group's file authors are named without their
    conversations.
    """
    path = query.path
    item = await _find_item(caller, path)
    file = stored_file(item)
    content = file["content"]
    revision = requests.revision_of(item)
    revisions = await _history(caller, path)
    lines = await platform.in_thread(_line_origins, path, content, revisions)
    response.headers["etag"] = f'"{revision}"'
    return MemoryFile(
        content=content,
        encoding=file["encoding"],
        created_at=file.get("created_at", ""),
        modified_at=file.get("modified_at", ""),
        path=path,
        bytes=len(content.encode()),
        revision=revision,
        lines=lines,
    )


async def _find_item(caller: requests.PersonRequest, path: str) -> Item:
    """What the store has of a file that the caller may read. Raises `HTTPException` 404 if nothing."""
    place = caller.place(path)
    item = await caller.store.aget(place.namespace, place.key)
    if item is None:
        raise HTTPException(404, f"There is no file {path}.")
    return item


async def _history(caller: requests.PersonRequest, path: str) -> list[Revision]:
    """The revisions of a readable file, newest first."""
    place = caller.place(path)
    limits = caller.deployment.limits
    began = None if place.is_shared else caller.began
    revisions = await journal.history(caller.store, place.namespace, place.key, limits, began)
    if not place.is_shared:
        return revisions
    # In which conversation somebody's agent wrote a line is that person's own.
    without_conversations = list[Revision]()
    for revision in revisions:
        author = replace(revision.author, run_id="", thread_id="")
        shown_revision = replace(revision, author=author)
        without_conversations.append(shown_revision)
    return without_conversations


# The source of a line, in the form that `prompts/consolidation.md` asks for.
_SAID_IN = re.compile(r"\bthread ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")


def _line_origins(
    path: str, content: str, revisions: Sequence[Revision]
) -> list[LineOrigin | None]:
    """The origin of each line of a file, None for a line of an unknown one; no origins at all where
    the newest revision is not this content. Blocks.
    """
    if not revisions:
        return []
    newest = revisions[0]
    if newest.content != content:  # other code wrote the file, or it is changing at this moment
        return []
    lines = journal.lines_of(content)
    sources = shown_sources(path, content, newest.sources)
    origins = list[LineOrigin | None]()
    for number, revision in enumerate(journal.line_origins(revisions)):
        if revision is None:
            origins.append(None)
            continue
        source = sources[number] or Source.INFERRED
        origin = _line_origin(lines[number], revision, source)
        origins.append(origin)
    return origins


def _line_origin(line: str, revision: Revision, source: Source) -> LineOrigin:
    """The revision that a line came with, and its conversations.

    These are the one that the line names, or else those of the author. Of a line that an agent
    wrote they are always the author's.
    """
    author = revision.author
    threads = author.thread_id.split()
    is_agents = author.kind in {"agent", "subagent"}
    named_thread = _SAID_IN.search(line)
    if named_thread and not is_agents:
        threads = [named_thread[1]]
    return LineOrigin(
        revision=revision.number,
        at=revision.at,
        author=author_of(author),
        threads=threads,
        source=_SOURCE_NAMES[source],
    )


@router.put("/memory/file")
async def write_file(
    caller: Caller, query: FileQuery, body: Content, if_match: IfMatch = None
) -> WrittenFile:
    """Create or replace a text file.

    412: it is at another revision. 422: it must not be remembered (too large, a credential, an
    invalid profile).
    """
    file = FileData(content=body.content, encoding="utf-8")
    return await _replace(caller, query.path, file, if_match)


@router.delete("/memory/file")
async def delete_file(
    caller: Caller, query: FileQuery, body: NoBody = None, if_match: IfMatch = None
) -> WrittenFile:
    """Delete a file. Its history stays, and it can be undone."""
    item = await _find_item(caller, query.path)
    try:
        stored_file(item)
    except RefusedWrite:  # a value of other code, not a file
        await caller.files.aremove(item)
        return WrittenFile(path=query.path, revision=None)
    return await _replace(caller, query.path, None, if_match)


async def _replace(
    caller: requests.PersonRequest,
    path: str,
    file: FileData | None,
    if_match: str | None,
    vouch: Vouch | None = None,
) -> WrittenFile:
    """Replace a file, or delete it. Raises `HTTPException` 412 unless it is as `If-Match` says."""
    if if_match is None:
        return await _revise(caller, path, file, None, vouch=vouch)
    revisions = await _history(caller, path)
    return await _replace_unless_moved(caller, path, file, if_match, revisions, vouch=vouch)


async def _replace_unless_moved(
    caller: requests.PersonRequest,
    path: str,
    file: FileData | None,
    if_match: str | None,
    revisions: Sequence[Revision],
    *,
    vouch: Vouch | None = None,
) -> WrittenFile:
    """Replace a file if its history still is `revisions`, and as `If-Match` says. Raises 412."""
    newest = NOTHING
    if revisions:
        newest = revisions[0]
    number = 0  # as no file has it
    if newest.content is not None:
        number = newest.number
    expected_id = newest.id
    is_as_client_says = if_match is None or if_match.strip('"') == str(number)
    if not is_as_client_says:
        expected_id = "another"  # which no revision has
    return await _revise(caller, path, file, expected_id, number, vouch=vouch)


async def _revise(
    caller: requests.PersonRequest,
    path: str,
    file: FileData | None,
    expected_id: str | None,
    number: int = 0,
    *,
    vouch: Vouch | None = None,
) -> WrittenFile:
    """Make a revision of a file, or delete it (None). `number` is of the revision that is expected.

    Raises 412 unless the file is at the revision with the expected id; None expects nothing.
    """

    def replaced(_: FileData | None) -> FileData | None:
        return file

    try:
        key = requests.key_of(path)
        revision = await caller.files.arevise(key, replaced, expected_id, vouch=vouch)
    except journal.MovedError:
        raise HTTPException(
            412, f"{path} is at revision {number} or later by now; read it again."
        ) from None
    return WrittenFile(path=path, revision=revision.number)


@router.get("/memory/history")
async def read_history(caller: Caller, query: ReadableQuery) -> FileHistory:
    """The last revisions of a file, also of a deleted one or a group's.

    They are 50, where the deployment does not say otherwise.
    """
    path = query.path
    revisions = await _history(caller, path)
    dropped = 0
    if revisions:
        limit = caller.deployment.limits.revisions_kept
        ever_made = revisions[0].number
        dropped = min(limit, ever_made) - len(revisions)
    else:
        await _find_item(caller, path)
    summaries = await platform.in_thread(_with_diffs, revisions)
    return FileHistory(path=path, revisions=summaries, revisions_dropped=dropped)


def _with_diffs(revisions: Sequence[Revision]) -> list[RevisionSummary]:
    """Revisions, newest first, with their diffs, which are cut where they are long. Blocks.

    A revision has no diff where the one before it is not kept any more.
    """
    summaries = list[RevisionSummary]()
    for new, old in itertools.zip_longest(revisions, revisions[1:]):
        old_text = ""
        if old is not None:
            old_text = old.content or ""
        diff = None
        is_old_text_known = old is not None or new.number == 1
        if is_old_text_known:
            diff = journal.diff(old_text, new.content or "")
        if diff:
            diff = journal.cut_diff(f"{diff}\n")
        summaries.append(summary_of(new, diff))
    return summaries


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
        revisions = await _history(caller, path)
        revision = _revision_to_restore(body, revisions)
        vouch = await platform.in_thread(_vouch_of_old, path, [revision], is_restored=True)
        return await _replace(caller, path, revision.file(), if_match, vouch)
    tries = _MAX_TRIES if body.changes and not if_match else 1
    while True:
        try:
            return await _take_back(caller, path, body.changes, if_match)
        except HTTPException as error:
            tries -= 1
            has_moved = error.status_code == HTTPStatus.PRECONDITION_FAILED
            if not has_moved or not tries:
                raise


async def _take_back(
    caller: requests.PersonRequest, path: str, changes: Sequence[str], if_match: str | None
) -> WrittenFile:
    """Take changes back from a file as it is now. Raises 412 where somebody else writes meanwhile."""
    revisions = await _history(caller, path)
    file = await platform.in_thread(_without_changes, path, changes, revisions)
    vouch = await platform.in_thread(_vouch_of_old, path, revisions)
    return await _replace_unless_moved(caller, path, file, if_match, revisions, vouch=vouch)


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
    otherwise = vouch_new_as(Source.INFERRED)
    if is_restored:
        return vouch_all_by(source_by_entry, otherwise)
    return vouch_new_by(source_by_entry, otherwise)


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
    for revision, before in zip(revisions, predecessors, strict=True):
        if revision.id not in changes:
            continue
        if not before.number and revision.number > 1:
            raise HTTPException(
                404, f"What revision {revision.number} of {path} changed is not kept any more."
            )
        are_texts = revision.encoding == "utf-8" and before.encoding == "utf-8"
        if not are_texts:
            raise HTTPException(409, f"{path} is no text; undo it to a revision.")
        content = journal.without_change(path, content, before.content, revision.content)
    if content is None:
        return None
    return FileData(content=content, encoding="utf-8")


def _unknown_revision(path: str, revision: str) -> HTTPException:
    """The refusal of a revision that the history of a file does not have."""
    return HTTPException(
        404,
        f"{path} has no revision {revision[:40]} in its history; GET /memory/history lists them.",
    )
