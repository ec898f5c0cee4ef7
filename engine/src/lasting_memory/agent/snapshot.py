"""What a run shows of the store: policies, memory, controls and skills, read once, in one batch.

The prompt, the skills and the subagents of a run share what the first of them has read.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock

from langgraph.store.base import BaseStore, Item, Op, SearchOp

from lasting_memory.conversations.marks import in_temporary_conversation
from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.controls import Controls, control_ops, controls_of
from lasting_memory.people import namespaces
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Actor
from lasting_memory.people.namespaces import Namespace

# Policy files of one organization among which a run looks for top-level rules. Files that rules
# refer to are among them.
MAX_POLICY_FILES = 1_000
# Runs whose snapshots a process keeps, and characters of all their files. A run whose snapshot is
# gone reads again.
_RUNS_KEPT = 256
_CHARS_KEPT = 16_777_216


@dataclass(frozen=True)
class Snapshot:
    """What the store held for a person with an assistant when it was read.

    Attributes:
        policies: files of the organization, `MAX_POLICY_FILES` at most.
        controls: the person's.
        memory: all files of the memory, sorted by key; none in a temporary conversation.
        skills: the assistant's files of skills, sorted by key.
        is_temporary: whether it was read in a temporary conversation.
    """

    policies: Sequence[Item]
    controls: Controls
    memory: Sequence[Item]
    skills: Sequence[Item]
    is_temporary: bool

    @property
    def lacks_policies(self) -> bool:
        """Whether the organization may have more files than were read."""
        return len(self.policies) >= MAX_POLICY_FILES

    @property
    def chars(self) -> int:
        """Characters of all files."""
        chars = 0
        for item in (*self.policies, *self.memory, *self.skills):
            content = str(item.value.get("content", ""))
            chars += len(content)
        return chars


async def read_snapshot(
    d: Deployment, store: BaseStore, actor: Actor, assistant: str, *, with_skills: bool = True
) -> Snapshot:
    """What the store holds now, in one batch for as many files as one search finds."""
    is_temporary = in_temporary_conversation()
    places = dict[str, Namespace]()
    if d.has_memory and not is_temporary:
        places["memory"] = d.memory.namespace(actor, assistant)
    if with_skills and "/skills/" in d.routes:
        scope = d.scope("/skills/")
        places["skills"] = scope.namespace(actor, assistant)
    of_policies = namespaces.policies(actor.org_id)
    reads: list[Op] = [SearchOp(of_policies, limit=MAX_POLICY_FILES)]
    reads += control_ops(actor)
    found, others = await journal.all_items_and(store, list(places.values()), reads)
    files = dict(zip(places, found, strict=True))
    policies, *read = others
    # A search also finds what is stored below a namespace.
    own_policies = [item for item in policies if item.namespace == of_policies]
    return Snapshot(
        policies=own_policies,
        controls=controls_of(read, d),
        memory=files.get("memory", []),
        skills=files.get("skills", []),
        is_temporary=is_temporary,
    )


class RunSnapshots:
    """The snapshots of the last runs of a deployment, by the run's id.

    `chars` are the characters of all their files.
    """

    def __init__(self, d: Deployment) -> None:
        self._deployment = d
        self._kept = OrderedDict[str, Snapshot]()
        self.chars = 0
        # Runs may be in threads of their own.
        self._lock = Lock()

    async def of_run(self, store: BaseStore, caller: Caller) -> Snapshot:
        """The snapshot of the caller's run, read where it is not there yet.

        Without a server, which gives run ids, each call reads.
        """
        run_id = caller.run_id
        kept = self._kept.get(run_id)
        if kept is not None:
            return kept
        snapshot = await read_snapshot(self._deployment, store, caller.actor, caller.assistant)
        if run_id:
            self._keep(run_id, snapshot)
        return snapshot

    def _keep(self, run_id: str, snapshot: Snapshot) -> None:
        with self._lock:
            replaced = self._kept.pop(run_id, None)
            if replaced is not None:
                self.chars -= replaced.chars
            self._kept[run_id] = snapshot
            self.chars += snapshot.chars
            while self._keeps_too_much():
                _, oldest = self._kept.popitem(last=False)
                self.chars -= oldest.chars

    def _keeps_too_much(self) -> bool:
        if len(self._kept) > _RUNS_KEPT:
            return True
        return self.chars > _CHARS_KEPT


@cache
def run_snapshots(d: Deployment) -> RunSnapshots:
    """The snapshots of a deployment's runs: the same for all parts of its agents."""
    return RunSnapshots(d)
