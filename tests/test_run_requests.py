"""What of a request reaches a run: rebuilt by `run_requests.py`, and so on the real server, whatever the route."""

from __future__ import annotations

import ast
import asyncio
import copy
import importlib.util
import json
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph_api import validation  # type: ignore[import-untyped]
from langgraph_sdk import Auth

import run_fields
import run_requests
import settings
from memory import scopes, triggers
from settings import MAX_BUSY_THREADS, MAX_METADATA_CHARS, MAX_METADATA_KEYS, MAX_NESTING, MAX_RECURSION_LIMIT
from tests.dev_server import DevServer, dev_token
from tests.scripted_anthropic import ScriptedAnthropic

HTTPException = Auth.exceptions.HTTPException

# --- The rebuild itself ----------------------------------------------------------------------------------------------

KWARGS: dict[str, Any] = {
    "input": {"messages": []},
    "command": None,
    "config": {"configurable": {}},
    "context": {},
    "stream_mode": ["values"],
    "interrupt_before": None,
    "interrupt_after": None,
    "webhook": None,
    "feedback_keys": None,
    "temporary": False,
    "subgraphs": False,
    "resumable": False,
    "checkpoint_during": True,
    "durability": "async",
}
# Whoever adds to these decided it: docs/security.md says why.
CONFIG = {"tags", "metadata", "recursion_limit", "configurable"}
CONFIGURABLE = {
    *("checkpoint_id", "checkpoint_ns", "checkpoint_map"),
    *("langgraph_auth_user", "langgraph_auth_user_id", "langgraph_auth_permissions", "langgraph_request_id"),
    *("__event_streaming_v2", "__request_start_time_ms__", "__after_seconds__"),
    *("__otel_traceparent__", "__otel_tracestate__", "__dd_trace_headers__"),
}
OPERATORS_CONFIGURABLE = CONFIGURABLE | {
    *("cron_id", "__langsmith_project__", "__langsmith_example_id__"),
    *("langsmith-trace", "langsmith-metadata", "langsmith-tags", "langsmith-project"),
}


def request(**given: Any) -> dict[str, Any]:
    """What `threads.create_run` is given for a run's fields."""
    metadata, after_seconds = given.pop("metadata", {}), given.pop("after_seconds", 0)
    kwargs = {**copy.deepcopy(KWARGS), **copy.deepcopy(given)}
    kwargs["config"].setdefault("configurable", {})
    return {"kwargs": kwargs, "metadata": copy.deepcopy(metadata), "after_seconds": after_seconds}


def with_context(context: dict[str, Any]) -> dict[str, Any]:
    """The same for a run with a context: the platform copies it into `configurable`."""
    return request(context=context, config={"configurable": {**context, "__context_provided__": True}})


NAMES = st.sampled_from(
    sorted(
        {*CONFIG, *OPERATORS_CONFIGURABLE, *run_fields.RESERVED_METADATA, *KWARGS, "__pregel_read", "callbacks", "run_name"}
        | {"__context_provided__", "max_concurrency", "a2a", "note", "dry_run", "ls_agent_type"}
    )
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.uuids().map(str)
BODIES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)
OBJECTS = st.dictionaries(NAMES | st.text(max_size=5), BODIES, max_size=6)
# Often of the type that fits, so that much is accepted.
CONFIGS = st.fixed_dictionaries(
    {"configurable": OBJECTS},
    optional={
        "tags": st.lists(st.text(max_size=3), max_size=3),
        "metadata": st.dictionaries(NAMES | st.text(max_size=5), LEAVES, max_size=4) | BODIES,
        "recursion_limit": st.integers(1, 100) | BODIES,
        "thread_id": BODIES,
        "assistant_id": BODIES,
    },
)
METADATA = st.dictionaries(NAMES | st.text(max_size=5), LEAVES, max_size=4) | OBJECTS


@given(
    config=CONFIGS | OBJECTS.map(lambda config: {**config, "configurable": {}}),
    metadata=METADATA,
    context=OBJECTS,
    extra=OBJECTS,
    operator=st.booleans(),
)
def test_whatever_is_sent_only_what_is_listed_comes_out_and_it_comes_out_the_same_again(
    config: dict[str, Any], metadata: dict[str, Any], context: dict[str, Any], extra: dict[str, Any], operator: bool
) -> None:
    value = request(config=config, metadata=metadata, context=context)
    value["kwargs"] = {**extra, **value["kwargs"]}
    kwargs, kept_config = value["kwargs"], value["kwargs"]["config"]
    if not accepted(lambda: run_requests.rebuild_run(value, operator=operator)):
        return
    assert value["kwargs"] is kwargs
    assert kwargs["config"] is kept_config, "the platform goes on with the object it had before"
    assert set(kwargs) == set(KWARGS)
    assert set(kept_config) <= CONFIG
    assert set(kept_config["configurable"]) <= (OPERATORS_CONFIGURABLE if operator else CONFIGURABLE)
    assert set(kwargs["context"]) <= set(scopes.Context.__dataclass_fields__)
    for stamped in (value["metadata"], kept_config.get("metadata", {})):
        assert not set(stamped) & run_fields.RESERVED_METADATA
        assert all(of is None or isinstance(of, (str, int, float, bool)) for key, of in stamped.items() if key != "a2a")
    before = repr(value)
    run_requests.rebuild_run(value, operator=operator)
    assert repr(value) == before


@given(config=CONFIGS, context=OBJECTS | st.just({"dry_run": True}), metadata=METADATA)
def test_an_assistant_and_a_cron_hold_no_more_than_a_run(
    config: dict[str, Any], context: dict[str, Any], metadata: dict[str, Any]
) -> None:
    given = {"config": config, "context": context, "metadata": metadata}
    assistant, cron = copy.deepcopy(given), {"payload": copy.deepcopy(given), "metadata": copy.deepcopy(metadata)}
    held = [assistant] if accepted(lambda: run_requests.rebuild_assistant(assistant)) else []
    if accepted(lambda: run_requests.rebuild_cron(cron)):
        held.append({"config": {}, "context": {}, **cron["payload"], "metadata": cron["metadata"]})
    for kept in held:
        assert set(kept["config"]) <= CONFIG
        fields = set(scopes.Context.__dataclass_fields__)
        assert set(kept["config"].get("configurable", {})) <= OPERATORS_CONFIGURABLE | fields
        assert set(kept["context"]) <= fields
        assert set(kept["metadata"]) & run_fields.RESERVED_METADATA <= {"created_by"}


def accepted(rebuild: Callable[[], None]) -> bool:
    """Whether it was rebuilt. A refusal says that the request is at fault."""
    try:
        rebuild()
    except HTTPException as refusal:
        status = refusal.status_code
    else:
        return True
    assert status in (400, 422)
    return False


def test_what_a_client_may_say_comes_through() -> None:
    checkpoint = {"checkpoint_id": str(uuid.uuid4()), "checkpoint_ns": "", "checkpoint_map": {"": str(uuid.uuid4())}}
    config = {"tags": ["a"], "metadata": {"note": "b"}, "recursion_limit": 7, "configurable": checkpoint}
    metadata = {"title": "c", "stars": 4, "share": 0.5, "open": True, "none": None}
    command = {"resume": {"id": 1}, "update": {"x": 1}, "goto": ["model"]}
    value = request(config=config, metadata=metadata, command=command, feedback_keys=["good"])
    expected = copy.deepcopy(value)
    expected["kwargs"]["context"] = {"user_id": None, "org_id": None}
    run_requests.rebuild_run(value, operator=False)
    assert value == expected


def test_a_context_comes_through_without_its_copy_in_configurable() -> None:
    context = {"user_id": "alice", "org_id": "acme", "assistant_id": "tutor", "dry_run": True}
    value = with_context(context)
    run_requests.rebuild_run(value, operator=False)
    assert value["kwargs"]["context"] == context
    assert value["kwargs"]["config"] == {"configurable": {}}


def test_configurable_in_a_context_s_place_is_taken_as_one() -> None:
    old_style = {"user_id": "alice", "thread_id": "x", "unknown": 1}
    value = request(config={"configurable": old_style}, context=old_style)
    run_requests.rebuild_run(value, operator=True)
    assert value["kwargs"]["context"] == {"user_id": "alice", "org_id": None}
    assert value["kwargs"]["config"] == {"configurable": {}}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "metadata that is a list": ({"config": {"metadata": [1]}}, "config.metadata is [1]; input should be a valid dictionary."),
    "an object in metadata": ({"metadata": {"x": {"y": 1}}}, "metadata is"),
    "a list in metadata": ({"metadata": {"x": ["y"]}}, "metadata.x is ['y']; input should be a valid string."),
    "too much metadata": ({"metadata": {str(i): i for i in range(MAX_METADATA_KEYS + 1)}}, f"at most {MAX_METADATA_KEYS}"),
    "a long text in metadata": ({"metadata": {"x": "y" * (MAX_METADATA_CHARS + 1)}}, f"at most {MAX_METADATA_CHARS}"),
    "a long key in metadata": ({"metadata": {"x" * (MAX_METADATA_CHARS + 1): 1}}, f"at most {MAX_METADATA_CHARS}"),
    "NUL in metadata": ({"metadata": {"x": "\0"}}, "metadata.x"),
    "no steps": ({"config": {"recursion_limit": 0}}, "config.recursion_limit is 0;"),
    "too many steps": ({"config": {"recursion_limit": MAX_RECURSION_LIMIT + 1}}, "config.recursion_limit"),
    "steps that are a flag": ({"config": {"recursion_limit": True}}, "config.recursion_limit"),
    "tags that are none": ({"config": {"tags": [1]}}, "config.tags.0"),
    "a checkpoint that is none": ({"config": {"configurable": {"checkpoint_id": "x"}}}, "checkpoint_id"),
    "a map of none": ({"config": {"configurable": {"checkpoint_map": {"": "x"}}}}, "checkpoint_map"),
    "a time that is none": ({"config": {"configurable": {"__request_start_time_ms__": "x"}}}, "__request_start_time_ms__"),
    "a time before others": ({"after_seconds": -1}, "after_seconds is -1;"),
    "a time beyond time": ({"after_seconds": 1e300}, "after_seconds"),
    "too many links for feedback": ({"feedback_keys": ["x"] * 11}, "feedback_keys"),
    "an input too deep": ({"input": json.loads("[" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1))}, "input nests deeper"),
}


@pytest.mark.parametrize("operator", [False, True])
@pytest.mark.parametrize(("body", "reason"), BAD.values(), ids=list(BAD))
def test_what_does_not_fit_is_refused_by_name_for_everybody(body: dict[str, Any], reason: str, operator: bool) -> None:
    with pytest.raises(HTTPException) as refusal:
        run_requests.rebuild_run(request(**body), operator=operator)
    assert refusal.value.status_code == 422
    assert reason in refusal.value.detail
    assert "\n" not in refusal.value.detail


def test_what_nests_too_deep_for_python_to_print_is_refused_too() -> None:
    value = request()
    value["metadata"]["x"] = json.loads("[" * 900 + "]" * 900)
    with pytest.raises(HTTPException, match="422"):
        run_requests.rebuild_run(value, operator=False)


def test_an_unknown_field_of_a_context_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(HTTPException) as refusal:
        run_requests.rebuild_run(with_context({"user_id": "x", "graph_id": "agent"}), operator=True)
    assert refusal.value.status_code == 422
    assert refusal.value.detail == "context has no field 'graph_id'; it takes user_id, org_id, assistant_id, dry_run."


@pytest.mark.parametrize("field", ["webhook", "interrupt_before", "interrupt_after"])
def test_what_is_an_operator_s_is_refused_to_others_and_not_to_operators(field: str) -> None:
    given: dict[str, Any] = {field: "https://example.com/x" if field == "webhook" else ["model"]}
    with pytest.raises(HTTPException) as refusal:
        run_requests.rebuild_run(request(**given), operator=False)
    assert (refusal.value.status_code, refusal.value.detail) == (403, f"{field} is for operators; leave it out.")
    value = request(**given)
    run_requests.rebuild_run(value, operator=True)
    assert value["kwargs"][field] == given[field]


def test_a_fork_may_open_webhooks_to_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "WEBHOOKS_FOR_EVERYBODY", True)
    value = request(webhook="https://example.com/x")
    run_requests.rebuild_run(value, operator=False)
    assert value["kwargs"]["webhook"] == "https://example.com/x"


def test_a_new_thread_may_say_that_it_is_a_conversation_and_nothing_else_of_the_platform_s() -> None:
    for new, graph, kept in ((True, "agent", True), (True, "consolidation_agent", False), (False, "agent", False)):
        metadata = {"graph_id": graph, "user_id": "x", "assistant_id": "x", "langgraph_host": "x", "title": "mine"}
        run_requests.rebuild_thread_metadata(metadata, new=new)
        assert metadata == {"title": "mine", **({"graph_id": "agent"} if kept else {})}


def test_only_this_process_says_what_triggered_a_run() -> None:
    metadata = {"trigger": "idle", "since": "2026-01-01"}
    forged = request(metadata=metadata)
    run_requests.rebuild_run(forged, operator=True)
    assert forged["metadata"] == {}
    token = triggers.creating.set(True)
    try:
        ours = request(metadata=metadata)
        run_requests.rebuild_run(ours, operator=False)
    finally:
        triggers.creating.reset(token)
    assert ours["metadata"] == metadata


# --- The platform's code: a field or key that a new version adds fails here until somebody decides about it ---------


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec
    assert spec.origin
    return Path(spec.origin).parent


# Read, not imported: it takes a server's environment.
RUN = ast.parse((_folder("langgraph_api") / "models" / "run.py").read_text("utf-8"))
EVENTS = ast.parse((_folder("langgraph_api") / "event_streaming" / "constants.py").read_text("utf-8"))


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _name(node: ast.AST) -> str:
    """The last name of what is read from: `metadata` of `thread["metadata"]`, `run.metadata`, `value.get("metadata") or {}`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=key) | ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[key, *_]):
            return _text(key) or ""
        case ast.BoolOp(values=[first, *_]):
            return _name(first)
    return ""


def _keys_of(tree: ast.AST, of: str) -> set[str]:
    """Keys by which a module reads, writes or spells out mappings of this name."""
    found: set[str | None] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=value, slice=key) if _name(value).endswith(of):
                found.add(_text(key))
            case ast.Call(func=ast.Attribute(value=value, attr="get" | "pop" | "setdefault"), args=[key, *_]) if _name(
                value
            ).endswith(of):
                found.add(_text(key))
            case ast.keyword(arg=name, value=ast.Dict(keys=keys)) if name == of:
                found |= {_text(key) for key in keys}
            case ast.Assign(targets=[target, *_], value=ast.Dict(keys=keys)) if _name(target).endswith(of):
                found |= {_text(key) for key in keys}
            case ast.Dict(keys=keys, values=values):
                inner = [value for key, value in zip(keys, values, strict=True) if _text(key) == of]
                found |= {_text(key) for value in inner if isinstance(value, ast.Dict) for key in value.keys}
    return {key for key in found if key}


def _modules(package: str) -> Iterator[ast.AST]:
    for file in _folder(package).rglob("*.py"):
        yield ast.parse(file.read_text("utf-8"))


# Metadata that is no run's and no thread's: of a message or its parts, an event, a request to cancel, a tool's schema.
NOBODY_S_METADATA = {
    *("a2uiClientCapabilities", "a2uiClientDataModel", "mimeType", "inputSchema", "input_modes", "output_modes"),
    *("run_ids", "status", "metadata"),
}
# Decided: below `a2a` a client may say what it likes about its tasks, on its own threads.
TYPED_METADATA = {"a2a", "a2ui", "a2ui_active", "a2ui_mime_type"}


@pytest.mark.parametrize("package", ["langgraph_api", "langgraph_runtime_inmem"])
def test_every_key_of_metadata_that_the_platform_knows_is_decided(package: str) -> None:
    known = set().union(*(_keys_of(tree, "metadata") for tree in _modules(package)))
    assert {"graph_id", "assistant_id"} <= known
    open_keys = {key for key in known if not run_fields.reserved(key)}
    assert open_keys <= NOBODY_S_METADATA | TYPED_METADATA


def test_what_the_platform_itself_takes_from_metadata_is_taken_here_too() -> None:
    assert set(validation.RESERVED_METADATA_KEYS) <= run_fields.RESERVED_METADATA


def test_every_key_that_the_platform_puts_into_configurable_is_decided() -> None:
    known = _keys_of(RUN, "configurable") | set(validation.RESERVED_CONFIGURABLE_KEYS)
    known |= {text for node in ast.walk(EVENTS) if (text := _text(node)) and text.startswith("__")}
    assert {"langgraph_auth_user", "__after_seconds__", "__event_streaming_v2"} <= known
    # Marks a context while the run is made; put in by the worker.
    assert known - OPERATORS_CONFIGURABLE == {"__context_provided__", "__pregel_node_finished"}


def test_every_field_that_the_platform_hands_to_a_run_is_decided() -> None:
    (kwargs,) = (
        {_text(key) for key in node.args[2].keys}
        for node in ast.walk(RUN)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Runs.put" and isinstance(node.args[2], ast.Dict)
    )
    assert kwargs == set(KWARGS)


def fields_in_the_docs() -> set[str]:
    """The fields of a run that docs/security.md decides about: the first column of its table."""
    text = (settings.PROJECT / "docs" / "security.md").read_text("utf-8")
    section = text.partition("## What of a request reaches a run")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {field for row in rows for field in re.findall(r"`([^`]+)`", row)}


def test_every_field_of_a_run_is_in_the_docs() -> None:
    (declared,) = (node for node in ast.walk(RUN) if isinstance(node, ast.ClassDef) and node.name == "RunCreateDict")
    asked = {ast.unparse(line.target) for line in declared.body if isinstance(line, ast.AnnAssign)} | _keys_of(RUN, "payload")
    for schema in ("RunCreateStateful", "RunCreateStateless"):
        asked |= set(validation.openapi["components"]["schemas"][schema]["properties"])
    decided = fields_in_the_docs()
    assert asked - decided == {"config"}
    assert {f"config.{name}" for name in CONFIG} <= decided


def test_every_field_of_a_cron_is_decided() -> None:
    schemas = validation.openapi["components"]["schemas"]
    asked = {name for schema in ("CronCreate", "CronPatch", "ThreadCronCreate") for name in schemas[schema]["properties"]}
    assert asked - set(run_fields.Cron.model_fields) == set()


# --- On the real server ----------------------------------------------------------------------------------------------

Body = dict[str, Any]
EMPTY: Body = {"messages": [{"type": "remove", "id": "__remove_all__", "content": ""}]}


@dataclass
class Caller:
    """Somebody who calls the server with bare requests."""

    http: httpx.AsyncClient
    headers: dict[str, str]

    async def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self.http.request(method, path, json=body, headers=self.headers)

    async def post(self, path: str, body: Any = None) -> Any:
        """The answer to a request that must succeed."""
        answer = await self.send("POST", path, body)
        assert answer.is_success, (path, answer.text)
        return answer.json()

    async def get(self, path: str) -> Any:
        answer = await self.send("GET", path)
        assert answer.is_success, (path, answer.text)
        return answer.json()

    async def thread(self) -> str:
        return str((await self.post("/threads", {}))["thread_id"])

    async def everything(self, thread: str) -> list[Any]:
        """A thread as it is stored, with its runs and history."""
        path = f"/threads/{thread}"
        history = await self.get(f"{path}/history?limit=100")
        return [await self.get(path), await self.get(f"{path}/runs?limit=100"), history]


Callers = Callable[[str], Caller]


@pytest.fixture
async def callers(server: DevServer) -> AsyncIterator[Callers]:
    """Gives callers by name; `root` and `studio` are operators."""
    # A connection for every request: the server may close one on which it refused a body unread.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=server.url, timeout=30, trust_env=False, limits=limits) as http:

        def caller(name: str) -> Caller:
            token = {"Authorization": f"Bearer {dev_token('acme', name)}"}
            return Caller(http, {"x-auth-scheme": "langsmith"} if name == "studio" else token)

        yield caller


def asked(text: str, **more: Any) -> Body:
    return {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}, **more}


# Every route that takes a run's whole request, with what it takes.
ROUTES: dict[str, Callable[[Body], Any]] = {
    "/threads/<thread>/runs": dict,
    "/threads/<thread>/runs/wait": dict,
    "/threads/<thread>/runs/stream": dict,
    "/runs": dict,
    "/runs/wait": dict,
    "/runs/stream": dict,
    "/runs/batch": lambda body: [body],
    "/threads/<thread>/commands": lambda body: {"id": 1, "method": "run.start", "params": body},
}
on_every_route = pytest.mark.parametrize("route", ROUTES)


async def run_ends(caller: Caller, thread: str) -> None:
    """Wait until nothing runs on the thread."""
    async with asyncio.timeout(20):
        while (await caller.get(f"/threads/{thread}"))["status"] == "busy":  # noqa: ASYNC110  # the server's state
            await asyncio.sleep(0.05)


async def try_run(caller: Caller, route: str, body: Body) -> tuple[httpx.Response, str]:
    """The answer, and the caller's own thread, on which nothing runs any more."""
    thread = await caller.thread()
    answer = await caller.send("POST", route.replace("<thread>", thread), ROUTES[route](body))
    if "<thread>" in route:
        await run_ends(caller, thread)
    return answer, thread


@pytest.mark.server
@on_every_route
async def test_a_thread_hidden_in_a_run_is_neither_shown_nor_changed(
    callers: Callers, model: ScriptedAnthropic, alice: str, route: str
) -> None:
    owner, mallory, secret = callers(alice), callers(f"mallory-{alice}"), f"secret-{uuid.uuid4().hex}"
    hers = await owner.thread()
    await owner.post(f"/threads/{hers}/runs/wait", asked(secret))
    before = await owner.everything(hers)
    checkpoint = before[2][0]["checkpoint"]
    question = f"ask-{uuid.uuid4().hex}"
    places: list[Body] = [
        {"config": {"thread_id": hers, "configurable": {"thread_id": hers, "__pregel_thread_id": hers}}},
        {"config": {"thread_id": hers, "checkpoint_id": checkpoint["checkpoint_id"], "checkpoint_ns": ""}},
        {"checkpoint": checkpoint, "config": {"thread_id": hers, "metadata": {"thread_id": hers, "run_id": hers}}},
        {"config": {"thread_id": hers}, "command": {"update": EMPTY}},
        {"config": {"thread_id": hers}, "command": {"update": {"messages": asked(question)["input"]["messages"]}}},
        {"config": {"thread_id": hers}, "thread_id": hers, "metadata": {"thread_id": hers}},
    ]
    for place in places:
        answer, _ = await try_run(mallory, route, asked(question, **place))
        assert secret not in answer.text, place
    await asyncio.sleep(1 if "<thread>" not in route else 0)  # what runs without a thread may not have begun
    assert secret not in json.dumps(model.requests_for(question))
    assert await owner.everything(hers) == before


@pytest.mark.server
@on_every_route
async def test_an_assistant_hidden_in_a_run_shows_none_of_its_skills(
    callers: Callers, server: DevServer, model: ScriptedAnthropic, alice: str, route: str
) -> None:
    operator, mallory, secret = server.as_operator(), callers(alice), f"skill-{uuid.uuid4().hex[:8]}"
    tutor = (await operator.assistants.create("agent", name="tutor"))["assistant_id"]
    skill = f"---\nname: {secret}\ndescription: nobody else's\n---\n"
    await operator.store.put_item(list(scopes.skills(tutor)), f"/{secret}/SKILL.md", {"content": skill, "encoding": "utf-8"})
    question = f"ask-{uuid.uuid4().hex}"
    config = {"assistant_id": tutor, "configurable": {"assistant_id": tutor}, "metadata": {"assistant_id": tutor}}
    await try_run(mallory, route, asked(question, config=config, metadata={"assistant_id": tutor}))
    async with asyncio.timeout(20):
        while not model.requests_for(question):  # noqa: ASYNC110  # the server's state
            await asyncio.sleep(0.05)
    assert secret not in json.dumps(model.requests_for(question))
    studio = callers("studio")
    await studio.post(f"/threads/{await studio.thread()}/runs/wait", asked(f"{question}2", assistant_id=tutor))
    assert secret in json.dumps(model.requests_for(f"{question}2")), "its own runs show it"


HIDDEN: Body = {
    "config": {
        "tags": ["mine"],
        "metadata": {"note": "kept", "user_id": "x", "run_id": "x", "langgraph_node": "x", "trigger": "idle"},
        "recursion_limit": 99,
        "configurable": {
            "thread_id": "x",
            "graph_id": "x",
            "ls_agent_type": "subagent",
            "cron_id": str(uuid.uuid4()),
            "anything": 1,
            "__pregel_resuming": True,
            "langgraph_auth_user_id": "x",
            "user_id": "x",
        },
        "thread_id": "x",
        "graph_id": "x",
        "user_id": "x",
        "anything": 1,
        "callbacks": [],
        "run_name": "x",
        "run_id": "x",
    },
    "metadata": {"title": "kept too", "graph_id": "x", "org_id": "x", "created_by": "system", "run_attempt": 7, "cron_id": "x"},
    "langsmith_tracer": {"project_name": "elsewhere", "example_id": "x"},
}
# What the platform writes into every run's configuration after the handlers, and its worker.
STAMPED = {"run_id", "thread_id", "graph_id", "assistant_id", "user_id", "__pregel_node_finished"}


@pytest.mark.server
@pytest.mark.parametrize("name", ["alice", "root"])
async def test_the_worker_and_the_graph_get_what_was_rebuilt_and_nothing_else(callers: Callers, name: str, alice: str) -> None:
    caller = callers(alice if name == "alice" else name)
    thread = await caller.thread()
    headers = {
        "x-request-id": "r1",
        "langsmith-trace": "t",
        "baggage": "langsmith-project=p,langsmith-metadata=%7B%22m%22:1%7D",
    }
    stranger = Caller(caller.http, {**caller.headers, **headers})
    run = await stranger.post(f"/threads/{thread}/runs", asked("hello", **HIDDEN))
    await run_ends(caller, thread)
    stored, kept = await caller.get(f"/threads/{thread}/runs/{run['run_id']}"), await caller.get(f"/threads/{thread}")
    config = stored["kwargs"]["config"]
    allowed = OPERATORS_CONFIGURABLE if name == "root" else CONFIGURABLE
    assert set(config) == CONFIG
    assert (config["tags"], config["recursion_limit"]) == (["mine"], 99)
    assert set(config["configurable"]) <= allowed | STAMPED
    assert config["configurable"]["thread_id"] == thread
    assert config["configurable"]["graph_id"] == "agent"
    assert config["configurable"]["langgraph_request_id"] == "r1"
    assert ("langsmith-project" in config["configurable"]) is (name == "root")
    assert ("__langsmith_project__" in config["configurable"]) is (name == "root")
    # Without a context, what an operator's `configurable` names is one.
    owner = {"user_id": alice, "org_id": "acme"} if name == "alice" else {"user_id": "x", "org_id": "default"}
    stamps = {"graph_id": "agent", "assistant_id": scopes.DEFAULT_AGENT_ASSISTANT, **owner}
    assert kept["metadata"] == {**stamps, **({"user_id": "root"} if name == "root" else {})}
    expected = {**stamps, "note": "kept", "title": "kept too", "created_by": "system"}  # of the platform's assistant
    assert stored["metadata"] == expected
    state = await caller.get(f"/threads/{thread}/state")
    seen = state["metadata"]
    assert not seen.keys() & {"anything", "trigger", "ls_agent_type"}
    assert (seen["run_attempt"], seen["run_id"], seen["note"]) == (1, run["run_id"], "kept")


REFUSED: list[tuple[Body, int]] = [
    ({"context": {"graph_id": "agent"}}, 422),
    ({"context": {"user_id": "x", "anything": 1}}, 422),
    ({"config": {"metadata": [1]}}, 422),
    ({"config": {"metadata": "x"}}, 422),
    ({"metadata": {"x": {"y": 1}}}, 422),
    ({"config": {"recursion_limit": 10**9}}, 422),
    ({"input": {"messages": [], "x": json.loads("[" * 150 + "]" * 150)}}, 422),
    ({"webhook": "https://1.1.1.1/x"}, 403),
    ({"interrupt_before": "*"}, 403),
]
# Fields that an event stream does not have.
NOT_IN_EVENTS = {"context", "webhook", "interrupt_before"}


@pytest.mark.server
@pytest.mark.parametrize(
    ("route", "what", "status"),
    [(route, *of) for route in ROUTES for of in REFUSED if "/commands" not in route or not of[0].keys() & NOT_IN_EVENTS],
    ids=lambda of: str(of)[:40],
)
async def test_what_cannot_be_used_is_refused_before_there_is_a_run(
    callers: Callers, alice: str, route: str, what: Body, status: int
) -> None:
    caller = callers(alice)
    answer, thread = await try_run(caller, route, asked("hello", **what))
    if "/commands" in route and answer.status_code == httpx.codes.OK:  # the platform says it in its own protocol
        assert answer.json()["type"] == "error"
        assert str(status) in answer.text
    else:
        assert answer.status_code == status, answer.text
    assert await caller.get(f"/threads/{thread}/runs") == []
    assert (await caller.get(f"/threads/{thread}"))["status"] == "idle"


@pytest.mark.server
@pytest.mark.parametrize(
    "name", ["__request_start_time_ms__", "__after_seconds__", "langgraph_request_id", "__event_streaming_v2"]
)
async def test_nothing_of_the_platform_s_that_an_event_stream_forges_leaves_a_run_running(
    callers: Callers, alice: str, name: str
) -> None:
    caller = callers(alice)
    for forged in ("x", [1], {"x": 1}):
        config = {"configurable": {name: forged}}
        _, thread = await try_run(caller, "/threads/<thread>/commands", asked("hello", config=config))
        for run in await caller.get(f"/threads/{thread}/runs"):
            assert run["status"] == "success"


@pytest.mark.server
async def test_a_graph_named_in_metadata_gets_nobody_past_the_limit_of_busy_conversations(callers: Callers, alice: str) -> None:
    caller = callers(alice)
    later = {"after_seconds": 3600, "metadata": {"graph_id": "consolidation_agent"}}
    named = {**later, "config": {"metadata": later["metadata"]}}
    statuses = []
    for _ in range(MAX_BUSY_THREADS + 3):
        thread = (await caller.post("/threads", {"metadata": later["metadata"]}))["thread_id"]
        await caller.send("PATCH", f"/threads/{thread}", {"metadata": later["metadata"]})
        answers = [await caller.send("POST", path, asked("hello", **named)) for path in ("/runs", f"/threads/{thread}/runs")]
        statuses += [answer.status_code for answer in answers]
    accepted = len([status for status in statuses if status == 200])
    for thread in await caller.post("/threads/search", {"limit": 100}):
        await caller.send("DELETE", f"/threads/{thread['thread_id']}")
    assert (accepted, set(statuses)) == (MAX_BUSY_THREADS, {200, 429})


@pytest.mark.server
async def test_a_cron_holds_what_a_run_may_and_its_claims(callers: Callers, alice: str) -> None:
    owner, studio = callers(alice), callers("studio")
    hers = await owner.thread()
    hidden = {"thread_id": hers, "assistant_id": hers, "configurable": {"thread_id": hers, "__pregel_x": 1}, "tags": ["mine"]}
    body = asked(
        "hello", schedule="0 0 1 1 *", config=hidden, anything=1, checkpoint={"thread_id": hers}, metadata={"title": "x"}
    )
    cron = await studio.post("/runs/crons", body)
    changed = await studio.send("PATCH", f"/runs/crons/{cron['cron_id']}", {"config": hidden, "metadata": {"run_id": "x"}})
    assert changed.is_success, changed.text
    for kept in (cron, changed.json()):
        config = kept["payload"]["config"]
        assert set(config) == {"tags", "configurable"}
        assert set(config["configurable"]) == {"cron_id", "langgraph_auth_user"}
        assert not {"anything", "checkpoint", "thread_id"} & set(kept["payload"])
        assert kept["metadata"] == {"title": "x"}
    bad: Body
    for bad in ({"context": {"graph_id": "agent"}}, {"config": {"metadata": [1]}}, {"metadata": {"x": {}}}):
        assert (await studio.send("POST", "/runs/crons", {**body, **bad})).status_code == 422
        assert (await studio.send("PATCH", f"/runs/crons/{cron['cron_id']}", bad)).status_code == 422
    await studio.send("DELETE", f"/runs/crons/{cron['cron_id']}")


@pytest.mark.server
async def test_an_assistant_holds_what_a_run_may_and_names_nobody_for_its_runs(callers: Callers, alice: str) -> None:
    owner, studio = callers(alice), callers("studio")
    hers = await owner.thread()
    before = await owner.everything(hers)
    config = {"thread_id": hers, "run_name": "x", "recursion_limit": 50}
    body: Body = {"graph_id": "agent", "config": config, "metadata": {"title": "x", "graph_id": "x"}}
    assistant = await studio.post("/assistants", {**body, "context": {"user_id": alice, "org_id": "acme"}})
    path = f"/assistants/{assistant['assistant_id']}"
    patched = await studio.send("PATCH", path, {"config": {**config, "recursion_limit": 60}})
    assert set(assistant["config"]) == {"recursion_limit", "configurable"}
    assert patched.json()["config"] == {"recursion_limit": 60}
    assert patched.json()["metadata"] == {"title": "x"}
    bad: Body
    for bad in ({"context": {"graph_id": "agent"}}, {"config": {"recursion_limit": 0}}):
        assert (await studio.send("POST", "/assistants", {**body, **bad})).status_code == 422
        assert (await studio.send("PATCH", path, bad)).status_code == 422
    thread = await studio.thread()
    run = await studio.post(f"/threads/{thread}/runs", {**asked("hello"), "assistant_id": assistant["assistant_id"]})
    await run_ends(studio, thread)
    stored = await studio.get(f"/threads/{thread}/runs/{run['run_id']}")
    assert stored["status"] == "success"
    assert stored["kwargs"]["context"] == {"user_id": None, "org_id": None}, "it acts as whoever its metadata says"
    assert stored["kwargs"]["config"]["configurable"]["thread_id"] == thread
    assert await owner.everything(hers) == before


@pytest.mark.server
async def test_a_thread_s_metadata_is_bounded_and_its_own(callers: Callers, alice: str) -> None:
    caller = callers(alice)
    thread = await caller.thread()
    for bad in ({"x": {"y": 1}}, {"x": [1]}, {"x": "y" * (MAX_METADATA_CHARS + 1)}):
        assert (await caller.send("POST", "/threads", {"metadata": bad})).status_code == 422
        assert (await caller.send("PATCH", f"/threads/{thread}", {"metadata": bad})).status_code == 422
    forged = dict.fromkeys(run_fields.RESERVED_METADATA, "x") | {"title": "mine"}
    created = await caller.post("/threads", {"metadata": forged})
    assert created["metadata"] == {"title": "mine", "user_id": alice, "org_id": "acme"}
