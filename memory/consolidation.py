"""A consolidation run: batch by batch, from what is new in a person's conversations to their memory files.

What a client sends as messages is not read. The model is shown a batch as the answer to a call that it is spared
making; it writes with its file tools; then what it wrote is checked (`memory/guard.py`), the positions move, and the next
batch begins. What fails is undone, and stays due. When nothing is new the run ends before the model is called.

A run is for the person it acts as. An operator's run that names nobody, such as the cron's, starts one for everybody who has
something new.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import AgentMiddleware, AgentState, ModelRequest, ModelResponse, PrivateStateAttr
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.config import get_store
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph_sdk import get_client

from memory import epochs, scopes
from memory.consolidation_tools import DELEGATE, forget_lines_tool, refusal
from memory.progress import LeaseHeldError, Record
from memory.rehearsal import Rehearsals
from memory.sweep import sweep
from memory.triggers import current_owner, is_stray, plan
from memory.work import TOOL, Batch, Work
from settings import LEASE_SECONDS, MAX_CONSOLIDATION_STEPS, MAX_UNDONE_BATCHES, Settings

NOTHING_NEW = "Nothing is new since the last consolidation."


def _noted(before: list[dict[str, Any]], added: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*before, *added] if added else []


class ConsolidationState(AgentState[Any]):
    """What a run must not forget when its process is restarted.

    Args:
        batch: what the model works on; None before the first and after the last.
        given_up: lines that the model gave to `forget_lines` in this batch. An empty list forgets them.
        steps: model calls in this batch.
        report: the run's record so far.
    """

    batch: NotRequired[Annotated[dict[str, Any] | None, PrivateStateAttr]]
    given_up: NotRequired[Annotated[list[dict[str, Any]], PrivateStateAttr, _noted]]
    steps: NotRequired[Annotated[int, PrivateStateAttr]]
    report: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class Consolidation(AgentMiddleware[Any, Any, Any]):
    """Gives the model its batches, and lets stand what it made of them, or not.

    Args:
        settings: whose memory it is.
        rehearsals: the copies that dry runs write to; this graph's backend is given them too.
    """

    state_schema = ConsolidationState

    def __init__(self, settings: Settings, rehearsals: Rehearsals) -> None:
        super().__init__()
        self._settings, self._rehearsals = settings, rehearsals
        self.tools = [self._read_again(), forget_lines_tool()]

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin the first batch, or end."""
        if not scopes.on_server(runtime):
            return None  # a script that calls the graph has no conversations on a server, and says itself what to do
        if ended := await self._without_work(runtime):
            return _end(state, ended)
        work = self._work(runtime)
        # Before anything is read: what was said before the person was forgotten is not written after it.
        await epochs.begin_now(get_store(), work.actor)
        if not (found := await work.find()):
            return _end(state, NOTHING_NEW)
        try:
            found = await work.take_over(found)
        except LeaseHeldError as error:
            # It may have found nothing of what came since, or be dead: look again when that is known.
            await plan(current_owner(self._settings, runtime), LEASE_SECONDS, get_client(), get_store())
            return _end(state, f"{error} What is new is left to it, and to a run in {LEASE_SECONDS} s.")
        report = Record(work.run_id, datetime.now(UTC).isoformat(), dry_run=work.dry)
        if first := await work.begin(found):
            return _shown(state, first, report)
        await work.finish(report)
        return _end(state, NOTHING_NEW)

    async def _without_work(self, runtime: Runtime[Any]) -> str | None:
        """What there is to say of a run that has no conversations to read; None where it has."""
        if self._settings.memory_scope == "assistant":
            return "Nothing is consolidated under MEMORY_SCOPE=assistant: private conversations stay private."
        if scopes.names_nobody(self._settings, runtime):
            if self._work(runtime).dry:
                return "A dry run is for one person: name them in its context (user_id, org_id)."
            return f"Consolidation was started for {await sweep(self._settings, get_client(), get_store())} people."
        if await is_stray(current_owner(self._settings, runtime), get_store()):
            return "This run was planned for somebody who is gone, or on a thread that another has replaced."
        return None

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Count the steps."""
        if state.get("batch") and state["steps"] >= MAX_CONSOLIDATION_STEPS:
            return {"steps": state["steps"] + 1, "jump_to": "end"}
        return {"steps": state.get("steps", 0) + 1}

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Give signs of life; where the model fails, or another run has taken over, undo what there is of the batch."""
        state: Any = request.state
        # Delegated work would be neither counted nor bounded, nor show that the run is alive.
        request = request.override(tools=[tool for tool in request.tools if getattr(tool, "name", None) != DELEGATE])
        if not (given := state.get("batch")):
            return await handler(request)
        work, report = self._work(request.runtime), Record(**state["report"])
        try:
            async with work.alive():
                return await handler(request)
        except Exception as error:
            await work.undo(Batch(**given))
            report.status, report.reason = "failed", type(error).__name__
            await work.finish(report)
            raise

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
        """Refuse what no consolidation does, and everything to a run that another has taken over from while it was slow."""
        runtime: Any = request.runtime
        text = refusal(request.tool_call, request.state)
        if request.state.get("batch") and not await self._work(runtime).holds():
            text = "Error: another consolidation has taken over from this one; nothing more can be changed."
        if text:
            return ToolMessage(text, tool_call_id=request.tool_call["id"], name=request.tool_call["name"], status="error")
        return await handler(request)

    async def aafter_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Note what the call took."""
        if not state.get("report"):
            return None
        report, usage = Record(**state["report"]), getattr(state["messages"][-1], "usage_metadata", None) or {}
        report.model_calls += 1
        report.input_tokens += usage.get("input_tokens", 0)
        report.output_tokens += usage.get("output_tokens", 0)
        return {"report": asdict(report)}

    @hook_config(can_jump_to=["model"])
    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Let the batch stand or undo it; then the next one, or this one again, or the end."""
        if not state.get("batch"):
            return None
        work, report, batch = self._work(runtime), Record(**state["report"]), Batch(**state["batch"])
        if await epochs.is_over(get_store(), work.actor):
            return {**_only(state, AIMessage("The person was forgotten; nothing is kept.")), "batch": None, "report": {}}
        given_up = state.get("given_up", [])
        stopped = f"It took more than {MAX_CONSOLIDATION_STEPS} steps." if state["steps"] > MAX_CONSOLIDATION_STEPS else None
        if following := await self._decide(work, batch, given_up, report, stopped):
            return {**_shown(state, following, report), "jump_to": "model"}
        await work.finish(report)
        said = json.dumps(asdict(report)) if work.dry else f"{report.conversations} conversations were consolidated."
        # What stays in the thread holds nothing of the conversations.
        return {**_only(state, AIMessage(said)), "batch": None, "report": {}}

    async def _decide(
        self, work: Work, batch: Batch, given_up: list[dict[str, Any]], report: Record, stopped: str | None
    ) -> Batch | None:
        """Whether the batch stands, noted in the report; and what comes after it."""
        reason, lost = None, False
        try:
            problem = await work.accept(batch, given_up, report, stopped)
        except LeaseHeldError as error:
            problem, lost = str(error), True
        if problem is not None:
            await work.undo(batch)
            reason = problem if batch.attempt == 1 and not stopped and not lost else None
        if problem is not None and reason is None:
            report.status, report.reason = "undone", problem
            batch = await work.skip(batch)
        if lost or batch.undone >= MAX_UNDONE_BATCHES or not (reason or batch.more):
            return None
        try:
            return await work.begin(await work.find(batch), batch, reason)
        except LeaseHeldError as error:  # what was decided so far stays decided
            report.reason = report.reason or str(error)
            return None

    def _work(self, runtime: Runtime[Any]) -> Work:
        return Work(self._settings, runtime, self._rehearsals)

    def _read_again(self) -> BaseTool:
        @tool(TOOL)
        async def search_recent_conversations(runtime: ToolRuntime[scopes.Context, Any]) -> str:
            """Read again what this person's conversations have had that is new since the last consolidation, oldest first."""
            given = runtime.state.get("batch")
            return str(given["text"]) if given else NOTHING_NEW

        return search_recent_conversations


def _shown(state: Any, batch: Batch, report: Record) -> dict[str, Any]:
    """The batch as the model gets it: as the answer to the call that it would have made first."""
    call = AIMessage("", tool_calls=[{"name": TOOL, "args": {}, "id": f"batch-{batch.number}-{batch.attempt}"}])
    answer = ToolMessage(batch.text, name=TOOL, tool_call_id=call.tool_calls[0]["id"])
    update = {"batch": asdict(batch), "steps": 0, "report": asdict(report)}
    return {**_only(state, HumanMessage(batch.task), call, answer), **update}


def _only(state: Any, *messages: AnyMessage) -> dict[str, Any]:
    """These messages, and nothing of what came before: no summary of it either, which would hide what is shown now, and none of
    the thread's files, in which deepagents keeps what it summarized.
    """
    gone: dict[str, Any] = dict.fromkeys(("_summarization_event", "_summarization_session_id"))
    files = dict.fromkeys(state.get("files") or {})
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages], "given_up": [], "files": files, **gone}


def _end(state: Any, text: str) -> dict[str, Any]:
    return {**_only(state, AIMessage(text)), "batch": None, "jump_to": "end"}
