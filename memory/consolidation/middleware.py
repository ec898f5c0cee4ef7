"""The middleware of a consolidation run, which turns the new parts of conversations into memory, batch by batch.

The run ignores a client's messages. It shows the model a batch as the answer to a tool call. The model's file tools write into
a draft (`memory/consolidation/drafts.py`). The guard checks the draft (`memory/consolidation/guard.py`), its changes are
applied (`memory/consolidation/acceptance.py`), and the next batch begins. A failed batch has changed nothing, and stays due. A
run without new conversations calls no model. A dry run applies nothing.

A run acts for one person. An operator's run that names nobody, such as the cron's, starts one for everyone who is due.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import AgentMiddleware, AgentState, ModelRequest, ModelResponse, PrivateStateAttr
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.config import get_config, get_store
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph_sdk import get_client

from memory import identity, journal, langgraph_internals
from memory.consolidation.acceptance import OvertakenError
from memory.consolidation.drafts import Draft, Drafts
from memory.consolidation.expiry import delete_old
from memory.consolidation.run import MAX_RESTARTS, TOOL, Batch, ConsolidationRun
from memory.consolidation.run_records import Record, log_line
from memory.consolidation.slots import SLOTS, Slots, no_slot
from memory.consolidation.sweeping import sweep
from memory.consolidation.tools import forget_lines_tool
from memory.consolidation.trigger import current_owner, is_stray
from memory.controls import PAUSED, controls, delete_temporary, in_temporary_conversation
from settings import MAX_CONSOLIDATION_STEPS, MAX_UNDONE_BATCHES, Settings

# deepagents' tool for subagents, whose calls would be neither counted nor bounded.
DELEGATE = "task"
UNDECIDED = "The person has too many undecided proposals; new conversations wait until they decide."
NOTHING_NEW = "Nothing is new since the last consolidation."


def _noted(before: list[dict[str, Any]], added: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*before, *added] if added else []


class ConsolidationState(AgentState[Any]):
    """The state that survives a restart of the process.

    Args:
        batch: the current batch; None before the first and after the last.
        given_up: the calls of `forget_lines` in this batch. An empty list resets them.
        steps: model calls in this batch.
        report: the run's record so far.
    """

    batch: NotRequired[Annotated[dict[str, Any] | None, PrivateStateAttr]]
    given_up: NotRequired[Annotated[list[dict[str, Any]], PrivateStateAttr, _noted]]
    steps: NotRequired[Annotated[int, PrivateStateAttr]]
    report: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class Consolidation(AgentMiddleware[Any, Any, Any]):
    """Gives the model its batches, and accepts or refuses its changes.

    Args:
        settings: for the scope of memory.
        drafts: the drafts, which this graph's backend writes to.
        slots: the process's slots for consolidations.
    """

    state_schema = ConsolidationState

    def __init__(self, settings: Settings, drafts: Drafts, slots: Slots = SLOTS) -> None:
        super().__init__()
        self._settings, self.drafts, self._slots = settings, drafts, slots
        self.tools = [self._read_again(), forget_lines_tool()]

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin the first batch, or end."""
        if not identity.on_server(runtime):
            return None  # a script has no conversations on a server, and brings its own messages
        if ended := await self._without_work(runtime):
            return _end(state, ended)
        run = self.run(runtime)
        # Before any reading, so that nothing said before the person was forgotten is written afterwards.
        await journal.begin_epoch(get_store(), run.actor)
        if first := await run.begin():
            return _shown(state, first, Record(run.run_id, datetime.now(UTC).isoformat(), dry_run=run.dry))
        return _end(state, UNDECIDED if run.is_full else NOTHING_NEW)

    async def _without_work(self, runtime: Runtime[Any]) -> str | None:
        """The answer of a run that reads no conversations, or None."""
        nobody = identity.names_nobody(self._settings, runtime)
        if nobody and not self.run(runtime).dry:
            await delete_temporary(get_client())
            await delete_old(get_client(), get_store())
        if self._settings.memory_scope == "assistant":
            return "Nothing is consolidated under MEMORY_SCOPE=assistant: private conversations stay private."
        if nobody:
            if self.run(runtime).dry:
                return "A dry run is for one person: name them in its context (user_id, org_id)."
            people = await sweep(self._settings, get_client(), get_store())
            log_line({"status": "swept", "run_id": self.run(runtime).run_id, "people": people})
            return f"Consolidation was started for {people} people."
        if await is_stray(current_owner(self._settings, runtime), get_store()):
            return "This run's person was forgotten, or another consolidation thread has replaced this one."
        if "trigger" in get_config().get("metadata", {}):  # an owner's thread is used for years
            await langgraph_internals.drop_checkpoints()
        return await self._kept_out(current_owner(self._settings, runtime).actor) or await no_slot(
            self._settings, runtime, self._slots
        )

    async def _kept_out(self, actor: identity.Actor) -> str | None:
        """The reason why nothing is consolidated for the person now, or None."""
        if in_temporary_conversation():
            return "Nothing is consolidated in a temporary conversation."
        return f"{PAUSED}: nothing is consolidated." if await self._is_paused(actor) else None

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Count the steps."""
        if state.get("batch") and state["steps"] >= MAX_CONSOLIDATION_STEPS:
            return {"steps": state["steps"] + 1, "jump_to": "end"}
        return {"steps": state.get("steps", 0) + 1}

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Call the model, unless the draft is gone. A failure ends the run."""
        state: Any = request.state
        request = request.override(tools=[tool for tool in request.tools if getattr(tool, "name", None) != DELEGATE])
        if not (given := state.get("batch")):
            return await handler(request)
        run = self.run(request.runtime)
        if run.draft(Batch(**given)) is None:
            return ModelResponse([AIMessage("")])  # `aafter_agent` begins the batch again
        try:
            return await handler(request)
        except Exception as error:
            await run.finish(replace(Record(**state["report"]), status="failed", reason=type(error).__name__))
            raise

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
        """Refuse forbidden calls, and every call of a run whose draft is gone."""
        runtime: Any = request.runtime
        text = "Error: consolidation is not delegated; do it yourself." if request.tool_call["name"] == DELEGATE else ""
        if (given := request.state.get("batch")) and self.run(runtime).draft(Batch(**given)) is None:
            text = "Error: this consolidation was interrupted; it begins again."
        if text:
            return ToolMessage(text, tool_call_id=request.tool_call["id"], name=request.tool_call["name"], status="error")
        try:
            return await handler(request)
        except Exception:
            self.drafts.end(identity.current_run_id() or "")  # a repeated call could do its work twice
            raise

    async def aafter_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Add the call's tokens to the report."""
        if not state.get("batch") or self.run(runtime).draft(Batch(**state["batch"])) is None:
            return None
        report, usage = Record(**state["report"]), getattr(state["messages"][-1], "usage_metadata", None) or {}
        report.model_calls += 1
        report.input_tokens += usage.get("input_tokens", 0)
        report.output_tokens += usage.get("output_tokens", 0)
        return {"report": asdict(report)}

    @hook_config(can_jump_to=["model"])
    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Accept or refuse the batch; then begin the next one, begin this one again, or end."""
        if not state.get("batch"):
            return None
        run, report, batch = self.run(runtime), Record(**state["report"]), Batch(**state["batch"])
        if await journal.epoch_is_over(get_store(), run.actor):
            return {**_only(state, AIMessage("The person was forgotten; nothing is kept.")), "batch": None, "report": {}}
        if await self._is_paused(run.actor):
            report, following = replace(report, status="undone", reason=f"{PAUSED}."), None
        elif draft := run.draft(batch):
            report, following = await self._decide(run, batch, draft, report, state)
        else:
            report, following = await run.begin_again(batch, report)
        if following:
            return {**_shown(state, following, report), "jump_to": "model"}
        report = await run.finish(report)
        said = json.dumps(asdict(report)) if run.dry else f"{report.conversations} conversations were consolidated."
        # The thread keeps nothing of the conversations.
        return {**_only(state, AIMessage(said)), "batch": None, "report": {}}

    async def _decide(
        self, run: ConsolidationRun, batch: Batch, draft: Draft, report: Record, state: Any
    ) -> tuple[Record, Batch | None]:
        """The report after accepting or refusing the batch, and the next batch."""
        stopped = f"It took more than {MAX_CONSOLIDATION_STEPS} steps." if state["steps"] > MAX_CONSOLIDATION_STEPS else None
        given_up = state.get("given_up", [])
        try:
            report, problem = (report, stopped) if stopped else await run.accept(batch, draft, given_up, report)
        except OvertakenError as error:
            again = await run.begin(replace(batch, restarts=batch.restarts + 1)) if batch.restarts < MAX_RESTARTS else None
            return (report, again) if again else (replace(report, reason=str(error)), None)
        if problem is None:
            return report, await run.follow_accepted(batch, draft) if batch.more else None
        if batch.attempt == 1 and not stopped:
            return report, await run.follow(batch, draft, problem)
        report, batch = replace(report, status="undone", reason=problem, undone=report.undone + 1), await run.skip(batch)
        goes_on = batch.more and batch.undone < MAX_UNDONE_BATCHES
        return report, await run.follow(batch, draft) if goes_on else None

    async def _is_paused(self, actor: identity.Actor) -> bool:
        return (await controls(get_store(), actor, self._settings)).paused

    def run(self, runtime: Runtime[Any]) -> ConsolidationRun:
        return ConsolidationRun(self._settings, runtime, self.drafts)

    def _read_again(self) -> BaseTool:
        @tool(TOOL)
        async def search_recent_conversations(runtime: ToolRuntime[identity.Context, Any]) -> str:
            """Read again what this person's conversations have had that is new since the last consolidation, oldest first."""
            given = runtime.state.get("batch")
            return str(given["text"]) if given else NOTHING_NEW

        return search_recent_conversations


def _shown(state: Any, batch: Batch, report: Record) -> dict[str, Any]:
    """The batch as the answer to the model's first tool call."""
    call = AIMessage("", tool_calls=[{"name": TOOL, "args": {}, "id": f"batch-{batch.id}"}])
    answer = ToolMessage(batch.text, name=TOOL, tool_call_id=call.tool_calls[0]["id"])
    update = {"batch": asdict(batch), "steps": 0, "report": asdict(report)}
    return {**_only(state, HumanMessage(batch.task), call, answer), **update}


def _only(state: Any, *messages: AnyMessage) -> dict[str, Any]:
    """These messages in place of all earlier ones, without a summary, which would hide these messages, and without the thread's
    files, in which deepagents keeps summarized messages.
    """
    gone: dict[str, Any] = dict.fromkeys(("_summarization_event", "_summarization_session_id"))
    files = dict.fromkeys(state.get("files") or {})
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages], "given_up": [], "files": files, **gone}


def _end(state: Any, text: str) -> dict[str, Any]:
    return {**_only(state, AIMessage(text)), "batch": None, "jump_to": "end"}
