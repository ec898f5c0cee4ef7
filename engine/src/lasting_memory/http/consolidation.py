"""What consolidation adds to a person's own view: its runs, its proposals, and for operators what is due over all people."""

import json
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response
from langgraph_sdk import get_client
from langgraph_sdk.errors import APIStatusError
from pydantic import Field
from starlette.exceptions import HTTPException

from lasting_memory import platform
from lasting_memory.consolidation import (
    DecidedError,
    Owner,
    UnknownProposalError,
    decide,
    find_backlog,
    records,
    shown_proposals,
    start,
)
from lasting_memory.controls import PAUSED, controls
from lasting_memory.http.requests import (
    AboutQuery,
    Answer,
    Caller,
    MemoryQuery,
    NoBody,
    OneMemory,
    PersonRequest,
    Sent,
    memory_router,
)
from lasting_memory.limits import DEFAULT_CONSOLIDATION
from lasting_memory.people import identity
from lasting_memory.settings import CONSOLIDATION_GRAPH

__all__ = ["router", "shown_proposals"]


def _is_on(request: Request) -> None:
    if request.app.state.deployment.consolidation is None:
        raise HTTPException(404, "There is no consolidation here: consolidation is None in deployment.py.")


router = memory_router(Depends(_is_on))


class RunQuery(OneMemory):
    dry_run: bool = False


class Decision(Sent):
    accept: bool
    files: Annotated[list[str], Field(min_length=1)] | None = None


@router.post("/memory/consolidate", status_code=202)
async def consolidate(caller: Caller, query: Annotated[RunQuery, Query()], response: Response, body: NoBody = None) -> Answer:
    """Consolidate your conversations now.

    Queues a run; GET /memory/consolidations tells when it is done. With dry_run=true it waits for a run that applies nothing,
    and answers (200) with what would change. 409: memory is paused, or shared here. 502: the dry run failed.
    """
    caller.check_not_shared()
    if (await controls(caller.store, caller.actor, caller.deployment)).paused:
        raise HTTPException(409, f"{PAUSED}; resume it first (PUT /memory/controls).")
    owner = Owner(caller.actor, caller.assistant if caller.deployment.memory.per_assistant else None)
    if query.dry_run:
        response.status_code = 200
        return await _rehearse(caller, owner)
    async with platform.acting_as_caller(caller.http), get_client() as client:
        await start(owner, client, "asked")
    return {"queued": True}


async def _rehearse(caller: PersonRequest, owner: Owner) -> Answer:
    """A dry run's report; `reason` says so if there was nothing to do."""
    context: Any = {**owner.context(), "dry_run": True}
    try:
        async with platform.acting_as_caller(caller.http), get_client() as client:
            values: Any = await client.runs.wait(
                None, CONSOLIDATION_GRAPH, input={"messages": []}, context=context, on_disconnect="cancel", raise_error=False
            )
    except APIStatusError as error:
        raise HTTPException(error.response.status_code, f"The dry run could not begin: {error.message}") from None
    if not isinstance(values, dict) or not values.get("messages"):
        raise HTTPException(502, "The dry run failed; see the server's log.")
    said = str(values["messages"][-1].get("content"))
    try:
        report: Answer = json.loads(said)
    except ValueError:
        return {"dry_run": True, "files": {}, "reason": said}
    return report


@router.get("/memory/consolidations")
async def consolidations(caller: Caller, query: AboutQuery) -> Answer:
    """What consolidation did with your conversations.

    `consolidations`, newest first: what it read and spent, its `status` (done, undone, failed) and `files` (a diff each).
    """
    return {
        "consolidations": await records(caller.store, caller.actor, caller.deployment.consolidation or DEFAULT_CONSOLIDATION)
    }


@router.get("/memory/proposals")
async def list_proposals(caller: Caller, query: MemoryQuery) -> Answer:
    """What consolidation would change, and waits for your decision.

    `proposals`, oldest first: id, at, `files` (a diff each, by path), `threads` (ids of the conversations they come from).
    """
    return {"proposals": await shown_proposals(caller.store, caller.actor, caller.namespace)}


@router.post("/memory/proposals/{proposal_id}")
async def decide_proposal(caller: Caller, proposal_id: str, query: MemoryQuery, body: Decision) -> Answer:
    """Accept or decline a proposal, or some of its files.

    What is accepted is merged with what memory says now; what is declined is not proposed again, unless you say it again.
    `refused`: by path, why something could not be applied; that still waits. 409: it was decided already.
    """
    caller.check_own()
    store, actor, place, began = caller.store, caller.actor, caller.namespace, caller.began
    try:
        refused = await decide(
            store, actor, place, proposal_id, accept=body.accept, paths=body.files, began=began, deployment=caller.deployment
        )
    except DecidedError as error:
        raise HTTPException(409, str(error)) from None
    except UnknownProposalError as error:
        raise HTTPException(404, str(error)) from None
    return {"id": proposal_id, "accepted": body.accept, "refused": refused}


@router.get("/memory/operations", tags=["Operations"])
async def operations(caller: Caller, query: AboutQuery) -> Answer:
    """What is due for consolidation, over all people (operators): `due` (people, conversations, oldest)."""
    if not identity.is_operator(caller.http.user, caller.deployment.settings):
        raise HTTPException(403, "Operations are for operators; GET /memory/consolidations is about yourself.")
    if caller.http.query_params:
        raise HTTPException(422, "Operations are about everybody; leave user_id and org_id out.")
    async with get_client() as client:
        return {"due": await find_backlog(caller.deployment, client, caller.store)}
