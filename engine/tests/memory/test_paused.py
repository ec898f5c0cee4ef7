"""Memory that is paused: nothing new is remembered, what is known is used, and the person's own hands always work."""

import asyncio
import threading
from typing import Any

import pytest

from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import Reply, Text, ToolCall, system_text
from tests.consolidation.runs import READ, READY, TASK, go, while_it_works
from tests.turns import Somebody, note, status

pytestmark = pytest.mark.server

PREFERENCES = "/memories/preferences.md"


async def consolidate(who: Somebody) -> tuple[str, str]:
    """What a consolidation says at its end, and what its model was shown."""
    who.model.clear()
    who.model.script(TASK, [READ], READY)
    return await go(who), str(who.model.requests)


async def test_what_is_known_is_used_and_nothing_new_is_written(ada: Somebody, bob: Somebody) -> None:
    await ada.called(note("likes fennel"))
    before = await ada.http.get("/memory")
    hidden: Reply = [note("hidden")]
    ada.model.script("while it goes", while_it_works(lambda: ada.control(paused=True), hidden), READY)
    assert "Memory is paused" in str((await ada.say("while it goes"))["messages"])
    calls = [note("hidden"), ToolCall("save_profile", {"profile": {"name": "A"}})]
    calls.append(ToolCall("write_file", {"file_path": "/memories/x.md", "content": "hidden"}))
    calls.append(ToolCall("task", {"description": "delegated", "subagent_type": "general-purpose"}))
    ada.model.script("delegated", hidden, READY)
    await ada.called(*calls)
    assert "fennel" in system_text(ada.model.requests[-1])
    assert "has paused their memory" in system_text(ada.model.requests[-1])
    assert await ada.http.get("/memory") == before
    await bob.called(note("likes dill"))
    assert "dill" in await bob.file(PREFERENCES)
    await ada.control(paused=False)
    await ada.called(note("likes leek"))
    assert "leek" in await ada.file(PREFERENCES)


async def test_what_is_said_meanwhile_is_never_consolidated_and_can_be_searched(server: DevServer, ada: Somebody) -> None:
    await ada.chat("said before it was paused")
    going = await ada.chat("begun before it was paused")
    await ada.control(paused=True)
    held = await ada.thread()
    await asyncio.gather(*(ada.turn(thread, "a zebra called Zoe") for thread in (held, going)))
    assert (await consolidate(ada))[0] == "Memory is paused: nothing is consolidated."
    assert await status(ada.http.post("/memory/consolidate", json={})) == 409
    await ada.control(paused=False)
    copy: Any = await ada.http.post(f"/threads/{held}/copy", json={})
    for who in (ada.client, server.as_operator()):
        await who.threads.update(held, metadata={"held_while_paused": False})
    for thread in (held, copy["thread_id"]):
        await ada.turn(thread, "after it was resumed")
    await ada.turn(await ada.thread({"held_while_paused": True}), "a new one")
    said, shown = await consolidate(ada)
    assert said == "2 conversations were consolidated."
    assert "said before it was paused" in shown
    assert "a new one" in shown
    assert "Zoe" not in shown
    assert "after it was resumed" not in shown
    assert "Zoe" in str(await ada.called(ToolCall("search_past_conversations", {"query": "zebra"})))


async def test_a_message_of_a_pause_counts_as_such_also_where_its_run_begins_after_it(ada: Somebody) -> None:
    over = threading.Event()

    async def queue(thread: str, text: str) -> str:
        message: Any = {"messages": [{"role": "user", "content": text}]}
        return str((await ada.client.runs.create(thread, "agent", input=message, multitask_strategy="enqueue"))["run_id"])

    held, after = threads = [await ada.thread() for _ in range(2)]
    ada.model.script("go on", *[lambda _: [Text("done" if over.wait(60) else "late")]] * 2)
    for thread in threads:
        await queue(thread, "go on")
    await ada.model.asked("go on", 2)
    await ada.control(paused=True)
    waiting = [await queue(held, "sent in the pause")]
    await ada.control(paused=False)
    waiting.append(await queue(after, "sent after the pause"))
    over.set()
    for thread, run in zip(threads, waiting, strict=True):
        await ada.client.runs.join(thread, run)
    said, shown = await consolidate(ada)
    assert said == "1 conversations were consolidated."
    assert "sent after the pause" in shown
    assert "sent in the pause" not in shown


async def test_a_consolidation_that_is_going_when_memory_is_paused_changes_nothing(ada: Somebody) -> None:
    await ada.chat("I like dill")
    ada.model.script(
        TASK,
        [ToolCall("append_memory", {"path": "/memories/food.md", "text": "- dill"})],
        while_it_works(lambda: ada.control(paused=True)),
    )
    await go(ada)
    assert "food.md" not in str(await ada.http.get("/memory"))
    (record, *_) = await ada.listed("consolidations")
    assert (record["status"], record["reason"]) == ("undone", "Memory is paused.")
    await ada.control(paused=False)
    assert "I like dill" in (await consolidate(ada))[1], "it stays due"


async def test_the_person_s_own_hands_work_and_each_control_is_set_by_itself(ada: Somebody) -> None:
    assert await ada.http.get("/memory/controls") == {"paused": False, "review": False}
    assert await ada.control(paused=True) == {"paused": True, "review": False}
    assert await ada.control(review=True) == {"paused": True, "review": True}
    await asyncio.gather(ada.control(paused=False), ada.control(review=False), ada.control(paused=False))
    assert await ada.control(paused=True, review=False) == {"paused": True, "review": False}
    for content in ("mine", "mine again"):
        await ada.write("/memories/own.md", content)
    await ada.http.post("/memory/undo", json={"path": "/memories/own.md", "revision": 1})
    document = {"version": 1, "files": [{"path": "/memories/more.md", "content": "x"}]}
    await ada.http.post("/memory/import", json=document)
    assert {"/memories/own.md", "/memories/more.md"} <= {file["path"] for file in await ada.listed("files")}
    assert (await ada.http.get("/memory/export"))["controls"] == {"paused": True, "review": False}
    for body in ({"paused": "yes"}, {"paused": None}, {"paused": True, "other": True}):
        assert await status(ada.http.put("/memory/controls", json=body)) == 422, body
    await ada.http.delete("/memory")
    assert await ada.http.get("/memory/controls") == {"paused": False, "review": False}
