"""The agent's filesystem: the owner of each path, who may write there, and with which files a new
memory starts.

Files are deepagents backends: in the store (`ScopedFiles`, and `RouteFiles` in a run), and in a
thread's state (`ThreadFiles`). Each checks every write itself. deepagents' `permissions` repeat the
rules: they refuse earlier, with a clearer message.

A *route* is a folder as the agent sees it, such as `/memories/`. A path within its namespace begins
with a slash, too: `/topics/food.md`. A *change* makes a file's new content of the old one
(`journal.Change`). A line of a file is *over* once the day with which it ends has passed
(`memory/ends.py`). A change *waits* where its person decides about it first, and a *vouch* says who
vouches for what it adds (`memory/vouches.py`).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, NoReturn, cast

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
from lasting_memory.memory import (
    dated_lines,
    ends,
    journal,
    restored_lines,
    stored_files,
    validation,
)
from lasting_memory.memory.controls import PAUSED, Controls, controls
from lasting_memory.memory.facts import bare_line
from lasting_memory.memory.folder import Folder, source_of_write, sources_of_files, vouch_of
from lasting_memory.memory.journal import Began, Change, Revision
from lasting_memory.memory.line_times import LineTimes
from lasting_memory.memory.new_memory import FIRST_FILES_SECONDS, own_first_files
from lasting_memory.memory.new_memory import starting_memory as starting_memory  # noqa: PLC0414  # beside `starting_files`
from lasting_memory.memory.proposals import Memory
from lasting_memory.memory.sources import signs_in
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.memory.vouches import Vouch
from lasting_memory.people import namespaces
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Actor, Author, Context
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
_EMPTY_STORE = InMemoryStore()
# Where nothing ever is: no route's namespace begins so.
_EMPTY_NAMESPACE = ("nobody",)
_PROFILE_KEY = PROFILE_PATH.removeprefix("/memories")


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
        lines = self.text.split("\n")
        lines_over = {lines[number] for number in self.numbers}
        # The file may have changed since its text was read: the lines may have other numbers.
        present = before["content"]
        present_numbers = set[int]()
        for number, line in enumerate(present.split("\n")):
            if line in lines_over:
                present_numbers.add(number)
        dropped = restored_lines.dropped_lines(present, content, present_numbers)
        return restored_lines.with_lines_restored(present, content, dropped)


class NotedLines(NamedTuple):
    """The lines of a file that its reader gets a note on: which are over, and what those say, or
    fields of a JSON object, that nobody vouches for.
    """

    over: Over
    unconfirmed: list[str]


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
        began: Began | None = None,
        store: BaseStore | None = None,
    ) -> None:
        super().__init__(namespace=namespace, store=store)
        self._deployment = deployment
        self._route = route
        self._author = author
        self._began = began

    def _writer(self) -> tuple[Author, Began | None]:
        """Who writes, and when the run or request that writes for them began."""
        return self._author, self._began

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
        if result.error == _not_found(file_path):
            error = _not_found(self._agent_path(file_path))
            return protocol.ReadResult(error=error)
        return result

    async def awrite(self, file_path: str, content: str) -> protocol.WriteResult:
        """Replace a file. The result has an error if it was refused, or waits."""
        file = FileData(content=content, encoding="utf-8")
        error = await self._try_change(file_path, lambda _: file)
        return _write_result(file_path, error)

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
                raise RefusedWrite(_not_found(agent_path))
            if before["encoding"] == "base64":
                raise RefusedWrite("Cannot edit binary files with text replacements.")
            content = before["content"]
            old = spelled_as_in(content, plain(old_string))
            new = plain(new_string)
            _check_replacement(agent_path, content, old, new, replace_all=replace_all)
            result = perform_string_replacement(content, old, new, replace_all)
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

        def changed(before: FileData | None) -> FileData:
            content = ""
            if before:
                content = before["content"]
                if before["encoding"] != "utf-8":
                    agent_path = self._agent_path(path)
                    raise RefusedWrite(f"'{agent_path}' is not text; choose another file.")
            text = change(content)
            return FileData(content=text, encoding="utf-8")

        return await self._try_change(path, changed)

    async def _try_change(self, path: str, change: Change) -> str | None:
        """Change a file, and return None; or return what the agent is told: why it is refused, or
        that it waits for its person.
        """
        try:
            waits = await self._check(path)
            vouch = await self._vouch()
            if waits:
                checked = self._unless_refused(path, change, vouch)
                return await self._propose(path, checked, vouch)
            checked = self._if_vouched(path, change, vouch)
            try:
                await self._put(path, checked, vouch=vouch)
            except _UnconfirmedError:
                return await self._propose(path, change, vouch)
        except stored_files.NoFileError:
            no_file = stored_files.NoFileError(self._agent_path(path))
            return f"Error: {no_file}"
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
        checked = self._unless_refused(path, change, vouch)
        if vouch is None or may_stand:
            return checked

        def checked_change(before: FileData | None) -> FileData | None:
            after = checked(before)
            source = source_of_write(path, before, after, vouch)
            if source is not Source.UNCONFIRMED:
                return after
            if self._waits_unconfirmed():
                raise _UnconfirmedError
            raise RefusedWrite(
                f"{self._agent_path(path)} was not written: a text from elsewhere says it, and nobody "
                "could accept it here."
            )

        return checked_change

    def _unless_refused(self, path: str, change: Change, vouch: Vouch | None) -> Change:
        """The change, with a check of what a model or program adds: it raises `RefusedWrite` for
        what nobody vouches for, where the deployment refuses that.
        """
        if self._deployment.unconfirmed != "refuse":
            return change
        author, _ = self._writer()
        if author.kind not in _OF_OTHERS:
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
        is_found = False
        for item in items:
            is_wanted = item.key == base or item.key.startswith(folder)
            if not is_wanted:
                continue
            is_found = True
            if await self._check(item.key):
                answer = await self._propose(item.key, lambda _: None, None)
            else:
                await self._remove(item)
        if not is_found:
            not_found = _not_found(self._agent_path(path))
            return f"Error: {not_found}"
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
        written: LineTimes = MappingProxyType({}),
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
        written: LineTimes = MappingProxyType({}),
        vouch: Vouch | None = None,
    ) -> Revision:
        """Change a file that may be written."""
        folder = self._folder()
        return await folder.change(path, change, expect=expect, times=written, vouch=vouch)

    def _folder(self) -> Folder:
        """The folder of these files, for a write."""
        author, began = self._writer()
        store = self._get_store()
        namespace = self._get_namespace()
        return Folder(self._deployment, store, namespace, self._route, author, began)

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


def _over(deployment: Deployment, item: Item, profile: Item | None) -> Over:
    """Which lines of a stored file are over, by the time zone of a profile. Blocks."""
    profile_text = stored_files.text_of(profile) if profile else None
    day = ends.present_day(deployment, profile_text)
    ends_of_file = ends.ends_of_file(item, day)
    numbers = ends.numbers_over(ends_of_file)
    text = stored_files.text_of(item) or ""
    return Over(text, numbers)


class _UnconfirmedError(ValueError):
    """A write that nobody vouches for waits for its person."""


# Who writes what a model, or another program, makes of a text.
_OF_OTHERS = frozenset({"agent", "subagent", "client"})


def _not_found(path: str) -> str:
    """The error for a path without a file, as deepagents words it."""
    return f"File '{path}' not found"


def _write_result(path: str, error: str | None) -> protocol.WriteResult:
    """The result of a write; with an error it has that alone."""
    if error:
        return protocol.WriteResult(error=error)
    return protocol.WriteResult(path=path)


def _check_replacement(path: str, content: str, old: str, new: str, *, replace_all: bool) -> None:
    """Raises `RefusedWrite` for a replacement that could turn 256 KiB into gigabytes."""
    times = 1
    if old and replace_all:
        times = content.count(old)
    growth = times * (len(new) - len(old))
    size = len(content) + growth
    most = max(validation.MAX_FILE_BYTES, len(content))
    if size > most:
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
        self._is_consolidation = drafts is not None

    @property
    def deployment(self) -> Deployment:
        """The deployment to which the route belongs."""
        return self._deployment

    @property
    def _caller(self) -> Caller:
        """For whom this run acts."""
        return Caller.of_run(self._deployment)

    def _place(self, run: Runtime[Context]) -> Namespace:
        """Where the files of a run are. Raises as `_place_of`."""
        caller = Caller.of_run(self._deployment, run)
        return self._place_of(caller)

    def _place_of(self, caller: Caller) -> Namespace:
        """Where the files of a caller are. Raises `NotAMemberError` for who has no such folder."""
        claims: Mapping[str, str] = {}
        if self._scope.claim:
            claims = caller.claims
        return self._scope.namespace(caller.actor, caller.assistant, claims)

    def _get_namespace(self) -> Namespace:
        """Where this run reads: who has no such folder sees an empty one. `_check` comes before
        every write.
        """
        try:
            return super()._get_namespace()
        except NotAMemberError:
            return _EMPTY_NAMESPACE

    def _get_store(self) -> BaseStore:
        """Where these files are: memory files of a temporary conversation nowhere, those of
        consolidation in its draft, and all others in the store of the run.
        """
        if not self._is_memory:
            return super()._get_store()
        if in_temporary_conversation():
            return _EMPTY_STORE
        draft_store = self._drafts() if self._drafts else None
        return draft_store or super()._get_store()

    def _writer(self) -> tuple[Author, Began | None]:
        """As `ScopedFiles._writer`, for this run."""
        caller = self._caller
        author = self._author_of(caller)
        began = journal.began_of_caller(caller)
        return author, began

    def _author_of(self, caller: Caller) -> Author:
        """The author of what this run writes for a caller."""
        kind = _author_kind(is_consolidation=self._is_consolidation)
        return caller.author(kind)

    async def _check(self, path: str) -> bool:
        """Whether a change of this path waits, because the person reviews what the agent writes.
        Raises `RefusedWrite` where this run may not write.
        """
        if self._get_namespace() == _EMPTY_NAMESPACE:
            raise self._not_available()
        await super()._check(path)
        caller = self._caller
        person_controls = Controls()
        if self._scope.remembers and not in_temporary_conversation():
            store = self._get_store()
            person_controls = await controls(store, caller.actor, self._deployment)
        reason = self._refusal(caller, person_controls)
        if reason:
            agent_path = self._agent_path(path)
            raise RefusedWrite(f"Permission denied for '{agent_path}': {reason}")
        is_agents_write = self._is_memory and not self._is_consolidation
        return is_agents_write and person_controls.review_agent

    def _not_available(self) -> RefusedWrite:
        """The error for who has no such folder."""
        reason = self._why_no_folder()
        return RefusedWrite(f"{self._route}/ is not available: {reason}")

    def _why_no_folder(self) -> str:
        """Why this run's person has no such folder."""
        claim = self._scope.claim
        if claim in self._caller.membership.claims:
            return f"the token that proved this person's claim {claim!r} has expired. A new message from them has a new token."
        return f"this person's token has no claim {claim!r}."

    def _refusal(self, caller: Caller, person_controls: Controls) -> str | None:
        """Why this run may not write here, as its person has set its controls; None if it may."""
        if self._scope.remembers and in_temporary_conversation():
            return "this is a temporary conversation, of which nothing is remembered."
        if person_controls.paused:
            return f"{PAUSED}: nothing is remembered until they resume it. Tell them so."
        settings = self._deployment.settings
        rule = self._scope.rule(settings, consolidating=self._is_consolidation)
        if rule == "allow":
            return None
        if rule == "deny":
            return "it is read-only here."
        # A write that waits for approval continues in the run with which the operator resumed it. A
        # client's forged tool call, jump to the tools node or resume value stays the client's run.
        if caller.is_operator:
            return None
        return "an operator has to approve writing here."

    def _folder(self) -> Folder:
        """The folder of these files, for a write. Raises `RefusedWrite` for who has none."""
        # Who acts is looked up once: this is made at every write.
        caller = self._caller
        author = self._author_of(caller)
        try:
            place = self._place_of(caller)
        except NotAMemberError:  # the token has expired since `_check`
            raise self._not_available() from None
        store = self._get_store()
        began = journal.began_of_caller(caller)
        return Folder(self._deployment, store, place, self._route, author, began)

    async def anotes(self, path: str) -> NotedLines:
        """What a model that reads a file is told beside its text; of what is no text, nothing."""
        if not validation.is_plain(path):
            return NotedLines(Over(), [])
        item, profile = await self._file_and_profile(path)
        over = await self._over_in(path, item, profile)
        text = stored_files.text_of(item) if item else None
        if item is None or text is None:
            return NotedLines(over, [])
        signs = signs_in(item.value)
        if not signs:  # nobody has to vouch for its lines
            return NotedLines(over, [])
        doubtful = await platform.in_thread(unconfirmed_lines, path, text, signs)
        return NotedLines(over, doubtful)

    async def aover(self, path: str) -> Over:
        """Which lines of a file are over; none of what is no text, and where nothing is remembered."""
        if not self._has_ends(path):
            return Over()
        if not validation.is_plain(path):
            return Over()
        item, profile = await self._file_and_profile(path)
        return await self._over_in(path, item, profile)

    def _has_ends(self, path: str) -> bool:
        """Whether lines of a file can be over."""
        if not self._deployment.ends or not self._scope.remembers:
            return False
        return ends.has_ends(path)

    async def _file_and_profile(self, path: str) -> tuple[Item | None, Item | None]:
        """The items of a file and of the profile beside it; None for one that is not there."""
        namespace = self._get_namespace()
        gets = [GetOp(namespace, path), GetOp(namespace, _PROFILE_KEY)]
        item, profile = await self._get_store().abatch(gets)
        return _item_or_none(item), _item_or_none(profile)

    async def _over_in(self, path: str, item: Item | None, profile: Item | None) -> Over:
        """Which lines of a stored file are over."""
        if item is None or not self._has_ends(path):
            return Over()
        text = stored_files.text_of(item) or ""
        if not dated_lines.may_have_ends(text):
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
        notes_by_path = dict[str, NotedLines]()
        for match in result.matches or []:
            file_path = match["path"]
            if file_path not in notes_by_path:
                notes_by_path[file_path] = await self.anotes(file_path)
            notes = notes_by_path[file_path]
            # The note has what the line says, without its list marker.
            statement = bare_line(match["text"].strip())
            is_doubtful = statement in notes.unconfirmed
            number = match["line"] - 1
            if number in notes.over.numbers:
                match["text"] += f"  {ends.OVER_MARK}"
            if is_doubtful:
                match["text"] += f"  {UNCONFIRMED_MARK}"
        return result

    async def awrite(self, file_path: str, content: str) -> protocol.WriteResult:
        """As `ScopedFiles.awrite`, but lines that are over stay: the model was not shown them."""
        over = await self.aover(file_path)

        def change(before: FileData | None) -> FileData:
            text = over.kept_in(before, plain(content))
            return FileData(content=text, encoding="utf-8")

        error = await self._try_change(file_path, change)
        return _write_result(file_path, error)

    @property
    def _is_own_memory(self) -> bool:
        """Whether these files are a person's own memory."""
        return self._is_memory and self._deployment.has_own_memory

    def _waits_unconfirmed(self) -> bool:
        """As `ScopedFiles._waits_unconfirmed`: in a person's own memory."""
        # Where nobody decides about proposals, what waits would wait for ever.
        has_proposals = self._deployment.consolidation is not None
        return self._is_own_memory and has_proposals

    async def _vouch(self) -> Vouch | None:
        """By what the run has shown: whether the person said it. None for a draft of consolidation,
        which is judged as a whole, and for other files than a person's own memory, which are
        nobody's word.
        """
        shown = messages_shown_now()
        if shown is None:
            return None
        if self._is_consolidation or not self._is_own_memory:
            return None
        caller = self._caller
        if caller.speaks_for_another:
            shown = shown.of_others()
        store = self._get_store()
        place = self._place_of(caller)
        items = await journal.all_items(store, place)

        def vouch_by_shown() -> Vouch:
            sources = sources_of_files(items)
            evidence = shown.evidence()
            return evidence.vouch(sources)

        return await platform.in_thread(vouch_by_shown)

    async def _propose(self, path: str, change: Change, vouch: Vouch | None) -> str:
        """As `ScopedFiles._propose`: the change waits among the person's proposals."""
        folder = self._folder()
        actor = self._caller.actor
        memory = Memory(folder.store, actor, folder.namespace, self._deployment, folder.began)
        gated = folder.gated(path, change, vouch)
        await memory.propose_write(path, gated, folder.author, vouch)
        return f"/memories{path} was not changed: yours {WAITS} until they accept it. Tell them so, and do not write it again."


def _item_or_none(result: object) -> Item | None:
    """The item that a read of the store found; None if it found none."""
    if isinstance(result, Item):
        return result
    return None


def _author_kind(*, is_consolidation: bool) -> str:
    """What of the current run writes: the agent, a subagent of it, or consolidation."""
    if is_consolidation:
        return "consolidation"
    configurable = get_config().get("configurable") or {}
    if configurable.get("ls_agent_type") == "subagent":
        return "subagent"
    return "agent"


class ThreadFiles(StateBackend):
    """Files of this thread alone, each of bounded size. It refuses other spellings of a path, such
    as `//policies/x`.

    A client's input and state may carry files of any path, and anything in a file's place: the
    agent sees neither those under `routes`, the folders of other backends, nor what is no file.
    """

    def __init__(self, routes: Sequence[str]) -> None:
        super().__init__()
        self._routes = tuple(routes)

    def _read_files(self) -> dict[str, Mapping[str, object]]:
        """The files of the thread that the agent sees, by path, as deepagents keeps them."""
        files = super()._read_files()
        if not isinstance(files, Mapping):
            return {}
        seen = dict[str, Mapping[str, object]]()
        for path, file in files.items():
            if self._is_seen(path) and _is_file(file):
                seen[path] = _as_text(file)
        return seen

    def _is_seen(self, path: str) -> bool:
        """Whether the agent may see a file at this path here."""
        is_of_other_backend = path.startswith(self._routes)
        if is_of_other_backend:
            return False
        return validation.is_plain(path)

    def _send_files_update(self, update: dict[str, object]) -> None:
        """Every write ends here. Raises `RefusedWrite` for a bad path, and for a file, or all, that
        grow too large.
        """
        sizes_before = dict[str, int]()
        for path, file in super()._read_files().items():
            sizes_before[path] = _size(file)
        sizes_after = dict(sizes_before)
        for path, file in update.items():
            if file is not None:
                sizes_after[path] = _size(file)
        total_before = _total(sizes_before)
        total = _total(sizes_after)
        # What a client's state has already may stay, however large.
        if total > max(MAX_SCRATCH_BYTES, total_before):
            raise RefusedWrite(
                f"This conversation's files would have {total:,} bytes of {MAX_SCRATCH_BYTES:,}; delete some."
            )
        for path in update:
            validation.check_path(path)
            most = validation.MAX_FILE_BYTES
            if path.startswith(OFFLOADED):
                most = validation.MAX_INPUT_BYTES
            size_before = sizes_before.get(path, 0)
            size = sizes_after.get(path, 0)
            if size > max(most, size_before):
                raise RefusedWrite(
                    f"{path} was not written: {size:,} bytes, and a file may have {most:,}; split it."
                )
        super()._send_files_update(update)

    def write(self, file_path: str, content: str) -> protocol.WriteResult:
        """Write a new file, as deepagents does. The result has an error if it was refused."""
        try:
            return super().write(file_path, plain(content))
        except RefusedWrite as error:
            return protocol.WriteResult(error=f"Error: {error}")

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> protocol.EditResult:
        """Replace a part of a file, as deepagents does. The result has an error if it was refused."""
        try:
            old = plain(old_string)
            new = plain(new_string)
            file = self._read_files().get(file_path)
            if file:
                content = file_data_to_string(cast("FileData", file))
                old = spelled_as_in(content, old)
                _check_replacement(file_path, content, old, new, replace_all=replace_all)
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
    for line in lines:
        if not isinstance(line, str):
            return False
    for name in ("created_at", "modified_at"):
        time = file.get(name)
        if not isinstance(time, str | None):
            return False
    return True


def _as_text(file: Mapping[str, object]) -> Mapping[str, object]:
    """A file of thread state with plain text; the same object if its text is plain, or it is none."""
    content = file["content"]
    if file.get("encoding", "utf-8") != "utf-8":
        return file
    text = content
    if isinstance(content, list):
        text = [plain(line) for line in content]
    elif isinstance(content, str):
        text = plain(content)
    if text == content:
        return file
    return {**file, "content": text}


def _size(file: object) -> int:
    """UTF-8 bytes of a file in thread state, which may be any value of a client's."""
    content = file
    if isinstance(file, Mapping):
        content = file.get("content", "")
    text = content if isinstance(content, str) else repr(content)
    encoded = text.encode(errors="replace")
    return len(encoded)


def _total(sizes: Mapping[str, int]) -> int:
    """The size of all files, with their paths."""
    total = 0
    for path, size in sizes.items():
        total += len(path) + size
    return total


# --- Both together, and the rules


def build_backend(deployment: Deployment, drafts: StoreOverride | None = None) -> CompositeBackend:
    """The filesystem of `agent`, or, with the store of drafts, of `consolidation_agent`."""
    routes = dict[str, BackendProtocol]()
    for path in deployment.routes:
        routes[path] = RouteFiles(deployment, path, drafts)
    thread_files = ThreadFiles(list(routes))
    return CompositeBackend(default=thread_files, routes=routes)


def build_permissions(
    deployment: Deployment, *, consolidating: bool = False
) -> list[FilesystemPermission]:
    """The same rules for deepagents' file tools, which refuse a write or pause it for an operator."""
    permissions = list[FilesystemPermission]()
    for path in deployment.routes:
        scope = deployment.scope(path)
        mode = scope.rule(deployment.settings, consolidating=consolidating)
        if mode == "allow":
            continue
        paths = [path.rstrip("/"), f"{path}**"]
        permission = FilesystemPermission(operations=["write"], paths=paths, mode=mode)
        permissions.append(permission)
    return permissions


def interrupted_tools(deployment: Deployment) -> dict[str, bool | InterruptOnConfig]:
    """The memory tools that pause for an operator, by name, because they write shared memory."""
    if not deployment.has_memory:
        return {}
    rule = deployment.memory.rule(deployment.settings)
    if rule != "interrupt":
        return {}
    tools = dict[str, bool | InterruptOnConfig]()
    for name in ("append_memory", "save_profile"):
        tools[name] = InterruptOnConfig(allowed_decisions=["approve", "reject"])
    return tools


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
    if await _has_begun(store, own):
        return {}
    # Without a graph it reads files the first time.
    texts = await platform.in_thread(starting_memory, deployment.folder)
    try:
        async with asyncio.timeout(FIRST_FILES_SECONDS):
            own_texts = await platform.in_thread_of_forks(own_first_files, deployment, actor)
        texts = {**texts, **own_texts}
    except (
        Exception
    ):  # a fork's function raises whatever it comes across; nobody loses a turn by it
        logger.exception(
            "first_files of this deployment failed; a new memory goes on without them for now."
        )
        return texts
    if not write:
        return texts
    began = journal.began_of_run(actor)
    folder = Folder(deployment, store, own, "/memories", author, began)
    for key, text in texts.items():
        try:
            await folder.change(key, _new(text), expect="", is_bounded=False)
        except (RefusedWrite, journal.MovedError) as error:  # moved: another run has written it
            logger.warning("A new memory starts without seeds/memories%s: %r", key, error)
    return texts


async def _has_begun(store: BaseStore, namespace: Namespace) -> bool:
    """Whether a memory has files, or had some."""
    searches = list[SearchOp]()
    for place in (namespace, namespaces.journals(namespace)):
        searches.append(SearchOp(place, limit=1))
    results = await store.abatch(searches)
    return any(results)


def _new(text: str) -> Change:
    """The change that makes a new file of a text."""
    return lambda _: create_file_data(text)
