"""The agent's filesystem: the owner of each path, who may write there, and with which files a new
memory starts.

Files are deepagents backends: in the store, and in a thread's state. Each checks every write
itself. deepagents' `permissions` repeat the rules: they refuse earlier, with a clearer message.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from deepagents import FilesystemPermission
from deepagents.backends import CompositeBackend, StateBackend, StoreBackend, protocol
from deepagents.backends.protocol import BackendProtocol, FileData
from deepagents.backends.utils import (
    create_file_data,
    file_data_to_string,
    perform_string_replacement,
)
from langchain.agents.middleware import InterruptOnConfig
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, GetOp, Item, SearchOp
from langgraph.store.memory import InMemoryStore

from lasting_memory import platform
from lasting_memory.agent.unconfirmed import UNCONFIRMED_MARK, unconfirmed_lines
from lasting_memory.conversations.marks import in_temporary_conversation
from lasting_memory.deployment import PROFILE_PATH, Deployment, Source
from lasting_memory.memory import ends, journal, restored_lines, stored_files, validation
from lasting_memory.memory.controls import PAUSED, Controls, controls
from lasting_memory.memory.ends import Written
from lasting_memory.memory.facts import bare_line
from lasting_memory.memory.folder import Folder, source_of_write, sources_of_files, vouch_of
from lasting_memory.memory.journal import Began, Change, Revision
from lasting_memory.memory.proposals import Memory
from lasting_memory.memory.seeded import FIRST_FILES_SECONDS, own_first_files
from lasting_memory.memory.seeded import starting_memory as starting_memory  # noqa: PLC0414  # beside `starting_files`
from lasting_memory.memory.sources import Vouch, signs_in
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Actor, Author
from lasting_memory.people.namespaces import Namespace
from lasting_memory.people.scopes import OFFLOADED, NotAMemberError
from lasting_memory.plain_text import plain, spelled_as_in
from lasting_memory.vouching import messages_shown_now

logger = logging.getLogger(__name__)

# Gives another store for the files of the current run, or None.
StoreOverride = Callable[[], BaseStore | None]
# UTF-8 bytes of all files in one thread's state.
MAX_SCRATCH_BYTES = 4_194_304
# Of a write that its person sees first.
WAITS = "waits among their proposed changes"
# What a temporary conversation sees as `/memories/`. The gate keeps it empty.
_EMPTY = InMemoryStore()
# Where nothing ever is: no route's namespace begins so.
_NOBODYS = ("nobody",)


class Over(NamedTuple):
    """A file's text, and the numbers of its lines that are over."""

    text: str = ""
    numbers: frozenset[int] = frozenset()

    def note(self) -> str:
        """What a model that reads or writes the file is told of them; "" if there are none."""
        return ends.note_of_over(self.text, self.numbers)

    def kept_in(self, before: FileData | None, content: str) -> str:
        """A new text of the file with these lines where they stood, if it drops them. Blocks."""
        if before is None or not self.numbers:
            return content
        # The file may have changed since its text was read.
        lines = self.text.split("\n")
        over = {lines[number] for number in self.numbers}
        present = before["content"].split("\n")
        numbers = {number for number, line in enumerate(present) if line in over}
        gone = restored_lines.dropped_lines(before["content"], content, numbers)
        return restored_lines.with_lines_restored(before["content"], content, gone)


class FileNotes(NamedTuple):
    """What is to be said of a file: which of its lines are over, and what lines of it say, or fields
    of a JSON object, that nobody vouches for.
    """

    over: Over
    unconfirmed: list[str]


class ScopedFiles(StoreBackend):
    """Files of one namespace in the store, with deepagents' own results; writes pass `before_write`
    and the journal.

    A value that is no file gives an error result, because an exception would end the run; listings
    and searches leave it out. Those of a run are `RouteFiles`, where `_check` asks who may write
    and whether that waits for its person.
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
        self._deployment = deployment
        self._route = route
        self._author = author
        self._began = began

    def _writer(self) -> tuple[Author, Began | None]:
        """Who writes, and since when."""
        return self._author, self._began

    def _shown(self, path: str) -> str:
        """A path of this namespace as the agent sees it."""
        return f"{self._route}{path}"

    async def _check(self, path: str) -> bool:
        """Whether a change of this path waits for its person. Raises `RefusedWrite` for one that
        may not be written.
        """
        validation.check_path(path, self._shown(path))
        return False

    async def _propose(self, path: str, change: Change, vouch: Vouch | None) -> str:
        """Have a change wait. Returns what the agent is told. Raises `ValueError` as `arevise`."""
        raise NotImplementedError

    async def _vouch(self) -> Vouch | None:
        """Who vouches for what is written now; None: as `vouch_of` for the author."""
        return None

    def _waits_unconfirmed(self) -> bool:
        """Whether a write that nobody vouches for can wait for its person here."""
        return False

    def _refuse(self, *_: Any, **__: Any) -> Any:
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
        result = await super().aread(file_path, offset, limit)
        if result.error == _not_found(file_path):
            return protocol.ReadResult(error=_not_found(self._shown(file_path)))
        return result

    async def awrite(self, file_path: str, content: str) -> protocol.WriteResult:
        error = await self._adone(file_path, lambda _: FileData(content=content, encoding="utf-8"))
        return protocol.WriteResult(error=error) if error else protocol.WriteResult(path=file_path)

    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> protocol.EditResult:
        count = 0

        def change(before: FileData | None) -> FileData:
            nonlocal count
            if before is None:
                raise RefusedWrite(_not_found(self._shown(file_path)))
            if before["encoding"] == "base64":
                raise RefusedWrite("Cannot edit binary files with text replacements.")
            old = spelled_as_in(before["content"], plain(old_string))
            new = plain(new_string)
            _check_replacement(
                self._shown(file_path), before["content"], old, new, replace_all=replace_all
            )
            result = perform_string_replacement(before["content"], old, new, replace_all)
            if isinstance(result, str):
                raise RefusedWrite(result.removeprefix("Error: "))
            text, count = result
            return FileData(content=text, encoding="utf-8")

        error = await self._adone(file_path, change)
        return (
            protocol.EditResult(error=error)
            if error
            else protocol.EditResult(path=file_path, occurrences=count)
        )

    async def achange(self, path: str, change: Callable[[str], str]) -> str | None:
        """Change a file's text, which is "" for a new file. Returns as `_adone`."""

        def changed(before: FileData | None) -> FileData:
            if before and before["encoding"] != "utf-8":
                raise RefusedWrite(f"'{self._shown(path)}' is not text; choose another file.")
            return FileData(content=change(before["content"] if before else ""), encoding="utf-8")

        return await self._adone(path, changed)

    async def _adone(self, path: str, change: Change) -> str | None:
        """Change a file. Returns the reason of a refusal, that it waits for its person, or None."""
        try:
            waits = await self._check(path)
            vouch = await self._vouch()
            if waits:
                return await self._propose(path, self._unless_refused(path, change, vouch), vouch)
            try:
                await self._put(path, self._if_vouched(path, change, vouch), vouch=vouch)
            except _UnconfirmedError:
                return await self._propose(path, change, vouch)
        except stored_files.NoFileError:
            return f"Error: {stored_files.NoFileError(self._shown(path))}"
        except ValueError as error:
            return f"Error: {error}"
        return None

    def _if_vouched(self, path: str, change: Change, vouch: Vouch | None) -> Change:
        """The change, which raises where nobody vouches for what it adds, and that may not stand in
        memory: `RefusedWrite`, or `_UnconfirmedError` if it may wait for the person.
        """
        is_skill = self._shown(path).startswith("/memories/skills/")
        checked = self._unless_refused(path, change, vouch)
        if vouch is None or not (is_skill or self._deployment.unconfirmed == "propose"):
            return checked

        def made(before: FileData | None) -> FileData | None:
            after = checked(before)
            if source_of_write(path, before, after, vouch) is not Source.UNCONFIRMED:
                return after
            if self._waits_unconfirmed():
                raise _UnconfirmedError
            raise RefusedWrite(
                f"{self._shown(path)} was not written: a text from elsewhere says it, and nobody "
                "could accept it here."
            )

        return made

    def _unless_refused(self, path: str, change: Change, vouch: Vouch | None) -> Change:
        """The change, which raises `RefusedWrite` for what nobody vouches for, if that is refused."""
        who_vouches = vouch or vouch_of(self._writer()[0])
        if self._deployment.unconfirmed != "refuse" or self._writer()[0].kind not in _OF_OTHERS:
            return change

        def made(before: FileData | None) -> FileData | None:
            after = change(before)
            if source_of_write(path, before, after, who_vouches) is Source.UNCONFIRMED:
                raise RefusedWrite(
                    f"{self._shown(path)} was not written: a text from elsewhere says it, and the "
                    "person did not. Ask them.",
                    kind="unconfirmed",
                )
            return after

        return made

    async def adelete(self, file_path: str) -> protocol.DeleteResult:
        """Delete the file at a path, or all files of the folder."""
        base = file_path.rstrip("/")
        try:
            await self._check(file_path)
            items = await journal.all_items(self._get_store(), self._get_namespace())
            wanted = [item for item in items if item.key == base or item.key.startswith(f"{base}/")]
            told = None if wanted else f"Error: {_not_found(self._shown(file_path))}"
            for item in wanted:
                if await self._check(item.key):
                    told = await self._propose(item.key, lambda _: None, None)
                else:
                    await self._remove(item)
        except ValueError as error:
            told = f"Error: {error}"
        return protocol.DeleteResult(error=told) if told else protocol.DeleteResult(path=file_path)

    async def adownload_files(self, paths: list[str]) -> list[protocol.FileDownloadResponse]:
        """All files in one batch. A bad value is an error of that file alone."""
        namespace = self._get_namespace()
        responses = list[protocol.FileDownloadResponse]()
        items = await self._get_store().abatch([GetOp(namespace, path) for path in paths])
        for path, item in zip(paths, items, strict=True):
            response = protocol.FileDownloadResponse(
                path=path, error=None if item else "file_not_found"
            )
            try:
                response.content = (
                    stored_files.file_bytes(self._file(item)) if isinstance(item, Item) else None
                )
            except ValueError as error:
                response.error = str(error)
            responses.append(response)
        return responses

    async def arevise(
        self,
        path: str,
        change: Change,
        expect: str | None = None,
        *,
        written: Written = MappingProxyType({}),
        vouch: Vouch | None = None,
    ) -> Revision:
        """Change a file. `written` and `vouch` are as `Folder.change` has them.

        Raises `MovedError` if it is not at the revision with the id `expect`, where one is given,
        and `ValueError` if `_check`, `before_write`, the quota or `change` refuses it. Nothing was
        written then.
        """
        await self._check(path)
        return await self._put(path, change, expect, written=written, vouch=vouch)

    async def _put(
        self,
        path: str,
        change: Change,
        expect: str | None = None,
        *,
        written: Written = MappingProxyType({}),
        vouch: Vouch | None = None,
    ) -> Revision:
        """Change a file that may be written."""
        folder = self._folder()
        return await folder.change(path, change, expect=expect, written=written, vouch=vouch)

    def _folder(self) -> Folder:
        author, began = self._writer()
        return Folder(
            self._deployment, self._get_store(), self._get_namespace(), self._route, author, began
        )

    async def aremove(self, item: Item) -> None:
        """Delete one item of the namespace, also one that is no file. Raises as `arevise`."""
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
            raise stored_files.NoFileError(self._shown(item.key)) from None

    def _convert_store_item_to_file_data(self, store_item: Item) -> FileData:
        return self._file(store_item)


def _over(deployment: Deployment, item: Item, profile: Item | None) -> Over:
    """Which lines of a stored file are over. Blocks."""
    day = ends.present_day(deployment, stored_files.text_of(profile) if profile else None)
    numbers = ends.numbers_over(ends.ends_of_file(item, day))
    return Over(stored_files.text_of(item) or "", numbers)


class _UnconfirmedError(ValueError):
    """A write that nobody vouches for waits for its person."""


# Who writes what a model, or another program, makes of a text.
_OF_OTHERS = frozenset({"agent", "subagent", "client"})


def _not_found(path: str) -> str:
    return f"File '{path}' not found"


def _check_replacement(path: str, content: str, old: str, new: str, *, replace_all: bool) -> None:
    """Raise `RefusedWrite` for a replacement that could turn 256 KiB into gigabytes."""
    times = content.count(old) if old and replace_all else 1
    size = len(content) + times * (len(new) - len(old))
    if size > max(validation.MAX_FILE_BYTES, len(content)):
        raise RefusedWrite(
            f"{path} was not written: {size:,} characters, of {validation.MAX_FILE_BYTES:,} bytes at most; split it by topic."
        )


class RouteFiles(ScopedFiles):
    """The files of a route in a run: whose they are, whether it may write them, and whether that
    waits for its person.

    With `drafts` it is a run of consolidation, whose memory files are in the store that this gives.
    """

    def __init__(self, deployment: Deployment, path: str, drafts: StoreOverride | None) -> None:
        super().__init__(deployment, self._place, route=path.rstrip("/"))
        self._scope = deployment.scope(path)
        self._is_memory = path == "/memories/"
        self._drafts = drafts

    @property
    def deployment(self) -> Deployment:
        """Whose route it is."""
        return self._deployment

    @property
    def _caller(self) -> Caller:
        return Caller.of_run(self._deployment)

    def _place(self, run: Runtime[Any]) -> Namespace:
        return self._place_of(Caller.of_run(self._deployment, run))

    def _place_of(self, caller: Caller) -> Namespace:
        """Where the files of a caller are. Raises `NotAMemberError` for who has no such folder."""
        claims = caller.claims if self._scope.claim else {}
        return self._scope.namespace(caller.actor, caller.assistant, claims)

    def _get_namespace(self) -> Namespace:
        """Where this run reads: who has no such folder sees an empty one. `_check` comes before
        every write.
        """
        try:
            return super()._get_namespace()
        except NotAMemberError:
            return _NOBODYS

    def _get_store(self) -> BaseStore:
        if self._is_memory and in_temporary_conversation():
            return _EMPTY
        return (
            self._drafts() if self._is_memory and self._drafts else None
        ) or super()._get_store()

    def _writer(self) -> tuple[Author, Began | None]:
        caller = self._caller
        return caller.author(
            _author_kind(consolidating=self._drafts is not None)
        ), journal.began_of_caller(caller)

    async def _check(self, path: str) -> bool:
        if self._get_namespace() == _NOBODYS:
            raise self._not_available()
        await super()._check(path)
        caller = self._caller
        remembers = self._scope.remembers and not in_temporary_conversation()
        wanted = (
            await controls(self._get_store(), caller.actor, self._deployment)
            if remembers
            else Controls()
        )
        if reason := self._refusal(caller, wanted):
            raise RefusedWrite(f"Permission denied for '{self._shown(path)}': {reason}")
        return wanted.review_agent and self._is_memory and self._drafts is None

    def _not_available(self) -> RefusedWrite:
        return RefusedWrite(f"{self._route}/ is not available: {self._lacks_group()}")

    def _lacks_group(self) -> str:
        """Why this run's person has no such folder."""
        claim = self._scope.claim
        if claim in self._caller.membership.claims:
            return f"the token that proved this person's claim {claim!r} has expired. A new message from them has a new token."
        return f"this person's token has no claim {claim!r}."

    def _refusal(self, caller: Caller, wanted: Controls) -> str | None:
        """Why this run may not write here, where its person wants this; None if it may."""
        if self._scope.remembers and in_temporary_conversation():
            return "this is a temporary conversation, of which nothing is remembered."
        if wanted.paused:
            return f"{PAUSED}: nothing is remembered until they resume it. Tell them so."
        writes = self._scope.rule(self._deployment.settings, consolidating=self._drafts is not None)
        if writes == "allow":
            return None
        if writes == "deny":
            return "it is read-only here."
        # A write that waits for approval continues in the run with which the operator resumed it. A
        # client's forged tool call, jump to the tools node or resume value stays the client's run.
        return None if caller.is_operator else "an operator has to approve writing here."

    def _folder(self) -> Folder:
        # Who acts is looked up once: this is made at every write.
        caller = self._caller
        author = caller.author(_author_kind(consolidating=self._drafts is not None))
        try:
            place = self._place_of(caller)
        except NotAMemberError:  # the token has expired since `_check`
            raise self._not_available() from None
        store = self._get_store()
        began = journal.began_of_caller(caller)
        return Folder(self._deployment, store, place, self._route, author, began)

    async def anotes(self, path: str) -> FileNotes:
        """What a model that reads a file is told beside its text."""
        if not validation.is_plain(path):
            return FileNotes(Over(), [])
        item, profile = await self._file_and_profile(path)
        over = await self._over_in(path, item, profile)
        text = stored_files.text_of(item) if item else None
        if item is None or text is None:
            return FileNotes(over, [])
        signs = signs_in(item.value)
        if not signs:  # nobody has to vouch for its lines
            return FileNotes(over, [])
        doubtful = await platform.in_thread(unconfirmed_lines, path, text, signs)
        return FileNotes(over, doubtful)

    async def aover(self, path: str) -> Over:
        """Which lines of a file are over; none of what is no text, and where nothing is remembered."""
        if not (self._has_ends(path) and validation.is_plain(path)):
            return Over()
        item, profile = await self._file_and_profile(path)
        return await self._over_in(path, item, profile)

    def _has_ends(self, path: str) -> bool:
        return self._deployment.ends and self._scope.remembers and ends.has_ends(path)

    async def _file_and_profile(self, path: str) -> tuple[Item | None, Item | None]:
        namespace = self._get_namespace()
        gets = [GetOp(namespace, path), GetOp(namespace, PROFILE_PATH.removeprefix("/memories"))]
        item, profile = await self._get_store().abatch(gets)
        return (
            item if isinstance(item, Item) else None,
            profile if isinstance(profile, Item) else None,
        )

    async def _over_in(self, path: str, item: Item | None, profile: Item | None) -> Over:
        """Which lines of a stored file are over."""
        if item is None or not self._has_ends(path):
            return Over()
        text = stored_files.text_of(item) or ""
        if not ends.may_have_ends(text):
            return Over(text)
        # A group's file of that name is nobody's profile.
        own = profile if self._is_memory else None
        return await platform.in_thread(_over, self._deployment, item, own)

    async def agrep(
        self,
        pattern: str,
        path: str | None = None,
        glob: str | None = None,
        *,
        max_count: int | None = None,
    ) -> protocol.GrepResult:
        """Matches as deepagents finds them. One in a line that is over, or that nobody vouches for,
        says so behind the line.
        """
        result = await super().agrep(pattern, path, glob, max_count=max_count)
        notes_by_path = dict[str, FileNotes]()
        for match in result.matches or []:
            file_path = match["path"]
            if file_path not in notes_by_path:
                notes_by_path[file_path] = await self.anotes(file_path)
            notes = notes_by_path[file_path]
            is_doubtful = bare_line(match["text"].strip()) in notes.unconfirmed
            if match["line"] - 1 in notes.over.numbers:
                match["text"] += f"  {ends.OVER_MARK}"
            if is_doubtful:
                match["text"] += f"  {UNCONFIRMED_MARK}"
        return result

    async def awrite(self, file_path: str, content: str) -> protocol.WriteResult:
        """Replaces a file, but for its lines that are over: the model was not shown them."""
        over = await self.aover(file_path)

        def change(before: FileData | None) -> FileData:
            return FileData(content=over.kept_in(before, plain(content)), encoding="utf-8")

        error = await self._adone(file_path, change)
        return protocol.WriteResult(error=error) if error else protocol.WriteResult(path=file_path)

    def _waits_unconfirmed(self) -> bool:
        # Where nobody decides about proposals, what waits would wait for ever.
        is_own = self._is_memory and self._deployment.has_own_memory
        return is_own and self._deployment.consolidation is not None

    async def _vouch(self) -> Vouch | None:
        """By what the run has shown: whether the person said it. A draft of consolidation is judged
        as a whole; other files than a person's own memory are nobody's word.
        """
        shown = messages_shown_now()
        is_own = self._is_memory and self._deployment.has_own_memory
        if not is_own or self._drafts is not None or shown is None:
            return None
        caller = self._caller
        if caller.speaks_for_another:
            shown = shown.of_others()
        items = await journal.all_items(self._get_store(), self._place_of(caller))

        def read() -> Vouch:
            return shown.evidence().vouch(sources_of_files(items))

        return await platform.in_thread(read)

    async def _propose(self, path: str, change: Change, vouch: Vouch | None) -> str:
        folder = self._folder()
        memory = Memory(
            folder.store, self._caller.actor, folder.namespace, self._deployment, folder.began
        )
        gated = folder.gated(path, change, vouch)
        await memory.propose_write(path, gated, folder.author, vouch)
        return f"/memories{path} was not changed: yours {WAITS} until they accept it. Tell them so, and do not write it again."


def _author_kind(*, consolidating: bool) -> str:
    """What of a run writes: the agent, a subagent of it, or consolidation."""
    if consolidating:
        return "consolidation"
    is_subagent = (get_config().get("configurable") or {}).get("ls_agent_type") == "subagent"
    return "subagent" if is_subagent else "agent"


class ThreadFiles(StateBackend):
    """Files of this thread alone, each of bounded size. It refuses other spellings of a path, such
    as `//policies/x`.

    A client's input and state may carry files of any path, and anything in a file's place: the
    agent sees neither those under `routes`, the folders of other backends, nor what is no file.
    """

    def __init__(self, routes: Sequence[str]) -> None:
        super().__init__()
        self._routes = tuple(routes)

    def _read_files(self) -> dict[str, Any]:
        files = super()._read_files()
        if not isinstance(files, Mapping):
            return {}
        return {
            path: _as_text(file)
            for path, file in files.items()
            if self._is_seen(path) and _is_file(file)
        }

    def _is_seen(self, path: str) -> bool:
        return not path.startswith(self._routes) and validation.is_plain(path)

    def _send_files_update(self, update: dict[str, Any]) -> None:
        """Every write ends here. Raises `RefusedWrite` for a bad path, and for a file, or all, that
        grow too large.
        """
        before = {path: _size(file) for path, file in super()._read_files().items()}
        after = before | {path: _size(file) for path, file in update.items() if file is not None}
        totals = [
            sum(len(path) + size for path, size in sizes.items()) for sizes in (before, after)
        ]
        if totals[1] > max(MAX_SCRATCH_BYTES, totals[0]):
            raise RefusedWrite(
                f"This conversation's files would have {totals[1]:,} bytes of {MAX_SCRATCH_BYTES:,}; delete some."
            )
        for path in update:
            validation.check_path(path)
            most = (
                validation.MAX_INPUT_BYTES
                if path.startswith(OFFLOADED)
                else validation.MAX_FILE_BYTES
            )
            if (size := after.get(path, 0)) > max(most, before.get(path, 0)):
                raise RefusedWrite(
                    f"{path} was not written: {size:,} bytes, and a file may have {most:,}; split it."
                )
        super()._send_files_update(update)

    def write(self, file_path: str, content: str) -> protocol.WriteResult:
        try:
            return super().write(file_path, plain(content))
        except RefusedWrite as error:
            return protocol.WriteResult(error=f"Error: {error}")

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> protocol.EditResult:
        try:
            old = plain(old_string)
            new = plain(new_string)
            if file := self._read_files().get(file_path):
                old = spelled_as_in(file_data_to_string(file), old)
                _check_replacement(
                    file_path, file_data_to_string(file), old, new, replace_all=replace_all
                )
            return super().edit(file_path, old, new, replace_all)
        except RefusedWrite as error:
            return protocol.EditResult(error=f"Error: {error}")


def _is_file(file: object) -> bool:
    """Whether deepagents can read a value of thread state as a file: its content is a text, or the
    lines of one.
    """
    if not isinstance(file, Mapping):
        return False
    content = file.get("content")
    lines = content if isinstance(content, list) else [content]
    times = [file.get(name) for name in ("created_at", "modified_at")]
    return all(isinstance(line, str) for line in lines) and all(
        isinstance(time, str | None) for time in times
    )


def _as_text(file: Any) -> Any:
    """A file of thread state, its text plain."""
    content = file["content"]
    if file.get("encoding", "utf-8") != "utf-8":
        return file
    text = [plain(line) for line in content] if isinstance(content, list) else plain(content)
    return file if text == content else {**file, "content": text}


def _size(file: object) -> int:
    """UTF-8 bytes of a file in thread state, which may be any value of a client's."""
    content = file.get("content", "") if isinstance(file, Mapping) else file
    return len((content if isinstance(content, str) else repr(content)).encode(errors="replace"))


# --- Both together, and the rules


def build_backend(deployment: Deployment, drafts: StoreOverride | None = None) -> CompositeBackend:
    """The filesystem of `agent`, or, with the store of drafts, of `consolidation_agent`."""
    routes: dict[str, BackendProtocol] = {
        path: RouteFiles(deployment, path, drafts) for path in deployment.routes
    }
    return CompositeBackend(default=ThreadFiles(list(routes)), routes=routes)


def build_permissions(
    deployment: Deployment, *, consolidating: bool = False
) -> list[FilesystemPermission]:
    """The same rules for deepagents' file tools, which refuse a write or pause it for an operator."""
    rules = {
        path: deployment.scope(path).rule(deployment.settings, consolidating=consolidating)
        for path in deployment.routes
    }
    return [
        FilesystemPermission(operations=["write"], paths=[path.rstrip("/"), f"{path}**"], mode=mode)
        for path, mode in rules.items()
        if mode != "allow"
    ]


def interrupted_tools(deployment: Deployment) -> dict[str, bool | InterruptOnConfig]:
    """The memory tools that pause for an operator, because they write shared memory."""
    if not deployment.has_memory or deployment.memory.rule(deployment.settings) != "interrupt":
        return {}
    return {
        name: InterruptOnConfig(allowed_decisions=["approve", "reject"])
        for name in ("append_memory", "save_profile")
    }


# --- What a new memory starts with


async def starting_files(
    store: BaseStore, actor: Actor, assistant: str, deployment: Deployment, *, write: bool
) -> Mapping[str, str]:
    """The texts with which this memory starts, by key; none if it has begun. With `write` they
    become its files.

    It has begun if it has files, or had some: who deletes all of them gets none back. Shared memory
    starts so, too, with whoever comes first. Where the deployment's own function fails, nothing is
    written, and the next run asks it again.
    """
    own = deployment.memory.namespace(actor, assistant)
    author = Author("seed", actor.user_id)
    if deployment.memory.is_shared:
        author = Author("seed")
    begun = [SearchOp(place, limit=1) for place in (own, namespaces.journals(own))]
    if any(await store.abatch(begun)):
        return {}
    texts = await platform.in_thread(
        starting_memory, deployment.folder
    )  # without a graph it reads files the first time
    try:
        async with asyncio.timeout(FIRST_FILES_SECONDS):
            texts = {
                **texts,
                **await platform.in_thread_of_forks(own_first_files, deployment, actor),
            }
    except (
        Exception
    ):  # a fork's function raises whatever it comes across; nobody loses a turn by it
        logger.exception(
            "first_files of this deployment failed; a new memory goes on without them for now."
        )
        return texts
    folder = Folder(deployment, store, own, "/memories", author, journal.began_of_run(actor))
    for key, text in texts.items() if write else ():
        try:
            await folder.change(key, _new(text), expect="", bounded=False)
        except (RefusedWrite, journal.MovedError) as error:  # moved: another run has written it
            logger.warning("A new memory starts without seeds/memories%s: %r", key, error)
    return texts


def _new(text: str) -> Change:
    return lambda _: create_file_data(text)
