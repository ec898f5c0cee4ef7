"""`GET /memory/operations` and the log: what operators see of consolidation."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from lasting_memory.testing.dev_server import DevServer, dev_token, run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall

pytestmark = pytest.mark.server
WRITE = ToolCall("write_file", {"file_path": "/memories/preferences.md", "content": "- metric units\n"})


async def operations(server: DevServer, **parameters: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {dev_token('acme', 'root')}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=30) as http:
        return await http.get("/memory/operations", params=parameters)


async def test_operators_see_what_is_due(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    before: Any = (await operations(server)).json()
    client = server.as_user(alice)
    talk, consolidation = [str((await client.threads.create())["thread_id"]) for _ in range(2)]
    await run_turn(client, talk, "metric units, please")
    due: Any = (await operations(server)).json()
    assert due["due"]["people"] == before["due"]["people"] + 1
    assert due["due"]["oldest"]

    model.script("Conversations with something new", [WRITE], [Text("done")])
    await run_turn(client, consolidation, "consolidate", assistant="consolidation_agent")
    after: Any = (await operations(server)).json()
    assert after["due"]["people"] == before["due"]["people"]


async def test_each_run_is_one_line_that_names_nobody(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    client = server.as_user(alice)
    talk, consolidation = [str((await client.threads.create())["thread_id"]) for _ in range(2)]
    await run_turn(client, talk, "hello")
    model.script("Conversations with something new", [WRITE], [Text("done")])
    await run_turn(client, consolidation, "consolidate", assistant="consolidation_agent")
    run_id = (await client.runs.list(consolidation))[0]["run_id"]
    lines = [line for line in server.log.splitlines() if run_id in line and "consolidation {" in line]
    assert len(lines) == 1
    match = re.search(r"consolidation (\{.*?\})", lines[0])
    assert match
    told = json.loads(match[1])
    assert {name: told[name] for name in ("status", "people", "conversations")} == {
        "status": "done", "people": 1, "conversations": 1,
    }  # fmt: skip
    assert told["model_calls"] >= 2
    assert told["input_tokens"] > 0
    assert told["seconds"] >= 0
    assert alice not in match[1]


async def test_it_is_about_everybody_and_for_operators(server: DevServer, alice: str) -> None:
    assert (await operations(server, user_id=alice, org_id="acme")).status_code == 422
    headers = {"Authorization": f"Bearer {dev_token('acme', alice)}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False) as http:
        assert (await http.get("/memory/operations")).status_code == 403
