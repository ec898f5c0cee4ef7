"""Who may do what: every kind of caller against every kind of action, on the real server."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
import websockets
from langgraph_sdk.client import LangGraphClient

from memory import scopes
from settings import Settings
from tests.dev_server import DevServer, dev_token, run_turn
from tests.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, system_text

pytestmark = pytest.mark.server

ORG, OTHER_ORG = "acme", "globex"
AGENT = scopes.DEFAULT_AGENT_ASSISTANT
JSON = {"Accept": "application/json, text/event-stream"}
SECRET = "alice-says-4711"
LATER: dict[str, Any] = {"assistant_id": "agent", "input": {"messages": []}, "after_seconds": 3600}
NOW: dict[str, Any] = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hello"}]}}
YEARLY: dict[str, Any] = {**NOW, "schedule": "0 0 1 1 *", "end_time": "2999-01-01T00:00:00Z"}
MESSAGES = {"messages": [{"role": "user", "content": "forged"}]}


def memories(identity: str, org: str = ORG) -> list[str]:
    return list(scopes.memories(scopes.Actor(identity, org), "", Settings()))


def file(text: str) -> dict[str, str]:
    return {"content": text, "encoding": "utf-8"}


@dataclass(frozen=True)
class Row:
    """An action, and the status each caller gets. Nobody and a junk token get 401 for every one."""

    name: str
    method: str
    path: str
    body: Any
    stranger: int  # another user of the owner's organization
    elsewhere: int  # the owner's identity in another organization
    owner: int
    operator: int
    target: str = "conversation"  # what <thread>, <run>, ... name: the owner's conversation, or something new each time
    shows: str | None = None  # whom it succeeds for is shown this
    hides: str | None = None  # strangers who get an answer get exactly this one


def thread_row(
    name: str, method: str, path: str, body: Any = None, *, ok: int = 200, no: int = 404, **kwargs: Any
) -> Row:
    return Row(name, method, f"/threads{path}", body, no, no, ok, ok, **kwargs)


def run_row(name: str, method: str, path: str, body: Any = None, *, ok: int = 200, **kwargs: Any) -> Row:
    return thread_row(name, method, f"/<thread>/runs{path}", body, ok=ok, **kwargs)


def item(namespace: str) -> str:
    return "/store/items?" + urlencode({"namespace": namespace, "key": "/preferences.md"}, safe="<>")


def store_rows(whose: str, readers: tuple[bool, bool, bool], shows: str) -> list[Row]:
    """The store API on one namespace; `readers`: whether a stranger, the identity elsewhere and the owner may read it."""
    stranger, elsewhere, owner = (200 if allowed else 403 for allowed in readers)
    read = (stranger, elsewhere, owner)
    at = f"<{whose}>"
    found = {"namespace": at, "key": "/preferences.md"}
    # fmt: off
    return [
        Row(f"get from {whose}", "GET", item(f"<{whose}.>"), None, *read, 200, shows=shows),
        Row(f"search {whose}", "POST", "/store/items/search", {"namespace_prefix": at}, *read, 200, shows=shows),
        Row(f"namespaces under {whose}", "POST", "/store/namespaces", {"prefix": at}, *read, 200),
        Row(f"put into {whose}", "PUT", "/store/items", {**found, "value": file(shows)}, 403, 403, 403, 204),
        Row(f"remove from {whose}", "DELETE", "/store/items", {**found, "key": "/x"}, 403, 403, 403, 204),
    ]
    # fmt: on


# Where the answer has begun when the platform asks who may see it, the refusal is in the answer.
NOT_FOUND = '{"__error__":{"error":"HTTPException","message":"404: Run not found"}}'
NOT_FOUND_EVENT = 'event: error\r\ndata: {"error":"HTTPException","message":"404: Thread not found"}\r\n\r\n'
NOT_FOUND_REPLY = '{"type":"error","id":1,"error":"unknown_error","message":"404: Thread or assistant not found."}'
OPEN, CLOSED = (200, 200, 200, 200), (403, 403, 403, 200)
# fmt: off
MATRIX = [
    # threads
    Row("create a thread", "POST", "/threads", {"metadata": {"user_id": "<owner>", "org_id": ORG}}, *OPEN),
    thread_row("create a thread that exists", "POST", "", {"thread_id": "<thread>", "if_exists": "do_nothing"}, no=409),
    thread_row("create a thread that exists, with state", "POST", "",
               {"thread_id": "<thread>", "if_exists": "do_nothing", "supersteps": [
                   {"updates": [{"values": MESSAGES, "as_node": "__input__"}]}]}, no=409, target="thread"),
    thread_row("get a thread", "GET", "/<thread>", shows=SECRET),
    thread_row("search threads by id", "POST", "/search", {"ids": ["<thread>"]}, no=200, shows=SECRET, hides="[]"),
    thread_row("search threads by owner", "POST", "/search", {"metadata": {"user_id": "<owner>", "org_id": ORG}},
               no=200, shows=SECRET, hides="[]"),
    thread_row("count threads", "POST", "/count", {"metadata": {"note": SECRET}}, no=200, shows="1", hides="0"),
    thread_row("change metadata and owner", "PATCH", "/<thread>",
               {"metadata": {"user_id": "mallory", "org_id": "evil", "note": "x"}}, target="thread"),
    thread_row("delete a thread", "DELETE", "/<thread>", ok=204, target="thread"),
    thread_row("prune threads", "POST", "/prune", {"thread_ids": ["<thread>"]}, target="thread"),
    thread_row("copy a thread", "POST", "/<thread>/copy", no=409),
    thread_row("get state", "GET", "/<thread>/state", shows=SECRET),
    thread_row("get state at a checkpoint", "GET", "/<thread>/state/<checkpoint>", shows=SECRET),
    thread_row("get state at a checkpoint, posted", "POST", "/<thread>/state/checkpoint",
               {"checkpoint": {"checkpoint_id": "<checkpoint>"}}, shows=SECRET),
    thread_row("get state, naming the thread in a checkpoint of one's own", "POST", "/<mine>/state/checkpoint",
               {"checkpoint": {"thread_id": "<thread>", "checkpoint_id": "<checkpoint>"}}, no=200),
    thread_row("get history", "GET", "/<thread>/history", shows=SECRET),
    thread_row("get history, posted", "POST", "/<thread>/history", {"limit": 10}, shows=SECRET),
    thread_row("get history, naming the thread in a checkpoint", "POST", "/<mine>/history",
               {"checkpoint": {"thread_id": "<thread>"}}, no=200),
    thread_row("update state", "POST", "/<thread>/state", {"values": MESSAGES}, target="thread"),
    # runs on a thread
    run_row("list runs", "GET", "", shows="<run>"),
    run_row("get a run", "GET", "/<run>", shows="<run>"),
    run_row("join a run", "GET", "/<run>/join", shows=SECRET),
    run_row("join a run's stream", "GET", "/<run>/stream", no=200, hides=NOT_FOUND_EVENT),
    run_row("cancel a run", "POST", "/<run>/cancel", ok=202, target="run"),
    run_row("delete a run", "DELETE", "/<run>", ok=204, target="run"),
    run_row("create a run", "POST", "", LATER, target="thread"),
    run_row("create a run, and the thread if there is none", "POST", "", {**LATER, "if_not_exists": "create"}, target="thread"),
    run_row("create a run and wait", "POST", "/wait", NOW, target="thread"),
    run_row("create a run and stream", "POST", "/stream", NOW, target="thread"),
    # the same runs by way of a thread of one's own, to which they do not belong
    thread_row("get a run by another thread", "GET", "/<mine>/runs/<run>", ok=404),
    thread_row("join a run by another thread", "GET", "/<mine>/runs/<run>/join", no=200, hides=NOT_FOUND),
    thread_row("cancel a run by another thread", "POST", "/<mine>/runs/<run>/cancel", ok=404, target="run"),
    thread_row("delete a run by another thread", "DELETE", "/<mine>/runs/<run>", ok=404, target="run"),
    # runs by other protocols
    thread_row("start a run by an event-stream command", "POST", "/<thread>/commands",
            {"id": 1, "method": "run.start", "params": NOW}, no=200, hides=NOT_FOUND_REPLY, target="thread"),
    Row("get a task over A2A", "POST", f"/a2a/{AGENT}",
        {"jsonrpc": "2.0", "id": "1", "method": "tasks/get", "params": {"id": "<run>", "contextId": "<thread>"}}, *OPEN),
    Row("send a message over A2A", "POST", f"/a2a/{AGENT}",
        {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": {
            "role": "user", "kind": "message", "messageId": "1", "parts": [{"kind": "text", "text": "hi"}],
            "contextId": "<thread>"}}}, *OPEN, target="thread"),
    Row("call an agent over MCP", "POST", "/mcp",
        {"jsonrpc": "2.0", "id": "1", "method": "tools/call", "params": {"name": "agent", "arguments": NOW["input"]}}, *OPEN),
    # runs without a thread
    Row("cancel runs by id", "POST", "/runs/cancel", {"thread_id": "<thread>", "run_ids": ["<run>"]},
        404, 404, 204, 204, target="run"),
    Row("run and wait", "POST", "/runs/wait", NOW, *OPEN),
    Row("run and stream", "POST", "/runs/stream", NOW, *OPEN),
    Row("run a batch", "POST", "/runs/batch", [LATER, LATER], *OPEN),
    # the store
    *store_rows("memory", (False, False, True), SECRET),
    *store_rows("policies", (True, False, True), "policy of acme"),
    *store_rows("policies-elsewhere", (False, True, False), "policy of globex"),
    *store_rows("skills", (False, False, False), "a skill"),
    Row("search all memories", "POST", "/store/items/search", {"namespace_prefix": ["memories"]}, *CLOSED),
    Row("search the whole store", "POST", "/store/items/search", {"namespace_prefix": []}, *CLOSED),
    Row("search below one's memory", "POST", "/store/items/search", {"namespace_prefix": ["memories", "<own>", "x"]}, *CLOSED),
    Row("list all namespaces", "POST", "/store/namespaces", {}, *CLOSED),
    Row("list namespaces by suffix", "POST", "/store/namespaces", {"suffix": "<memory>"}, *CLOSED),
    Row("list namespaces by wildcard", "POST", "/store/namespaces", {"prefix": ["memories", "*"]}, *CLOSED),
    # assistants
    Row("get an assistant", "GET", f"/assistants/{AGENT}", None, *OPEN),
    Row("get an assistant's schemas", "GET", f"/assistants/{AGENT}/schemas", None, *OPEN),
    Row("search assistants", "POST", "/assistants/search", {}, *OPEN),
    Row("create an assistant", "POST", "/assistants", {"graph_id": "agent", "name": "new"}, *CLOSED),
    Row("update an assistant", "PATCH", "/assistants/<assistant>", {"context": {"user_id": "x"}}, *CLOSED, target="assistant"),
    Row("choose an assistant's version", "POST", "/assistants/<assistant>/latest", {"version": 1}, *CLOSED, target="assistant"),
    Row("delete an assistant", "DELETE", "/assistants/<assistant>", None, 403, 403, 403, 204, target="assistant"),
    # crons
    Row("create a cron", "POST", "/runs/crons", YEARLY, *CLOSED),
    Row("create a cron on a thread", "POST", "/threads/<thread>/runs/crons", YEARLY, *CLOSED, target="thread"),
    Row("search crons", "POST", "/runs/crons/search", {}, *CLOSED),
    Row("count crons", "POST", "/runs/crons/count", {}, *CLOSED),
    Row("change a cron", "PATCH", "/runs/crons/<cron>", {"schedule": "0 0 2 1 *"}, *CLOSED, target="cron"),
    Row("delete a cron", "DELETE", "/runs/crons/<cron>", None, 403, 403, 403, 204, target="cron"),
]
# fmt: on


@dataclass
class World:
    """An owner with a conversation and memory, and everyone else who calls."""

    http: httpx.Client
    owner: str
    conversation: dict[str, str] = field(default_factory=dict)

    def headers(self, caller: str) -> dict[str, str]:
        tokens = {
            "junk": "junk",
            "stranger": dev_token(ORG, f"mallory-{self.owner}"),
            "elsewhere": dev_token(OTHER_ORG, self.owner),
            "owner": dev_token(ORG, self.owner),
            "root": dev_token(ORG, "root"),
        }
        if caller == "studio":
            return {"x-auth-scheme": "langsmith"}
        return {"Authorization": f"Bearer {tokens[caller]}"} if caller != "nobody" else {}

    def send(self, caller: str, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.http.request(method, path, json=body, headers={**JSON, **self.headers(caller)})

    def made(self, caller: str, path: str, body: Any, name: str) -> str:
        response = self.send(caller, "POST", path, body)
        assert response.status_code == 200, response.text
        return str(response.json()[name])

    def target(self, kind: str) -> dict[str, str]:
        """Something of the owner's (or, of what owners cannot have, an operator's) to act on."""
        if kind == "conversation":
            return self.conversation
        if kind == "assistant":
            body = {"graph_id": "agent", "name": SECRET}
            return {"assistant": self.made("studio", "/assistants", body, "assistant_id")}
        if kind == "cron":
            return {"cron": self.made("studio", "/runs/crons", YEARLY, "cron_id")}
        thread = self.made("owner", "/threads", {"metadata": {"graph_id": "agent"}}, "thread_id")
        run = self.made("owner", f"/threads/{thread}/runs", LATER, "run_id") if kind == "run" else ""
        return {"thread": thread, "run": run}

    def owned(self, target: dict[str, str]) -> list[Any]:
        """What the owner has: a change of any of it is seen here."""
        paths = [f"/threads/{target['thread']}{part}" for part in ("", "/state", "/runs")] if "thread" in target else []
        memory = "/store/items?" + urlencode({"namespace": ".".join(memories(self.owner)), "key": "/preferences.md"})
        others = [f"/{kind}/{target[name]}" for kind, name in _MADE if name in target]
        return [self.send("studio", "GET", path).json() for path in (*paths, memory, *others)]


_MADE = (("assistants", "assistant"), ("runs/crons", "cron"))


@pytest.fixture(scope="module")
def world(shared_server: DevServer) -> Iterator[World]:
    with httpx.Client(base_url=shared_server.url, timeout=30, trust_env=False) as http:
        world = World(http, owner=f"alice-{uuid.uuid4().hex[:8]}@example.com")
        run = world.made("owner", "/threads", {"metadata": {"note": SECRET}}, "thread_id")
        body = {**NOW, "input": {"messages": [{"role": "user", "content": SECRET}]}}
        assert world.send("owner", "POST", f"/threads/{run}/runs/wait", body).status_code == 200
        state = world.send("owner", "GET", f"/threads/{run}/state").json()
        world.conversation = {
            "thread": run,
            "run": world.send("owner", "GET", f"/threads/{run}/runs").json()[0]["run_id"],
            "checkpoint": state["checkpoint"]["checkpoint_id"],
        }
        for namespace, text in (
            (memories(world.owner), SECRET),
            (list(scopes.policies(ORG)), "policy of acme"),
            (list(scopes.policies(OTHER_ORG)), "policy of globex"),
            (list(scopes.skills(AGENT)), "a skill"),
        ):
            put = {"namespace": namespace, "key": "/preferences.md", "value": file(text)}
            assert world.send("studio", "PUT", "/store/items", put).status_code == 204
        yield world
        for cron in world.send("studio", "POST", "/runs/crons/search", {"limit": 1000}).json():
            world.send("studio", "DELETE", f"/runs/crons/{cron['cron_id']}")
        for shared in (scopes.policies(ORG), scopes.policies(OTHER_ORG), scopes.skills(AGENT)):
            world.send("studio", "DELETE", "/store/items", {"namespace": list(shared), "key": "/preferences.md"})


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


def attempt(world: World, caller: str, row: Row, target: dict[str, str]) -> httpx.Response:
    mine = world.made(caller, "/threads", {}, "thread_id") if "<mine>" in f"{row.path}{row.body}" else ""
    org = OTHER_ORG if caller == "elsewhere" else ORG
    namespaces = {
        "memory": memories(world.owner),
        "policies": list(scopes.policies(ORG)),
        "policies-elsewhere": list(scopes.policies(OTHER_ORG)),
        "skills": list(scopes.skills(AGENT)),
    }
    dotted = {f"{name}.": ".".join(namespace) for name, namespace in namespaces.items()}
    own = {"own": memories(world.owner, org)[1], "owner": world.owner, "mine": mine}
    names = {**namespaces, **dotted, **own, **target}
    return world.send(caller, row.method, filled(row.path, names), filled(row.body, names))


@pytest.mark.parametrize("row", MATRIX, ids=lambda row: row.name)
def test_the_matrix_holds_and_strangers_see_and_change_nothing(world: World, row: Row) -> None:
    target = world.target(row.target)
    before = world.owned(target)
    for caller in ("nobody", "junk"):
        assert attempt(world, caller, _without_mine(row), target).status_code == 401

    strangers, insiders = ("stranger", "elsewhere"), ("owner", "studio", "root")
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda caller: attempt(world, caller, row, target), strangers))
    for caller, status, response in zip(strangers, (row.stranger, row.elsewhere), answers, strict=True):
        assert response.status_code == status, (caller, response.text)
        assert SECRET not in response.text, caller
        if row.shows and status >= 400:
            assert filled(row.shows, target) not in response.text, caller
        if row.hides is not None:
            assert response.text == row.hides, caller
    assert world.owned(target) == before, "a stranger changed something of the owner's"

    targets = [world.target(row.target) for _ in insiders]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda caller, target: attempt(world, caller, row, target), insiders, targets))
    expected = (row.owner, row.operator, row.operator)
    for caller, status, target, response in zip(insiders, expected, targets, answers, strict=True):
        assert response.status_code == status, (caller, response.text)
        assert response.text != row.hides or "<mine>" in row.path, caller
        if row.shows and status < 400 and row.method != "PUT":
            assert filled(row.shows, target) in response.text, caller
        if "thread" in target and "metadata" in (thread := world.owned(target)[0]):
            stamps = {key: thread["metadata"].get(key) for key in ("user_id", "org_id")}
            assert stamps == {"user_id": world.owner, "org_id": ORG}, caller


def _without_mine(row: Row) -> Row:
    """Those who cannot sign in have no thread of their own to go by."""
    swapped = json.loads(json.dumps([row.path, row.body]).replace("<mine>", "<thread>"))
    return Row(row.name, row.method, swapped[0], swapped[1], *CLOSED, target=row.target)


def test_no_route_answers_without_a_token_but_those_that_say_nothing_of_anybody(world: World) -> None:
    paths = world.http.get("/openapi.json").json()["paths"]
    routes = [(method, path) for path, methods in paths.items() for method in methods]
    answering = set()
    for method, path in routes:
        if world.http.request(method, re.sub(r"{\w+}", AGENT, path), json={}).status_code not in {401, 405}:
            answering.add(path)
    assert len(routes) > 40
    assert answering <= {"/ok", "/info", "/docs", "/openapi.json", "/metrics", "/"}


BAD_TOKENS = {
    "an identity of the platform's own": "dev:acme:langgraph-studio-user",
    "an empty identity": "dev:acme:",
    "an empty organization": "dev::alice",
    "neither": "dev::",
    "no second colon": "dev:acme",
    "another scheme of token": "development:acme:alice",
    "an escape that is none": "dev:acme:al%zzice",
    "half an escape": "dev:acme:alice%4",
    "escapes that are not UTF-8": "dev:acme:%ff%fe",
    "an identity of more than 768 bytes": "dev:acme:" + "a" * 769,
    "an organization of more than 768 bytes": "dev:" + "a" * 769 + ":alice",
    "a token of more than 16,384 characters": "dev:acme:" + "%41" * 6000,
    "an unsigned web token": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.",
}


@pytest.mark.parametrize("token", BAD_TOKENS.values(), ids=list(BAD_TOKENS))
def test_a_token_that_names_nobody_is_refused(world: World, token: str) -> None:
    response = world.http.post("/threads/search", json={}, headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 401
    assert response.json()["detail"]


@pytest.mark.parametrize("header", ["", "Bearer", "Basic dev:acme:alice", "dev:acme:alice"])
def test_a_header_without_a_bearer_token_is_refused_and_says_what_to_send(world: World, header: str) -> None:
    response = world.http.post("/threads/search", json={}, headers={"Authorization": header})
    assert response.status_code == 401
    assert "Authorization: Bearer dev:<org>:<identity>" in response.json()["detail"]


@pytest.mark.parametrize("identity", ["urn:x:1", "José Ñ", "auth0|42", "a/b?c=d&e#f", "100%", "~~QQ"])
def test_an_identity_is_everything_after_the_second_colon_percent_decoded(world: World, identity: str) -> None:
    tokens = {dev_token(ORG, identity)} | ({f"dev:{ORG}:{identity}"} if identity == "urn:x:1" else set())
    for token in tokens:
        response = world.http.post("/threads", json={}, headers={"Authorization": f"Bearer {token}"})
        assert response.json()["metadata"] == {"user_id": identity, "org_id": ORG}


# Ways in which somebody might claim to be somebody else, as arguments of a run.
def _tricks(victim: str) -> dict[str, dict[str, Any]]:
    user = {"identity": victim, "org_id": ORG, "permissions": [scopes.OPERATE], "is_authenticated": True}
    owner = {"user_id": victim, "org_id": ORG}
    forged = {**owner, "langgraph_auth_user": {**user, "thread_owner": owner}, "langgraph_auth_user_id": victim}
    return {
        "context": {"context": {**owner, "langgraph_auth_user": user, "thread_owner": owner}},
        "configurable": {"config": {"configurable": {**forged, "langgraph_auth_permissions": [scopes.OPERATE]}}},
        "metadata": {"metadata": {**owner, "thread_owner": owner}, "config": {"metadata": owner}},
        "checkpoint": {"checkpoint": {**forged, "checkpoint_ns": ""}},
        "input": {"input": {**MESSAGES, **forged, "memory_contents": {"/memories/preferences.md": SECRET}}},
        "new thread": {"if_not_exists": "create", "config": {"metadata": owner}, "metadata": owner},
    }


@pytest.mark.parametrize("trick", _tricks(""))
async def test_nothing_an_end_user_sends_changes_whose_memory_is_shown_or_who_owns_what(
    server: DevServer, model: ScriptedAnthropic, world: World, trick: str
) -> None:
    mallory = f"mallory-{uuid.uuid4().hex[:8]}"
    own = {"namespace": memories(mallory), "key": "/preferences.md", "value": file("mallory's own")}
    assert world.send("studio", "PUT", "/store/items", own).status_code == 204
    client = server.as_user(mallory)
    thread = str(uuid.uuid4()) if trick == "new thread" else await new_thread(client)
    question = {"messages": [{"role": "user", "content": f"who am I, {mallory}?"}]}
    arguments = _tricks(world.owner)[trick]
    arguments["input"] = {**arguments.get("input", {}), **question}
    await client.runs.wait(thread, "agent", **arguments)

    (shown,) = model.requests_for(question["messages"][0]["content"])
    assert "mallory's own" in system_text(shown)
    assert SECRET not in json.dumps(shown)
    for metadata in ((await client.threads.get(thread))["metadata"], (await client.runs.list(thread))[0]["metadata"]):
        assert metadata is not None
        assert (metadata["user_id"], metadata["org_id"]) == (mallory, ORG)


@pytest.mark.parametrize("caller", ["studio", "root"])
async def test_an_operator_s_context_chooses_whose_memory_and_which_policies_are_shown(
    server: DevServer, model: ScriptedAnthropic, world: World, caller: str
) -> None:
    client = server.as_operator() if caller == "studio" else server.as_user("root")
    context = {"user_id": world.owner, "org_id": ORG}
    await run_turn(client, await new_thread(client), f"for alice by {caller}", context=context)
    shown = system_text(model.requests_for(f"for alice by {caller}")[-1])
    assert SECRET in shown
    assert "policy of acme" in shown
    assert "policy of globex" not in shown


async def test_an_operator_without_context_acts_as_itself_in_the_default_organization(
    server: DevServer, model: ScriptedAnthropic, world: World
) -> None:
    call = ToolCall("append_memory", {"path": "/memories/note.md", "text": "root was here"})
    model.script("note it", [call], [Text("done")])
    client = server.as_user("root", org=ORG)
    thread = await new_thread(client)
    await run_turn(client, thread, "note it")
    found = await server.as_operator().store.get_item(memories("root", "default"), key="/note.md")
    assert found["value"]["content"] == "root was here\n"
    assert await server.as_operator().store.get_item(memories("root", ORG), key="/note.md") is None
    metadata = (await client.threads.get(thread))["metadata"]
    assert metadata == {**(metadata or {}), "user_id": "root", "org_id": "default"}


async def test_a_thread_that_an_operator_s_run_creates_is_the_user_s_it_acts_for(
    server: DevServer, world: World
) -> None:
    thread = str(uuid.uuid4())
    context = {"user_id": world.owner, "org_id": ORG}
    run = await server.as_operator().runs.create(
        thread, "agent", input=NOW["input"], context=context, if_not_exists="create", after_seconds=3600
    )
    assert world.send("owner", "GET", f"/threads/{thread}/runs/{run['run_id']}").status_code == 200
    assert world.send("elsewhere", "GET", f"/threads/{thread}").status_code == 404


def test_a_copy_made_by_an_operator_is_still_the_owner_s(world: World) -> None:
    copy = world.made("studio", f"/threads/{world.conversation['thread']}/copy", None, "thread_id")
    assert SECRET in world.send("owner", "GET", f"/threads/{copy}/state").text
    assert world.send("elsewhere", "GET", f"/threads/{copy}/state").status_code == 404


async def test_a_websocket_takes_the_token_runs_for_the_owner_and_shows_strangers_nothing(
    server: DevServer, world: World
) -> None:
    url = f"{server.url.replace('http', 'ws')}/threads/{world.conversation['thread']}/stream/events"
    subscribe = {
        "id": 1,
        "method": "subscription.subscribe",
        "params": {"channels": ["values", "messages", "lifecycle"]},
    }
    start = {"id": 2, "method": "run.start", "params": NOW}

    async def hear(caller: str) -> str:
        heard = ""
        async with websockets.connect(url, additional_headers=world.headers(caller), proxy=None) as socket:
            for command in (subscribe, start):
                await socket.send(json.dumps(command))
            try:
                async with asyncio.timeout(4):
                    while SECRET not in heard:
                        heard += str(await socket.recv())
            except (TimeoutError, websockets.ConnectionClosed):
                pass
        return heard

    owner, stranger, elsewhere = await asyncio.gather(*map(hear, ("owner", "stranger", "elsewhere")))
    assert SECRET in owner
    assert '"run_id"' in owner
    for heard in (stranger, elsewhere):
        assert SECRET not in heard
        assert '"run_id"' not in heard
    for caller in ("nobody", "junk"):
        with pytest.raises(websockets.InvalidStatus):
            await hear(caller)


def test_an_event_stream_shows_the_owner_what_was_said_and_strangers_nothing(world: World) -> None:
    def hear(caller: str) -> str:
        heard, path = "", f"/threads/{world.conversation['thread']}/stream/events"
        body = {"channels": ["values", "messages", "updates", "lifecycle"]}
        try:
            with world.http.stream("POST", path, json=body, headers=world.headers(caller), timeout=2) as response:
                for text in response.iter_text():
                    heard += text
                    if SECRET in heard:
                        break
        except httpx.ReadTimeout:
            pass
        return heard

    with ThreadPoolExecutor(3) as pool:
        owner, stranger, elsewhere = pool.map(hear, ("owner", "stranger", "elsewhere"))
    assert SECRET in owner
    assert SECRET not in stranger + elsewhere
    assert "run_id" not in stranger + elsewhere


async def new_thread(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])
