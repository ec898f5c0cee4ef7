"""Search of the caller's past conversations, with the search that the agent has as a tool."""

import asyncio
from typing import Any

from langgraph_sdk import get_client
from starlette.responses import Response

from api.requests import PersonRequest, RefusedRequestError, json_response, person_route
from memory import recall

LIMIT, MAX_LIMIT = 10, 20
MAX_QUERY_CHARS = 1_000
_EXCERPT_CHARS = 240


@person_route("q", "limit")
async def search(request: PersonRequest) -> Response:
    """
    summary: Search your past conversations
    parameters:
      - {name: q, in: query, required: true, schema: {type: string, maxLength: 1000}, description: words or a time}
      - {name: limit, in: query, schema: {type: integer, minimum: 1, maximum: 20, default: 10}}
    responses:
      "200":
        description: >
          `conversations`, best first: thread_id, updated_at, and the turns that match best (number, speaker, text);
          `searched`: in how many; `outstanding`: how many older ones are not indexed yet, so search again
    """
    query, limit = request.required("q", "units"), request.parameters.get("limit", str(LIMIT))
    if not query.strip() or len(query) > MAX_QUERY_CHARS:
        raise RefusedRequestError(400, f"q has {len(query):,} characters; ask with 1 to {MAX_QUERY_CHARS:,}.")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= len(str(MAX_LIMIT)) and 1 <= int(limit) <= MAX_LIMIT):
        raise RefusedRequestError(400, f"limit is {limit[:20]!r}; use 1 to {MAX_LIMIT}.")
    async with get_client() as client:
        results = await recall.search(request.store, client.threads, request.actor, query, int(limit), began=request.began)
    shown = await asyncio.to_thread(lambda: [_shown(query, match) for match in results.matches])
    return json_response({"conversations": shown, "searched": results.searched, "outstanding": results.outstanding})


def _shown(query: str, match: recall.Match) -> dict[str, Any]:
    talk, turns = match.conversation, recall.excerpts(query, match, _EXCERPT_CHARS)
    return {"thread_id": talk.thread_id, "updated_at": talk.updated_at, "turns": turns}
