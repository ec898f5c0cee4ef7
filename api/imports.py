"""The files of an export merged into a person's memory.

Merging removes nothing. It creates missing files and appends missing lines to Markdown files, in their order; other existing
files stay as they are.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from deepagents.backends.protocol import FileData
from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from langgraph.store.base import Item
from pydantic import BaseModel, BeforeValidator, Field, model_validator
from starlette.exceptions import HTTPException

from api.person import ROUTE
from api.requests import Caller, Memory, alone, body_of, json_response, takes
from memory import identity
from memory.journal import all_items, lines_of
from memory.validation import RefusedWriteError, before_write, check_path, check_room, file_bytes, stored_file
from settings import MAX_IMPORT_BYTES, MAX_MEMORY_FILES

router = APIRouter(tags=["Memory"])


class Import(Memory):
    """Parameters of an import. There is no preview; older clients say that they want none."""

    dry_run: Literal["false"] = "false"


class Imported(BaseModel):
    """A file to import. What else an export has of it is ignored."""

    path: str
    content: str
    encoding: Literal["utf-8", "base64"] = "utf-8"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.path.startswith(f"{ROUTE}/"):
            raise ValueError(f"use paths under {ROUTE}/")
        check_path(self.key)
        if self.encoding == "base64":
            file_bytes(self.file)
        return self

    @property
    def key(self) -> str:
        return self.path.removeprefix(ROUTE)

    @property
    def file(self) -> FileData:
        return FileData(content=self.content, encoding=self.encoding)

    def merged(self, before: FileData | None) -> FileData:
        """The merged file, given the existing one."""
        if before is None:
            return self.file
        if not self.key.endswith(".md") or {before["encoding"], self.encoding} != {"utf-8"}:
            return before
        known = set(lines_of(before["content"]))
        lacking = [line for line in lines_of(self.content) if line.strip() and line not in known]
        gap = "\n" if before["content"] and not before["content"].endswith("\n") and lacking else ""
        return FileData(content=before["content"] + gap + "".join(f"{line}\n" for line in lacking), encoding="utf-8")


def _readable(files: object) -> object:
    """Without what an export named as no file, or as one that it could not read."""

    def damaged(value: object) -> bool:
        return isinstance(value, dict) and "content" not in value and not value.keys().isdisjoint({"value", "error"})

    return [value for value in files if not damaged(value)] if isinstance(files, list) else files


class Document(BaseModel):
    """An export. Its other parts are ignored."""

    version: Literal[1]  # `api.export.VERSION`
    files: Annotated[list[Imported], Field(max_length=MAX_MEMORY_FILES), BeforeValidator(_readable)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        (path, times), *_ = [*Counter(file.path for file in self.files).most_common(1), ("", 0)]
        if times > 1:
            raise ValueError(f"{path} is there {times} times; import one assistant's files at a time")
        return self


@router.post("/memory/import", openapi_extra=takes(Document), dependencies=[alone("import")])
async def import_files(
    caller: Caller,
    query: Annotated[Import, Query()],
    body: Annotated[Document, Depends(body_of(Document, MAX_IMPORT_BYTES))],
) -> Response:
    """Merge the files of an export into your memory.

    Nothing is taken away: what is not there is created, Markdown gets the lines it lacks at its end, every other file that is
    there stays. Conversations are not imported. All is checked before anything is written, and it can be repeated. `files` are
    path and action (create, append, keep, same). 409: memory changed meanwhile so that one of the files could not be written;
    call again. 429: another import of yours is under way.
    """
    await caller.check_assistant()
    items = await all_items(caller.store, caller.namespace)
    actions = await asyncio.to_thread(plan, items, body.files, caller.author)
    for file in body.files:
        if actions[file.path] in {"create", "append"}:
            try:
                await caller.files.arevise(file.key, file.merged)
            except ValueError as error:  # another write came after the plan
                raise HTTPException(409, f"{error} Files before it were imported; call again.") from None
    return json_response({"files": [{"path": path, "action": action} for path, action in actions.items()]})


def plan(stored: Sequence[Item], wanted: Sequence[Imported], author: identity.Author) -> dict[str, str]:
    """What becomes of each file, by its path: create, append, keep or same. Blocks. Raises `RefusedWriteError` if one of the
    writes would be refused.
    """
    items, planned = {item.key: item for item in stored}, dict[str, str]()
    for entry in wanted:
        item = items.get(entry.key)
        try:
            before = stored_file(item) if item else None
        except ValueError as error:
            raise RefusedWriteError(str(error)) from None
        after = entry.merged(before)
        before_write(entry.path, after["content"], author)
        check_room(list(items.values()), entry.key, len(after["content"].encode()))
        now = datetime.now(UTC)
        namespace = item.namespace if item else ("memories",)
        items[entry.key] = Item(value={**after}, key=entry.key, namespace=namespace, created_at=now, updated_at=now)
        planned[entry.path] = _action(before, after, entry)
    return planned


def _action(before: FileData | None, after: FileData, entry: Imported) -> str:
    if before is None:
        return "create"
    if before["content"] == entry.content:
        return "same"
    return "keep" if after["content"] == before["content"] else "append"
