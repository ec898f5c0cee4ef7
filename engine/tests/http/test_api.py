"""A person's own view of their memory on the real server: seen, corrected, taken along, forgotten.
What the log says.
"""

import asyncio
import json
import re
import threading
from typing import Any
from uuid import uuid4

import pytest

from lasting_memory.people.identity import label
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import FILE
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    Text,
    ToolCall,
    after,
    tool_results,
)
from tests.conftest import batch_with, served
from tests.http.conftest import NOTES


def note(text: str) -> ToolCall:
    return ToolCall("append_memory", {"path": "/memories/notes.md", "text": text})


@pytest.mark.server
async def test_memory_is_seen_corrected_undone_and_taken_along(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    mine, theirs = server.person(alice), server.person(f"other-{alice}")
    thread = await mine.thread()
    model.script("I fly gliders", [note("- flies gliders")], [Text("noted")])
    await mine.turn(thread, "I fly gliders")
    await theirs.say("not to be exported")
    (revision,) = (await mine.made("GET", "/memory/history", **NOTES))["revisions"]
    assert (revision["author"]["kind"], revision["author"]["thread_id"]) == ("agent", thread)
    await mine.write(FILE, "- flies balloons\n")
    model.script(
        "what do I fly?", [ToolCall("read_file", {"file_path": "/memories/notes.md"})], [Text("ok")]
    )
    await mine.say("what do I fly?")
    assert "flies balloons" in tool_results(model.requests[-1])[0]
    assert (await mine.made("POST", "/memory/undo", {**NOTES, "revision": 1}))["revision"] == 3
    assert await mine.read() == "- flies gliders\n"

    answer = await mine.ask("GET", "/memory/export")
    told = answer.json()
    assert "memory.json" in answer.headers["content-disposition"]
    assert (told["version"], told["user_id"], told["org_id"]) == (1, alice, "acme")
    (file,) = (file for file in told["files"] if file["path"] == NOTES["path"])
    assert file["content"] == "- flies gliders\n"
    assert [entry["revision"] for entry in file["revisions"]] == [3, 2, 1]
    assert file["revisions"][1]["content"] == "- flies balloons\n"
    assert len(told["conversations"]) == 2
    (talk,) = (talk for talk in told["conversations"] if talk["thread_id"] == thread)
    assert talk["created_at"] <= talk["updated_at"] <= told["exported_at"]
    assert [message["type"] for message in talk["values"]["messages"]] == [
        "human",
        "ai",
        "tool",
        "ai",
    ]
    assert "not to be exported" not in answer.text

    imported = await theirs.made("POST", "/memory/import", told)
    assert {step["path"]: step["action"] for step in imported["files"]}[NOTES["path"]] == "create"
    assert await theirs.read() == "- flies gliders\n"


@pytest.mark.server
async def test_a_forgotten_person_leaves_nothing(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """And a run that was going writes nothing."""
    person, bob, operator = (
        server.person(alice),
        server.person(f"bob-{alice}"),
        server.as_operator(),
    )
    model.script("remember", [note("- before")], [Text("noted")])
    finished = await person.thread()
    await person.turn(finished, "remember")
    model.script(
        batch_with("remember"),
        [ToolCall("search_recent_conversations", {})],
        [Text("done")],
    )
    await person.say("", "consolidation_agent")
    slow, answered = await person.thread(), threading.Event()
    model.script("take your time", after(answered, [note("- after")]))
    question = {
        "assistant_id": "agent",
        "input": {"messages": [{"role": "user", "content": "take your time"}]},
    }
    later: list[tuple[str, Any]] = [
        (slow, {"multitask_strategy": "enqueue"}),
        (await person.thread(), {"after_seconds": 3600}),
    ]
    for thread, more in ((slow, {}), *later):
        await person.made("POST", f"/threads/{thread}/runs", {**question, **more})
    await bob.say("hello from bob")
    await model.asked("take your time")
    forgotten, _ = await asyncio.gather(person.made("DELETE", "/memory"), bob.write(FILE, "bob's"))
    # Two files: what was seeded, and the notes.
    assert {"threads": 4, "runs": 3, "memories": 2, "consolidation": 1}.items() <= forgotten[
        "deleted"
    ].items()
    assert any(
        "Traces" in reason and f'eq(metadata_value, "{alice}")' in reason
        for reason in forgotten["kept"]
    )
    answered.set()
    await server.person(f"carol-{alice}").say("hello")  # a whole turn, which came after
    assert (await person.made("GET", "/memory"))["files"] == []
    assert (await person.ask("GET", "/memory/history", **NOTES)).status_code == 404
    assert (await person.made("GET", "/memory/export"))["conversations"] == []
    assert (await person.made("DELETE", "/memory"))["deleted"] == {
        "runs": 0,
        "threads": 0,
        "memories": 0,
    }
    assert await bob.read() == "bob's"
    mine = {"user_id": alice, "org_id": "acme"}
    assert await operator.threads.search(metadata=mine) == []
    assert len(await operator.threads.search(metadata={**mine, "user_id": f"bob-{alice}"})) == 1
    for thread in (finished, slow):
        await operator.threads.create(thread_id=thread, graph_id="agent")
        assert not (await operator.threads.get_state(thread))["values"], (
            "checkpoints outlasted their thread"
        )
        await operator.threads.delete(thread)
    items = (await operator.store.search_items([], limit=1000))["items"]
    assert {
        item["namespace"][0] for item in items if f"acme:{label(alice)}" in item["namespace"]
    } == {"forgotten"}
    assert f"AUDIT memory.forget org='acme' user='{alice}' by='{alice}'" in server.log
    model.script("start again", [note("- anew")], [Text("noted")])
    await person.say("start again")
    assert await person.read() == "- anew\n"
    assert (await server.person("root").made("DELETE", "/memory", **mine))["deleted"][
        "memories"
    ] >= 1
    assert f"user='{alice}' by='root'" in server.log


@pytest.mark.server
async def test_the_server_describes_the_routes(server: DevServer) -> None:
    nobody = server.person("", headers={})
    spec = await nobody.made("GET", "/openapi.json")
    assert spec["security"] == [{name: []} for name in spec["components"]["securitySchemes"]]
    assert spec["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    own = {
        (path, method): of
        for path, of in spec["paths"].items()
        if path.startswith("/memory")
        for method, of in of.items()
    }
    assert len(own) > 20
    assert [route for route, of in own.items() if not of["summary"] or not of["description"]] == []


@pytest.mark.server
async def test_each_line_says_who_wrote_it_and_where(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    person = server.person(alice)
    threads = [await person.thread() for _ in range(3)]
    model.script("likes dill", [note("- likes dill")], [Text("noted")])
    for thread, said in zip(threads, ("likes dill", "I like leek", "I like kale"), strict=True):
        await person.turn(thread, said)
    named = f"- likes leek (2026-01-01, thread {threads[1]})"
    model.script(batch_with("I like leek"), [note(f"{named}\n- likes kale")], [Text("done")])
    await person.say("go", "consolidation_agent")
    await person.write(FILE, f"# Food\n{await person.read()}")
    file = await person.made("GET", "/memory/file", **NOTES)
    assert file["content"].splitlines() == ["# Food", "- likes dill", named, "- likes kale"]
    assert [
        (line["author"]["kind"], line["revision"], line["threads"]) for line in file["lines"]
    ] == [
        ("person", 3, []),
        ("agent", 1, [threads[0]]),
        ("consolidation", 2, [threads[1]]),
        ("consolidation", 2, sorted(threads)),
    ]
    assert all(line["at"] for line in file["lines"])


WRITE = ToolCall(
    "write_file", {"file_path": "/memories/preferences.md", "content": "- metric units\n"}
)
talkative = served(LOG_LEVEL="INFO")


@pytest.mark.server
async def test_the_log_names_requests_and_nothing_of_what_they_ask_for(
    talkative: DevServer, alice: str
) -> None:
    said, mark, somebody = f"secret{uuid4().hex}", f"last-{uuid4().hex}", talkative.person(alice)
    callers = [
        somebody,
        *(
            talkative.person("", headers=headers)
            for headers in ({}, {"Authorization": "Bearer none"})
        ),
    ]
    for path in ("/memory", "/memory/search", "/memory/file", "/memory/nothing"):
        for caller in callers:
            for name in ("q", "path", "user_id", "unknown"):
                await caller.ask("GET", path, **{name: said})
            await caller.ask("PUT", path, {"content": "x"}, path=f"/memories/{said}.md")
    await somebody.ask("GET", f"/memory/{mark}")
    async with asyncio.timeout(300):
        while mark not in talkative.log:  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.1)
    assert "/memory/search" in talkative.log
    assert said not in talkative.log


@pytest.mark.server
async def test_a_new_conversation_is_no_warning(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """Whether the client makes the thread first, or the run does. A thread that is not there yet
    was asked for.
    """
    before, person, made = len(server.log), server.person(alice), str(uuid4())
    await person.say("hello")
    await person.turn(made, "hello", if_not_exists="create")
    message = {"messages": [{"role": "user", "content": "hello"}]}
    await person.made("POST", "/runs/wait", {"assistant_id": "agent", "input": message})
    new = server.log[before:]
    assert [
        line
        for line in new.splitlines()
        if " 404 " in line and (made in line or "/threads/" in line)
    ] == []


@pytest.mark.server
async def test_operators_see_what_is_due_and_a_line_a_run(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    person, root = server.person(alice), server.person("root", "default")
    before = (await root.made("GET", "/memory/operations"))["due"]
    await person.say("metric units, please")
    due = (await root.made("GET", "/memory/operations"))["due"]
    assert (due["people"], bool(due["oldest"])) == (before["people"] + 1, True)
    assert (
        await root.ask("GET", "/memory/operations", user_id=alice, org_id="acme")
    ).status_code == 422, "it is about all"
    model.script(batch_with("metric units, please"), [WRITE], [Text("done")])
    consolidation = await person.thread()
    await person.turn(consolidation, "consolidate", "consolidation_agent")
    assert (await root.made("GET", "/memory/operations"))["due"]["people"] == before["people"]

    (run,) = await person.made("GET", f"/threads/{consolidation}/runs")
    (line,) = (
        line
        for line in server.log.splitlines()
        if run["run_id"] in line and "consolidation {" in line
    )
    match = re.search(r"consolidation (\{.*?\})", line)
    assert match
    told = json.loads(match[1])
    assert {"status": "done", "people": 1, "conversations": 1}.items() <= told.items()
    assert (told["model_calls"] >= 2, told["input_tokens"] > 0, told["seconds"] >= 0) == (
        True,
        True,
        True,
    )
    assert alice not in match[1]
