"""Memory that is built anew from all of a person's conversations: a dream. How far it is, its
draft, and what of the conversations it has read.

All of it stands in `namespaces.dream`, beside memory, until it is proposed or ends: `state` is the
dream, `file <key>` a file of its draft, `thread <id>` what was read of a conversation. `stopped`
names a dream that its person stopped, so that a run that is at work does not bring it back. One
person has one dream.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Item, PutOp
from langgraph_sdk.client import ThreadsClient
from pydantic import TypeAdapter, ValidationError

from lasting_memory import platform
from lasting_memory.consolidation.batch import Due
from lasting_memory.consolidation.due import new_turns
from lasting_memory.consolidation.kept_out import KeptOut
from lasting_memory.consolidation.owners import Owner, owner_of
from lasting_memory.consolidation.positions import Position
from lasting_memory.conversations.marks import stays_out
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Deployment, Source
from lasting_memory.memory import journal
from lasting_memory.memory.one_fact import Fact
from lasting_memory.memory.proposals import Changed, Sources
from lasting_memory.memory.proposals import drop_threads as drop_threads_of_proposals
from lasting_memory.memory.sources import entries, text_of
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.recall import changed_since, owned_by, threads_by_id

Status = Literal["reading", "paused", "proposed", "ended", "failed"]
# Why it ended, or does not go on, in a word for which the page has a sentence.
Reason = Literal["", "paused", "cap", "same", "stopped", "no_answer", "undecided", "refused"]

# Conversations that one batch shows at most: what it reads is kept in one step.
MOST_SHOWN = 100
# Batches that bring nothing, after which a conversation is left out.
MOST_SETBACKS = 3
# Conversations whose messages are read at once.
_READ_AT_ONCE = 20
# For the estimate: model calls of a batch, and tokens that each sends beside the conversations
# (instructions, tools and files).
_CALLS = 4
CALL_TOKENS = 6_000
_STATE = "state"
_STOPPED = "stopped"
_FILE = "file "
_THREAD = "thread "


@dataclass(frozen=True, slots=True)
class Dream:
    """How far a dream is. `tokens` are those that it used, of at most `cap`."""

    id: str
    began: str  # in ISO format, UTC
    memory: str  # the last part of the namespace of the files that it is about
    cap: int
    assistant_id: str = ""  # whose conversations it reads; "": all
    tokens: int = 0
    conversations: int = 0
    read: int = 0
    left_out: int = 0  # conversations from which no batch could be kept
    messages: int = 0
    status: Status = "reading"
    reason: Reason = ""
    failures: int = 0  # runs that failed, one after another

    @property
    def proposal_id(self) -> str:
        """Of its proposal, and of its record."""
        return f"dream-{self.id}"

    @property
    def may_go_on(self) -> bool:
        """Whether it has a draft that waits to be finished."""
        return self.status in {"reading", "paused", "failed"}


@dataclass(frozen=True, slots=True)
class DraftFile:
    """A text of the draft. `origins` say from which conversations an entry is; one that the person
    wrote by hand is from none.
    """

    content: str
    origins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadThread:
    """What of a conversation was read. `replaced` are other conversations of which it took lines
    out of the draft.
    """

    position: Position = Position()  # noqa: RUF009  # frozen
    replaced: Sequence[str] = ()


class Stored(NamedTuple):
    """What the store has of a person's dream."""

    dream: Dream | None
    files: dict[str, DraftFile]
    threads: dict[str, ReadThread]


_DREAMS = TypeAdapter(Dream)
_FILES = TypeAdapter(DraftFile)
_THREADS = TypeAdapter(ReadThread)
_Kept = TypeVar("_Kept")


async def dream_of(store: BaseStore, actor: Actor) -> Dream | None:
    """A person's dream, whatever became of it; None if there was none."""
    item = await store.aget(namespaces.dream(actor), _STATE)
    return _valid(_DREAMS, item) if item else None


async def stored_dream(store: BaseStore, actor: Actor) -> Stored:
    """A person's dream with its draft."""
    items = await journal.all_items(store, namespaces.dream(actor))
    return await platform.in_thread(_stored_in, items)


def _stored_in(items: Iterable[Item]) -> Stored:
    """What these items hold; what is damaged is left out, and read again. Blocks."""
    dream = None
    files = dict[str, DraftFile]()
    threads = dict[str, ReadThread]()
    for item in items:
        if item.key == _STATE:
            dream = _valid(_DREAMS, item)
        elif item.key.startswith(_FILE):
            file = _valid(_FILES, item)
            if file:
                files[item.key.removeprefix(_FILE)] = file
        elif item.key.startswith(_THREAD):
            thread = _valid(_THREADS, item)
            if thread:
                threads[item.key.removeprefix(_THREAD)] = thread
    return Stored(dream, files, threads)


def _valid(kind: "TypeAdapter[_Kept]", item: Item) -> _Kept | None:
    try:
        return kind.validate_python(item.value)
    except ValidationError:
        return None


def ops(
    actor: Actor,
    dream: Dream,
    files: Mapping[str, DraftFile | None] | None = None,
    threads: Mapping[str, ReadThread | None] | None = None,
) -> list[PutOp]:
    """The operations that keep a dream, with these files and conversations of it; None deletes one.

    The dream comes last: where a process dies before that, its batch is read once more.
    """
    place = namespaces.dream(actor)
    puts = list[PutOp]()
    for key, file in (files or {}).items():
        value = _dumped(_FILES, file)
        puts.append(PutOp(place, f"{_FILE}{key}", value, index=False))
    for thread_id, thread in (threads or {}).items():
        value = _dumped(_THREADS, thread)
        puts.append(PutOp(place, f"{_THREAD}{thread_id}", value, index=False))
    puts.append(PutOp(place, _STATE, _dumped(_DREAMS, dream), index=False))
    return puts


def _dumped(kind: "TypeAdapter[_Kept]", value: _Kept | None) -> dict[str, Any] | None:
    """A value as it is stored; None deletes what is stored."""
    if value is None:
        return None
    stored: dict[str, Any] = kind.dump_python(value, mode="json")
    return stored


async def put(
    store: BaseStore,
    actor: Actor,
    dream: Dream,
    puts: Sequence[PutOp],
    began: journal.Began | None,
) -> bool:
    """Carry out these operations for a run of a dream. Returns whether they hold.

    They do not where the dream was stopped or replaced, or the person forgotten, or a fact of
    theirs deleted for good since this `began`.
    """
    if not await is_going_on(store, actor, dream):
        return False
    if not await journal.put_unless_forgotten(store, puts, began, quotes_facts=True):
        return False
    stopped = await store.aget(namespaces.dream(actor), _STOPPED)
    if stopped is None or stopped.value.get("id") != dream.id:
        return True
    await drop_draft(store, actor, replace(dream, status="ended", reason="stopped"), began)
    return False


async def is_going_on(store: BaseStore, actor: Actor, dream: Dream) -> bool:
    """Whether a dream still waits to be finished, and no other one is in its place."""
    present = await dream_of(store, actor)
    return present is not None and present.id == dream.id and present.may_go_on


async def drop_draft(
    store: BaseStore, actor: Actor, dream: Dream, began: journal.Began | None
) -> bool:
    """Delete the draft of a dream that is over, and keep what became of it. Returns whether it
    did, as `journal.put_unless_forgotten`.
    """
    stored = await stored_dream(store, actor)
    puts = ops(actor, dream, dict.fromkeys(stored.files), dict.fromkeys(stored.threads))
    return await journal.put_unless_forgotten(store, puts, began)


async def begin(
    store: BaseStore,
    actor: Actor,
    dream: Dream,
    files: Mapping[str, DraftFile],
    began: journal.Began | None,
) -> bool:
    """Begin a dream with this draft, in place of one that is over. Returns whether it did, as
    `journal.put_unless_forgotten`.
    """
    stored = await stored_dream(store, actor)
    gone = dict.fromkeys(stored.files.keys() - files.keys())
    puts = ops(actor, dream, {**gone, **files}, dict.fromkeys(stored.threads))
    return await journal.put_unless_forgotten(store, puts, began, quotes_facts=True)


async def stop(store: BaseStore, actor: Actor, dream: Dream, began: journal.Began | None) -> bool:
    """End a dream at its person's word: nothing is left of its draft. Returns whether it did, as
    `journal.put_unless_forgotten`.
    """
    mark = PutOp(namespaces.dream(actor), _STOPPED, {"id": dream.id}, index=False)
    if not await journal.put_unless_forgotten(store, [mark], began):
        return False
    return await drop_draft(store, actor, replace(dream, status="ended", reason="stopped"), began)


# --- The conversations


async def readable(deployment: Deployment, threads: ThreadsClient, owner: Owner) -> dict[str, str]:
    """The owner's conversations that may be read, by id: when each changed last. Temporary and
    marked ones are left out.
    """
    found = dict[str, str]()
    for metadata in owned_by(owner.actor, deployment.agents):
        async for page in changed_since(threads, metadata, 0):
            for thread in page:
                if not stays_out(thread) and owner_of(thread, deployment) == owner:
                    found[str(thread["thread_id"])] = str(thread["updated_at"])
    return found


async def unread_turns(
    deployment: Deployment,
    threads: ThreadsClient,
    owner: Owner,
    known: Mapping[str, Position],
    kept_out: KeptOut,
) -> tuple[list[Due], dict[str, Position]]:
    """What of these conversations was not read yet, and the positions of those that were read
    whole.
    """
    due = list[Due]()
    old = dict[str, Position]()
    ids = [*known]
    for start in range(0, len(ids), _READ_AT_ONCE):
        page = await threads_by_id(
            threads,
            ids[start : start + _READ_AT_ONCE],
            owned_by(owner.actor, deployment.agents),
            ["thread_id", "created_at", "updated_at", "values"],
        )
        new, read = await platform.in_thread(new_turns, page, known, kept_out)
        due += new
        old |= read
    return due, old


@dataclass(slots=True)
class DreamDraft:
    """A dream as a run found it, and the conversations that there are."""

    stored: Stored
    dream: Dream
    there: Mapping[str, str]  # when each changed last, by id
    # Conversations that have nothing new, with their positions, to be kept with the batch.
    old: dict[str, Position] = field(default_factory=dict)

    def unread(self) -> dict[str, Position]:
        """The conversations that are not read whole, those without setbacks and the oldest first."""
        positions = dict[str, Position]()
        for thread_id in self.there:
            thread = self.stored.threads.get(thread_id)
            positions[thread_id] = thread.position if thread else Position()
        ids = [
            thread_id
            for thread_id, position in positions.items()
            if position.updated_at != self.there[thread_id] and position.setbacks < MOST_SETBACKS
        ]
        ids.sort(key=lambda each: (positions[each].setbacks, self.there[each]))
        return {thread_id: positions[thread_id] for thread_id in ids}

    def read_whole(self) -> set[str]:
        """The conversations of which nothing is left to read."""
        read = set[str]()
        for thread_id, thread in self.stored.threads.items():
            if self.there.get(thread_id) == thread.position.updated_at:
                read.add(thread_id)
        return read

    def counted(self, dream: Dream) -> Dream:
        """A dream with the present numbers of conversations."""
        given_up = 0
        for thread in self.stored.threads.values():
            given_up += thread.position.setbacks >= MOST_SETBACKS
        return replace(
            dream,
            conversations=len(self.there),
            read=len(self.read_whole()),
            left_out=given_up,
        )

    def sources(self) -> dict[str, Source]:
        """Who vouches for the entries of the draft."""
        known = dict[str, Source]()
        for file in self.stored.files.values():
            known |= file.sources
        return known

    def files(self) -> dict[str, FileData]:
        """The draft's files, by key."""
        files = dict[str, FileData]()
        for key, file in self.stored.files.items():
            files[key] = FileData(content=file.content, encoding="utf-8")
        return files


class Estimate(NamedTuple):
    """What a dream would read, and the tokens that it would take, about."""

    tokens: int
    conversations: int
    messages: int


async def estimate(
    deployment: Deployment, threads: ThreadsClient, owner: Owner, kept_out: KeptOut
) -> Estimate:
    """What a dream of the owner's would take."""
    rules = deployment.consolidation or DEFAULT_CONSOLIDATION
    there = await readable(deployment, threads, owner)
    said = 0
    messages = 0
    ids = [*there]
    # In pages, so that few messages are in memory at once.
    for start in range(0, len(ids), _READ_AT_ONCE):
        page = dict.fromkeys(ids[start : start + _READ_AT_ONCE], Position())
        due, _ = await unread_turns(deployment, threads, owner, page, kept_out)
        said += sum(item.tokens for item in due)
        messages += sum(len(item.conversation.turns) for item in due)
    by_size = -(-said // rules.batch_tokens)
    by_number = -(-len(ids) // MOST_SHOWN)
    batches = by_size + by_number
    return Estimate(_CALLS * (batches * CALL_TOKENS + said), len(ids), messages)


# --- The draft


def after_batch(
    stored: Stored, changed: Iterable[Changed], sources: Sources, thread_ids: Collection[str]
) -> tuple[dict[str, DraftFile | None], set[str]]:
    """The files that a batch of these conversations changes, and the other conversations of which
    it took lines out. Blocks.

    What it put in is from its conversations, and from those of the lines in whose place it stands.
    A line that moved is from where it was.
    """
    before = dict[str, Sequence[str]]()
    for file in stored.files.values():
        before |= file.origins
    files = dict[str, DraftFile | None]()
    replaced = set[str]()
    for change in changed:
        old = stored.files.get(change.key) or DraftFile("")
        if change.deleted and not change.after:
            files[change.key] = None
        now = entries(change.key, change.after)
        present = {*now}
        lost = set[str]()
        for entry in entries(change.key, old.content):
            if entry not in present:
                lost.update(old.origins.get(entry, ()))
        replaced |= lost
        if change.key in files:
            continue
        origins = dict[str, Sequence[str]]()
        was_there = {*entries(change.key, old.content)}
        for entry in now:
            if entry in was_there:
                if entry in old.origins:
                    origins[entry] = old.origins[entry]
            else:
                origins[entry] = before.get(entry) or sorted({*thread_ids} | lost)
        known = {**old.sources, **sources.get(change.path, {})}
        kept = {entry: source for entry, source in known.items() if entry in present}
        files[change.key] = DraftFile(change.after, origins, kept)
    return files, replaced - {*thread_ids}


def without_threads(
    stored: Stored, gone: Collection[str]
) -> tuple[dict[str, DraftFile | None], dict[str, ReadThread | None]]:
    """The files of a draft and its conversations without what came of these, which were deleted.
    Blocks.

    A line that came of others as well goes, too; these are read once more, and so are those of
    which a deleted one took lines out.
    """
    again = set[str]()
    files = dict[str, DraftFile | None]()
    for key, file in stored.files.items():
        dropped = {entry for entry, ids in file.origins.items() if {*gone} & {*ids}}
        if not dropped:
            continue
        for entry in dropped:
            again.update(file.origins[entry])
        files[key] = _without_entries(key, file, dropped)
    for thread_id in gone:
        if thread_id in stored.threads:
            again.update(stored.threads[thread_id].replaced)
    threads = dict[str, ReadThread | None]()
    for thread_id in {*gone, *again} & stored.threads.keys():
        threads[thread_id] = None
    return files, threads


async def drop_threads(store: BaseStore, actor: Actor, gone: Collection[str]) -> None:
    """Take what came of these conversations, which were deleted, out of a draft that waits, and out
    of what dreams propose.
    """
    stored = await stored_dream(store, actor)
    if stored.dream is not None and {*gone} & stored.threads.keys():
        files, threads = await platform.in_thread(without_threads, stored, gone)
        # A run that is at work may put a text from before this: the next one drops the lines of
        # those of which something is noted here.
        again = {each: thread for each, thread in threads.items() if each not in gone}
        puts = ops(actor, stored.dream, files, again)[:-1]  # it may have come further meanwhile
        await journal.put_unless_forgotten(store, puts, journal.Began(actor))
    await drop_threads_of_proposals(store, actor, gone)


def _without_entries(key: str, file: DraftFile, dropped: Collection[str]) -> DraftFile | None:
    """A file of the draft without these entries. JSON goes whole: its other values are read again
    with the conversations.
    """
    if key.endswith(".json"):
        return None
    kept = list[str]()
    for line in file.content.split("\n"):
        of_line = entries(key, line)
        if not of_line or of_line[0] not in dropped:
            kept.append(line)
    return _cut(key, file, "\n".join(kept))


def _cut(key: str, file: DraftFile, content: str) -> DraftFile | None:
    """A file with less of its text; None without any."""
    if not content.strip():
        return None
    present = {*entries(key, content)}
    origins = {entry: ids for entry, ids in file.origins.items() if entry in present}
    sources = {entry: source for entry, source in file.sources.items() if entry in present}
    return DraftFile(content, origins, sources)


async def erase_from_dream(
    store: BaseStore, actor: Actor, fact: Fact, began: journal.Began, *, dry_run: bool = False
) -> int:
    """Take a fact that is deleted for good out of the draft. Returns how many files had it; with
    `dry_run` it only counts.
    """
    stored = await stored_dream(store, actor)
    if stored.dream is None:
        return 0
    files = await platform.in_thread(_files_without, stored.files, fact)
    if files and not dry_run:
        puts = ops(actor, stored.dream, files)[:-1]  # a run may have come further meanwhile
        await journal.put_unless_forgotten(store, puts, began)
    return len(files)


def _files_without(files: Mapping[str, DraftFile], fact: Fact) -> dict[str, DraftFile | None]:
    """The files that have a fact, without it. Blocks."""
    cleaned = dict[str, DraftFile | None]()
    for key, file in files.items():
        content = fact.cleaned(key, file.content)
        if content != file.content or any(fact.is_in(text_of(entry)) for entry in file.origins):
            cleaned[key] = _cut(key, file, content)
    return cleaned


async def exported_dream(store: BaseStore, actor: Actor) -> dict[str, Any] | None:
    """A person's dream and its draft, for an export; None without one."""
    stored = await stored_dream(store, actor)
    dream = stored.dream
    if dream is None:
        return None
    return {
        "began": dream.began,
        "status": dream.status,
        "cap": dream.cap,
        "tokens": dream.tokens,
        "conversations": dream.conversations,
        "read": dream.read,
        "files": {f"/memories{key}": file.content for key, file in stored.files.items()},
    }
