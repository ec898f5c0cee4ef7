"""What a deployment leaves out is not there, and what it adds is."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from starlette.responses import JSONResponse
from starlette.routing import Route

from lasting_memory.http.app import build_http
from lasting_memory.people.identity import Actor
from lasting_memory.settings import SettingsError, load_settings
from lasting_memory.testing.deployed import PROJECT, deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import OPERATOR, Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from tests.http.conftest import Open

WITHOUT = replace(deployed(), consolidation=None)


async def test_routes_of_consolidation_say_where_there_is_none(calling: Open) -> None:
    async with calling("alice", WITHOUT) as client:
        for route in (
            "POST consolidate",
            "GET consolidations",
            "GET proposals",
            "POST proposals/1",
            "GET operations",
        ):
            method, path = route.split()
            answer = await client.request(method, f"/memory/{path}")
            assert (answer.status_code, "consolidation is None" in answer.json()["detail"]) == (
                404,
                True,
            ), route


def test_consolidation_without_its_graph_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "langgraph.json").write_text('{"graphs": {"agent": "./agent.py:agent"}}')
    without = replace(deployed(), folder=tmp_path)
    with pytest.raises(
        SettingsError,
        match=r"langgraph\.json lacks consolidation_agent.* add it, or set consolidation=None",
    ) as said:
        build_http(without)
    assert "\n" not in str(said.value)
    assert build_http(replace(without, consolidation=None))


APP = {"app": "./http_api.py:app"}
UNGUARDED = [
    APP,
    *(
        {**APP, "enable_custom_route_auth": no}
        for no in (False, None, "false", "no", "true", 1, [True])
    ),
]


@pytest.mark.parametrize("block", UNGUARDED, ids=str)
@pytest.mark.parametrize("routes", [[], [Route("/hello", JSONResponse({}))]], ids=len)
def test_routes_that_would_ask_nobody_to_sign_in_do_not_start(
    block: dict[str, Any], routes: list[Route], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server goes by what it runs with, anything else by langgraph.json."""
    config, without = (
        json.loads((PROJECT / "langgraph.json").read_text("utf-8")),
        replace(deployed(), folder=tmp_path),
    )
    (tmp_path / "langgraph.json").write_text(json.dumps({**config, "http": block}))
    with pytest.raises(SettingsError) as said:
        build_http(without, routes=routes)
    assert "\n" not in str(said.value)
    for part in (str(tmp_path / "langgraph.json"), '"enable_custom_route_auth": true'):
        assert part in str(said.value)
    monkeypatch.setenv("LANGGRAPH_HTTP", json.dumps({**block, "enable_custom_route_auth": True}))
    assert build_http(without, routes=routes)
    monkeypatch.setenv("LANGGRAPH_HTTP", json.dumps(block))
    (tmp_path / "langgraph.json").write_text(json.dumps(config))
    with pytest.raises(SettingsError, match="enable_custom_route_auth"):
        build_http(without, routes=routes)


def test_the_server_s_own_block_counts_in_an_image_without_langgraph_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGSERVE_GRAPHS", json.dumps({"agent": "a", "consolidation_agent": "c"}))
    monkeypatch.setenv(
        "LANGGRAPH_HTTP",
        json.dumps({"app": "/deps/x/http_api.py:app", "enable_custom_route_auth": True}),
    )
    assert build_http(replace(deployed(), folder=tmp_path))


async def test_the_prompt_shows_no_skills_without_their_route(calling: Open) -> None:
    routes = MappingProxyType(
        {route: scope for route, scope in deployed().routes.items() if route != "/skills/"}
    )
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


BAD_FILES = [
    ("{", "is no JSON (Expecting property name enclosed in double quotes in line 1, column 2); "),
    ("[]", "is []; use an object, e.g. "),
    ("\xff", "is not UTF-8 text; save it as UTF-8."),
    *(
        (f'{{"http": {bad}, "graphs": {{"agent": "./agent.py:agent"}}}}', "http is ")
        for bad in ('"x"', "[1]", "[]", "5", "false")
    ),
    *((f'{{"graphs": {bad}}}', "graphs is ") for bad in ('"agent"', '["agent"]', "7")),
]


@pytest.mark.parametrize(("text", "said"), BAD_FILES)
def test_a_langgraph_json_that_says_nothing_usable_is_refused_in_one_line(
    text: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "langgraph.json").write_text(text, "latin-1")
    with pytest.raises(SettingsError) as refused:
        build_http(replace(WITHOUT, folder=tmp_path))
    assert str(tmp_path / "langgraph.json") in str(refused.value)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["LANGGRAPH_HTTP", "LANGSERVE_GRAPHS"])
@pytest.mark.parametrize(
    ("value", "said"),
    [("garbage", "is no JSON ("), ('"x"', "is 'x'; use an object"), ("[1]", "is [1]; use")],
)
def test_unusable_variables_of_the_server_are_refused_in_one_line(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        build_http(replace(WITHOUT))
    assert str(refused.value).startswith(f"{name} {said}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("served", "said"), [
    ("garbage", "LANGGRAPH_HTTP is no JSON ("),
    ("[1]", "LANGGRAPH_HTTP is [1]; use an object"),
    ('{"cors": "x"}', "LANGGRAPH_HTTP: cors is 'x'; use an object"),
    ('{"cors": {"allow_origins": 5}}', "http.cors.allow_origins is '5'; use a list of origins"),
])  # fmt: skip
def test_settings_of_a_development_server_are_refused_in_one_line(served: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings({"LANGSMITH_LANGGRAPH_API_VARIANT": "local_dev", "LANGGRAPH_HTTP": served})
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("routes", [None, 5, "/hello", {"/hello": 1}, ["/hello"]])
def test_routes_that_are_none_are_refused_in_one_line(routes: Any) -> None:
    with pytest.raises(SettingsError, match=r"^routes .* router\.routes\.$"):
        build_http(deployed(), routes=routes)


HELLO = """
from starlette.responses import JSONResponse
from starlette.routing import Route


async def hello(request):
    return JSONResponse({"user": request.user.identity, "sent": len(await request.body())})


app = build_http(DEPLOYMENT, routes=[Route("/hello", hello, methods=["GET", "POST"])], page=False)
"""
FACTORY = """

async def make(config):
    return await asyncio.to_thread(build_agent)
"""
CLOSED = ("assistants:search", "threads:delete", "store:search")


@pytest.mark.server
async def test_a_fork_without_parts_with_a_route_and_two_agents(
    model: ScriptedAnthropic, tmp_path: Path, alice: str
) -> None:
    """A project without consolidation and page, with a second agent and a route of its own, in
    which people may do less.
    """
    project = Path(shutil.copytree(PROJECT, tmp_path / "project"))
    for file, old, new in (
        ("deployment.py", ".parent)", ".parent, consolidation=None)"),
        ("http_api.py", "app = build_http(DEPLOYMENT)", HELLO),
        *(("auth.py", f'"{name}",', "") for name in CLOSED),
    ):
        text = (project / file).read_text()
        assert old in text
        (project / file).write_text(text.replace(old, new))
    config = json.loads((project / "langgraph.json").read_text())
    source = project / "agent.py"
    source.write_text(f"import asyncio\n{source.read_text()}{FACTORY}")
    config["graphs"] = {"helpdesk": "./agent.py:make", "support": "./agent.py:agent"}
    (project / "langgraph.json").write_text(json.dumps(config))
    with DevServer(tmp_path, model.env, project=project) as fork:
        async with (
            Person(fork.url, alice) as person, Person(fork.url, "x", headers={}) as nobody,
            Person(fork.url, "studio", headers=OPERATOR) as operator,
        ):  # fmt: skip
            assert (await person.made("GET", "/memory/me"))["agents"] == ["helpdesk", "support"]
            for path in ("/memory/consolidations", "/app"):
                assert (await person.ask("GET", path)).status_code == 404
            # A graph that is made anew for each run: its model gets what another one's gets, and
            # nothing can execute.
            tools = (await person.made("GET", "/memory/prompt"))["tools"]
            assert {"read_file", "append_memory"} <= set(tools)
            assert "execute" not in tools
            # Its own route: the same sign-in, the same bounds.
            assert await person.made("GET", "/hello") == {"user": alice, "sent": 0}
            assert (await nobody.ask("GET", "/hello")).status_code == 401
            assert (await person.raw.post("/hello", content=b" " * 2_000_000)).status_code == 413
            for agent in ("helpdesk", "support"):
                thread = await person.thread()
                assert (await person.turn(thread, "hello", agent))["messages"]
            # What is not in the list is for operators; what a handler stamps stays stamped.
            found = await operator.made(
                "POST", "/threads/search", {"metadata": {"user_id": alice, "org_id": "acme"}}
            )
            assert {one["metadata"].get("graph_id") for one in found} == {"helpdesk", "support"}
            memory = {"namespace_prefix": deployed().memory.namespace(Actor(alice, "acme"), "")}
            refused = [("POST", "/assistants/search", {}), ("POST", "/store/items/search", memory)]
            for method, path, body in (*refused, ("DELETE", f"/threads/{thread}", None)):
                assert (await person.ask(method, path, body)).status_code == 403, path
                await operator.made(method, path, body)
