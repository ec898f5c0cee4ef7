"""A person's files over HTTP: list, read, write, delete, history, undo."""

import asyncio
import itertools
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item
from starlette.responses import Response

from api.bodies import check_no_body, read_json
from api.person import ROUTE, diff, revision_summary
from api.requests import PersonRequest, RefusedRequestError, json_response, key_of, person_route, shown
from memory.controls import usage_of
from memory.journal import Revision, all_items, history, line_origins, lines_of
from memory.validation import stored_file
from settings import MAX_BODY_BYTES, REVISIONS_KEPT


def _about(item: Item) -> dict[str, Any]:
    """A file's path, size, revision and times."""
    try:
        file = stored_file(item)
    except ValueError as error:
        return {"path": f"{ROUTE}{item.key}", "error": str(error)}
    about = {"bytes": len(file["content"].encode()), "revision": item.value.get("revision")}
    return {"path": f"{ROUTE}{item.key}", **about, **{key: file[key] for key in file if key != "content"}}  # type: ignore[literal-required]


@person_route("assistant_id")
async def list_files(request: PersonRequest) -> Response:
    """
    summary: The files that are remembered of you
    responses:
      "200":
        description: >
          `files`: path, bytes, revision (null if put around the history), times; and `usage`: files, bytes, their limits, and
          `nearly_full`, from 80% of one of them on
    """
    items = await all_items(request.store, request.namespace)
    usage = usage_of(items)
    files = [_about(item) for item in items]
    return json_response({"files": files, "usage": {**asdict(usage), "nearly_full": usage.nearly_full}})


@person_route("assistant_id", "path", "revision")
async def read_file(request: PersonRequest) -> Response:
    """
    summary: A file, as it is or as it was at a revision
    parameters:
      - {name: path, in: query, required: true, schema: {type: string}, example: /memories/preferences.md}
      - {name: revision, in: query, schema: {type: integer}}
    responses:
      "200":
        description: >
          path, content (null if deleted then), encoding, revision; the revision is the ETag, too. Without `revision` also
          `lines`: for each line of the content the revision, time (`at`) and author it came with, and `threads`, ids of the
          conversations it may have been said in; null where that revision is not kept. Empty for more than 2,000 lines
      "404": {description: There is no such file or revision}
    """
    key = request.key
    if "revision" in request.parameters:
        revision = await _revision(request, key, request.parameters["revision"])
        return json_response(
            {"path": f"{ROUTE}{key}", "content": revision.content, "encoding": revision.encoding, **revision_summary(revision)}
        )
    item = await _item(request, key)
    try:
        content = stored_file(item)["content"]
    except ValueError as error:
        raise RefusedRequestError(409, str(error)) from None
    known = await history(request.store, request.namespace, key)
    lines = await asyncio.to_thread(_lines, content, known)
    return json_response({**_about(item), "content": content, "lines": lines}, item.value.get("revision"))


async def _item(request: PersonRequest, key: str) -> Item:
    """A stored file. Raises `RefusedRequestError` if there is none."""
    item = await request.store.aget(request.namespace, key)
    if item is None:
        raise RefusedRequestError(404, f"There is no file {ROUTE}{key}.")
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


@person_route("assistant_id", "path")
async def write_file(request: PersonRequest) -> Response:
    """
    summary: Create or replace a text file
    parameters:
      - {name: path, in: query, required: true, schema: {type: string}}
      - {name: If-Match, in: header, schema: {type: string}, description: only if it is still at this revision}
    requestBody:
      content: {application/json: {schema: {type: object, required: [content], properties: {content: {type: string}}}}}
    responses:
      "200": {description: path and the new revision}
      "412": {description: It is at another revision}
      "422": {description: "It must not be remembered (too large, a credential, an invalid profile)"}
    """
    key, body = request.key, await read_json(request, MAX_BODY_BYTES)
    content = body.get("content")
    if set(body) != {"content"} or not isinstance(content, str):
        raise RefusedRequestError(422, 'The body needs one field, a text: {"content": "..."}.')
    return _revised(key, await request.revise(key, lambda _: FileData(content=content, encoding="utf-8")))


@person_route("assistant_id", "path")
async def delete_file(request: PersonRequest) -> Response:
    """
    summary: Delete a file (its history stays, and it can be undone)
    parameters:
      - {name: path, in: query, required: true, schema: {type: string}}
      - {name: If-Match, in: header, schema: {type: string}, description: only if it is still at this revision}
    responses:
      "200": {description: path and the new revision}
      "404": {description: There is no such file}
      "422": {description: It has a body}
    """
    key = request.key
    await check_no_body(request)
    item = await _item(request, key)
    try:
        stored_file(item)
    except ValueError:  # a value of other code, not a file
        await request.files.aremove(item)
        return json_response({"path": f"{ROUTE}{key}", "revision": None})

    def deleted(before: FileData | None) -> None:
        if before is None:
            raise RefusedRequestError(404, f"There is no file {ROUTE}{key}.")

    return _revised(key, await request.revise(key, deleted))


@person_route("assistant_id", "path")
async def read_history(request: PersonRequest) -> Response:
    """
    summary: The last 50 revisions of a file, also of a deleted one
    description: >
      Fewer where older ones were removed to make room: all files and their histories together take at most twice what the files
      may take. Those of deleted files go first.
    parameters:
      - {name: path, in: query, required: true, schema: {type: string}}
    responses:
      "200":
        description: >
          `revisions`, newest first: revision, at, author (kind, user, run, thread), deleted, bytes, diff; and
          `revisions_dropped`: how many more there would be, had they not been removed to make room
      "404": {description: There is and was no such file}
    """
    key = request.key
    known = await history(request.store, request.namespace, key)
    if not known:
        await _item(request, key)
    revisions = await asyncio.to_thread(_with_diffs, known)
    dropped = min(REVISIONS_KEPT, known[0].number) - len(known) if known else 0
    return json_response({"path": f"{ROUTE}{key}", "revisions": revisions, "revisions_dropped": dropped})


def _with_diffs(known: Sequence[Revision]) -> list[dict[str, Any]]:
    """Revisions with their diffs; None for one whose predecessor is gone. Blocks."""
    revisions = []
    for new, old in itertools.zip_longest(known, known[1:]):
        is_known = old is not None or new.number == 1
        changes = diff(old.content if old else None, new.content) if is_known else None
        revisions.append({**revision_summary(new), "diff": changes})
    return revisions


@person_route("assistant_id")
async def undo(request: PersonRequest) -> Response:
    """
    summary: Make a file again what it was at a revision; this is a revision itself
    requestBody:
      content:
        application/json:
          schema: {type: object, required: [path, revision], properties: {path: {type: string}, revision: {type: integer}}}
    responses:
      "200": {description: path and the new revision}
      "404": {description: There is no such revision}
    """
    body = await read_json(request, MAX_BODY_BYTES)
    if set(body) != {"path", "revision"}:
        raise RefusedRequestError(422, 'The body needs two fields: {"path": "/memories/...", "revision": 3}.')
    key = key_of(body["path"])
    file = (await _revision(request, key, body["revision"])).file()
    return _revised(key, await request.revise(key, lambda _: file))


async def _revision(request: PersonRequest, key: str, wanted: object) -> Revision:
    number = str(wanted) if isinstance(wanted, int) and not isinstance(wanted, bool) else wanted
    if not isinstance(number, str) or not (number.isascii() and number.isdigit()):
        raise RefusedRequestError(422, f"revision is {shown(wanted)}; use a whole number from the history.")
    known = await history(request.store, request.namespace, key)
    revision = next((revision for revision in known if str(revision.number) == number), None)
    if revision is None:
        detail = f"{ROUTE}{key} has no revision {number[:20]} in its history; GET /memory/history lists them."
        raise RefusedRequestError(404, detail)
    return revision


def _revised(key: str, revision: Revision) -> Response:
    return json_response({"path": f"{ROUTE}{key}", "revision": revision.number}, revision.number)
