"""A person's own view of their memory over HTTP: see it, correct it, undo it, take it along, be forgotten.

Served by the platform beside its own routes (`http.app` in langgraph.json), behind the same sign-in. It is always about the
caller; an operator may name somebody with `?user_id=&org_id=`. Errors are `{"detail": "..."}`. The texts after `---` are what
/openapi.json says.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item
from langgraph_sdk import get_client
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dev_guard import DevGuard
from memory.consensus import Revision
from memory.export import ROUTE, all_items, diff, document, entries, plan, told
from memory.on_demand import consolidate, consolidations
from memory.person import StillWrittenError, forget
from memory.requests import PRIVATE, Asked, RefusedRequestError, answers, key_of
from memory.validation import stored_file
from request_bounds import RequestBounds
from settings import MAX_BODY_BYTES, MAX_IMPORT_BYTES, REVISIONS_KEPT, Settings, load_settings

logger = logging.getLogger("api")


def _json(value: Any, revision: int | None = None) -> JSONResponse:
    return JSONResponse(value, headers=PRIVATE if revision is None else {**PRIVATE, "etag": f'"{revision}"'})


def _about(item: Item) -> dict[str, Any]:
    """A file without its content."""
    try:
        file = stored_file(item)
    except ValueError as error:
        return {"path": f"{ROUTE}{item.key}", "error": str(error)}
    about = {"bytes": len(file["content"].encode()), "revision": item.value.get("revision")}
    return {"path": f"{ROUTE}{item.key}", **about, **{key: file[key] for key in file if key != "content"}}  # type: ignore[literal-required]


@answers("assistant_id")
async def list_files(asked: Asked) -> Response:
    """
    ---
    summary: The files that are remembered of you
    tags: [Memory]
    responses: {"200": {description: "`files`: path, bytes, revision (null if put around the history), times"}}
    """
    return _json({"files": [_about(item) for item in await all_items(asked.store, asked.namespace)]})


@answers("assistant_id", "path", "revision")
async def read_file(asked: Asked) -> Response:
    """
    ---
    summary: A file, as it is or as it was at a revision
    tags: [Memory]
    parameters:
      - {name: path, in: query, required: true, schema: {type: string}, example: /memories/preferences.md}
      - {name: revision, in: query, schema: {type: integer}}
    responses:
      "200": {description: "path, content (null if deleted then), encoding, revision; the revision is the ETag, too"}
      "404": {description: There is no such file or revision}
    """
    key = asked.key
    if "revision" in asked.parameters:
        revision = await _revision(asked, key, asked.parameters["revision"])
        return _json({"path": f"{ROUTE}{key}", "content": revision.content, "encoding": revision.encoding, **told(revision)})
    item = await asked.item(key)
    try:
        content = stored_file(item)["content"]
    except ValueError as error:
        raise RefusedRequestError(409, str(error)) from None
    return _json({**_about(item), "content": content}, item.value.get("revision"))


@answers("assistant_id", "path")
async def write_file(asked: Asked) -> Response:
    """
    ---
    summary: Create or replace a text file
    tags: [Memory]
    parameters:
      - {name: path, in: query, required: true, schema: {type: string}}
      - {name: If-Match, in: header, schema: {type: string}, description: only if it is still at this revision}
    requestBody:
      content: {application/json: {schema: {type: object, required: [content], properties: {content: {type: string}}}}}
    responses:
      "200": {description: path and the new revision}
      "412": {description: It is at another revision}
      "422": {description: It must not be remembered (too large, a credential, an invalid profile)}
    """
    key, body = asked.key, await asked.json(MAX_BODY_BYTES)
    content = body.get("content")
    if set(body) != {"content"} or not isinstance(content, str):
        raise RefusedRequestError(422, 'The body needs one field, a text: {"content": "..."}.')
    return _revised(key, await asked.revise(key, lambda _: FileData(content=content, encoding="utf-8")))


@answers("assistant_id", "path")
async def delete_file(asked: Asked) -> Response:
    """
    ---
    summary: Delete a file (its history stays, and it can be undone)
    tags: [Memory]
    parameters:
      - {name: path, in: query, required: true, schema: {type: string}}
      - {name: If-Match, in: header, schema: {type: string}, description: only if it is still at this revision}
    responses:
      "200": {description: path and the new revision}
      "404": {description: There is no such file}
    """
    key = asked.key
    item = await asked.item(key)
    try:
        stored_file(item)
    except ValueError:  # what other code put there, and is no file
        await asked.files.aremove(item)
        return _json({"path": f"{ROUTE}{key}", "revision": None})

    def deleted(before: FileData | None) -> None:
        if before is None:
            raise RefusedRequestError(404, f"There is no file {ROUTE}{key}.")

    return _revised(key, await asked.revise(key, deleted))


@answers("assistant_id", "path")
async def read_history(asked: Asked) -> Response:
    """
    ---
    summary: The last 50 revisions of a file, also of a deleted one
    description: >
      Fewer where older ones were removed to make room: all files and their histories together take at most twice what the files
      may take. Those of deleted files go first.
    tags: [Memory]
    parameters:
      - {name: path, in: query, required: true, schema: {type: string}}
    responses:
      "200":
        description: >
          `revisions`, newest first: revision, at, author (kind, user, run, thread), deleted, bytes, diff; and
          `revisions_dropped`: how many more there would be, had they not been removed to make room
      "404": {description: There is and was no such file}
    """
    key = asked.key
    history = await asked.history(key)
    if not history:
        await asked.item(key)
    before = [revision.content for revision in history[1:]]
    if history and history[-1].number == 1:
        before.append(None)

    def revisions() -> list[dict[str, Any]]:
        changes = [diff(old, new.content) for new, old in zip(history, before, strict=False)]
        return [{**told(revision), "diff": change} for revision, change in zip(history, [*changes, None], strict=False)]

    dropped = min(REVISIONS_KEPT, history[0].number) - len(history) if history else 0
    return _json({"path": f"{ROUTE}{key}", "revisions": await asyncio.to_thread(revisions), "revisions_dropped": dropped})


@answers("assistant_id")
async def undo(asked: Asked) -> Response:
    """
    ---
    summary: Make a file again what it was at a revision; this is a revision itself
    tags: [Memory]
    requestBody:
      content:
        application/json:
          schema: {type: object, required: [path, revision], properties: {path: {type: string}, revision: {type: integer}}}
    responses:
      "200": {description: path and the new revision}
      "404": {description: There is no such revision}
    """
    body = await asked.json(MAX_BODY_BYTES)
    if set(body) != {"path", "revision"}:
        raise RefusedRequestError(422, 'The body needs two fields: {"path": "/memories/...", "revision": 3}.')
    key = key_of(body["path"])
    file = (await _revision(asked, key, body["revision"])).file()
    return _revised(key, await asked.revise(key, lambda _: file))


async def _revision(asked: Asked, key: str, wanted: object) -> Revision:
    text = str(wanted) if isinstance(wanted, int | str) else type(wanted).__name__  # no text of what may be nested at will
    if isinstance(wanted, bool) or not (text.isascii() and text.isdigit()):
        raise RefusedRequestError(422, f"revision is {text[:40]!r}; use a whole number, as the history tells it.")
    revision = next((found for found in await asked.history(key) if str(found.number) == text), None)
    if revision is None:
        raise RefusedRequestError(
            404, f"{ROUTE}{key} has no revision {text[:20]} in its history; GET /memory/history lists them."
        )
    return revision


def _revised(key: str, revision: Revision) -> Response:
    return _json({"path": f"{ROUTE}{key}", "revision": revision.number}, revision.number)


@answers()
async def export(asked: Asked) -> Response:
    """
    ---
    summary: Everything of yours as one JSON document
    tags: [Memory]
    responses:
      "200":
        description: "version, exported_at, user_id, org_id, files and deleted_files with revisions, conversations with values"
    """

    async def parts() -> Any:
        async with get_client() as client:
            async for part in document(asked.store, client, asked.actor, asked.settings):
                yield part

    attached = {**PRIVATE, "content-disposition": 'attachment; filename="memory.json"'}
    return StreamingResponse(parts(), media_type="application/json", headers=attached)


@answers("assistant_id", "dry_run")
async def import_files(asked: Asked) -> Response:
    """
    ---
    summary: Merge the files of an export into your memory
    description: >
      Nothing is taken away: what is not there is created, Markdown gets the lines it lacks at its end, every other file that is
      there stays. Conversations are not imported. All is checked before anything is written, and it can be repeated.
    tags: [Memory]
    parameters:
      - {name: dry_run, in: query, schema: {type: boolean, default: true}, description: write only with dry_run=false}
    requestBody: {content: {application/json: {schema: {type: object, required: [version, files]}}}}
    responses:
      "200": {description: "`dry_run`, and `files`: path, action (create, append, keep, same), diff"}
      "409": {description: Memory changed meanwhile so that one of the files could not be written; call again}
      "422": {description: One of the files could not be written; none was}
    """
    dry_run = asked.parameters.get("dry_run", "true")
    if dry_run not in {"true", "false"}:
        raise RefusedRequestError(400, f"dry_run is {dry_run[:20]!r}; use true or false.")
    wanted = await asyncio.to_thread(entries, await asked.json(MAX_IMPORT_BYTES))
    if dry_run == "false":
        await asked.check_assistant()
    found = await all_items(asked.store, asked.namespace)
    planned = await asyncio.to_thread(plan, found, wanted, asked.author)
    for entry, step in zip(wanted, planned, strict=True):
        if dry_run == "false" and step["action"] in {"create", "append"}:
            try:
                await asked.files.arevise(entry.key, entry.merged)
            except ValueError as error:  # somebody else wrote since it was planned
                raise RefusedRequestError(409, f"{error} Files before it were imported; call again.") from None
    return _json({"dry_run": dry_run == "true", "files": planned})


@answers()
async def forget_me(asked: Asked) -> Response:
    """
    ---
    summary: Forget everything of yours, for good
    description: >
      Memory files, their history, what was derived from conversations, conversations with their checkpoints, and runs that are
      going or waiting. Runs that were going write nothing afterwards. Safe to repeat.
    tags: [Memory]
    responses:
      "200": {description: "`deleted`: how much of what; `kept`: what stays, and why"}
      "503": {description: Something came back each time that it was deleted; call again}
    """
    actor = asked.actor
    try:
        async with get_client() as client:
            deleted = await forget(asked.store, client, actor, asked.settings)
    except StillWrittenError:
        raise RefusedRequestError(
            503, "Something of yours came back each time that it was deleted; stop your clients and call again."
        ) from None
    finally:
        # A warning, so that no usual log level hides it; also of an attempt that failed.
        logger.warning("AUDIT memory.forget org=%r user=%r by=%r", actor.org_id, actor.user_id, asked.author.user_id)
    kept = ["A count of how often you were forgotten, with your identity and nothing else: runs from before are known by it."]
    kept.append("Traces, where this deployment sends them to LangSmith: they follow its retention.")
    if asked.settings.memory_scope == "assistant":
        kept.append("Shared memory (MEMORY_SCOPE=assistant): it is everybody's.")
    return _json({"deleted": {"runs": 0, "threads": 0, "memories": 0, **deleted}, "kept": kept})


def build_api(settings: Settings) -> Starlette:
    """The routes under /memory. The server merges its own into them, so that middleware given here is around all of them."""
    guard = [Middleware(DevGuard, settings=settings)] if settings.local_dev else []
    bounds = Middleware(RequestBounds)
    api = Starlette(
        routes=[
            Route("/memory", list_files, methods=["GET"]),
            Route("/memory", forget_me, methods=["DELETE"]),
            Route("/memory/file", read_file, methods=["GET"]),
            Route("/memory/file", write_file, methods=["PUT"]),
            Route("/memory/file", delete_file, methods=["DELETE"]),
            Route("/memory/history", read_history, methods=["GET"]),
            Route("/memory/undo", undo, methods=["POST"]),
            Route("/memory/export", export, methods=["GET"]),
            Route("/memory/import", import_files, methods=["POST"]),
            Route("/memory/consolidate", consolidate, methods=["POST"]),
            Route("/memory/consolidations", consolidations, methods=["GET"]),
        ],
        middleware=[*guard, bounds],
    )
    api.state.settings = settings
    return api


app = build_api(load_settings())
