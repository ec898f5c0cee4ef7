"""Consolidation over HTTP: start one now, rehearse it, and list past ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.errors import APIStatusError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from api.bodies import check_no_body
from api.requests import PRIVATE, PersonRequest, RefusedRequestError, json_response, person_route
from environment import CONSOLIDATION_GRAPH
from memory import langgraph_internals
from memory.consolidation import Owner, records, start
from memory.controls import PAUSED, controls

# Seconds between line feeds that a dry run sends while it works, as the platform's own wait does.
HEARTBEAT_SECONDS = 5.0


@person_route("assistant_id", "dry_run")
async def consolidate(request: PersonRequest) -> Response:
    """
    summary: Consolidate your conversations now
    description: >
      Queues a run, in place of one that was planned for later. With dry_run=true it waits for a run that applies nothing, and
      answers with what would change. A long one sends line feeds before its answer; if it fails then, the answer's status is
      "failed", and its reason says why.
    parameters:
      - {name: dry_run, in: query, schema: {type: boolean, default: false}}
    responses:
      "200": {description: "A dry run: what it read, `files` (diffs by path), model calls and tokens"}
      "202": {description: "Queued; GET /memory/consolidations tells when it is done"}
      "422": {description: It has a body}
      "409": {description: "Memory is paused, or shared here (MEMORY_SCOPE=assistant)"}
      "502": {description: The dry run failed}
    """
    dry_run = request.flag("dry_run", default=False)
    request.check_not_shared()
    await check_no_body(request)
    if (await controls(request.store, request.actor, request.settings)).paused:
        raise RefusedRequestError(409, f"{PAUSED}; resume it first (PUT /memory/controls).")
    assistant, by_assistant = request.assistant, request.settings.memory_scope == "user+assistant"
    owner = Owner(request.actor, assistant if by_assistant else None)
    if not dry_run:
        async with langgraph_internals.acting_as_caller(request.http), get_client() as client:
            await start(owner, client, asked=True)
        return json_response({"queued": True}, status=202)
    rehearsal = asyncio.create_task(_rehearse(request.http, owner))
    done, _ = await asyncio.wait({rehearsal}, timeout=HEARTBEAT_SECONDS)
    if done:
        return json_response(rehearsal.result())
    return StreamingResponse(_heartbeats(rehearsal), media_type="application/json", headers=PRIVATE)


async def _rehearse(request: Request, owner: Owner) -> dict[str, Any]:
    """A dry run's report; `reason` says so if there was nothing to do. Raises `RefusedRequestError` if the run failed."""
    context: Any = {**owner.context(), "dry_run": True}
    try:
        async with langgraph_internals.acting_as_caller(request), get_client() as client:
            values: Any = await client.runs.wait(
                None, CONSOLIDATION_GRAPH, input={"messages": []}, context=context, on_disconnect="cancel", raise_error=False
            )
    except APIStatusError as error:
        raise RefusedRequestError(error.response.status_code, f"The dry run could not begin: {error.message}") from None
    if not isinstance(values, dict) or not values.get("messages"):
        failure = values.get("__error__") if isinstance(values, dict) else None
        why = failure.get("error") if isinstance(failure, dict) else "it ended without an answer"
        raise RefusedRequestError(502, f"The dry run failed ({why}); see the server's log.")
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
        except RefusedRequestError as error:
            report = {"dry_run": True, "files": {}, "status": "failed", "reason": str(error)}
        yield json.dumps(report).encode()
    finally:
        rehearsal.cancel()


@person_route()
async def consolidations(request: PersonRequest) -> Response:
    """
    summary: What consolidation did with your conversations
    responses:
      "200":
        description: >
          `consolidations`, newest first: run_id, started_at, ended_at, status (done, undone, failed) and reason, conversations,
          messages, model_calls, input_tokens, output_tokens, undone (batches), `files` (a diff each)
    """
    return json_response({"consolidations": await records(request.store, request.actor)})
