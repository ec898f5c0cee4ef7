"""Files of one namespace in the store, each of whose writes passes `before_write` and the journal.

A path within a namespace begins with a slash, such as `/topics/food.md`. A *change* makes a file's
new content of the old one (`journal.Change`). A change *waits* where its person decides about it
first, and a *vouch* says who vouches for what it adds (`memory/sources.py`).
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import NoReturn

from deepagents.backends import StoreBackend, protocol
from deepagents.backends.protocol import FileData
from deepagents.backends.utils import perform_string_replacement
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, GetOp, Item

from lasting_memory.deployment import Deployment, Source
from lasting_memory.memory import journal, stored_files, validation
from lasting_memory.memory.folder import Folder, source_of_write, vouch_of
from lasting_memory.memory.journal import Change, Revision, Writer
from lasting_memory.memory.line_times import LineTimes
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.memory.vouches import Vouch
from lasting_memory.people.identity import Author, Context
from lasting_memory.people.namespaces import Namespace
from lasting_memory.plain_text import plain, spelled_as_in

# Of a write that its person sees first.
WAITS = "waits among their proposed changes"
# Who writes what a model, or another program, makes of a text.
_KINDS_OF_PROGRAMS = frozenset({"agent", "subagent", "client"})


class ScopedFiles(StoreBackend):
    """Files of one namespace in the store, with deepagents' own results; writes pass `before_write`
    and the journal.

    A value that is no file gives an error result, because an exception would end the run; listings
    and searches leave it out. Here whoever calls may write, and nothing waits. The files of a run
    are `RouteFiles`, which ask who may write, and what waits for its person.
    """

    def __init__(
        self,
        deployment: Deployment,
        namespace: Callable[[Runtime[Context]], Namespace],
        *,
        route: str = "",  # the folder as the agent sees it, without the last slash
        author: Author = journal.NOTHING.author,
        writer: Writer | None = None,
        store: BaseStore | None = None,
    ) -> None:
        super().__init__(namespace=namespace, store=store)
        self._deployment = deployment
        self._route = route
        self._author = author
        self._writer = writer

    def _author_and_writer(self) -> tuple[Author, Writer | None]:
        """Whose change it is, and the run or request that writes it."""
        return self._author, self._writer

    def _agent_path(self, path: str) -> str:
        """A path of this namespace as the agent sees it."""
        return f"{self._route}{path}"

    async def _check(self, path: str) -> bool:
        """Whether a change of this path waits for its person. Raises `RefusedWrite` for one that
        may not be written.
        """
        validation.check_path(path, self._agent_path(path))
        return False

    async def _propose(self, path: str, change: Change, vouch: Vouch | None) -> str:
        """Have a change wait for its person. Returns what the agent is told. Raises `ValueError` as
        `arevise`.
        """
        raise NotImplementedError

    async def _vouch(self) -> Vouch | None:
        """Who vouches for what is written now; None: as `vouch_of` for the author."""
        return None

    def _waits_unconfirmed(self) -> bool:
        """Whether a write that nobody vouches for can wait for its person here."""
        return False

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        """`StoreBackend`'s own methods would write around the gate and the journal. Nothing uploads
        into the store.
        """
        raise NotImplementedError(
            "Files in the store are asynchronous; await awrite, aedit or adelete."
        )

    write = edit = delete = upload_files = download_files = _refuse

    async def aread(
        self, file_path: str, offset: int = 0, limit: int = 2000
    ) -> protocol.ReadResult:
        """Lines of a file, as deepagents reads them. The error for no file has the path that the
        agent sees.
        """
        result = await super().aread(file_path, offset, limit)
        if result.error == _no_file_error(file_path):
            agent_path = self._agent_path(file_path)
            return protocol.ReadResult(error=_no_file_error(agent_path))
        return result

    async def awrite(self, file_path: str, content: str) -> protocol.WriteResult:
        """Replace a file. The result has an error if it was refused, or waits."""
        file = FileData(content=content, encoding="utf-8")
        error = await self._try_change(file_path, lambda _: file)
        return write_result(file_path, error)

    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> protocol.EditResult:
        """Replace a part of a file's text. The result has the number of replacements, or an error
        if the edit was refused, or waits.
        """
        agent_path = self._agent_path(file_path)
        count = 0

        def change(before: FileData | None) -> FileData:
            nonlocal count
            if before is None:
                raise RefusedWrite(_no_file_error(agent_path))
            if before["encoding"] == "base64":
                raise RefusedWrite("Cannot edit binary files with text replacements.")
            content = before["content"]
            old_text = spelled_as_in(content, plain(old_string))
            new_text = plain(new_string)
            check_replacement(agent_path, content, old_text, new_text, replace_all=replace_all)
            result = perform_string_replacement(content, old_text, new_text, replace_all)
            if isinstance(result, str):
                raise RefusedWrite(result.removeprefix("Error: "))
            text, count = result
            return FileData(content=text, encoding="utf-8")

        error = await self._try_change(file_path, change)
        if error:
            return protocol.EditResult(error=error)
        return protocol.EditResult(path=file_path, occurrences=count)

    async def achange(self, path: str, change: Callable[[str], str]) -> str | None:
        """Change a file's text, which is "" for a new file. Returns None if it was changed, and
        otherwise what the agent is told.
        """

        def change_of_file(before: FileData | None) -> FileData:
            content = ""
            if before:
                content = before["content"]
                if before["encoding"] != "utf-8":
                    agent_path = self._agent_path(path)
                    raise RefusedWrite(f"'{agent_path}' is not text; choose another file.")
            text = change(content)
            return FileData(content=text, encoding="utf-8")

        return await self._try_change(path, change_of_file)

    async def _try_change(self, path: str, change: Change) -> str | None:
        """Change a file, and return None; or return what the agent is told: why it is refused, or
        that it waits for its person.
        """
        try:
            waits = await self._check(path)
            vouch = await self._vouch()
            if waits:
                checked_change = self._unless_refused(path, change, vouch)
                return await self._propose(path, checked_change, vouch)
            checked_change = self._if_vouched(path, change, vouch)
            try:
                await self._put(path, checked_change, vouch=vouch)
            except _UnconfirmedError:
                return await self._propose(path, change, vouch)
        except stored_files.NoFileError:
            no_file_error = stored_files.NoFileError(self._agent_path(path))
            return f"Error: {no_file_error}"
        except ValueError as error:
            return f"Error: {error}"
        return None

    def _if_vouched(self, path: str, change: Change, vouch: Vouch | None) -> Change:
        """The change, with a check of what it adds. In skills, and where the deployment has the
        person decide, nothing may be added for which nobody vouches.

        The check raises `_UnconfirmedError` if the change may wait for the person, and
        `RefusedWrite` otherwise.
        """
        is_skill = self._agent_path(path).startswith("/memories/skills/")
        may_stand = not is_skill and self._deployment.unconfirmed != "propose"
        permitted_change = self._unless_refused(path, change, vouch)
        if vouch is None or may_stand:
            return permitted_change

        def vouched_change(before: FileData | None) -> FileData | None:
            after = permitted_change(before)
            source = source_of_write(path, before, after, vouch)
            if source is not Source.UNCONFIRMED:
                return after
            if self._waits_unconfirmed():
                raise _UnconfirmedError
            raise RefusedWrite(
                f"{self._agent_path(path)} was not written: a text from elsewhere says it, and nobody "
                "could accept it here."
            )

        return vouched_change

    def _unless_refused(self, path: str, change: Change, vouch: Vouch | None) -> Change:
        """The change, with a check of what a model or program adds: it raises `RefusedWrite` for
        what nobody vouches for, where the deployment refuses that.
        """
        if self._deployment.unconfirmed != "refuse":
            return change
        author, _ = self._author_and_writer()
        if author.kind not in _KINDS_OF_PROGRAMS:
            return change
        vouch_or_author = vouch or vouch_of(author)

        def checked_change(before: FileData | None) -> FileData | None:
            after = change(before)
            source = source_of_write(path, before, after, vouch_or_author)
            if source is Source.UNCONFIRMED:
                raise RefusedWrite(
                    f"{self._agent_path(path)} was not written: a text from elsewhere says it, and the "
                    "person did not. Ask them.",
                    kind="unconfirmed",
                )
            return after

        return checked_change

    async def adelete(self, file_path: str) -> protocol.DeleteResult:
        """Delete the file at a path, or all files of the folder. The result has an error if one was
        refused, or waits.
        """
        try:
            error = await self._delete_all(file_path)
        except ValueError as refusal:
            error = f"Error: {refusal}"
        if error:
            return protocol.DeleteResult(error=error)
        return protocol.DeleteResult(path=file_path)

    async def _delete_all(self, path: str) -> str | None:
        """Delete the file at a path, or all files of the folder, and return None; or return what
        the agent is told. Raises `ValueError` for a file that may not be deleted.
        """
        await self._check(path)
        base = path.rstrip("/")
        folder = f"{base}/"
        items = await journal.all_items(self._get_store(), self._get_namespace())
        answer: str | None = None
        has_files = False
        for item in items:
            is_at_path = item.key == base or item.key.startswith(folder)
            if not is_at_path:
                continue
            has_files = True
            if await self._check(item.key):
                answer = await self._propose(item.key, lambda _: None, None)
            else:
                await self._remove(item)
        if not has_files:
            reason = _no_file_error(self._agent_path(path))
            return f"Error: {reason}"
        return answer

    async def adownload_files(self, paths: list[str]) -> list[protocol.FileDownloadResponse]:
        """The bytes of these files, which are read in one batch. A bad value is an error of that
        file alone.
        """
        namespace = self._get_namespace()
        gets = [GetOp(namespace, path) for path in paths]
        items = await self._get_store().abatch(gets)
        responses = list[protocol.FileDownloadResponse]()
        for path, item in zip(paths, items, strict=True):
            response = protocol.FileDownloadResponse(path=path)
            if isinstance(item, Item):
                try:
                    file = self._file(item)
                    response.content = stored_files.file_bytes(file)
                except ValueError as error:
                    response.error = str(error)
            else:
                response.error = "file_not_found"
            responses.append(response)
        return responses

    async def arevise(
        self,
        path: str,
        change: Change,
        expect: str | None = None,
        *,
        times: LineTimes = MappingProxyType({}),
        vouch: Vouch | None = None,
    ) -> Revision:
        """Change a file. `times` and `vouch` are as `Folder.change` has them.

        Raises `MovedError` if it is not at the revision with the id `expect`, where one is given,
        and `ValueError` if `_check`, `before_write`, the quota or `change` refuses it. Nothing was
        written then.
        """
        await self._check(path)
        return await self._put(path, change, expect, times=times, vouch=vouch)

    async def _put(
        self,
        path: str,
        change: Change,
        expect: str | None = None,
        *,
        times: LineTimes = MappingProxyType({}),
        vouch: Vouch | None = None,
    ) -> Revision:
        """Change a file that may be written."""
        folder = self._folder()
        return await folder.change(path, change, expect=expect, times=times, vouch=vouch)

    def _folder(self) -> Folder:
        """The folder of these files, for a write."""
        author, writer = self._author_and_writer()
        store = self._get_store()
        namespace = self._get_namespace()
        return Folder(self._deployment, store, namespace, self._route, author, writer)

    async def aremove(self, item: Item) -> None:
        """Delete one item of the namespace, even one that is no file. Raises as `arevise`."""
        await self._check(item.key)
        await self._remove(item)

    async def _remove(self, item: Item) -> None:
        """Delete an item that may be deleted."""
        try:
            stored_files.stored_file(item)
        except ValueError:  # no file, and without a history
            await self._folder().remove_other(item)
        else:
            await self._put(item.key, lambda _: None)

    def _file(self, item: Item) -> FileData:
        """A stored file. Raises `NoFileError`, with the path that the agent sees, for another
        value.
        """
        try:
            return stored_files.stored_file(item)
        except stored_files.NoFileError:
            raise stored_files.NoFileError(self._agent_path(item.key)) from None

    def _convert_store_item_to_file_data(self, store_item: Item) -> FileData:
        """As `_file`, which deepagents calls by this name."""
        return self._file(store_item)


class _UnconfirmedError(ValueError):
    """A write that nobody vouches for waits for its person."""


def _no_file_error(path: str) -> str:
    """The error for a path without a file, as deepagents words it."""
    return f"File '{path}' not found"


def write_result(path: str, error: str | None) -> protocol.WriteResult:
    """The result of a write; with an error it has that alone."""
    if error:
        return protocol.WriteResult(error=error)
    return protocol.WriteResult(path=path)


def check_replacement(
    path: str, content: str, old_text: str, new_text: str, *, replace_all: bool
) -> None:
    """Raises `RefusedWrite` for a replacement that could turn 256 KiB into gigabytes."""
    count = 1
    if old_text and replace_all:
        count = content.count(old_text)
    growth = count * (len(new_text) - len(old_text))
    size = len(content) + growth
    max_size = max(validation.MAX_FILE_BYTES, len(content))
    if size > max_size:
        raise RefusedWrite(
            f"{path} was not written: {size:,} characters, of {validation.MAX_FILE_BYTES:,} bytes at most; split it by topic."
        )
