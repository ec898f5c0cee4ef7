"""A person's own view of their memory on the real server: seen, corrected, taken along, forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from lasting_memory.people.identity import label
from lasting_memory.testing.dev_server import DevServer, dev_token, run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall, tool_results
from tests.http.calls import NOTES, ROUTES, put


@asynccontextmanager
async def http(server: DevServer, identity: str, org: str = "acme", **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = headers or {"Authorization": f"Bearer {dev_token(org, identity)}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=60) as client:
        yield client


async def new_thread(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])


def note(text: str) -> ToolCall:
    return ToolCall("append_memory", {"path": "/memories/notes.md", "text": text})


@pytest.mark.server
async def test_what_the_agent_wrote_is_seen_corrected_undone_and_taken_along(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    sdk, other = server.as_user(alice), f"other-{alice}"
    thread = await new_thread(sdk)
    model.script("I fly gliders", [note("- flies gliders")], [Text("noted")])
    await run_turn(sdk, thread, "I fly gliders")
    await run_turn(server.as_user(other), await new_thread(server.as_user(other)), "not to be exported")
    async with http(server, alice) as mine, http(server, other) as theirs:
        (revision,) = (await mine.get("/memory/history", params=NOTES)).json()["revisions"]
        assert revision["author"]["kind"] == "agent"
        assert revision["author"]["thread_id"] == thread
        await put(mine, "- flies balloons\n")
        model.script("what do I fly?", [ToolCall("read_file", {"file_path": "/memories/notes.md"})], [Text("ok")])
        await run_turn(sdk, await new_thread(sdk), "what do I fly?")
        assert "flies balloons" in tool_results(model.requests[-1])[0]
        assert (await mine.post("/memory/undo", json={**NOTES, "revision": 1})).json()["revision"] == 3
        assert (await mine.get("/memory/file", params=NOTES)).json()["content"] == "- flies gliders\n"

        answer = await mine.get("/memory/export")
        told = answer.json()
        assert "memory.json" in answer.headers["content-disposition"]
        assert (told["version"], told["user_id"], told["org_id"]) == (1, alice, "acme")
        files = {file["path"]: file for file in told["files"]}
        assert files["/memories/notes.md"]["content"] == "- flies gliders\n"
        assert [entry["revision"] for entry in files["/memories/notes.md"]["revisions"]] == [3, 2, 1]
        assert files["/memories/notes.md"]["revisions"][1]["content"] == "- flies balloons\n"
        assert len(told["conversations"]) == 2
        (talk,) = (talk for talk in told["conversations"] if talk["thread_id"] == thread)
        assert talk["created_at"] <= talk["updated_at"] <= told["exported_at"]
        assert [message["type"] for message in talk["values"]["messages"]] == ["human", "ai", "tool", "ai"]
        assert "not to be exported" not in answer.text

        imported = (await theirs.post("/memory/import", json=told)).json()
        assert {step["path"]: step["action"] for step in imported["files"]}["/memories/notes.md"] == "create"
        assert (await theirs.get("/memory/file", params=NOTES)).json()["content"] == "- flies gliders\n"


@pytest.mark.server
async def test_somebody_forgotten_leaves_nothing(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    """Somebody forgotten leaves nothing, and a run that was going writes nothing."""
    sdk, bob, operator = server.as_user(alice), server.as_user(f"bob-{alice}"), server.as_operator()
    mine = {"user_id": alice, "org_id": "acme"}
    model.script("remember", [note("- before")], [Text("noted")])
    finished = await new_thread(sdk)
    await run_turn(sdk, finished, "remember")
    model.script("Conversations with something new", [ToolCall("search_recent_conversations", {})], [Text("done")])
    await run_turn(sdk, await new_thread(sdk), "", assistant="consolidation_agent")
    slow, waiting = await new_thread(sdk), await new_thread(sdk)
    model.script("take your time", Slow(5, [note("- after")]))
    question: Any = {"messages": [{"role": "user", "content": "take your time"}]}
    await sdk.runs.create(slow, "agent", input=question)
    await sdk.runs.create(slow, "agent", input=question, multitask_strategy="enqueue")
    await sdk.runs.create(waiting, "agent", input=question, after_seconds=3600)
    await run_turn(bob, await new_thread(bob), "hello from bob")
    while not model.requests_for("take your time"):  # noqa: ASYNC110  # the model's server is in another thread
        await asyncio.sleep(0.05)
    async with http(server, alice) as client, http(server, f"bob-{alice}") as bobs:
        answer, changed = await asyncio.gather(client.delete("/memory"), put(bobs, "bob's"))
        assert changed.status_code == 200
        deleted = answer.json()["deleted"]
        assert deleted["threads"] == 4
        assert deleted["runs"] == 3
        assert deleted["memories"] == 2, "what was seeded, and the notes"
        assert deleted.get("consolidation", 0) == 1
        assert any("Traces" in reason for reason in answer.json()["kept"])
        await asyncio.sleep(5)  # by now the model has answered
        assert (await client.get("/memory")).json()["files"] == []
        assert (await client.get("/memory/history", params=NOTES)).status_code == 404
        assert (await client.get("/memory/export")).json()["conversations"] == []
        assert (await client.delete("/memory")).json()["deleted"] == {"runs": 0, "threads": 0, "memories": 0}
        assert (await bobs.get("/memory/file", params=NOTES)).json()["content"] == "bob's"
    assert await operator.threads.search(metadata=mine) == []
    assert len(await operator.threads.search(metadata={**mine, "user_id": f"bob-{alice}"})) == 1
    for thread in (finished, slow):
        await operator.threads.create(thread_id=thread, graph_id="agent")
        assert not (await operator.threads.get_state(thread))["values"], "checkpoints outlasted their thread"
        await operator.threads.delete(thread)
    items = (await operator.store.search_items([], limit=1000))["items"]
    whose = label(alice)
    assert {item["namespace"][0] for item in items if f"acme:{whose}" in item["namespace"]} == {"forgotten"}
    assert f"AUDIT memory.forget org='acme' user='{alice}' by='{alice}'" in server.log
    model.script("start again", [note("- anew")], [Text("noted")])
    await run_turn(sdk, await new_thread(sdk), "start again")
    async with http(server, alice) as client:
        assert (await client.get("/memory/file", params=NOTES)).json()["content"] == "- anew\n"


@pytest.mark.server
async def test_an_operator_forgets_a_person_and_it_is_noted_who_did(server: DevServer, alice: str) -> None:
    async with http(server, "root", "default") as root, http(server, "", **{"x-auth-scheme": "langsmith"}) as studio:
        named = {"user_id": alice, "org_id": "acme"}
        for operator in (root, studio):
            assert (await put(operator, "x", params={**NOTES, **named})).status_code == 200
            assert (await operator.delete("/memory", params=named)).json()["deleted"]["memories"] == 1
        assert f"user='{alice}' by='root'" in server.log


@pytest.mark.server
async def test_the_server_describes_the_routes_and_lets_nobody_in_unsigned(server: DevServer) -> None:
    async with http(server, "", **{"x-none": "1"}) as nobody:
        spec = (await nobody.get("/openapi.json")).json()
        assert spec["security"] == [{name: []} for name in spec["components"]["securitySchemes"]]
        assert spec["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
        paths = spec["paths"]
        described = {(method.upper(), path): of for path, methods in paths.items() for method, of in methods.items()}
        own = {route: of for route, of in described.items() if route[1].startswith("/memory")}
        assert {(method, path) for method, path, _ in ROUTES} <= own.keys()
        assert [route for route, of in own.items() if not of["summary"] or not of["description"]] == []
        for method, path in own:
            answer = await nobody.request(method, path.replace("{proposal_id}", "1"), params=NOTES)
            assert answer.status_code == 401, (method, path)
