"""The whole deployment on the real `langgraph dev`: what lasts, what fails alone, what bad input
does.
"""

import asyncio
import http.client
import select
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from lasting_memory import recall, seeding
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.testing.deployed import PROJECT, deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    Slow,
    Text,
    ToolCall,
    system_text,
    tool_results,
)
from lasting_memory.testing.stores import SERVED, SUBJECTS
from tests.conftest import note, served

pytestmark = pytest.mark.server
indexed = served(config={"store": {"index": SERVED}})


async def test_consolidation_writes_what_the_agent_shows_in_another_thread(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    write = ToolCall(
        "write_file", {"file_path": "/memories/preferences.md", "content": "- metric units\n"}
    )
    model.script("Conversations with something new", [write], [Text("done")])
    person = server.person(alice)
    await person.turn(await person.thread(), "metric units, please")
    await person.turn(await person.thread(), "consolidate", "consolidation_agent")
    for somebody, knows in (
        (person, True),
        (server.person(f"other-{alice}"), False),
        (server.person(alice, "globex"), False),
    ):
        await somebody.turn(await somebody.thread(), "hello")
        assert ("- metric units" in system_text(model.requests_for("hello")[-1])) is knows


async def test_a_run_stopped_in_the_middle_keeps_what_it_wrote(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    person, client = server.person(alice), server.as_user(alice)
    thread = await person.thread()
    model.script("stop me", [note("written before the stop")], Slow(30, [Text("never")]))
    message: Any = {"messages": [{"role": "user", "content": "stop me"}]}
    run = await client.runs.create(thread, "agent", input=message)
    await model.asked("stop me", 2)
    await client.runs.cancel(thread, run["run_id"], wait=True)
    assert "- written before the stop" in (await person.read("/memories/preferences.md") or "")
    assert (await person.turn(thread, "and go on"))["messages"][-1]["content"] == "ok"


@pytest.mark.proof
async def test_the_platform_s_semantic_index_is_used_where_langgraph_json_has_one(
    indexed: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    """In memory and in past conversations, also where a person searches several times at once. A
    restart keeps both.
    """
    person = indexed.person(alice)
    thread, another = await person.thread(), await person.thread()
    model.script("we have a puppy", [note("Has a puppy.")], [Text("done")])
    await person.turn(thread, "we have a puppy")
    await person.turn(another, "we sold the vehicle")
    indexed.restart()
    for _ in range(2):
        answers = await asyncio.gather(
            *(person.made("GET", "/memory/search", q="pet") for _ in range(8))
        )
        assert [answer["conversations"][0]["thread_id"] for answer in answers] == [thread] * 8
    model.script(
        "what animals", [ToolCall("search_memories", {"query": "any pet?"})], [Text("done")]
    )
    await person.turn(another, "what animals")
    last = model.requests[-1]
    assert "Has a puppy." in tool_results(last)[0]
    assert "- Has a puppy." in system_text(last)
    assert "we sold the vehicle" in str(last["messages"])


async def test_the_command_for_another_model_has_everybody_s_conversations_embedded_anew(
    indexed: DevServer, alice: str
) -> None:
    person, operator = indexed.person(alice), indexed.as_operator()
    await person.turn(thread := await person.thread(), "we have a puppy")

    async def found() -> list[str]:
        return [
            talk["thread_id"]
            for talk in (await person.made("GET", "/memory/search", q="pet"))["conversations"]
        ]

    assert await found() == [thread]
    where = namespaces.recall(Actor(alice, "acme"), "texts")
    assert (await operator.store.get_item(where, recall.MODEL))["value"] == {
        "model": f"embed, {len(SUBJECTS)} dimensions"
    }
    await operator.store.put_item(where, recall.MODEL, {"model": "another"}, index=False)
    assert await found() == []
    lines = await seeding.seed(operator, [seeding.EMBEDDINGS], deployed(), prune=False)
    assert f"{where[1]}: embedded anew" in lines
    assert await found() == [thread]
    assert seeding.EMBEDDINGS not in seeding.PARTS


def test_a_bad_setting_stops_the_start_and_names_itself(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="SHARED_WRITES is 'maybe'"),
        DevServer(tmp_path, env={"SHARED_WRITES": "maybe"}),
    ):
        pass


def test_an_agent_without_a_part_that_keeps_it_safe_stops_the_start(tmp_path: Path) -> None:
    project = Path(shutil.copytree(PROJECT, tmp_path / "project"))
    agent = (project / "agent.py").read_text("utf-8")
    part = "        subagents=subagents(d, WRITER),  # and the helper; each sees policies\n"
    assert part in agent
    (project / "agent.py").write_text(agent.replace(part, ""), "utf-8")
    with (
        pytest.raises(
            RuntimeError,
            match=r"'agent' of langgraph\.json: The subagent 'general-purpose' sees no policies",
        ),
        DevServer(tmp_path, project=project),
    ):
        pass


@pytest.mark.proof
def test_an_idle_connection_is_left_to_its_client_to_close(server: DevServer) -> None:
    """httpx keeps one for five seconds, as long as uvicorn would: a request in the moment of its
    closing would be lost.
    """
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET /ok HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.read()
        closed, _, _ = select.select([connection], [], [], 8)
        assert not closed
