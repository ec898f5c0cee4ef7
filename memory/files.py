"""Files in the store and in a thread, as deepagents' backends, with what may be written checked at the backend itself.

A path's spelling, a custom tool, a forged tool call or a jump in the graph all end here.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from deepagents.backends import StateBackend, StoreBackend
from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    FileData,
    FileDownloadResponse,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.utils import file_data_to_string, perform_string_replacement
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from memory import scopes
from memory.consensus import Change, LoggedFile, Revision, Steps
from memory.epochs import Epoch
from memory.journal import Journal
from memory.rehearsal import Rehearsals
from memory.validation import (
    NotAFileError,
    RefusedWriteError,
    WrongContentError,
    before_write,
    check_path,
    check_replacement,
    check_room,
    check_text,
    file_bytes,
    stored_file,
)

Gate = Callable[[], str | None]
_LOCKS: WeakValueDictionary[tuple[int, scopes.Namespace, str], asyncio.Lock] = WeakValueDictionary()
T = TypeVar("T")


def carry_out(store: BaseStore, steps: Steps[T]) -> T:
    """Do what a journal asks for, in a thread. What its steps return or raise, this does."""
    answer: Any = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        if isinstance(step, float):
            time.sleep(step)
        answer = None if isinstance(step, float) else store.batch(step)


async def acarry_out(store: BaseStore, steps: Steps[T]) -> T:
    """`carry_out` in an event loop."""
    await asyncio.sleep(0)  # a store in memory never waits: without this, many files in a row would starve everybody else
    answer: Any = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        if isinstance(step, float):
            await asyncio.sleep(step)
        answer = None if isinstance(step, float) else await store.abatch(step)


def file_lock(namespace: scopes.Namespace, key: str) -> asyncio.Lock:
    """The lock by which writers of one file in this process take turns. It dies with its last user.

    The journal needs no turns, but writers that take them meet nobody in it, which is three times as fast.
    """
    place = (id(asyncio.get_running_loop()), namespace, key)
    return _LOCKS.setdefault(place, asyncio.Lock())


class ScopedFiles(StoreBackend):
    """Files of one route in the store, with deepagents' own results; writes go past a gate, `before_write` and the journal.

    What is wrong with a write is in its result. As by `StoreBackend`, a namespace that cannot be used is raised, and so is a
    value that is no file where one file is read or written; listing and searching leave such a value out.

    Args:
        namespace: as for `StoreBackend`; raises `IdentityError` where nobody is known.
        gate: asked before every write; answers why it is refused, or None.
        route: the folder as the agent sees it, without the last slash.
        author: who writes.
        epoch: the person's epoch in which the writer began, as steps (`memory/epochs.py`); None where nobody can be forgotten.
        store: as for `StoreBackend`.
        rehearsals: the copies that dry runs write to.
    """

    def __init__(
        self,
        *,
        namespace: Callable[[Runtime[Any]], scopes.Namespace],
        gate: Gate,
        route: str,
        author: Callable[[], scopes.Author],
        epoch: Callable[[], Steps[Epoch | None]] | None = None,
        store: BaseStore | None = None,
        rehearsals: Rehearsals | None = None,
    ) -> None:
        super().__init__(namespace=namespace, store=store)
        self._gate, self._route, self._author, self._epoch, self._rehearsals = gate, route, author, epoch, rehearsals

    def check(self, path: str) -> None:
        """Raise `RefusedWriteError` where this path may not be written."""
        check_text(path)
        if reason := self._gate():
            raise RefusedWriteError(f"Permission denied for '{path}': {reason}")
        check_path(path)

    def ls(self, path: str) -> LsResult:
        error = _text_error(path)
        return LsResult(error=error) if error else super().ls(path)

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        error = _text_error(file_path)
        return ReadResult(error=error) if error else super().read(file_path, offset, limit)

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        error = _text_error(file_path)
        return ReadResult(error=error) if error else await super().aread(file_path, offset, limit)

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        error = _text_error(pattern, path, glob)
        return GrepResult(error=error) if error else super().grep(pattern, path, glob, max_count=max_count)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        error = _text_error(pattern, path)
        return GlobResult(error=error) if error else super().glob(pattern, path)

    def write(self, file_path: str, content: str) -> WriteResult:
        error = self._done(self._get_namespace(), file_path, _text(content), NotAFileError)
        return WriteResult(error=error) if error else WriteResult(path=file_path)

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        error = await self._adone(self._get_namespace(), file_path, _text(content), NotAFileError)
        return WriteResult(error=error) if error else WriteResult(path=file_path)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        replacement = _Replacement(file_path, old_string, new_string, replace_all)
        return replacement.result(self._done(self._get_namespace(), file_path, replacement, WrongContentError))

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        replacement = _Replacement(file_path, old_string, new_string, replace_all)
        return replacement.result(await self._adone(self._get_namespace(), file_path, replacement, WrongContentError))

    def delete(self, file_path: str) -> DeleteResult:
        store, namespace = self._get_store(), self._get_namespace()
        try:
            self.check(file_path)
            files = super()._search_store_paginated(store, namespace)
            for item in _at_or_under(file_path, files):
                carry_out(store, self._deleted(item, files))
                files.remove(item)
        except ValueError as error:
            return DeleteResult(error=f"Error: {error}")
        return DeleteResult(path=file_path)

    async def adelete(self, file_path: str) -> DeleteResult:
        store, namespace = self._get_store(), self._get_namespace()
        try:
            self.check(file_path)
            files = await super()._asearch_store_paginated(store, namespace)
            for item in _at_or_under(file_path, files):
                await self.aremove(item, files)
                files.remove(item)
        except ValueError as error:
            return DeleteResult(error=f"Error: {error}")
        return DeleteResult(path=file_path)

    async def aremove(self, item: Item, files: Sequence[Item] | None = None) -> None:
        """Delete one item of the namespace, also one that is no file.

        Args:
            item: the item.
            files: all items of the namespace, where they were just read.

        Raises:
            ValueError: as `arevise`.
        """
        async with file_lock(item.namespace, item.key):
            await acarry_out(self._get_store(), self._deleted(item, files))

    async def arevise(self, path: str, change: Change) -> Revision:
        """Carry out a change of a file.

        Raises:
            ValueError: why it was refused, by the gate, `before_write`, the quota or `change` itself. Nothing was written.
        """
        return await self._arevise(self._get_namespace(), path, change)

    async def achange(self, path: str, change: Callable[[str], str]) -> str | None:
        """Write what `change` makes of a file's text (empty when there is no file).

        Returns:
            Why it was not written, or None. A `ValueError` of `change` is one reason.
        """

        def changed(before: FileData | None) -> FileData:
            if before and before["encoding"] != "utf-8":
                raise RefusedWriteError(f"'{path}' is not text; choose another file.")
            return FileData(content=change(before["content"] if before else ""), encoding="utf-8")

        return await self._adone(self._get_namespace(), path, changed)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        namespace = self._get_namespace()
        return [self._uploaded(path, self._done(namespace, path, _upload(content))) for path, content in files]

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        namespace = self._get_namespace()
        return [self._uploaded(path, await self._adone(namespace, path, _upload(content))) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """All files in one batch; a path or a value that is no file's is that file's error, not everyone's."""
        namespace, asked = self._get_namespace(), _findable(paths)
        items = dict(zip(asked, self._get_store().batch([GetOp(namespace, path) for path in asked]), strict=True))
        return [self._downloaded(path, items.get(path)) for path in paths]

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """`download_files` in an event loop."""
        namespace, asked = self._get_namespace(), _findable(paths)
        items = dict(zip(asked, await self._get_store().abatch([GetOp(namespace, path) for path in asked]), strict=True))
        return [self._downloaded(path, items.get(path)) for path in paths]

    def _get_store(self) -> BaseStore:
        return (self._rehearsals.store() if self._rehearsals else None) or super()._get_store()

    def _search_store_paginated(self, store: BaseStore, namespace: scopes.Namespace, **options: Any) -> list[Item]:
        return [*filter(_has_content, super()._search_store_paginated(store, namespace, **options))]

    async def _asearch_store_paginated(self, store: BaseStore, namespace: scopes.Namespace, **options: Any) -> list[Item]:
        return [*filter(_has_content, await super()._asearch_store_paginated(store, namespace, **options))]

    def _convert_store_item_to_file_data(self, store_item: Item) -> FileData:
        try:
            return stored_file(store_item)
        except WrongContentError as error:  # `StoreBackend` would make a result of a `ValueError`
            raise TypeError(str(error)) from None

    def _downloaded(self, path: str, item: object) -> FileDownloadResponse:
        if not isinstance(item, Item):
            return FileDownloadResponse(path=path, error="file_not_found")
        return FileDownloadResponse(path=path, content=file_bytes(stored_file(item)))

    def _told(self, error: ValueError, *raised: type[NotAFileError]) -> str:
        """An error as a result says it. Those that `StoreBackend` raises are raised."""
        if isinstance(error, raised):
            raise error
        return f"Error: {error}"

    def _uploaded(self, path: str, error: str | None) -> FileUploadResponse:
        return FileUploadResponse(path=path, error="permission_denied" if error and self._gate() else error)

    def _done(self, namespace: scopes.Namespace, path: str, change: Change, *raised: type[NotAFileError]) -> str | None:
        """Carry out a change; why it was refused, or None."""
        try:
            carry_out(self._get_store(), self._changing(namespace, path, change))
        except ValueError as error:
            return self._told(error, *raised)
        return None

    async def _adone(self, namespace: scopes.Namespace, path: str, change: Change, *raised: type[NotAFileError]) -> str | None:
        try:
            await self._arevise(namespace, path, change)
        except ValueError as error:
            return self._told(error, *raised)
        return None

    async def _arevise(self, namespace: scopes.Namespace, path: str, change: Change) -> Revision:
        async with file_lock(namespace, path):
            return await acarry_out(self._get_store(), self._changing(namespace, path, change))

    def _changing(
        self, namespace: scopes.Namespace, path: str, change: Change, found: Sequence[Item] | None = None
    ) -> Steps[Revision]:
        self.check(path)
        author, shown = self._author(), f"{self._route}{path}"

        def checked(before: FileData | None) -> FileData | None:
            after = change(before)
            if after is not None:
                before_write(shown, after["content"], author)
            return after

        def room(files: Sequence[Item], file: FileData) -> None:
            check_room(files, path, len(file["content"].encode()))

        epoch = (yield from self._epoch()) if self._epoch else None
        return (yield from Journal(LoggedFile(namespace, path), epoch).change(checked, author, room, found))

    def _deleted(self, item: Item, files: Sequence[Item] | None) -> Steps[Any]:
        try:
            stored_file(item)
        except ValueError:
            return _dropped(item.namespace, item.key)
        return self._changing(item.namespace, item.key, lambda _: None, files)


class AgentFiles(ScopedFiles):
    """`ScopedFiles` as an agent has them: a value that is no file is an error for it to read; raised, it would end the run."""

    def _convert_store_item_to_file_data(self, store_item: Item) -> FileData:
        return stored_file(store_item)

    def _downloaded(self, path: str, item: object) -> FileDownloadResponse:
        try:
            return super()._downloaded(path, item)
        except ValueError as error:
            return FileDownloadResponse(path=path, error=str(error))

    def _told(self, error: ValueError, *_: type[NotAFileError]) -> str:
        return f"Error: {error}"


class _Replacement:
    """The change that `edit` makes, and how often it replaced."""

    def __init__(self, path: str, old: str, new: str, replace_all: bool) -> None:
        self._path, self._old, self._new, self._replace_all, self._count = path, old, new, replace_all, 0

    def __call__(self, before: FileData | None) -> FileData:
        if before is None:
            raise RefusedWriteError(f"File '{self._path}' not found")
        if before["encoding"] == "base64":
            raise RefusedWriteError("Cannot edit binary files with text replacements.")
        check_replacement(self._path, before["content"], self._old, self._new, replace_all=self._replace_all)
        replaced = perform_string_replacement(before["content"], self._old, self._new, self._replace_all)
        if isinstance(replaced, str):
            raise RefusedWriteError(replaced.removeprefix("Error: "))
        content, self._count = replaced
        return FileData(content=content, encoding="utf-8")

    def result(self, error: str | None) -> EditResult:
        return EditResult(error=error) if error else EditResult(path=self._path, occurrences=self._count)


def _text(content: str) -> Change:
    return lambda _: FileData(content=content, encoding="utf-8")


def _upload(content: bytes) -> Change:
    try:
        file = FileData(content=content.decode(), encoding="utf-8")
    except UnicodeDecodeError:
        file = FileData(content=base64.standard_b64encode(content).decode("ascii"), encoding="base64")
    return lambda _: file


def _has_content(item: Item) -> bool:
    try:
        stored_file(item)
    except ValueError as error:
        return not isinstance(error, WrongContentError)
    return True


def _at_or_under(path: str, items: Sequence[Item]) -> list[Item]:
    """The file, or all files of the folder."""
    base = path.rstrip("/")
    found = [item for item in items if item.key == base or item.key.startswith(f"{base}/")]
    if not found:
        raise RefusedWriteError(f"File '{path}' not found")
    return found


def _dropped(namespace: scopes.Namespace, key: str) -> Steps[None]:
    """Delete a value that is no file, and has no history."""
    yield [PutOp(namespace, key, None)]


class ThreadFiles(StateBackend):
    """Files of this thread alone. Refuses other spellings of a path: `//policies/x` is no way around `/policies/x`.

    Args:
        routes: folders that are somebody else's. A client's input may carry files of any path; under these they are not seen,
            nor those whose path could not be written.
    """

    def __init__(self, routes: Sequence[str]) -> None:
        super().__init__()
        self._routes = tuple(routes)

    def _read_files(self) -> dict[str, Any]:
        files = super()._read_files()
        return {path: files[path] for path in files if not path.startswith(self._routes) and _spelling_error(path) is None}

    def write(self, file_path: str, content: str) -> WriteResult:
        error = _spelling_error(file_path)
        return WriteResult(error=error) if error else super().write(file_path, content)

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:  # the protocol's signature
        try:
            check_path(file_path)
            if file := self._read_files().get(file_path):
                check_replacement(file_path, file_data_to_string(file), old_string, new_string, replace_all=replace_all)
        except RefusedWriteError as error:
            return EditResult(error=f"Error: {error}")
        return super().edit(file_path, old_string, new_string, replace_all)

    def delete(self, file_path: str) -> DeleteResult:
        error = _spelling_error(file_path)
        return DeleteResult(error=error) if error else super().delete(file_path)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        errors = [FileUploadResponse(path=path, error="invalid_path") for path, _ in files if _spelling_error(path)]
        return errors or super().upload_files(files)


def _text_error(*texts: str | None) -> str | None:
    try:
        check_text(texts)
    except RefusedWriteError as error:
        return f"Error: {error}"
    return None


def _findable(paths: Sequence[str]) -> list[str]:
    """The paths that a store can look for."""
    return [path for path in paths if not _text_error(path)]


def _spelling_error(path: str) -> str | None:
    try:
        check_path(path)
    except RefusedWriteError as error:
        return f"Error: {error}"
    return None
