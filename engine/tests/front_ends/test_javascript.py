"""docs/front-ends.md, held by the JavaScript client that those front ends call: `calls.mjs` makes their calls with it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lasting_memory.testing.dev_server import DevServer, dev_token, run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall
from tests.conftest import served
from tests.front_ends.conftest import Node

pytestmark = [pytest.mark.server, pytest.mark.proof]  # npm installs 170 megabytes
SKILL = "---\nname: greeting\ndescription: A skill.\n---\n\nSay hello.\n"
SDK, SDK_2 = "@langchain/langgraph-sdk", "langgraph-sdk-2"

Call = Callable[..., Awaitable[Any]]


approving = served(OPERATORS="root", SHARED_WRITES="interrupt")


@pytest.fixture(params=[SDK, SDK_2])
def sdk(request: pytest.FixtureRequest) -> str:
    """The newest client, and the older one that npm installs when it is asked for no version."""
    return str(request.param)


@pytest.fixture
def call(node: Node, sdk: str) -> Call:
    """`await call(server, person, name, **given)`: what a call of `calls.mjs` printed, as `person` of acme."""

    async def run(server: DevServer, person: str, name: str, **given: Any) -> Any:
        return await node("calls.mjs", name, sdk=sdk, url=server.url, token=dev_token("acme", person), **given)

    return run


def texts(state: Any) -> list[Any]:
    return [message["content"] for message in state["messages"]]


@pytest.mark.parametrize("name", ["stream", "onRequest"])
async def test_a_stream_with_the_token_ends_with_the_answer(
    call: Call, server: DevServer, model: ScriptedAnthropic, alice: str, name: str
) -> None:
    model.script("plant", [Text("Water it on Sundays.")])
    seen = (await call(server, alice, name, text="How do I keep my plant alive?"))["ok"]
    assert texts(seen["last"])[-1] == "Water it on Sundays."


async def test_a_closed_page_joins_its_run_again_with_all_events(
    call: Call, server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    model.script("and leave", Slow(1, [Text("You came back.")]))
    seen = (await call(server, alice, "join", text="ask and leave"))["ok"]
    assert texts(seen["last"])[-1] == "You came back."


async def test_only_the_newest_client_has_the_protocol_of_threads_and_titles(
    call: Call, sdk: str, server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    model.script("newer", [Text("It does.")])
    client = server.as_user(alice)
    await run_turn(client, str((await client.threads.create())["thread_id"]), "I moved to Oslo")
    (listed,) = (await call(server, alice, "titles"))["ok"]
    seen = await call(server, alice, "protocol", text="Does the newer one work?")
    if sdk == SDK:
        assert listed["extracted"]["title"] == "I moved to Oslo"
        assert "It does." in json.dumps(seen["ok"]["last"])
    else:
        assert "extracted" not in listed
        assert "threads.stream is not a function" in seen["error"]


async def test_files_of_the_thread_are_in_its_state_and_can_be_edited(
    call: Call, server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client = server.as_user(alice)
    thread = str((await client.threads.create())["thread_id"])
    model.script("draft", [ToolCall("write_file", {"file_path": "/draft.md", "content": "one"})], [Text("done")])
    await run_turn(client, thread, "write a draft")
    state = (await call(server, alice, "state", thread=thread))["ok"]
    file = state["values"]["files"]["/draft.md"]
    assert file["content"] == "one"
    await call(server, alice, "setFiles", thread=thread, extra={"/draft.md": {**file, "content": "two"}})
    state = (await call(server, alice, "state", thread=thread))["ok"]
    assert state["values"]["files"]["/draft.md"]["content"] == "two"


async def test_what_front_ends_send_unchanged_is_refused(call: Call, server: DevServer, alice: str) -> None:
    client = server.as_user(alice)
    thread = str((await client.threads.create())["thread_id"])
    assert (await call(server, alice, "apiKey"))["status"] == 401
    assert (await call(server, alice, "step", thread=thread, text="step by step"))["status"] == 403


async def test_an_approval_is_an_operators_and_names_its_interrupt(
    call: Call, approving: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    write = ToolCall("write_file", {"file_path": "/skills/greeting/SKILL.md", "content": SKILL})
    model.script("learn", [write], [Text("done")])
    seen = (await call(approving, alice, "stream", text="learn to greet"))["ok"]
    thread, (interrupt,) = seen["thread"], seen["last"]["__interrupt__"]
    assert interrupt["value"]["action_requests"][0]["name"] == "write_file"
    assert seen["state"]["tasks"][0]["interrupts"][0]["id"] == interrupt["id"]

    decisions = {"decisions": [{"type": "approve"}]}
    named = {interrupt["id"]: decisions}
    assert (await call(approving, alice, "resume", thread=thread, extra=named))["status"] == 403
    assert (await call(approving, alice, "setFiles", thread=thread, extra={}))["status"] == 403
    assert (await call(approving, "root", "resume", thread=thread, extra=decisions))["status"] == 422
    seen = (await call(approving, "root", "resume", thread=thread, extra=named))["ok"]
    assert texts(seen["last"])[-1] == "done"
