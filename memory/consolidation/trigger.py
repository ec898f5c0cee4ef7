"""Triggers of consolidation: some time after a person's last turn (`IdleTrigger`), or at once (`start`, for the sweep).

The platform's queue keeps and starts the runs. All runs of an owner are on one thread, of which the platform runs one at a
time. So concurrent triggers never cause two runs at once; they may queue an extra one, which finds nothing new and ends without
a model call. The thread's id is random and kept in the store: another person could create a predictable id first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import Run, RunSelectField

from environment import CONSOLIDATION_GRAPH
from memory import identity, journal, namespaces
from memory.consolidation.begins import Begins, utc_now
from memory.controls import creating_run, in_temporary_conversation
from memory.journal import file_lock
from settings import MAX_CONSOLIDATION_WAIT_SECONDS, Settings

logger = logging.getLogger(__name__)

# A planned run that begins sooner than this is not cancelled: it could begin before its cancellation arrives.
_MARGIN = timedelta(seconds=2)
# What the metadata of a run says that its person asked for; a run that they created themselves says nothing.
ASKED = "asked"
# Planning waits until the turn's checkpoint and answer are out.
_DELAY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a memory: a person, under `MEMORY_SCOPE=user+assistant` together with an assistant."""

    actor: identity.Actor
    assistant_id: str | None = None

    @property
    def key(self) -> str:
        """Key of the consolidation thread's id in `namespaces.schedule`."""
        return self.assistant_id or "all"

    def context(self) -> dict[str, str]:
        """A context that names this owner. It counts in operators' runs; other people's runs are always their own."""
        named = {"user_id": self.actor.user_id, "org_id": self.actor.org_id}
        return named | ({"assistant_id": self.assistant_id} if self.assistant_id else {})


_BEGINS = Begins()
PlanOn = Callable[[Owner, int, BaseStore], Awaitable[None]]


def current_owner(settings: Settings, runtime: Runtime[Any] | None = None) -> Owner:
    """The owner for whom the current run acts.

    Raises:
        IdentityError: as `identity.acting`.
    """
    by_assistant = settings.memory_scope == "user+assistant"
    return Owner(identity.current_actor(settings, runtime), identity.current_assistant(runtime) if by_assistant else None)


class IdleTrigger(AgentMiddleware[Any, Any, Any]):
    """Plans a consolidation when a turn ends. For the main agent only, because subagents end no turn."""

    def __init__(self, settings: Settings, plan_on: PlanOn | None = None, delay: float = _DELAY_SECONDS) -> None:
        super().__init__()
        self._settings, self._delay = settings, delay
        self._plan_on: PlanOn = plan_on or (lambda owner, seconds, store: plan(owner, seconds, get_client(), store))
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
            if await journal.is_forgotten(store, journal.began(owner.actor)):
                return
            await self._plan_on(owner, self._settings.consolidate_after_seconds, store)
        except Exception as error:  # whatever it is, the turn is done and the next sweep finds the conversation
            logger.warning("No consolidation could be planned after a turn: %r. The sweep does it.", error, exc_info=True)


async def plan(owner: Owner, seconds: int, client: LangGraphClient, store: BaseStore, begins: Begins = _BEGINS) -> None:
    """Plan the owner's next consolidation in `seconds`, in place of the one planned before.

    A run that has begun, is about to, or was asked for is not cancelled; the new one waits behind it. Turns without a pause
    postpone a run for `MAX_CONSOLIDATION_WAIT_SECONDS` at most.
    """
    async with file_lock(namespaces.schedule(owner.actor), owner.key):
        thread_id, pending = await _queue(owner, client, store)
        now = begins.clock()
        planned = [run for run in pending if _begins(run) > now + _MARGIN and not _is_asked(run)]
        since = min((_since(run, now) for run in planned), default=now)
        latest = since + timedelta(seconds=seconds + MAX_CONSOLIDATION_WAIT_SECONDS)
        begin = min(now + timedelta(seconds=seconds), latest)
        if begin == latest and any(_begins(run) >= latest - _MARGIN for run in planned):
            return  # it cannot be postponed any further
        begin = begins.book(owner, begin, now)
        # Create, then cancel: a crash in between leaves an extra run, which finds nothing new and ends.
        wait = max(0, math.ceil((begin - now).total_seconds()))
        await _create(owner, thread_id, client, store, after_seconds=wait, since=since)
        await _cancel(client, thread_id, planned)


async def start(
    owner: Owner, client: LangGraphClient, store: BaseStore, wait: Callable[[], int] = lambda: 0, *, asked: bool = False
) -> bool:
    """Queue a consolidation for the owner, unless one is waiting, which will read everything. Returns whether it queued one.

    Args:
        wait: gives the seconds until it may begin; it is called only if a run is queued.
        asked: the person asked for it, so it takes the place of one that was planned for later, and no sweep's comes first.
    """
    async with file_lock(namespaces.schedule(owner.actor), owner.key):
        thread_id, pending = await _queue(owner, client, store)
        planned = [run for run in pending if asked and _begins(run) > utc_now() + _MARGIN]
        if any(not asked or (_is_asked(run) and run not in planned) for run in pending):
            return False
        trigger = ASKED if asked else "sweep"
        await _create(owner, thread_id, client, store, after_seconds=wait(), since=utc_now(), trigger=trigger)
        await _cancel(client, thread_id, planned)
        return True


async def is_stray(owner: Owner, store: BaseStore, config: RunnableConfig | None = None) -> bool:
    """Whether a trigger created a run, by default the current one, but not on the owner's present consolidation thread.

    That happens to people forgotten meanwhile, and where two processes planned a person's first consolidation at once: the
    store has no compare-and-set, so the later thread id replaced the earlier one.
    """
    config = config or get_config()
    if "trigger" not in config.get("metadata", {}):
        return False
    thread_id = await _thread_id(owner, store)
    return thread_id is None or thread_id != str(config.get("configurable", {}).get("thread_id"))


async def _queue(owner: Owner, client: LangGraphClient, store: BaseStore) -> tuple[str, list[Run]]:
    """Id of the owner's consolidation thread, which its first run creates, and its pending runs."""
    thread_id = await _thread_id(owner, store)
    if thread_id is None or not _is_uuid(thread_id):
        return await _new_thread(owner, store), []
    try:
        select: list[RunSelectField] = ["run_id", "created_at", "metadata"]
        return thread_id, await client.runs.list(thread_id, status="pending", limit=100, select=select)
    except NotFoundError:  # its first run could not be created, or the owner has deleted it
        return thread_id, []


async def _thread_id(owner: Owner, store: BaseStore) -> str | None:
    """Id of the owner's consolidation thread, or None."""
    item = await store.aget(namespaces.schedule(owner.actor), owner.key)
    thread_id = item.value.get("thread_id") if item else None
    return thread_id if isinstance(thread_id, str) else None


def _is_uuid(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False


async def _new_thread(owner: Owner, store: BaseStore) -> str:
    thread_id = str(uuid4())
    await store.aput(namespaces.schedule(owner.actor), owner.key, {"thread_id": thread_id}, index=False)
    return thread_id


async def _create(
    owner: Owner,
    thread_id: str,
    client: LangGraphClient,
    store: BaseStore,
    *,
    after_seconds: int,
    since: datetime,
    trigger: str = "idle",
) -> None:
    options: dict[str, Any] = {
        "input": {"messages": []},
        "context": owner.context(),
        "metadata": {"trigger": trigger, "since": since.isoformat()},
        "multitask_strategy": "enqueue",
        "durability": "exit",  # only the last checkpoint is kept, which holds no conversations
        "if_not_exists": "create",  # the new thread belongs to the run's person, also if an operator creates it
        "after_seconds": after_seconds,
    }
    token = creating_run.set(True)
    try:
        await client.runs.create(thread_id, CONSOLIDATION_GRAPH, **options)
    except NotFoundError:  # the thread with that id is another person's
        await client.runs.create(await _new_thread(owner, store), CONSOLIDATION_GRAPH, **options)
    finally:
        creating_run.reset(token)


async def _cancel(client: LangGraphClient, thread_id: str, planned: Iterable[Run]) -> None:
    for run in planned:
        with contextlib.suppress(NotFoundError):  # another process has replaced it too
            await client.runs.cancel(thread_id, run["run_id"], action="rollback")


def _begins(run: Run) -> datetime:
    """The begin of a pending run: the platform adds `after_seconds` to `created_at`."""
    return datetime.fromisoformat(str(run["created_at"]))


def _is_asked(run: Run) -> bool:
    return (run["metadata"] or {}).get("trigger") == ASKED


def _since(run: Run, now: datetime) -> datetime:
    """The end of the first turn for which this run was planned."""
    try:
        return datetime.fromisoformat(str((run["metadata"] or {}).get("since")))
    except ValueError:  # a run that its owner created
        return now
