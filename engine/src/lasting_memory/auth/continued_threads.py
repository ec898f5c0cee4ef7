"""The thread that a run or a state update continues, and the pause of its owner's memory."""

from langgraph_sdk import Auth
from langgraph_sdk.schema import Thread

from lasting_memory import platform
from lasting_memory.conversations.marks import is_imported, keep_out
from lasting_memory.deployment import Deployment
from lasting_memory.memory.controls import controls
from lasting_memory.people.identity import Actor
from lasting_memory.platform import get_client

HTTPException = Auth.exceptions.HTTPException


async def continued_thread(thread_id: object) -> Thread | None:
    """The thread to continue; None if it does not exist or the caller may not see it.

    Raises `HTTPException` 409 for a conversation that is history alone.
    """
    if not thread_id:
        return None
    # A search, because `get` of a thread that a run is about to create logs a warning, and reads
    # the whole conversation.
    threads = await get_client().threads.search(
        ids=[str(thread_id)], limit=1, select=["thread_id", "metadata"]
    )
    if not threads:
        return None
    thread = threads[0]
    if is_imported(thread):
        raise HTTPException(
            409, "This conversation was imported: it is there to read; start a new one."
        )
    return thread


async def note_pause(deployment: Deployment, owner: Actor, thread: Thread | None) -> bool:
    """Whether the owner's memory is paused.

    Then marks the thread, so that consolidation skips what was said during the pause.
    """
    store = await platform.store()
    owner_controls = await controls(store, owner, deployment)
    is_paused = owner_controls.paused
    if is_paused and thread:
        await keep_out(thread["thread_id"], thread["metadata"])
    return is_paused
