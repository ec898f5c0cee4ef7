"""Proposals: changes that consolidation would make, kept until the person decides about each file.

Each memory has one item in the namespace `proposals`. The journal changes it, so each decision is one atomic step. The
conversations of a proposal count as consolidated from its beginning: after a refusal they are not read again. A newer proposal
assumes that the older ones are accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from langgraph.store.base import BaseStore, Item

from memory import namespaces
from memory.consolidation.applying import Applicable
from memory.consolidation.kept import KeptValue
from memory.identity import Actor
from memory.journal import Epoch
from memory.namespaces import Namespace
from settings import MAX_MEMORY_BYTES

# Undecided proposals of a person, at which consolidation stops proposing.
MAX_PROPOSALS = 20
# Ids of decided proposals.
_DECIDED_KEPT = 100


@dataclass(frozen=True, slots=True)
class Proposal(Applicable):
    """Changes that wait for the person. `changes` are the undecided ones, `at` is the time of the proposal.

    Args:
        threads: ids of the conversations they come from.
        accepted: by path, the time at which a change was accepted that may not be applied yet.
        decided: paths of decided changes.
    """

    threads: list[str]
    accepted: dict[str, str] = field(default_factory=dict)
    decided: list[str] = field(default_factory=list)

    def shown(self) -> dict[str, Any]:
        """The proposal for its person. Blocks; call it in a thread."""
        files = {change.path: change.diff() for change in self.changes}
        return {"id": self.id, "at": self.at, "files": files, "threads": self.threads}

    def without(self, paths: Iterable[str]) -> Proposal:
        """The proposal after a decision about these paths."""
        gone = set(paths)
        return replace(
            self,
            changes=[change for change in self.changes if change.path not in gone],
            accepted={path: at for path, at in self.accepted.items() if path not in gone},
            decided=sorted({*self.decided, *gone}),
        )


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

    def find(self, proposal_id: str) -> Proposal | None:
        return next((each for each in self.waiting if each.id == proposal_id), None)

    def replaced(self, proposal: Proposal) -> Proposals:
        """With a newer form of one proposal."""
        waiting = [proposal if each.id == proposal.id else each for each in self.waiting]
        over = [each.id for each in waiting if not each.changes]
        return Proposals([each for each in waiting if each.changes], [*self.decided, *over][-_DECIDED_KEPT:])


PROPOSALS = KeptValue(Proposals, Proposals(), namespaces.proposals)


def with_proposals(base: Mapping[str, Item], waiting: Iterable[Proposal]) -> dict[str, Item]:
    """The files with all proposals accepted, without changes that cannot be merged. Blocks; call it in a thread."""
    items = dict(base)
    for change in (change for proposal in waiting for change in proposal.changes):
        try:
            after = change.item(items.get(change.key))
        except ValueError:
            continue
        items.pop(change.key, None)
        if after:
            items[change.key] = after
    return items


async def propose(store: BaseStore, actor: Actor, files: Namespace, proposal: Proposal, epoch: Epoch | None) -> None:
    """Keep a proposal, unless it is known already."""

    def kept(now: Proposals) -> Proposals:
        known = proposal.id in now.decided or now.find(proposal.id)
        return now if known else replace(now, waiting=[*now.waiting, proposal])

    await PROPOSALS.change(store, actor, files, kept, epoch)
