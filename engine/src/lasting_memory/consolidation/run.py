"""The middleware of a consolidation run: one person, one batch of what is new in their conversations, one commit.

The run ignores a client's messages, and shows the model a batch as the answer to a tool call. A draft that is refused is tried
once more; refused again it has changed nothing, and its conversations stay due. If more is due, the next run is
queued. A dry run ends before the commit. An operator's run that names nobody, such as the cron's, starts everyone's who is due.

A batch may also be all of memory, to be tidied, or a text that the person brought. Its changes are always proposed, and say
nothing that stands neither in it nor in memory.
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

from lasting_memory import journal, platform
from lasting_memory.consolidation import guard
from lasting_memory.consolidation.drafts import (
    NOTHING_NEW,
    TOOL,
    Draft,
    Drafts,
    Kind,
    at_end,
    consolidation_tools,
    shown_text,
    task,
    whole_memory,
)
from lasting_memory.consolidation.due import batch, find_due, positions_of, put_positions
from lasting_memory.consolidation.planning import Owner, Trigger, current_owner, delete_old, start, sweep
from lasting_memory.consolidation.proposals import applied, apply, files_of, refusal
from lasting_memory.consolidation.run_records import Record, keep, now
from lasting_memory.consolidation.taken_back import objection, returning, said_since, taken_back, without
from lasting_memory.controls import PAUSED, controls, delete_temporary, in_temporary_conversation
from lasting_memory.deployment import Deployment
from lasting_memory.files.changes import Changed, diffs, texts
from lasting_memory.files.proposals import MAX_PROPOSALS, Dated, Proposal, proposals, propose
from lasting_memory.limits import DEFAULT_CONSOLIDATION
from lasting_memory.people import identity, namespaces
from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD
from lasting_memory.recall import catch_up
from lasting_memory.settings import SettingsError

logger = logging.getLogger(__name__)

# deepagents' tool for subagents, whose calls would be neither counted nor bounded.
DELEGATE = "task"
# `ls` and `grep` find as much, and every call pays for the description of every tool.
_NOT_OFFERED = {DELEGATE, "glob"}
UNDECIDED = "The person has too many undecided proposals; new conversations wait until they decide."
SHARED = "Nothing is consolidated under MEMORY_SCOPE=assistant: private conversations stay private."
FORGOTTEN = "The person was forgotten; nothing is kept."
# Seconds until a run that found no slot tries again, at least.
_LATER: dict[Trigger, int] = {"asked": 3, "tidy": 3, "sweep": 30}


class ConsolidationState(AgentState[Any]):
    consolidating: NotRequired[Annotated[bool, PrivateStateAttr]]  # whether the run has a batch


class NothingToDoError(Exception):
    """The run has no batch. The message is its answer."""


class ConsolidationRun(AgentMiddleware[Any, Any, Any]):
    """Gives the model its batch, and commits or refuses its changes, in the drafts that this graph's backend writes to."""

    state_schema = ConsolidationState
    trace_policy = SPANS_WITHOUT_PAYLOAD

    def __init__(self, deployment: Deployment, drafts: Drafts | None = None) -> None:
        super().__init__()
        if deployment.consolidation is None:
            raise SettingsError("The deployment has consolidation=None; leave consolidation_agent out of langgraph.json.")
        self._deployment, self._rules = deployment, deployment.consolidation
        self.drafts = drafts or Drafts(self._rules.at_once)
        self.tools = consolidation_tools(self.drafts)

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin the batch, or end. A run that comes from another process, where its draft is, begins again."""
        if not identity.on_server(runtime) or self.drafts.current():
            return None  # a script has no conversations on a server, and brings its own messages
        try:
            draft = await self._begin(runtime, state)
        except NothingToDoError as answer:
            return {**_ended(state, str(answer)), "jump_to": "end"}
        return await _shown(self._deployment, state, draft)

    async def _begin(self, runtime: Runtime[Any], state: Any) -> Draft:
        dry = identity.run_context(runtime).dry_run
        if identity.names_nobody(self._deployment.settings, runtime):
            raise NothingToDoError(await self._for_everybody(dry=dry))
        if self._deployment.memory.is_shared:
            raise NothingToDoError(SHARED)
        owner, store, client = current_owner(self._deployment, runtime), get_store(), get_client()
        actor, began = owner.actor, journal.began(owner.actor)
        planned: Any = (get_config().get("metadata") or {}).get("trigger")  # auth.py lets only this server set it
        kind: Kind = planned if planned in {"tidy", "bring"} else "conversations"
        report = Record(identity.current_run_id() or "", now(), dry_run=dry, kind=kind)
        at_end(partial(self._end, store, report, actor, began))
        await self._check_may_begin(owner, store, began, planned, dry=dry)
        files = self._deployment.memory.namespace(actor, owner.assistant_id or self._deployment.default_assistant)
        known = await proposals(store, actor, files)
        if sum(bool(each.changes) for each in known) >= MAX_PROPOSALS:
            raise NothingToDoError(UNDECIDED)
        base = await files_of(store, files)
        for each in known:
            base = await asyncio.to_thread(applied, base, each.changes, each.author, self._deployment, skip=True)
        taken = [*(await _taken_back(store, actor, files, self._deployment)).values()]
        show = partial(shown_text, rules=self._rules, limits=self._deployment.limits)
        if kind == "conversations":
            due = await find_due(
                store, client.threads, actor, owner.assistant_id, agents=self._deployment.agents, dry=dry, rules=self._rules
            )
            shown = await asyncio.to_thread(batch, due, self._rules.batch_tokens)
            if not shown:
                raise NothingToDoError(NOTHING_NEW)
            thread_ids = [item.conversation.thread_id for item in shown]
            said = await said_since(client.runs, thread_ids, min(each.at for each in taken)) if taken else []
            talk = "\n\n".join([await asyncio.to_thread(item.transcript, self._rules) for item in shown])
            text = await asyncio.to_thread(show, talk, base, taken, said)
            more = sum(not item.position.undone for item in due) > sum(item.whole for item in shown)
            draft = Draft(owner, files, base, shown, said, text, more, report)
        else:
            source = [(f"/memories{key}", text) for key, text in texts(base).items()]
            if kind == "tidy":
                if not guard.facts_of(source):
                    raise NothingToDoError("Nothing is remembered that could be tidied.")
                text = await asyncio.to_thread(whole_memory, base, taken, rules=self._rules)
            else:
                if state.get("consolidating"):
                    raise NothingToDoError("This was interrupted; send the text again.")
                brought = str(state["messages"][-1].text)
                text = await asyncio.to_thread(show, f"# What the person brought\n\n{brought}", base, taken, [])
                source.append(("", brought))
            draft = Draft(owner, files, base, (), (), text, more=False, report=report, kind=kind, source=source)
        await draft.begin()
        self.drafts.begin(draft)
        return draft

    async def _check_may_begin(
        self, owner: Owner, store: BaseStore, began: journal.Began | None, planned: Trigger | None, *, dry: bool
    ) -> None:
        """Raise `NothingToDoError` where the run may not read conversations now; it may have to wait for a slot."""
        if await journal.is_forgotten(store, began):
            raise NothingToDoError(FORGOTTEN)
        if planned:  # an owner's thread is used for years
            await platform.drop_checkpoints()
        if in_temporary_conversation():
            raise NothingToDoError("Nothing is consolidated in a temporary conversation.")
        if (await controls(store, owner.actor, self._deployment)).paused:
            raise NothingToDoError(f"{PAUSED}: nothing is consolidated.")
        trigger: Trigger = "asked" if planned in {None, "asked"} else "tidy" if planned == "tidy" else "sweep"
        if self.drafts.take(owner.actor, dry=dry, asked=trigger == "asked" or planned == "bring"):
            return
        if dry or planned == "bring":
            raise NothingToDoError(f"Another {'dry run' if dry else 'consolidation'} is at work; try again when it has ended.")
        later = random.randint(_LATER[trigger], 3 * _LATER[trigger])  # noqa: S311  # so that they do not all come back at once
        await start(owner, get_client(), trigger, later, inside=True)
        raise NothingToDoError(f"{self._rules.at_once} consolidations are at work; another run is planned.")

    async def _end(
        self, store: BaseStore, report: Record, actor: identity.Actor, began: journal.Began | None, error: BaseException | None
    ) -> None:
        """Free the run's slot. If an error or a cancellation ended it, leave a record."""
        self.drafts.end(report.run_id)
        if error is None or report.dry_run:
            return
        failed = report.ended("failed", type(error).__name__ if isinstance(error, Exception) else "It was cancelled.")
        failed.log()
        try:
            if not await journal.is_forgotten(store, began):
                await keep(store, actor, failed, self._rules)
        except Exception as failure:  # a store raises what its driver raises; the run's own error counts
            logger.warning("The record of consolidation %s could not be kept: %r.", report.run_id, failure, exc_info=True)

    async def _for_everybody(self, *, dry: bool) -> str:
        """Start runs for all who are due, after deleting conversations whose time is over. Returns the run's answer."""
        if dry:
            return "A dry run is for one person: name them in its context (user_id, org_id)."
        await delete_temporary(get_client(), self._deployment.limits.temporary_hours)
        await delete_old(self._deployment, get_client(), get_store())
        if self._deployment.memory.is_shared:
            return SHARED
        people = await sweep(self._deployment, get_client(), get_store())
        logger.info("consolidation %s", json.dumps({"status": "swept", "run_id": identity.current_run_id(), "people": people}))
        return f"Consolidation was started for {people} people."

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Call the model, and count the call."""
        request = request.override(tools=[tool for tool in request.tools if getattr(tool, "name", None) not in _NOT_OFFERED])
        state: Any = request.state
        if not state.get("consolidating"):
            return await handler(request)
        draft = self.drafts.current()
        if draft:
            draft.steps += 1
        if draft is None or draft.steps > self._rules.max_steps:
            return ModelResponse([AIMessage("")])  # `aafter_agent` begins again, or refuses the batch
        response = await handler(request)
        draft.report.count_call(response.result)
        return response

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
        """Refuse subagents, and every call of a run whose draft is in another process."""
        name = request.tool_call["name"]
        if name != DELEGATE and (self.drafts.current() or not request.state.get("consolidating")):
            return await handler(request)
        text = "Error: consolidation is not delegated, and not continued after an interruption; do it yourself."
        return ToolMessage(text, tool_call_id=request.tool_call["id"], name=name, status="error")

    @hook_config(can_jump_to=["model"])
    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Commit or refuse the batch, or have the model try once more."""
        if not state.get("consolidating"):
            return None
        draft, store = self.drafts.current(), get_store()
        if draft is None:
            return {"jump_to": "model"}  # which begins again
        owner, dry, began = draft.owner, draft.report.dry_run, journal.began(draft.owner.actor)
        if await journal.is_forgotten(store, began):
            return _ended(state, FORGOTTEN)
        present = await controls(store, owner.actor, self._deployment)
        most = self._rules.max_steps
        too_long = f"It took more than {most} steps." if draft.steps > most else None
        stopped = f"{PAUSED}." if present.paused else too_long
        changed = await draft.changes()
        brought = await _brought_back(store, draft, changed, self._deployment) if changed else {}
        unsaid = await asyncio.to_thread(guard.invented, changed, draft.source, self._rules) if draft.source else {}
        lines = {path: {*brought.get(path, ()), *unsaid.get(path, ())} for path in {*brought, *unsaid}}
        kept = await asyncio.to_thread(without, changed, lines)
        problem = stopped or await asyncio.to_thread(self._objections, draft, kept)
        problem = problem or await refusal(store, draft.files, kept, draft.author, self._deployment)
        why_not = " ".join([objection(brought)] * bool(brought) + [guard.not_said(unsaid)] * bool(unsaid))
        if (problem or why_not) and not stopped and not draft.refused:
            await draft.begin(problem or why_not)
            return {**await _shown(self._deployment, state, draft), "jump_to": "model"}
        left_out = f"Left out: {why_not}" if why_not else ""
        finish = self._finish(store, draft, kept, problem, left_out, review=present.review or draft.source is not None)
        report = await asyncio.shield(finish)  # whoever cancels the run now cancels neither the commit nor the record
        self.drafts.end(report.run_id)
        report.log()
        if not dry and report.status in {"done", "proposed"}:
            try:
                await catch_up(store, get_client().threads, owner.actor, agents=self._deployment.agents)
            except Exception as error:  # whatever it is, memory is consolidated, and the next search does it
                logger.warning("Conversations were not indexed for recall: %r.", error, exc_info=True)
        if draft.more and not stopped and not dry:
            await start(owner, get_client(), inside=True)
        told = dry or draft.kind == "bring"
        return _ended(state, json.dumps(asdict(report)) if told else f"{report.conversations} conversations were consolidated.")

    def _objections(self, draft: Draft, changed: list[Changed]) -> str | None:
        """`guard.objections`. A tidy gives a reason for each line that goes; a text that was brought takes none. Blocks."""
        if draft.source is None:
            return guard.objections(changed, draft.given_up, self._rules)
        others = [(path, text) for path, text in draft.source if path and path not in {change.path for change in changed}]
        strict = replace(self._rules, removable_share=0)
        return guard.objections(changed, draft.given_up if draft.kind == "tidy" else {}, strict, others)

    async def _finish(
        self, store: BaseStore, draft: Draft, changed: list[Changed], problem: str | None, left_out: str, *, review: bool
    ) -> Record:
        """Commit the draft, propose it, or leave its conversations due."""
        actor, began, report = draft.owner.actor, journal.began(draft.owner.actor), draft.report
        known = {item.conversation.thread_id: item.position for item in draft.shown}
        positions = {item.conversation.thread_id: item.advanced() for item in draft.shown}
        done = report.ended(
            "proposed" if review and changed else "done",
            left_out,
            conversations=len(draft.shown),
            messages=sum(len(item.conversation.turns) for item in draft.shown),
            files=await asyncio.to_thread(diffs, changed),
        )
        if not problem and report.dry_run:
            return replace(done, status="done")
        if not problem and await positions_of(store, actor, [*known]) != known:
            problem = "Another consolidation of this person was faster; its work stands."
        if problem:
            done = report.ended("undone", problem)
            positions = {key: replace(at, undone=at.undone + 1) for key, at in known.items()}
        elif done.status == "proposed":
            proposal = Proposal(
                f"{report.run_id}-{now()}", now(), draft.files[-1], draft.author, changed, [*known],
                kind=draft.kind, reasons=dict(draft.given_up),
            )  # fmt: skip
            await propose(store, actor, proposal, began)
        elif refused := await apply(store, draft.files, changed, draft.author, self._deployment, began=began):
            reason = "; ".join(f"{path}: {why}" for path, why in refused.items())
            shown = {path: text for path, text in done.files.items() if path not in refused}
            done = replace(done.ended("undone", f"Not applied: {reason}"), files=shown)
        if not report.dry_run and not await journal.is_forgotten(store, began):
            await put_positions(store, actor, positions)
            await keep(store, actor, done, self._rules)
        return done


async def _taken_back(
    store: BaseStore, actor: identity.Actor, files: namespaces.Namespace, deployment: Deployment
) -> dict[guard.Key, Dated]:
    declined = [each for one in await proposals(store, actor, files) for each in one.declined]
    return await asyncio.to_thread(taken_back, await journal.histories(store, files, deployment.limits), declined)


async def _brought_back(
    store: BaseStore, draft: Draft, changed: list[Changed], deployment: Deployment
) -> dict[str, dict[guard.Key, Dated]]:
    """By path, the new lines that bring back what the person took back, also since the run began."""
    taken = await _taken_back(store, draft.owner.actor, draft.files, deployment)
    present = texts(await files_of(store, draft.files)) if taken else {}
    rules = deployment.consolidation or DEFAULT_CONSOLIDATION
    return await asyncio.to_thread(returning, changed, present, taken, draft.said, rules)


async def _shown(deployment: Deployment, state: Any, draft: Draft) -> dict[str, Any]:
    """The batch as the answer to the model's first tool call."""
    call = AIMessage("", tool_calls=[{"name": TOOL, "args": {}, "id": f"batch-{draft.report.run_id}"}])
    answer = ToolMessage(draft.text, name=TOOL, tool_call_id=call.tool_calls[0]["id"])
    asked = HumanMessage(await asyncio.to_thread(task, deployment, draft))
    return {**_only(state, asked, call, answer), "consolidating": True}


def _only(state: Any, *messages: AnyMessage) -> dict[str, Any]:
    """These messages in place of all earlier ones, without a summary that would hide them, and without summarized messages."""
    gone: dict[str, Any] = dict.fromkeys(("_summarization_event", "_summarization_session_id"))
    files = dict.fromkeys(state.get("files") or {})
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages], "files": files, **gone}


def _ended(state: Any, text: str) -> dict[str, Any]:
    """The run's answer. The thread keeps nothing of the conversations."""
    return {**_only(state, AIMessage(text)), "consolidating": False}
