"""Every route as every caller: the outcomes that `tests/matrix.py` declares, on the real server."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import traceback
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import websockets

from memory import scopes
from memory.scopes import DEFAULT_AGENT_ASSISTANT as AGENT
from settings import Settings
from tests import matrix
from tests.conftest import model_env
from tests.dev_server import DevServer, _environment, dev_token
from tests.matrix import CALLERS, CHANNELS, LATER, ROWS, YEARLY, Cell, Row, a2a_message, command, rpc, signed_in
from tests.scripted_anthropic import Body, ScriptedAnthropic, Text, ToolCall, last_user_text, system_text

pytestmark = pytest.mark.server

AT_ONCE = 12
READ_SECONDS = 5.0  # of an answer that does not end
ACCEPT = {"Accept": "application/json, text/event-stream"}
OPERATORS = ("studio", "root")
STRANGERS = CALLERS[:4]
_SHOWN = re.compile(r"\b(?:kept|rule)-[0-9a-f]{32}\b")
_QUESTION = re.compile(r"\bask-[0-9a-f]{32}\b")

# Lists the routes of the app that `langgraph dev` would serve, in its place, with everything else as it is.
LIST_ROUTES = """
import importlib, json, sys, uvicorn
from langgraph_cli.cli import cli

def routes(of, prefix=""):
    for route in of:
        path = prefix + route.path
        if inner := getattr(route, "routes", None):
            yield from routes(inner, path)
        elif "WebSocket" in type(route).__name__:
            yield "WS " + path
        elif methods := getattr(route, "methods", None):
            yield from (f"{method} {path}" for method in methods if method != "HEAD" or "GET" not in methods)
        else:  # a folder of files
            yield f"GET {path}/*"

def run(app, **_):
    module, name = app.split(":")
    print("ROUTES " + json.dumps(sorted(routes(getattr(importlib.import_module(module), name).routes))))

uvicorn.run = run
cli()
"""


@dataclass(frozen=True)
class Answer:
    status: int
    text: str  # headers and body


@dataclass
class World:
    """One owner with a conversation and memory, in an organization of their own, and everyone else who calls."""

    server: DevServer
    http: httpx.AsyncClient
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    names: dict[str, Any] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        return f"alice-{self.id[:8]}@example.com"

    @property
    def org(self) -> str:
        return f"acme-{self.id[:8]}"

    @property
    def other_org(self) -> str:
        return f"globex-{self.id[:8]}"

    @property
    def secrets(self) -> list[str]:
        return [self.names["said"], self.names["kept"]]

    def headers(self, caller: str) -> dict[str, str]:
        if caller == "studio":
            return {"x-auth-scheme": "langsmith"}
        if caller == "no token":
            return {}
        tokens = {
            "junk token": "junk",
            "another user": dev_token(self.org, f"mallory-{self.id[:8]}"),
            "same identity, other organization": dev_token(self.other_org, self.owner),
            "owner": dev_token(self.org, self.owner),
            "root": dev_token("default", "root"),
        }
        return {"Authorization": f"Bearer {tokens[caller]}"}

    async def api(self, caller: str, method: str, path: str, body: Any = None) -> Any:
        """The answer to a request that must succeed."""
        response = await self.http.request(method, path, json=body, headers=self.headers(caller))
        assert response.is_success, (method, path, response.text)
        return response.json() if response.content else None

    async def furnish(self) -> None:
        """The owner's memory, and the policies of both organizations."""
        kinds = ("said", "kept", "rule", "rule-elsewhere", "skill")
        self.names |= {kind: f"{kind}-{uuid.uuid4().hex}" for kind in kinds if kind not in self.names}
        memory = scopes.memories(scopes.Actor(self.owner, self.org), AGENT, Settings())
        self.names |= {"memory:1": memory[1], "owner": self.owner, "org": self.org}
        await self.put("memory", memory, "kept", "/kept.md")
        await self.put("memory", memory, "kept")
        await self.put("policies", scopes.policies(self.org), "rule")
        await self.put("policies-elsewhere", scopes.policies(self.other_org), "rule-elsewhere")

    async def put(self, whose: str, namespace: scopes.Namespace, content: str, key: str = "/preferences.md") -> None:
        self.names |= {whose: list(namespace), f"{whose}.": ".".join(namespace)}
        value = {"content": self.names[content], "encoding": "utf-8"}
        await self.api("studio", "PUT", "/store/items", {"namespace": namespace, "key": key, "value": value})

    async def wait_until_idle(self) -> None:
        """Until what the owner has queued themselves is done."""
        wanted = {"metadata": {"user_id": self.owner, "org_id": self.org}, "status": "busy"}
        while await self.api("studio", "POST", "/threads/count", wanted):  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    async def make(self, kind: str) -> None:
        """Something of the owner's (or of what owners cannot have, an operator's) that a row acts on."""
        if kind == "assistant":
            body = {"graph_id": "agent", "name": f"assistant {uuid.uuid4().hex}"}
            assistant = (await self.api("studio", "POST", "/assistants", body))["assistant_id"]
            self.names["assistant"] = assistant
            await self.put("skills", scopes.skills(assistant), "skill")
        elif kind == "revised":
            content = {"content": f"revised {self.names['kept']}"}
            await self.api("owner", "PUT", "/memory/file?path=/memories/kept.md", content)
        elif kind:
            await self._make_thread(kind)

    async def _make_thread(self, kind: str) -> None:
        said = {"messages": [{"role": "user", "content": self.names["said"]}]}
        metadata = {"graph_id": "agent", "note": self.names["said"]}
        thread = (await self.api("owner", "POST", "/threads", {"metadata": metadata}))["thread_id"]
        self.names["thread"] = thread
        if kind == "finished":
            body = {"assistant_id": "agent", "input": said, "stream_resumable": True}
            run = await self.api("owner", "POST", f"/threads/{thread}/runs", body)
            await self.api("owner", "GET", f"/threads/{thread}/runs/{run['run_id']}/join")
            for _ in range(100):  # the run is over a little before the thread knows
                if (await self.api("studio", "GET", f"/threads/{thread}"))["status"] != "busy":
                    break
                await asyncio.sleep(0.05)
            self.names["run"] = run["run_id"]
        else:
            await self.api("studio", "POST", f"/threads/{thread}/state", {"values": said, "as_node": "__start__"})
        if kind == "run":
            self.names["run"] = (await self.api("owner", "POST", f"/threads/{thread}/runs", {**LATER, "input": said}))["run_id"]
        if kind == "cron":
            cron = {**YEARLY, "input": said}
            self.names["cron"] = (await self.api("studio", "POST", f"/threads/{thread}/runs/crons", cron))["cron_id"]
        state = await self.api("studio", "GET", f"/threads/{thread}/state")
        assert self.names["said"] in json.dumps(state)
        self.names["checkpoint"] = state["checkpoint"]["checkpoint_id"]

    async def owned(self) -> dict[str, Any]:
        """What the owner has, as an operator sees it: a change of any of it is seen here."""
        found: dict[str, Any] = {}
        mine = {"metadata": {"user_id": self.owner, "org_id": self.org}, "limit": 1000}
        found["threads"] = await self._seen("POST", "/threads/search", mine)
        for whose in ("memory", "policies", "policies-elsewhere", "skills"):
            if whose in self.names:
                query = {"namespace_prefix": self.names[whose], "limit": 1000}
                found[whose] = await self._seen("POST", "/store/items/search", query)
        paths = ["/assistants/<assistant>", "/runs/crons/<cron>"]
        paths += [f"/threads/<thread>{part}" for part in ("", "/state", "/runs?limit=100")]
        for path in paths:
            if path.split("<")[1].split(">")[0] in self.names:
                found[path] = await self._seen("GET", filled(path, self.names))
        return found

    async def _seen(self, method: str, path: str, body: Any = None) -> Any:
        response = await self.http.request(method, path, json=body, headers=self.headers("studio"))
        return response.status_code, response.json()

    async def own_thread(self, caller: str, row: Row) -> str:
        """A thread of the caller's own, for rows that go by one; those who cannot sign in go by the owner's."""
        if "<mine>" not in f"{row.at}{row.body}" or caller in CALLERS[:2]:
            return str(self.names.get("thread"))
        return str((await self.api(caller, "POST", "/threads", {"metadata": {"graph_id": "agent"}}))["thread_id"])

    async def send(self, caller: str, row: Row, *, mine: str = "", until: str = "") -> Answer:
        """The answer to a row's request; one that does not end is read until it holds `until`, or for READ_SECONDS."""
        names = {**self.names, "mine": mine}
        path = filled(row.at or _call(row), names) + ("?" + filled(row.query, names) if row.query else "")
        headers = {**ACCEPT, **row.headers, **self.headers(caller)}
        if row.method == "WS":
            return await self._talk(path, row.body, headers, until)
        text = ""
        try:
            async with asyncio.timeout(READ_SECONDS * (4 if until else 1)):
                body = None if row.body is None else filled(row.body, names)
                async with self.http.stream(row.method, path, json=body, headers=headers) as response:
                    status, head = response.status_code, str(response.headers)
                    async for part in response.aiter_text():
                        text += part
                        if until and until in text:
                            break
        except TimeoutError:
            pass
        return Answer(status, f"{head}\n\n{text}")

    async def _talk(self, path: str, messages: list[Any], headers: dict[str, str], until: str) -> Answer:
        text = ""
        try:
            async with (
                asyncio.timeout(READ_SECONDS * (4 if until else 1)),
                websockets.connect(
                    self.server.url.replace("http", "ws") + path, additional_headers=headers, proxy=None
                ) as socket,
            ):
                for message in messages:
                    await socket.send(json.dumps(message))
                while not until or until not in text:
                    text += str(await socket.recv())
        except websockets.InvalidStatus as refusal:
            return Answer(refusal.response.status_code, f"{refusal.response.headers}\n\n{refusal.response.body!r}")
        except (TimeoutError, websockets.ConnectionClosed):
            pass
        return Answer(101, f"\n\n{text}")


def _call(row: Row) -> str:
    """The path a row calls: the route's, with the owner's things in it."""
    path = re.sub(r"{(thread|run|checkpoint|cron)_id}", r"<\1>", row.path)
    path = path.replace("{assistant_id}", "<assistant>" if row.needs == "assistant" else AGENT)
    return re.sub(r"{\w+}", "agent", path)


def filled(template: Any, names: dict[str, Any]) -> Any:
    """The template with <name> replaced, in any depth; a text that is nothing else may become a list."""
    if isinstance(template, dict):
        return {key: filled(value, names) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(value, names) for value in template]
    if not isinstance(template, str):
        return template
    for name, value in names.items():
        if template == f"<{name}>":
            return value
        template = template.replace(f"<{name}>", str(value))
    return template


def body_of(answer: Answer) -> str:
    return answer.text.partition("\n\n")[2]


async def wrong(world: World, row: Row) -> list[str]:
    """What does not go as the row says, as all its callers; nothing when all does."""
    await world.furnish()
    await world.make(row.needs)
    callers = list(zip(CALLERS[:5], row.rule, strict=False)) + [(operator, row.rule[5]) for operator in OPERATORS]
    return await wrong_for_strangers(world, row) + await wrong_one_by_one(world, row, callers[len(STRANGERS) :])


async def wrong_for_strangers(world: World, row: Row) -> list[str]:
    mine = {caller: await world.own_thread(caller, row) for caller in STRANGERS}
    before = await world.owned()
    answers = await asyncio.gather(*(world.send(caller, row, mine=mine[caller]) for caller in STRANGERS))
    found = []
    for caller, cell, answer in zip(STRANGERS, row.rule, answers, strict=False):
        found += judged(world, row, caller, cell, answer)
    after = await world.owned()
    changes = [f"{name}: {before[name]} -> {after[name]}" for name in before if before[name] != after[name]]
    found += [f"a stranger changed what the owner has: {change}" for change in changes]
    if row.method == "GET" and row.rule[0].status == 401:
        head = await world.http.head(filled(row.at or _call(row), {**world.names, "mine": "x"}))
        if head.status_code != 401:
            found.append(f"HEAD without a token got {head.status_code}")
    return found


async def wrong_one_by_one(world: World, row: Row, callers: list[tuple[str, Cell]]) -> list[str]:
    """For those who succeed, each with something new to succeed on."""
    found = []
    for index, (caller, cell) in enumerate(callers):
        succeeds = cell.meaning == "yes"
        if succeeds and index:
            await world.furnish()
            await world.make(row.needs)
        mine = await world.own_thread(caller, row)
        if row.queues:
            await world.wait_until_idle()
        before = await world.owned()
        until = filled("<kept>" if row.acts and caller == "owner" else row.shows, world.names) if succeeds else ""
        found += judged(world, row, caller, cell, await world.send(caller, row, mine=mine, until=until))
        after = await world.owned()
        if before == after and succeeds and row.changes:
            found.append(f"{caller}: nothing has changed")
        if before != after and not succeeds:
            found.append(f"{caller}: changed what the owner has")
        stamp = _stamp(after)
        if stamp not in (None, [world.owner, world.org]):
            found.append(f"{caller}: the thread is now of {stamp}")
    return found


def _stamp(owned: dict[str, Any]) -> list[str] | None:
    """Whom the thread says it is of; None where there is none."""
    status, thread = owned.get("/threads/<thread>", (404, {}))
    return [thread["metadata"].get(key) for key in ("user_id", "org_id")] if status == 200 else None


def judged(world: World, row: Row, caller: str, cell: Cell, answer: Answer) -> list[str]:
    """What is wrong with an answer."""
    found = []
    shows = filled(row.shows, world.names)
    if answer.status != cell.status:
        found.append(f"status {answer.status}, not {cell.status}")
    if cell.meaning in ("yes", "public") and shows not in answer.text:
        found.append(f"does not show {shows!r}")
    if cell.meaning in ("nothing", "refused", "own") and caller != "owner" and shows in world.secrets and shows in answer.text:
        found.append(f"shows {shows!r}")
    if row.acts and (world.names["kept"] in answer.text) != (caller == "owner"):
        found.append("acts as somebody else")
    if cell.meaning == "nothing" and row.instead is not None and body_of(answer) != filled(row.instead, world.names):
        found.append("shows more than nothing")
    if cell.meaning == "nothing" and row.hides and row.hides in answer.text:
        found.append(f"shows {row.hides!r}")
    secrets = list(world.secrets)
    if cell.meaning == "public":
        secrets += [
            world.owner,
            world.org,
            *(str(world.names[name]) for name in ("thread", "run") if name in world.names),
        ]
    if cell.meaning == "public" or caller in STRANGERS:
        found += [f"shows the owner's {secret!r}" for secret in secrets if secret in answer.text]
    return [f"{caller}: {what}: {answer.text[-600:]}" for what in found]


@dataclass
class Echo:
    """A model that says which memory and policies it was shown, and keeps what it was shown by the question's token."""

    asked: defaultdict[str, list[Body]] = field(default_factory=lambda: defaultdict(list))

    def __call__(self, body: Body) -> list[Text]:
        for question in _QUESTION.findall(last_user_text(body)):
            self.asked[question].append(body)
        return [Text(" ".join(["shown", *_SHOWN.findall(system_text(body))]))]


@pytest.fixture(scope="module")
def echo() -> Echo:
    return Echo()


@pytest.fixture(scope="module")
def echoing(echo: Echo) -> Iterator[ScriptedAnthropic]:
    with ScriptedAnthropic() as model:
        model.script(lambda _: True, *[echo] * 10_000)
        yield model


@pytest.fixture(scope="module")
def environment(echoing: ScriptedAnthropic) -> dict[str, str]:
    return {**model_env(echoing), "OPERATORS": "root", "CONSOLIDATE_AFTER_SECONDS": "0"}


@pytest.fixture(scope="module")
def dev(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A server of the matrix's own: rows stop everybody's runs, and the last one wipes it."""
    with DevServer(tmp_path_factory.mktemp("matrix"), env=environment) as server:
        yield server


@asynccontextmanager
async def clients(server: DevServer) -> AsyncIterator[httpx.AsyncClient]:
    # A connection for every request: the server may close one on which it refused a body unread.
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False, limits=limits) as http:
        yield http


@pytest.fixture(scope="module")
def results(dev: DevServer, request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """What is wrong with every row that was asked for. They run at the same time, each on an owner of its own."""
    callspecs = [getattr(item, "callspec", None) for item in request.session.items]
    asked = [callspec.params.get("row") for callspec in callspecs if callspec]
    rows = [row for row in ROWS if row in asked]

    async def all_rows() -> dict[str, list[str]]:
        async with clients(dev) as http:
            room = asyncio.Semaphore(AT_ONCE)

            async def one(row: Row) -> list[str]:
                async with room:
                    return await wrong(World(dev, http), row)

            early, late = ([row for row in rows if row.last is last] for last in (False, True))
            found = await asyncio.gather(*map(one, early), return_exceptions=True)
            for row in late:
                found += await asyncio.gather(one(row), return_exceptions=True)
            return {row.name: _lines(of) for row, of in zip([*early, *late], found, strict=True)}

    return asyncio.run(all_rows())


def _lines(found: list[str] | BaseException) -> list[str]:
    return ["".join(traceback.format_exception(found))] if isinstance(found, BaseException) else found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_caller_gets_what_the_matrix_says_and_nothing_more(results: dict[str, list[str]], row: Row) -> None:
    assert not results[row.name], "\n".join(results[row.name])


@pytest.fixture(scope="module")
def served(dev: DevServer, environment: dict[str, str]) -> set[str]:
    """Every route of the app that `langgraph dev` serves, as "METHOD /path"."""
    command = [sys.executable, "-c", LIST_ROUTES, "dev", "--config", "langgraph.json", "--no-browser", "--no-reload"]
    done = subprocess.run(command, cwd=dev.folder, env=_environment(environment), capture_output=True, text=True, check=True)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("ROUTES "))
    return set(json.loads(line.removeprefix("ROUTES ")))


def test_every_route_of_the_server_has_a_decision_and_every_decision_a_route(served: set[str]) -> None:
    decided = {row.route for row in ROWS}
    assert len(served) > 70
    assert served - decided == set(), "routes without a row in tests/matrix.py: who may call them?"
    assert decided - served == set(), "rows of tests/matrix.py for routes that the server does not have"


def test_the_document_of_the_running_server_names_no_route_that_the_app_does_not_have(dev: DevServer, served: set[str]) -> None:
    paths = httpx.get(f"{dev.url}/openapi.json", trust_env=False).json()["paths"]
    documented = {f"{method.upper()} {path.rstrip('/') or '/'}" for path, methods in paths.items() for method in methods}
    assert len(documented) > 50
    assert documented - served == set()


def test_no_route_but_the_interface_s_files_begins_with_ui_where_the_platform_asks_nobody_for_a_token(
    served: set[str],
) -> None:
    assert {route for route in served if route.startswith("GET /ui")} == {"GET /ui/*"}


def test_the_names_of_rows_are_unique() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_without_a_token_nothing_is_answered_but_what_says_nothing_of_anybody() -> None:
    assert [row.name for row in ROWS for cell in row.rule[:2] if cell.status < 400 and cell.meaning != "public"] == []


def test_the_page_shows_the_matrix_as_it_is() -> None:
    assert matrix.shown() == matrix.render(), "docs/security.md is out of date: python -m tests.matrix"


# What a client may try to say about itself, by where it says it.
Arguments = dict[str, Any]
FORGED = f"forged-{uuid.uuid4().hex}"


def _identity(victim: World) -> Arguments:
    owner = {"user_id": victim.owner, "org_id": victim.org}
    user = {"identity": victim.owner, "org_id": victim.org, "permissions": [scopes.OPERATE], "is_authenticated": True}
    return {
        **owner,
        "thread_owner": owner,
        "langgraph_auth_user": {**user, "thread_owner": owner},
        "langgraph_auth_user_id": victim.owner,
        "langgraph_auth_permissions": [scopes.OPERATE],
        "server_info": {"user": user},
    }


def _contents() -> Arguments:
    """Keys by which deepagents and this project could hold what a prompt shows."""
    file = {"content": FORGED, "encoding": "utf-8"}
    skill = {
        "name": "forged",
        "description": FORGED,
        "path": "/skills/forged/SKILL.md",
        "metadata": {},
        "allowed_tools": [],
    }
    return {
        "memory_contents": {"/memories/preferences.md": FORGED, "/policies/preferences.md": FORGED},
        "skills_metadata": [skill],
        "skills_load_errors": [FORGED],
        "policies": FORGED,
        "memories": FORGED,
        "files": {f"/{route}/preferences.md": file for route in ("memories", "policies", "skills/forged")},
    }


def _internals(victim: World) -> Arguments:
    """Keys by which the platform and langgraph steer a run."""
    return {
        "thread_id": victim.names["thread"],
        "checkpoint_id": victim.names["checkpoint"],
        "checkpoint_ns": "",
        "run_id": str(uuid.uuid4()),
        "graph_id": "consolidation_agent",
        "assistant_id": str(uuid.uuid4()),
        "cron_id": str(uuid.uuid4()),
        "__pregel_resuming": True,
        "__pregel_resume_map": {"x": "y"},
        "__pregel_read": None,
        "__pregel_runtime": {"context": {"user_id": victim.owner, "org_id": victim.org}},
        "__pregel_scratchpad": None,
        "__pregel_thread_id": victim.names["thread"],
    }


# What only a thread has: a state for a command to change, and that it may be made by its first run.
STATE = "everything in the state, by a command"
FIRST_RUN = "everything in the metadata of a thread's first run"


def attempts(victim: World) -> dict[str, Arguments]:
    told = {**_identity(victim), **_contents()}
    keys = {name: str(value) for name, value in told.items()}
    named = {key: told[key] for key in ("user_id", "org_id")}
    return {
        "nothing, to compare with": {},
        "identity in context": {"context": named},
        "everything in context": {"context": told},
        "internals in context": {"context": _internals(victim)},
        "everything in config.configurable": {"config": {"configurable": told}},
        "internals in config.configurable": {"config": {"configurable": _internals(victim)}},
        "everything in config.metadata": {"config": {"metadata": keys}},
        "everything in metadata": {"metadata": keys},
        "everything in the input": {"input": {**told, **_internals(victim)}},
        "everything in the checkpoint": {"checkpoint": {**_internals(victim), **_identity(victim)}},
        STATE: {"command": {"update": {**_contents(), **_identity(victim)}, "goto": "model"}},
        FIRST_RUN: {"if_not_exists": "create", "metadata": keys, "config": {"metadata": keys}},
        "headers": {"headers": {f"x-{name.replace('_', '-')}": str(value)[:1000] for name, value in told.items()}},
    }


def _body(question: str, given: Arguments) -> Arguments:
    asked = {"messages": [{"role": "user", "content": question}]}
    body = {"assistant_id": "agent", **given, "input": {**given.get("input", {}), **asked}}
    if "command" in given:  # it takes the input's place
        body["command"] = {**given["command"], "update": {**given["command"]["update"], **asked}}
    return body


def _message(question: str, given: Arguments) -> Arguments:
    parts = [{"kind": "text", "text": question}]
    parts += [{"kind": "data", "data": given["input"]}] if "input" in given else []
    others = {name: value for name, value in given.items() if name != "input"}
    return {**others, "message": {**a2a_message(), "parts": parts, "metadata": given.get("metadata", {})}}


def _rest(question: str, given: Arguments) -> Any:
    return _body(question, given)


# Every route that starts a run, and the request that asks a question there.
ASKING: dict[str, Callable[[str, Arguments], Any]] = {
    "POST /threads/{thread_id}/runs": _rest,
    "POST /threads/{thread_id}/runs/wait": _rest,
    "POST /threads/{thread_id}/runs/stream": _rest,
    "POST /runs": _rest,
    "POST /runs/wait": _rest,
    "POST /runs/stream": _rest,
    "POST /runs/batch": lambda question, given: [_body(question, given)],
    "POST /threads/{thread_id}/commands": lambda question, given: command("run.start", **_body(question, given)),
    "WS /threads/{thread_id}/stream/events": lambda question, given: [
        command("subscription.subscribe", channels=CHANNELS),
        command("run.start", **_body(question, given)),
    ],
    "POST /mcp": lambda question, given: rpc(
        "tools/call",
        name="agent",
        arguments=_body(question, given)["input"],
        **{name: value for name, value in given.items() if name != "input"},
    ),
    "POST /a2a/{assistant_id}": lambda question, given: rpc("message/send", **_message(question, given)),
    "POST /a2a/{assistant_id}/": lambda question, given: rpc("message/stream", **_message(question, given)),
}
# A context takes no other fields. An event stream takes no context.
REFUSED = {
    (attempt, route)
    for attempt in ("everything in context", "internals in context")
    for route in ASKING
    if "/commands" not in route and "/stream/events" not in route
}


async def smuggled(victim: World, me: World, echo: Echo, attempt: str, route: str) -> list[str]:
    """What goes wrong when `me`, who owns nothing of the victim's, tries this there."""
    await me.furnish()
    if "{thread_id}" in route:
        await me.make("thread")
        if attempt == FIRST_RUN:
            me.names["thread"] = str(uuid.uuid4())
    question = f"ask-{uuid.uuid4().hex}"
    given = dict(attempts(victim)[attempt])
    headers = given.pop("headers", {})
    row = Row(route, attempt, signed_in(), ASKING[route](question, given), headers=headers)
    answer = await me.send("owner", row, until=me.names["kept"])
    for _ in range(100):
        if echo.asked[question] or answer.status >= 400 or (attempt, route) in REFUSED:
            break
        await asyncio.sleep(0.05)
    asked = echo.asked[question]
    if (attempt, route) in REFUSED:
        return [f"no longer refused: {answer}"] if asked else []
    found = [] if asked else [f"the model was asked nothing: {answer.status} {answer.text[-500:]}"]
    for body in asked:
        system, everything = system_text(body), json.dumps(body)
        found += [f"not shown its own {name}" for name in ("kept", "rule") if me.names[name] not in system]
        found += [f"shown the victim's {name}" for name in ("kept", "rule", "said") if victim.names[name] in everything]
        found += ["the prompt shows what was forged"] if FORGED in system else []
    if "{thread_id}" in route:
        path = f"/threads/{me.names['thread']}"
        kept = [await me.api("studio", "GET", path), *await me.api("studio", "GET", f"{path}/runs")]
        stamps = {(of["metadata"]["user_id"], of["metadata"]["org_id"]) for of in kept}
        found += [] if stamps == {(me.owner, me.org)} else [f"the thread or its run is of {stamps}"]
    return found


@pytest.fixture(scope="module")
def smuggling(dev: DevServer, echo: Echo, request: pytest.FixtureRequest) -> dict[tuple[str, str], list[str]]:
    """What went wrong with each attempt on each route."""

    async def all_attempts() -> dict[tuple[str, str], list[str]]:
        async with clients(dev) as http:
            victim = World(dev, http)
            await victim.furnish()
            await victim.make("thread")
            room, before = asyncio.Semaphore(AT_ONCE), await victim.owned()

            async def one(attempt: str, route: str) -> list[str]:
                async with room:
                    return await smuggled(victim, World(dev, http), echo, attempt, route)

            found = await asyncio.gather(*(one(*case) for case in SMUGGLED), return_exceptions=True)
            assert await victim.owned() == before, "what the victim has was changed"
            return {case: _lines(of) for case, of in zip(SMUGGLED, found, strict=True)}

    return asyncio.run(all_attempts())


SMUGGLED = [
    (attempt, route)
    for attempt in attempts(World(None, None, names=defaultdict(str)))  # type: ignore[arg-type]  # for their names
    for route in ASKING
    if attempt not in (STATE, FIRST_RUN) or "{thread_id}/runs" in route
]


@pytest.mark.parametrize(("attempt", "route"), SMUGGLED)
def test_nothing_a_client_says_changes_whose_memory_and_policies_a_run_is_shown(
    smuggling: dict[tuple[str, str], list[str]], attempt: str, route: str
) -> None:
    assert not smuggling[attempt, route], "\n".join(smuggling[attempt, route])


async def test_naming_a_person_to_the_consolidation_agent_makes_it_read_that_person_s_conversations_for_operators_alone(
    dev: DevServer, echoing: ScriptedAnthropic
) -> None:
    async with clients(dev) as http:
        victim, me = World(dev, http), World(dev, http)
        for world in (victim, me):
            await world.furnish()
        await victim.make("finished")
        echoing.script("Conversations with something new", [ToolCall("search_recent_conversations", {})])
        before = len(echoing.requests)
        named = {"user_id": victim.owner, "org_id": victim.org}
        body = {"assistant_id": "consolidation_agent", "input": {"messages": []}, "context": named}
        for caller, reads in (("owner", False), ("studio", True)):
            await me.api(caller, "POST", "/runs/wait", body)
            shown = json.dumps(echoing.requests[before:])
            assert (victim.names["said"] in shown) is reads, caller


def test_every_route_that_starts_a_run_is_tried_with_forged_arguments() -> None:
    starting = {row.route for row in ROWS if row.acts or '"assistant_id": "agent"' in json.dumps(row.body)}
    assert {route for route in starting if "/crons" not in route} == set(ASKING)


@pytest.mark.parametrize("url", ["/threads/<thread>/state", "http://127.0.0.1:<port>/ok", "http://localhost:<port>/ok"])
@pytest.mark.parametrize("route", [route for route, body in ASKING.items() if body is _rest or "batch" in route])
async def test_no_run_has_a_webhook_on_the_server_itself_where_it_would_be_called_without_anybody_s_token(
    dev: DevServer, url: str, route: str
) -> None:
    async with clients(dev) as http:
        world = World(dev, http)
        await world.furnish()
        await world.make("thread")
        body = ASKING[route]("hello", {"webhook": filled(url, {**world.names, "port": dev.port})})
        answer = await world.send("owner", Row(route, "webhook", signed_in(422, "refused"), body))
        assert answer.status == 422, answer
        assert any(reason in answer.text for reason in ("must use https", "disabled by default", "blocked"))
