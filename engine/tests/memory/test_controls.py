"""A person's controls: memory that is paused, temporary conversations, and what a memory starts
with.
"""

import asyncio
import shutil
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

from lasting_memory.memory.new_memory import starting_memory
from lasting_memory.people import identity, namespaces
from lasting_memory.testing.deployed import PROJECT, deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, system_text
from tests.conftest import note, people, status
from tests.consolidation.conftest import READ, READY, TASK, go, records, soon, while_it_works

pytestmark = [pytest.mark.server, pytest.mark.begins_first]

PREFERENCES = "/memories/preferences.md"


async def consolidate(who: Person) -> tuple[str, str]:
    """What a consolidation says at its end, and what its model was shown."""
    who.model.clear()
    who.model.script(TASK, [READ], READY)
    return await go(who), str(who.model.requests)


async def test_a_paused_memory_is_used_and_not_written(ada: Person, bob: Person) -> None:
    await ada.called(note("likes fennel"))
    before = await ada.http.get("/memory")
    hidden = [note("hidden")]
    ada.model.script(
        "while it goes", while_it_works(lambda: ada.control(paused=True), hidden), READY
    )
    assert "Memory is paused" in str((await ada.say("while it goes"))["messages"])
    ada.model.script("delegated", hidden, READY)
    profile, file = {"profile": {"name": "A"}}, {"file_path": "/memories/x.md", "content": "hidden"}
    task = ToolCall("task", {"description": "delegated", "subagent_type": "general-purpose"})
    await ada.called(*hidden, ToolCall("save_profile", profile), ToolCall("write_file", file), task)
    assert "fennel" in system_text(ada.model.requests[-1])
    assert "has paused their memory" in system_text(ada.model.requests[-1])
    assert await ada.http.get("/memory") == before
    await bob.called(note("likes dill"))
    assert "dill" in await bob.read(PREFERENCES)
    await ada.control(paused=False)
    await ada.called(note("likes leek"))
    assert "leek" in await ada.read(PREFERENCES)


async def test_messages_of_a_pause_are_never_consolidated_and_can_be_searched(
    server: DevServer, ada: Person
) -> None:
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
    await ada.turn(await ada.thread(held_while_paused=True), "a new one")
    said, shown = await consolidate(ada)
    assert said == "2 conversations were consolidated."
    assert "said before it was paused" in shown
    assert "a new one" in shown
    assert "Zoe" not in shown
    assert "after it was resumed" not in shown
    assert "Zoe" in str(await ada.called(ToolCall("search_past_conversations", {"query": "zebra"})))


async def test_a_message_of_a_pause_counts_as_such_also_where_its_run_begins_after_it(
    ada: Person,
) -> None:
    over = threading.Event()

    async def queue(thread: str, text: str) -> str:
        message: Any = {"messages": [{"role": "user", "content": text}]}
        return str(
            (
                await ada.client.runs.create(
                    thread, "agent", input=message, multitask_strategy="enqueue"
                )
            )["run_id"]
        )

    held, after = threads = [await ada.thread() for _ in range(2)]
    ada.model.script("go on", *[lambda _: [Text("done" if over.wait(600) else "late")]] * 2)
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


async def test_a_consolidation_that_is_going_when_memory_is_paused_changes_nothing(
    ada: Person,
) -> None:
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


async def test_the_person_s_own_hands_work_and_each_control_is_set_by_itself(ada: Person) -> None:
    assert await ada.http.get("/memory/controls") == {"paused": False, "review": False}
    assert await ada.control(paused=True) == {"paused": True, "review": False}
    assert await ada.control(review=True) == {"paused": True, "review": True}
    await asyncio.gather(
        ada.control(paused=False), ada.control(review=False), ada.control(paused=False)
    )
    assert await ada.control(paused=True, review=False) == {"paused": True, "review": False}
    for content in ("mine", "mine again"):
        await ada.write("/memories/own.md", content)
    await ada.http.post("/memory/undo", json={"path": "/memories/own.md", "revision": 1})
    document = {"version": 1, "files": [{"path": "/memories/more.md", "content": "x"}]}
    await ada.http.post("/memory/import", json=document)
    assert {"/memories/own.md", "/memories/more.md"} <= {
        file["path"] for file in await ada.listed("files")
    }
    assert (await ada.http.get("/memory/export"))["controls"] == {"paused": True, "review": False}
    for body in ({"paused": "yes"}, {"paused": None}, {"paused": True, "other": True}):
        assert await status(ada.http.put("/memory/controls", json=body)) == 422, body
    await ada.http.delete("/memory")
    assert await ada.http.get("/memory/controls") == {"paused": False, "review": False}


REMEMBERING = {
    "append_memory",
    "save_profile",
    "search_memories",
    "search_past_conversations",
    "read_conversation",
}
TEMPORARY: Any = {"temporary": True}
HELLO: Any = {"messages": [{"role": "user", "content": "hello"}]}


async def is_temporary(who: Person, thread_id: str) -> bool:
    return bool(((await who.client.threads.get(thread_id))["metadata"] or {}).get("temporary"))


async def test_a_temporary_conversation_is_shown_policies_and_nothing_of_memory(
    server: DevServer, ada: Person
) -> None:
    preferences, past = {"file_path": PREFERENCES}, await ada.thread()
    await ada.called(note("likes fennel"), thread=past)
    policy: Any = {"content": "Speak plainly.", "encoding": "utf-8"}
    await server.as_operator().store.put_item(["policies", "acme"], "/plain.md", policy)
    await ada.write(
        "/memories/skills/mine/SKILL.md", "---\nname: mine\ndescription: my skill\n---\n"
    )
    before = await ada.http.get("/memory")
    ada.model.requests.clear()
    ada.model.script("delegated", [note("x")], [Text("done")])
    results = await ada.called(
        note("hidden"),
        ToolCall("search_memories", {"query": "fennel"}),
        ToolCall("search_past_conversations", {"query": "fennel"}),
        ToolCall("read_conversation", {"thread_id": past}),
        ToolCall("write_file", {"file_path": "/memories/new.md", "content": "hidden"}),
        ToolCall("read_file", preferences),
        ToolCall("ls", {"path": "/memories"}),
        ToolCall("edit_file", {**preferences, "old_string": "fennel", "new_string": "hidden"}),
        ToolCall("write_file", {"file_path": "/scratch.md", "content": "only here"}),
        ToolCall("task", {"description": "delegated", "subagent_type": "general-purpose"}),
        thread=await ada.thread(**TEMPORARY),
    )
    for body in ada.model.requests:
        assert "Speak plainly." in system_text(body)
        assert "fennel" not in str(body["system"])
        assert "my skill" not in str(body["system"])
        assert REMEMBERING.isdisjoint(tool["name"] for tool in body["tools"])
    assert "fennel" not in str(results[:8])
    assert all("temporary conversation" in result for result in results[:5]), results
    delegated = [body for body in ada.model.requests if "delegated" in str(body["messages"][0])]
    assert "temporary conversation" in str(delegated[-1]["messages"])
    assert await ada.http.get("/memory") == before


async def test_a_temporary_conversation_is_not_searched_consolidated_or_exported(
    ada: Person,
) -> None:
    thread = await ada.thread(**TEMPORARY)
    await ada.turn(thread, "the zebra is called Zoe")
    copy: Any = await ada.http.post(f"/threads/{thread}/copy", json={})
    calls = [
        ToolCall("read_conversation", {"thread_id": one}) for one in (thread, copy["thread_id"])
    ]
    assert "Zoe" not in str(
        await ada.called(ToolCall("search_past_conversations", {"query": "zebra"}), *calls)
    )
    await ada.chat("what of the animal")
    ada.model.clear()
    ada.model.script(TASK, [READ], [Text("done")])
    await go(ada)
    assert "the animal" in str(ada.model.requests)
    assert "Zoe" not in str(ada.model.requests)
    assert "temporary" in str(await ada.turn(thread, "go", assistant="consolidation_agent"))
    document = await ada.http.get("/memory/export")
    assert "Zoe" not in str(document)
    assert "the animal" in str(document)
    assert document["left_out"] == ["temporary conversations"]


async def test_a_thread_is_temporary_from_its_beginning_or_never(
    server: DevServer, ada: Person
) -> None:
    operator = server.as_operator()
    temporary, ordinary = await ada.thread(**TEMPORARY), await ada.thread()
    for who in (ada.client, operator):
        for said in ({"temporary": False}, {"temporary": None}, {"title": "x"}):
            await who.threads.update(temporary, metadata=said)
        await who.threads.update(ordinary, metadata=TEMPORARY)
        await who.threads.create(thread_id=ordinary, metadata=TEMPORARY, if_exists="do_nothing")
        config: Any = {"metadata": TEMPORARY}
        await who.runs.wait(
            ordinary,
            "agent",
            input=HELLO,
            metadata=TEMPORARY,
            config=config,
            if_not_exists="create",
        )
        await who.runs.wait(temporary, "agent", input=HELLO, metadata={"temporary": False})
        assert await is_temporary(ada, temporary)
        assert not await is_temporary(ada, ordinary)
        copies: list[Any] = [
            await who.http.post(f"/threads/{thread}/copy", json={})
            for thread in (temporary, ordinary)
        ]
        assert [bool(copy["metadata"].get("temporary")) for copy in copies] == [True, False]
    run = (await ada.client.runs.list(ordinary, limit=1))[0]
    assert "temporary" not in (run["metadata"] or {})


async def test_a_run_that_creates_its_thread_may_make_it_temporary(ada: Person) -> None:
    thread = str(uuid4())
    await ada.called(note("likes fennel"))
    ada.model.requests.clear()
    await ada.client.runs.wait(
        thread, "agent", input=HELLO, metadata=TEMPORARY, if_not_exists="create"
    )
    await ada.client.runs.wait(thread, "agent", input=HELLO)
    await ada.client.runs.wait(None, "agent", input=HELLO, metadata=TEMPORARY)
    payloads: Any = [
        {"assistant_id": "agent", "input": HELLO, "metadata": TEMPORARY, "on_completion": "keep"}
    ]
    (batched,) = await ada.client.runs.create_batch(payloads)
    await ada.client.runs.join(batched["thread_id"], batched["run_id"])
    another, config = str(uuid4()), cast("Any", {"metadata": TEMPORARY})
    await ada.client.runs.wait(another, "agent", input=HELLO, config=config, if_not_exists="create")
    assert [await is_temporary(ada, each) for each in (thread, batched["thread_id"], another)] == [
        True
    ] * 3
    assert not any("fennel" in system_text(body) for body in ada.model.requests)
    await ada.client.runs.wait(None, "agent", input=HELLO)
    assert "fennel" in system_text(ada.model.requests[-1])


async def test_temporary_is_said_with_true_or_not_at_all(ada: Person) -> None:
    said = {"temporary": "yes"}
    for value in ("yes", 1, [True], {"temporary": True}):
        assert await status(ada.thread(temporary=value)) == 422
    asked: list[Any] = [{"metadata": said}, {"config": {"metadata": said}}]
    for each in asked:
        assert await status(ada.client.runs.create(None, "agent", input=HELLO, **each)) == 422


HASTY = ".parent, limits=Limits(temporary_hours=2 / 3600, conversation_days=20 / 86_400))"


@pytest.fixture
async def hasty(model: ScriptedAnthropic, tmp_path: Path) -> AsyncIterator[DevServer]:
    """A server on which a temporary conversation is over after two seconds, and any after twenty."""
    project = Path(shutil.copytree(PROJECT, tmp_path / "project"))
    text = (project / "deployment.py").read_text().replace(".parent)", HASTY)
    (project / "deployment.py").write_text(
        text.replace("import Deployment\n", "import Deployment, Limits\n")
    )
    with DevServer(tmp_path, env=model.env, project=project) as server:
        yield server
        await server.close_clients()


async def test_the_sweep_and_the_next_visit_delete_what_is_over(
    hasty: DevServer, model: ScriptedAnthropic
) -> None:
    operator, (ada, bob) = hasty.as_operator(), people(hasty, model, "ada", "bob")

    async def left() -> set[str]:
        return {thread["thread_id"] for thread in await operator.threads.search(limit=100)}

    async def gone(thread: str) -> bool:
        return thread not in await left()

    async def sweep() -> None:
        await operator.runs.wait(None, "consolidation_agent", input={"messages": list[Any]()})

    await ada.write(PREFERENCES, "- dill")
    old = await ada.chat("hello")
    began, mine, bobs = (
        time.monotonic(),
        await ada.thread(**TEMPORARY),
        await bob.thread(**TEMPORARY),
    )
    for who, thread in ((ada, mine), (bob, bobs)):
        await who.turn(thread, "hello")
    await asyncio.sleep(2)
    kept = await ada.thread()  # a visit
    await soon(lambda: gone(mine))
    assert await left() >= {kept, bobs, old}
    await asyncio.sleep(max(began + 20 - time.monotonic(), 0))
    kept = await ada.chat("hello")
    await sweep()
    assert await gone(bobs)
    assert await left() >= {kept, old}, "what was said in it is not consolidated yet"
    await records(ada)
    await sweep()
    assert await gone(old)
    for thread in (mine, old):
        await ada.client.threads.create(thread_id=thread)
        assert not (await ada.client.threads.get_state(thread))["values"], (
            "its checkpoints are gone"
        )
    assert await ada.read(PREFERENCES) == "- dill", "memory stays"


STARTING = {f"/memories{key}" for key in starting_memory(deployed().folder)}
NOTHING = "(Nothing is remembered yet.)"


async def paths(who: Person) -> set[str]:
    return {file["path"] for file in await who.listed("files")}


async def shows_nothing(who: Person) -> bool:
    """Whether a turn, and the view of the prompt, show that nothing is remembered."""
    await who.say("hello")
    return NOTHING in system_text(who.model.requests[-1]) and NOTHING in str(
        await who.http.get("/memory/prompt")
    )


@pytest.mark.parametrize("imported", [False, True], ids=["started", "imported"])
async def test_a_person_who_deletes_all_files_does_not_get_the_starting_files_back(
    ada: Person, imported: bool
) -> None:
    if imported:
        files = [{"path": "/memories/mine.md", "content": "- mine\n"}]
        await ada.http.post("/memory/import", json={"version": 1, "files": files})
    else:
        await ada.say("hello")
        assert await paths(ada) == STARTING != set()
    for path in await paths(ada):
        await ada.http.delete("/memory/file", params={"path": path})
    assert await shows_nothing(ada)
    assert await paths(ada) == set()
    await ada.http.delete("/memory")
    await ada.say("hello")
    assert await paths(ada) == STARTING, "who was forgotten begins anew"


async def test_a_paused_memory_gets_no_starting_files(server: DevServer, ada: Person) -> None:
    files = deployed().memory.namespace(identity.Actor(ada.name, "acme"), "")
    await ada.control(paused=True)
    assert await shows_nothing(ada)
    for path in (
        "",
        "/me",
        "/controls",
        "/search?q=hello",
        "/export",
        "/proposals",
        "/consolidations",
    ):
        await ada.http.get(f"/memory{path}")
    await go(ada)
    for namespace in (files, namespaces.journals(files)):
        assert (await server.as_operator().store.search_items(namespace))["items"] == []
    await ada.control(paused=False)
    await ada.say("hello")
    assert await paths(ada) == STARTING
