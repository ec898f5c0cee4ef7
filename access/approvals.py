"""Approvals: a resume must name the pending interrupts that it answers.

A resume value without an interrupt's id answers any interrupt that is pending when the run executes. The owner of a thread
could delete and recreate it with the same id and another pending write. Its interrupt then has another id, which comes from the
checkpoint.
"""

import re
from collections.abc import Mapping
from typing import Any

from langgraph_sdk import Auth, get_client
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import Thread, ThreadState

from environment import CONSOLIDATION_GRAPH

HTTPException = Auth.exceptions.HTTPException

# With this key in `config.configurable`, langgraph fails a run that answers an interrupt which is not pending. Without it the
# run ignores the answer and continues.
STRICT_RESUME = "__pregel_strict_resume"
# With any other key langgraph takes the whole map as one answer to any pending interrupt.
_INTERRUPT = re.compile("[0-9a-f]{32}")


async def check_approval(thread_id: object, kwargs: Mapping[str, Any]) -> None:
    """Refuse a resume that does not name the pending interrupts that it answers. The run itself checks the names again.

    Raises:
        HTTPException: 422, a key is not the id of an interrupt; 409, an interrupt is not pending, or the resume names an
            earlier checkpoint. The detail lists the pending interrupts.
    """
    state = await _state(thread_id)
    pending = _pending(state)
    answered, configurable = kwargs["command"]["resume"], kwargs["config"]["configurable"]
    if not isinstance(answered, Mapping) or not answered or not all(_INTERRUPT.fullmatch(key) for key in answered):
        raise _refused(422, "The resume does not name the interrupts that it answers.", pending)
    if unknown := [key for key in answered if key not in pending]:
        raise _refused(409, f"The resume names {unknown[0]}, which is not pending.", pending)
    at = configurable.get("checkpoint_id")
    if at is not None and (state is None or str(at) != state["checkpoint"]["checkpoint_id"]):
        raise _refused(409, "The resume goes back to an earlier checkpoint; leave it out.", pending)
    configurable[STRICT_RESUME] = True


def _pending(state: ThreadState | None) -> list[str]:
    """Ids of the pending interrupts of a thread."""
    return sorted({str(interrupt["id"]) for interrupt in state["interrupts"]}) if state else []


async def _state(thread_id: object) -> ThreadState | None:
    """The newest state of a thread, or None if it does not exist or the caller may not see it."""
    try:
        return await get_client().threads.get_state(str(thread_id)) if thread_id else None
    except NotFoundError:
        return None


def _refused(status: int, why: str, pending: list[str]) -> Exception:
    if not pending:
        return HTTPException(status, f"{why} Nothing waits for an approval on this thread.")
    how = f'look at what waits, and send {{"resume": {{"<id>": {{"decisions": [...]}}}}}} with an id of {", ".join(pending)}.'
    return HTTPException(status, f"{why} With SHARED_WRITES=interrupt {how}")


async def check_nothing_awaits_approval(thread_id: object, after_seconds: int | None, *, consolidates: bool) -> None:
    """Refuse a run that could replace a write which awaits an operator's approval.

    People have one run at a time on a thread, and none while it awaits approval. Consolidation asks for no approval, so its
    runs may be queued, on threads of its own, where no conversation may continue.

    Raises:
        HTTPException: 403, the run is to start later; 409, the thread is not free.
    """
    thread = await thread_of(thread_id)
    graph = (thread["metadata"] or {}).get("graph_id") if thread else None
    if consolidates and (thread is None or graph == CONSOLIDATION_GRAPH):
        return
    if graph == CONSOLIDATION_GRAPH:
        raise HTTPException(409, f"Thread {thread_id} is consolidation's; go on in another thread.")
    if after_seconds:
        raise HTTPException(
            403, "With SHARED_WRITES=interrupt only an operator may start a run later: it could replace a write."
        )
    # A thread whose paused run was deleted stays interrupted with nothing to approve.
    if thread and thread["status"] == "interrupted" and _pending(await _state(thread_id)):
        raise HTTPException(409, f"Thread {thread_id} waits for an operator's approval; go on in another thread.")
    if thread and thread["status"] == "busy":
        raise HTTPException(409, f"Thread {thread_id} has a run going; wait until it ends.")


async def check_idle(thread_id: object) -> None:
    """Refuse (409) an approval on a busy thread: behind another run it would approve that run's write."""
    thread = await thread_of(thread_id)
    if thread and thread["status"] == "busy":
        raise HTTPException(409, f"Thread {thread_id} has a run going; look at what it asks for first.")


async def thread_of(thread_id: object) -> Thread | None:
    """The thread, or None if it does not exist or the caller may not see it."""
    try:
        return await get_client().threads.get(str(thread_id)) if thread_id else None
    except NotFoundError:
        return None
