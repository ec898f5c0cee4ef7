"""What the log says of requests and of consolidation, and what operators see of that at `GET /memory/operations`."""

import asyncio
import json
import re
from typing import Any
from uuid import uuid4

import httpx
import pytest

from lasting_memory.testing.dev_server import DevServer, dev_token, run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import served

pytestmark = pytest.mark.server
WRITE = ToolCall("write_file", {"file_path": "/memories/preferences.md", "content": "- metric units\n"})


talkative = served(LOG_LEVEL="INFO")


async def test_the_log_names_requests_and_nothing_of_what_they_ask_for(talkative: DevServer, alice: str) -> None:
    said, token = f"secret{uuid4().hex}", {"Authorization": f"Bearer {dev_token('acme', alice)}"}
    async with httpx.AsyncClient(base_url=talkative.url, trust_env=False, timeout=60) as http:
        for path in ("/memory", "/memory/search", "/memory/file", "/memory/nothing"):
            for headers in (token, {}, {"Authorization": "Bearer none"}):
                for name in ("q", "path", "user_id", "unknown"):
                    await http.get(path, params={name: said}, headers=headers)
                await http.put(path, params={"path": f"/memories/{said}.md"}, json={"content": "x"}, headers=headers)
        await http.get(f"/memory/{(mark := f'last-{uuid4().hex}')}")
    async with asyncio.timeout(60):
        while mark not in talkative.log:  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.1)
    assert "/memory/search" in talkative.log
    assert said not in talkative.log


async def test_a_new_conversation_is_no_warning(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    """Whether the client makes the thread first, or the run does. A thread that is not there yet was asked for."""
    before, client = len(server.log), server.as_user(alice)
    await run_turn(client, str((await client.threads.create())["thread_id"]), "hello")
    await run_turn(client, made := str(uuid4()), "hello", if_not_exists="create")
    message: Any = {"messages": [{"role": "user", "content": "hello"}]}
    await client.runs.wait(None, "agent", input=message)
    new = server.log[before:]
    assert [line for line in new.splitlines() if " 404 " in line and (made in line or "/threads/" in line)] == []


async def test_operators_see_what_is_due_and_each_run_is_one_line_that_names_nobody(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    person, root = server.person(alice), server.person("root", "default")
    before = (await root.made("GET", "/memory/operations"))["due"]
    await person.turn(await person.thread(), "metric units, please")
    due = (await root.made("GET", "/memory/operations"))["due"]
    assert (due["people"], bool(due["oldest"])) == (before["people"] + 1, True)
    model.script("Conversations with something new", [WRITE], [Text("done")])
    consolidation = await person.thread()
    await person.turn(consolidation, "consolidate", "consolidation_agent")
    assert (await root.made("GET", "/memory/operations"))["due"]["people"] == before["people"]

    (run,) = await person.made("GET", f"/threads/{consolidation}/runs")
    (line,) = (line for line in server.log.splitlines() if run["run_id"] in line and "consolidation {" in line)
    match = re.search(r"consolidation (\{.*?\})", line)
    assert match
    told = json.loads(match[1])
    assert {"status": "done", "people": 1, "conversations": 1}.items() <= told.items()
    assert (told["model_calls"] >= 2, told["input_tokens"] > 0, told["seconds"] >= 0) == (True, True, True)
    assert alice not in match[1]


async def test_it_is_about_everybody_and_for_operators(server: DevServer, alice: str) -> None:
    asked = await server.person("root", "default").ask("GET", "/memory/operations", user_id=alice, org_id="acme")
    assert asked.status_code == 422
    assert (await server.person(alice).ask("GET", "/memory/operations")).status_code == 403
