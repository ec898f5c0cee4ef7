"""Temporary conversations: they know nothing, leave nothing behind, and are deleted."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import UnprocessableEntityError

from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.people import OPERATOR
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, system_text, tool_results
from tests.conftest import BUILDERS, model_env
from tests.consolidation.runs import soon

pytestmark = pytest.mark.server

REMEMBERING = {"append_memory", "save_profile", "search_memories", "search_past_conversations", "read_conversation"}
TEMPORARY: Any = {"temporary": True}


async def new_thread(client: LangGraphClient, metadata: Any = TEMPORARY) -> str:
    return str((await client.threads.create(metadata=metadata))["thread_id"])


async def is_temporary(client: LangGraphClient, thread_id: str) -> bool:
    return bool(((await client.threads.get(thread_id))["metadata"] or {}).get("temporary"))


async def remember(client: LangGraphClient, model: ScriptedAnthropic, fact: str) -> str:
    model.script(fact, [ToolCall("append_memory", {"path": "/memories/preferences.md", "text": f"- {fact}"})], [Text("noted")])
    thread = await new_thread(client, {})
    await run_turn(client, thread, fact)
    return thread


async def test_it_is_shown_policies_and_nothing_of_memory_or_past_conversations(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    past = await remember(client, model, "likes fennel")
    policy: Any = {"content": "Speak plainly.", "encoding": "utf-8"}
    await server.as_operator().store.put_item(["policies", "acme"], "/plain.md", policy)
    files = await client.http.get("/memory")
    skill: Any = {"content": "---\nname: mine\ndescription: my skill\n---\n"}
    await client.http.put("/memory/file", params={"path": "/memories/skills/mine/SKILL.md"}, json=skill)
    calls = [
        ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- hidden"}),
        ToolCall("search_memories", {"query": "fennel"}),
        ToolCall("search_past_conversations", {"query": "fennel"}),
        ToolCall("read_conversation", {"thread_id": past}),
        ToolCall("read_file", {"file_path": "/memories/preferences.md"}),
        ToolCall("ls", {"path": "/memories"}),
        ToolCall("write_file", {"file_path": "/memories/new.md", "content": "hidden"}),
        ToolCall("edit_file", {"file_path": "/memories/preferences.md", "old_string": "fennel", "new_string": "hidden"}),
        ToolCall("write_file", {"file_path": "/scratch.md", "content": "only here"}),
        ToolCall("task", {"description": "delegated", "subagent_type": "general-purpose"}),
    ]
    model.script("a secret wish", calls, [Text("done")])
    model.script("delegated", [ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- x"})], [Text("done")])
    before = len(model.requests)
    await run_turn(client, await new_thread(client), "a secret wish")
    asked = model.requests[before:]
    for body in asked:
        assert "Speak plainly." in system_text(body)
        assert "fennel" not in str(body["system"])
        assert "my skill" not in str(body["system"])
        assert REMEMBERING.isdisjoint(tool["name"] for tool in body["tools"])
    results = tool_results(asked[-1])
    assert "fennel" not in str(results[:8])
    assert all("temporary conversation" in result for result in (*results[:4], results[6])), results
    delegated = [body for body in asked if "delegated" in str(body["messages"][0])]
    assert "temporary conversation" in str(tool_results(delegated[-1]))
    skills = await client.http.get("/memory")
    assert [file for file in skills["files"] if "skills" not in file["path"]] == files["files"]


async def test_it_is_found_by_no_search_and_not_consolidated_and_not_exported(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    thread = await new_thread(client)
    await run_turn(client, thread, "the zebra is called Zoe")
    copy: Any = await client.http.post(f"/threads/{thread}/copy", json={})
    calls = [ToolCall("search_past_conversations", {"query": "zebra"})]
    calls += [ToolCall("read_conversation", {"thread_id": one}) for one in (thread, copy["thread_id"])]
    model.script("what of the animal", calls, [Text("done")])
    await run_turn(client, await new_thread(client, {}), "what of the animal")
    assert "Zoe" not in str(tool_results(model.requests[-1]))
    model.clear()
    model.script("Conversations with something new", [ToolCall("search_recent_conversations", {})], [Text("done")])
    await run_turn(client, await new_thread(client, {}), "go", assistant="consolidation_agent")
    assert "the animal" in str(model.requests)
    assert "Zoe" not in str(model.requests)
    assert "temporary" in str(await run_turn(client, thread, "go", assistant="consolidation_agent"))
    document = await client.http.get("/memory/export")
    assert "Zoe" not in str(document)
    assert "the animal" in str(document)
    assert document["left_out"] == ["temporary conversations"]


async def test_a_thread_is_temporary_from_its_beginning_or_never(server: DevServer, alice: str) -> None:
    client, operator = server.as_user(alice), server.as_operator()
    temporary, ordinary = await new_thread(client), await new_thread(client, {})
    message: Any = {"messages": [{"role": "user", "content": "hello"}]}
    for who in (client, operator):
        for said in ({"temporary": False}, {"temporary": None}, {"title": "x"}):
            await who.threads.update(temporary, metadata=said)
        await who.threads.update(ordinary, metadata=TEMPORARY)
        await who.threads.create(thread_id=ordinary, metadata=TEMPORARY, if_exists="do_nothing")
        config: Any = {"metadata": TEMPORARY}
        await who.runs.wait(ordinary, "agent", input=message, metadata=TEMPORARY, config=config, if_not_exists="create")
        await who.runs.wait(temporary, "agent", input=message, metadata={"temporary": False})
        assert await is_temporary(client, temporary)
        assert not await is_temporary(client, ordinary)
        copies: list[Any] = [await who.http.post(f"/threads/{thread}/copy", json={}) for thread in (temporary, ordinary)]
        assert [bool(copy["metadata"].get("temporary")) for copy in copies] == [True, False]
    run = (await client.runs.list(ordinary, limit=1))[0]
    assert "temporary" not in (run["metadata"] or {})


async def test_a_run_that_creates_its_thread_may_make_it_temporary(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    await remember(client, model, "likes fennel")
    message: Any = {"messages": [{"role": "user", "content": "hello"}]}
    thread = str(uuid4())
    await client.runs.wait(thread, "agent", input=message, metadata=TEMPORARY, if_not_exists="create")
    await client.runs.wait(thread, "agent", input=message)
    assert await is_temporary(client, thread)
    await client.runs.wait(None, "agent", input=message, metadata=TEMPORARY)
    payloads: Any = [{"assistant_id": "agent", "input": message, "metadata": TEMPORARY, "on_completion": "keep"}]
    (batched,) = await client.runs.create_batch(payloads)
    await client.runs.join(batched["thread_id"], batched["run_id"])
    assert await is_temporary(client, batched["thread_id"])
    assert not any("fennel" in system_text(body) for body in model.requests[-4:])
    await client.runs.wait(None, "agent", input=message)
    assert "fennel" in system_text(model.requests[-1])
    thread, config = str(uuid4()), cast("Any", {"metadata": TEMPORARY})
    await client.runs.wait(thread, "agent", input=message, config=config, if_not_exists="create")
    assert await is_temporary(client, thread)


async def test_temporary_is_said_with_true_or_not_at_all(server: DevServer, alice: str) -> None:
    client = server.as_user(alice)
    wrong: list[Any] = ["yes", 1, [True], {"temporary": True}]
    for value in wrong:
        with pytest.raises(UnprocessableEntityError, match="send true"):
            await new_thread(client, {"temporary": value})
    said: Any = {"temporary": "yes"}
    for asked in ({"metadata": said}, {"config": {"metadata": said}}):
        with pytest.raises(UnprocessableEntityError, match="send true"):
            await client.runs.create(None, "agent", input={"messages": []}, **asked)


@pytest.fixture
async def hasty(model: ScriptedAnthropic, tmp_path: Path) -> AsyncIterator[DevServer]:
    """A server on which a temporary conversation is over after two seconds, and any after six."""
    graphs = Path(__file__).parent / "hasty_graphs.py"
    config = {"graphs": {name: f"{graphs}:{name}" for name in BUILDERS}, "auth": {"path": f"{graphs}:auth"}}
    with DevServer(tmp_path, env=model_env(model), config=config) as server:
        yield server
        await server.close_clients()


async def test_the_sweep_and_the_next_visit_delete_what_is_over(hasty: DevServer, alice: str) -> None:
    person, bob, operator = hasty.person(alice), hasty.person("bob"), hasty.person("", headers=OPERATOR)

    async def left() -> set[str]:
        return {thread["thread_id"] for thread in await operator.made("POST", "/threads/search", {"limit": 100})}

    async def gone(*threads: str) -> bool:
        return (await left()).isdisjoint(threads)

    async def sweep() -> None:
        await operator.made("POST", "/runs/wait", {"assistant_id": "consolidation_agent", "input": {"messages": []}})

    await person.write("- dill")
    old = await person.thread()
    await person.turn(old, "hello")
    began, mine, bobs = time.monotonic(), await person.thread(temporary=True), await bob.thread(temporary=True)
    for who, thread in ((person, mine), (bob, bobs)):
        await who.turn(thread, "hello")
    await asyncio.sleep(2)
    kept = await person.thread()  # a visit
    await soon(lambda: gone(mine), 10)
    assert await left() >= {kept, bobs, old}
    await asyncio.sleep(max(began + 6 - time.monotonic(), 0))
    await person.turn(kept := await person.thread(), "hello")
    await sweep()
    assert await gone(bobs)
    assert await left() >= {kept, old}, "what was said in it is not consolidated yet"

    async def consolidated() -> bool:
        return any(run["ended_at"] for run in (await person.made("GET", "/memory/consolidations"))["consolidations"])

    await soon(consolidated)
    await sweep()
    assert await gone(old)
    await person.made("POST", "/threads", {"thread_id": old})
    assert not (await person.made("GET", f"/threads/{old}/state"))["values"], "its checkpoints are gone"
    assert await person.read() == "- dill", "memory stays"
