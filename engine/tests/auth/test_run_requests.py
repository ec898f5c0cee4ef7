"""What of a request reaches a run, on the real server: on every route, nothing but what was rebuilt."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from lasting_memory.people import namespaces
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import AGENT, OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from lasting_memory.validation import MAX_INPUT_BYTES
from tests.auth.test_fields import CONFIG, CONFIGURABLE, OPERATORS_CONFIGURABLE

pytestmark = pytest.mark.server

Body = dict[str, Any]


ANEW = httpx.Limits(max_keepalive_connections=0)  # the server may close a connection on which it refused a body unread


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


async def try_run(caller: Person, route: str, body: Body) -> tuple[httpx.Response, str]:
    """The answer, and the caller's own thread, on which nothing runs any more."""
    thread = await caller.thread()
    answer = await caller.ask("POST", route.replace("<thread>", thread), ROUTES[route](body))
    await caller.idle()
    return answer, thread


async def test_an_assistant_hidden_in_a_run_shows_none_of_its_skills(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    operator, mallory, secret = server.as_operator(), server.person(alice, limits=ANEW), f"skill-{uuid.uuid4().hex[:8]}"
    tutor = (await operator.assistants.create("agent", name="tutor"))["assistant_id"]
    skill = f"---\nname: {secret}\ndescription: nobody else's\n---\n"
    await operator.store.put_item(
        list(namespaces.skills(tutor)), f"/{secret}/SKILL.md", {"content": skill, "encoding": "utf-8"}
    )
    question = f"ask-{uuid.uuid4().hex}"
    config = {"assistant_id": tutor, "configurable": {"assistant_id": tutor}, "metadata": {"assistant_id": tutor}}
    await try_run(mallory, ONE_ROUTE, asked(question, config=config, metadata={"assistant_id": tutor}))
    await model.asked(question)
    assert secret not in json.dumps(model.requests_for(question))
    await mallory.turn(await mallory.thread(), f"{question}2", assistant=tutor)
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
async def test_the_worker_and_the_graph_get_what_was_rebuilt_and_nothing_else(server: DevServer, name: str, alice: str) -> None:
    caller = server.person(alice if name == "alice" else name, limits=ANEW)
    thread = await caller.thread()
    headers = {
        "x-request-id": "r1",
        "langsmith-trace": "t",
        "baggage": "langsmith-project=p,langsmith-metadata=%7B%22m%22:1%7D",
    }
    caller.http.headers.update(headers)
    run = await caller.made("POST", f"/threads/{thread}/runs", asked("hello", **HIDDEN))
    await caller.idle()
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
    TOO_MANY_STEPS,
    ({"input": {"messages": [], "x": json.loads("[" * 150 + "]" * 150)}}, 422),
    ({"command": {"goto": ["model", "model"]}}, 403),
    ({"input": {"messages": ["x" * MAX_INPUT_BYTES]}}, 413),
]


@pytest.mark.parametrize(
    ("route", "what", "status"),
    [*((ONE_ROUTE, *of) for of in REFUSED), *((route, *TOO_MANY_STEPS) for route in ROUTES if route != ONE_ROUTE)],
    ids=lambda of: str(of)[:40],
)
async def test_what_cannot_be_used_is_refused_before_there_is_a_run(
    server: DevServer, alice: str, route: str, what: Body, status: int
) -> None:
    caller = server.person(alice, limits=ANEW)
    answer, thread = await try_run(caller, route, asked("hello", **what))
    if "/commands" in route and answer.status_code == httpx.codes.OK:  # the platform says it in its own protocol
        assert answer.json()["type"] == "error"
        assert str(status) in answer.text
    else:
        assert answer.status_code == status, answer.text
    assert await caller.made("GET", f"/threads/{thread}/runs") == []
    assert (await caller.made("GET", f"/threads/{thread}"))["status"] == "idle"


async def test_a_cron_has_its_creator_s_claims_and_nobody_s_thread(server: DevServer, alice: str) -> None:
    owner, studio = server.person(alice), server.person("", headers=OPERATOR)
    hers = await owner.thread()
    hidden = {"thread_id": hers, "assistant_id": hers, "configurable": {"thread_id": hers, "__pregel_x": 1}, "tags": ["mine"]}
    cron = await studio.made("POST", "/runs/crons", asked("hello", schedule="0 0 1 1 *", config=hidden))
    changed = await studio.made("PATCH", f"/runs/crons/{cron['cron_id']}", {"config": hidden})
    for kept in (cron, changed):
        config = kept["payload"]["config"]
        assert set(config) == {"tags", "configurable"}
        assert set(config["configurable"]) == {"cron_id", "langgraph_auth_user"}


@pytest.mark.parametrize("action", ["rollback", "interrupt"])
async def test_a_thread_whose_planned_run_is_cancelled_waits_for_nothing(server: DevServer, alice: str, action: str) -> None:
    caller = server.person(alice, limits=ANEW)
    thread = await caller.thread()
    planned = asked("later", after_seconds=3600, multitask_strategy="enqueue")
    for run in [await caller.made("POST", f"/threads/{thread}/runs", planned) for _ in range(2)]:
        by_id = {"thread_id": thread, "run_ids": [run["run_id"]]}
        assert (await caller.ask("POST", "/runs/cancel", by_id, action=action)).status_code == 204
    assert (await caller.made("GET", f"/threads/{thread}"))["status"] == "idle"
