"""Memory that is built anew from all conversations of one's own: how far it is, and stopping it.

`POST /memory/consolidate?from=beginning` (`consolidation.py`) begins it.
"""

from dataclasses import replace

from fastapi import Depends
from starlette.exceptions import HTTPException

from lasting_memory import consolidation
from lasting_memory.http import requests
from lasting_memory.http.consolidation_runs import IS_ON
from lasting_memory.http.dream_runs import check_dreams, dream_state
from lasting_memory.http.models.dreams import DreamState
from lasting_memory.http.requests import FORGOTTEN, AboutQuery, Caller, NoBody, PersonRequest
from lasting_memory.memory.proposals import all_proposals

router = requests.memory_router(IS_ON, Depends(check_dreams))


@router.get("/memory/dream")
async def read_dream(caller: Caller, query: AboutQuery) -> DreamState:
    """How far all of your conversations are read again, or what became of that; null: never."""
    caller.check_not_shared()
    dream = await consolidation.dream_of(caller.store, caller.actor)
    if dream is not None and dream.status == "proposed":
        dream = await _after_decision(caller, dream)
    return dream_state(dream)


async def _after_decision(caller: PersonRequest, dream: consolidation.Dream) -> consolidation.Dream:
    """A dream that has proposed something, as it is by now: it waits, its person has decided, or the
    conversations that it came of were deleted.
    """
    is_decided = False
    for proposal in await all_proposals(caller.store, caller.actor):
        if not proposal.id.startswith(dream.proposal_id):
            continue
        if proposal.changes:  # it waits
            return dream
        is_decided = True
    return replace(dream, status="ended", reason="decided" if is_decided else "deleted")


@router.delete("/memory/dream")
async def stop_dream(caller: Caller, query: AboutQuery, body: NoBody = None) -> DreamState:
    """Stop reading all of your conversations again: nothing is left of what was read.

    404: nothing is being read.
    """
    caller.check_own()
    caller.check_not_shared()
    store = caller.store
    actor = caller.actor
    dream = await consolidation.dream_of(store, actor)
    if dream is None or not dream.may_go_on:
        raise HTTPException(404, "Your conversations are not being read again.")
    is_stopped = await consolidation.stop_dream(store, actor, dream, caller.writer)
    if not is_stopped:
        raise HTTPException(409, FORGOTTEN)
    stopped_dream = await consolidation.dream_of(store, actor)
    return dream_state(stopped_dream)
