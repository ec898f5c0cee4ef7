"""`GET /memory/operations` and the log: what operators see of consolidation."""

import json
import re

import pytest

from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall

pytestmark = pytest.mark.server
WRITE = ToolCall("write_file", {"file_path": "/memories/preferences.md", "content": "- metric units\n"})


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
