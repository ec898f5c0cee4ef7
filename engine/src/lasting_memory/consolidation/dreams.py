"""Memory that is built anew from all of a person's conversations: a dream. How far it is, its
draft, and what of the conversations it has read.

All of it stands in `namespaces.dream`, beside memory, until it is proposed or ends: `state` is the
dream, `file <key>` a file of its draft, `thread <id>` what was read of a conversation. `stopped`
names a dream that its person stopped, so that a run that is at work does not bring it back. One
person has one dream.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Item, PutOp
from langgraph_sdk.client import ThreadsClient
from pydantic import TypeAdapter, ValidationError

from lasting_memory import platform, recall
from lasting_memory.consolidation.batch import Due
from lasting_memory.consolidation.due import read_new_turns
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
from lasting_memory.recall import changed_since, owned_by

Status = Literal["reading", "paused", "proposed", "ended", "failed"]
# Why it ended, or does not go on, in a word for which the page has a sentence.
Reason = Literal[
    "",
    "paused",
    "cap",
    "same",
    "stopped",
    "no_answer",
    "undecided",
    "refused",
    "decided",
    "deleted",
]

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
        waiting = {"reading", "paused", "failed"}
        return self.status in waiting


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

    def thread(self, thread_id: str) -> ReadThread:
        """What was read of a conversation; nothing of one that is unknown."""
        known = self.threads.get(thread_id)
        return known or ReadThread()


_DREAMS = TypeAdapter(Dream)
_FILES = TypeAdapter(DraftFile)
_THREADS = TypeAdapter(ReadThread)
_Kept = TypeVar("_Kept")


async def dream_of(store: BaseStore, actor: Actor) -> Dream | None:
    """A person's dream, whatever became of it; None if there was none."""
    place = namespaces.dream(actor)
    item = await store.aget(place, _STATE)
    if item is None:
        return None
    return _valid(_DREAMS, item)


async def stored_dream(store: BaseStore, actor: Actor) -> Stored:
    """A person's dream with its draft."""
    place = namespaces.dream(actor)
    items = await journal.all_items(store, place)
    return await platform.in_thread(_stored_in, items)


def _stored_in(items: Iterable[Item]) -> Stored:
    """What these items hold; what is damaged is left out, and read again. Blocks."""
    dream = None
    files = dict[str, DraftFile]()
    threads = dict[str, ReadThread]()
    for item in items:
        key = item.key
        if key == _STATE:
            dream = _valid(_DREAMS, item)
        elif key.startswith(_FILE):
            file = _valid(_FILES, item)
            if file:
                path = key.removeprefix(_FILE)
                files[path] = file
        elif key.startswith(_THREAD):
            thread = _valid(_THREADS, item)
            if thread:
                thread_id = key.removeprefix(_THREAD)
                threads[thread_id] = thread
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
    puts = list[PutOp]()
    for key, file in (files or {}).items():
        stored_key = f"{_FILE}{key}"
        value = _dumped(_FILES, file)
        puts.append(_put_op(actor, stored_key, value))
    for thread_id, thread in (threads or {}).items():
        stored_key = f"{_THREAD}{thread_id}"
        value = _dumped(_THREADS, thread)
        puts.append(_put_op(actor, stored_key, value))
    state = _dumped(_DREAMS, dream)
    puts.append(_put_op(actor, _STATE, state))
    return puts


def _put_op(actor: Actor, key: str, value: dict[str, Any] | None) -> PutOp:
    place = namespaces.dream(actor)
    return PutOp(place, key, value, index=False)


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
    is_kept = await journal.put_unless_forgotten(store, puts, began, quotes_facts=True)
    if not is_kept:
        return False
    place = namespaces.dream(actor)
    stopped = await store.aget(place, _STOPPED)
    if stopped is None:
        return True
    is_other_one = stopped.value.get("id") != dream.id
    if is_other_one:
        return True
    await _drop_stopped(store, actor, dream, began)
    return False


async def is_going_on(store: BaseStore, actor: Actor, dream: Dream) -> bool:
    """Whether a dream still waits to be finished, and no other one is in its place."""
    present = await dream_of(store, actor)
    if present is None or present.id != dream.id:
        return False
    return present.may_go_on


async def drop_draft(
    store: BaseStore, actor: Actor, dream: Dream, began: journal.Began | None
) -> bool:
    """Delete the draft of a dream that is over, and keep what became of it. Returns whether it
    did, as `journal.put_unless_forgotten`.
    """
    stored = await stored_dream(store, actor)
    files = dict.fromkeys(stored.files)
    threads = dict.fromkeys(stored.threads)
    puts = ops(actor, dream, files, threads)
    return await journal.put_unless_forgotten(store, puts, began)


async def _drop_stopped(
    store: BaseStore, actor: Actor, dream: Dream, began: journal.Began | None
) -> bool:
    """Delete the draft of a dream that its person stopped, as `drop_draft`."""
    over = replace(dream, status="ended", reason="stopped")
    return await drop_draft(store, actor, over, began)


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
    all_files = dict[str, DraftFile | None](files)
    for key in stored.files:
        all_files.setdefault(key)  # it goes
    threads = dict.fromkeys(stored.threads)
    puts = ops(actor, dream, all_files, threads)
    return await journal.put_unless_forgotten(store, puts, began, quotes_facts=True)


async def stop(store: BaseStore, actor: Actor, dream: Dream, began: journal.Began | None) -> bool:
    """End a dream at its person's word: nothing is left of its draft. Returns whether it did, as
    `journal.put_unless_forgotten`.
    """
    mark = _put_op(actor, _STOPPED, {"id": dream.id})
    is_marked = await journal.put_unless_forgotten(store, [mark], began)
    if not is_marked:
        return False
    return await _drop_stopped(store, actor, dream, began)


# --- The conversations


async def readable(deployment: Deployment, threads: ThreadsClient, owner: Owner) -> dict[str, str]:
    """The owner's conversations that may be read, by id: when each changed last. Temporary and
    marked ones are left out.
    """
    found = dict[str, str]()
    for metadata in owned_by(owner.actor, deployment.agents):
        async for page in changed_since(threads, metadata, 0):
            for thread in page:
                if stays_out(thread):
                    continue
                if owner_of(thread, deployment) != owner:
                    continue
                thread_id = str(thread["thread_id"])
                found[thread_id] = str(thread["updated_at"])
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
    owned = owned_by(owner.actor, deployment.agents)
    for ids in _pages([*known]):
        page = {thread_id: known[thread_id] for thread_id in ids}
        new, read = await read_new_turns(threads, owned, page, kept_out)
        due += new
        old |= read
    return due, old


def _pages(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Conversations in parts that are read at once."""
    for start in range(0, len(ids), _READ_AT_ONCE):
        end = start + _READ_AT_ONCE
        yield ids[start:end]


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
        for thread_id in self._ids_in_order():
            position = self.stored.thread(thread_id).position
            is_read = position.updated_at == self.there[thread_id]
            is_given_up = position.setbacks >= MOST_SETBACKS
            if not is_read and not is_given_up:
                positions[thread_id] = position
        return positions

    def _ids_in_order(self) -> list[str]:
        """The ids of all conversations, those without setbacks and the oldest first."""

        def order(thread_id: str) -> tuple[int, str]:
            position = self.stored.thread(thread_id).position
            return position.setbacks, self.there[thread_id]

        return sorted(self.there, key=order)

    def read_whole(self) -> set[str]:
        """The conversations of which nothing is left to read."""
        read = set[str]()
        for thread_id, thread in self.stored.threads.items():
            changed_at = self.there.get(thread_id)
            if changed_at == thread.position.updated_at:
                read.add(thread_id)
        return read

    def counted(self, dream: Dream) -> Dream:
        """A dream with the present numbers of conversations."""
        given_up = 0
        for thread in self.stored.threads.values():
            if thread.position.setbacks >= MOST_SETBACKS:
                given_up += 1
        read = self.read_whole()
        return replace(
            dream,
            conversations=len(self.there),
            read=len(read),
            left_out=given_up,
        )

    def sources(self) -> dict[str, Source]:
        """Who vouches for the entries of the draft."""
        known = dict[str, Source]()
        files = self.stored.files
        for file in files.values():
            known |= file.sources
        return known

    def files(self) -> dict[str, FileData]:
        """The draft's files, by key."""
        files = dict[str, FileData]()
        drafted = self.stored.files
        for key, file in drafted.items():
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
    # In pages, so that few messages are in memory at once.
    for ids in _pages([*there]):
        page = dict.fromkeys(ids, Position())
        due, _ = await unread_turns(deployment, threads, owner, page, kept_out)
        for item in due:
            said += item.tokens
            turns = item.conversation.turns
            messages += len(turns)
    conversations = len(there)
    by_size = _batches(said, rules.batch_tokens)
    by_number = _batches(conversations, MOST_SHOWN)
    beside = (by_size + by_number) * CALL_TOKENS
    tokens = _CALLS * (beside + said)
    return Estimate(tokens, conversations, messages)


def _batches(total: int, most: int) -> int:
    """The batches that so many take, with at most so many in one."""
    full, rest = divmod(total, most)
    return full + 1 if rest else full


# --- The draft


class Spoken:
    """What is said in the conversations of a batch, which are given by id: for the one that a line
    came of. Blocks.
    """

    def __init__(self, said: Mapping[str, str]) -> None:
        self._language = recall.language("\n".join(said.values()))
        self._stems = dict[str, frozenset[str]]()
        for thread_id, text in said.items():
            self._stems[thread_id] = frozenset(recall.stems(text, self._language))

    def origins(self, entry: str) -> set[str]:
        """The conversations that have all words of an entry; all of them, where none has."""
        wanted = frozenset(recall.stems(text_of(entry), self._language))
        saying = set[str]()
        for thread_id, stems in self._stems.items():
            if wanted and wanted <= stems:
                saying.add(thread_id)
        return saying or set(self._stems)


def after_batch(
    stored: Stored, changed: Iterable[Changed], sources: Sources, spoken: Spoken
) -> tuple[dict[str, DraftFile | None], set[str]]:
    """The files that a batch of conversations changes, and the conversations of which it took lines
    out. Blocks.

    What it put in is from its conversations (`Spoken.origins`), and from those of the lines in whose
    place it stands. A line that moved is from where it was.
    """
    moved_from = dict[str, Sequence[str]]()
    for file in stored.files.values():
        moved_from |= file.origins
    files = dict[str, DraftFile | None]()
    replaced = set[str]()
    for change in changed:
        key = change.key
        old = stored.files.get(key) or DraftFile("")
        lost = _origins_lost(old, change)
        replaced |= lost
        if change.deleted and not change.after:
            files[key] = None
            continue
        origins = _origins_after(old, change, moved_from, lost, spoken)
        added_sources = sources.get(change.path, {})
        known = {**old.sources, **added_sources}
        present = entries(key, change.after)
        files[key] = DraftFile(change.after, origins, sources=_only(known, present))
    return files, replaced


def _origins_lost(old: DraftFile, change: Changed) -> set[str]:
    """The conversations that the entries are from which a change takes out."""
    present = {*entries(change.key, change.after)}
    lost = set[str]()
    for entry in entries(change.key, old.content):
        if entry not in present:
            origins = old.origins.get(entry, ())
            lost.update(origins)
    return lost


def _origins_after(
    old: DraftFile,
    change: Changed,
    moved_from: Mapping[str, Sequence[str]],
    lost: Collection[str],
    spoken: Spoken,
) -> dict[str, Sequence[str]]:
    """The conversations that the entries of a changed file are from."""
    was_there = set(entries(change.key, old.content))
    origins = dict[str, Sequence[str]]()
    for entry in entries(change.key, change.after):
        if entry in was_there:
            known = old.origins.get(entry)
            if known is not None:
                origins[entry] = known
        else:
            known = moved_from.get(entry)
            origins[entry] = known or sorted(spoken.origins(entry).union(lost))
    return origins


def _only(of_entries: Mapping[str, _Kept], present: Collection[str]) -> dict[str, _Kept]:
    """What is known of the entries that are present."""
    wanted = set(present)
    found = dict[str, _Kept]()
    for entry, known in of_entries.items():
        if entry in wanted:
            found[entry] = known
    return found


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
        dropped = _entries_from(file, gone)
        if not dropped:
            continue
        for entry in dropped:
            origins = file.origins[entry]
            again.update(origins)
        files[key] = _without_entries(key, file, dropped)
    for thread_id in gone:
        thread = stored.thread(thread_id)
        again.update(thread.replaced)
    again.update(gone)
    unread = again & stored.threads.keys()
    threads: dict[str, ReadThread | None] = dict.fromkeys(unread)
    return files, threads


async def drop_threads(store: BaseStore, actor: Actor, gone: Collection[str]) -> None:
    """Take what came of these conversations, which were deleted, out of a draft that waits, and out
    of what dreams propose.
    """
    stored = await stored_dream(store, actor)
    is_of_draft = not stored.threads.keys().isdisjoint(gone)
    if stored.dream is not None and is_of_draft:
        files, threads = await platform.in_thread(without_threads, stored, gone)
        # A run that is at work may put a text from before this: the next one drops the lines of
        # those of which something is noted here.
        again = dict[str, ReadThread | None]()
        for thread_id, thread in threads.items():
            if thread_id not in gone:
                again[thread_id] = thread
        puts = ops(actor, stored.dream, files, again)[:-1]  # it may have come further meanwhile
        await journal.put_unless_forgotten(store, puts, journal.Began(actor))
    await drop_threads_of_proposals(store, actor, gone)


def _entries_from(file: DraftFile, thread_ids: Collection[str]) -> set[str]:
    """The entries of a file that came of one of these conversations, or of it and others."""
    found = set[str]()
    for entry, origins in file.origins.items():
        if not {*origins}.isdisjoint(thread_ids):
            found.add(entry)
    return found


def _without_entries(key: str, file: DraftFile, dropped: Collection[str]) -> DraftFile | None:
    """A file of the draft without these entries. JSON goes whole: its other values are read again
    with the conversations.
    """
    if key.endswith(".json"):
        return None
    kept = list[str]()
    for line in file.content.split("\n"):
        of_line = entries(key, line)
        is_dropped = bool(of_line) and of_line[0] in dropped
        if not is_dropped:
            kept.append(line)
    content = "\n".join(kept)
    return _cut(key, file, content)


def _cut(key: str, file: DraftFile, content: str) -> DraftFile | None:
    """A file with less of its text; None without any."""
    if not content.strip():
        return None
    present = entries(key, content)
    origins = _only(file.origins, present)
    sources = _only(file.sources, present)
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
        puts = ops(actor, stored.dream, files)
        puts.pop()  # the dream itself: a run may have come further meanwhile
        await journal.put_unless_forgotten(store, puts, began)
    return len(files)


def _files_without(files: Mapping[str, DraftFile], fact: Fact) -> dict[str, DraftFile | None]:
    """The files that have a fact, without it. Blocks."""
    cleaned = dict[str, DraftFile | None]()
    for key, file in files.items():
        content = fact.cleaned(key, file.content)
        is_in_text = content != file.content
        has_fact = is_in_text or _is_in_origins(fact, file)
        if has_fact:
            cleaned[key] = _cut(key, file, content)
    return cleaned


def _is_in_origins(fact: Fact, file: DraftFile) -> bool:
    for entry in file.origins:
        text = text_of(entry)
        if fact.is_in(text):
            return True
    return False


async def exported_dream(store: BaseStore, actor: Actor) -> dict[str, Any] | None:
    """A person's dream and its draft, for an export; None without one."""
    stored = await stored_dream(store, actor)
    dream = stored.dream
    if dream is None:
        return None
    texts = dict[str, str]()
    for key, file in stored.files.items():
        texts[f"/memories{key}"] = file.content
    return {
        "began": dream.began,
        "status": dream.status,
        "cap": dream.cap,
        "tokens": dream.tokens,
        "conversations": dream.conversations,
        "read": dream.read,
        "files": texts,
    }
