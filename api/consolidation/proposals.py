"""Proposals of consolidation, and the person's decisions about them."""

from __future__ import annotations

from starlette.responses import Response

from api.bodies import read_json
from api.requests import PersonRequest, RefusedRequestError, json_response, person_route
from memory.consolidation import DecidedError, UnknownProposalError, decide, shown_proposals
from settings import MAX_BODY_BYTES, MAX_MEMORY_FILES


@person_route("assistant_id")
async def list_proposals(request: PersonRequest) -> Response:
    """
    summary: What consolidation would change, and waits for your decision
    responses:
      "200":
        description: >
          `proposals`, oldest first: id, at, `files` (a diff each, by path), `threads` (ids of the conversations they come from)
    """
    proposals = await shown_proposals(request.store, request.actor, request.namespace)
    return json_response({"proposals": proposals})


@person_route("assistant_id")
async def decide_proposal(request: PersonRequest) -> Response:
    """
    summary: Accept or decline a proposal, or some of its files
    description: >
      What is accepted is merged with what memory says now, and is a revision of each file. What is declined is not proposed
      again, unless you say it again later: its conversations count as consolidated.
    parameters:
      - {name: proposal_id, in: path, required: true, schema: {type: string}}
    requestBody:
      content:
        application/json:
          schema:
            type: object
            required: [accept]
            properties: {accept: {type: boolean}, files: {type: array, items: {type: string}}}
    responses:
      "200": {description: "`id`, `accepted`, and `refused`: by path, why something could not be applied. That still waits"}
      "403": {description: It is somebody else's}
      "404": {description: "There is no such proposal, or it changes no such file"}
      "409": {description: It was decided already}
      "422": {description: "Another field; or what is to be accepted cannot be merged with what memory says now"}
    """
    request.check_own()
    files, proposal_id = request.namespace, str(request.http.path_params["proposal_id"])
    body = await read_json(request, MAX_BODY_BYTES)
    accept, paths = body.get("accept"), body.get("files")
    if set(body) - {"accept", "files"} or not isinstance(accept, bool) or ("files" in body and not _is_paths(paths)):
        raise RefusedRequestError(422, 'The body needs {"accept": true} or false, and may name "files": ["/memories/..."].')
    try:
        refused = await decide(
            request.store, request.actor, files, proposal_id, accept=accept, paths=paths, began=request.began
        )
    except DecidedError as error:
        raise RefusedRequestError(409, str(error)) from None
    except UnknownProposalError as error:
        raise RefusedRequestError(404, str(error)) from None
    return json_response({"id": proposal_id, "accepted": accept, "refused": refused})


def _is_paths(given: object) -> bool:
    return isinstance(given, list) and 0 < len(given) <= MAX_MEMORY_FILES and all(isinstance(path, str) for path in given)
