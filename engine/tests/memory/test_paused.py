"""Memory that is paused: nothing new is remembered, what is known is used, and the person's own hands always work."""

import asyncio
import threading
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.scripted_anthropic import Reply, ScriptedAnthropic, Text, ToolCall, system_text
from tests.consolidation.runs import READ, READY, TASK, go, while_it_works
from tests.turns import called, chat, control, new_thread, note, say, status

pytestmark = pytest.mark.server

PREFERENCES = {"path": "/memories/preferences.md"}


async def consolidate(client: LangGraphClient, model: ScriptedAnthropic) -> tuple[str, str]:
    """What a consolidation says at its end, and what its model was shown."""
    model.clear()
    model.script(TASK, [READ], READY)
    return await go(client), str(model.requests)


async def test_what_is_known_is_used_and_nothing_new_is_written(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """What is known is used, and nothing new is written, also in a run that is going."""
    client, bob = server.as_user(alice), server.as_user(f"bob-{alice}")
    await called(client, model, note("likes fennel"))
    before = await client.http.get("/memory")
    hidden: Reply = [note("hidden")]
    model.script("while it goes", while_it_works(lambda: control(client, paused=True), hidden), READY)
    assert "Memory is paused" in str((await say(client, "while it goes"))["messages"])
    calls = [note("hidden"), ToolCall("save_profile", {"profile": {"name": "A"}})]
    calls.append(ToolCall("write_file", {"file_path": "/memories/x.md", "content": "hidden"}))
    calls.append(ToolCall("task", {"description": "delegated", "subagent_type": "general-purpose"}))
    model.script("delegated", hidden, READY)
    await called(client, model, *calls)
    assert "fennel" in system_text(model.requests[-1])
    assert "has paused their memory" in system_text(model.requests[-1])
    assert await client.http.get("/memory") == before
    await called(bob, model, note("likes dill"))
    assert "dill" in str(await bob.http.get("/memory/file", params=PREFERENCES))
    await control(client, paused=False)
    await called(client, model, note("likes leek"))
    assert "leek" in str(await client.http.get("/memory/file", params=PREFERENCES))


async def test_what_is_said_meanwhile_is_never_consolidated_and_can_be_searched(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    await chat(client, "said before it was paused")
    going = await chat(client, "begun before it was paused")
    await control(client, paused=True)
    held = await new_thread(client)
    await asyncio.gather(*(run_turn(client, thread, "a zebra called Zoe") for thread in (held, going)))
    assert (await consolidate(client, model))[0] == "Memory is paused: nothing is consolidated."
    assert await status(client.http.post("/memory/consolidate", json={})) == 409
    await control(client, paused=False)
    copy: Any = await client.http.post(f"/threads/{held}/copy", json={})
    for who in (client, server.as_operator()):
        await who.threads.update(held, metadata={"held_while_paused": False})
    for thread in (held, copy["thread_id"]):
        await run_turn(client, thread, "after it was resumed")
    await run_turn(client, await new_thread(client, {"held_while_paused": True}), "a new one")
    said, shown = await consolidate(client, model)
    assert said == "2 conversations were consolidated."
    assert "said before it was paused" in shown
    assert "a new one" in shown
    assert "Zoe" not in shown
    assert "after it was resumed" not in shown
    assert "Zoe" in str(await called(client, model, ToolCall("search_past_conversations", {"query": "zebra"})))


async def test_a_message_of_a_pause_counts_as_such_also_where_its_run_begins_after_it(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, over = server.as_user(alice), threading.Event()

    async def queue(thread: str, text: str) -> str:
        message: Any = {"messages": [{"role": "user", "content": text}]}
        return str((await client.runs.create(thread, "agent", input=message, multitask_strategy="enqueue"))["run_id"])

    held, after = threads = [await new_thread(client) for _ in range(2)]
    model.script("go on", *[lambda _: [Text("done" if over.wait(60) else "late")]] * 2)
    for thread in threads:
        await queue(thread, "go on")
    await model.asked("go on", 2)
    await control(client, paused=True)
    waiting = [await queue(held, "sent in the pause")]
    await control(client, paused=False)
    waiting.append(await queue(after, "sent after the pause"))
    over.set()
    for thread, run in zip(threads, waiting, strict=True):
        await client.runs.join(thread, run)
    said, shown = await consolidate(client, model)
    assert said == "1 conversations were consolidated."
    assert "sent after the pause" in shown
    assert "sent in the pause" not in shown


async def test_a_consolidation_that_is_going_when_memory_is_paused_changes_nothing(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    await chat(client, "I like dill")
    model.script(
        TASK,
        [ToolCall("append_memory", {"path": "/memories/food.md", "text": "- dill"})],
        while_it_works(lambda: control(client, paused=True)),
    )
    await go(client)
    assert "food.md" not in str(await client.http.get("/memory"))
    (record, *_) = (await client.http.get("/memory/consolidations"))["consolidations"]
    assert (record["status"], record["reason"]) == ("undone", "Memory is paused.")
    await control(client, paused=False)
    assert "I like dill" in (await consolidate(client, model))[1], "it stays due"


async def test_the_person_s_own_hands_work_and_each_control_is_set_by_itself(server: DevServer, alice: str) -> None:
    client = server.as_user(alice)
    assert await client.http.get("/memory/controls") == {"paused": False, "review": False}
    assert await control(client, paused=True) == {"paused": True, "review": False}
    assert await control(client, review=True) == {"paused": True, "review": True}
    await asyncio.gather(control(client, paused=False), control(client, review=False), control(client, paused=False))
    assert await control(client, paused=True, review=False) == {"paused": True, "review": False}
    file = {"path": "/memories/own.md"}
    for content in ("mine", "mine again"):
        await client.http.put("/memory/file", params=file, json={"content": content})
    await client.http.post("/memory/undo", json={**file, "revision": 1})
    document = {"version": 1, "files": [{"path": "/memories/more.md", "content": "x"}]}
    await client.http.post("/memory/import", json=document)
    assert {"/memories/own.md", "/memories/more.md"} <= {file["path"] for file in (await client.http.get("/memory"))["files"]}
    assert (await client.http.get("/memory/export"))["controls"] == {"paused": True, "review": False}
    for body in ({"paused": "yes"}, {"paused": None}, {"paused": True, "other": True}):
        assert await status(client.http.put("/memory/controls", json=body)) == 422, body
    await client.http.delete("/memory")
    assert await client.http.get("/memory/controls") == {"paused": False, "review": False}
