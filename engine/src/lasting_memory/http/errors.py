"""How each error becomes an answer: `{"detail": "..."}` with a status, on all routes of the server."""

import logging
from collections.abc import Callable, Coroutine
from typing import cast

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from lasting_memory import platform
from lasting_memory.memory.proposals import DecidedError, UnknownProposalError
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import identity
from lasting_memory.settings import SettingsError

FAILED = "This failed inside the server; its log says why."

logger = logging.getLogger("api")

# A header with the reason of a refusal in a word, for which the page has a sentence.
REFUSAL_KIND = "x-refusal-kind"


async def _invalid(_: Request, error: Exception) -> Response:
    """The first of pydantic's errors, in one line.

    It quotes no value, which may be a credential, or long.
    """
    problems = cast("RequestValidationError", error).errors()
    problem = problems[0]
    names = problem["loc"]
    if problem["type"] == "json_invalid":
        names = names[:1]  # the rest is a character's number
    path = ".".join(map(str, names))
    field = repr(path[:80])  # the names may be the client's, too
    message = str(problem["msg"])
    reason = message.removeprefix("Value error, ")
    return JSONResponse({"detail": f"{field} is refused: {reason}"}, 422)


async def _refused(_: Request, error: Exception) -> Response:
    """A refusal in its own words, and with its kind in a header."""
    status = 422
    if isinstance(error, DecidedError):
        status = 409
    elif isinstance(error, UnknownProposalError):
        status = 404
    headers = dict[str, str]()
    kind = getattr(error, "kind", "")
    if kind:
        headers[REFUSAL_KIND] = kind
    return JSONResponse({"detail": str(error)}, status, headers)


async def _misconfigured(_: Request, error: Exception) -> Response:
    """What is wrong with the settings, which an operator mends."""
    return JSONResponse({"detail": str(error)}, 400)


async def _failed(request: Request, error: Exception) -> Response:
    """The answer to a `ValueError` that is no refusal: 500, as to any error of the server's, also in
    a fork's routes. Its words are for the log alone.

    The platform's own routes answer 400 to a value that they cannot use, as without this library.
    """
    answer = await platform.bad_request(request, cast("ValueError", error))
    if answer:
        return answer
    logger.error("%s %s failed.", request.method, request.url.path, exc_info=error)
    return await _broken(request, error)


async def _broken(_: Request, error: Exception) -> Response:
    """The answer to any other error, which the server raises again and logs."""
    return JSONResponse({"detail": FAILED}, 500)


_Handler = Callable[[Request, Exception], Coroutine[None, None, Response]]
# Of all routes, the platform's as well. Without that of `ValueError` the platform would answer 400.
# A handler gets errors of its class alone.
HANDLERS: dict[int | type[Exception], _Handler] = {
    RequestValidationError: _invalid,
    RefusedWrite: _refused,
    identity.IdentityError: _refused,
    SettingsError: _misconfigured,
    ValueError: _failed,
    Exception: _broken,
}
