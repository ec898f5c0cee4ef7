"""A person's files over HTTP: list, read, write, delete, history (`undo.py` has what takes changes
back).

The source of a line is who vouches for it.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from deepagents.backends.protocol import FileData
from fastapi.responses import Response
from langgraph.store.base import Item

from lasting_memory import platform
from lasting_memory.deployment import Source
from lasting_memory.http import requests
from lasting_memory.http.file_revisions import IfMatch, find_item, history, replace_file
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
from lasting_memory.memory.journal import Revision
from lasting_memory.memory.sources import shown_sources
from lasting_memory.memory.stored_files import stored_file, usage_of
from lasting_memory.memory.validation import RefusedWrite

_SOURCE_NAMES: Mapping[Source, Literal["confirmed", "inferred", "unconfirmed"]] = {
    Source.CONFIRMED: "confirmed",
    Source.INFERRED: "inferred",
    Source.UNCONFIRMED: "unconfirmed",
}
router = requests.memory_router(requests.IN_TURN)


class Content(Sent):
    content: str


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
    item = await find_item(caller, path)
    file = stored_file(item)
    content = file["content"]
    revision = requests.revision_of(item)
    revisions = await history(caller, path)
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
    return await replace_file(caller, query.path, file, if_match)


@router.delete("/memory/file")
async def delete_file(
    caller: Caller, query: FileQuery, body: NoBody = None, if_match: IfMatch = None
) -> WrittenFile:
    """Delete a file. Its history stays, and it can be undone."""
    item = await find_item(caller, query.path)
    try:
        stored_file(item)
    except RefusedWrite:  # a value of other code, not a file
        await caller.files.aremove(item)
        return WrittenFile(path=query.path, revision=None)
    return await replace_file(caller, query.path, None, if_match)


@router.get("/memory/history")
async def read_history(caller: Caller, query: ReadableQuery) -> FileHistory:
    """The last revisions of a file, also of a deleted one or a group's.

    They are 50, where the deployment does not say otherwise.
    """
    path = query.path
    revisions = await history(caller, path)
    dropped_count = 0
    if revisions:
        limit = caller.deployment.limits.revisions_kept
        revision_count = revisions[0].number
        dropped_count = min(limit, revision_count) - len(revisions)
    else:
        await find_item(caller, path)
    summaries = await platform.in_thread(_with_diffs, revisions)
    return FileHistory(path=path, revisions=summaries, revisions_dropped=dropped_count)


def _with_diffs(revisions: Sequence[Revision]) -> list[RevisionSummary]:
    """Revisions, newest first, with their diffs, which are cut where they are long. Blocks.

    A revision has no diff where the one before it is not kept any more.
    """
    summaries = list[RevisionSummary]()
    for revision, predecessor in itertools.zip_longest(revisions, revisions[1:]):
        old_text = ""
        if predecessor is not None:
            old_text = predecessor.content or ""
        diff = None
        is_old_text_known = predecessor is not None or revision.number == 1
        if is_old_text_known:
            diff = journal.diff(old_text, revision.content or "")
        if diff:
            diff = journal.cut_diff(f"{diff}\n")
        summaries.append(summary_of(revision, diff))
    return summaries
