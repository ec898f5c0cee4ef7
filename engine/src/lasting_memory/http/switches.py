"""Pause and review: what a person decides about remembering."""

from dataclasses import replace

from starlette.exceptions import HTTPException

from lasting_memory.http.models.person import Controls, controls_of
from lasting_memory.http.requests import (
    FORGOTTEN,
    IN_TURN,
    AboutQuery,
    Caller,
    Sent,
    memory_router,
)
from lasting_memory.memory import controls

router = memory_router(IN_TURN)


class Switches(Sent):
    paused: bool = False
    review: bool = False
    review_agent: bool = False


@router.get("/memory/controls")
async def read_controls(caller: Caller, query: AboutQuery) -> Controls:
    """Whether remembering is paused, and whether changes are proposed to you first."""
    caller.check_not_shared()
    current = await caller.controls()
    return controls_of(current)


@router.put("/memory/controls")
async def write_controls(caller: Caller, query: AboutQuery, body: Switches) -> Controls:
    """Pause or resume remembering; turn the review of changes on or off.

    Paused: nothing new is remembered, at once, and what is said meanwhile is never consolidated;
    what you change yourself counts. With `review` changes of consolidation become proposals, with
    `review_agent` what the agent would write during a conversation. A field that is left out stays
    as it is.
    """
    caller.check_own()
    caller.check_not_shared()
    store = caller.store
    actor = caller.actor
    switches = body.model_dump(exclude_unset=True)
    controls_before = await caller.controls()
    is_set = await controls.set_controls(store, actor, switches, caller.writer)
    if not is_set:
        raise HTTPException(409, FORGOTTEN)
    # Nothing that may fail comes after the change.
    controls_now = replace(controls_before, **switches)
    return controls_of(controls_now)
