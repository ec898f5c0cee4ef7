"""Files in the store and in a thread, as deepagents' backends, with what may be written checked at the backend itself.

A path's spelling, a custom tool, a forged tool call or a jump in the graph all end here.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import posixpath
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from deepagents.backends import StateBackend, StoreBackend
from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    FileData,
    FileDownloadResponse,
    FileUploadResponse,
    WriteResult,
)
from langgraph.runtime import Runtime
from langgraph.store.base import GetOp, Item

from memory import scopes
from settings import MAX_FILE_BYTES, MAX_PATH_BYTES

Gate = Callable[[], str | None]
_LOCKS: WeakValueDictionary[tuple[int, scopes.Namespace, str], asyncio.Lock] = WeakValueDictionary()
_SURROGATE = re.compile("[\ud800-\udfff]")  # what no file could hold, and no model could be sent
Args = ParamSpec("Args")
Result = TypeVar("Result", WriteResult, EditResult, DeleteResult)


class RefusedWriteError(ValueError):
    """A write that is not allowed or not valid. The message goes to the model and says what to do instead."""


def check_path(path: str) -> None:
    """Refuse a path within a route that is not one file's one spelling.

    Raises:
        RefusedWriteError: the root, a relative path, `//`, `.` or `..`, unprintable, or longer than `MAX_PATH_BYTES`.
    """
    if path == "/" or not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path:
        raise RefusedWriteError(f"'{path}' does not name a file; use one plain path such as /memories/preferences.md.")
    if not path.isprintable():
        raise RefusedWriteError(f"The path {path[:40]!r} holds characters that cannot be printed; leave them out.")
    if len(path.encode()) > MAX_PATH_BYTES:
        raise RefusedWriteError(f"The path '{path[:40]}...' is longer than {MAX_PATH_BYTES} bytes; choose a shorter one.")


def check_content(path: str, content: str) -> None:
    """Refuse content that some store could not hold, or that is too large to be memory.

    Raises:
        RefusedWriteError: not UTF-8, a NUL character (Postgres cannot keep one), or more than `MAX_FILE_BYTES`.
    """
    try:
        size = len(content.encode())
    except UnicodeEncodeError:
        raise RefusedWriteError(f"{path} was not written: its text is not valid Unicode.") from None
    if "\x00" in content:
        raise RefusedWriteError(f"{path} was not written: its text holds a NUL character; remove it.")
    if size > MAX_FILE_BYTES:
        raise RefusedWriteError(
            f"{path} was not written: {size:,} bytes, and a file may have {MAX_FILE_BYTES:,}; split it by topic."
        )


def check_policy(key: str, value: Mapping[str, Any] | None) -> None:
    """Refuse a policy that the agent could not be shown as a rule.

    Raises:
        RefusedWriteError: not one Markdown file, not text, or too large. A value of None deletes the file.
    """
    check_path(key)
    if not key.endswith(".md"):
        raise RefusedWriteError(f"'{key}' does not end in .md; policies are Markdown.")
    if value is None:
        return
    if not isinstance(value.get("content"), str) or value.get("encoding", "utf-8") != "utf-8":
        raise RefusedWriteError(f'\'{key}\' needs a value such as {{"content": "...", "encoding": "utf-8"}}.')
    check_content(key, value["content"])


def file_lock(namespace: scopes.Namespace, key: str) -> asyncio.Lock:
    """The lock by which writers of one file in this process take turns. It dies with its last user.

    A write reads, changes and puts: without turns, of two tool calls in one message the first would be lost. Writers in other
    processes take no turns; that needs a journal.
    """
    place = (id(asyncio.get_running_loop()), namespace, key)
    return _LOCKS.setdefault(place, asyncio.Lock())


def _checked(method: Callable[Concatenate[Any, str, Args], Result], failed: Callable[..., Result]) -> Any:
    """A backend's method behind the gate; a refusal, or a stored value that is no file, is its error result."""

    @functools.wraps(method)
    def checked(self: ScopedFiles, file_path: str, *args: Args.args, **kwargs: Args.kwargs) -> Result:
        try:
            self.check(file_path)
            return method(self, file_path, *args, **kwargs)
        except ValueError as error:
            return failed(error=f"Error: {error}")

    return checked


def _achecked(method: Callable[Concatenate[Any, str, Args], Awaitable[Result]], failed: Callable[..., Result]) -> Any:
    """`_checked` for asynchronous methods."""

    @functools.wraps(method)
    async def checked(self: ScopedFiles, file_path: str, *args: Args.args, **kwargs: Args.kwargs) -> Result:
        try:
            self.check(file_path)
            async with file_lock(self._get_namespace(), file_path):
                return await method(self, file_path, *args, **kwargs)
        except ValueError as error:
            return failed(error=f"Error: {error}")

    return checked


class ScopedFiles(StoreBackend):
    """Files of one route in the store, with deepagents' own results, behind a gate.

    Args:
        namespace: as for `StoreBackend`; raises `IdentityError` where nobody is known.
        gate: asked before every write; answers why it is refused, or None.
    """

    def __init__(self, *, namespace: Callable[[Runtime[Any]], scopes.Namespace], gate: Gate) -> None:
        super().__init__(namespace=namespace)
        self._gate = gate

    def check(self, path: str) -> None:
        """Raise `RefusedWriteError` where this path may not be written."""
        if reason := self._gate():
            raise RefusedWriteError(f"Permission denied for '{path}': {reason}")
        check_path(path)

    def _convert_store_item_to_file_data(self, store_item: Item) -> FileData:
        return stored_file(store_item)

    def _convert_file_data_to_store_value(self, file_data: FileData) -> dict[str, Any]:
        # The last step before every put, whichever operation made the new content.
        check_content("This file", file_data["content"])
        return super()._convert_file_data_to_store_value(file_data)

    write = _checked(StoreBackend.write, WriteResult)
    awrite = _achecked(StoreBackend.awrite, WriteResult)
    edit = _checked(StoreBackend.edit, EditResult)
    aedit = _achecked(StoreBackend.aedit, EditResult)
    delete = _checked(StoreBackend.delete, DeleteResult)
    adelete = _achecked(StoreBackend.adelete, DeleteResult)

    async def achange(self, path: str, change: Callable[[str], str]) -> str | None:
        """Write what `change` makes of a file's text (empty when there is no file), with no other writer in between.

        Returns:
            Why it was not written, or None. A `ValueError` of `change` is one reason.
        """
        try:
            self.check(path)
            async with file_lock(self._get_namespace(), path):
                (found,) = await self.adownload_files([path])
                if found.error and found.error != "file_not_found":
                    raise RefusedWriteError(found.error)
                try:
                    before = (found.content or b"").decode()
                except UnicodeDecodeError:
                    raise RefusedWriteError(f"'{path}' is not text; choose another file.") from None
                return (await StoreBackend.awrite(self, path, change(before))).error
        except ValueError as error:
            return f"Error: {error}"

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [self._upload(path, content) for path, content in files]

    def _upload(self, path: str, content: bytes) -> FileUploadResponse:
        try:
            self.check(path)
            return super().upload_files([(path, content)])[0]
        except ValueError as error:
            return FileUploadResponse(path=path, error="permission_denied" if self._gate() else str(error))

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """All files in one batch; a value that is not a file is that file's error, not everyone's."""
        namespace = self._get_namespace()
        items = await self._get_store().abatch([GetOp(namespace, path) for path in paths])
        return [self._downloaded(path, item) for path, item in zip(paths, items, strict=True)]

    def _downloaded(self, path: str, item: object) -> FileDownloadResponse:
        if not isinstance(item, Item):
            return FileDownloadResponse(path=path, error="file_not_found")
        try:
            return FileDownloadResponse(path=path, content=file_bytes(self._convert_store_item_to_file_data(item)))
        except ValueError as error:
            return FileDownloadResponse(path=path, error=str(error))


class ThreadFiles(StateBackend):
    """Files of this thread alone. Refuses other spellings of a path: `//policies/x` is no way around `/policies/x`.

    Args:
        routes: folders that are somebody else's. A client's input may carry files of any path; under these they are not seen.
    """

    def __init__(self, routes: Sequence[str]) -> None:
        super().__init__()
        self._routes = tuple(routes)

    def _read_files(self) -> dict[str, Any]:
        return {path: file for path, file in super()._read_files().items() if not path.startswith(self._routes)}

    def write(self, file_path: str, content: str) -> WriteResult:
        error = _spelling_error(file_path)
        return WriteResult(error=error) if error else super().write(file_path, content)

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:  # the protocol's signature
        error = _spelling_error(file_path)
        return EditResult(error=error) if error else super().edit(file_path, old_string, new_string, replace_all)

    def delete(self, file_path: str) -> DeleteResult:
        error = _spelling_error(file_path)
        return DeleteResult(error=error) if error else super().delete(file_path)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        errors = [FileUploadResponse(path=path, error="invalid_path") for path, _ in files if _spelling_error(path)]
        return errors or super().upload_files(files)


def _spelling_error(path: str) -> str | None:
    try:
        check_path(path)
    except RefusedWriteError as error:
        return f"Error: {error}"
    return None


def stored_file(item: Item) -> FileData:
    """A store item as a file. Other code may put anything into a namespace; that must not break what lists or shows the rest.

    Raises:
        ValueError: the value is not file data.
    """
    content, encoding = item.value.get("content"), item.value.get("encoding", "utf-8")
    if isinstance(content, list) and all(isinstance(line, str) for line in content):
        content = "\n".join(content)  # how deepagents stored files before 0.5
    if not isinstance(content, str) or encoding not in {"utf-8", "base64"} or _SURROGATE.search(content):
        raise ValueError(f"'{item.key}' holds a value that is not a file; delete it or write another path.")
    file = FileData(content=content, encoding=encoding)
    for stamp in ("created_at", "modified_at"):
        if isinstance(item.value.get(stamp), str):
            file[stamp] = item.value[stamp]
    return file


def file_bytes(file: FileData) -> bytes:
    """The content of a file as bytes.

    Raises:
        ValueError: it says it is base64 and is not.
    """
    return base64.b64decode(file["content"], validate=True) if file["encoding"] == "base64" else file["content"].encode()
