"""What of a request reaches a run, on the real server: on every route, nothing but what was
rebuilt.
"""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lasting_memory.deployment import DEFAULTS
from lasting_memory.dev.configuration import ON_POSTGRES
from lasting_memory.people import identity, namespaces
from lasting_memory.people.identity import Actor, assistant_of
from lasting_memory.settings import CONSOLIDATION_GRAPH
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import AGENT, OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import (
    Failure,
    ScriptedAnthropic,
    Text,
    ToolCall,
    system_text,
)
from tests.auth.test_fields import CONFIG, CONFIGURABLE
from tests.auth.world import ACCEPT
from tests.conftest import batch_with

pytestmark = [pytest.mark.server, pytest.mark.begins_first]

Body = dict[str, Any]


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


# --- Whom an operator's run acts for
# ---------------------------------------------------------------------------------

SECRET = "alice-says-4711"


def memories(name: str, org: str = "acme") -> list[str]:
    return list(deployed().memory.namespace(Actor(name, org), ""))


@pytest.mark.parametrize("caller", ["studio", "root"])
async def test_an_operator_names_whose_memory(
    server: DevServer, model: ScriptedAnthropic, alice: str, caller: str
) -> None:
    operator = server.person("root", "default", headers=OPERATOR if caller == "studio" else None)
    org, other = f"org of {alice}", f"other org of {alice}"
    files = [
        (memories(alice, org), SECRET),
        *((list(namespaces.policies(of)), f"policy of {of}") for of in (org, other)),
    ]
    for namespace, text in files:
        value = {"content": text, "encoding": "utf-8"}
        await operator.made(
            "PUT",
            "/store/items",
            {"namespace": namespace, "key": "/preferences.md", "value": value},
        )
    values = await operator.say(f"for {alice}", context={"user_id": alice, "org_id": org})
    assert values["messages"][0]["additional_kwargs"][identity.SPOKEN_FOR] is True
    shown = system_text(model.requests_for(f"for {alice}")[-1])
    assert [text in shown for _, text in files] == [True, True, False]


async def test_only_operators_name_a_person_to_consolidation(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    person, mallory, root = (
        server.person(alice),
        server.person(f"mallory-{alice}"),
        server.person("root", "default"),
    )
    await person.say(said := f"said by {alice}")
    model.script(
        batch_with(said),
        [ToolCall("search_recent_conversations", {})],
        [Text("done")],
    )
    asking = {
        "assistant_id": "consolidation_agent",
        "input": {"messages": []},
        "context": {"user_id": alice, "org_id": "acme"},
    }
    for caller, reads in ((mallory, False), (root, True)):
        before = len(model.requests)
        await caller.made("POST", "/runs/wait", asking)
        assert (said in str(model.requests[before:])) is reads


async def test_a_thread_that_an_operator_makes_for_a_person_is_the_person_s(
    server: DevServer, alice: str
) -> None:
    """A thread that an operator's run creates, and a copy, are the person's, and not those of their
    name elsewhere.
    """
    owner, elsewhere, operator = (
        server.person(alice),
        server.person(alice, "globex"),
        server.person("", headers=OPERATOR),
    )
    thread, context = str(uuid.uuid4()), {"user_id": alice, "org_id": "acme"}
    later = asked("hello", if_not_exists="create", after_seconds=3600, context=context)
    run = await operator.made("POST", f"/threads/{thread}/runs", later)
    await owner.made("GET", f"/threads/{thread}/runs/{run['run_id']}")
    await owner.turn(said := await owner.thread(), SECRET)
    copied = (await operator.made("POST", f"/threads/{said}/copy"))["thread_id"]
    assert SECRET in (await owner.ask("GET", f"/threads/{copied}/state")).text
    for other in (thread, copied):
        assert (await elsewhere.ask("GET", f"/threads/{other}")).status_code == 404


async def test_an_operator_goes_on_with_a_run_as_its_owner(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    owner, operator = server.person(alice), server.person("root", "default")
    append = ToolCall("append_memory", {"path": "/memories/notes.md", "text": f"- {SECRET}"})
    model.script(alice, Failure(401, "authentication_error", "no"), [append], [Text("done")])
    thread = await owner.thread()
    assert "__error__" in await owner.turn(thread, f"remember {alice}", raise_error=False)
    await operator.made(
        "POST", f"/threads/{thread}/runs/wait", {"assistant_id": "agent", "input": None}
    )
    assert SECRET in str(await owner.read())
    assert SECRET not in str(await operator.read())


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
