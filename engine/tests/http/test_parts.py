"""What a deployment leaves out is not there, and what it adds is; everything else goes on."""

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from fastapi import APIRouter, FastAPI

from lasting_memory.deployment import Deployment
from lasting_memory.http.app import build_http
from lasting_memory.limits import Limits
from lasting_memory.people.identity import Actor
from lasting_memory.settings import Settings, SettingsError
from lasting_memory.testing.deployed import PROJECT, deployed
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.people import OPERATOR
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import model_env
from tests.http.calls import Open

WITHOUT = replace(deployed(), consolidation=None)


async def test_without_consolidation_its_routes_say_so(calling: Open) -> None:
    async with calling("alice", WITHOUT) as client:
        for route in ("POST consolidate", "GET consolidations", "GET proposals", "POST proposals/1", "GET operations"):
            method, path = route.split()
            answer = await client.request(method, f"/memory/{path}")
            assert (answer.status_code, "consolidation is None" in answer.json()["detail"]) == (404, True), route


@pytest.mark.parametrize(
    ("settings", "limits", "said"),
    [
        ({"memory_writes": "background"}, Limits(), "MEMORY_WRITES is 'background'"),
        ({}, Limits(conversation_days=30), "conversation_days is 30"),
    ],
)
def test_what_only_consolidation_does_is_not_asked_of_a_deployment_without(
    settings: dict[str, str], limits: Limits, said: str
) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        Deployment(PROJECT, Settings(**settings), limits=limits, consolidation=None)  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)


def test_consolidation_without_its_graph_does_not_start(tmp_path: Path) -> None:
    """Nothing would consolidate, and nothing would say so."""
    (tmp_path / "langgraph.json").write_text('{"graphs": {"agent": "./agent.py:agent"}}')
    without = replace(deployed(), folder=tmp_path)
    with pytest.raises(
        SettingsError, match=r"langgraph\.json lacks consolidation_agent.* add it, or set consolidation=None"
    ) as said:
        build_http(without)
    assert "\n" not in str(said.value)
    assert build_http(replace(without, consolidation=None))


async def test_without_the_route_of_skills_the_prompt_shows_none(calling: Open) -> None:
    routes = MappingProxyType({route: scope for route, scope in deployed().routes.items() if route != "/skills/"})
    for deployment, names in (
        (deployed(), ["agent", "policies", "memory", "skills"]),
        (replace(deployed(), routes=routes), ["agent", "policies", "memory"]),
    ):
        async with calling("alice", deployment) as client:
            shown = (await client.get("/memory/prompt")).json()["blocks"]
        assert [block["name"] for block in shown] == names


def test_a_route_that_no_sign_in_could_surround_is_refused() -> None:
    """FastAPI keeps an included router as one route that has no app of its own."""
    api, router = FastAPI(), APIRouter()
    router.add_api_route("/hello", lambda: "hello")
    api.include_router(router)
    included = [route for route in api.router.routes if not hasattr(route, "app")]
    assert included
    with pytest.raises(SettingsError, match=r"router\.routes"):
        build_http(deployed(), routes=included)
    assert build_http(deployed(), routes=router.routes)


HTTP_API = """
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lasting_memory.http.app import build_http

from deployment import DEPLOYMENT


async def hello(request: Request) -> Response:
    return JSONResponse({"user": request.user.identity, "sent": len(await request.body())})


app = build_http(DEPLOYMENT, routes=[Route("/hello", hello, methods=["GET", "POST"])], page=False)
"""
AUTH = """
from lasting_memory.auth.handlers import build_auth

from deployment import DEPLOYMENT

auth = build_auth(
    DEPLOYMENT,
    open_to_people={
        "assistants:read", "threads:create", "threads:create_run", "threads:read", "threads:search", "threads:update",
    },
)
"""


@pytest.fixture(scope="module")
def served_fork(tmp_path_factory: pytest.TempPathFactory, shared_model: ScriptedAnthropic) -> Iterator[DevServer]:
    """A project without consolidation and page, with a second agent and a route of its own, in which people may do less."""
    project = Path(shutil.copytree(PROJECT, tmp_path_factory.mktemp("fork") / "project"))
    text = (project / "deployment.py").read_text()
    (project / "deployment.py").write_text(text.replace(".parent)", ".parent, consolidation=None)"))
    (project / "http_api.py").write_text(HTTP_API)
    (project / "auth.py").write_text(AUTH)
    config = json.loads((project / "langgraph.json").read_text())
    config["graphs"] = {"helpdesk": "./agent.py:agent", "support": "./agent.py:agent"}
    (project / "langgraph.json").write_text(json.dumps(config))
    folder = tmp_path_factory.mktemp("served")
    with DevServer(folder, model_env(shared_model), project=project) as server:
        yield server


@pytest.fixture
async def fork(served_fork: DevServer) -> AsyncIterator[DevServer]:
    yield served_fork
    await served_fork.close_clients()


@pytest.mark.server
async def test_a_fork_without_parts_with_a_route_and_two_agents(fork: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    async with fork.person(alice) as person, fork.person("x", headers={}) as nobody:
        assert (await person.http.get("/memory/me")).json()["agents"] == ["helpdesk", "support"]
        assert (await person.http.get("/memory/consolidations")).status_code == 404
        assert (await person.http.get("/app")).status_code == 404
        # Its own route: the same sign-in, the same bounds.
        assert (await person.http.get("/hello")).json() == {"user": alice, "sent": 0}
        assert (await nobody.http.get("/hello")).status_code == 401
        assert (await person.http.post("/hello", content=b" " * 2_000_000)).status_code == 413
    client = fork.as_user(alice)
    for agent in ("helpdesk", "support"):
        thread = str((await client.threads.create())["thread_id"])
        assert (await run_turn(client, thread, "hello", assistant=agent))["messages"]
    # What is not in the list is for operators; what a handler stamps stays stamped.
    found = await fork.as_operator().threads.search(metadata={"user_id": alice, "org_id": "acme"})
    assert {(thread["metadata"] or {}).get("graph_id") for thread in found} == {"helpdesk", "support"}
    memory = {"namespace_prefix": deployed().memory.namespace(Actor(alice, "acme"), "")}
    refused = [
        ("POST", "/assistants/search", {}),
        ("POST", "/store/items/search", memory),
        ("DELETE", f"/threads/{thread}", None),
    ]
    async with fork.person(alice) as person, fork.person("studio", headers=OPERATOR) as operator:
        for method, path, body in refused:
            assert (await person.http.request(method, path, json=body)).status_code == 403, path
            assert (await operator.http.request(method, path, json=body)).is_success, path
