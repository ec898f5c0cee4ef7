"""A person's memory and conversations as one JSON document, and the files of such a document merged into a memory.

Merging removes nothing. It creates missing files and appends missing lines to Markdown files, in their order; other existing
files stay as they are.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

import httpx
from deepagents.backends.protocol import FileData
from fastapi import APIRouter
from fastapi.responses import Response, StreamingResponse
from langgraph.store.base import BaseStore
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from pydantic import BaseModel, Field, model_validator
from starlette.exceptions import HTTPException

from lasting_memory import journal
from lasting_memory.controls import controls, is_temporary
from lasting_memory.deployment import Deployment
from lasting_memory.files.proposals import Memory
from lasting_memory.http import requests
from lasting_memory.http.requests import ROUTE, AboutQuery, Answer, Caller, MemoryQuery, key_of
from lasting_memory.limits import Limits
from lasting_memory.people import identity
from lasting_memory.people.namespaces import Namespace
from lasting_memory.recall import owned_by
from lasting_memory.validation import RefusedWrite, before_write, file_bytes, stored_file

router = APIRouter(tags=["Memory"])
# Conversations, with their messages, and ids that are read at once.
_PAGE = 20
_IDS = 1_000


@router.get("/memory/export", dependencies=[requests.alone("export")])
async def export(caller: Caller, query: AboutQuery) -> Response:
    """Everything of yours as one JSON document.

    version, exported_at, user_id, org_id, left_out (temporary conversations), controls, proposals, files and deleted_files
    with revisions, unreadable (what is no file), conversations with values. 429: another export of yours is under way.
    """

    parts = document(caller.store, get_client(), caller.actor, caller.deployment)
    attached = {"content-disposition": 'attachment; filename="memory.json"'}
    return StreamingResponse(parts, media_type="application/json", headers=attached)


async def document(
    store: BaseStore, client: LangGraphClient, actor: identity.Actor, deployment: Deployment
) -> AsyncIterator[bytes]:
    """The document in parts, with one memory's histories or `_PAGE` conversations in memory at a time."""
    by_assistant, own = deployment.memory.per_assistant, await requests.memory_namespaces(store, actor, deployment)
    of = {place: {"assistant_id": identity.part_of(place[1].split(":")[0])} if by_assistant else {} for place in own}
    memories = [Memory(store, actor, place, deployment) for place in own]
    proposals = [{**each, **of[memory.files]} for memory in memories for each in await memory.shown_proposals()]
    told: dict[str, Any] = {
        "version": 1,
        "exported_at": datetime.now(UTC).isoformat(),
        **asdict(actor),
        "left_out": ["temporary conversations"],
        "controls": (await controls(store, actor, deployment)).told(),
        "proposals": proposals,
    }
    yield json.dumps(told)[:-1].encode()
    deleted, unreadable = list[Answer](), list[Answer]()
    lists = {
        "files": _files(store, of, deleted, unreadable, deployment.limits),
        "conversations": conversations(client, actor, deployment.agents),
    }
    for name, entries in lists.items():
        yield f', "{name}": ['.encode()
        comma = b"\n"
        async for entry in entries:
            yield comma + entry
            comma = b",\n"
        yield b"\n]"
    rest = await asyncio.to_thread(_json, {"deleted_files": deleted, "unreadable": unreadable})
    yield b", " + rest[1:] + b"\n"


async def _files(
    store: BaseStore, of: Mapping[Namespace, Answer], deleted: list[Answer], unreadable: list[Answer], limits: Limits
) -> AsyncIterator[bytes]:
    """The files with their histories; `deleted` gets the histories of those that are gone, `unreadable` other code's values."""
    for place, assistant in of.items():
        histories = dict(await journal.histories(store, place, limits))
        for item in await journal.all_items(store, place):
            path, known = f"{ROUTE}{item.key}", _revisions(histories.pop(item.key, []))
            try:
                file = {"path": path, **stored_file(item), **assistant}
            except RefusedWrite:
                unreadable.append({"path": path, "value": item.value, **assistant})
            else:
                yield await asyncio.to_thread(_json, {**file, "revisions": known})
        gone = {key: known for key, known in histories.items() if known}
        deleted += [{"path": f"{ROUTE}{key}", **assistant, "revisions": _revisions(known)} for key, known in gone.items()]


def _json(value: Answer) -> bytes:
    return json.dumps(value, default=str).encode()


def _revisions(history: Sequence[journal.Revision]) -> list[Answer]:
    return [{**requests.revision_summary(revision), "content": revision.content} for revision in history]


async def conversations(client: LangGraphClient, actor: identity.Actor, agents: Collection[str]) -> AsyncIterator[bytes]:
    """A person's conversations with these agents except temporary ones, `_PAGE` at a time: JSON objects and commas."""
    for metadata in owned_by(actor, agents):
        threads = list[Any]()  # ids first: pages of a changing list would skip some
        listed: dict[str, Any] = {"metadata": metadata, "sort_by": "thread_id", "sort_order": "asc", "limit": _IDS}
        while some := await client.threads.search(**listed, offset=len(threads), select=["thread_id", "metadata"]):
            threads += some
        ids = [str(thread["thread_id"]) for thread in threads if not is_temporary(thread)]
        for start in range(0, len(ids), _PAGE):
            if objects := await _threads(client, metadata, ids[start : start + _PAGE]):
                yield objects


async def _threads(client: LangGraphClient, metadata: Mapping[str, str], ids: Sequence[str]) -> bytes:
    """JSON objects with commas between; one that cannot be read has an `error`. Raises `HTTPStatusError` in an outage.

    The platform's JSON is passed on unread: decoding it would take several times as long, and a response that httpx has read
    whole stays in memory until Python collects cycles.
    """
    fields = ["thread_id", "created_at", "updated_at", "values"]
    query = {"metadata": metadata, "limit": len(ids), "select": fields, "ids": ids}
    try:
        async with client.http.client.stream("POST", "/threads/search", json=query) as answer:
            answer.raise_for_status()
            return b"".join([part async for part in answer.aiter_bytes()]).strip()[1:-1]
    except httpx.HTTPStatusError as error:
        if error.response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            raise
        if len(ids) > 1:
            return b",\n".join(filter(None, [await _threads(client, metadata, [one]) for one in ids]))
        return json.dumps({"thread_id": ids[0], "error": "It cannot be read."}).encode()


class Imported(BaseModel, strict=True):
    """A file to import. What else an export has of it is ignored."""

    path: str
    content: str
    encoding: Literal["utf-8", "base64"] = "utf-8"

    @model_validator(mode="after")
    def _check(self) -> Self:
        key_of(self.path)
        file_bytes(self.merged(None))
        return self

    def merged(self, before: FileData | None) -> FileData:
        """The merged file, given the existing one."""
        if before is None:
            return FileData(content=self.content, encoding=self.encoding)
        if not self.path.endswith(".md") or {before["encoding"], self.encoding} != {"utf-8"}:
            return before
        known = set(journal.lines_of(before["content"]))
        lacking = [line for line in journal.lines_of(self.content) if line.strip() and line not in known]
        gap = "\n" if before["content"] and not before["content"].endswith("\n") and lacking else ""
        return FileData(content=before["content"] + gap + "".join(f"{line}\n" for line in lacking), encoding="utf-8")

    def action(self, before: FileData | None) -> str:
        """What becomes of the existing file."""
        if before is None:
            return "create"
        if self.merged(before)["content"] != before["content"]:
            return "append"
        return "same" if before["content"] == self.content else "keep"


# Of one import. What a memory may have beside what is there is checked file by file.
_MOST_FILES = 10_000


class Document(BaseModel, strict=True):
    """An export. Its other parts are ignored."""

    version: Literal[1]
    files: Annotated[list[Imported], Field(max_length=_MOST_FILES)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        twice = [path for path, times in Counter(file.path for file in self.files).items() if times > 1]
        if twice:
            raise ValueError(f"{twice[0]} is there more than once; import one assistant's files at a time")
        return self


@router.post("/memory/import", dependencies=[requests.alone("import")])
async def import_files(caller: Caller, query: MemoryQuery, body: Document) -> Answer:
    """Merge the files of an export into your memory.

    `files` are path and action: create, append (Markdown, of which lines were missing), keep (another one is there), same.
    Conversations are not imported. 409: a file does not fit beside what is there; those before it were imported, and it can be
    repeated. 429: another import of yours is under way.
    """
    if len(body.files) > (most := caller.deployment.limits.max_files):
        raise RefusedWrite(f"There are {len(body.files)} files, and {most} is the limit; import fewer.")
    stored = {item.key: item for item in await journal.all_items(caller.store, caller.namespace)}
    for file in body.files:
        await asyncio.to_thread(before_write, caller.deployment, file.path, file.content, caller.author)
    done = list[Answer]()
    for file in body.files:
        item = stored.get(key_of(file.path))
        try:
            action = file.action(stored_file(item) if item else None)
            if action in {"create", "append"}:
                await caller.files.arevise(key_of(file.path), file.merged)
        except ValueError as error:
            raise HTTPException(409, f"{error} {len(done)} files before it were imported.") from None
        done.append({"path": file.path, "action": action})
    return {"files": done}
