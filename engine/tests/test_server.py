"""The whole deployment on the real `langgraph dev`: what lasts, what fails alone, what bad input does."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from lasting_memory import recall, seeding
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.settings import ENGINE
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.embedding import SUBJECTS
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall, system_text, tool_results
from tests.conftest import model_env

pytestmark = pytest.mark.server


async def new_thread(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])


def memories(identity: str, org: str = "acme") -> list[str]:
    return list(deployed().memory.namespace(Actor(identity, org), ""))


def append(text: str) -> ToolCall:
    return ToolCall("append_memory", {"path": "/memories/preferences.md", "text": text})


async def content(server: DevServer, identity: str, key: str = "/preferences.md") -> str:
    item = await server.as_operator().store.get_item(memories(identity), key=key)
    return str(item["value"]["content"]) if item else ""


async def test_each_graph_says_what_it_is_for(server: DevServer) -> None:
    """Studio, MCP and A2A show the description that langgraph.json gives."""
    described = {found["graph_id"]: found["description"] for found in await server.as_operator().assistants.search()}
    assert {graph: bool(text) for graph, text in described.items()} == {"agent": True, "consolidation_agent": True}


async def test_consolidation_writes_what_the_agent_shows_in_another_thread(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    write = ToolCall("write_file", {"file_path": "/memories/preferences.md", "content": "- metric units\n"})
    model.script("Conversations with something new", [write], [Text("done")])
    client = server.as_user(alice)
    await run_turn(client, await new_thread(client), "metric units, please")
    await run_turn(client, await new_thread(client), "consolidate", assistant="consolidation_agent")

    await run_turn(client, await new_thread(client), "hello from alice")
    assert "- metric units" in system_text(model.requests_for("hello from alice")[-1])

    for stranger in (server.as_user(f"other-{alice}"), server.as_user(alice, org="globex")):
        await run_turn(stranger, await new_thread(stranger), "hello from a stranger")
        assert "metric units" not in system_text(model.requests_for("hello from a stranger")[-1])


async def test_a_run_stopped_in_the_middle_keeps_what_it_wrote(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    client = server.as_user(alice)
    thread = await new_thread(client)
    model.script("stop me", [append("- written before the stop")], Slow(30, [Text("never")]))
    message: Any = {"messages": [{"role": "user", "content": "stop me"}]}
    run = await client.runs.create(thread, "agent", input=message)
    while not (len(model.requests) > 1 and tool_results(model.requests[-1])):  # noqa: ASYNC110  # the scripted server's thread sets no event
        await asyncio.sleep(0.05)
    await client.runs.cancel(thread, run["run_id"], wait=True)
    assert "- written before the stop" in await content(server, alice)
    values = await run_turn(client, thread, "and go on")
    assert values["messages"][-1]["content"] == "ok"


@pytest.fixture(scope="module")
def indexed_server(shared_model: ScriptedAnthropic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    index = {"embed": f"{ENGINE}/testing/embedding.py:embed", "dims": len(SUBJECTS), "fields": ["content"]}
    folder = tmp_path_factory.mktemp("indexed")
    with DevServer(folder, env=model_env(shared_model), config={"store": {"index": index}}) as server:
        yield server


@pytest.fixture
async def indexed(indexed_server: DevServer, model: ScriptedAnthropic) -> AsyncIterator[DevServer]:
    yield indexed_server
    await indexed_server.close_clients()


async def test_the_platform_s_semantic_index_is_used_where_langgraph_json_has_one(
    indexed: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """In memory and in past conversations, also where a person searches several times at once. A restart keeps both."""
    client = indexed.as_user(alice)
    thread, another = await new_thread(client), await new_thread(client)
    model.script("we have a puppy", [append("- Has a puppy.")], [Text("done")])
    await run_turn(client, thread, "we have a puppy")
    await run_turn(client, another, "we sold the vehicle")
    indexed.restart()
    for _ in range(2):
        answers = await asyncio.gather(*(client.http.get("/memory/search", params={"q": "pet"}) for _ in range(8)))
        assert [answer["conversations"][0]["thread_id"] for answer in answers] == [thread] * 8
    model.script("what animals", [ToolCall("search_memories", {"query": "any pet?"})], [Text("done")])
    await run_turn(client, another, "what animals")
    last = model.requests[-1]
    assert "Has a puppy." in tool_results(last)[0]
    assert "- Has a puppy." in system_text(last)
    assert "we sold the vehicle" in str(last["messages"])


async def test_the_command_for_another_model_has_everybody_s_conversations_embedded_anew(
    indexed: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, operator = indexed.as_user(alice), indexed.as_operator()
    thread = await new_thread(client)
    model.script("we have a puppy", [Text("done")])
    await run_turn(client, thread, "we have a puppy")
    pet: Any = {"params": {"q": "pet"}}
    assert [talk["thread_id"] for talk in (await client.http.get("/memory/search", **pet))["conversations"]] == [thread]
    where = namespaces.recall(Actor(alice, "acme"), "texts")
    assert (await operator.store.get_item(where, recall.MODEL))["value"] == {"model": f"embed, {len(SUBJECTS)} dimensions"}
    await operator.store.put_item(where, recall.MODEL, {"model": "another"}, index=False)
    assert (await client.http.get("/memory/search", **pet))["conversations"] == []
    assert "python -m seeds embeddings" in indexed.log
    lines = await seeding.seed(operator, [seeding.EMBEDDINGS], deployed(), prune=False)
    assert f"{where[1]}: embedded anew" in lines
    assert [talk["thread_id"] for talk in (await client.http.get("/memory/search", **pet))["conversations"]] == [thread]
    assert seeding.EMBEDDINGS not in seeding.PARTS


def test_a_bad_setting_stops_the_start_and_names_itself(tmp_path: Any) -> None:
    with pytest.raises(RuntimeError, match="SHARED_WRITES is 'maybe'"), DevServer(tmp_path, env={"SHARED_WRITES": "maybe"}):
        pass
