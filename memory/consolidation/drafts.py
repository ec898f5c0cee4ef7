"""Drafts: each batch works on a private copy of the person's memory files until it is accepted.

A draft is in the memory of this process. Parallel tools lose no writes in it, and a run that dies has changed nothing. A run
that goes on in another process has no draft, and begins its batch again.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from langgraph.store.base import BaseStore, Item, PutOp
from langgraph.store.memory import InMemoryStore

from memory import identity, namespaces
from memory.consolidation.due import Due
from memory.consolidation.positions import Position
from memory.consolidation.run_records import Record
from memory.consolidation.taken_back import Said
from memory.journal import all_items
from memory.validation import RefusedWriteError
from settings import MAX_MEMORY_FILES

# More runs than one process has at once. A run whose draft is dropped begins its batch again.
_KEPT = 100


@dataclass(slots=True, kw_only=True)
class Draft:
    """One batch: the conversations that the model works on at once, and its copy of the files."""

    origin: BaseStore  # to which accepted changes go; for a dry run its `rehearsal`
    files: namespaces.Namespace  # the same in the copy and in the origin
    base: Mapping[str, Item]  # the copied items, by key
    follows: str  # id of the last accepted batch before the copy (`memory/consolidation/acceptance.py`)
    shown: Sequence[Due]
    text: str  # the conversations as the model reads them, with the files about them
    more: bool  # whether other conversations are due
    reason: str  # why the first attempt was refused; "" in the first
    skipped: Sequence[str]  # threads that the rest of the run leaves out, because their batch was refused twice
    report: Record  # the run's record so far
    said: Sequence[Said] = ()  # what the person said in these conversations since they first took something back
    steps: int = 0  # model calls
    stuck: str = ""  # the call that the model repeats although it is refused
    given_up: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # by path (`forget_lines`)
    id: str = field(default_factory=lambda: str(uuid4()))
    store: BaseStore = field(default_factory=InMemoryStore)

    async def copy(self) -> None:
        """Fill the copy."""
        await self.store.abatch([_put(self.files, item) for item in self.base.values()])

    async def now(self) -> dict[str, Item]:
        """The copy's present files."""
        return await files_of(self.store, self.files)

    def positions(self) -> dict[str, Position]:
        """The additions to the threads' positions once this batch is accepted, by thread id."""
        return {item.conversation.thread_id: item.position() for item in self.shown}


async def files_of(store: BaseStore, files: namespaces.Namespace) -> dict[str, Item]:
    """All files of a namespace, by key."""
    return {item.key: item for item in await store.asearch(files, limit=MAX_MEMORY_FILES + 1)}


async def rehearsal(store: BaseStore, actor: identity.Actor, files: namespaces.Namespace) -> BaseStore:
    """A copy in memory of all that a run changes, so that a dry run takes the same way and changes nothing."""
    copy, kinds = InMemoryStore(), (namespaces.forgotten, namespaces.lease, namespaces.positions, namespaces.proposals)
    for namespace in (files, *(kind(actor) for kind in kinds)):
        await copy.abatch([_put(namespace, item) for item in await all_items(store, namespace)])
    return copy


def _put(namespace: namespaces.Namespace, item: Item) -> PutOp:
    """The item without its revision number, because a copy has no journal."""
    return PutOp(namespace, item.key, {name: of for name, of in item.value.items() if not name.startswith("revision")})


class Drafts:
    """The drafts of this process, one a run."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._drafts: OrderedDict[str, Draft] = OrderedDict()
        self._kept = kept

    def begin(self, draft: Draft) -> None:
        """Put a draft in place of the current run's last one."""
        self.end()
        self._drafts[_run_id()] = draft
        while len(self._drafts) > self._kept:
            self._drafts.popitem(last=False)

    def current(self, batch: str) -> Draft | None:
        """The current run's draft for this batch; None if it is gone, or belongs to another batch."""
        draft = self._drafts.get(_run_id())
        return draft if draft and draft.id == batch else None

    def last(self) -> Draft | None:
        """The current run's draft, whatever its batch."""
        return self._drafts.get(_run_id())

    def end(self) -> None:
        """Drop the current run's draft."""
        self._drafts.pop(_run_id(), None)

    def store(self) -> BaseStore | None:
        """The store of the current run's memory files; None for the real store, which only scripts use.

        Raises:
            RefusedWriteError: the process that had the draft is gone.
        """
        if not identity.on_server():
            return None
        if draft := self._drafts.get(_run_id()):
            return draft.store
        raise RefusedWriteError("This consolidation was interrupted; it begins again.")


def _run_id() -> str:
    return identity.current_run_id() or ""
