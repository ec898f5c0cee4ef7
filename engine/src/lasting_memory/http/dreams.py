"""Memory that is built anew from all conversations of one's own: how far it is, and stopping it.

`POST /memory/consolidate?from=beginning` (`consolidation.py`) begins it.
"""

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from lasting_memory import consolidation, platform
from lasting_memory.http import requests
from lasting_memory.http.consolidation_runs import IS_ON, owner_of
from lasting_memory.http.models import Dream, DreamEstimate, DreamState
from lasting_memory.http.requests import FORGOTTEN, AboutQuery, Caller, NoBody, PersonRequest
from lasting_memory.platform import get_client

# A confirmed estimate may be so many times what is estimated now: people talk meanwhile.
_MOST = 2


def check_dreams(request: Request) -> None:
    """Raise where memory is not built anew."""
    if not request.app.state.deployment.has_dream:
        raise HTTPException(
            404,
            "Conversations are not read again here: dream is False in deployment.py, or nobody has "
            "memory of their own.",
        )


router = requests.memory_router(IS_ON, Depends(check_dreams))


@router.get("/memory/dream")
async def read_dream(caller: Caller, query: AboutQuery) -> DreamState:
    """How far all of your conversations are read again, or what became of that; null: never."""
    caller.check_not_shared()
    return _state(await consolidation.dream_of(caller.store, caller.actor))


@router.delete("/memory/dream")
async def stop_dream(caller: Caller, query: AboutQuery, body: NoBody = None) -> DreamState:
    """Stop reading all of your conversations again: nothing is left of what was read.

    404: nothing is being read.
    """
    caller.check_own()
    caller.check_not_shared()
    dream = await consolidation.dream_of(caller.store, caller.actor)
    if dream is None or not dream.may_go_on:
        raise HTTPException(404, "Your conversations are not being read again.")
    if not await consolidation.stop_dream(caller.store, caller.actor, dream, caller.began):
        raise HTTPException(409, FORGOTTEN)
    return _state(await consolidation.dream_of(caller.store, caller.actor))


async def read_again(caller: PersonRequest, tokens: int | None) -> DreamEstimate | DreamState:
    """The estimate, as long as none is confirmed; else the dream that begins, or goes on.

    Raises `HTTPException` 409 where one is going, and 422 for more tokens than that may take.
    """
    check_dreams(caller.http)
    caller.check_own()
    owner = await owner_of(caller)
    async with platform.lock_of("dream", caller.actor):
        dream = await consolidation.dream_of(caller.store, caller.actor)
        if dream is not None and dream.may_go_on:
            await _go_on(caller, owner, dream)
            return _state(await consolidation.dream_of(caller.store, caller.actor))
        async with get_client() as client:
            estimate = await consolidation.estimate_dream(
                caller.deployment, client, caller.store, owner
            )
        if tokens is None:
            return DreamEstimate(
                tokens=estimate.tokens,
                conversations=estimate.conversations,
                messages=estimate.messages,
            )
        if tokens > _MOST * estimate.tokens:
            raise HTTPException(
                422,
                f"'query.tokens' is {tokens}; use at most {_MOST * estimate.tokens}, or ask again "
                "without it for the estimate.",
            )
        async with platform.acting_as_caller(caller.http), get_client() as client:
            has_begun = await consolidation.start_dream(caller.memory, client, owner, tokens)
        if not has_begun:
            raise HTTPException(409, FORGOTTEN)
        return _state(await consolidation.dream_of(caller.store, caller.actor))


async def _go_on(
    caller: PersonRequest, owner: consolidation.Owner, dream: consolidation.Dream
) -> None:
    """Go on with a dream. Raises `HTTPException` 409 where it is going, or another memory's."""
    if dream.memory == caller.namespace[-1]:
        async with platform.acting_as_caller(caller.http), get_client() as client:
            if await consolidation.go_on_with_dream(caller.memory, client, owner, dream):
                return
    raise HTTPException(
        409,
        "Your conversations are being read again already; wait, or stop it (DELETE /memory/dream).",
    )


def _state(dream: consolidation.Dream | None) -> DreamState:
    if dream is None:
        return DreamState(dream=None)
    return DreamState(
        dream=Dream(
            began=dream.began,
            status=dream.status,
            reason=dream.reason,
            tokens=dream.tokens,
            cap=dream.cap,
            conversations=dream.conversations,
            read=dream.read,
            left_out=dream.left_out,
            messages=dream.messages,
        )
    )
