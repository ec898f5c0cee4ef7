"""The store of dreams (`dreams.py`). A person has one dream, in `namespaces.dream`, beside memory:

- the item `state` is the `Dream`, which says how far it is;
- an item `file <key>` is one of its files (`DreamFile`);
- an item `thread <id>` says how far it has read a conversation (`ReadThread`);
- the item `stopped` names the dream that its person stopped, so that a run that is at work does not
  bring it back.

Once a dream is over (proposed, or ended without a proposal), only `state` is left.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from langgraph.store.base import BaseStore, Item, PutOp
from pydantic import TypeAdapter, ValidationError

from lasting_memory import platform
from lasting_memory.consolidation.dreams import (
    Dream,
    DreamFile,
    DreamFiles,
    DreamUpdate,
    ReadThread,
    ReadThreads,
    StoredDream,
)
from lasting_memory.memory import journal
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor

# The keys of the items.
_STATE = "state"
_STOPPED = "stopped"
_FILE = "file "
_THREAD = "thread "
_DREAMS = TypeAdapter(Dream)
_FILES = TypeAdapter(DreamFile)
_THREADS = TypeAdapter(ReadThread)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class DreamStore:
    """A person's dream in the store, for a run or a request, its `writer`.

    Nothing is stored for a person who was forgotten since then. None: nobody can be.
    """

    store: BaseStore
    actor: Actor
    writer: journal.Writer | None = None

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
        present_dream = await self.dream()
        if present_dream is None or present_dream.id != dream.id:
            return False
        return present_dream.may_go_on

    async def begin(self, dream: Dream, files: Mapping[str, DreamFile]) -> bool:
        """Store a new dream with its first files, in place of one that is over. Returns whether it
        did. It does not, too, if a fact was deleted for good since this began.
        """
        stored_dream = await self.read()
        update = stored_dream.deletion()
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
        stored_dream = await self.read()
        update = stored_dream.deletion()
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
        stopped_dream = replace(dream, status="ended", reason="stopped")
        return await self.end(stopped_dream)

    async def _put(self, ops: Sequence[PutOp], *, quotes_facts: bool = False) -> bool:
        """Carry out these operations. Returns whether it did, as `journal.put_unless_forgotten`."""
        return await journal.put_unless_forgotten(
            self.store, ops, self.writer, quotes_facts=quotes_facts
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
    stored_value: dict[str, object] = type_adapter.dump_python(value, mode="json")
    return stored_value


async def dream_of(store: BaseStore, actor: Actor) -> Dream | None:
    """A person's dream, whatever became of it; None if there was none, or it is damaged."""
    dreams = DreamStore(store, actor)
    return await dreams.dream()


async def stop(store: BaseStore, actor: Actor, dream: Dream, writer: journal.Writer | None) -> bool:
    """End a dream at its person's word. Returns whether it did: not for a person who was forgotten
    since the `writer` began.
    """
    dreams = DreamStore(store, actor, writer)
    return await dreams.stop(dream)


async def exported_dream(store: BaseStore, actor: Actor) -> dict[str, object] | None:
    """A person's dream with its files, for an export; None without a dream."""
    stored_dream = await DreamStore(store, actor).read()
    dream = stored_dream.dream
    if dream is None:
        return None
    texts = dict[str, str]()
    for key, file in stored_dream.files.items():
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
