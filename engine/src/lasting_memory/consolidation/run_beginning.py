"""How a run begins: with a draft of its person's, and in a slot of this process (`slots.py`).

A run that may read no conversations now, or finds no slot, raises `NothingToDoError` with its answer.
Mostly another run is planned in its place.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from langgraph.config import get_config, get_store
from langgraph.runtime import Runtime
from langgraph_sdk.client import LangGraphClient

from lasting_memory.consolidation.drafts import Draft
from lasting_memory.consolidation.dream_progress import pause
from lasting_memory.consolidation.no_batch import (
    ERASED,
    FORGOTTEN,
    READING,
    REHEARSING,
    SHARED,
    TEMPORARY,
    NothingToDoError,
)
from lasting_memory.consolidation.owners import owner_for
from lasting_memory.consolidation.record import Record, now
from lasting_memory.consolidation.schedule import Trigger, start
from lasting_memory.consolidation.slots import TURN_SECONDS, Slots
from lasting_memory.conversations.marks import in_temporary_conversation
from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.controls import PAUSED
from lasting_memory.memory.proposals import BatchKind, Memory, is_batch_kind
from lasting_memory.people import identity
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Context

# Of this process.
SLOTS = Slots()
# Somebody waits for these runs, and nobody for those; None is a run that was not planned.
_AWAITED = {None, Trigger.ASKED, Trigger.BRING}
_NOT_AWAITED = {Trigger.IDLE, Trigger.SWEEP, Trigger.DREAM}
# Seconds until a run is planned again that found no slot, at least.
_SECONDS = 3
_SECONDS_NOT_AWAITED = 30


async def begin(d: Deployment, runtime: Runtime[Context], client: LangGraphClient) -> Draft:
    """The draft of this run, still without a batch. Raises `NothingToDoError` where the run may
    read no conversations now.
    """
    if d.memory.is_shared:
        raise NothingToDoError(SHARED)
    draft = _new_draft(d, runtime)
    deletions, controls = await draft.since_it_began()
    is_forgotten = deletions.everything or deletions.conversation
    if is_forgotten:
        raise NothingToDoError(FORGOTTEN)
    if deletions.fact and not draft.record.dry_run:
        answer = await _begin_anew(draft, client)
        raise NothingToDoError(answer)
    if in_temporary_conversation():
        raise NothingToDoError(TEMPORARY)
    if controls.paused:
        if draft.record.kind == "dream":
            await pause(draft)
        raise NothingToDoError(f"{PAUSED}: nothing is consolidated.")
    return draft


def _new_draft(d: Deployment, runtime: Runtime[Context]) -> Draft:
    """A draft for this run's person, without files or conversations."""
    trigger = _trigger()
    kind = _kind_of(trigger)
    context = identity.run_context(runtime)
    caller = Caller.of_run(d, runtime)
    writer = journal.writer_of_caller(caller)
    owner = owner_for(caller, d)
    assistant = owner.assistant_id or d.default_assistant
    files = d.memory.namespace(owner.actor, assistant)
    store = get_store()
    started_at = now()
    record = Record(caller.run_id, started_at, dry_run=context.dry_run, kind=kind)
    memory = Memory(store, owner.actor, files, d, writer)
    return Draft(owner, record, memory, trigger)


def _trigger() -> Trigger | None:
    """Why this run was planned, as `auth.py` lets only this server say; None for no such run."""
    metadata = get_config().get("metadata") or {}
    trigger = metadata.get("trigger")
    if not isinstance(trigger, str):
        return None
    try:
        return Trigger(trigger)
    except ValueError:
        return None


def _kind_of(trigger: Trigger | None) -> BatchKind:
    """The kind of batch that a run has which was planned for this reason."""
    if trigger is None:
        return "conversations"
    name = trigger.value
    return name if is_batch_kind(name) else "conversations"


@asynccontextmanager
async def slot_held(draft: Draft, client: LangGraphClient) -> AsyncIterator[None]:
    """Hold a slot of this process. Raises `NothingToDoError` if none is free in time."""
    is_asked = draft.trigger in _AWAITED
    is_dry = draft.record.dry_run
    is_awaited = is_asked or is_dry
    seconds = TURN_SECONDS if is_awaited else 0
    at_once = draft.rules.at_once
    async with SLOTS.taken(
        draft.owner.actor,
        at_once,
        is_asked=is_asked,
        is_dry=is_dry,
        seconds=seconds,
        is_behind=draft.trigger == Trigger.DREAM,
    ) as has_slot:
        if has_slot:
            yield
            return
        answer = await _without_slot(draft, client)
        raise NothingToDoError(answer)


async def _without_slot(draft: Draft, client: LangGraphClient) -> str:
    """Plan another run in place of one that found no slot, unless its person can ask again. Returns
    its answer.
    """
    if draft.record.dry_run:
        return REHEARSING
    if draft.trigger == Trigger.BRING:
        return READING
    least_seconds = _SECONDS
    if draft.trigger in _NOT_AWAITED:
        least_seconds = _SECONDS_NOT_AWAITED
    # So that they do not all come back at once.
    seconds_later = random.randint(least_seconds, 3 * least_seconds)  # noqa: S311
    await _plan_again(draft, seconds_later, client)
    return f"{draft.rules.at_once} consolidations are at work; another run is planned."


async def _begin_anew(draft: Draft, client: LangGraphClient) -> str:
    """Plan another run in place of one from before a deletion for good, which could write nothing.
    Returns its answer.
    """
    if draft.trigger == Trigger.BRING:  # the text is in this run alone
        return f"{ERASED} Send the text again."
    await _plan_again(draft, 0, client)
    return f"{ERASED} Another run is planned."


async def _plan_again(draft: Draft, seconds: int, client: LangGraphClient) -> None:
    """Plan another run in place of this one."""
    memory = draft.memory
    trigger = draft.trigger or Trigger.ASKED
    await start(
        draft.owner,
        client,
        trigger,
        seconds,
        is_from_run=True,
        store=memory.store,
        writer=memory.writer,
    )
