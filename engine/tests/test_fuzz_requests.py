"""Fuzz: whatever somebody sends to whatever route, nothing of another person's is shown or changed,
and the server goes on.

The requests are the authorization matrix's, with another person's ids wherever one could name a
place. The verdict comes from what attackers are answered, what the model is shown, and what the
victim has before and after.
"""

import asyncio
import itertools
import json
import random
import re
import uuid
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from lasting_memory.people.identity import OPERATE, Actor
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import AGENT, OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, system_text
from tests.auth.matrix import ROWS
from tests.auth.rules import LATER, Row
from tests.auth.world import ACCEPT, World, _call, echo, filled

pytestmark = pytest.mark.server

AT_ONCE = 30
CASES_OF_ONE = 10  # attackers are many: nobody is refused for asking too often
ANSWER_SECONDS = 600.0  # a limit: an answer comes, and one of a run ends by itself
# Of any other, which need not end; what it would go on to show is looked for in what it leaves
# behind
READ_SECONDS = 10.0
END_SECONDS = 600  # a limit, until the last of their runs has ended
# Routes that are no person's: what only this machine may call wipes or deploys everything, and
# there is no graph's interface.
LEFT_OUT = ("/internal/", "/deploy", "/ui/", "/docs")
TRIED = [row for row in ROWS if row.method != "WS" and not row.path.startswith(LEFT_OUT)]
NOW = (
    json.dumps({"after_seconds": LATER["after_seconds"]})[1:-1],
    json.dumps({"after_seconds": 0})[1:-1],
)

# What of hers a key could take, by the end of its name. <names> are filled in when it is sent.
HERS: dict[str, list[Any]] = {
    r"checkpoint(_id)?s?": ["<checkpoint>", {"thread_id": "<thread>", "checkpoint_id": "<checkpoint>"}],
    r"(threads?|context|tasks?)(_ids?)?": ["<thread>", "<THREAD>", "urn:uuid:<thread>", ["<thread>"]],
    r"runs?(_ids?)?": ["<run>", ["<run>"]],
    r"(assistants?|graphs?)(_ids?)?": ["<assistant>", "consolidation_agent"],
    r"namespaces?|prefix|ns|label": ["<memory>", "<memory.>", ["memories"], []],
    r"permissions|(auth_)?user|owner|identity|sub|user_ids?": [
        [OPERATE], "<owner>", {"identity": "<owner>", "org_id": "<org>", "permissions": [OPERATE]},
    ],
    r"(org|organization|tenant)(_ids?)?": ["<org>"],
    r"__pregel_\w+|ids?|map": ["<thread>", "<run>", {"": "<checkpoint>"}, {"thread_id": "<thread>"}],
}  # fmt: skip
PLACES = {re.compile(rf"(.*_)?({kind})"): values for kind, values in HERS.items()}
# Keys that the platform's source reads, beside those of its document.
KEYS = {
    "langgraph_auth_user", "langgraph_auth_user_id", "langgraph_auth_permissions", "permissions", "owner", "identity", "org_id",
    "user_id", "task_id", "graph_id", "checkpoint_ns", "checkpoint_map", "previous_run_id", "parent_thread_id", "namespace",
    "__pregel_task_id", "__pregel_checkpointer", "__pregel_store",
}  # fmt: skip
# Objects of a request that starts a run, or of any other, into which such keys are put.
INTO = [
    "",
    "config",
    "config.configurable",
    "config.metadata",
    "context",
    "metadata",
    "command",
    "checkpoint",
    "input",
]
INTO += ["command.update"]
# A request that starts a run is also tried with all of these in each of them: who she is, and her
# places.
STARTING = [
    row
    for row in TRIED
    if "/crons" not in row.path and (row.acts or '"assistant_id": "agent"' in json.dumps(row.body))
]
OWNER = {"user_id": "<owner>", "org_id": "<org>"}
USER = {
    "identity": "<owner>",
    "org_id": "<org>",
    "permissions": [OPERATE],
    "is_authenticated": True,
    "thread_owner": OWNER,
}
ALL_HERS: dict[str, Any] = {
    **OWNER, "thread_owner": OWNER, "langgraph_auth_user": USER, "langgraph_auth_user_id": "<owner>",
    "langgraph_auth_permissions": [OPERATE], "thread_id": "<thread>", "checkpoint_id": "<checkpoint>", "checkpoint_ns": "",
    "assistant_id": "<assistant>", "graph_id": "agent", "__pregel_thread_id": "<thread>",
}  # fmt: skip
# Keys by which deepagents and this project could hold what a prompt shows.
FORGED = f"forged-{uuid.uuid4().hex}"
CONTENTS: dict[str, Any] = {
    "memory_contents": {f"/{route}/preferences.md": FORGED for route in ("memories", "policies")},
    "skills_metadata": [
        {"name": "x", "description": FORGED, "path": "/skills/x/SKILL.md", "metadata": {}, "allowed_tools": []},
    ],
    "skills_load_errors": [FORGED], "policies": FORGED, "memories": FORGED,
    "files": {f"/{route}/x.md": {"content": FORGED, "encoding": "utf-8"} for route in ("memories", "policies", "skills/x")},
}  # fmt: skip
SAID = {"messages": [{"role": "user", "content": "go on"}]}


def pairs() -> list[tuple[str, Any]]:
    """Every key that could name a place, with what of hers it could take. Who talks to her
    assistant has its skills.
    """
    document = json.loads(
        Path(str(metadata.distribution("langgraph-api").locate_file("openapi.json"))).read_text(
            "utf-8"
        )
    )
    keys = {*re.findall(r'"(\w+)": {', json.dumps(document["components"]["schemas"])), *KEYS} - {
        "assistant_id"
    }
    return [
        (key, value)
        for key in sorted(keys)
        for place, of in PLACES.items()
        if place.fullmatch(key)
        for value in of
    ]


PAIRS = pairs()
Names = dict[str, Any]


def _put(body: Any, where: str, hers: dict[str, Any]) -> Any:
    """The body with things of hers in it; what is on the way becomes an object."""
    if isinstance(body, list):
        return [_put(body[0], where, hers), *body[1:]] if body else body
    if not isinstance(body, dict):
        return body
    if "method" in body:  # of a protocol, with a run's request in it
        return {**body, "params": _put(body.get("params"), where, hers)}
    step, _, rest = where.partition(".")
    inner = body.get(step) if isinstance(body.get(step), dict) else {}
    return {**body, step: _put(inner, rest, hers)} if step else {**body, **hers}


@dataclass
class Trial:
    """A row's request as an attacker sends it, and the answer; status 0 where none came."""

    row: Row
    attacker: Person
    path: str
    body: Any
    status: int = 0
    text: str = ""

    @classmethod
    def made(
        cls,
        row: Row,
        where: str | None,
        whose: tuple[Person, Names],
        hers: Names,
        chance: random.Random,
    ) -> "Trial":
        """With some names of the attacker's own, the others hers, and in every other one more of
        hers anywhere.

        With all that could be hers `where` it is said, all others are the attacker's own.
        """
        attacker, mine = whose
        own = {
            name for name in mine if where is not None or name == "mine" or chance.random() < 0.5
        }
        names = {**hers, **{name: mine[name] for name in own}}
        body, query = (
            filled(json.loads(json.dumps(row.body).replace(*NOW)), names),
            filled(row.query, names),
        )
        if where is not None or chance.random() < 0.5:
            told = {
                **ALL_HERS,
                **({} if "metadata" in str(where) else CONTENTS),
                **(SAID if where == "command.update" else {}),
            }
            told = (
                OWNER if where == "context" else told
            )  # a context takes no other fields, metadata no objects
            more = filled(
                dict(chance.sample(PAIRS, chance.randint(1, 4))) if where is None else told, hers
            )
            body = _put(body, chance.choice(INTO) if where is None else where, more)
            query += (
                ""
                if row.body
                else "".join(f"&{key}={quote(str(value))}" for key, value in more.items())
            )
        return cls(row, attacker, f"{filled(row.at or _call(row), names)}?{query}", body)

    async def send(self, room: asyncio.Semaphore) -> None:
        headers = {**ACCEPT, **self.row.headers}  # MCP asks for both
        stream = self.attacker.raw.stream(
            self.row.method, self.path, json=self.body, headers=headers
        )
        try:
            async with room, asyncio.timeout(ANSWER_SECONDS) as limit, stream as answer:
                self.status = answer.status_code
                if not self.row.acts:
                    limit.reschedule(asyncio.get_running_loop().time() + READ_SECONDS)
                async for part in answer.aiter_text():
                    self.text += part
        except (TimeoutError, httpx.TransportError) as error:
            self.text += repr(error) if self.status == 0 else ""


async def settled(world: World) -> list[str]:
    """What is secret of somebody who has memory, an assistant with a skill, and conversations;
    requests name the last.
    """
    await world.furnish()
    hidden = list[str]()
    for kind in ("assistant", "cron", "finished", "finished"):
        hidden += [world.names[name] for name in ("thread", "run") if name in world.names]
        await world.make(kind)
    world.names["THREAD"] = world.names["thread"].upper().replace("-", "")
    return [*world.secrets, world.names["skill"], *hidden]


async def own_names(person: Person) -> dict[str, Any]:
    """The names of an attacker's own conversation and memory."""
    thread = await person.thread(graph_id="agent")
    await person.turn(thread, "mine")
    (run,) = await person.made("GET", f"/threads/{thread}/runs")
    state = await person.made("GET", f"/threads/{thread}/state")
    memory = list(deployed().memory.namespace(Actor(person.name, person.org), AGENT))
    own = {
        "thread": thread,
        "mine": thread,
        "run": run["run_id"],
        "checkpoint": state["checkpoint"]["checkpoint_id"],
    }
    return {**own, "memory": memory, "memory.": ".".join(memory), "memory:1": memory[1]}


@pytest.mark.proof
@pytest.mark.parametrize(("times", "number"), [(1, 1), (25, 2)])
async def test_no_request_shows_or_changes_what_is_another_s_and_the_server_goes_on(
    server: DevServer, model: ScriptedAnthropic, times: int, number: int
) -> None:
    operator = server.person("", headers=OPERATOR)
    victim = World(server, operator.raw)
    secrets, rule = await settled(victim), victim.names["rule"]
    before, shown = await victim.owned(), len(model.requests)
    model.script(lambda _: True, *[echo] * 100_000)

    def of(attacker: Person) -> list[str]:
        """Her organization's rules are her colleagues', too."""
        return [*secrets, *[rule] * (attacker.org != victim.org)]

    # Colleagues, and namesakes in another organization, for whom her organization's rules are
    # secret, too.
    plan = [*((row, None) for row in TRIED * times), *itertools.product(STARTING, INTO[1:])]
    attackers, anew, chance = [], httpx.Limits(max_keepalive_connections=0), random.Random(number)
    for one in range(-(-len(plan) // CASES_OF_ONE)):
        who = (
            (f"mallory{one}", victim.org)
            if one % 2
            else (victim.owner, f"globex{one}-{uuid.uuid4().hex[:8]}")
        )
        attackers.append(server.person(*who, limits=anew))
    mine = [*zip(attackers, await asyncio.gather(*map(own_names, attackers)), strict=True)]
    trials = [
        Trial.made(*of, mine[n % len(mine)], victim.names, chance) for n, of in enumerate(plan)
    ]
    room = asyncio.Semaphore(AT_ONCE)
    await asyncio.gather(*(trial.send(room) for trial in trials))

    whose = {(attacker.name, attacker.org) for attacker in attackers}
    for _ in range(END_SECONDS):
        busy = await operator.made("POST", "/threads/search", {"status": "busy", "limit": 1000})
        going = [
            one
            for one in busy
            if (one["metadata"].get("user_id"), one["metadata"].get("org_id")) in whose
        ]
        if not going:
            break
        await asyncio.sleep(1)
    wrong = [f"a run never ends: {thread}" for thread in going]
    for trial in trials:
        # The platform's MCP answers 500 to `params` that are no object, and to an odd cursor.
        if trial.status == 0 or (trial.status >= 500 and not trial.path.startswith("/mcp")):
            wrong.append(f"status {trial.status}: {trial}"[:500])
        wrong += [
            f"{secret} is shown: {trial}"[:500]
            for secret in of(trial.attacker)
            if secret in trial.text
        ]
    for attacker in attackers:
        threads = json.dumps(await attacker.made("POST", "/threads/search", {"limit": 1000}))
        wrong += [
            f"{secret} is in a thread of {attacker.name}'s"
            for secret in of(attacker)
            if secret in threads
        ]
    prompts = json.dumps(model.requests[shown:])
    wrong += [f"{mark} is shown to the model" for mark in secrets if mark in prompts]
    wrong += ["a prompt shows what was forged"] * any(
        FORGED in system_text(each) for each in model.requests[shown:]
    )
    after = await victim.owned()
    wrong += [
        f"{name} of hers changed" for name in before | after if before.get(name) != after.get(name)
    ]
    if wrong:
        pytest.fail("\n".join(wrong[:20]), pytrace=False)
    # Else nothing was tried.
    taken = {trial.row.route for trial in trials if 200 <= trial.status < 300}
    assert len(taken) >= 0.5 * len({row.route for row in TRIED}), taken
    runs = [trial for trial, (row, where) in zip(trials, plan, strict=True) if where and row.acts]
    assert sum("shown" in trial.text for trial in runs) >= 0.8 * len(runs), "few runs were begun"
    bob = server.person("bob")
    async with asyncio.timeout(ANSWER_SECONDS):
        assert (await bob.turn(await bob.thread(), "hello"))["messages"][-1]["content"] == "shown"
