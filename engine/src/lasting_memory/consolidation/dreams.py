"""Dreams: a person's memory that is built anew from all of their conversations, by many runs.

A person has one dream. What it has built so far are the *dream's files*, which are like those of
memory. It is stored in `namespaces.dream`, beside memory:

- the item `state` is the `Dream`, which says how far it is;
- an item `file <key>` is one of its files (`DreamFile`);
- an item `thread <id>` says how far it has read a conversation (`ReadThread`);
- the item `stopped` names the dream that its person stopped, so that a run that is at work does not
  bring it back.

Once a dream is over (proposed, or ended without a proposal), only `state` is left. `dream_files.py`
changes the files, `dream_threads.py` finds the conversations to read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from langgraph.store.base import BaseStore, Item, PutOp
from pydantic import TypeAdapter, ValidationError

from lasting_memory import platform
from lasting_memory.consolidation.positions import Position
from lasting_memory.deployment import Source
from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor

# "reading": its runs read conversations. "paused" and "failed": it waits for its person to go on
# with it. "proposed" and "ended": it is over, and has no files any more.
Status = Literal["reading", "paused", "proposed", "ended", "failed"]
# Why it is over, or waits, in a word for which the page has a sentence.
Reason = Literal[
    "",
    "paused",  # the person paused consolidation
    "cap",  # its tokens are used
    "same",  # nothing would change
    "stopped",  # the person stopped it
    "no_answer",  # the model gave none, again and again
    "undecided",  # too many proposals wait for the person
    "refused",  # memory does not take its proposal
    "decided",  # the person decided about its proposal
    "deleted",  # its proposal is gone, as its conversations are
]

# The keys of the items.
_STATE = "state"
_STOPPED = "stopped"
_FILE = "file "
_THREAD = "thread "


@dataclass(frozen=True, slots=True)
class Dream:
    """How far a dream is. `tokens` are those that it used, of at most `cap`.

    Of its conversations it counts all (`conversations`), those that are read whole (`read`), and
    those that are given up, because no batch could be kept (`left_out`); and the `messages` that it
    has read.
    """

    id: str
    began: str  # in ISO format, UTC
    memory: str  # the last part of the namespace of the files that it is about
    cap: int
    assistant_id: str = ""  # whose conversations it reads; "": all
    tokens: int = 0
    conversations: int = 0
    read: int = 0
    left_out: int = 0
    messages: int = 0
    status: Status = "reading"
    reason: Reason = ""
    failures: int = 0  # runs that failed, one after another

    @property
    def proposal_id(self) -> str:
        """The id of its proposal, and of its record."""
        return f"dream-{self.id}"

    @property
    def may_go_on(self) -> bool:
        """Whether it is not over, and has files."""
        return self.status in {"reading", "paused", "failed"}


@dataclass(frozen=True, slots=True)
class DreamFile:
    """A file of a dream.

    `origins` has the ids of the conversations that an entry (`memory.entries.entries`) is from; it
    has no entry that the person wrote by hand. `sources` says who vouches for an entry.
    """

    content: str
    origins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadThread:
    """How far a dream has read a conversation. `replaced` are the ids of other conversations whose
    lines its batches took out of the dream's files.
    """

    position: Position = Position()  # noqa: RUF009  # frozen
    replaced: Sequence[str] = ()


# Files of a dream are given by key, what is read of conversations by id.
DreamFiles = dict[str, DreamFile]
ReadThreads = dict[str, ReadThread]
# None deletes what is stored of one.
FileUpdates = dict[str, DreamFile | None]
ThreadUpdates = dict[str, ReadThread | None]


@dataclass(frozen=True, slots=True)
class DreamUpdate:
    """What changes of a dream: some of its files, and how far some conversations are read."""

    files: FileUpdates = field(default_factory=FileUpdates)
    threads: ThreadUpdates = field(default_factory=ThreadUpdates)


@dataclass(frozen=True, slots=True)
class StoredDream:
    """What the store has of a person's dream: how far it is, its files, and what it has read of
    conversations. `dream` is None if there was none, or it is damaged.
    """

    dream: Dream | None
    files: DreamFiles
    threads: ReadThreads

    def thread(self, thread_id: str) -> ReadThread:
        """What is read of a conversation; of an unknown one nothing is."""
        thread = self.threads.get(thread_id)
        return thread or ReadThread()

    def updated(self, update: DreamUpdate) -> "StoredDream":
        """What is stored once this update is."""
        files = _updated(self.files, update.files)
        threads = _updated(self.threads, update.threads)
        return StoredDream(self.dream, files, threads)

    def deletion(self) -> DreamUpdate:
        """The update that deletes all files, and what is read."""
        files = FileUpdates.fromkeys(self.files)
        threads = ThreadUpdates.fromkeys(self.threads)
        return DreamUpdate(files, threads)


_DREAMS = TypeAdapter(Dream)
_FILES = TypeAdapter(DreamFile)
_THREADS = TypeAdapter(ReadThread)
_Value = TypeVar("_Value")


def _updated(
    values: Mapping[str, _Value], updates: Mapping[str, _Value | None]
) -> dict[str, _Value]:
    """The values once these updates are carried out. None deletes one."""
    updated = dict(values)
    for key, value in updates.items():
        if value is None:
            updated.pop(key, None)
        else:
            updated[key] = value
    return updated


# --- Its store


@dataclass(frozen=True, slots=True)
class DreamStore:
    """A person's dream in the store, for a run or a request that `began` at a time.

    Nothing is stored for a person who was forgotten since then. None: nobody can be.
    """

    store: BaseStore
    actor: Actor
    began: journal.Began | None = None

    async def dream(self) -> Dream | None:
        """The dream, whatever became of it; None if there was none, or it is damaged."""
        place = namespaces.dream(self.actor)
        item = await self.store.aget(place, _STATE)
        if item is None:
            return None
        return _loaded(_DREAMS, item)

    async def read(self) -> StoredDream:
        """The dream with its files, and what it has read."""
        place = namespaces.dream(self.actor)
        items = await journal.all_items(self.store, place)
        return await platform.in_thread(_stored_dream_in, items)

    async def is_going_on(self, dream: Dream) -> bool:
        """Whether this dream still waits to be finished, and no other one is in its place."""
        present = await self.dream()
        if present is None or present.id != dream.id:
            return False
        return present.may_go_on

    async def begin(self, dream: Dream, files: Mapping[str, DreamFile]) -> bool:
        """Store a new dream with its first files, in place of one that is over. Returns whether it
        did. It does not, too, if a fact was deleted for good since this began.
        """
        stored = await self.read()
        update = stored.deletion()
        update.files.update(files)
        ops = self._dream_ops(dream, update)
        return await self._put(ops, quotes_facts=True)

    async def put_progress(self, dream: Dream, update: DreamUpdate) -> bool:
        """Store how far a dream is now, with an update of it. Returns whether that stands.

        It does not if the dream is over, if another one is in its place or if its person stops it
        meanwhile; nor if the person was forgotten, or a fact deleted for good, since this began.
        """
        if not await self.is_going_on(dream):
            return False
        ops = self._dream_ops(dream, update)
        is_put = await self._put(ops, quotes_facts=True)
        if not is_put:
            return False
        if await self._is_stopped(dream):
            await self._end_stopped(dream)
            return False
        return True

    async def put_files(self, update: DreamUpdate) -> None:
        """Store an update, but not how far the dream is: a run may have come further meanwhile."""
        ops = self._update_ops(update)
        await self._put(ops)

    async def end(self, dream: Dream) -> bool:
        """Store how a dream ended, and delete all else of it. Returns whether it did."""
        stored = await self.read()
        update = stored.deletion()
        ops = self._dream_ops(dream, update)
        return await self._put(ops)

    async def stop(self, dream: Dream) -> bool:
        """End a dream at its person's word. Returns whether it did."""
        mark = self._op(_STOPPED, {"id": dream.id})
        is_marked = await self._put([mark])
        if not is_marked:
            return False
        return await self._end_stopped(dream)

    async def _is_stopped(self, dream: Dream) -> bool:
        """Whether the person has stopped this dream."""
        place = namespaces.dream(self.actor)
        mark = await self.store.aget(place, _STOPPED)
        if mark is None:
            return False
        stopped_id: object = mark.value.get("id")
        return stopped_id == dream.id

    async def _end_stopped(self, dream: Dream) -> bool:
        """Store that its person stopped a dream, as `end` does."""
        stopped = replace(dream, status="ended", reason="stopped")
        return await self.end(stopped)

    async def _put(self, ops: Sequence[PutOp], *, quotes_facts: bool = False) -> bool:
        """Carry out these operations. Returns whether it did, as `journal.put_unless_forgotten`."""
        return await journal.put_unless_forgotten(
            self.store, ops, self.began, quotes_facts=quotes_facts
        )

    def _dream_ops(self, dream: Dream, update: DreamUpdate) -> list[PutOp]:
        """The operations that store how far a dream is, and an update of it.

        The state comes last: where a process dies before that, its batch is read once more.
        """
        ops = self._update_ops(update)
        state = _dumped(_DREAMS, dream)
        ops.append(self._op(_STATE, state))
        return ops

    def _update_ops(self, update: DreamUpdate) -> list[PutOp]:
        """The operations that store an update."""
        ops = list[PutOp]()
        for key, file in update.files.items():
            value = _dumped(_FILES, file)
            op = self._op(f"{_FILE}{key}", value)
            ops.append(op)
        for thread_id, thread in update.threads.items():
            value = _dumped(_THREADS, thread)
            op = self._op(f"{_THREAD}{thread_id}", value)
            ops.append(op)
        return ops

    def _op(self, key: str, value: dict[str, object] | None) -> PutOp:
        """The operation that stores an item of the dream; None as value deletes it."""
        place = namespaces.dream(self.actor)
        return PutOp(place, key, value, index=False)


def _stored_dream_in(items: Iterable[Item]) -> StoredDream:
    """The dream that these items hold. A damaged item is left out: it is read again. Blocks."""
    dream: Dream | None = None
    files = DreamFiles()
    threads = ReadThreads()
    for item in items:
        if item.key == _STATE:
            dream = _loaded(_DREAMS, item)
        elif item.key.startswith(_FILE):
            file = _loaded(_FILES, item)
            if file is not None:
                key = item.key.removeprefix(_FILE)
                files[key] = file
        elif item.key.startswith(_THREAD):
            thread = _loaded(_THREADS, item)
            if thread is not None:
                thread_id = item.key.removeprefix(_THREAD)
                threads[thread_id] = thread
    return StoredDream(dream, files, threads)


def _loaded(type_adapter: "TypeAdapter[_Value]", item: Item) -> _Value | None:
    """The value that an item holds; None for a damaged one."""
    try:
        return type_adapter.validate_python(item.value)
    except ValidationError:
        return None


def _dumped(type_adapter: "TypeAdapter[_Value]", value: _Value | None) -> dict[str, object] | None:
    """A value as it is stored; None, which deletes what is stored, stays None."""
    if value is None:
        return None
    stored: dict[str, object] = type_adapter.dump_python(value, mode="json")
    return stored


# --- For requests of the person


async def dream_of(store: BaseStore, actor: Actor) -> Dream | None:
    """A person's dream, whatever became of it; None if there was none, or it is damaged."""
    dreams = DreamStore(store, actor)
    return await dreams.dream()


async def stop(store: BaseStore, actor: Actor, dream: Dream, began: journal.Began | None) -> bool:
    """End a dream at its person's word. Returns whether it did: not for a person who was forgotten
    since this `began`.
    """
    dreams = DreamStore(store, actor, began)
    return await dreams.stop(dream)


async def exported_dream(store: BaseStore, actor: Actor) -> dict[str, object] | None:
    """A person's dream with its files, for an export; None without a dream."""
    stored = await DreamStore(store, actor).read()
    dream = stored.dream
    if dream is None:
        return None
    texts = dict[str, str]()
    for key, file in stored.files.items():
        path = f"/memories{key}"
        texts[path] = file.content
    return {
        "began": dream.began,
        "status": dream.status,
        "cap": dream.cap,
        "tokens": dream.tokens,
        "conversations": dream.conversations,
        "read": dream.read,
        "files": texts,
    }
