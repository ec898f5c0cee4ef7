"""The files of an export merged into a person's memory.

Merging removes nothing. It creates missing files and appends missing lines to Markdown files, in their order; other existing
files stay as they are.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deepagents.backends.protocol import FileData
from langgraph.store.base import Item
from starlette.responses import Response

from api.bodies import read_json
from api.export import VERSION
from api.person import ROUTE, diff
from api.requests import PersonRequest, RefusedRequestError, json_response, person_route, shown
from memory import identity
from memory.journal import all_items, lines_of
from memory.validation import RefusedWriteError, before_write, check_path, check_room, file_bytes, stored_file
from settings import MAX_IMPORT_BYTES, MAX_MEMORY_FILES


@person_route("assistant_id", "dry_run")
async def import_files(request: PersonRequest) -> Response:
    """
    summary: Merge the files of an export into your memory
    description: >
      Nothing is taken away: what is not there is created, Markdown gets the lines it lacks at its end, every other file that is
      there stays. Conversations are not imported. All is checked before anything is written, and it can be repeated.
    parameters:
      - {name: dry_run, in: query, schema: {type: boolean, default: true}, description: write only with dry_run=false}
    requestBody: {content: {application/json: {schema: {type: object, required: [version, files]}}}}
    responses:
      "200": {description: "`dry_run`, and `files`: path, action (create, append, keep, same), diff"}
      "409": {description: Memory changed meanwhile so that one of the files could not be written; call again}
      "422": {description: One of the files could not be written; none was}
      "429": {description: Another import of yours is under way}
    """
    with request.alone("import"):
        return await _merge(request, dry_run=request.flag("dry_run", default=True))


async def _merge(request: PersonRequest, *, dry_run: bool) -> Response:
    wanted = await asyncio.to_thread(entries, await read_json(request, MAX_IMPORT_BYTES))
    if not dry_run:
        await request.check_assistant()
    items = await all_items(request.store, request.namespace)
    planned = await asyncio.to_thread(plan, items, wanted, request.author)
    for entry, step in zip(wanted, planned, strict=True):
        if not dry_run and step["action"] in {"create", "append"}:
            try:
                await request.files.arevise(entry.key, entry.merged)
            except ValueError as error:  # another write came after the plan
                raise RefusedRequestError(409, f"{error} Files before it were imported; call again.") from None
    return json_response({"dry_run": dry_run, "files": planned})


@dataclass(frozen=True, slots=True)
class Entry:
    """A file to import."""

    key: str
    file: FileData

    def merged(self, before: FileData | None) -> FileData:
        """The merged file, given the existing one."""
        if before is None:
            return self.file
        if not self.key.endswith(".md") or {before["encoding"], self.file["encoding"]} != {"utf-8"}:
            return before
        known = set(lines_of(before["content"]))
        lacking = [line for line in lines_of(self.file["content"]) if line.strip() and line not in known]
        gap = "\n" if before["content"] and not before["content"].endswith("\n") and lacking else ""
        return FileData(content=before["content"] + gap + "".join(f"{line}\n" for line in lacking), encoding="utf-8")


def entries(document: object) -> list[Entry]:
    """The files of a document; other parts are ignored. Blocks. Raises `RefusedWriteError`, which names the bad file."""
    if not isinstance(document, dict) or document.get("version") != VERSION or not isinstance(document.get("files"), list):
        raise RefusedWriteError(f'The document is not an export: it needs "version": {VERSION} and a list of "files".')
    if len(document["files"]) > MAX_MEMORY_FILES:
        raise RefusedWriteError(f"The document has {len(document['files'])} files, and {MAX_MEMORY_FILES} is the limit.")
    files = [_entry(number, value) for number, value in enumerate(document["files"]) if not _is_damaged(value)]
    (key, times), *_ = [*Counter(entry.key for entry in files).most_common(1), ("", 0)]
    if times > 1:
        raise RefusedWriteError(f"The document has {ROUTE}{key} {times} times; import one assistant's files at a time.")
    return files


def _is_damaged(value: object) -> bool:
    """Whether an export named this as no file, or as one that it could not read."""
    return isinstance(value, dict) and "content" not in value and not value.keys().isdisjoint({"value", "error"})


def _entry(number: int, value: object) -> Entry:
    if not isinstance(value, dict) or not isinstance(value.get("path"), str) or not isinstance(value.get("content"), str):
        raise RefusedWriteError(f'files[{number}] is not a file: it needs a text "path" and a text "content".')
    path, content, encoding = value["path"], value["content"], value.get("encoding", "utf-8")
    if not path.startswith(f"{ROUTE}/"):
        raise RefusedWriteError(f"files[{number}] is {path[:80]!r}; use paths under {ROUTE}/.")
    check_path(path.removeprefix(ROUTE))
    if encoding not in ("utf-8", "base64"):
        raise RefusedWriteError(f"files[{number}] has the encoding {shown(encoding)}; use utf-8 or base64.")
    file = FileData(content=content, encoding=encoding)
    if encoding == "base64":
        try:
            file_bytes(file)
        except ValueError:
            message = f"files[{number}] is not valid base64, though its encoding says so; encode it again."
            raise RefusedWriteError(message) from None
    return Entry(path.removeprefix(ROUTE), file)


def plan(stored: Sequence[Item], wanted: Sequence[Entry], author: identity.Author) -> list[dict[str, Any]]:
    """The effect on each file: `path`, `action` (create, append, keep, same) and `diff`. Blocks. Raises `RefusedWriteError` if
    one of the writes would be refused.
    """
    items, planned = {item.key: item for item in stored}, list[dict[str, Any]]()
    for entry in wanted:
        item = items.get(entry.key)
        try:
            before = stored_file(item) if item else None
        except ValueError as error:
            raise RefusedWriteError(str(error)) from None
        after = entry.merged(before)
        before_write(f"{ROUTE}{entry.key}", after["content"], author)
        check_room(list(items.values()), entry.key, len(after["content"].encode()))
        now = datetime.now(UTC)
        namespace = item.namespace if item else ("memories",)
        items[entry.key] = Item(value={**after}, key=entry.key, namespace=namespace, created_at=now, updated_at=now)
        text = [None if file is None or file["encoding"] != "utf-8" else file["content"] for file in (before, after)]
        planned.append({"path": f"{ROUTE}{entry.key}", "action": _action(before, after, entry), "diff": diff(*text)})
    return planned


def _action(before: FileData | None, after: FileData, entry: Entry) -> str:
    if before is None:
        return "create"
    if before["content"] == entry.file["content"]:
        return "same"
    return "keep" if after["content"] == before["content"] else "append"
