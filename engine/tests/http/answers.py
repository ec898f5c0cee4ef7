"""Holds answers of /memory to their schemas in `/openapi.json`, which name every key."""

import json
import re
from functools import cache
from typing import Any

import httpx
from jsonschema_rs import Draft202012Validator

from lasting_memory.http.app import build_http
from lasting_memory.testing.deployed import deployed

JSON, LINES = "application/json", "application/x-ndjson"


@cache
def spec() -> dict[str, Any]:
    """The routes under /memory, as the server puts them into its own document."""
    return build_http(deployed()).openapi()


def operations() -> dict[tuple[str, str], dict[str, Any]]:
    """What OpenAPI says of each route, by method and path."""
    found = dict[tuple[str, str], dict[str, Any]]()
    for path, methods in spec()["paths"].items():
        for method, operation in methods.items():
            found[method.upper(), path] = operation
    return found


def operation_of(request: httpx.Request) -> tuple[str, str] | None:
    """The method and path of the route that a request is for; None if there is none."""
    for method, path in operations():
        if method == request.method and re.fullmatch(
            re.sub(r"\{\w+\}", "[^/]+", path), request.url.path
        ):
            return method, path
    return None


@cache
def validator(method: str, path: str, status: int, media_type: str) -> Draft202012Validator:
    responses = operations()[method, path]["responses"]
    described = responses.get(str(status)) or responses[f"{status // 100}XX"]
    schema = described["content"][media_type]["schema"]
    return Draft202012Validator({**schema, "components": spec()["components"]})


def check(response: httpx.Response) -> None:
    """Raise for an answer of a route that its schema does not describe."""
    operation = operation_of(response.request)
    if operation is None:
        return
    media_type = response.headers["content-type"].partition(";")[0]
    lines = response.text.splitlines() if media_type == LINES else [response.text]
    for line in lines:
        validator(*operation, response.status_code, media_type).validate(json.loads(line))
