"""Consolidation of one's own conversations: asked for, rehearsed, and what it did.

Operators see what is due over all people.
"""

from contextlib import suppress
from typing import Annotated, Literal

from fastapi import Query, Response
from pydantic import Field, ValidationError
from starlette.exceptions import HTTPException

from lasting_memory import consolidation, platform
from lasting_memory.auth.share import share_of
from lasting_memory.consolidation import Trigger
from lasting_memory.http import requests
from lasting_memory.http.consolidation_runs import (
    IS_ON,
    nothing_to_do,
    owner_of,
    run_and_wait,
)
from lasting_memory.http.dream_runs import read_again
from lasting_memory.http.models.consolidation import (
    Backlog,
    ConsolidationRecord,
    NothingToDo,
    Operations,
    Queued,
    Records,
)
from lasting_memory.http.models.dreams import DreamEstimate, DreamState
from lasting_memory.http.requests import AboutQuery, Caller, NoBody, PersonRequest, json_response
from lasting_memory.people import identity
from lasting_memory.platform import get_client

router = requests.memory_router(IS_ON)
# Of this process: each person waits here for their turn to rehearse.
_rehearsals = consolidation.Places()
# Of a dream, whatever is estimated.
MOST_TOKENS = 10_000_000_000


class RunQuery(requests.OneMemory):
    dry_run: bool = False
    tidy: bool = False
    beginning: Annotated[
        Literal["beginning"] | None,
        Field(alias="from", description="beginning: read all conversations again"),
    ] = None
    tokens: Annotated[
        int | None,
        Field(ge=1, le=MOST_TOKENS, description="with from=beginning: the confirmed estimate"),
    ] = None


@router.post(
    "/memory/consolidate",
    status_code=202,
    response_model=Queued | DreamState,
    responses={
        200: {
            "model": ConsolidationRecord | NothingToDo | DreamEstimate,
            "description": "With dry_run=true, or with from=beginning without tokens",
        }
    },
)
async def consolidate(
    caller: Caller, query: Annotated[RunQuery, Query()], body: NoBody = None
) -> Response:
    """Consolidate your conversations now.

    Queues a run; GET /memory/consolidations tells when it is done. With dry_run=true it waits for a
    run that applies nothing, and answers (200) with what would change, or, where the model gave no
    answer, with `status` failed and the `reason`. One runs at a time: who had one longest ago comes
    first, and whoever waits for more than a minute or two reads in `reason` that another is at
    work. With tidy=true it is all of your memory that is put in order, also when nothing is new;
    what that would change is a proposal.

    With from=beginning all of your conversations are read again, into a draft beside memory; at the
    end what would change is a proposal. It answers (200) with an estimate in tokens; sent once more
    with `tokens`, which is at most so many, it begins (202). GET /memory/dream tells how far it is,
    DELETE /memory/dream stops it; one that waits goes on with the same request without tokens.

    409: memory is paused or shared here, you were forgotten meanwhile, or all of it is being read
    again already. 502: the dry run failed.
    """
    if query.beginning or query.tokens:
        return await _from_beginning(caller, query)
    store = caller.store
    writer = caller.writer
    owner = await owner_of(caller)
    trigger = Trigger.TIDY if query.tidy else Trigger.ASKED
    if query.dry_run:
        report = await _rehearse(caller, owner, trigger)
        return json_response(report)
    async with platform.acting_as_caller(caller.http), get_client() as client:
        await consolidation.start(owner, client, trigger, store=store, writer=writer)
    if await caller.is_forgotten():
        raise HTTPException(409, "You were forgotten meanwhile; nothing is queued.")
    return json_response(Queued(queued=True), 202)


async def _from_beginning(caller: PersonRequest, query: RunQuery) -> Response:
    """The answer to a request with `from=beginning` or `tokens`: an estimate, or how far the dream
    is.
    """
    if query.dry_run or query.tidy or not query.beginning:
        raise HTTPException(
            422, "from=beginning goes with tokens alone, and tokens with from=beginning."
        )
    answer = await read_again(caller, query.tokens)
    status = 200 if isinstance(answer, DreamEstimate) else 202
    return json_response(answer, status)


async def _rehearse(
    caller: PersonRequest, owner: consolidation.Owner, trigger: Trigger
) -> ConsolidationRecord | NothingToDo:
    """The report of a dry run, once it is this person's turn."""
    with share_of(caller.actor, caller.deployment.limits).under_way("dry run"):
        async with _rehearsals.taken(caller.actor, 1, consolidation.TURN_SECONDS) as is_turn:
            if not is_turn:
                return nothing_to_do(consolidation.REHEARSING, dry_run=True)
            report = await run_and_wait(caller, owner, trigger, dry_run=True)
    if isinstance(report, NothingToDo):
        return report
    return ConsolidationRecord.model_validate(report, extra="ignore")


@router.get("/memory/consolidations")
async def consolidations(caller: Caller, query: AboutQuery) -> Records:
    """What consolidation did with your conversations: what it read, spent and changed, and why."""
    records = list[ConsolidationRecord]()
    for record in await consolidation.records(caller.store, caller.actor):
        with suppress(ValidationError):  # a damaged one is left out
            records.append(ConsolidationRecord.model_validate(record, extra="ignore"))
    return Records(consolidations=records)


@router.get("/memory/operations", tags=["Operations"])
async def operations(caller: Caller, query: AboutQuery) -> Operations:
    """What is due for consolidation, over all people (operators)."""
    if not identity.is_operator(caller.http.user, caller.deployment.settings):
        raise HTTPException(
            403, "Operations are for operators; GET /memory/consolidations is about yourself."
        )
    if caller.http.query_params:
        raise HTTPException(422, "Operations are about everybody; leave user_id and org_id out.")
    async with get_client() as client:
        backlog = await consolidation.find_backlog(caller.deployment, client, caller.store)
    return Operations(due=Backlog.model_validate(backlog))
