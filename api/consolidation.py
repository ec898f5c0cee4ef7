"""What consolidation adds to a person's own view: its runs, its proposals, and for operators how it does over all people."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response, StreamingResponse
from langgraph.store.base import BaseStore
from langgraph_sdk import get_client
from langgraph_sdk.errors import APIStatusError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from api.requests import PRIVATE, About, Caller, Memory, body_of, check_no_body, json_response, takes
from memory import identity, langgraph_internals
from memory.consolidation import (
    DecidedError,
    Owner,
    UnknownProposalError,
    decide,
    find_backlog,
    records,
    shown_proposals,
    start,
)
from memory.controls import PAUSED, controls
from settings import CONSOLIDATION_GRAPH, MAX_BODY_BYTES, MAX_MEMORY_FILES, Settings

__all__ = ["router", "shown_proposals"]

router = APIRouter(tags=["Memory"])
# Seconds between line feeds that a dry run sends while it works, as the platform's own wait does.
HEARTBEAT_SECONDS = 5.0

# --- Runs ------------------------------------------------------------------------------------------------------------


class RunQuery(Memory):
    dry_run: Literal["true", "false"] = "false"


@router.post("/memory/consolidate", status_code=202, dependencies=[Depends(check_no_body)])
async def consolidate(caller: Caller, query: Annotated[RunQuery, Query()]) -> Response:
    """Consolidate your conversations now.

    Queues a run, in place of one that was planned for later; GET /memory/consolidations tells when it is done. With
    dry_run=true it waits for a run that applies nothing, and answers (200) with what would change: `files` (diffs by path),
    what it read, model calls and tokens. A long one sends line feeds before its answer; if it fails then, the answer's status
    is "failed", and its reason says why. 409: memory is paused, or shared here. 502: the dry run failed.
    """
    caller.check_not_shared()
    if (await controls(caller.store, caller.actor, caller.settings)).paused:
        raise HTTPException(409, f"{PAUSED}; resume it first (PUT /memory/controls).")
    assistant, by_assistant = caller.assistant, caller.settings.memory_scope == "user+assistant"
    owner = Owner(caller.actor, assistant if by_assistant else None)
    if query.dry_run == "false":
        async with langgraph_internals.acting_as_caller(caller.http), get_client() as client:
            await start(owner, client, asked=True)
        return json_response({"queued": True}, status=202)
    rehearsal = asyncio.create_task(_rehearse(caller.http, owner))
    done, _ = await asyncio.wait({rehearsal}, timeout=HEARTBEAT_SECONDS)
    if done:
        return json_response(rehearsal.result())
    return StreamingResponse(_heartbeats(rehearsal), media_type="application/json", headers=PRIVATE)


async def _rehearse(request: Request, owner: Owner) -> dict[str, Any]:
    """A dry run's report; `reason` says so if there was nothing to do. Raises `HTTPException` if the run failed."""
    context: Any = {**owner.context(), "dry_run": True}
    try:
        async with langgraph_internals.acting_as_caller(request), get_client() as client:
            values: Any = await client.runs.wait(
                None, CONSOLIDATION_GRAPH, input={"messages": []}, context=context, on_disconnect="cancel", raise_error=False
            )
    except APIStatusError as error:
        raise HTTPException(error.response.status_code, f"The dry run could not begin: {error.message}") from None
    if not isinstance(values, dict) or not values.get("messages"):
        failure = values.get("__error__") if isinstance(values, dict) else None
        why = failure.get("error") if isinstance(failure, dict) else "it ended without an answer"
        raise HTTPException(502, f"The dry run failed ({why}); see the server's log.")
    said = str(values["messages"][-1].get("content"))
    try:
        report: dict[str, Any] = json.loads(said)
    except ValueError:
        return {"dry_run": True, "files": {}, "reason": said}
    return report


async def _heartbeats(rehearsal: asyncio.Task[dict[str, Any]]) -> AsyncIterator[bytes]:
    """Line feeds, then the report. Its status is "failed" if the run fails: the response's own status has been sent."""
    try:
        while not rehearsal.done():
            yield b"\n"
            await asyncio.wait({rehearsal}, timeout=HEARTBEAT_SECONDS)
        try:
            report = rehearsal.result()
        except HTTPException as error:
            report = {"dry_run": True, "files": {}, "status": "failed", "reason": error.detail}
        yield json.dumps(report).encode()
    finally:
        rehearsal.cancel()


@router.get("/memory/consolidations")
async def consolidations(caller: Caller, query: Annotated[About, Query()]) -> Response:
    """What consolidation did with your conversations.

    `consolidations`, newest first: run_id, started_at, ended_at, status (done, undone, failed) and reason, conversations,
    messages, model_calls, input_tokens, output_tokens, `files` (a diff each).
    """
    return json_response({"consolidations": await records(caller.store, caller.actor)})


# --- Proposals -------------------------------------------------------------------------------------------------------


class Decision(BaseModel, extra="forbid"):
    accept: bool
    files: Annotated[list[str], Field(min_length=1, max_length=MAX_MEMORY_FILES)] | None = None


@router.get("/memory/proposals")
async def list_proposals(caller: Caller, query: Annotated[Memory, Query()]) -> Response:
    """What consolidation would change, and waits for your decision.

    `proposals`, oldest first: id, at, `files` (a diff each, by path), `threads` (ids of the conversations they come from).
    """
    proposals = await shown_proposals(caller.store, caller.actor, caller.namespace)
    return json_response({"proposals": proposals})


@router.post("/memory/proposals/{proposal_id}", openapi_extra=takes(Decision))
async def decide_proposal(
    caller: Caller,
    proposal_id: str,
    query: Annotated[Memory, Query()],
    body: Annotated[Decision, Depends(body_of(Decision, MAX_BODY_BYTES))],
) -> Response:
    """Accept or decline a proposal, or some of its files.

    What is accepted is merged with what memory says now, and is a revision of each file. What is declined is not proposed
    again, unless you say it again later: its conversations count as consolidated. `refused`: by path, why something could not
    be applied; that still waits. 409: it was decided already.
    """
    caller.check_own()
    try:
        refused = await decide(
            caller.store,
            caller.actor,
            caller.namespace,
            proposal_id,
            accept=body.accept,
            paths=body.files,
            began=caller.began,
        )
    except DecidedError as error:
        raise HTTPException(409, str(error)) from None
    except UnknownProposalError as error:
        raise HTTPException(404, str(error)) from None
    return json_response({"id": proposal_id, "accepted": body.accept, "refused": refused})


# --- Operations ------------------------------------------------------------------------------------------------------

# Files that are counted, newest first; and people in the answer.
_FILES = 10_000
_PAGE = 1_000
_NAMED = 20


@router.get("/memory/operations", tags=["Operations"])
async def operations(caller: Caller, query: Annotated[About, Query()]) -> Response:
    """How consolidation, the search index and storage do, over all people (operators).

    `due` (people, conversations, oldest), `search_index` (conversations that the next search indexes first, oldest), `storage`
    (files, bytes without histories, largest: people with org_id, user_id, files, bytes). `complete`: all was looked at.
    """
    if not identity.is_operator(caller.http.user, caller.settings):
        raise HTTPException(403, "Operations are for operators; GET /memory/consolidations is about yourself.")
    if caller.http.query_params:
        raise HTTPException(400, "Operations are about everybody; leave user_id and org_id out.")
    async with get_client() as client:
        backlog = await find_backlog(caller.settings, client, caller.store)
    due = {"people": len(backlog.people), "conversations": backlog.conversations, "oldest": backlog.oldest}
    index = {"conversations": backlog.unindexed, "oldest": backlog.oldest_unindexed}
    return json_response(
        {
            "due": {**due, "complete": backlog.complete},
            "search_index": {**index, "complete": backlog.complete},
            "storage": await _storage(caller.store, caller.settings),
        }
    )


async def _storage(store: BaseStore, settings: Settings) -> dict[str, Any]:
    """Number and size of people's files, without their histories, and the people with the largest."""
    by_owner: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    read = 0
    while (page := await store.asearch(("memories",), limit=_PAGE, offset=read)) and read < _FILES:
        read += len(page)
        for item in page:
            counts = by_owner[item.namespace[-1]]
            counts[0] += 1
            counts[1] += len(str(item.value.get("content", "")).encode(errors="replace"))
    largest = sorted(by_owner.items(), key=lambda entry: entry[1][1], reverse=True)[:_NAMED]
    named = [{**_named(owner, settings), "files": files, "bytes": size} for owner, (files, size) in largest]
    total = sum(size for _, size in by_owner.values())
    return {"files": read, "bytes": total, "largest": named, "complete": read < _FILES}


def _named(namespace: str, settings: Settings) -> dict[str, Any]:
    """The owner in a namespace's last part, as `memory/namespaces.py` builds it. Shared memory has no person."""
    parts = [identity.part_of(part) for part in namespace.split(":")]
    of_two = ("assistant_id", "org_id") if settings.memory_scope == "assistant" else ("org_id", "user_id")
    names = {2: of_two, 3: ("assistant_id", "org_id", "user_id")}.get(len(parts), ())
    return dict(zip(names, parts, strict=False))
