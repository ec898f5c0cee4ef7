"""Queues an owner's consolidation: at once, or some time from now in place of a planned run.

The platform's queue keeps the runs. Those of an owner are on one thread, which the platform runs
one at a time; those that tidy have one of their own, and so have those of a dream. A thread is found
by the metadata `consolidates`, which only this server sets. A run *waits* until its time has come
("pending" for the platform), then it is *at work* ("running").
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

# Newest runs of a thread, among which are those that wait or are at work.
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
    is_from_run: bool = False,
    store: BaseStore | None = None,
    writer: journal.Writer | None = None,
) -> bool:
    """Queue a run of the owner's in `seconds`, in place of one that waits. Returns whether it did.

    It does not where a run waits that serves this trigger, too (`_serves`), nor for a dream while
    another run of it is at work. `is_from_run` says that the caller is the run at work.

    With a `store` it queues nothing for an owner who was forgotten since the `writer` began. Then no run
    and no thread of theirs is left of it.
    """
    if store and await journal.is_forgotten(store, writer):
        return False
    # Turns that end at once would each make the owner's first thread.
    async with lock_of("planning", owner):
        thread_mark = owner.key
        if trigger in {Trigger.TIDY, Trigger.DREAM}:
            thread_mark = f"{trigger} {owner.key}"
        thread_id = await _thread_of(owner, thread_mark, client)
        runs = list[Run]()
        if thread_id:
            runs = await client.runs.list(thread_id, limit=_LISTED)
        if _serves(runs, trigger):
            return False
        is_another_at_work = _is_at_work(runs) and not is_from_run
        if is_another_at_work and trigger == Trigger.DREAM:
            return False
        may_take_back = not is_from_run and not is_another_at_work
        with may_set(*RUN_METADATA):
            run = await client.runs.create(
                thread_id or str(uuid4()),  # the first run creates the thread
                CONSOLIDATION_GRAPH,
                input={"messages": []},
                context=owner.context(),
                metadata={"trigger": trigger, "consolidates": thread_mark},
                # "rollback" takes back the run that was planned before: it has written nothing.
                multitask_strategy="rollback" if may_take_back else "enqueue",
                durability="exit",  # one checkpoint a run, with its answer
                # The new thread belongs to the run's person, also if an operator creates it.
                if_not_exists="create",
                # A sweep for very many people would plan further ahead than the platform allows.
                after_seconds=min(seconds, MAX_AFTER_SECONDS),
            )
        if store and await journal.is_forgotten(store, writer):
            await _withdraw(run, client)
            return False
        return True


async def _thread_of(owner: Owner, thread_mark: str, client: LangGraphClient) -> str | None:
    """The id of the owner's thread with this metadata; None before its first run."""
    threads = await client.threads.search(
        metadata={**asdict(owner.actor), "consolidates": thread_mark},
        limit=1,
        sort_by="created_at",
        sort_order="asc",
        select=["thread_id"],
    )
    if not threads:
        return None
    return str(threads[0]["thread_id"])


def _is_at_work(runs: Sequence[Run]) -> bool:
    """Whether one of these runs is at work."""
    return any(run["status"] == "running" for run in runs)


def _serves(runs: Sequence[Run], trigger: Trigger) -> bool:
    """Whether one of these runs waits, and makes another one for this trigger needless.

    A run that was asked for serves any trigger. For the end of a turn, one that waits behind a run
    at work does; for a sweep, to tidy and for a dream, any does.
    """
    waiting_runs = [run for run in runs if run["status"] == "pending"]
    if not waiting_runs:
        return False
    for run in waiting_runs:
        metadata = run["metadata"] or {}
        if metadata.get("trigger") == Trigger.ASKED:
            return True
    if trigger == Trigger.IDLE:
        return _is_at_work(runs)
    return trigger in {Trigger.SWEEP, Trigger.TIDY, Trigger.DREAM}


async def _withdraw(run: Run, client: LangGraphClient) -> None:
    """Delete the thread of a run that was just queued, and the run with it.

    If the thread has another run, nothing is deleted: that is by its owner, who came back. Then
    this run finds nothing new.
    """
    thread_id = run["thread_id"]
    # Whoever forgets the owner may have deleted the thread.
    with suppress(NotFoundError):
        runs = await client.runs.list(thread_id, limit=_LISTED)
        is_only_run = all(other_run["run_id"] == run["run_id"] for other_run in runs)
        if is_only_run:
            await client.threads.delete(thread_id)
