"""An agent without memory: skills and policies alone. What needs memory says so in one line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore

from lasting_memory import memory_tools, seeding
from lasting_memory.deployment import NO_MEMORY, Consolidation
from lasting_memory.http.export import document
from lasting_memory.people.identity import Actor
from lasting_memory.people.scopes import ROUTES, group
from lasting_memory.settings import SettingsError
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, ToolCall, system_text
from tests.conftest import BuildGraph
from tests.http.conftest import Open, exported

FEW = {"/skills/": ROUTES["/skills/"], "/policies/": ROUTES["/policies/"]}
WITHOUT = replace(deployed(), consolidation=None, routes=FEW)
FILE = {"path": "/memories/preferences.md"}


async def test_the_agent_has_policies_and_skills_and_nothing_of_memory(
    graph: BuildGraph, model: ScriptedAnthropic, store: BaseStore
) -> None:
    agent = graph(WITHOUT)
    agent.put(("policies", "acme"), "/rule.md", "- Be kind.\n")
    agent.put(("memories", "acme:alice"), "/preferences.md", "- of an earlier deployment\n")
    (told,) = await agent.called(
        ToolCall("write_file", {"file_path": "/memories/new.md", "content": "x"})
    )
    shown = system_text(model.requests[0])
    assert "Be kind." in shown
    assert "<skills>" in shown
    assert "<memory>" not in shown
    assert "earlier deployment" not in shown
    assert "/memories/" not in shown[shown.index("<skills>") : shown.index("</skills>")]
    names = {tool["name"] for tool in model.requests[0]["tools"]}
    assert not names & {"append_memory", "save_profile", "search_memories"}
    assert "/memories/new.md" in told, "a file of the conversation, as any other path"
    assert [item.key for item in await store.asearch(("memories",))] == ["/preferences.md"]
    assert memory_tools(WITHOUT) == []


@pytest.mark.parametrize(("method", "path", "options"), [
    ("GET", "/memory", {}), ("GET", "/memory/facts", {}), ("GET", "/memory/changes", {}), ("GET", "/memory/trash", {}),
    ("GET", "/memory/find", {"params": {"q": "leek"}}), ("GET", "/memory/controls", {}),
    ("PUT", "/memory/controls", {"json": {"paused": True}}),
    ("PUT", "/memory/seen", {"json": {"until": "2026-01-01T00:00:00Z"}}),
    ("GET", "/memory/file", {"params": FILE}), ("PUT", "/memory/file", {"params": FILE, "json": {"content": "x"}}),
    ("DELETE", "/memory/file", {"params": FILE}), ("GET", "/memory/history", {"params": FILE}),
    ("POST", "/memory/undo", {"json": {**FILE, "revision": 1}}),
    ("POST", "/memory/import", {"json": exported({**FILE, "content": "x"})}),
])  # fmt: skip
async def test_a_route_that_needs_memory_says_so(
    calling: Open, store: BaseStore, method: str, path: str, options: dict[str, Any]
) -> None:
    async with calling("alice", WITHOUT) as api:
        answer = await api.request(method, path, **options)
    assert (answer.status_code, answer.json()) == (404, {"detail": NO_MEMORY})
    assert await store.asearch(()) == []


async def test_the_other_routes_work(calling: Open, store: BaseStore) -> None:
    store.put(("policies", "acme"), "/rule.md", {"content": "- Be kind.\n", "encoding": "utf-8"})
    async with calling("alice", WITHOUT) as api:
        me = (await api.get("/memory/me")).json()
        assert (me["own_memory"], {*me["routes"]}) == (False, {*FEW})
        assert [block["name"] for block in (await api.get("/memory/prompt")).json()["blocks"]] == [
            "agent",
            "policies",
            "skills",
        ]
        assert (await api.get("/memory/policies")).json()["files"][0]["content"] == "- Be kind.\n"
        assert "consolidation is None" in (await api.get("/memory/proposals")).json()["detail"]
    client: Any = Platform()
    parts = [part async for part in document(store, client, Actor("alice", "acme"), WITHOUT)]
    told = json.loads(b"".join(parts))
    assert (told["files"], told["proposals"]) == ([], [])


@pytest.mark.parametrize("scope", ["user", "user+assistant", "assistant"])
async def test_a_person_sees_whether_they_have_memory_of_their_own(
    calling: Open, scope: str
) -> None:
    async with calling("alice", deployed(memory_scope=scope)) as api:
        assert (await api.get("/memory/me")).json()["own_memory"] is (scope != "assistant")


async def test_a_group_s_files_are_read_without_memory(calling: Open, store: BaseStore) -> None:
    team = replace(WITHOUT, routes={**FEW, "/team/": group("team_id")})
    store.put(
        ("groups", "acme:team_id:red"), "/plan.md", {"content": "Ship it.", "encoding": "utf-8"}
    )
    async with calling("alice", team, claims={"team_id": "red"}) as api:
        assert (await api.get("/memory/file", params={"path": "/team/plan.md"})).json()[
            "content"
        ] == "Ship it."


def test_consolidation_without_memory_stops_the_start_with_its_fix() -> None:
    with pytest.raises(
        SettingsError,
        match=r'^routes has no "/memories/"; add .*: without memory set consolidation=None\.$',
    ):
        replace(WITHOUT, consolidation=Consolidation())


def test_no_memories_are_seeded(tmp_path: Path) -> None:
    file = tmp_path / "seeds" / "memories" / "acme" / "dana" / "a.md"
    file.parent.mkdir(parents=True)
    file.write_text("x")
    assert seeding.folder_files(replace(WITHOUT, folder=tmp_path), ["memories"], ["a"]) == {}
