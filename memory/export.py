"""A person's memory and conversations as one JSON document, and the memory part of one merged into another memory.

The document: `version` (1), `exported_at` (ISO time, UTC), `user_id`, `org_id`, `files`, `deleted_files`, `conversations`. A
file has `path` as the agent sees it, `content`, `encoding`, times, `revisions` (newest first), and under `user+assistant` its
`assistant_id`. A deleted file has the same without content and times; its `path` is null where version 0.1 deleted it. A
conversation is a thread as the platform tells it: `thread_id`, `created_at`, `updated_at`, and `values` with its `messages`.

Merging takes nothing away: a file that is not there is created; to one in Markdown the lines that it lacks are appended, in
their order; every other file that is there stays as it is.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Item
from langgraph_sdk.client import LangGraphClient

from memory import lines, scopes
from memory.consensus import ALL, LoggedFile, Revision, log_of
from memory.files import acarry_out
from memory.journal import Journal
from memory.person import conversations, memory_namespaces
from memory.validation import RefusedWriteError, before_write, check_path, check_room, stored_file
from settings import MAX_MEMORY_FILES, Settings

VERSION = 1
ROUTE = "/memories"
_PAGE = 20
_CHUNK_BYTES = 65_536
_NAMES = 1_000


async def all_items(store: BaseStore, namespace: scopes.Namespace) -> list[Item]:
    """All files of a namespace, as they are stored, by key."""
    found: list[Item] = []
    while page := await store.asearch(namespace, limit=MAX_MEMORY_FILES, offset=len(found)):
        found += page
        if len(page) < MAX_MEMORY_FILES:
            break
    return sorted(found, key=lambda item: item.key)


async def document(store: BaseStore, client: LangGraphClient, actor: scopes.Actor, settings: Settings) -> AsyncIterator[bytes]:
    """The document in parts: one file's history, or `_PAGE` conversations, in memory at a time."""
    chunk = b""
    async for part in _parts(store, client, actor, settings):
        chunk += part
        if len(chunk) >= _CHUNK_BYTES:
            yield chunk
            chunk = b""
    yield chunk


async def _parts(store: BaseStore, client: LangGraphClient, actor: scopes.Actor, settings: Settings) -> AsyncIterator[bytes]:
    head = {"version": VERSION, "exported_at": datetime.now(UTC).isoformat(), "user_id": actor.user_id, "org_id": actor.org_id}
    yield _open(head) + b', "files": ['
    comma = b""
    for namespace in await memory_namespaces(store, actor, settings):
        for item in await all_items(store, namespace):
            yield comma + b"\n" + _open(_file(item, settings)) + b', "revisions": ['
            for index, revision in enumerate(await acarry_out(store, Journal(LoggedFile(namespace, item.key)).history())):
                yield (b", " if index else b"") + json.dumps({**told(revision), "content": revision.content}).encode()
            yield b"]}"
            comma = b","
    yield b'\n], "deleted_files": ['
    comma = b""
    for namespace in await memory_namespaces(store, actor, settings):
        async for path, history in _deleted(store, namespace):
            revisions = [{**told(revision), "content": revision.content} for revision in history]
            shown = {"path": path and f"{ROUTE}{path}", **_assistant(namespace, settings), "revisions": revisions}
            yield comma + b"\n" + json.dumps(shown).encode()
            comma = b","
    yield b'\n], "conversations": ['
    comma = b""
    async for objects in conversations(client, actor, _PAGE):
        yield comma + b"\n" + objects
        comma = b","
    yield b"\n]}\n"


async def _deleted(store: BaseStore, files: scopes.Namespace) -> AsyncIterator[tuple[str | None, list[Revision]]]:
    """The paths of a namespace's deleted files, as far as their journals say them, and their revisions, newest first."""
    prefix, names = scopes.journals(files), list[str]()
    while page := await store.alist_namespaces(prefix=prefix, max_depth=len(prefix) + 1, limit=_NAMES, offset=len(names)):
        names += [namespace[-1] for namespace in page]
    there = {scopes.journal(files, item.key)[-1] for item in await all_items(store, files)}
    for name in names:
        if name in there:
            continue
        items = await store.asearch((*prefix, name), limit=ALL)
        path, log = next((str(item.value["path"]) for item in items if "path" in item.value), None), log_of(items)
        if path is None:
            history = list(log.back_from(log.head()))
        else:
            history = await acarry_out(store, Journal(LoggedFile(files, path)).history())
        if history:
            yield path, history


def _open(value: dict[str, Any]) -> bytes:
    """A JSON object that goes on."""
    return json.dumps(value, default=str)[:-1].encode()


def _file(item: Item, settings: Settings) -> dict[str, Any]:
    assistant = _assistant(item.namespace, settings)
    try:
        return {"path": f"{ROUTE}{item.key}", **stored_file(item), **assistant}
    except ValueError:  # what other code put there is the person's too
        return {"path": f"{ROUTE}{item.key}", "value": item.value, **assistant}


def _assistant(files: scopes.Namespace, settings: Settings) -> dict[str, str]:
    """The assistant with which a namespace's files are, where each has its own."""
    by_assistant = settings.memory_scope == "user+assistant"
    return {"assistant_id": scopes.part_of(files[1].split(":")[0])} if by_assistant else {}


def told(revision: Revision) -> dict[str, Any]:
    """A revision as it is told over HTTP, without its content."""
    return {
        "revision": revision.number,
        "at": revision.at,
        "author": asdict(revision.author),
        "deleted": revision.content is None,
        "bytes": len((revision.content or "").encode(errors="replace")),
    }


def diff(before: str | None, after: str | None) -> str:
    """What changed, as a unified diff, cut where it is long. Blocks; call it in a thread."""
    changed = lines.diff(before or "", after or "")
    return lines.cut(f"{changed}\n") if changed else ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file to import: its key, and what it holds."""

    key: str
    file: FileData

    def merged(self, before: FileData | None) -> FileData:
        """What becomes of the file that is there."""
        if before is None:
            return self.file
        if not self.key.endswith(".md") or {before["encoding"], self.file["encoding"]} != {"utf-8"}:
            return before
        known = set(before["content"].splitlines())
        lacking = [line for line in self.file["content"].splitlines() if line.strip() and line not in known]
        gap = "\n" if before["content"] and not before["content"].endswith("\n") and lacking else ""
        return FileData(content=before["content"] + gap + "".join(f"{line}\n" for line in lacking), encoding="utf-8")


def entries(document: object) -> list[Entry]:
    """The files of a document; its other parts are not looked at. Blocks; call it in a thread.

    Raises:
        RefusedWriteError: it is no such document, or one of its files is none. Says which.
    """
    if not isinstance(document, dict) or document.get("version") != VERSION or not isinstance(document.get("files"), list):
        raise RefusedWriteError(f'The document is no export: it needs "version": {VERSION} and a list of "files".')
    if len(document["files"]) > MAX_MEMORY_FILES:
        raise RefusedWriteError(f"The document has {len(document['files'])} files, and {MAX_MEMORY_FILES} is the limit.")
    found = [_entry(number, value) for number, value in enumerate(document["files"])]
    (key, times), *_ = [*Counter(entry.key for entry in found).most_common(1), ("", 0)]
    if times > 1:
        raise RefusedWriteError(f"The document has {ROUTE}{key} {times} times; import one assistant's files at a time.")
    return found


def _entry(number: int, value: object) -> Entry:
    if not isinstance(value, dict) or not isinstance(value.get("path"), str) or not isinstance(value.get("content"), str):
        raise RefusedWriteError(f'files[{number}] is no file: it needs a text "path" and a text "content".')
    path, content, encoding = value["path"], value["content"], value.get("encoding", "utf-8")
    if not path.startswith(f"{ROUTE}/"):
        raise RefusedWriteError(f"files[{number}] is {path[:80]!r}; use paths under {ROUTE}/.")
    check_path(path.removeprefix(ROUTE))
    if encoding not in ("utf-8", "base64"):
        raise RefusedWriteError(f"files[{number}] has the encoding {_short(encoding)!r}; use utf-8 or base64.")
    if encoding == "base64":
        try:
            base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError):
            raise RefusedWriteError(f"files[{number}] says it is base64 and is not.") from None
    return Entry(path.removeprefix(ROUTE), FileData(content=content, encoding=encoding))


def _short(value: object) -> str:
    """Some of a text; of anything else, which may be nested at will, its kind."""
    return value[:40] if isinstance(value, str) else type(value).__name__


def plan(found: Sequence[Item], wanted: Sequence[Entry], author: scopes.Author) -> list[dict[str, Any]]:
    """What importing would do to each file, everything checked: `path`, `action` (create, append, keep, same) and a `diff`.

    Blocks; call it in a thread.

    Raises:
        RefusedWriteError: one of them would be refused.
    """
    items, planned = {item.key: item for item in found}, list[dict[str, Any]]()
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
        planned.append(
            {
                "path": f"{ROUTE}{entry.key}",
                "action": _action(before, after, entry),
                "diff": diff(*text),
            }
        )
    return planned


def _action(before: FileData | None, after: FileData, entry: Entry) -> str:
    if before is None:
        return "create"
    if before["content"] == entry.file["content"]:
        return "same"
    return "keep" if after["content"] == before["content"] else "append"
