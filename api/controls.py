"""A person's controls over remembering: pause, and review of changes."""

from dataclasses import asdict

from starlette.responses import Response

from api.bodies import read_json
from api.requests import PersonRequest, RefusedRequestError, json_response, person_route
from memory import journal
from memory.controls import NAMES, controls, set_controls
from settings import MAX_BODY_BYTES


@person_route()
async def read_controls(request: PersonRequest) -> Response:
    """
    summary: Whether remembering is paused, and whether changes are proposed to you first
    responses:
      "200": {description: "`paused` and `review`, each true or false"}
      "409": {description: Memory is shared here (MEMORY_SCOPE=assistant)}
    """
    request.check_not_shared()
    return json_response(asdict(await controls(request.store, request.actor, request.settings)))


@person_route()
async def write_controls(request: PersonRequest) -> Response:
    """
    summary: Pause or resume remembering; turn the review of changes on or off
    description: >
      Paused: nothing new is remembered, what is known is still used, and what you change yourself counts. It holds at once,
      also for a run that is going. Conversations in which you say something meanwhile are never consolidated. With `review`
      what consolidation would change becomes a proposal (GET /memory/proposals). A field that is left out stays as it is.
    requestBody:
      content:
        application/json:
          schema: {type: object, properties: {paused: {type: boolean}, review: {type: boolean}}}
    responses:
      "200": {description: "`paused` and `review`, as they are now"}
      "403": {description: They are somebody else's}
      "409": {description: Memory is shared here (MEMORY_SCOPE=assistant)}
      "422": {description: "Another field, or no field, or a value that is neither true nor false"}
    """
    request.check_own()
    request.check_not_shared()
    body = await read_json(request, MAX_BODY_BYTES)
    if not body or not set(body) <= set(NAMES) or not all(isinstance(on, bool) for on in body.values()):
        raise RefusedRequestError(422, 'The body needs one or both of two fields: {"paused": true, "review": false}.')
    if await journal.is_forgotten(request.store, request.began):
        raise RefusedRequestError(409, "You were forgotten meanwhile; call again.")
    before = await controls(request.store, request.actor, request.settings)
    await set_controls(request.store, request.actor, body)
    return json_response({**asdict(before), **body})  # nothing that may fail comes after the change
