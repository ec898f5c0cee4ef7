"""The caller, and how this deployment keeps memory."""

from dataclasses import asdict

from starlette.responses import Response

from api.requests import PersonRequest, json_response, person_route
from memory.identity import is_operator, may_write_policies


@person_route()
async def me(request: PersonRequest) -> Response:
    """
    summary: Who you are here, and how this deployment keeps memory
    responses:
      "200":
        description: >
          user_id, org_id, memory_scope (user, user+assistant, assistant), memory_writes (both, background), sign_in
          (dev, token), operator, writes_policies
    """
    user, settings = request.http.user, request.settings
    return json_response(
        {
            **asdict(request.actor),
            "memory_scope": settings.memory_scope,
            "memory_writes": settings.memory_writes,
            "sign_in": settings.sign_in,
            "operator": is_operator(user, settings),
            "writes_policies": may_write_policies(user, settings),
        }
    )
