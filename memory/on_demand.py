"""Consolidation over HTTP: start one's own now, see first what it would change, and what the last ones did."""

from __future__ import annotations

import json
from typing import Any

from langgraph_sdk import get_client
from starlette.responses import JSONResponse, Response

from memory import platform
from memory.progress import records
from memory.requests import PRIVATE, Asked, RefusedRequestError, answers
from memory.triggers import GRAPH, Owner, plan


@answers("assistant_id", "dry_run")
async def consolidate(asked: Asked) -> Response:
    """
    ---
    summary: Consolidate your conversations now
    description: >
      Queues a run, in place of one that was planned for later. With dry_run=true it waits for a run that works on a copy, and
      answers with what would change.
    tags: [Memory]
    parameters:
      - {name: dry_run, in: query, schema: {type: boolean, default: false}}
    responses:
      "200": {description: "A dry run: what it read, `files` (diffs by path), model calls and tokens"}
      "202": {description: "Queued; GET /memory/consolidations tells when it is done"}
      "409": {description: Memory is shared here (MEMORY_SCOPE=assistant)}
    """
    dry_run = asked.parameters.get("dry_run", "false")
    if dry_run not in {"true", "false"}:
        raise RefusedRequestError(400, f"dry_run is {dry_run[:20]!r}; use true or false.")
    asked.check_not_shared()
    assistant, by_assistant = asked.assistant, asked.settings.memory_scope == "user+assistant"
    owner = Owner(asked.actor, assistant if by_assistant else None)
    async with platform.acting_as_caller(asked.request), get_client() as client:
        if dry_run == "false":
            await plan(owner, 0, client, asked.store)
            return JSONResponse({"queued": True}, 202, PRIVATE)
        context: Any = {**owner.context(), "dry_run": True}
        values: Any = await client.runs.wait(None, GRAPH, input={"messages": []}, context=context)
    return JSONResponse(_rehearsed(values), headers=PRIVATE)


@answers()
async def consolidations(asked: Asked) -> Response:
    """
    ---
    summary: What consolidation did with your conversations
    tags: [Memory]
    responses:
      "200":
        description: >
          `consolidations`, newest first: run_id, started_at, ended_at, status (done, undone, failed) and reason, conversations,
          messages, model_calls, input_tokens, output_tokens, `files` (a diff each)
    """
    return JSONResponse({"consolidations": await records(asked.store, asked.actor)}, headers=PRIVATE)


def _rehearsed(values: Any) -> dict[str, Any]:
    """The report in a dry run's last message; where there was nothing to do, it says so in words."""
    messages = values.get("messages") if isinstance(values, dict) else None
    if not messages:
        raise RefusedRequestError(502, "The dry run failed; the server's log says why.")
    said = str(messages[-1].get("content"))
    try:
        report: dict[str, Any] = json.loads(said)
    except ValueError:
        return {"dry_run": True, "files": {}, "reason": said}
    return report
