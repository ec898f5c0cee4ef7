"""Graph 2, which reads from top to bottom: one run is one person, one batch of what is new in their
conversations, one commit.

The run ignores a client's messages, and shows the model a batch as the answer to a tool call. A
draft that is refused is tried once more; refused again it has changed nothing, and its
conversations stay due. If more is due, the next run is queued. A dry run ends before the commit. An
operator's run that names nobody, such as the cron's, starts everyone's who is due.

A dream builds memory anew: its runs read all conversations again, into a draft of their own in the
store, and the last one proposes what would change (`dreaming.py`).

A batch may also be all of memory, to be tidied, or a text that the person brought. Its changes are
always proposed, and say nothing that stands neither in it nor in memory.
"""

import json
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, NotRequired

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.config import get_config, get_store
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph_sdk.client import LangGraphClient

from lasting_memory import platform
from lasting_memory.consolidation import dreaming
from lasting_memory.consolidation.committing import commit
from lasting_memory.consolidation.drafts import CURRENT_DRAFT, Draft
from lasting_memory.consolidation.dream_start import go_on_with_all
from lasting_memory.consolidation.editor import Editor, build_editor, edit, last_answer
from lasting_memory.consolidation.judging import Verdict, judge
from lasting_memory.consolidation.no_batch import (
    ERASED,
    FORGOTTEN,
    READING,
    REHEARSING,
    SHARED,
    TEMPORARY,
    NothingToDoError,
)
from lasting_memory.consolidation.old_conversations import delete_old
from lasting_memory.consolidation.owners import owner_for
from lasting_memory.consolidation.reading import read
from lasting_memory.consolidation.record import Record, now
from lasting_memory.consolidation.schedule import Trigger, start
from lasting_memory.consolidation.slots import TURN_SECONDS, Slots
from lasting_memory.consolidation.sweeping import sweep_counted
from lasting_memory.conversations.marks import in_temporary_conversation
from lasting_memory.conversations.retention import delete_temporary
from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.controls import PAUSED
from lasting_memory.memory.new_memory import load_starting_memory
from lasting_memory.memory.proposals import BatchKind, Memory, is_batch_kind
from lasting_memory.people import identity
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Context
from lasting_memory.platform import get_client
from lasting_memory.recall import catch_up
from lasting_memory.settings import SettingsError

logger = logging.getLogger(__name__)

# A draft that is refused is tried once more.
_ATTEMPTS = 2
# Steps of the graph, its start included.
_STEPS = 2
# Of this process.
SLOTS = Slots()
# Somebody waits for these runs, and nobody for those; None is a run that was not planned.
_AWAITED = {None, Trigger.ASKED, Trigger.BRING}
_NOT_AWAITED = {Trigger.IDLE, Trigger.SWEEP, Trigger.DREAM}
# Seconds until a run is planned again that found no slot, at least.
_SECONDS = 3
_SECONDS_NOT_AWAITED = 30


# What a run changes of its state, which is its messages.
_StateUpdate = dict[str, list[BaseMessage]]


class State(MessagesState):
    """A client's messages, of which only a text that was brought is read; at the end the run's
    answer in their place.
    """

    # Clients may send files to any graph. Nobody reads them here.
    files: NotRequired[Annotated[dict[str, object], UntrackedValue(dict, guard=False)]]


# `Any`: projects name the type of their graphs so, in which `State` is no name of theirs.
def build_consolidation_agent(
    d: Deployment, model: BaseChatModel | None = None
) -> CompiledStateGraph[Any, Context, Any, Any]:
    """The consolidation agent, with `model` or the one that the settings name.

    Raises `SettingsError` as `build_model`, and for a deployment without consolidation.
    """
    if d.consolidation is None:
        raise SettingsError(
            "The deployment has consolidation=None; leave consolidation_agent out of langgraph.json."
        )
    load_starting_memory(d)
    d.load_prompts()
    editor = build_editor(d, model)

    async def consolidate(state: State, runtime: Runtime[Context]) -> _StateUpdate:
        """One run: of a script, of an operator for everybody who is due, or of one person. Returns
        the state with the run's answer.
        """
        _check_limit()
        if not identity.on_server(runtime):
            return await _edit_for_script(editor, state["messages"])
        client = get_client()
        try:
            if identity.names_nobody(d.settings, runtime):
                answer = await _start_everybody(d, runtime, client)
                return _answer(answer)
            draft = await _begin(d, runtime, client)
            async with _slot(draft, client), dreaming.failures_counted(draft, client):
                async with draft.failure_recorded():
                    await read(draft, state["messages"], client)
                    verdict = await _edit_and_judge(editor, draft)
                # Whoever cancels the run now cancels neither the commit nor its record.
                record = await platform.to_the_end(_commit(draft, verdict, client))
                await _index_for_recall(draft, record, client)
                await _plan_next(draft, verdict, client)
        except NothingToDoError as nothing:
            return _answer(str(nothing))
        return _answer(draft.answer(record))

    graph = StateGraph(State, context_schema=Context, output_schema=MessagesState)
    graph.add_node("consolidate", consolidate)
    graph.add_edge(START, "consolidate")
    compiled = graph.compile(name="consolidation_agent")
    return compiled.with_config(
        {"metadata": {"memory_scope": d.settings.memory_scope, "consolidation": True}}
    )


def _check_limit() -> None:
    """Raises `RuntimeError` where langgraph would fail the run at its end, when all is done: whoever
    began it allows too few steps.
    """
    limit = get_config().get("recursion_limit")  # absent where it is langgraph's own
    if limit is not None and limit < _STEPS:
        raise RuntimeError(
            f"recursion_limit is below {_STEPS}; a consolidation takes {_STEPS} steps: "
            "send more, or leave it out."
        )


def _answer(text: str) -> _StateUpdate:
    """The run's answer, in place of all messages of its thread: a thread is used for years."""
    everything = RemoveMessage(id=REMOVE_ALL_MESSAGES)
    answer = AIMessage(text)
    return {"messages": [everything, answer]}


async def _edit_for_script(editor: Editor, messages: list[AnyMessage]) -> _StateUpdate:
    """Have the editor answer a script's messages. Returns the state with its answer.

    A script has no conversations on a server. It changes memory itself, without a draft.
    """
    CURRENT_DRAFT.set(None)
    answer = await last_answer(editor, messages)
    return {"messages": [answer]}


async def _start_everybody(
    d: Deployment, runtime: Runtime[Context], client: LangGraphClient
) -> str:
    """Start runs for all who are due, after deleting conversations whose time is over. Returns the
    run's answer.
    """
    if identity.run_context(runtime).dry_run:
        return "A dry run is for one person: name them in its context (user_id, org_id)."
    await delete_temporary(client, d.limits.temporary_hours)
    await delete_old(d, client, get_store())
    if d.memory.is_shared:
        return SHARED
    swept = await sweep_counted(d, client, get_store())
    if d.has_dream:
        await go_on_with_all(client, get_store())
    logged = {
        "status": "swept",
        "run_id": identity.current_run_id(),
        "people": swept["started"],
        "due": swept["due"],
        "planned": swept["planned"],
    }
    logger.info("consolidation %s", json.dumps(logged))
    others = f"{swept['due']} were due, for {swept['planned']} of whom a run was planned already."
    return f"Consolidation was started for {swept['started']} people. {others}"


# --- Begin


async def _begin(d: Deployment, runtime: Runtime[Context], client: LangGraphClient) -> Draft:
    """The draft of this run, still without a batch. Raises `NothingToDoError` where the run may
    read no conversations now.
    """
    if d.memory.is_shared:
        raise NothingToDoError(SHARED)
    draft = _new_draft(d, runtime)
    since, controls = await draft.since_it_began()
    is_forgotten = since.everything or since.conversation
    if is_forgotten:
        raise NothingToDoError(FORGOTTEN)
    if since.fact and not draft.record.dry_run:
        answer = await _begin_anew(draft, client)
        raise NothingToDoError(answer)
    if in_temporary_conversation():
        raise NothingToDoError(TEMPORARY)
    if controls.paused:
        if draft.record.kind == "dream":
            await dreaming.pause(draft)
        raise NothingToDoError(f"{PAUSED}: nothing is consolidated.")
    return draft


def _new_draft(d: Deployment, runtime: Runtime[Context]) -> Draft:
    """A draft for this run's person, without files or conversations."""
    trigger = _trigger()
    kind = _kind_of(trigger)
    context = identity.run_context(runtime)
    caller = Caller.of_run(d, runtime)
    began = journal.began_of_caller(caller)
    owner = owner_for(caller, d)
    assistant = owner.assistant_id or d.default_assistant
    files = d.memory.namespace(owner.actor, assistant)
    store = get_store()
    started_at = now()
    record = Record(caller.run_id, started_at, dry_run=context.dry_run, kind=kind)
    memory = Memory(store, owner.actor, files, d, began)
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
async def _slot(draft: Draft, client: LangGraphClient) -> AsyncIterator[None]:
    """Hold a slot of this process. Raises `NothingToDoError` if none is free in time."""
    is_asked = draft.trigger in _AWAITED
    is_dry = draft.record.dry_run
    seconds = TURN_SECONDS if is_asked or is_dry else 0
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
    least = _SECONDS
    if draft.trigger in _NOT_AWAITED:
        least = _SECONDS_NOT_AWAITED
    # So that they do not all come back at once.
    seconds_later = random.randint(least, 3 * least)  # noqa: S311
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
        draft.owner, client, trigger, seconds, inside=True, store=memory.store, began=memory.began
    )


# --- Edit, judge, commit


async def _edit_and_judge(editor: Editor, draft: Draft) -> Verdict:
    """Have the model edit the draft, and once more, with the reason, if what it did is refused.

    Returns the verdict on the last attempt.
    """
    reason = ""
    for _ in range(_ATTEMPTS):
        ending = await edit(editor, draft, reason)
        verdict = await judge(draft, ending)
        reason = verdict.retry_reason
        if not reason:
            break
    return verdict


async def _commit(draft: Draft, verdict: Verdict, client: LangGraphClient) -> Record:
    """Commit a batch to memory, or to the draft of its dream. Returns the run's record."""
    async with draft.failure_recorded():
        if draft.dream:
            return await dreaming.keep_batch(draft, verdict, client)
        return await commit(draft, verdict, client)


# --- Afterwards


async def _index_for_recall(draft: Draft, record: Record, client: LangGraphClient) -> None:
    """Bring the index of the person's conversations up to date, so that the next search need not."""
    if draft.record.dry_run or draft.dream:
        return
    is_committed = record.status in {"done", "proposed"}
    if not is_committed:
        return
    memory = draft.memory
    d = memory.deployment
    try:
        await catch_up(memory.store, client.threads, memory.actor, agents=d.agents, routes=d.routes)
    # Whatever it is, memory is consolidated, and the next search indexes them.
    except Exception as error:
        logger.warning("Conversations were not indexed for recall: %r.", error, exc_info=True)


async def _plan_next(draft: Draft, verdict: Verdict, client: LangGraphClient) -> None:
    """Queue the next run if more is due, or a dream is not at its end."""
    if draft.dream:
        await dreaming.plan_next(draft, client)
    if not draft.more:
        return
    if draft.record.dry_run or verdict.is_stopped or verdict.failure:
        return
    memory = draft.memory
    await start(draft.owner, client, inside=True, store=memory.store, began=memory.began)
