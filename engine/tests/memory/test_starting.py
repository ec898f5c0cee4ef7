"""Starting files: for a person whose memory never began, and not while it is paused."""

from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from lasting_memory.files.starting import starting_memory
from lasting_memory.people import identity, namespaces
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, system_text
from tests.memory.test_paused import control
from tests.memory.test_temporary import new_thread

pytestmark = pytest.mark.server
STARTING = {f"/memories{key}" for key in starting_memory(deployed().folder)}


async def paths(client: LangGraphClient) -> set[str]:
    listed: Any = await client.http.get("/memory")
    return {file["path"] for file in listed["files"]}


async def turn(client: LangGraphClient) -> None:
    await run_turn(client, await new_thread(client, {}), "hello")


async def delete_all(client: LangGraphClient) -> None:
    for path in await paths(client):
        await client.http.delete("/memory/file", params={"path": path})


@pytest.mark.parametrize("imported", [False, True], ids=["started", "imported"])
async def test_who_deletes_all_files_does_not_get_the_starting_files_back(
    server: DevServer, model: ScriptedAnthropic, alice: str, imported: bool
) -> None:
    client = server.as_user(alice)
    if imported:
        files = [{"path": "/memories/mine.md", "content": "- mine\n"}]
        await client.http.post("/memory/import", json={"version": 1, "files": files})
    else:
        await turn(client)
        assert await paths(client) == STARTING != set()
    await delete_all(client)
    await turn(client)
    assert "(Nothing is remembered yet.)" in system_text(model.requests[-1])
    shown: Any = await client.http.get("/memory/prompt")
    assert "(Nothing is remembered yet.)" in str(shown)
    assert await paths(client) == set()
    await client.http.delete("/memory")
    await turn(client)
    assert await paths(client) == STARTING, "who was forgotten begins anew"


async def test_while_memory_is_paused_none_begins(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    """While memory is paused none begins, whatever one does; once it is resumed, it starts as any other."""
    client, operator = server.as_user(alice), server.as_operator()
    files = deployed().memory.namespace(identity.Actor(alice, "acme"), "")
    await control(client, paused=True)
    await turn(client)
    assert "(Nothing is remembered yet.)" in system_text(model.requests[-1])
    shown: Any = await client.http.get("/memory/prompt")
    assert "(Nothing is remembered yet.)" in str(shown)
    for path in ("/memory", "/memory/me", "/memory/controls", "/memory/search?q=hello", "/memory/export"):
        await client.http.get(path)
    for path in ("/memory/proposals", "/memory/consolidations"):
        await client.http.get(path)
    await run_turn(client, await new_thread(client, {}), "go", assistant="consolidation_agent")
    for namespace in (files, namespaces.journals(files)):
        assert (await operator.store.search_items(namespace))["items"] == []
    await control(client, paused=False)
    await turn(client)
    assert await paths(client) == STARTING
