"""A person's memory for their other programs, by MCP."""

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from httpx2 import AsyncClient
from langgraph.store.base import BaseStore
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from lasting_memory.deployment import Deployment
from lasting_memory.http import request_bounds
from lasting_memory.http.app import build_http
from lasting_memory.http.memory_mcp import MemoryServer
from lasting_memory.http.requests import MCP_PATH as PATH
from lasting_memory.settings import Settings
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from tests.http.conftest import Open, put

PREFERENCES = "/memories/preferences.md"
HEADERS = {"accept": "application/json, text/event-stream", "user-agent": "Robin's editor/1.0"}


async def call(api: httpx.AsyncClient, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Whether the tool carried out a call, and what it answered."""
    params = {"name": tool, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = await api.post(PATH, json=body, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    result = answer.json()["result"]
    return not result.get("isError", False), result["content"][0]["text"]


async def tools(api: httpx.AsyncClient) -> list[dict[str, Any]]:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    listed: list[dict[str, Any]] = (await api.post(PATH, json=body, headers=HEADERS)).json()[
        "result"
    ]["tools"]
    return listed


async def content(api: httpx.AsyncClient, path: str = PREFERENCES) -> str:
    answer = await api.get("/memory/file", params={"path": path})
    return str(answer.json().get("content", ""))


async def test_a_program_reads_and_changes_what_is_remembered_one_line_at_a_time(
    calling: Open,
) -> None:
    async with calling() as api:
        assert await call(api, "what_do_you_know") == (
            True,
            "Nothing is remembered of this person yet.",
        )
        await call(api, "remember", fact="मेरी बेटी का नाम\nरिया है")
        assert await content(api) == "- मेरी बेटी का नाम रिया है\n"
        await call(api, "remember", fact="Plays the cello", topic="Music & 音楽")
        assert await content(api, "/memories/topics/music-音楽.md") == "- Plays the cello\n"
        assert "/memories/topics/music-音楽.md" in await content(api, "/memories/topics/index.md")
        known = await call(api, "what_do_you_know")
        assert "- Plays the cello" in known[1]
        assert "- मेरी बेटी का नाम रिया है" in known[1]
        assert (await call(api, "search_memory", query="cello"))[1].startswith("/memories/topics")
        corrected = await call(api, "correct", line="plays the CELLO", correct="Plays the viola")
        assert corrected[0], corrected
        assert await content(api, "/memories/topics/music-音楽.md") == "- Plays the viola\n"
        assert (await call(api, "forget", line="रिया"))[0]
        assert await content(api) == ""


async def test_a_program_s_change_is_its_own_revision_and_can_be_undone(calling: Open) -> None:
    async with calling() as api:
        await put(api, "- one\n- two\n", PREFERENCES)
        await call(api, "forget", line="one")
        history = (await api.get("/memory/history", params={"path": PREFERENCES})).json()
        author = history["revisions"][0]["author"]
        assert (author["kind"], author["client"]) == ("client", "Robin's editor/1.0")
        undone = await api.post("/memory/undo", json={"path": PREFERENCES, "revision": 1})
        assert undone.status_code == 200, undone.text
        assert await content(api) == "- one\n- two\n"


async def test_a_program_names_one_line_and_never_several(calling: Open) -> None:
    async with calling() as api:
        await put(api, "- likes tea\n- likes tea with milk\n- owns a boat\n", PREFERENCES)
        await put(api, "- owns a boat\n", "/memories/topics/boats.md")
        before = await content(api)
        is_done, reason = await call(api, "forget", line="likes")
        assert (is_done, "2 lines say that" in reason) == (False, True)
        assert not (await call(api, "forget", line="owns a boat"))[0]
        assert not (await call(api, "forget", line="no such line"))[0]
        assert not (await call(api, "forget", line=""))[0]
        assert not (await call(api, "forget", line="likes tea", everything=True))[0]
        assert not (await call(api, "delete_everything"))[0]
        assert await content(api) == before
        assert (await call(api, "forget", line="likes tea"))[0], "the whole of a line is one line"
        assert (await call(api, "forget", line="owns a boat", path=PREFERENCES))[0]
        assert await content(api) == "- likes tea with milk\n"
        assert await content(api, "/memories/topics/boats.md") == "- owns a boat\n"


async def test_a_field_of_the_profile_is_a_line(calling: Open) -> None:
    path = "/memories/profile.json"
    async with calling() as api:
        await put(api, '{"name": "Anna", "language": "German"}', path)
        assert "- name: Anna" in (await call(api, "what_do_you_know"))[1]
        assert (await call(api, "correct", line="name: Anna", correct="name: Hanna"))[0]
        assert (await call(api, "forget", line="language: German"))[0]
        assert json.loads(await content(api, path)) == {"name": "Hanna"}


async def test_a_pause_stops_a_program_and_a_review_keeps_its_changes_waiting(
    calling: Open,
) -> None:
    async with calling() as api:
        await api.put("/memory/controls", json={"paused": True})
        is_done, reason = await call(api, "remember", fact="likes tea")
        assert (is_done, "paused" in reason.lower()) == (False, True)
        await api.put("/memory/controls", json={"paused": False, "review_agent": True})
        assert "waits" in (await call(api, "remember", fact="likes tea"))[1]
        assert await content(api) == ""
        (proposal,) = (await api.get("/memory/proposals")).json()["proposals"]
        accepted = await api.post(f"/memory/proposals/{proposal['id']}", json={"accept": True})
        assert accepted.status_code == 200, accepted.text
        assert await content(api) == "- likes tea\n"


@pytest.mark.parametrize(
    "fact", ["my card is 4111 1111 1111 1111", "x" * 1_001, " \n", "sk-" + "ant-" + "a1B2" * 24]
)
async def test_a_fact_that_must_not_be_remembered_is_refused_to_a_program(
    calling: Open, fact: str
) -> None:
    async with calling() as api:
        is_done, reason = await call(api, "remember", fact=fact)
        assert not is_done, reason
        assert fact not in reason or not fact.strip()
        assert await content(api) == ""


async def test_a_program_sees_nobody_else_s_memory(calling: Open) -> None:
    async with calling("alice") as alice, calling("bob") as bob, calling(None) as nobody:
        await call(alice, "remember", fact="alice likes tea")
        assert "tea" not in (await call(bob, "what_do_you_know"))[1]
        assert not (await call(bob, "forget", line="alice likes tea"))[0]
        assert not (await call(nobody, "what_do_you_know"))[0]
        about = await bob.post(PATH, params={"user_id": "alice"}, json={}, headers=HEADERS)
        assert about.status_code == 422
        assert await content(alice) == "- alice likes tea\n"


async def test_conversations_are_searched_only_where_an_argument_says_so(
    store: BaseStore, calling: Open
) -> None:
    async with calling() as api:
        names = [tool["name"] for tool in await tools(api)]
        assert names == ["what_do_you_know", "remember", "correct", "forget", "search_memory"]
        assert all(tool["description"] for tool in await tools(api))
    tools_of = MemoryServer(deployed(), conversations=True)
    assert "search_past_conversations" in tools_of.tools
    without = build_http(deployed(), mcp=False)
    assert PATH not in [getattr(route, "path", "") for route in without.routes]


def production(**settings: Any) -> Deployment:
    known = {"auth_jwks_url": "https://id.example.com/keys", **settings}
    return replace(deployed(), settings=Settings(**known))


async def test_a_program_s_token_names_this_server_outside_of_development(
    store: BaseStore, calling: Open
) -> None:
    async with calling("alice", production()) as api:
        answer = await api.post(PATH, json={}, headers=HEADERS)
        assert (answer.status_code, "AUTH_AUDIENCE" in answer.text) == (403, True)
    named = production(auth_audience="https://agent.example.com")
    async with calling("alice", named) as api:
        assert (await call(api, "what_do_you_know"))[0]
        for method in ("GET", "DELETE", "PUT"):
            assert (await api.request(method, PATH, headers=HEADERS)).status_code == 405


async def test_a_program_learns_where_people_sign_in_and_no_header_changes_that(
    calling: Open,
) -> None:
    settings = production(
        auth_audience="agent, https://agent.example.com/a",
        auth_issuer="https://id.example.com/, not-an-address",
        auth_scope="openid email",
    )
    well_known = "/.well-known/oauth-protected-resource"
    async with calling(None, settings) as api:
        for path in (well_known, f"{well_known}/a", f"{well_known}/memory/mcp"):
            forged = {"host": "evil.example", "x-forwarded-host": "evil.example"}
            answer = await api.get(path, headers=forged)
            assert answer.json() == {
                "resource": "https://agent.example.com/a",
                "resource_name": "Memory",
                "authorization_servers": ["https://id.example.com/"],
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["openid", "email"],
            }
        assert (await api.get(f"{well_known}/other")).status_code == 404
        assert (await api.post(well_known)).status_code == 405
    async with calling(None, production(auth_audience="agent")) as api:
        answer = await api.get(well_known)
        assert (answer.status_code, "AUTH_AUDIENCE" in answer.text) == (404, True)


@pytest.mark.server
async def test_the_official_client_lists_and_calls_the_tools(server: DevServer) -> None:
    headers = {"authorization": "Bearer dev:acme:robin+mcp@example.com"}
    async with (
        AsyncClient(headers=headers, timeout=120) as http,
        Client(streamable_http_client(f"{server.url}{PATH}", http_client=http)) as client,
    ):
        listed = await client.list_tools()
        assert {tool.name for tool in listed.tools} >= {"remember", "forget", "correct"}
        told = await client.call_tool("remember", {"fact": "Robin plays the viola"})
        assert not told.is_error, told
        known = await client.call_tool("what_do_you_know", {})
        assert "Robin plays the viola" in str(known.content)
    async with httpx.AsyncClient(base_url=server.url, timeout=120) as web:
        refused = await web.post(PATH, json={}, headers=HEADERS)
        assert refused.status_code == 401
        address = f"{server.url}/.well-known/oauth-protected-resource"
        assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{address}"'
        assert (await web.get(address)).json()["resource"] == server.url
        assert (await web.delete("/memory", headers=headers)).is_success


@pytest.mark.parametrize(
    ("path", "weight"),
    [("/mcp", 20), ("/memory/mcp", 20), ("/a2a/x", 10), ("/memory/mcpx", 0), ("/memory", 0)],
)
def test_a_request_of_a_program_counts_what_a_run_by_mcp_counts(path: str, weight: int) -> None:
    assert request_bounds._weight_of(path) == weight
