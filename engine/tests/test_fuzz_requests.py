"""Fuzz: whatever somebody sends to whatever route, nothing of another person's is shown or changed, and the server goes on.

The requests are made from the server's own document, with another person's ids wherever one could name a place. The
verdict comes from what attackers are answered, what the model is shown, and what the victim has before and after.
"""

import asyncio
import json
import random
import re
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import httpx
import pytest

from lasting_memory.people.identity import Actor
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import AGENT, OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import Body, Reply, ScriptedAnthropic, Text
from tests.auth.world import World, filled

pytestmark = pytest.mark.server

AT_ONCE = 30
DEEPEST = 3  # nesting of objects in a schema, but for what is required
CASES_OF_ONE = 10  # attackers are many: nobody is refused for asking too often
ANSWER_SECONDS = 60.0  # until an answer begins: on a busy machine a run waits for others
READ_SECONDS = 10.0  # of an answer that does not end; what it would go on to show is looked for in what it leaves behind
END_SECONDS = 60  # until the last of their runs has ended
METHODS = {"get", "put", "post", "delete", "patch"}
# Routes that are no person's: what only this machine may call wipes or deploys everything, and there is no graph's interface.
LEFT_OUT = ("/internal/", "/deploy", "/ui/", "/docs")
HELLO = {"messages": [{"role": "user", "content": "hello"}]}
FORGED = {"messages": [{"role": "user", "content": "forged"}]}

# What a request of one's own says under these names. <names> are filled in when it is sent; those with "her" are the victim's.
OWN: dict[str, Any] = {
    "assistant_id": "agent", "graph_id": "agent", "thread_id": "<thread>", "thread_ids": ["<thread>"], "ids": ["<thread>"],
    "run_id": "<run>", "run_ids": ["<run>"], "checkpoint_id": "<checkpoint>", "checkpoint_ns": "", "checkpoint_map": {},
    "namespace": "<memory>", "namespace_prefix": "<memory>", "prefix": "<memory>", "input": HELLO, "values": FORGED,
    "update": FORGED, "as_node": "model", "goto": "model", "path": "/memories/kept.md", "key": "/kept.md",
    "supersteps": [{"updates": [{"values": FORGED, "as_node": "__input__"}]}], "schedule": "0 0 1 1 *", "after_seconds": 0,
    "timezone": "UTC", "version": 1, "extract": {"x": "values.messages[0].content"}, "multitask_strategy": "enqueue",
}  # fmt: skip
# What of hers a key could take, by the end of its name.
HERS: dict[str, list[Any]] = {
    r"checkpoint(_id)?s?": ["<her checkpoint>", {"thread_id": "<her thread>", "checkpoint_id": "<her checkpoint>"}],
    r"(threads?|context|tasks?)(_ids?)?": ["<her thread>", "<her THREAD>", "urn:uuid:<her thread>", ["<her thread>"]],
    r"runs?(_ids?)?": ["<her run>", ["<her run>"]],
    r"(assistants?|graphs?)(_ids?)?": ["<her assistant>", "consolidation_agent"],
    r"namespaces?|prefix|ns|label": ["<her memory>", "<her memory.>", ["memories"], []],
    r"permissions|(auth_)?user|owner|identity|sub|user_ids?": [
        ["memory:operate"], "<her name>", {"identity": "<her name>", "org_id": "<her org>", "permissions": ["memory:operate"]},
    ],
    r"(org|organization|tenant)(_ids?)?": ["<her org>"],
    r"__pregel_\w+|ids?|map": ["<her thread>", "<her run>", {"": "<her checkpoint>"}, {"thread_id": "<her thread>"}],
}  # fmt: skip
# Keys that the platform's source reads, and no document has.
KEYS = [
    "thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "checkpoint", "run_id", "graph_id", "namespace", "user_id",
    "langgraph_auth_user", "langgraph_auth_user_id", "langgraph_auth_permissions", "permissions", "owner", "identity", "org_id",
    "context", "task_id", "__pregel_task_id", "__pregel_checkpointer", "__pregel_store", "previous_run_id", "parent_thread_id",
]  # fmt: skip
PLACES = {re.compile(rf"(.*_)?({kind})"): values for kind, values in HERS.items()}
# Objects of a request that starts a run, or of any other, into which such keys are put, in the document or not.
INTO = ["", "config", "config.configurable", "config.metadata", "context", "metadata", "command", "checkpoint", "input"]

# 500s of the platform's own, whoever is named: it takes what its document describes, and then does not know what to do with it.
PLATFORM_ERRORS: dict[str, Callable[[Any], bool]] = {
    "POST /threads/{thread_id}/history": lambda body: isinstance(body.get("before"), dict),
    "POST /threads/search": lambda body: "values" in body,
    "POST /threads/count": lambda body: "values" in body,
    "POST /store/items/search": lambda body: body.get("namespace_prefix") is None,
    "POST /mcp": lambda body: body["method"] == "tools/call",
    "POST /mcp/": lambda body: body["method"] == "tools/call",
}


def hers_of(name: str) -> list[Any]:
    """What of hers a key of this name could take; nothing where it could name no place."""
    return [value for place, values in PLACES.items() if place.fullmatch(name) for value in values]


class Requests:
    """Requests for every operation of the server's document.

    With an app of one's own (`http.app`) the platform lays over its document one that describes no body. Where the served one
    is silent, the document it was laid over speaks: the one that the platform checks bodies against.
    """

    def __init__(self, served: Any, seed: int) -> None:
        platform = json.loads(Path(str(metadata.distribution("langgraph-api").locate_file("openapi.json"))).read_text("utf-8"))
        self.schemas = {**platform["components"]["schemas"], **served.get("components", {}).get("schemas", {})}
        self.operations: dict[str, Any] = {}
        for document in (served, platform):
            for path, methods in document["paths"].items():
                for method in METHODS & methods.keys() if not path.startswith(LEFT_OUT) else ():
                    known = self.operations.setdefault(f"{method.upper()} {path}", {})
                    known |= {key: value for key, value in methods[method].items() if value and not known.get(key)}
        self.random = random.Random(seed)  # the same requests for the same number

    def plan(self, times: int) -> list[tuple[str, bool]]:
        """Operations, most of them such as could start a run, each by turns with one's own ids in its path, or with hers."""
        made = list[tuple[str, bool]]()
        for route in sorted(self.operations):
            schema = json.dumps(self.body_of(route))
            starts = "RunCreate" in schema or route.endswith(("/commands", "/mcp/", "/a2a/{assistant_id}"))
            made += [(route, n % 2 == 0) for n in range(times * (1 if schema == "null" else 6 if starts else 3))]
        return made

    def request(self, route: str, own: bool, names: dict[str, Any]) -> tuple[str, str, Any]:
        """Method, URL and body: what the operation requires, some of what it takes, and things of hers anywhere in them."""
        pick, schema = self.random.choice, self.body_of(route)
        body = None if schema is None else self.value(schema)
        if schema is not None and pick([True, False]):
            pairs = [(key, value) for key in KEYS for value in hers_of(key)]
            body = _put(body, pick(INTO), dict(self.random.sample(pairs, self.random.randint(1, 4))))
        asked = [of for of in self.operations[route].get("parameters", []) if of["in"] == "query"]
        query = self.some(
            {of["name"]: of.get("schema", {}) for of in asked}, {of["name"] for of in asked if of.get("required")}
        )
        method, path = route.split(" ")
        for name in re.findall(r"{(\w+)", route):
            mine = {"assistant_id": AGENT, "namespace": "agent"}.get(name) or OWN.get(name, str(uuid.UUID(int=0)))
            hers = [] if own or route.startswith("POST /a2a/") else texts(hers_of(name))  # who talks to hers has its skills
            path = path.replace(f"{{{name}}}", str(filled(pick(hers or [mine]), names)))
        spelled = {key: value if isinstance(value, str) else json.dumps(value) for key, value in filled(query, names).items()}
        return method, str(httpx.URL(path, params=spelled)), filled(body, names)

    def body_of(self, route: str) -> Any:
        """The schema of its body; None where it has none."""
        content = self.operations[route].get("requestBody", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema")
        self.schemas |= (schema or {}).get("$defs", {})
        return schema

    def resolved(self, schema: Any) -> Any:
        """The schema itself in place of a reference, and one in place of several that all hold."""
        while "$ref" in schema:
            schema = self.schemas[schema["$ref"].rsplit("/", 1)[-1]]
        parts = [self.resolved(part) for part in schema.get("allOf", [])]
        properties = {key: of for part in [*parts, schema] for key, of in part.get("properties", {}).items()}
        required = [key for part in [*parts, schema] for key in part.get("required", [])]
        return {**schema, "type": "object", "properties": properties, "required": required} if parts else schema

    def some(self, known: dict[str, Any], needed: set[str], depth: int = 0) -> dict[str, Any]:
        """What is needed, and at most two of the others: with more, something is wrong in most requests."""
        others = [key for key in known if key not in needed]
        chosen = self.random.sample(others, self.random.randint(0, min(2, len(others))))
        return {key: self.value(known[key], key, depth) for key in known if key in needed or key in chosen}

    def value(self, schema: Any, name: str = "", depth: int = 0) -> Any:
        """A value that the schema takes; under a name of `OWN` mostly what is said there, else something of hers."""
        pick = self.random.choice
        if name in OWN:
            hers = [] if name == "assistant_id" else hers_of(name)
            fitting = hers if isinstance(OWN[name], list) else texts(hers)
            return pick([OWN[name], pick(fitting or [OWN[name]])])
        schema = self.resolved(schema)
        while choices := schema.get("anyOf") or schema.get("oneOf", [])[: 0 if "properties" in schema else None]:
            schema = self.resolved(pick(choices))
        if "const" in schema or "enum" in schema:
            return pick(schema.get("enum") or [schema["const"]])
        kind = schema.get("type", "object")
        kind = kind if isinstance(kind, str) else pick(kind)
        if kind == "object":
            needed = {*schema.get("required", []), *schema.get("oneOf", [{}])[0].get("required", []), "input"}
            known = {key: of for key, of in schema.get("properties", {}).items() if depth < DEEPEST or key in needed}
            known.pop("webhook", None)
            return self.some(known, needed, depth + 1)
        if kind == "array":
            return [self.value(schema.get("items", {}), "", depth + 1) for _ in range(pick([1, 2]))]
        if kind in {"integer", "number"}:
            return self.random.randint(int(schema.get("minimum", 0)), min(int(schema.get("maximum", 50)), 50))
        text = {"uuid": "<thread>", "date-time": "2999-01-01T00:00:00Z"}.get(schema.get("format", ""), "x")
        return {"boolean": pick([True, False]), "null": None}.get(kind, pick([text, text, "", "\u2028 %00 '"]))


def texts(values: list[Any]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def _put(body: Any, where: str, hers: dict[str, Any]) -> Any:
    """The body with things of hers in it; what is on the way becomes an object."""
    if isinstance(body, list):
        return [_put(body[0], where, hers), *body[1:]] if body else body
    if not isinstance(body, dict):
        return body
    step, _, rest = where.partition(".")
    inner = body.get(step) if isinstance(body.get(step), dict) else {}
    return {**body, step: _put(inner, rest, hers)} if step else {**body, **hers}


async def settled(world: World) -> list[str]:
    """What is secret of somebody who has memory, an assistant with a skill, and two conversations; requests name the second."""
    await world.furnish()
    await world.make("assistant")
    skill = f"---\nname: hers\ndescription: {world.names['skill']}\n---\n"
    item = {"namespace": world.names["skills"], "key": "/hers/SKILL.md", "value": {"content": skill, "encoding": "utf-8"}}
    await world.api("studio", "PUT", "/store/items", item)
    await world.make("finished")
    hidden = {**world.names}
    await world.make("finished")
    return [*world.secrets, world.names["skill"], hidden["thread"], hidden["run"]]


async def own_names(person: Person) -> dict[str, Any]:
    """The names of an attacker's own conversation and memory."""
    thread = await person.thread()
    await person.turn(thread, "mine")
    (run,) = await person.made("GET", f"/threads/{thread}/runs")
    state = await person.made("GET", f"/threads/{thread}/state")
    memory = list(deployed().memory.namespace(Actor(person.name, person.org), AGENT))
    checkpoint = state["checkpoint"]["checkpoint_id"]
    return {"thread": thread, "run": run["run_id"], "memory": memory, "memory.": ".".join(memory), "checkpoint": checkpoint}


@dataclass
class Trial:
    """A request that was sent, by whom, and the answer; status 0 where none came."""

    route: str
    attacker: Person
    request: tuple[str, str, Any]
    status: int = 0
    text: str = ""

    async def send(self, room: asyncio.Semaphore) -> None:
        method, url, body = self.request
        stream = self.attacker.http.stream(method, url, json=body)
        try:
            async with room, asyncio.timeout(ANSWER_SECONDS) as limit, stream as answer:
                self.status = answer.status_code
                limit.reschedule(asyncio.get_running_loop().time() + READ_SECONDS)
                async for part in answer.aiter_text():
                    self.text += part
        except (TimeoutError, httpx.TransportError) as error:
            self.text += repr(error) if self.status == 0 else ""


def echo(body: Body) -> Reply:
    """A model that says which marks it was shown."""
    return [Text(" ".join(["shown", *re.findall(r"\b(?:said|kept|plan|rule|skill)-[0-9a-f]{32}\b", json.dumps(body))]))]


@pytest.mark.parametrize(("times", "number"), [(2, 1), pytest.param(25, 2, marks=pytest.mark.proof)])
async def test_no_request_shows_or_changes_what_is_another_s_and_the_server_goes_on(
    server: DevServer, model: ScriptedAnthropic, times: int, number: int
) -> None:
    operator = server.person("", headers=OPERATOR)
    victim = World(server, operator.http)
    secrets, rule = await settled(victim), victim.names["rule"]
    before, shown = await victim.owned(), len(model.requests)
    model.script(lambda _: True, *[echo] * 100_000)
    requests = Requests(await operator.made("GET", "/openapi.json"), number)
    assert sum("requestBody" in operation for operation in requests.operations.values()) > 30, "no bodies are described"

    def of(attacker: Person) -> list[str]:
        """Her organization's rules are her colleagues', too."""
        return [*secrets, *[rule] * (attacker.org != victim.org)]

    # Colleagues, and namesakes in another organization, for whom her organization's rules are secret, too.
    plan, anew = requests.plan(times), httpx.Limits(max_keepalive_connections=0)
    attackers = []
    for one in range(-(-len(plan) // CASES_OF_ONE)):
        who = (f"mallory{one}", victim.org) if one % 2 else (victim.owner, f"globex{one}-{uuid.uuid4().hex[:8]}")
        attackers.append(server.person(*who, limits=anew))
    hers = {f"her {name}": value for name, value in victim.names.items()}
    hers |= {"her name": victim.owner, "her THREAD": victim.names["thread"].upper().replace("-", "")}
    names = [{**hers, **mine} for mine in await asyncio.gather(*map(own_names, attackers))]
    turns = [(route, own, n % len(attackers)) for n, (route, own) in enumerate(plan)]
    trials = [Trial(route, attackers[one], requests.request(route, own, names[one])) for route, own, one in turns]
    room = asyncio.Semaphore(AT_ONCE)
    await asyncio.gather(*(trial.send(room) for trial in trials))

    whose = {(attacker.name, attacker.org) for attacker in attackers}
    for _ in range(END_SECONDS):
        busy = await operator.made("POST", "/threads/search", {"status": "busy", "limit": 1000})
        going = [one for one in busy if (one["metadata"].get("user_id"), one["metadata"].get("org_id")) in whose]
        if not going:
            break
        await asyncio.sleep(1)
    wrong = [f"a run never ends: {thread}" for thread in going]
    for trial in trials:
        known = PLATFORM_ERRORS.get(trial.route)
        if trial.status == 0 or (trial.status >= 500 and not (known and known(trial.request[2]))):
            wrong.append(f"status {trial.status}: {trial.request}: {trial.text[:300]}")
        wrong += [f"{secret} is shown: {trial.request}" for secret in of(trial.attacker) if secret in trial.text]
    for attacker in attackers:
        threads = json.dumps(await attacker.made("POST", "/threads/search", {"limit": 1000}))
        wrong += [f"{secret} is in a thread of {attacker.name}'s" for secret in of(attacker) if secret in threads]
    prompts = json.dumps(model.requests[shown:])
    wrong += [f"{mark} is shown to the model" for mark in secrets if mark in prompts]
    after = await victim.owned()
    wrong += [f"{name} of hers changed" for name in before | after if before.get(name) != after.get(name)]
    if wrong:
        pytest.fail("\n".join(wrong[:20]), pytrace=False)
    # Else nothing was tried.
    taken = Counter(trial.route for trial in trials if 200 <= trial.status < 300)
    assert len(taken) >= 0.6 * len(requests.operations), taken
    assert sum(number for route, number in taken.items() if "/runs" in route) >= 20, taken
    bob = server.person("bob")
    async with asyncio.timeout(10):
        assert (await bob.turn(await bob.thread(), "hello"))["messages"][-1]["content"] == "shown"
