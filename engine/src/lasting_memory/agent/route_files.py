"""The files of a route in a run: whose they are, who may write them, and what a reader is told of
them.

A *route* is a folder as the agent sees it, such as `/memories/`. A path within it begins with a
slash, too: `/topics/food.md`. A line of a file is *over* once the day with which it ends has passed
(`memory/ends.py`).
"""

from collections.abc import Callable, Mapping

from deepagents.backends import protocol
from deepagents.backends.protocol import FileData
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, GetOp, Item
from langgraph.store.memory import InMemoryStore

from lasting_memory import platform
from lasting_memory.agent.noted_lines import LinesOver, NotedLines, lines_over_in
from lasting_memory.agent.scoped_files import WAITS, ScopedFiles, write_result
from lasting_memory.agent.unconfirmed import UNCONFIRMED_MARK, unconfirmed_lines
from lasting_memory.conversations.marks import in_temporary_conversation
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.memory import dated_lines, ends, journal, stored_files, validation
from lasting_memory.memory.controls import PAUSED, Controls, controls
from lasting_memory.memory.facts import bare_line
from lasting_memory.memory.folder import Folder, sources_of_files
from lasting_memory.memory.journal import Change, Writer
from lasting_memory.memory.proposals import Memory
from lasting_memory.memory.sources import signs_in
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.memory.vouches import Vouch
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Author, Context
from lasting_memory.people.namespaces import Namespace
from lasting_memory.people.scopes import NotAMemberError
from lasting_memory.plain_text import plain
from lasting_memory.vouching import messages_shown_now

# Gives another store for the files of the current run, or None.
StoreOverride = Callable[[], BaseStore | None]
# What a temporary conversation sees as `/memories/`. The gate keeps it empty.
_EMPTY_STORE = InMemoryStore()
# Where nothing ever is: no route's namespace begins so.
_EMPTY_NAMESPACE = ("nobody",)
_PROFILE_KEY = PROFILE_PATH.removeprefix("/memories")


class RouteFiles(ScopedFiles):
    """The files of a route in a run: whose they are, whether it may write them, and whether that
    waits for its person.

    With `drafts` it is a run of consolidation, whose memory files are in the store that this gives.
    """

    def __init__(self, deployment: Deployment, path: str, drafts: StoreOverride | None) -> None:
        super().__init__(deployment, self._namespace_of_run, route=path.rstrip("/"))
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

    def _namespace_of_run(self, run: Runtime[Context]) -> Namespace:
        """Where the files of a run are. Raises as `_namespace_of`."""
        caller = Caller.of_run(self._deployment, run)
        return self._namespace_of(caller)

    def _namespace_of(self, caller: Caller) -> Namespace:
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

    def _author_and_writer(self) -> tuple[Author, Writer | None]:
        """As `ScopedFiles._author_and_writer`, for this run."""
        caller = self._caller
        author = self._author_of(caller)
        writer = journal.writer_of_caller(caller)
        return author, writer

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
            namespace = self._namespace_of(caller)
        except NotAMemberError:  # the token has expired since `_check`
            raise self._not_available() from None
        store = self._get_store()
        writer = journal.writer_of_caller(caller)
        return Folder(self._deployment, store, namespace, self._route, author, writer)

    async def anotes(self, path: str) -> NotedLines:
        """What a model that reads a file is told beside its text; of what is no text, nothing."""
        if not validation.is_plain(path):
            return NotedLines(LinesOver(), [])
        item, profile = await self._file_and_profile(path)
        lines_over = await self._lines_over_in(path, item, profile)
        text = stored_files.text_of(item) if item else None
        if item is None or text is None:
            return NotedLines(lines_over, [])
        signs = signs_in(item.value)
        if not signs:  # nobody has to vouch for its lines
            return NotedLines(lines_over, [])
        unconfirmed_entries = await platform.in_thread(unconfirmed_lines, path, text, signs)
        return NotedLines(lines_over, unconfirmed_entries)

    async def alines_over(self, path: str) -> LinesOver:
        """Which lines of a file are over; none of what is no text, and where nothing is remembered."""
        if not self._has_ends(path):
            return LinesOver()
        if not validation.is_plain(path):
            return LinesOver()
        item, profile = await self._file_and_profile(path)
        return await self._lines_over_in(path, item, profile)

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

    async def _lines_over_in(self, path: str, item: Item | None, profile: Item | None) -> LinesOver:
        """Which lines of a stored file are over."""
        if item is None or not self._has_ends(path):
            return LinesOver()
        text = stored_files.text_of(item) or ""
        if not dated_lines.may_have_ends(text):
            return LinesOver(text)
        # A group's file of that name is nobody's profile.
        own_profile = profile if self._is_memory else None
        return await platform.in_thread(lines_over_in, self._deployment, item, own_profile)

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
            is_unconfirmed = statement in notes.unconfirmed_entries
            number = match["line"] - 1
            if number in notes.lines_over.numbers:
                match["text"] += f"  {ends.OVER_MARK}"
            if is_unconfirmed:
                match["text"] += f"  {UNCONFIRMED_MARK}"
        return result

    async def awrite(self, file_path: str, content: str) -> protocol.WriteResult:
        """As `ScopedFiles.awrite`, but lines that are over stay: the model was not shown them."""
        lines_over = await self.alines_over(file_path)

        def change(before: FileData | None) -> FileData:
            text = lines_over.kept_in(before, plain(content))
            return FileData(content=text, encoding="utf-8")

        error = await self._try_change(file_path, change)
        return write_result(file_path, error)

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
        messages = messages_shown_now()
        if messages is None:
            return None
        if self._is_consolidation or not self._is_own_memory:
            return None
        caller = self._caller
        if caller.speaks_for_another:
            messages = messages.of_others()
        store = self._get_store()
        namespace = self._namespace_of(caller)
        items = await journal.all_items(store, namespace)

        def vouch_by_messages() -> Vouch:
            sources = sources_of_files(items)
            evidence = messages.evidence()
            return evidence.vouch(sources)

        return await platform.in_thread(vouch_by_messages)

    async def _propose(self, path: str, change: Change, vouch: Vouch | None) -> str:
        """As `ScopedFiles._propose`: the change waits among the person's proposals."""
        folder = self._folder()
        actor = self._caller.actor
        memory = Memory(folder.store, actor, folder.namespace, self._deployment, folder.writer)
        gated_change = folder.gated(path, change, vouch)
        await memory.propose_write(path, gated_change, folder.author, vouch)
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
