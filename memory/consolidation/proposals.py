"""Proposals: changes that consolidation would make, kept until the person decides about each file.

Each memory has one item in the namespace `proposals`. The journal changes it, so each decision is one atomic step. The
conversations of a proposal count as consolidated from its beginning: after a refusal they are not read again. A newer proposal
assumes that the older ones are accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from langgraph.store.base import BaseStore, Item
from pydantic import TypeAdapter

from memory import namespaces
from memory.consolidation.guard import Changed
from memory.consolidation.kept import KeptValue
from memory.identity import Actor, Author
from memory.journal import Epoch
from memory.namespaces import Namespace
from memory.validation import stored_file
from settings import MAX_MEMORY_BYTES

# Undecided proposals of a person, at which consolidation stops proposing.
MAX_PROPOSALS = 20
# Ids of decided proposals.
_DECIDED_KEPT = 100


@dataclass(frozen=True, slots=True)
class Proposal:
    """Changes that wait for the person.

    Args:
        id: a UUID with dashes, as ids in HTTP paths are spelled (`access/request_bounds.py`).
        at: ISO time in UTC.
        author: the author of their revisions.
        threads: ids of the conversations they come from.
        changes: the undecided ones.
        accepted: by path, the time at which a change was accepted that may not be applied yet.
        decided: paths of decided changes.
    """

    id: str
    at: str
    author: Author
    threads: list[str]
    changes: list[Changed]
    accepted: dict[str, str] = field(default_factory=dict)
    decided: list[str] = field(default_factory=list)

    def shown(self) -> dict[str, Any]:
        """The proposal for its person. Blocks; call it in a thread."""
        files = {change.path: change.diff() for change in self.changes}
        return {"id": self.id, "at": self.at, "files": files, "threads": self.threads}


@dataclass(frozen=True, slots=True)
class Proposals:
    """A memory's undecided proposals, oldest first, and the ids of the last decided ones."""

    waiting: list[Proposal] = field(default_factory=list)
    decided: list[str] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether consolidation stops proposing until the person decides."""
        size = sum(len(change.before) + len(change.after) for each in self.waiting for change in each.changes)
        return len(self.waiting) >= MAX_PROPOSALS or size > MAX_MEMORY_BYTES

    def replaced(self, proposal: Proposal) -> Proposals:
        """With a newer form of one proposal."""
        waiting = [proposal if each.id == proposal.id else each for each in self.waiting]
        over = [each.id for each in waiting if not each.changes]
        return Proposals([each for each in waiting if each.changes], [*self.decided, *over][-_DECIDED_KEPT:])


_PROPOSALS = KeptValue(TypeAdapter(Proposals), Proposals())


def with_proposals(base: Mapping[str, Item], waiting: Iterable[Proposal]) -> dict[str, Item]:
    """The files with all proposals accepted, without changes that cannot be merged. Blocks; call it in a thread."""
    items = dict(base)
    for change in (change for proposal in waiting for change in proposal.changes):
        item = items.get(change.key)
        try:
            file = change.applied_to(stored_file(item) if item else None)
        except ValueError:
            continue
        if file is None:
            items.pop(change.key, None)
        elif item is None or file["content"] != item.value.get("content"):
            now = datetime.now(UTC)
            value = {**(item.value if item else {}), **file}
            items[change.key] = Item(value=value, key=change.key, namespace=("draft",), created_at=now, updated_at=now)
    return items


async def propose(store: BaseStore, actor: Actor, files: Namespace, proposal: Proposal, epoch: Epoch | None) -> None:
    """Keep a proposal, unless it is known already."""

    def kept(now: Proposals) -> Proposals | None:
        known = proposal.id in now.decided or any(each.id == proposal.id for each in now.waiting)
        return None if known else replace(now, waiting=[*now.waiting, proposal])

    await change_proposals(store, actor, files, kept, epoch)


async def change_proposals(
    store: BaseStore, actor: Actor, files: Namespace, change: Callable[[Proposals], Proposals | None], epoch: Epoch | None
) -> None:
    """Change a memory's proposals in one atomic step; a `change` to None leaves them as they are."""
    await _PROPOSALS.change(store, namespaces.proposals(actor), files, change, epoch)


async def read_proposals(store: BaseStore, actor: Actor, files: Namespace) -> Proposals:
    item = await store.aget(namespaces.proposals(actor), _PROPOSALS.key(files))
    return await asyncio.to_thread(_PROPOSALS.of_item, item)
