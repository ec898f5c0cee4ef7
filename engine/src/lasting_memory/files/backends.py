"""Files as deepagents backends: in the store, and in a thread's state. Each checks every write itself."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deepagents.backends import StateBackend, StoreBackend, protocol
from deepagents.backends.protocol import FileData
from deepagents.backends.utils import file_data_to_string, perform_string_replacement
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, GetOp, Item

from lasting_memory import journal, validation
from lasting_memory.deployment import Deployment
from lasting_memory.journal import Began, Change, Revision
from lasting_memory.people.identity import Author
from lasting_memory.people.namespaces import OFFLOADED, Namespace
from lasting_memory.validation import RefusedWrite

# Gives another store for the files of the current run, or None.
StoreOverride = Callable[[], BaseStore | None]
# UTF-8 bytes of all files in one thread's state.
MAX_SCRATCH_BYTES = 4_194_304


class ScopedFiles(StoreBackend):
    """Files of one namespace in the store, with deepagents' own results; writes pass `before_write` and the journal.

    A value that is no file gives an error result, because an exception would end the run; listings and searches leave it out.
    `files/routes.py` has those of a run: there `_check` asks who may write, and `_waits` has the writes of tools wait, which
    `arevise` and `aremove` never do.
    """

    def __init__(
        self,
        deployment: Deployment,
        namespace: Callable[[Runtime[Any]], Namespace],
        *,
        route: str = "",  # the folder as the agent sees it, without the last slash
        author: Author = journal.NOTHING.author,
        began: Began | None = None,
        store: BaseStore | None = None,
    ) -> None:
        super().__init__(namespace=namespace, store=store)
        self._deployment, self._route, self._author, self._began = deployment, route, author, began

    def _writer(self) -> tuple[Author, Began | None]:
        """Who writes, and since when."""
        return self._author, self._began

    async def _check(self, path: str) -> None:
        """Raise `RefusedWrite` for a path that may not be written."""
        validation.check_path(path)

    async def _waits(self, path: str, change: Change) -> str | None:
        """Have a change wait, if its person wants that: what the agent is told then. Raises `ValueError` as `arevise`."""
        return None

    def _refuse(self, *_: Any, **__: Any) -> Any:
        """`StoreBackend`'s own methods would write around the gate and the journal. Nothing uploads into the store."""
        raise NotImplementedError("Files in the store are asynchronous; await awrite, aedit or adelete.")

    write = edit = delete = upload_files = download_files = _refuse

    async def awrite(self, file_path: str, content: str) -> protocol.WriteResult:
        error = await self._adone(file_path, lambda _: FileData(content=content, encoding="utf-8"))
        return protocol.WriteResult(error=error) if error else protocol.WriteResult(path=file_path)

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> protocol.EditResult:
        count = 0

        def change(before: FileData | None) -> FileData:
            nonlocal count
            if before is None:
                raise RefusedWrite(f"File '{file_path}' not found")
            if before["encoding"] == "base64":
                raise RefusedWrite("Cannot edit binary files with text replacements.")
            _check_replacement(file_path, before["content"], old_string, new_string, replace_all=replace_all)
            result = perform_string_replacement(before["content"], old_string, new_string, replace_all)
            if isinstance(result, str):
                raise RefusedWrite(result.removeprefix("Error: "))
            text, count = result
            return FileData(content=text, encoding="utf-8")

        error = await self._adone(file_path, change)
        return protocol.EditResult(error=error) if error else protocol.EditResult(path=file_path, occurrences=count)

    async def achange(self, path: str, change: Callable[[str], str]) -> str | None:
        """Change a file's text, which is "" for a new file. Returns as `_adone`."""

        def changed(before: FileData | None) -> FileData:
            if before and before["encoding"] != "utf-8":
                raise RefusedWrite(f"'{path}' is not text; choose another file.")
            return FileData(content=change(before["content"] if before else ""), encoding="utf-8")

        return await self._adone(path, changed)

    async def _adone(self, path: str, change: Change) -> str | None:
        """Change a file. Returns the reason of a refusal, that it waits for its person, or None."""
        try:
            if waits := await self._waits(path, change):
                return waits
            await self.arevise(path, change)
        except ValueError as error:
            return f"Error: {error}"
        return None

    async def adelete(self, file_path: str) -> protocol.DeleteResult:
        """Delete the file at a path, or all files of the folder."""
        base = file_path.rstrip("/")
        try:
            await self._check(file_path)
            items = await journal.all_items(self._get_store(), self._get_namespace())
            wanted = [item for item in items if item.key == base or item.key.startswith(f"{base}/")]
            told = None if wanted else f"Error: File '{file_path}' not found"
            for item in wanted:
                told = await self._waits(item.key, lambda _: None)
                if not told:
                    await self.aremove(item)
        except ValueError as error:
            told = f"Error: {error}"
        return protocol.DeleteResult(error=told) if told else protocol.DeleteResult(path=file_path)

    async def adownload_files(self, paths: list[str]) -> list[protocol.FileDownloadResponse]:
        """All files in one batch. A bad value is an error of that file alone."""
        namespace = self._get_namespace()
        items = await self._get_store().abatch([GetOp(namespace, path) for path in paths])
        return [_downloaded(path, item) for path, item in zip(paths, items, strict=True)]

    async def arevise(self, path: str, change: Change, expect: str | None = None) -> Revision:
        """Change a file. Raises `MovedError` if it is not at the revision with the id `expect`, where one is given, and
        `ValueError` if `_check`, `before_write`, the quota or `change` refuses it. Nothing was written then.
        """
        await self._check(path)
        author, began = self._writer()
        return await journal.change(
            self._get_store(), self._get_namespace(), path, self._checked(path, change, author), author,
            bounded=True, expect=expect, began=began, limits=self._deployment.limits,
        )  # fmt: skip

    def _checked(self, path: str, change: Change, author: Author) -> Change:
        """The change, which raises as `before_write` for what it makes."""

        def checked(before: FileData | None) -> FileData | None:
            after = change(before)
            validation.before_write(self._deployment, f"{self._route}{path}", after and after["content"], author)
            return after

        return checked

    async def aremove(self, item: Item) -> None:
        """Delete one item of the namespace, also one that is no file. Raises as `arevise`."""
        try:
            validation.stored_file(item)
        except ValueError:  # no file, and without a history
            validation.before_write(self._deployment, f"{self._route}{item.key}", None, self._writer()[0])
            await self._get_store().adelete(item.namespace, item.key)
        else:
            await self.arevise(item.key, lambda _: None)

    def _convert_store_item_to_file_data(self, store_item: Item) -> FileData:
        return validation.stored_file(store_item)


def _downloaded(path: str, item: object) -> protocol.FileDownloadResponse:
    if not isinstance(item, Item):
        return protocol.FileDownloadResponse(path=path, error="file_not_found")
    try:
        return protocol.FileDownloadResponse(path=path, content=validation.file_bytes(validation.stored_file(item)))
    except ValueError as error:
        return protocol.FileDownloadResponse(path=path, error=str(error))


def _check_replacement(path: str, content: str, old: str, new: str, *, replace_all: bool) -> None:
    """Raise `RefusedWrite` for a replacement that could turn 256 KiB into gigabytes."""
    times = content.count(old) if old and replace_all else 1
    size = len(content) + times * (len(new) - len(old))
    if size > max(validation.MAX_FILE_BYTES, len(content)):
        raise RefusedWrite(
            f"{path} was not written: {size:,} characters, of {validation.MAX_FILE_BYTES:,} bytes at most; split it by topic."
        )


class ThreadFiles(StateBackend):
    """Files of this thread alone, each of bounded size. It refuses other spellings of a path, such as `//policies/x`.

    A client's input may carry files of any path: the agent does not see those under `routes`, the folders of other backends.
    """

    def __init__(self, routes: Sequence[str]) -> None:
        super().__init__()
        self._routes = tuple(routes)

    def _read_files(self) -> dict[str, Any]:
        files = super()._read_files()
        return {path: files[path] for path in files if not path.startswith(self._routes) and validation.is_plain(path)}

    def _send_files_update(self, update: dict[str, Any]) -> None:
        """Every write ends here. Raises `RefusedWrite` for a bad path, and for a file, or all, that grow too large."""
        before = {path: _size(file) for path, file in super()._read_files().items()}
        after = before | {path: _size(file) for path, file in update.items() if file is not None}
        totals = [sum(len(path) + size for path, size in sizes.items()) for sizes in (before, after)]
        if totals[1] > max(MAX_SCRATCH_BYTES, totals[0]):
            raise RefusedWrite(
                f"This conversation's files would have {totals[1]:,} bytes of {MAX_SCRATCH_BYTES:,}; delete some."
            )
        for path in update:
            validation.check_path(path)
            most = validation.MAX_INPUT_BYTES if path.startswith(OFFLOADED) else validation.MAX_FILE_BYTES
            if (size := after.get(path, 0)) > max(most, before.get(path, 0)):
                raise RefusedWrite(f"{path} was not written: {size:,} bytes, and a file may have {most:,}; split it.")
        super()._send_files_update(update)

    def write(self, file_path: str, content: str) -> protocol.WriteResult:
        try:
            return super().write(file_path, content)
        except RefusedWrite as error:
            return protocol.WriteResult(error=f"Error: {error}")

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> protocol.EditResult:
        try:
            if file := self._read_files().get(file_path):
                _check_replacement(file_path, file_data_to_string(file), old_string, new_string, replace_all=replace_all)
            return super().edit(file_path, old_string, new_string, replace_all)
        except RefusedWrite as error:
            return protocol.EditResult(error=f"Error: {error}")


def _size(file: object) -> int:
    """UTF-8 bytes of a file in thread state, which may be any value of a client's."""
    content = file.get("content", "") if isinstance(file, Mapping) else file
    return len((content if isinstance(content, str) else repr(content)).encode(errors="replace"))
