"""A person's files over HTTP: list, read, write, delete, history, undo."""

import asyncio
import itertools
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from deepagents.backends.protocol import FileData
from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import Response
from langgraph.store.base import Item
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from api.person import ROUTE, PersonRequest, diff, revision_summary
from api.requests import Caller, Key, Memory, OneFile, body_of, check_no_body, json_response, takes
from memory.controls import usage_of
from memory.journal import Revision, all_items, history, line_origins, lines_of
from memory.validation import stored_file
from settings import MAX_BODY_BYTES, REVISIONS_KEPT

router = APIRouter(tags=["Memory"])
# A revision's id, or its number.
Wanted = Annotated[str, Field(pattern="^([0-9]+|[0-9a-f][0-9a-f-]{31,})$", max_length=200)]
IfMatch = Annotated[str | None, Header(description="only if the file is still at this revision")]


class FileQuery(OneFile):
    revision: Wanted | None = None


class Content(BaseModel, extra="forbid"):
    content: str


class Undo(BaseModel, extra="forbid"):
    path: Key
    revision: Annotated[int, Field(ge=0)] | Wanted


def _about(item: Item) -> dict[str, Any]:
    """A file's path, size, revision and times."""
    try:
        file = stored_file(item)
    except ValueError as error:
        return {"path": f"{ROUTE}{item.key}", "error": str(error)}
    about = {"bytes": len(file["content"].encode()), "revision": item.value.get("revision")}
    return {"path": f"{ROUTE}{item.key}", **about, **{key: file[key] for key in file if key != "content"}}  # type: ignore[literal-required]


@router.get("/memory")
async def list_files(caller: Caller, query: Annotated[Memory, Query()]) -> Response:
    """The files that are remembered of you.

    `files`: path, bytes, revision (null if put around the history), times; and `usage`: files, bytes, their limits, and
    `nearly_full`, from 80% of one of them on.
    """
    items = await all_items(caller.store, caller.namespace)
    return json_response({"files": list(map(_about, items)), "usage": usage_of(items)})


@router.get("/memory/file")
async def read_file(caller: Caller, query: Annotated[FileQuery, Query()]) -> Response:
    """A file, as it is or as it was at a revision.

    path, content (null if deleted then), encoding, revision; the revision is the ETag, too. Without `revision` also `lines`:
    for each line of the content the revision, time (`at`) and author it came with, and `threads`, ids of the conversations it
    may have been said in; null where that revision is not kept. Empty for more than 2,000 lines.
    """
    key = query.path
    if query.revision is not None:
        revision = await _revision(caller, key, query.revision)
        about = {"path": f"{ROUTE}{key}", "content": revision.content, "encoding": revision.encoding}
        return json_response({**about, **revision_summary(revision)})
    item = await _item(caller, key)
    try:
        content = stored_file(item)["content"]
    except ValueError as error:
        raise HTTPException(409, str(error)) from None
    known = await history(caller.store, caller.namespace, key)
    lines = await asyncio.to_thread(_lines, content, known)
    return json_response({**_about(item), "content": content, "lines": lines}, item.value.get("revision"))


async def _item(caller: PersonRequest, key: str) -> Item:
    """A stored file. Raises `HTTPException` if there is none."""
    item = await caller.store.aget(caller.namespace, key)
    if item is None:
        raise HTTPException(404, f"There is no file {ROUTE}{key}.")
    return item


# The source of a line, in the form that `prompts/consolidation.md` asks for.
_SAID_IN = re.compile(r"\bthread ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")


def _lines(content: str, revisions: Sequence[Revision]) -> list[dict[str, Any] | None]:
    """The origin of each line of a file. Blocks."""
    if not revisions or revisions[0].content != content:  # another code wrote the file, or it is changing at this moment
        return []
    lines = zip(lines_of(content), line_origins(revisions), strict=False)
    return [_origin(line, came) if came else None for line, came in lines]


def _origin(line: str, revision: Revision) -> dict[str, Any]:
    """The revision that a line came with, and the conversations it may come from: the one that it names, but for an agent's
    line the agent's own.
    """
    author, named = revision.author, _SAID_IN.search(line)
    threads = [named[1]] if named and author.kind not in {"agent", "subagent"} else author.thread_id.split()
    return {"revision": revision.number, "at": revision.at, "author": asdict(author), "threads": threads}


@router.put("/memory/file", openapi_extra=takes(Content))
async def write_file(
    caller: Caller,
    query: Annotated[OneFile, Query()],
    body: Annotated[Content, Depends(body_of(Content, MAX_BODY_BYTES))],
    if_match: IfMatch = None,
) -> Response:
    """Create or replace a text file.

    Answers with its path and new revision. 412: it is at another revision. 422: it must not be remembered (too large, a
    credential, an invalid profile).
    """
    written = FileData(content=body.content, encoding="utf-8")
    return _revised(query.path, await caller.revise(query.path, lambda _: written, if_match))


@router.delete("/memory/file", dependencies=[Depends(check_no_body)])
async def delete_file(caller: Caller, query: Annotated[OneFile, Query()], if_match: IfMatch = None) -> Response:
    """Delete a file. Its history stays, and it can be undone."""
    key = query.path
    item = await _item(caller, key)
    try:
        stored_file(item)
    except ValueError:  # a value of other code, not a file
        await caller.files.aremove(item)
        return json_response({"path": f"{ROUTE}{key}", "revision": None})

    def deleted(before: FileData | None) -> None:
        if before is None:
            raise HTTPException(404, f"There is no file {ROUTE}{key}.")

    return _revised(key, await caller.revise(key, deleted, if_match))


@router.get("/memory/history")
async def read_history(caller: Caller, query: Annotated[OneFile, Query()]) -> Response:
    """The last 50 revisions of a file, also of a deleted one.

    `revisions`, newest first: revision (its number), id, at, author (kind, user, run, thread), deleted, bytes, diff; and
    `revisions_dropped`: how many more there would be, had they not been removed to make room. All files and their histories
    together take at most twice what the files may take; those of deleted files go first.
    """
    known = await history(caller.store, caller.namespace, query.path)
    if not known:
        await _item(caller, query.path)
    revisions = await asyncio.to_thread(_with_diffs, known)
    dropped = min(REVISIONS_KEPT, known[0].number) - len(known) if known else 0
    return json_response({"path": f"{ROUTE}{query.path}", "revisions": revisions, "revisions_dropped": dropped})


def _with_diffs(known: Sequence[Revision]) -> list[dict[str, Any]]:
    """Revisions with their diffs; None for one whose predecessor is gone. Blocks."""
    revisions = []
    for new, old in itertools.zip_longest(known, known[1:]):
        is_known = old is not None or new.number == 1
        changes = diff(old.content if old else None, new.content) if is_known else None
        revisions.append({**revision_summary(new), "diff": changes})
    return revisions


@router.post("/memory/undo", openapi_extra=takes(Undo))
async def undo(
    caller: Caller, query: Annotated[Memory, Query()], body: Annotated[Undo, Depends(body_of(Undo, MAX_BODY_BYTES))]
) -> Response:
    """Make a file again what it was at a revision; this is a revision itself."""
    file = (await _revision(caller, body.path, str(body.revision))).file()
    return _revised(body.path, await caller.revise(body.path, lambda _: file))


async def _revision(caller: PersonRequest, key: str, wanted: str) -> Revision:
    """A revision by its id or number. Raises `HTTPException` if the history does not have it."""
    known = await history(caller.store, caller.namespace, key)
    revision = next((revision for revision in known if wanted in {revision.id, str(revision.number)}), None)
    if revision is None:
        detail = f"{ROUTE}{key} has no revision {wanted[:40]} in its history; GET /memory/history lists them."
        raise HTTPException(404, detail)
    return revision


def _revised(key: str, revision: Revision) -> Response:
    return json_response({"path": f"{ROUTE}{key}", "revision": revision.number}, revision.number)
