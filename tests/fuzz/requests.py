"""Requests for the fuzz: what the server's own document describes, with another person's ids wherever one could name a place.

Nothing here knows of a hole. Routes, fields and their types come from the server's document and, where it describes no body,
from the rows of `tests/access/matrix.py`, so that a route or a field which a new version adds is tried by itself.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Container, Iterator
from random import Random

from tests.fuzz.cases import OWN, Case, Edit, Json, Operation, Where, operations
from tests.fuzz.places import PLACES, keys, kind_of

DEEPEST = 4  # nesting of objects in a schema
# Objects tried at the root of a body, in the document or not; and in requests that could start a run.
_UNKNOWN = ("config", "config.configurable", "metadata")
_RUN = (
    "config",
    "config.configurable",
    "config.metadata",
    "context",
    "metadata",
    "command",
    "command.update",
    "checkpoint",
    "input",
)


class Requests:
    """Cases from a seed: each a request of one's own that the server should take, with names of hers in it."""

    def __init__(self, served: Json, seed: int) -> None:
        self.schemas = served["components"]["schemas"]
        self.operations = operations(served)
        self.keys = keys(self.schemas)
        self.random = Random(seed)

    def plain(self, routes: Container[str]) -> list[Case]:
        """A request of one's own alone for each of these routes: what is required, and nothing of hers."""
        chosen = [operation for operation in self.operations if operation.route in routes]
        bases = [(of, self._base(of, next(iter(of.rows), None))) for of in chosen]
        return [Case(of.route, base, tuple(self._query(of, required=True)), elsewhere=False) for of, base in bases]

    def cases(self, count: int) -> list[Case]:
        """As many requests with her names in them: the more places an operation's body has, the more of them."""
        containers = {operation.route: self._containers(operation) for operation in self.operations}
        turns = {route: itertools.cycle(self.random.sample(list(places), len(places))) for route, places in containers.items()}
        untried = {operation.route for operation in self.operations}
        cases: list[Case] = []
        while len(cases) < count:
            for operation in self.random.sample(self.operations, len(self.operations)):
                places = len(containers[operation.route])
                body = bool(operation.schema or operation.rows)
                for _ in range(max(1, places // 5) if body else int(self._one_in(4) or operation.route in untried)):
                    untried.discard(operation.route)
                    chosen = [next(turns[operation.route]) for _ in range(self.random.choice((1, 1, 2, 3)))]
                    cases.append(self._case(operation, chosen, containers[operation.route]))
        return cases[:count]

    def _case(self, operation: Operation, chosen: list[Where], containers: dict[Where, Json]) -> Case:
        base = self._base(operation)
        edits = list(self._query(operation, required=False))
        if operation.schema and isinstance(base, dict):
            optional = [(name, of) for name, of in self._optional(operation.schema) if name not in base and self._one_in(6)]
            edits += [Edit(("body", name), self._value(of, name)) for name, of in optional]
        case = Case(operation.route, base, tuple(edits), elsewhere=self._one_in(2))
        for container in chosen:
            edits += self._hers(case, container, containers)
        return case.only(*edits)

    def _query(self, operation: Operation, *, required: bool) -> Iterator[Edit]:
        for of in operation.query:
            if of.get("required") or (not required and self._one_in(4)):
                yield Edit(("query", of["name"]), self._value(of.get("schema", {"type": "string"}), of["name"]))

    def _optional(self, schema: Json) -> list[tuple[str, Json]]:
        """Properties that may be there or not, whatever else is."""
        schema = self._resolved(schema)
        fixed = {
            "webhook",
            *schema.get("required", []),
            *(name for of in schema.get("oneOf", []) for name in of.get("required", [])),
        }
        return [(name, of) for name, of in schema.get("properties", {}).items() if name not in fixed]

    def _hers(self, case: Case, container: Where, schemas: dict[Where, Json]) -> Iterator[Edit]:
        """Edits that put names of hers into one container, which is made valid first where the request has none."""
        for outer in (container[:length] for length in range(2, len(container) + 1)):
            if schemas.get(outer) and not _holds(case.base, outer):
                yield Edit(outer, self._value(schemas[outer], "", required=True) or self._one_of(schemas[outer]))
        for name in self._in_path(case) if container == ("path",) else self._bundle():
            where = (*container, f"x-{name.replace('_', '-')}" if container == ("headers",) else name)
            # Which assistant answers is everybody's to choose where the request says so; nowhere else.
            if name != "assistant_id" or not _holds(case.base, where):
                yield Edit(where, self._her_value(name))

    def _one_of(self, schema: Json) -> Json:
        """An object with one of its properties, where none is required."""
        properties = list(schema.get("properties", {}).items())
        return {name: self._value(of, name) for name, of in self.random.sample(properties, min(len(properties), 1))}

    def _in_path(self, case: Case) -> list[str]:
        names = [name for name in case.parts()["path"] if kind_of(name) and name != "assistant_id"]
        return self.random.sample(names, min(len(names), self.random.randint(1, 2)))

    def _bundle(self) -> list[str]:
        """One to three keys, or one of every kind, or all of a kind; what the source says often is tried often."""
        how = self.random.randrange(4)
        if how == 0:
            return [self._key(kind) for kind in self.keys]
        if how == 1:
            kind = self.random.choice(list(self.keys))
            return self.random.sample(sorted(self.keys[kind]), min(len(self.keys[kind]), 8))
        weights = [sum(names.values()) ** 0.5 for names in self.keys.values()]
        kinds = self.random.choices(list(self.keys), weights, k=self.random.randint(1, 3))
        return list(dict.fromkeys(map(self._key, kinds)))

    def _key(self, kind: str) -> str:
        names = self.keys[kind]
        return self.random.choices(list(names), list(names.values()))[0]

    def _her_value(self, name: str) -> Json:
        value = self.random.choice(PLACES[kind_of(name) or "label"])
        if isinstance(value, str) and value.startswith("<her ") and self._one_in(10):  # another spelling of the same id
            value = value.replace("<her ", self.random.choice(["<HER ", "<hex ", "<urn "]))
        return [value] if name.endswith("ids") else value

    def _containers(self, operation: Operation) -> dict[Where, Json]:
        """Every object in a body, by its path, with its schema if it has one; and query, headers and path."""
        bodies = [self._base(operation, row) for row in operation.rows]
        objects: dict[Where, Json] = {}
        if operation.schema:
            bodies.append(self._base(operation, None))
            objects = {("body", *path): schema for path, schema in self._objects(operation.schema)}
        for body in bodies:
            objects = {("body", *path): None for path in _objects_in(body)} | objects
        roots = [path for path in objects if len(path) == 1 or path[1:] in ((0,), ("params",), (1, "params"))]
        extra = _RUN if _starts_runs(bodies) else _UNKNOWN
        objects = {(*root, *inner.split(".")): None for root in roots for inner in extra} | objects
        return objects | dict.fromkeys([("query",), ("headers",)]) | ({("path",): None} if "{" in operation.route else {})

    def _objects(self, schema: Json, depth: int = 0) -> Iterator[tuple[Where, Json]]:
        schema = self._resolved(schema)
        if depth > DEEPEST or not isinstance(schema, dict):
            return
        for choice in [*schema.get("anyOf", []), *schema.get("oneOf", [])]:
            yield from self._objects(choice, depth)
        if schema.get("type") == "array":
            yield from (((0, *path), of) for path, of in self._objects(schema.get("items", {}), depth + 1))
        if "object" in str(schema.get("type")) or "properties" in schema:
            yield (), schema
            for name, inner in schema.get("properties", {}).items():
                yield from (((name, *path), of) for path, of in self._objects(inner, depth + 1))

    def _base(self, operation: Operation, row: Json = ...) -> Json:
        """A body of one's own: a row's of the matrix, or what the schema requires."""
        if row is ...:
            described = operation.schema and _describes(self._resolved(operation.schema))
            likely = [3 if "hello" in json.dumps(row) else 1 for row in operation.rows]
            by_row = operation.rows and (not described or self._one_in(3))
            row = self.random.choices(operation.rows, likely)[0] if by_row else None
        if row is None:
            return self._value(operation.schema, "", required=True) if operation.schema else None
        return _now(row)

    def _resolved(self, schema: Json) -> Json:
        while isinstance(schema, dict) and "$ref" in schema:
            schema = self.schemas[schema["$ref"].rsplit("/", 1)[-1]]
        return schema

    def _value(self, schema: Json, name: str, *, required: bool = False) -> Json:
        """A value that the schema takes: under a name of `OWN` what is said there; with `required`, no more than must be."""
        if name in OWN:
            return OWN[name]
        schema = self._resolved(schema)
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        choices = schema.get("anyOf") or (schema.get("oneOf") if "properties" not in schema else None)
        if choices:
            return self._value(self.random.choice(choices), "", required=required)
        kind = schema.get("type", "object")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind == "object":
            return self._object(schema, required=required)
        if kind == "array":
            return [self._value(schema.get("items", {"type": "string"}), "", required=required)]
        return self._scalar(kind, schema)

    def _scalar(self, kind: str, schema: Json) -> Json:
        if kind in {"integer", "number"}:
            return self.random.randint(schema.get("minimum", 1), min(schema.get("maximum", 50), 50))
        if kind == "boolean":
            return self._one_in(2)
        return {"uuid": "<thread>", "date-time": "2999-01-01T00:00:00Z", "null": None}.get(schema.get("format", kind), "x")

    def _object(self, schema: Json, *, required: bool) -> Json:
        one_of = schema.get("oneOf") or [{}]
        needed = {*schema.get("required", []), *self.random.choice(one_of).get("required", []), "input"}
        properties = schema.get("properties", {}).items()
        chosen = [(name, of) for name, of in properties if name in needed or (not required and self._one_in(3))]
        return {name: self._value(of, name, required=required) for name, of in chosen}

    def _one_in(self, count: int) -> bool:
        return self.random.randrange(count) == 0


def _starts_runs(bodies: list[Json]) -> bool:
    """Whether such a body names an assistant, or is the envelope of a call."""
    return any(f'"{key}": ' in json.dumps(bodies) for key in ("assistant_id", "method"))


def _describes(schema: Json) -> bool:
    """Whether a schema says what a body holds; of the envelope of a call it says no more than that there is a method."""
    return bool(
        schema.get("items") or schema.get("properties", {}).keys() - {"method"} == schema.get("properties", {}).keys() != set()
    )


def _now(body: Json) -> Json:
    """A row's body, with its runs at once instead of in an hour."""
    if isinstance(body, dict):
        return {key: 0 if key == "after_seconds" else _now(value) for key, value in body.items()}
    return [_now(value) for value in body] if isinstance(body, list) else body


def _objects_in(body: Json) -> Iterator[Where]:
    if isinstance(body, dict):
        yield ()
    for key, value in body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ():
        yield from ((key, *path) for path in _objects_in(value))


def _holds(body: Json, where: Where) -> bool:
    """Whether a body says something there."""
    for step in where[1:]:
        if not isinstance(body, (dict, list)) or (isinstance(body, dict) and step not in body):
            return False
        if isinstance(body, list) and not (isinstance(step, int) and step < len(body)):
            return False
        body = body[step]  # type: ignore[index]
    return True
