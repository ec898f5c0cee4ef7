"""Queueing an owner's consolidation: at once, or some time from now in place of a planned run.

The platform's queue keeps the runs. Those of an owner are on one thread, which the platform runs
one at a time. It is found by metadata that only this server sets. "rollback" takes back the run
that was planned before: it has written nothing.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from enum import StrEnum
from uuid import uuid4

from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import Run

from lasting_memory.consolidation.owners import Owner
from lasting_memory.conversations.marks import RUN_METADATA, may_set
from lasting_memory.memory import journal
from lasting_memory.platform import lock_of
from lasting_memory.settings import CONSOLIDATION_GRAPH, MAX_AFTER_SECONDS

# The newest runs of a thread, among which are those that wait or are at work.
_LISTED = 20


class Trigger(StrEnum):
    """Why a run was planned."""

    IDLE = "idle"  # a turn ended
    SWEEP = "sweep"  # a sweep found something, or a run that there is more
    ASKED = "asked"  # its person asked
    TIDY = "tidy"  # memory is to be tidied
    DREAM = "dream"  # memory is built anew from all conversations
    BRING = "bring"  # its person brought a text, which is the run's input


async def start(
    owner: Owner,
    client: LangGraphClient,
    trigger: Trigger = Trigger.SWEEP,
    seconds: int = 0,
    *,
    inside: bool = False,
    store: BaseStore | None = None,
    began: journal.Began | None = None,
) -> bool:
    """Queue the owner's consolidation in `seconds`, in place of one that is planned.

    Returns whether it did. It does not where a run waits that will do: one that was asked for; for
    a sweep, any; for a turn, one behind a run that is at work. A run at work is not taken back;
    `inside` says that such a run calls this itself. Runs that tidy, and those that build
    memory anew, have a thread of their own: of the latter there is one at a time.

    With a `store` it queues nothing for an owner who was forgotten since this `began`. Then no run
    and no thread of theirs is left of it.
    """
    if store and await journal.is_forgotten(store, began):
        return False
    # Turns that end at once would each make the owner's first thread.
    async with lock_of("planning", owner):
        has_own_thread = trigger in {Trigger.TIDY, Trigger.DREAM}
        consolidates = f"{trigger} {owner.key}" if has_own_thread else owner.key
        thread_id = await _thread_of(owner, consolidates, client)
        runs = list[Run]()
        if thread_id:
            runs = await client.runs.list(thread_id, limit=_LISTED)
        if _will_do(runs, trigger):
            return False
        if trigger == Trigger.DREAM and _is_running(runs) and not inside:
            return False
        can_roll_back = not inside and not _is_running(runs)
        with may_set(*RUN_METADATA):
            run = await client.runs.create(
                thread_id or str(uuid4()),  # the first run creates the thread
                CONSOLIDATION_GRAPH,
                input={"messages": []},
                context=owner.context(),
                metadata={"trigger": trigger, "consolidates": consolidates},
                multitask_strategy="rollback" if can_roll_back else "enqueue",
                durability="exit",  # one checkpoint a run, with its answer
                # The new thread belongs to the run's person, also if an operator creates it.
                if_not_exists="create",
                # A sweep for very many people would plan further ahead than the platform allows.
                after_seconds=min(seconds, MAX_AFTER_SECONDS),
            )
        if store and await journal.is_forgotten(store, began):
            await _withdraw(run, client)
            return False
        return True


async def _thread_of(owner: Owner, consolidates: str, client: LangGraphClient) -> str | None:
    """The id of the thread on which an owner's runs are; None before the first run."""
    threads = await client.threads.search(
        metadata={**asdict(owner.actor), "consolidates": consolidates},
        limit=1,
        sort_by="created_at",
        sort_order="asc",
        select=["thread_id"],
    )
    return str(threads[0]["thread_id"]) if threads else None


def _is_running(runs: Sequence[Run]) -> bool:
    statuses = {run["status"] for run in runs}
    return "running" in statuses


def _will_do(runs: Sequence[Run], trigger: Trigger) -> bool:
    """Whether one of these runs waits, and makes another one for this trigger needless."""
    waiting = [run for run in runs if run["status"] == "pending"]
    if not waiting:
        return False
    for run in waiting:
        metadata = run["metadata"] or {}
        if metadata.get("trigger") == Trigger.ASKED:
            return True
    if trigger == Trigger.IDLE:
        return _is_running(runs)
    return trigger in {Trigger.SWEEP, Trigger.TIDY, Trigger.DREAM}


async def _withdraw(run: Run, client: LangGraphClient) -> None:
    """Delete the thread of a queued run, unless it has another run.

    Another run is by its owner who came back: then this one finds nothing new.
    """
    thread_id = run["thread_id"]
    # Whoever forgets the owner may have deleted the thread.
    with suppress(NotFoundError):
        runs = await client.runs.list(thread_id, limit=_LISTED)
        others = [other for other in runs if other["run_id"] != run["run_id"]]
        if not others:
            await client.threads.delete(thread_id)
