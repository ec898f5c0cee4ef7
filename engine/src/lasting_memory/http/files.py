"""A person's files over HTTP: list, read, write, delete, history, undo."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from http import HTTPStatus
from typing import Annotated, Self

from deepagents.backends.protocol import FileData
from fastapi import APIRouter, Header
from fastapi.responses import Response
from langgraph.store.base import Item
from pydantic import Field, model_validator
from starlette.exceptions import HTTPException

from lasting_memory import journal, platform
from lasting_memory.controls import usage_of
from lasting_memory.http import requests
from lasting_memory.http.requests import (
    ROUTE,
    Answer,
    Caller,
    FileQuery,
    MemoryQuery,
    NoBody,
    ReadableQuery,
    Sent,
)
from lasting_memory.journal import NOTHING, Revision
from lasting_memory.stored_files import stored_file
from lasting_memory.validation import RefusedWrite

router = APIRouter(tags=["Memory"], dependencies=[requests.IN_TURN])
# Of taking changes back from a file that others are changing.
_TRIES = 5
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
async def list_files(caller: Caller, query: MemoryQuery) -> Answer:
    """The files that are remembered of you, and those that your groups share.

    `files`: path, bytes, revision, times; `usage`: files, bytes, their limits, and `nearly_full`
    (from 80% of one of them on). `shared`, one for each folder of a group of yours: path, claim,
    group, whether your agent `writes` there, and `files`.
    """
    items = await journal.all_items(caller.store, caller.namespace)
    shared = list[Answer]()
    for namespace, group in caller.groups:
        theirs = await journal.all_items(caller.store, namespace)
        shared.append(
            {
                **group,
                "files": [_listed(item, f"{group['path'][:-1]}{item.key}") for item in theirs],
            }
        )
    files, usage = (
        [_listed(item, f"{ROUTE}{item.key}") for item in items],
        usage_of(items, caller.deployment.limits),
    )
    return {"files": files, "usage": usage, "shared": shared}


def _listed(item: Item, path: str) -> Answer:
    try:
        return {name: of for name, of in _shown(item, path).items() if name != "content"}
    except RefusedWrite as error:
        return {"path": path, "error": str(error)}


def _shown(item: Item, path: str) -> Answer:
    file = stored_file(item)
    size = len(file["content"].encode())
    return {**file, "path": path, "bytes": size, "revision": item.value.get("revision")}


@router.get("/memory/file")
async def read_file(caller: Caller, query: ReadableQuery, response: Response) -> Answer:
    """A file of yours, or of a group of yours: path, content, encoding, revision (the ETag, too).

    `lines`: the revision, time (`at`), author and conversations (`threads`) that each line of the
    content came with; null where unknown, empty for more than 2,000 lines. Of a group's file
    authors are named without their conversations.
    """
    file = _shown(await _item(caller, query.path), query.path)
    known = await _history(caller, query.path)
    response.headers["etag"] = f'"{file["revision"]}"'
    return {**file, "lines": await platform.in_thread(_lines, file["content"], known)}


async def _item(caller: requests.PersonRequest, path: str) -> Item:
    namespace, key, _ = caller.place(path)
    if item := await caller.store.aget(namespace, key):
        return item
    raise HTTPException(404, f"There is no file {path}.")


async def _history(caller: requests.PersonRequest, path: str) -> list[Revision]:
    """The revisions of a readable file, newest first."""
    namespace, key, shared = caller.place(path)
    known = await journal.history(
        caller.store, namespace, key, caller.deployment.limits, None if shared else caller.began
    )
    if not shared:
        return known
    # In which conversation somebody's agent wrote a line is that person's own.
    return [replace(each, author=replace(each.author, run_id="", thread_id="")) for each in known]


# The source of a line, in the form that `prompts/consolidation.md` asks for.
_SAID_IN = re.compile(r"\bthread ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")


def _lines(content: str, revisions: Sequence[Revision]) -> list[Answer | None]:
    """The origin of each line of a file. Blocks."""
    if (
        not revisions or revisions[0].content != content
    ):  # another code wrote the file, or it is changing at this moment
        return []
    lines = zip(journal.lines_of(content), journal.line_origins(revisions), strict=False)
    return [_origin(line, came) if came else None for line, came in lines]


def _origin(line: str, revision: Revision) -> Answer:
    """The revision that a line came with, and its conversations: the one that it names, but for an
    agent's line the agent's.
    """
    author, named = revision.author, _SAID_IN.search(line)
    threads = (
        [named[1]]
        if named and author.kind not in {"agent", "subagent"}
        else author.thread_id.split()
    )
    return {
        "revision": revision.number,
        "at": revision.at,
        "author": asdict(author),
        "threads": threads,
    }


@router.put("/memory/file")
async def write_file(
    caller: Caller, query: FileQuery, body: Content, if_match: IfMatch = None
) -> Answer:
    """Create or replace a text file.

    412: it is at another revision. 422: it must not be remembered (too large, a credential, an
    invalid profile).
    """
    return await _revised(
        caller, query.path, FileData(content=body.content, encoding="utf-8"), if_match
    )


@router.delete("/memory/file")
async def delete_file(
    caller: Caller, query: FileQuery, body: NoBody = None, if_match: IfMatch = None
) -> Answer:
    """Delete a file. Its history stays, and it can be undone."""
    item = await _item(caller, query.path)
    try:
        stored_file(item)
    except RefusedWrite:  # a value of other code, not a file
        await caller.files.aremove(item)
        return {"path": query.path, "revision": None}
    return await _revised(caller, query.path, None, if_match)


async def _revised(
    caller: requests.PersonRequest,
    path: str,
    file: FileData | None,
    if_match: str | None,
    known: list[Revision] | None = None,
) -> Answer:
    """Replace a file, provided that it still is at the revision of `If-Match`, of which 0 is no
    file, and as `known`.
    """
    expect, number = None, 0
    if if_match is not None or known is not None:
        newest = ((await _history(caller, path) if known is None else known) or [NOTHING])[0]
        number = newest.number if newest.content is not None else 0
        expect = newest.id if if_match is None or if_match.strip('"') == str(number) else "another"
    try:
        revision = await caller.files.arevise(requests.key_of(path), lambda _: file, expect)
    except journal.MovedError:
        raise HTTPException(
            412, f"{path} is at revision {number} or later by now; read it again."
        ) from None
    return {"path": path, "revision": revision.number}


@router.get("/memory/history")
async def read_history(caller: Caller, query: ReadableQuery) -> Answer:
    """The last revisions of a file (50, where the deployment does not say otherwise), also of a
    deleted one or a group's.

    `revisions`, newest first: revision (its number), id, at, author (kind, user, run, thread),
    deleted, bytes, diff; and `revisions_dropped`: how many more there would be, had they not been
    removed to make room.
    """
    known = await _history(caller, query.path)
    if not known:
        await _item(caller, query.path)
    revisions = await platform.in_thread(_with_diffs, known)
    dropped = (
        min(caller.deployment.limits.revisions_kept, known[0].number) - len(known) if known else 0
    )
    return {"path": query.path, "revisions": revisions, "revisions_dropped": dropped}


def _with_diffs(known: Sequence[Revision]) -> list[Answer]:
    """Revisions with their diffs, cut where they are long; None for one whose predecessor is gone.
    Blocks.
    """
    revisions = []
    for new, old in itertools.zip_longest(known, known[1:]):
        is_known = old is not None or new.number == 1
        changed = journal.diff((old and old.content) or "", new.content or "") if is_known else None
        revisions.append(
            {
                **requests.revision_summary(new),
                "diff": journal.cut(f"{changed}\n") if changed else changed,
            }
        )
    return revisions


@router.post("/memory/undo")
async def undo(caller: Caller, query: MemoryQuery, body: Undo, if_match: IfMatch = None) -> Answer:
    """Make a file again what it was at a `revision`; or take back `changes`, what these revisions
    changed, and nothing later.

    This is a revision itself. 404: there is no such revision in the history. 412: the file is at
    another revision.
    """
    tries = _TRIES if body.changes and not if_match else 1
    while True:  # what is taken back is worked out anew where somebody else writes meanwhile
        known = await _history(caller, body.path)
        file = await platform.in_thread(_undone, body, known)
        try:
            return await _revised(
                caller, body.path, file, if_match, None if body.changes is None else known
            )
        except HTTPException as error:
            tries -= 1
            if error.status_code != HTTPStatus.PRECONDITION_FAILED or not tries:
                raise


def _undone(body: Undo, known: Sequence[Revision]) -> FileData | None:
    """What the file becomes. Blocks."""
    missing = f"{body.path} has no revision {{}} in its history; GET /memory/history lists them."
    if body.changes is None:
        wanted = str(body.revision)
        for revision in known:
            if wanted in {revision.id, str(revision.number)}:
                return revision.file()
        raise HTTPException(404, missing.format(wanted[:40]))
    if unknown := {*body.changes} - {revision.id for revision in known}:
        raise HTTPException(404, missing.format(unknown.pop()[:40]))
    content = known[0].content if known else None
    for revision, before in zip(known, [*known[1:], NOTHING], strict=True):
        if revision.id in body.changes:
            if not before.number and revision.number > 1:
                raise HTTPException(
                    404,
                    f"What revision {revision.number} of {body.path} changed is not kept any more.",
                )
            if {revision.encoding, before.encoding} != {"utf-8"}:
                raise HTTPException(409, f"{body.path} is no text; undo it to a revision.")
            content = journal.undone(body.path, content, before.content, revision.content)
    return None if content is None else FileData(content=content, encoding="utf-8")
