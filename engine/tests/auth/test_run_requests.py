"""What of a request reaches a run, on the real server: on every route, nothing but what was rebuilt."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from lasting_memory.limits import DEFAULTS
from lasting_memory.people import identity, namespaces
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import AGENT, OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from lasting_memory.validation import MAX_INPUT_BYTES
from tests.auth.test_fields import CONFIG, CONFIGURABLE, OPERATORS_CONFIGURABLE

pytestmark = pytest.mark.server

Body = dict[str, Any]


Callers = Callable[[str], Person]


@pytest.fixture
def callers(server: DevServer) -> Callers:
    """Gives callers by name; `root` and `studio` are operators."""
    # A connection for every request: the server may close one on which it refused a body unread.
    limits = httpx.Limits(max_keepalive_connections=0)
    return lambda name: server.person(name, limits=limits, headers=OPERATOR if name == "studio" else None)


def asked(text: str, **more: Any) -> Body:
    return {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}, **more}


ONE_ROUTE = "/threads/<thread>/runs/wait"
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


async def run_ends(caller: Person, thread: str) -> None:
    """Wait until nothing runs on the thread."""
    async with asyncio.timeout(60):
        while (await caller.made("GET", f"/threads/{thread}"))["status"] == "busy":  # noqa: ASYNC110  # the server's state
            await asyncio.sleep(0.05)


async def try_run(caller: Person, route: str, body: Body) -> tuple[httpx.Response, str]:
    """The answer, and the caller's own thread, on which nothing runs any more."""
    thread = await caller.thread()
    answer = await caller.ask("POST", route.replace("<thread>", thread), ROUTES[route](body))
    if "<thread>" in route:
        await run_ends(caller, thread)
    async with asyncio.timeout(60):
        while await caller.made("POST", "/threads/count", {"status": "busy"}):  # noqa: ASYNC110  # the server's state
            await asyncio.sleep(0.05)
    return answer, thread


async def test_an_assistant_hidden_in_a_run_shows_none_of_its_skills(
    callers: Callers, server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    operator, mallory, secret = server.as_operator(), callers(alice), f"skill-{uuid.uuid4().hex[:8]}"
    tutor = (await operator.assistants.create("agent", name="tutor"))["assistant_id"]
    skill = f"---\nname: {secret}\ndescription: nobody else's\n---\n"
    await operator.store.put_item(
        list(namespaces.skills(tutor)), f"/{secret}/SKILL.md", {"content": skill, "encoding": "utf-8"}
    )
    question = f"ask-{uuid.uuid4().hex}"
    config = {"assistant_id": tutor, "configurable": {"assistant_id": tutor}, "metadata": {"assistant_id": tutor}}
    await try_run(mallory, ONE_ROUTE, asked(question, config=config, metadata={"assistant_id": tutor}))
    async with asyncio.timeout(60):
        while not model.requests_for(question):  # noqa: ASYNC110  # the server's state
            await asyncio.sleep(0.05)
    assert secret not in json.dumps(model.requests_for(question))
    studio = callers("studio")
    await studio.made("POST", f"/threads/{await studio.thread()}/runs/wait", asked(f"{question}2", assistant_id=tutor))
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


@pytest.mark.parametrize("name", ["alice", "root"])
async def test_the_worker_and_the_graph_get_what_was_rebuilt_and_nothing_else(callers: Callers, name: str, alice: str) -> None:
    caller = callers(alice if name == "alice" else name)
    thread = await caller.thread()
    headers = {
        "x-request-id": "r1",
        "langsmith-trace": "t",
        "baggage": "langsmith-project=p,langsmith-metadata=%7B%22m%22:1%7D",
    }
    caller.http.headers.update(headers)
    run = await caller.made("POST", f"/threads/{thread}/runs", asked("hello", **HIDDEN))
    await run_ends(caller, thread)
    stored, kept = (
        await caller.made("GET", f"/threads/{thread}/runs/{run['run_id']}"),
        await caller.made("GET", f"/threads/{thread}"),
    )
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
    stamps = {"graph_id": "agent", "assistant_id": AGENT, **owner}
    assert kept["metadata"] == {**stamps, **({"user_id": "root"} if name == "root" else {})}
    expected = {**stamps, "note": "kept", "title": "kept too", "created_by": "system"}  # of the platform's assistant
    assert stored["metadata"] == expected
    state = await caller.made("GET", f"/threads/{thread}/state")
    seen = state["metadata"]
    assert not seen.keys() & {"anything", "trigger", "ls_agent_type"}
    assert (seen["run_attempt"], seen["run_id"], seen["note"]) == (1, run["run_id"], "kept")


TOO_MANY_STEPS: tuple[Body, int] = ({"config": {"recursion_limit": 10**9}}, 422)
REFUSED: list[tuple[Body, int]] = [
    ({"context": {"graph_id": "agent"}}, 422),
    ({"context": {"user_id": "x", "anything": 1}}, 422),
    ({"metadata": {"x": {"y": 1}}}, 422),
    TOO_MANY_STEPS,
    ({"input": {"messages": [], "x": json.loads("[" * 150 + "]" * 150)}}, 422),
    ({"command": {"goto": ["model", "model"]}}, 403),
    ({"input": {"messages": ["x" * MAX_INPUT_BYTES]}}, 413),
    ({"webhook": "https://1.1.1.1/x"}, 403),
    ({"interrupt_before": "*"}, 403),
]


@pytest.mark.parametrize(
    ("route", "what", "status"),
    [*((ONE_ROUTE, *of) for of in REFUSED), *((route, *TOO_MANY_STEPS) for route in ROUTES if route != ONE_ROUTE)],
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
    assert await caller.made("GET", f"/threads/{thread}/runs") == []
    assert (await caller.made("GET", f"/threads/{thread}"))["status"] == "idle"


async def test_nothing_that_an_event_stream_forges_leaves_a_run_running(callers: Callers, alice: str) -> None:
    caller = callers(alice)
    for name in ("__request_start_time_ms__", "__after_seconds__", "langgraph_request_id", "__event_streaming_v2"):
        for forged in ("x", {"x": 1}):
            config = {"configurable": {name: forged}}
            _, thread = await try_run(caller, "/threads/<thread>/commands", asked("hello", config=config))
            for run in await caller.made("GET", f"/threads/{thread}/runs"):
                assert run["status"] == "success"


async def test_a_graph_named_in_metadata_gets_nobody_past_the_limit(callers: Callers, alice: str) -> None:
    """A graph named in metadata gets nobody past the limit of busy conversations."""
    caller = callers(alice)
    later = {"after_seconds": 3600, "metadata": {"graph_id": "consolidation_agent"}}
    named = {**later, "config": {"metadata": later["metadata"]}}
    statuses = []
    threads = [await caller.made("POST", "/threads", {"metadata": later["metadata"]}) for _ in range(DEFAULTS.busy_threads + 3)]
    for thread in (thread["thread_id"] for thread in threads):
        await caller.ask("PATCH", f"/threads/{thread}", {"metadata": later["metadata"]})
        answers = [await caller.ask("POST", path, asked("hello", **named)) for path in ("/runs", f"/threads/{thread}/runs")]
        statuses += [answer.status_code for answer in answers]
    accepted = len([status for status in statuses if status == 200])
    for thread in await caller.made("POST", "/threads/search", {"limit": 100}):
        await caller.ask("DELETE", f"/threads/{thread['thread_id']}")
    assert (accepted, set(statuses)) == (DEFAULTS.busy_threads, {200, 429})


async def test_a_cron_has_its_creator_s_claims_and_nobody_s_thread(callers: Callers, alice: str) -> None:
    owner, studio = callers(alice), callers("studio")
    hers = await owner.thread()
    hidden = {"thread_id": hers, "assistant_id": hers, "configurable": {"thread_id": hers, "__pregel_x": 1}, "tags": ["mine"]}
    cron = await studio.made("POST", "/runs/crons", asked("hello", schedule="0 0 1 1 *", config=hidden))
    changed = await studio.made("PATCH", f"/runs/crons/{cron['cron_id']}", {"config": hidden})
    for kept in (cron, changed):
        config = kept["payload"]["config"]
        assert set(config) == {"tags", "configurable"}
        assert set(config["configurable"]) == {"cron_id", "langgraph_auth_user"}


async def test_others_are_served_beside_searches_that_fail(callers: Callers, alice: str) -> None:
    """An operator's filter is not rebuilt; Studio may send any."""
    person, studio = callers(alice), callers("studio")
    await person.write("likes fennel", "/memories/a.md")
    poison = {"namespace_prefix": ["memories"], "filter": {"content": {"$gt": 1}}}
    bad = [studio.ask("POST", "/store/items/search", poison) for _ in range(40)]
    good = [person.ask("GET", "/memory/file", path="/memories/a.md") for _ in range(40)]
    answers = await asyncio.gather(*(call for pair in zip(bad, good, strict=True) for call in pair))
    assert {answer.status_code for answer in answers[1::2]} == {200}
    namespace = deployed().memory.namespace(identity.Actor(alice, "acme"), "")
    for odd in ({"$gt": 1}, ["x"]):
        search = {"namespace_prefix": namespace, "filter": {"content": odd}}
        assert (await person.ask("POST", "/store/items/search", search)).status_code == 422
    fits = await person.made("POST", "/store/items/search", {"namespace_prefix": namespace, "filter": {"encoding": "utf-8"}})
    assert [item["key"] for item in fits["items"]] == ["/a.md"]
