"""The middleware of a consolidation run: one person, one batch of what is new in their conversations, one commit.

The run ignores a client's messages. It shows the model a batch as the answer to a tool call. The model's file tools write into
a draft. The guard checks the draft at the end, and its changes are committed, or proposed to the person. A refused draft is
tried once more; refused again it has changed nothing, and its conversations stay due. If more is due, the next run is queued. A
run without new conversations calls no model. A dry run ends before the commit, and answers with what would change.

A run acts for one person. An operator's run that names nobody, such as the cron's, starts one for everyone who is due.
"""

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import AgentMiddleware, AgentState, ModelRequest, ModelResponse, PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.config import get_config, get_store
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph_sdk import get_client

from memory import identity, journal, langgraph_internals, namespaces
from memory.consolidation import guard
from memory.consolidation.commit import (
    Batch,
    commit,
    files_of,
    finish_accepted,
    is_full,
    proposals,
    propose,
    refusal,
    with_proposals,
)
from memory.consolidation.drafts import Draft, Drafts, at_end
from memory.consolidation.due import batch, find_due, positions_of, put_positions
from memory.consolidation.facts import Key
from memory.consolidation.run_records import Record, keep, log, log_line, now, shortened
from memory.consolidation.sweep import delete_old, sweep
from memory.consolidation.taken_back import TakenBack, objection, returning, said_since, taken_back, without
from memory.consolidation.tasks import NOTHING_NEW, TOOL, consolidation_tools, shown_text, task
from memory.consolidation.trigger import ASKED, Owner, current_owner, start
from memory.controls import PAUSED, controls, delete_temporary, in_temporary_conversation
from memory.recall import catch_up
from settings import BATCH_TOKENS, CONSOLIDATIONS_AT_ONCE, MAX_CONSOLIDATION_STEPS, Settings

logger = logging.getLogger(__name__)

# deepagents' tool for subagents, whose calls would be neither counted nor bounded.
DELEGATE = "task"
# `ls` and `grep` find as much, and every call pays for the description of every tool.
_NOT_OFFERED = {DELEGATE, "glob"}
UNDECIDED = "The person has too many undecided proposals; new conversations wait until they decide."
SHARED = "Nothing is consolidated under MEMORY_SCOPE=assistant: private conversations stay private."
FORGOTTEN = "The person was forgotten; nothing is kept."
# Conversations of a batch that its revisions name.
_THREADS_NOTED = 10
# Seconds before each attempt to leave the record of a run that failed; the store may be away.
_ATTEMPTS = (0, 1, 2, 4, 8, 16)
# Seconds until a run that found no slot tries again, at least; by whether its person asked for it.
_LATER = {True: 3, False: 30}
# Steps of the graph that a run may take: a model's and its tools' for each call, and those before and after.
_STEPS = 2 * MAX_CONSOLIDATION_STEPS + 20


class ConsolidationState(AgentState[Any]):
    consolidating: NotRequired[Annotated[bool, PrivateStateAttr]]  # whether the run has a batch


class Consolidation(AgentMiddleware[Any, Any, Any]):
    """Gives the model its batch, and commits or refuses its changes, in the drafts that this graph's backend writes to."""

    state_schema = ConsolidationState

    def __init__(self, settings: Settings, drafts: Drafts) -> None:
        super().__init__()
        self._settings, self.drafts = settings, drafts
        self.tools = consolidation_tools(drafts)

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin the batch, or end."""
        if not identity.on_server(runtime):
            return None  # a script has no conversations on a server, and brings its own messages
        answer = await self._begun(state, runtime)
        return {**_ended(state, answer), "jump_to": "end"} if isinstance(answer, str) else answer

    async def _begun(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | str:
        """The batch as the run's state, or the answer of a run without one."""
        dry = identity.run_context(runtime).dry_run
        if identity.names_nobody(self._settings, runtime):
            return await self._for_everybody(dry=dry)
        if self._settings.memory_scope == "assistant":
            return SHARED
        owner, store = current_owner(self._settings, runtime), get_store()
        report = Record(identity.current_run_id() or "", now(), dry_run=dry)
        at_end(partial(self._end, owner, store, report))
        draft = await self._without_work(owner, store, dry=dry) or await self._begin(owner, store, report)
        if isinstance(draft, str):
            return draft
        self.drafts.begin(draft)
        return await _shown(state, draft)

    async def _without_work(self, owner: Owner, store: BaseStore, *, dry: bool) -> str | None:
        """The answer of a run that may not read conversations now, or None."""
        trigger = (get_config().get("metadata") or {}).get("trigger")
        if await journal.is_forgotten(store, journal.began(owner.actor)):
            return FORGOTTEN
        if trigger:  # an owner's thread is used for years
            await langgraph_internals.drop_checkpoints()
        if in_temporary_conversation():
            return "Nothing is consolidated in a temporary conversation."
        if (await controls(store, owner.actor, self._settings)).paused:
            return f"{PAUSED}: nothing is consolidated."
        if (limit := get_config()["recursion_limit"]) < _STEPS:
            return f"recursion_limit is {limit}; leave it out, or give a consolidation at least {_STEPS}."
        return await self._no_slot(owner, asked=trigger in {None, ASKED}, dry=dry)

    async def _no_slot(self, owner: Owner, *, asked: bool, dry: bool) -> str | None:
        """Take a slot. If none is free, plan another run, and return this one's answer."""
        if self.drafts.take(owner.actor, dry=dry, asked=asked):
            return None
        if dry:
            return "Another dry run is at work; try again when it has ended."
        later = random.randint(_LATER[asked], 3 * _LATER[asked])  # noqa: S311  # so that they do not all come back at once
        await start(owner, get_client(), asked=asked, after_seconds=later, inside=True)
        return f"{CONSOLIDATIONS_AT_ONCE} consolidations are at work; another run is planned."

    async def _begin(self, owner: Owner, store: BaseStore, report: Record) -> Draft | str:
        """The batch on its draft, or the answer of a run without one."""
        actor, client = owner.actor, get_client()
        files = namespaces.memories(actor, owner.assistant, self._settings)
        if not report.dry_run:
            await finish_accepted(store, actor, files, journal.began(actor))
        known = await proposals(store, actor, files)
        if is_full(known):
            return UNDECIDED
        base = await asyncio.to_thread(with_proposals, await files_of(store, files), known)
        due = await find_due(store, client.threads, actor, owner.assistant_id, dry=report.dry_run)
        shown = await asyncio.to_thread(batch, due, BATCH_TOKENS)
        if not shown:
            return NOTHING_NEW
        taken = await _taken_back(store, files, known)
        thread_ids = [item.conversation.thread_id for item in shown]
        said = await said_since(client.runs, thread_ids, min(each.at for each in taken.values())) if taken else []
        draft = Draft(
            files=files,
            base=base,
            shown=shown,
            said=said,
            text=await asyncio.to_thread(shown_text, shown, base, taken, said),
            more=sum(not item.position.undone for item in due) > sum(item.whole for item in shown),
            report=report,
        )
        await draft.begin()
        return draft

    async def _end(self, owner: Owner, store: BaseStore, report: Record, error: BaseException | None) -> None:
        """Free the run's slot. If an error or a cancellation ended it, leave a record; while the store is away, try again."""
        draft = self.drafts.end(report.run_id)
        if error is None or report.dry_run:
            return
        reason = type(error).__name__ if isinstance(error, Exception) else "It was cancelled."
        failed = (draft.report if draft else report).ended("failed", reason)
        log(failed)
        for seconds in _ATTEMPTS:
            await asyncio.sleep(seconds)
            try:
                if not await journal.is_forgotten(store, journal.began(owner.actor)):
                    await keep(store, owner.actor, failed)
            except Exception as failure:  # a store raises what its driver raises
                logger.warning("The record of consolidation %s could not be kept: %r.", report.run_id, failure, exc_info=True)
            else:
                return

    async def _for_everybody(self, *, dry: bool) -> str:
        """Start runs for all who are due, after deleting conversations whose time is over. Returns the run's answer."""
        if dry:
            return "A dry run is for one person: name them in its context (user_id, org_id)."
        await delete_temporary(get_client())
        await delete_old(self._settings, get_client(), get_store())
        if self._settings.memory_scope == "assistant":
            return SHARED
        people = await sweep(self._settings, get_client(), get_store())
        log_line({"status": "swept", "run_id": identity.current_run_id(), "people": people})
        return f"Consolidation was started for {people} people."

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Call the model, and count the call."""
        request = request.override(tools=[tool for tool in request.tools if getattr(tool, "name", None) not in _NOT_OFFERED])
        state: Any = request.state
        if not state.get("consolidating"):
            return await handler(request)
        if self.drafts.is_lost():
            return ModelResponse([AIMessage("")])  # `aafter_agent` begins again
        draft = self.drafts.current()
        draft.steps += 1
        if draft.steps > MAX_CONSOLIDATION_STEPS:
            return ModelResponse([AIMessage("")])  # `aafter_agent` refuses the batch
        response = await handler(request)
        draft.report.count_call(response.result)
        return response

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
        """Refuse subagents, and every call of a run whose draft is lost."""
        name = request.tool_call["name"]
        text = "Error: consolidation is not delegated; do it yourself." if name == DELEGATE else ""
        if request.state.get("consolidating") and self.drafts.is_lost():
            text = "Error: this consolidation was interrupted; it begins again."
        if text:
            return ToolMessage(text, tool_call_id=request.tool_call["id"], name=name, status="error")
        return await handler(request)

    @hook_config(can_jump_to=["model"])
    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Commit or refuse the batch, or have the model try once more."""
        if not state.get("consolidating"):
            return None
        if self.drafts.is_lost():
            again = await self._begun(state, runtime)
            return _ended(state, again) if isinstance(again, str) else {**(again or {}), "jump_to": "model"}
        owner, store, draft = current_owner(self._settings, runtime), get_store(), self.drafts.current()
        if await journal.is_forgotten(store, journal.began(owner.actor)):
            return _ended(state, FORGOTTEN)
        changed = await draft.changes()
        author = _author(owner, draft)
        stopped = f"It took more than {MAX_CONSOLIDATION_STEPS} steps." if draft.steps > MAX_CONSOLIDATION_STEPS else ""
        if (await controls(store, owner.actor, self._settings)).paused:
            stopped = f"{PAUSED}."
        brought = await self._brought_back(owner.actor, store, draft, changed) if changed else {}
        kept = await asyncio.to_thread(without, changed, brought)
        problem = stopped or None
        if not stopped:
            problem = await asyncio.to_thread(guard.objections, kept, draft.given_up)
            problem = problem or await refusal(store, draft.files, kept, author)
        if (problem or brought) and not stopped and not draft.refused:
            await draft.begin(problem or objection(brought))
            return {**await _shown(state, draft), "jump_to": "model"}
        left_out = f"Left out: {objection(brought)}" if brought else ""
        # Whoever cancels the run now cancels neither the commit nor the record.
        report = await asyncio.shield(
            self._finish(owner, store, draft, kept, author=author, problem=problem, left_out=left_out)
        )
        self.drafts.end(report.run_id)
        log(report)
        if not report.dry_run and report.status in {"done", "proposed"}:
            await self._index(owner, store)
        if draft.more and not stopped and not report.dry_run:
            await start(owner, get_client(), inside=True)
        said = json.dumps(asdict(report)) if report.dry_run else f"{report.conversations} conversations were consolidated."
        return _ended(state, said)

    async def _brought_back(
        self, actor: identity.Actor, store: BaseStore, draft: Draft, changed: list[guard.Changed]
    ) -> dict[str, dict[Key, TakenBack]]:
        """By path, the new lines that bring back what the person took back, also since the run began."""
        taken = await _taken_back(store, draft.files, await proposals(store, actor, draft.files))
        present = guard.texts(await files_of(store, draft.files)) if taken else []
        talk = [turn.text for item in draft.shown for turn in item.conversation.turns]
        return await asyncio.to_thread(returning, changed, present, taken, draft.said, talk)

    async def _finish(
        self,
        owner: Owner,
        store: BaseStore,
        draft: Draft,
        changed: list[guard.Changed],
        *,
        author: identity.Author,
        problem: str | None,
        left_out: str,
    ) -> Record:
        """Commit the draft, propose it, or leave its conversations due."""
        actor, began = owner.actor, journal.began(owner.actor)
        diffs = await asyncio.to_thread(lambda: {each.path: each.diff() for each in changed})
        report = replace(
            draft.report.ended("done", left_out),
            conversations=len(draft.shown),
            messages=sum(len(item.conversation.turns) for item in draft.shown),
            files=diffs,
        )
        known = {item.conversation.thread_id: item.position for item in draft.shown}
        if not problem and not report.dry_run and await positions_of(store, actor, list(known)) != known:
            problem = "Another consolidation of this person was faster; its work stands."
        if problem:
            report = replace(draft.report.ended("undone", problem), files={})
            if not report.dry_run:
                await put_positions(store, actor, {key: replace(at, undone=at.undone + 1) for key, at in known.items()})
                await keep(store, actor, report)
            return report
        if report.dry_run:
            return report
        positions = {item.conversation.thread_id: item.advanced() for item in draft.shown}
        accepted = Batch(f"{report.run_id}-{now()}", now(), draft.files[-1], author, changed, positions, shortened(report))
        if changed and (await controls(store, actor, self._settings)).review:
            return await propose(store, actor, accepted, began)
        return await commit(store, actor, draft.files, accepted, began)

    async def _index(self, owner: Owner, store: BaseStore) -> None:
        """Index quiet conversations for recall. A failure is logged, because the next search indexes them too."""
        try:
            await catch_up(store, get_client().threads, owner.actor)
        except Exception as error:  # whatever it is, memory is consolidated
            logger.warning("Conversations were not indexed for recall: %r. The next search does it.", error, exc_info=True)


async def _taken_back(store: BaseStore, files: namespaces.Namespace, known: list[Batch]) -> dict[Key, TakenBack]:
    declined = [each for one in known for each in one.declined]
    return await asyncio.to_thread(taken_back, await journal.histories(store, files), declined)


def _author(owner: Owner, draft: Draft) -> identity.Author:
    """The sources of a line, for a person who asks; the run's record counts all conversations."""
    said_in = " ".join(sorted(item.conversation.thread_id for item in draft.shown)[:_THREADS_NOTED])
    return identity.Author("consolidation", owner.actor.user_id, draft.report.run_id, said_in)


async def _shown(state: Any, draft: Draft) -> dict[str, Any]:
    """The batch as the answer to the model's first tool call."""
    asked = await asyncio.to_thread(task, len(draft.shown), draft.base, draft.refused)
    call = AIMessage("", tool_calls=[{"name": TOOL, "args": {}, "id": f"batch-{draft.report.run_id}"}])
    answer = ToolMessage(draft.text, name=TOOL, tool_call_id=call.tool_calls[0]["id"])
    return {**_only(state, HumanMessage(asked), call, answer), "consolidating": True}


def _only(state: Any, *messages: AnyMessage) -> dict[str, Any]:
    """These messages in place of all earlier ones, without a summary, which would hide these messages, and without the thread's
    files, in which deepagents keeps summarized messages.
    """
    gone: dict[str, Any] = dict.fromkeys(("_summarization_event", "_summarization_session_id"))
    files = dict.fromkeys(state.get("files") or {})
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages], "files": files, **gone}


def _ended(state: Any, text: str) -> dict[str, Any]:
    """The run's answer. The thread keeps nothing of the conversations."""
    return {**_only(state, AIMessage(text)), "consolidating": False}
