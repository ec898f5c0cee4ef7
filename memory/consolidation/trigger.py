"""Triggers of consolidation: some time after a person's last turn (`IdleTrigger`), or soon (`start`).

The platform's queue keeps and starts the runs. All runs of an owner are on one thread, of which the platform runs one at a
time. The thread is found by its metadata, which only this server sets; it belongs to the person. `multitask_strategy`
"rollback" takes back the run that was planned before: it has written nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import uuid4
from weakref import WeakValueDictionary

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.schema import Run

from memory import identity, journal
from memory.controls import creating_run, in_temporary_conversation
from settings import CONSOLIDATION_GRAPH, MAX_CONSOLIDATION_WAIT_SECONDS, Settings

logger = logging.getLogger(__name__)

# What the metadata of a run says that its person asked for; a run that they created themselves says nothing.
ASKED = "asked"
# Metadata of an owner's consolidation thread.
CONSOLIDATES = "consolidates"
# More runs than wait on one thread.
_LISTED = 20
_PLANNING: WeakValueDictionary[tuple[int, Owner], asyncio.Lock] = WeakValueDictionary()
# Planning waits until the turn's checkpoint and answer are out.
_DELAY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a memory: a person, under `MEMORY_SCOPE=user+assistant` together with an assistant."""

    actor: identity.Actor
    assistant_id: str | None = None

    @property
    def assistant(self) -> str:
        """The assistant whose namespace the memory is in, where assistants have their own."""
        return self.assistant_id or identity.DEFAULT_AGENT_ASSISTANT

    def context(self) -> dict[str, str]:
        """A context that names this owner. It counts in operators' runs; other people's runs are always their own."""
        named = {"user_id": self.actor.user_id, "org_id": self.actor.org_id}
        return named | ({"assistant_id": self.assistant_id} if self.assistant_id else {})


def current_owner(settings: Settings, runtime: Runtime[Any] | None = None) -> Owner:
    """The owner for whom the current run acts.

    Raises:
        IdentityError: as `identity.acting`.
    """
    by_assistant = settings.memory_scope == "user+assistant"
    return Owner(identity.current_actor(settings, runtime), identity.current_assistant(runtime) if by_assistant else None)


class IdleTrigger(AgentMiddleware[Any, Any, Any]):
    """Plans a consolidation when a turn ends. For the main agent only, because subagents end no turn."""

    def __init__(self, settings: Settings, delay: float = _DELAY_SECONDS) -> None:
        super().__init__()
        self._settings, self._delay = settings, delay
        self._planning: set[asyncio.Task[None]] = set()  # the event loop itself keeps no task alive

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        response = await handler(request)
        # A turn ends with an answer that calls no tools, or only such whose result is the last word.
        last_words = {tool.name for tool in request.tools if isinstance(tool, BaseTool) and tool.return_direct}
        if {call["name"] for message in response.result for call in getattr(message, "tool_calls", ())} <= last_words:
            await self._turn_ends(request.runtime)
        return response

    async def _turn_ends(self, runtime: Runtime[Any]) -> None:
        """Plan it in the background, so that the turn neither waits nor fails."""
        if not identity.on_server(runtime) or in_temporary_conversation() or runtime.store is None:
            return
        # With BG_JOB_ISOLATED_LOOPS every run has its own thread and loop, which stops at the end of the run.
        isolated = threading.current_thread() is not threading.main_thread()
        delay = 0 if isolated else self._delay
        task = asyncio.create_task(self._plan(current_owner(self._settings, runtime), runtime.store, delay))
        self._planning.add(task)
        task.add_done_callback(self._planning.discard)
        if isolated:
            await task

    async def _plan(self, owner: Owner, store: BaseStore, delay: float) -> None:
        try:
            await asyncio.sleep(delay)
            if not await journal.is_forgotten(store, journal.began(owner.actor)):
                await plan(owner, self._settings.consolidate_after_seconds, get_client())
        except Exception as error:  # whatever it is, the turn is done and the next sweep finds the conversation
            logger.warning("No consolidation could be planned after a turn: %r. The sweep does it.", error, exc_info=True)


def agent_hooks(settings: Settings) -> list[AgentMiddleware[Any, Any, Any]]:
    """The middleware of an agent whose conversations are consolidated."""
    # Private conversations must not flow into shared memory.
    plans = settings.consolidate_after_seconds and settings.memory_scope != "assistant"
    return [IdleTrigger(settings)] if plans else []


async def plan(owner: Owner, seconds: int, client: LangGraphClient) -> None:
    """Plan the owner's next consolidation in `seconds`, in place of the one planned before.

    A run that is at work, or that somebody asked for, is not taken back: the new one waits behind it. Turns without a pause
    postpone a run for `MAX_CONSOLIDATION_WAIT_SECONDS` at most.
    """
    async with _alone(owner):
        thread_id, runs = await _runs(owner, client)
        planned = [run for run in runs if run["status"] == "pending" and not _is_asked(run)]
        busy, now = len(planned) < len(runs), datetime.now(UTC)
        since = min((_since(run, now) for run in planned), default=now)
        if planned and (busy or now - since > timedelta(seconds=MAX_CONSOLIDATION_WAIT_SECONDS)):
            return
        await _create(owner, thread_id, client, seconds, "enqueue" if busy else "rollback", trigger="idle", since=since)


async def start(
    owner: Owner, client: LangGraphClient, *, asked: bool = False, after_seconds: int = 0, inside: bool = False
) -> bool:
    """Queue a consolidation for the owner, unless one is waiting, which will read everything. Returns whether it queued one.

    Args:
        asked: the person asked for it, so it takes the place of one that was planned for later.
        inside: a run of the owner calls this, and goes on.
    """
    async with _alone(owner):
        thread_id, runs = await _runs(owner, client)
        waiting = [run for run in runs if run["status"] == "pending"]
        if any(not asked or _is_asked(run) for run in waiting):
            return False
        busy = inside or len(waiting) < len(runs)
        trigger = ASKED if asked else "sweep"
        await _create(owner, thread_id, client, after_seconds, "enqueue" if busy else "rollback", trigger=trigger)
        return True


def _alone(owner: Owner) -> asyncio.Lock:
    """A lock for an owner: turns that end at once would each make the owner's first thread."""
    return _PLANNING.setdefault((id(asyncio.get_running_loop()), owner), asyncio.Lock())


async def _runs(owner: Owner, client: LangGraphClient) -> tuple[str, list[Run]]:
    """Id of the owner's consolidation thread, which its first run creates, and its pending and running runs."""
    metadata = {"user_id": owner.actor.user_id, "org_id": owner.actor.org_id, CONSOLIDATES: owner.assistant_id or "all"}
    known = await client.threads.search(
        metadata=metadata, limit=1, sort_by="created_at", sort_order="asc", select=["thread_id"]
    )
    if not known:
        return str(uuid4()), []
    thread_id = str(known[0]["thread_id"])
    listed = [await client.runs.list(thread_id, limit=_LISTED, status=status) for status in ("pending", "running")]
    return thread_id, [run for runs in listed for run in runs]


async def _create(
    owner: Owner,
    thread_id: str,
    client: LangGraphClient,
    seconds: int,
    strategy: Literal["enqueue", "rollback"],
    *,
    trigger: str,
    since: datetime | None = None,
) -> None:
    metadata = {
        "trigger": trigger,
        "since": (since or datetime.now(UTC)).isoformat(),
        CONSOLIDATES: owner.assistant_id or "all",
    }
    token = creating_run.set(True)
    try:
        await client.runs.create(
            thread_id,
            CONSOLIDATION_GRAPH,
            input={"messages": []},
            context=owner.context(),
            metadata=metadata,
            multitask_strategy=strategy,
            durability="exit",  # only the last checkpoint is kept, which holds no conversations
            if_not_exists="create",  # the new thread belongs to the run's person, also if an operator creates it
            after_seconds=seconds,
        )
    finally:
        creating_run.reset(token)


def _is_asked(run: Run) -> bool:
    return (run["metadata"] or {}).get("trigger") == ASKED


def _since(run: Run, now: datetime) -> datetime:
    """The end of the first turn for which this run was planned."""
    try:
        return datetime.fromisoformat(str((run["metadata"] or {}).get("since")))
    except ValueError:  # a run that its owner created
        return now
