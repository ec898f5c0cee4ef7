"""What of a request reaches a run, on the real server: on every route, nothing but what was rebuilt."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lasting_memory.deployment import DEFAULTS
from lasting_memory.dev.configuration import ON_POSTGRES
from lasting_memory.people.identity import assistant_of
from lasting_memory.settings import CONSOLIDATION_GRAPH
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import AGENT, OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from tests.auth.run_fields import CONFIG, CONFIGURABLE
from tests.auth.world import ACCEPT

pytestmark = [pytest.mark.server, pytest.mark.begins_first]
Body = dict[str, Any]
SECRET = "alice-says-4711"


def asked(text: str, **more: Any) -> Body:
    return {
        "assistant_id": "agent",
        "input": {"messages": [{"role": "user", "content": text}]},
        **more,
    }


# Kinds of routes that take a run's whole request, with what they take.
ROUTES: dict[str, Callable[[Body], Any]] = {
    "/threads/<thread>/runs/stream": dict,
    "/runs/batch": lambda body: [body],
    "/threads/<thread>/commands": lambda body: {"id": 1, "method": "run.start", "params": body},
}
HIDDEN: Body = {
    "config": {
        "tags": ["mine"],
        "metadata": {"note": "kept", "user_id": "x", "run_id": "x", "langgraph_node": "x"},
        "recursion_limit": 99,
        "configurable": {
            "graph_id": "x",
            "ls_agent_type": "subagent",
            "__pregel_resuming": True,
            "langsmith-project": "x",
        },
        "thread_id": "x",
        "anything": 1,
        "callbacks": [],
        "run_id": "x",
    },
    "metadata": {
        "title": "kept too",
        "graph_id": "x",
        "org_id": "x",
        "created_by": "system",
        "run_attempt": 7,
        "cron_id": "x",
    },
    "langsmith_tracer": {"project_name": "elsewhere", "example_id": "x"},
}
# What the platform writes into every run's configuration after the handlers, and its worker.
STAMPED = {"run_id", "thread_id", "graph_id", "assistant_id", "user_id", "__pregel_node_finished"}


async def test_the_worker_and_the_graph_get_what_was_rebuilt_and_nothing_else(
    server: DevServer, alice: str
) -> None:
    caller = server.person(alice)
    thread = await caller.thread()
    run = await caller.made("POST", f"/threads/{thread}/runs", asked("hello", **HIDDEN))
    await caller.idle()
    stored = await caller.made("GET", f"/threads/{thread}/runs/{run['run_id']}")
    config = stored["kwargs"]["config"]
    assert set(config) == CONFIG
    assert (config["tags"], config["recursion_limit"]) == (["mine"], 99)
    assert set(config["configurable"]) <= CONFIGURABLE | STAMPED
    assert (config["configurable"]["thread_id"], config["configurable"]["graph_id"]) == (
        thread,
        "agent",
    )
    stamps = {"graph_id": "agent", "assistant_id": AGENT, "user_id": alice, "org_id": "acme"}
    assert (await caller.made("GET", f"/threads/{thread}"))["metadata"] == stamps
    # `created_by` is of the platform's assistant.
    assert stored["metadata"] == {
        **stamps,
        "note": "kept",
        "title": "kept too",
        "created_by": "system",
    }
    seen = (await caller.made("GET", f"/threads/{thread}/state"))["metadata"]
    assert (seen["run_attempt"], seen["run_id"], seen["note"]) == (1, run["run_id"], "kept")


# Nothing calls the server itself without anybody's token.
UNUSABLE: list[tuple[Body, int]] = [
    ({"config": {"recursion_limit": 10**9}}, 422),
    ({"webhook": "http://127.0.0.1:2024/ok"}, 403),
    ({"webhook": "/ok"}, 403),
]


@pytest.mark.parametrize("route", ROUTES)
async def test_an_unusable_request_is_refused_before_there_is_a_run(
    server: DevServer, alice: str, route: str
) -> None:
    caller = server.person(alice)
    thread = await caller.thread()
    for unusable, status in (
        UNUSABLE[:1] if "/commands" in route else UNUSABLE
    ):  # which pass over a webhook
        answer = await caller.ask(
            "POST", route.replace("<thread>", thread), ROUTES[route](asked("hello", **unusable))
        )
        # For commands the platform says it in its own protocol.
        is_error = "/commands" in route and answer.json()["type"] == "error"
        assert answer.status_code == status or is_error, answer.text
    assert await caller.made("GET", f"/threads/{thread}/runs") == []
    assert (await caller.made("GET", f"/threads/{thread}"))["status"] == "idle"


async def test_a_cron_has_its_creator_s_claims_and_nobody_s_thread(
    server: DevServer, alice: str
) -> None:
    owner, studio = server.person(alice), server.person("", headers=OPERATOR)
    hers = await owner.thread()
    hidden = {
        "thread_id": hers,
        "assistant_id": hers,
        "configurable": {"thread_id": hers, "__pregel_x": 1},
        "tags": ["mine"],
    }
    cron = await studio.made(
        "POST", "/runs/crons", asked("hello", schedule="0 0 1 1 *", config=hidden)
    )
    changed = await studio.made("PATCH", f"/runs/crons/{cron['cron_id']}", {"config": hidden})
    for kept in (cron, changed):
        config = kept["payload"]["config"]
        assert set(config) == {"tags", "configurable"}
        assert set(config["configurable"]) == {"cron_id", "langgraph_auth_user"}


@pytest.mark.parametrize("action", ["rollback", "interrupt"])
async def test_a_thread_whose_planned_run_is_cancelled_waits_for_nothing(
    server: DevServer, alice: str, action: str
) -> None:
    caller = server.person(alice)
    thread = await caller.thread()
    planned = asked("later", after_seconds=3600, multitask_strategy="enqueue")
    runs = [
        await caller.made("POST", f"/threads/{thread}/runs", planned)
        for _ in range(DEFAULTS.waiting_runs)
    ]
    assert (await caller.ask("POST", f"/threads/{thread}/runs", planned)).status_code == 429, (
        "so many may wait"
    )
    for run in runs:
        by_id = {"thread_id": thread, "run_ids": [run["run_id"]]}
        assert (await caller.ask("POST", "/runs/cancel", by_id, action=action)).status_code == 204
    assert (await caller.made("GET", f"/threads/{thread}"))["status"] == "idle"


def rpc(method: str, **params: Any) -> Body:
    return {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}


async def test_people_are_offered_agents_by_mcp_and_a2a_and_operators_all_graphs(
    server: DevServer, alice: str
) -> None:
    """Also where an operator has given the consolidation graph another name. Over HTTP people run
    it themselves.
    """
    person, operator = server.person(alice), server.person("", headers=OPERATOR)
    for caller in (person, operator):
        caller.raw.headers.update(ACCEPT)
    tidy = {"graph_id": CONSOLIDATION_GRAPH, "name": f"tidy {alice}"}
    made = (await operator.made("POST", "/assistants", tidy))["assistant_id"]

    async def tools(caller: Person) -> list[str]:
        listed = (await caller.made("POST", "/mcp", rpc("tools/list")))["result"]["tools"]
        return [tool["title"] for tool in listed if tool["inputSchema"]["properties"]]

    try:
        assert "agent" in await tools(person)
        assert not {CONSOLIDATION_GRAPH, tidy["name"]} & {*await tools(person)}
        assert {"agent", CONSOLIDATION_GRAPH, tidy["name"]} <= {*await tools(operator)}
        hello = {
            "role": "user",
            "messageId": "1",
            "kind": "message",
            "parts": [{"kind": "text", "text": "hello"}],
        }
        for assistant in (assistant_of(CONSOLIDATION_GRAPH), made):
            card = f"/a2a/{assistant}/.well-known/agent-card.json"
            assert (await person.ask("GET", card)).status_code == 400
            assert assistant in (await operator.ask("GET", card)).text
            for method in ("message/send", "message/stream"):
                answer = await person.ask("POST", f"/a2a/{assistant}", rpc(method, message=hello))
                assert "not found" in answer.text, answer.text
        called = await person.made(
            "POST", "/mcp", rpc("tools/call", name=CONSOLIDATION_GRAPH, arguments={"messages": []})
        )
        assert called["error"]["message"] == f"Unknown tool: {CONSOLIDATION_GRAPH}"
        found = await person.made("POST", "/assistants/search", {"graph_id": CONSOLIDATION_GRAPH})
        assert {one["assistant_id"] for one in found} >= {assistant_of(CONSOLIDATION_GRAPH), made}
        assert (await person.made("GET", f"/assistants/{made}"))["name"] == tidy["name"]
        assert "__error__" not in await person.say("", CONSOLIDATION_GRAPH)
        assert (await person.ask("POST", "/memory/consolidate")).status_code == 202
    finally:
        await operator.made("DELETE", f"/assistants/{made}")


@pytest.mark.postgres
async def test_a_run_is_deleted_through_its_own_thread_alone(
    model: ScriptedAnthropic, postgres_uri: str, tmp_path: Path, alice: str
) -> None:
    """Not with another thread of the same person, which answers 404, nor from a copy that has the
    same run in its history.
    """
    env = {**model.env, "MEMORY_POSTGRES_URI": postgres_uri}
    with DevServer(tmp_path, env=env, config=ON_POSTGRES) as server:
        async with Person(server.url, alice) as person:
            first, second = await person.thread(), await person.thread()
            for thread, text in ((first, SECRET), (second, "hello")):
                await person.turn(thread, text)
            (run,) = await person.made("GET", f"/threads/{first}/runs")
            copy = (await person.made("POST", f"/threads/{first}/copy"))["thread_id"]

            async def shown() -> list[str]:
                return [
                    (await person.ask("GET", f"/threads/{each}/history")).text
                    for each in (first, second, copy)
                ]

            before = await shown()
            for thread, status in ((second, 404), (copy, 404), (first, 204)):
                assert await shown() == before
                assert (
                    await person.ask("DELETE", f"/threads/{thread}/runs/{run['run_id']}")
                ).status_code == status
            assert SECRET not in (after := await shown())[0]
            assert after[1:] == before[1:]
