"""The middleware of a consolidation run, which turns the new parts of conversations into memory, batch by batch.

The run ignores a client's messages. It shows the model a batch as the answer to a tool call. The model's file tools write into
a draft (`memory/consolidation/drafts.py`). The guard checks the draft (`memory/consolidation/guard.py`), its changes are
applied (`memory/consolidation/acceptance.py`), and the next batch begins. A failed batch has changed nothing, and stays due. A
run without new conversations calls no model. A dry run does the same on a copy.

A run acts for one person. An operator's run that names nobody, such as the cron's, starts one for everyone who is due.
"""

import asyncio
import json
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
from langgraph_sdk import get_client

from memory import identity, journal, langgraph_internals
from memory.consolidation.acceptance import OvertakenError
from memory.consolidation.drafts import Draft, Drafts
from memory.consolidation.endings import at_end
from memory.consolidation.run import ConsolidationRun
from memory.consolidation.run_records import Record, log_line
from memory.consolidation.slots import SLOTS, Slots, no_slot
from memory.consolidation.sweeping import delete_old, sweep
from memory.consolidation.tasks import NOTHING_NEW, TOOL, consolidation_tools, task
from memory.consolidation.trigger import current_owner, is_stray
from memory.controls import PAUSED, controls, delete_temporary, in_temporary_conversation
from memory.usage import repeated_refusal
from memory.validation import RefusedWriteError
from settings import MAX_CONSOLIDATION_STEPS, MAX_UNDONE_BATCHES, Settings

# deepagents' tool for subagents, whose calls would be neither counted nor bounded.
DELEGATE = "task"
# `ls` and `grep` find as much, and every call pays for the description of every tool.
_NOT_OFFERED = {DELEGATE, "glob"}
UNDECIDED = "The person has too many undecided proposals; new conversations wait until they decide."
SHARED = "Nothing is consolidated under MEMORY_SCOPE=assistant: private conversations stay private."
# Restarts of a run's batches after a lost draft or a faster run.
MAX_RESTARTS = 3


class ConsolidationState(AgentState[Any]):
    """The state with which another process goes on."""

    batch: NotRequired[Annotated[str | None, PrivateStateAttr]]  # id of the current batch
    report: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]  # the run's record when the batch began
    restarts: NotRequired[Annotated[int, PrivateStateAttr]]  # batches that began again


class Consolidation(AgentMiddleware[Any, Any, Any]):
    """Gives the model its batches, and accepts or refuses its changes, in the drafts that this graph's backend writes to."""

    state_schema = ConsolidationState

    def __init__(self, settings: Settings, drafts: Drafts, slots: Slots = SLOTS) -> None:
        super().__init__()
        self._settings, self.drafts, self._slots = settings, drafts, slots
        self.tools = consolidation_tools(drafts)

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin the first batch, or end."""
        if not identity.on_server(runtime):
            return None  # a script has no conversations on a server, and brings its own messages
        run = self.run(runtime)
        report = run.new_record()
        ended = await self._without_work(runtime, run, report)
        if ended is None:
            if first := await run.begin(report):
                return await _shown(state, first, restarts=0)
            ended = UNDECIDED if run.is_full else NOTHING_NEW
        return {**_ended(state, ended), "jump_to": "end"}

    async def _without_work(self, runtime: Runtime[Any], run: ConsolidationRun, report: Record) -> str | None:
        """The answer of a run that reads no conversations, or None."""
        if identity.names_nobody(self._settings, runtime):
            return await self._for_everybody(dry=identity.run_context(runtime).dry_run)
        if self._settings.memory_scope == "assistant":
            return SHARED
        owner = current_owner(self._settings, runtime)
        at_end(partial(self._end, run, report))
        if await is_stray(owner, get_store()):
            return "This run's person was forgotten, or another consolidation thread has replaced this one."
        if "trigger" in get_config().get("metadata", {}):  # an owner's thread is used for years
            await langgraph_internals.drop_checkpoints()
        if in_temporary_conversation():
            return "Nothing is consolidated in a temporary conversation."
        if await self._is_paused(owner.actor):
            return f"{PAUSED}: nothing is consolidated."
        return await no_slot(owner, self._slots, dry=identity.run_context(runtime).dry_run)

    async def _end(self, run: ConsolidationRun, report: Record, error: BaseException | None) -> None:
        """Free the run's slot. If an error or a cancellation ended it, leave a record."""
        self._slots.free(report.run_id)
        if error is not None:
            await run.fail(error, report)

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
        """Call the model, and count the call. A failure ends the run (`_end`)."""
        request = request.override(tools=[tool for tool in request.tools if getattr(tool, "name", None) not in _NOT_OFFERED])
        state: Any = request.state
        if not (batch := state.get("batch")):
            return await handler(request)
        if draft := self.drafts.current(batch):
            draft.steps += 1
            draft.stuck = repeated_refusal(request.messages)
        if draft is None or draft.stuck or draft.steps > MAX_CONSOLIDATION_STEPS:
            return ModelResponse([AIMessage("")])  # `aafter_agent` begins the batch again, or refuses it
        response = await handler(request)
        draft.report.count_call(response.result)
        return response

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
        """Refuse forbidden calls, and every call of a run whose draft is gone."""
        text = "Error: consolidation is not delegated; do it yourself." if request.tool_call["name"] == DELEGATE else ""
        if (batch := request.state.get("batch")) and self.drafts.current(batch) is None:
            text = "Error: this consolidation was interrupted; it begins again."
        if text:
            return ToolMessage(text, tool_call_id=request.tool_call["id"], name=request.tool_call["name"], status="error")
        try:
            return await handler(request)
        except Exception:
            self.drafts.end()  # a repeated call could do its work twice
            raise

    @hook_config(can_jump_to=["model"])
    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Accept or refuse the batch; then begin the next one, begin this one again, or end."""
        if not state.get("batch"):
            return None
        run, draft, restarts = self.run(runtime), self.drafts.current(state["batch"]), state["restarts"]
        if await journal.is_forgotten(get_store(), journal.began(run.actor)):
            self.drafts.end()
            return _ended(state, "The person was forgotten; nothing is kept.")
        following = None
        if await self._is_paused(run.actor):
            report = replace(draft.report if draft else Record(**state["report"]), status="undone", reason=f"{PAUSED}.")
        elif draft is None:
            if restarts >= MAX_RESTARTS:
                raise RefusedWriteError("This consolidation was interrupted; start it again.")
            restarts += 1
            report, following = await run.begin_again(Record(**state["report"]))
        else:
            try:
                following = await self._decide(run, draft)
            except OvertakenError as error:
                following = await run.begin(draft.report, draft) if restarts < MAX_RESTARTS else None
                restarts += 1
                draft.report = draft.report if following else replace(draft.report, reason=str(error))
            report = draft.report
        if following:
            return {**await _shown(state, following, restarts), "jump_to": "model"}
        report = await run.finish(report)
        said = json.dumps(asdict(report)) if run.dry else f"{report.conversations} conversations were consolidated."
        return _ended(state, said)

    async def _decide(self, run: ConsolidationRun, draft: Draft) -> Draft | None:
        """Accept or refuse a batch. Returns the next one."""
        too_long = f"It took more than {MAX_CONSOLIDATION_STEPS} steps." if draft.steps > MAX_CONSOLIDATION_STEPS else ""
        stopped = draft.stuck or too_long
        problem = stopped or await run.accept(draft)
        if problem is None:
            return await run.begin(draft.report, draft) if draft.more else None
        if not draft.reason and not stopped:
            return await run.begin(draft.report, draft, problem)
        await run.skip(draft, problem)
        goes_on = draft.more and not draft.stuck and draft.report.undone < MAX_UNDONE_BATCHES
        return await run.begin(draft.report, draft) if goes_on else None

    async def _is_paused(self, actor: identity.Actor) -> bool:
        return (await controls(get_store(), actor, self._settings)).paused

    def run(self, runtime: Runtime[Any]) -> ConsolidationRun:
        return ConsolidationRun(self._settings, runtime, self.drafts)


async def _shown(state: Any, draft: Draft, restarts: int) -> dict[str, Any]:
    """The batch as the answer to the model's first tool call."""
    asked = await asyncio.to_thread(task, len(draft.shown), draft.base, draft.reason)
    call = AIMessage("", tool_calls=[{"name": TOOL, "args": {}, "id": f"batch-{draft.id}"}])
    answer = ToolMessage(draft.text, name=TOOL, tool_call_id=call.tool_calls[0]["id"])
    update = {"batch": draft.id, "report": asdict(draft.report), "restarts": restarts}
    return {**_only(state, HumanMessage(asked), call, answer), **update}


def _only(state: Any, *messages: AnyMessage) -> dict[str, Any]:
    """These messages in place of all earlier ones, without a summary, which would hide these messages, and without the thread's
    files, in which deepagents keeps summarized messages.
    """
    gone: dict[str, Any] = dict.fromkeys(("_summarization_event", "_summarization_session_id"))
    files = dict.fromkeys(state.get("files") or {})
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages], "files": files, **gone}


def _ended(state: Any, text: str) -> dict[str, Any]:
    """The run's answer. The thread keeps nothing of the conversations."""
    return {**_only(state, AIMessage(text)), "batch": None, "report": {}}
