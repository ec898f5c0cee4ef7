"""What starts a consolidation: a while after a person's last turn (`IdleTrigger`), or at once (`start`, for the sweep).

It is the platform's own queue that keeps and starts the runs. All of one owner's are on one thread, their consolidation
thread, and the platform runs one run of a thread at a time: so triggers that meet, in two processes or of two kinds, may
queue a run too many, which finds nothing new and ends without a model call, but never two at once. The thread's id is random
and kept in the store: one that can be computed can be created first by somebody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from langchain.agents.middleware.types import AgentMiddleware
from langgraph.config import get_config, get_store
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import Run, RunSelectField

from memory import epochs, scopes
from memory.files import file_lock
from settings import MAX_CONSOLIDATION_WAIT_SECONDS, Settings

logger = logging.getLogger(__name__)

GRAPH = "consolidation_agent"
# Metadata of the runs that are created here. Nobody else's request may say so: `creating` is set in this process alone, and an
# in-process call carries it to the handlers of `auth.py`.
METADATA = ("trigger", "since")
creating: ContextVar[bool] = ContextVar("creating", default=False)
# A run that is planned to begin sooner than this is left alone: it could begin before its cancellation arrives.
_MARGIN = timedelta(seconds=2)
# The turn's last steps, its checkpoint and its answer, come before what is planned for minutes ahead.
_DELAY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose memory is consolidated: a person's, under `MEMORY_SCOPE=user+assistant` the one they have with an assistant."""

    actor: scopes.Actor
    assistant_id: str | None = None

    @property
    def key(self) -> str:
        """Key of the consolidation thread's id in `scopes.schedule`."""
        return self.assistant_id or "all"

    def context(self) -> dict[str, str]:
        """A run's context that names this owner: it counts on operators' runs, people's own are theirs whatever it says."""
        named = {"user_id": self.actor.user_id, "org_id": self.actor.org_id}
        return named | ({"assistant_id": self.assistant_id} if self.assistant_id else {})


def current_owner(settings: Settings, runtime: Runtime[Any] | None = None) -> Owner:
    """The owner that the run this is called in acts for.

    Raises:
        IdentityError: as `scopes.acting`.
    """
    by_assistant = settings.memory_scope == "user+assistant"
    return Owner(scopes.current_actor(settings, runtime), scopes.current_assistant(runtime) if by_assistant else None)


class IdleTrigger(AgentMiddleware[Any, Any, Any]):
    """Plans a consolidation when a turn has ended. For the main agent: what its subagents end is not a turn."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings
        self._planning: set[asyncio.Task[None]] = set()  # the event loop itself keeps no task alive

    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> None:
        """Plan it in the background: the turn neither waits for that nor fails with it."""
        if not scopes.on_server(runtime):
            return
        # With BG_JOB_ISOLATED_LOOPS every run has a thread and a loop of its own, which stands still when the run has ended.
        isolated = threading.current_thread() is not threading.main_thread()
        delay = 0 if isolated else _DELAY_SECONDS
        task = asyncio.create_task(self._plan(current_owner(self._settings, runtime), get_store(), delay))
        self._planning.add(task)
        task.add_done_callback(self._planning.discard)
        if isolated:
            await task

    async def _plan(self, owner: Owner, store: BaseStore, delay: float) -> None:
        try:
            await asyncio.sleep(delay)
            if await epochs.is_over(store, owner.actor):
                return
            await plan(owner, self._settings.consolidate_after_seconds, get_client(), store)
        except Exception as error:  # whatever it is, the turn is done and the next sweep finds the conversation
            logger.warning("No consolidation could be planned after a turn: %r. The sweep does it.", error, exc_info=True)


async def plan(owner: Owner, seconds: int, client: LangGraphClient, store: BaseStore) -> None:
    """Make the owner's next consolidation begin `seconds` from now, and the one planned before not at all.

    A run that has begun, or is about to, is not cancelled, because what it wrote would stay: then one is queued behind it. By
    turns that never pause it is postponed for `MAX_CONSOLIDATION_WAIT_SECONDS` at most.
    """
    async with file_lock(scopes.schedule(owner.actor), owner.key):
        thread_id, pending = await _queue(owner, client, store)
        now = datetime.now(UTC)
        planned = [run for run in pending if _begins(run) > now + _MARGIN]
        since = min((_since(run, now) for run in planned), default=now)
        latest = since + timedelta(seconds=seconds + MAX_CONSOLIDATION_WAIT_SECONDS)
        begin = min(now + timedelta(seconds=seconds), latest)
        if begin == latest and any(_begins(run) >= latest - _MARGIN for run in planned):
            return  # it cannot be postponed any further
        # Create, then cancel: stopped between the two, there is one too many, which finds nothing new and ends.
        wait = max(0, math.ceil((begin - now).total_seconds()))
        await _create(owner, thread_id, client, store, after_seconds=wait, since=since)
        for run in planned:
            with contextlib.suppress(NotFoundError):  # another process has replaced it too
                await client.runs.cancel(thread_id, run["run_id"], action="rollback")


async def start(owner: Owner, client: LangGraphClient, store: BaseStore) -> bool:
    """Queue a consolidation of the owner's, unless one is waiting to begin: that will read all there is. Whether it did."""
    async with file_lock(scopes.schedule(owner.actor), owner.key):
        thread_id, pending = await _queue(owner, client, store)
        if pending:
            return False
        await _create(owner, thread_id, client, store, after_seconds=0, since=datetime.now(UTC))
        return True


async def is_stray(owner: Owner, store: BaseStore) -> bool:
    """Whether a trigger created the run this is called in, but not on the owner's consolidation thread.

    So are runs of somebody forgotten meanwhile, and, where two processes have planned a person's very first consolidation at
    once, the run on the thread that the other's has replaced in the store: the store has no compare-and-set.
    """
    config = get_config()
    if "trigger" not in config.get("metadata", {}):
        return False
    item = await store.aget(scopes.schedule(owner.actor), owner.key)
    return item is None or item.value["thread_id"] != str(config.get("configurable", {}).get("thread_id"))


async def _queue(owner: Owner, client: LangGraphClient, store: BaseStore) -> tuple[str, list[Run]]:
    """Id of the owner's consolidation thread, which its first run creates, and the runs waiting on it to begin."""
    item = await store.aget(scopes.schedule(owner.actor), owner.key)
    if item is None:
        return await _new_thread(owner, store), []
    thread_id = str(item.value["thread_id"])
    try:
        select: list[RunSelectField] = ["run_id", "created_at", "metadata"]
        return thread_id, await client.runs.list(thread_id, status="pending", limit=100, select=select)
    except NotFoundError:  # its first run could not be created, or the owner has deleted it
        return thread_id, []


async def _new_thread(owner: Owner, store: BaseStore) -> str:
    thread_id = str(uuid4())
    await store.aput(scopes.schedule(owner.actor), owner.key, {"thread_id": thread_id}, index=False)
    return thread_id


async def _create(
    owner: Owner, thread_id: str, client: LangGraphClient, store: BaseStore, *, after_seconds: int, since: datetime
) -> None:
    options: dict[str, Any] = {
        "input": {"messages": []},
        "context": owner.context(),
        "metadata": {"trigger": "idle" if after_seconds else "now", "since": since.isoformat()},
        "multitask_strategy": "enqueue",
        "durability": "exit",  # its checkpoints hold conversations: the last one is enough, which holds none
        "if_not_exists": "create",  # a run's new thread belongs to whom the run acts for, also where an operator creates it
        "after_seconds": after_seconds,
    }
    token = creating.set(True)
    try:
        await client.runs.create(thread_id, GRAPH, **options)
    except NotFoundError:  # a thread of that id is somebody else's
        await client.runs.create(await _new_thread(owner, store), GRAPH, **options)
    finally:
        creating.reset(token)


def _begins(run: Run) -> datetime:
    """When a pending run may begin: the platform counts `after_seconds` into its creation."""
    return datetime.fromisoformat(str(run["created_at"]))


def _since(run: Run, now: datetime) -> datetime:
    """When the first of the turns ended for which this run was planned."""
    try:
        return datetime.fromisoformat(str((run["metadata"] or {}).get("since")))
    except ValueError:  # a run that its owner has put there
        return now
