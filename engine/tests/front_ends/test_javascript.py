"""docs/front-ends.md, held by the JavaScript client that those front ends call: `calls.mjs` makes their calls with it."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lasting_memory.testing.dev_server import DevServer, dev_token, run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall
from tests.conftest import served

HERE = Path(__file__).parent
CALL_SECONDS = 40
pytestmark = [
    pytest.mark.server,
    pytest.mark.proof,  # npm installs sixty megabytes
    pytest.mark.skipif(not shutil.which("node") or not shutil.which("npm"), reason="node or npm is not installed"),
]
SKILL = "---\nname: greeting\ndescription: A skill.\n---\n\nSay hello.\n"


@pytest.fixture(scope="module")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the client and the calls."""
    folder = tmp_path_factory.mktemp("javascript")
    for name in ("package.json", "calls.mjs"):
        shutil.copy(HERE / name, folder)
    install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
    subprocess.run(install, cwd=folder, check=True, timeout=180)
    return folder


approving = served(OPERATORS="root", SHARED_WRITES="interrupt")


async def call(folder: Path, server: DevServer, person: str, name: str, **given: Any) -> Any:
    """What a call of `calls.mjs` printed, as `person` of acme: `ok`, or `status` and `error`."""
    arguments = json.dumps({"url": server.url, "token": dev_token("acme", person), **given})
    command = ["node", "calls.mjs", name, arguments]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, capture_output=True, text=True, timeout=CALL_SECONDS, check=True
    )
    return json.loads(done.stdout)


def texts(state: Any) -> list[Any]:
    return [message["content"] for message in state["messages"]]


async def test_a_stream_with_the_token_ends_with_the_answer(
    javascript: Path, server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    model.script("plant", [Text("Water it on Sundays.")])
    seen = (await call(javascript, server, alice, "stream", text="How do I keep my plant alive?"))["ok"]
    assert texts(seen["last"])[-1] == "Water it on Sundays."


async def test_a_closed_page_joins_its_run_again_with_all_events(
    javascript: Path, server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    model.script("and leave", Slow(1, [Text("You came back.")]))
    seen = (await call(javascript, server, alice, "join", text="ask and leave"))["ok"]
    assert texts(seen["last"])[-1] == "You came back."


async def test_the_newer_protocol_of_threads_works_with_the_token(
    javascript: Path, server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    model.script("newer", [Text("It does.")])
    seen = (await call(javascript, server, alice, "protocol", text="Does the newer one work?"))["ok"]
    assert "It does." in json.dumps(seen["last"])


async def test_files_of_the_thread_are_in_its_state_and_can_be_edited(
    javascript: Path, server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    thread = str((await client.threads.create())["thread_id"])
    model.script("draft", [ToolCall("write_file", {"file_path": "/draft.md", "content": "one"})], [Text("done")])
    await run_turn(client, thread, "write a draft")
    state = (await call(javascript, server, alice, "state", thread=thread))["ok"]
    file = state["values"]["files"]["/draft.md"]
    assert file["content"] == "one"
    await call(javascript, server, alice, "setFiles", thread=thread, extra={"/draft.md": {**file, "content": "two"}})
    state = (await call(javascript, server, alice, "state", thread=thread))["ok"]
    assert state["values"]["files"]["/draft.md"]["content"] == "two"


async def test_what_front_ends_send_unchanged_is_refused(javascript: Path, server: DevServer, alice: str) -> None:
    client = server.as_user(alice)
    thread = str((await client.threads.create())["thread_id"])
    assert (await call(javascript, server, alice, "apiKey"))["status"] == 401
    assert (await call(javascript, server, alice, "step", thread=thread, text="step by step"))["status"] == 403


async def test_an_approval_is_an_operators_and_names_its_interrupt(
    javascript: Path, approving: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    write = ToolCall("write_file", {"file_path": "/skills/greeting/SKILL.md", "content": SKILL})
    model.script("learn", [write], [Text("done")])
    seen = (await call(javascript, approving, alice, "stream", text="learn to greet"))["ok"]
    thread, (interrupt,) = seen["thread"], seen["last"]["__interrupt__"]
    assert interrupt["value"]["action_requests"][0]["name"] == "write_file"
    assert seen["state"]["tasks"][0]["interrupts"][0]["id"] == interrupt["id"]

    decisions = {"decisions": [{"type": "approve"}]}
    named = {interrupt["id"]: decisions}
    assert (await call(javascript, approving, alice, "resume", thread=thread, extra=named))["status"] == 403
    assert (await call(javascript, approving, alice, "setFiles", thread=thread, extra={}))["status"] == 403
    assert (await call(javascript, approving, "root", "resume", thread=thread, extra=decisions))["status"] == 422
    seen = (await call(javascript, approving, "root", "resume", thread=thread, extra=named))["ok"]
    assert texts(seen["last"])[-1] == "done"
