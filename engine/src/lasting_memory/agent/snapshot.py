"""What a run shows of the store: policies, memory, controls and skills, read once, in one batch.

That is the run's snapshot. The prompt, the skills and the subagents of a run share what the first
of them has read. Controls are what a person has set for their memory, such as a pause.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import cast

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
        for files in (self.policies, self.memory, self.skills):
            for item in files:
                content = item.value.get("content", "")
                chars += len(str(content))
        return chars


async def read_snapshot(
    d: Deployment, store: BaseStore, actor: Actor, assistant: str, *, with_skills: bool = True
) -> Snapshot:
    """What the store holds now, in one batch for as many files as one search finds.

    `with_skills=False` leaves out the assistant's skills.
    """
    is_temporary = in_temporary_conversation()
    folders = dict[str, Namespace]()
    if d.has_memory and not is_temporary:
        folders["memory"] = d.memory.namespace(actor, assistant)
    if with_skills and "/skills/" in d.routes:
        scope = d.scope("/skills/")
        folders["skills"] = scope.namespace(actor, assistant)
    of_policies = namespaces.policies(actor.org_id)
    policy_search = SearchOp(of_policies, limit=MAX_POLICY_FILES)
    other_reads: list[Op] = [policy_search]
    other_reads += control_ops(actor)
    places = list(folders.values())
    listings, results = await journal.all_items_and(store, places, other_reads)
    files = dict(zip(folders, listings, strict=True))
    found_files, *stored_controls = results
    found_policies = cast("list[Item]", found_files)  # of a search
    # A search also finds what is stored below a namespace.
    policies = [item for item in found_policies if item.namespace == of_policies]
    return Snapshot(
        policies=policies,
        controls=controls_of(stored_controls, d),
        memory=files.get("memory", []),
        skills=files.get("skills", []),
        is_temporary=is_temporary,
    )


class RunSnapshots:
    """The snapshots of a deployment's last runs.

    `chars` are the characters of all their files.
    """

    def __init__(self, d: Deployment) -> None:
        self._deployment = d
        # By the run's id, the oldest first.
        self._by_run = OrderedDict[str, Snapshot]()
        self.chars = 0
        # Runs may be in threads of their own.
        self._lock = Lock()

    async def of_run(self, store: BaseStore, caller: Caller) -> Snapshot:
        """The snapshot of the caller's run, read where it is not there yet.

        Without a server, which gives run ids, each call reads.
        """
        run_id = caller.run_id
        snapshot = self._by_run.get(run_id)
        if snapshot is not None:
            return snapshot
        snapshot = await read_snapshot(self._deployment, store, caller.actor, caller.assistant)
        if run_id:
            self._keep(run_id, snapshot)
        return snapshot

    def _keep(self, run_id: str, snapshot: Snapshot) -> None:
        """Keeps the snapshot of a run, and drops the oldest ones for which there is no room."""
        with self._lock:
            replaced = self._by_run.pop(run_id, None)
            if replaced is not None:
                self.chars -= replaced.chars
            self._by_run[run_id] = snapshot
            self.chars += snapshot.chars
            while self._is_over_full():
                _, oldest = self._by_run.popitem(last=False)
                self.chars -= oldest.chars

    def _is_over_full(self) -> bool:
        """Whether there are more snapshots, or more characters in them, than are kept."""
        if len(self._by_run) > _RUNS_KEPT:
            return True
        return self.chars > _CHARS_KEPT


@cache
def run_snapshots(d: Deployment) -> RunSnapshots:
    """The snapshots of a deployment's runs: the same for all parts of its agents."""
    return RunSnapshots(d)
