"""Dreams: memory that is built anew from all conversations of one's own. A request begins one, or
lets it go on, and is told how far it is.
"""

from fastapi import Request
from starlette.exceptions import HTTPException

from lasting_memory import consolidation, platform
from lasting_memory.http.consolidation_runs import owner_of
from lasting_memory.http.models.dreams import Dream, DreamEstimate, DreamState
from lasting_memory.http.requests import FORGOTTEN, PersonRequest
from lasting_memory.platform import get_client

# A confirmed estimate may be so many times what is estimated now: people talk meanwhile.
_MAX_TIMES_ESTIMATE = 2


def check_dreams(request: Request) -> None:
    """Raise where memory is not built anew."""
    if not request.app.state.deployment.has_dream:
        raise HTTPException(
            404,
            "Conversations are not read again here: dream is False in deployment.py, or nobody has "
            "memory of their own.",
        )


async def read_again(caller: PersonRequest, tokens: int | None) -> DreamEstimate | DreamState:
    """The estimate, as long as none is confirmed; else the dream that begins, or goes on.

    `tokens` is the confirmed estimate; None: there is none. Raises `HTTPException` 409 where a dream
    goes on already, and 422 for more tokens than it may take.
    """
    check_dreams(caller.http)
    caller.check_own()
    owner = await owner_of(caller)
    async with platform.lock_of("dream", caller.actor):
        dream = await consolidation.dream_of(caller.store, caller.actor)
        if dream is not None and dream.may_go_on:
            await _go_on(caller, owner, dream)
            return dream_state(await consolidation.dream_of(caller.store, caller.actor))
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
        if not estimate.conversations:
            raise HTTPException(422, "You have no conversation that could be read again.")
        max_tokens = _MAX_TIMES_ESTIMATE * estimate.tokens
        if tokens > max_tokens:
            raise HTTPException(
                422,
                f"'query.tokens' is {tokens}; use at most {max_tokens}, or ask again "
                "without it for the estimate.",
            )
        async with platform.acting_as_caller(caller.http), get_client() as client:
            has_begun = await consolidation.start_dream(caller.memory, client, owner, tokens)
        if not has_begun:
            raise HTTPException(409, FORGOTTEN)
        return dream_state(await consolidation.dream_of(caller.store, caller.actor))


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


def dream_state(dream: consolidation.Dream | None) -> DreamState:
    """A stored dream as its person is told of it; None: there is none. Its fields are numbers,
    but `began`, `status` and `reason`.
    """
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
