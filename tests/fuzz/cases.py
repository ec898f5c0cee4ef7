"""A request of the fuzz, and the operations of a server it can be made for."""

from __future__ import annotations

import copy
import itertools
import json
import re
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from memory.identity import DEFAULT_AGENT_ASSISTANT as AGENT
from tests.access.bodies import FORGED, HELLO
from tests.access.matrix import ROWS

Json = Any
Where = tuple[str | int, ...]  # "body", "query", "headers" or "path", and the keys from there

# Routes that are no person's: what only this machine may call wipes or deploys everything, and there is no graph's interface.
LEFT_OUT = ("/internal/", "/deploy", "/ui/")
METHODS = {"get", "put", "post", "delete", "patch"}

# What a request of one's own says under these names, where a value of the right type alone would be refused.
OWN: dict[str, Json] = {
    "assistant_id": "agent",
    "graph_id": "agent",
    "thread_id": "<thread>",
    "thread_ids": ["<thread>"],
    "ids": ["<thread>"],
    "run_id": "<run>",
    "run_ids": ["<run>"],
    "checkpoint_id": "<checkpoint>",
    "checkpoint_ns": "",
    "checkpoint_map": {},
    "namespace": "<memory>",
    "namespace_prefix": "<memory>",
    "prefix": "<memory>",
    "input": HELLO,
    "values": FORGED,
    "update": FORGED,
    "as_node": "model",
    "goto": "model",
    "path": "/memories/kept.md",
    "key": "/kept.md",
    "files": [{"path": "/memories/imported.md", "content": "x"}],
    "supersteps": [{"updates": [{"values": FORGED, "as_node": "__input__"}]}],
    "schedule": "0 0 1 1 *",
    "after_seconds": 0,
    "timezone": "UTC",
    "revision": 1,
    "version": 1,
    "extract": {"x": "values.messages[0].content"},
}
_IN_PATH = {"assistant_id": AGENT, "namespace": "agent", "cron_id": "00000000-0000-4000-8000-000000000000"}


@dataclass(frozen=True)
class Edit:
    """One thing put into a request; `value` may hold <names>, those that begin with "her" being the victim's."""

    where: Where
    value: Json


@dataclass(frozen=True)
class Case:
    """A request of the attacker's own, and what is put into it."""

    route: str
    base: Json  # the body before the edits; None for none
    edits: tuple[Edit, ...]
    elsewhere: bool  # sent by the victim's namesake in another organization, else by somebody in her own

    def only(self, *edits: Edit) -> Case:
        return replace(self, edits=edits)

    def parts(self) -> dict[str, Json]:
        """Body, query, headers and path parameters, before <names> are filled in."""
        path = {name: _IN_PATH.get(name) or OWN.get(name, "x") for name in re.findall(r"{(\w+)}", self.route)}
        parts = {"body": copy.deepcopy(self.base), "query": {}, "headers": {}, "path": path}
        for edit in self.edits:
            _put(parts, edit.where, copy.deepcopy(edit.value))
        return parts


def _put(into: Json, where: Where, value: Json) -> None:
    """Put a value there. What is on the way and holds nothing becomes an object or a list; a list may get one more."""
    for step, after in itertools.pairwise(where):
        if isinstance(into, list):
            into.extend([{}] * (step == len(into)))
        elif not isinstance(into.get(step), list if isinstance(after, int) else dict):
            into[step] = [{}] if isinstance(after, int) else {}
        into = into[step]
    into[where[-1]] = value


@dataclass(frozen=True)
class Operation:
    """A route: method and path, the schema of its body if there is one, its query parameters, and bodies the matrix sends."""

    route: str
    schema: Json
    query: list[Json]
    rows: list[Json]


def operations(served: Json) -> list[Operation]:
    """Every operation of the server's own document, and every route of the matrix, which `tests/access/test_matrix.py` holds
    complete.

    With an app of one's own (`http.app`) the platform lays over its document one that describes no body. Where the served one
    is silent, the document it was laid over speaks: the one that the platform checks bodies against.
    """
    platform = json.loads(Path(str(metadata.distribution("langgraph-api").locate_file("openapi.json"))).read_text("utf-8"))
    described: dict[str, Json] = {}
    for document in (platform, served):
        for path, methods in document["paths"].items():
            for method in METHODS & methods.keys():
                described.setdefault(f"{method.upper()} {path}", {}).update(methods[method])
    bodies: dict[str, list[Json]] = {row.route: [] for row in ROWS if not row.route.endswith("*")}
    for row in sorted(ROWS, key=lambda row: row.rule[4].meaning != "yes"):  # those first on which people succeed
        if row.body is not None and row.route in bodies:
            bodies[row.route].append(row.body)
    listed = []
    for route in sorted({*described, *bodies}):
        if route.split(" ")[1].startswith(LEFT_OUT) or (route.endswith("/") and route[:-1] in bodies and route not in bodies):
            continue
        operation = described.get(route) or described.get(f"{route}/") or described.get(route.rstrip("/"), {})
        # MCP is described with a slash at its end and served without, A2A the other way round.
        content = operation.get("requestBody", {}).get("content", {})
        query = [parameter for parameter in operation.get("parameters", []) if parameter["in"] == "query"]
        listed.append(Operation(route, content.get("application/json", {}).get("schema"), query, bodies.get(route, [])))
    return listed
