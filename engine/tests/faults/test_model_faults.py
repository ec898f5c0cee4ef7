"""A provider that cuts, hangs or talks nonsense, over HTTP, on the real server: what a person loses
is that answer alone.
"""

import asyncio
import itertools
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import (
    Answer,
    Changed,
    Failure,
    ScriptedAnthropic,
    Slow,
    Text,
    ToolCall,
)
from tests.conftest import BUILDERS, served
from tests.faults.graphs import LIMITS

pytestmark = pytest.mark.server
faulty = served(
    {"graphs": {name: f"{Path(__file__).parent / 'graphs.py'}:{name}" for name in BUILDERS}}
)

SECRET = (
    "I am allergic to peanuts. Never offer me any, and tell every cook about it before they begin."
)
NOTED = "/memories/preferences.md"
WRITE = [ToolCall("append_memory", {"path": NOTED, "text": SECRET})]
SAY = [Text(SECRET)]
DELEGATE = [ToolCall("task", {"description": "note it", "subagent_type": "general-purpose"})]
HALF = 5  # events: its beginning, that of a block, and three parts of that
CUT = Changed(WRITE, lambda events: events[:HALF])


@dataclass(frozen=True)
class Fault:
    """What the provider does at every attempt, the error that the person then reads, and how many
    requests it makes at most.
    """

    answer: Answer
    error: str
    requests: int = 1 + LIMITS.model_retries


SDK = 3  # attempts that Anthropic's client makes before there is an answer
BROKEN = b'event: error\ndata: {"type": "error", "error": {"type": "x"}}\n\n'
# How an answer may be cut otherwise, by every provider, is in `tests/providers/`.
FAULTS = {
    "cut in a tool call": Fault(CUT, "answer broke off"),
    "an error in the middle": Fault(
        Changed(WRITE, lambda events: [*events[:HALF], BROKEN]), "CutAnswerError"
    ),
    "silent before the first byte": Fault(Slow(30, SAY), "SilentModelError", 1),
    "a byte now and then": Fault(
        Changed(WRITE, lambda events: itertools.chain(events[:HALF], itertools.cycle([b":", 0.2]))),
        "The model said nothing for",
        1,
    ),
    "words without an end": Fault(
        Changed(
            SAY, lambda events: itertools.chain(events[:HALF], itertools.cycle([events[HALF], 0.2]))
        ),
        "RunTooLongError",
        1,
    ),
    "500": Fault(Failure(500, "api_error", "broken"), "APIError", SDK),
    "401": Fault(Failure(401, "authentication_error", "no"), "refuses this server's key (401)", 1),
    "402": Fault(Failure(402, "billing_error", "no"), "has no credit (402)", 1),
    "404": Fault(Failure(404, "not_found_error", "no"), "does not have this model (404)", 1),
    "413": Fault(Failure(413, "request_too_large", "no"), "too large for the model (413)", 1),
    "529": Fault(Failure(529, "overloaded_error", "busy"), "is overloaded (529)", SDK),
    "429, and wait an hour": Fault(
        Failure(429, "rate_limit_error", "slow down", "3600"), "SilentModelError", 1
    ),
    "cut in a subagent": Fault(CUT, "CutAnswerError", 2 + LIMITS.model_retries),
}


async def test_a_fault_is_an_error_of_the_run_and_nothing_is_kept(
    faulty: DevServer, model: ScriptedAnthropic
) -> None:
    """All faults at once, each met by a person of its own, whose next turn works."""
    await asyncio.gather(*(_meet(faulty, model, name) for name in FAULTS))


async def _meet(server: DevServer, model: ScriptedAnthropic, name: str) -> None:
    fault, person = FAULTS[name], server.person(f"{uuid.uuid4().hex}@example.com")
    text, thread, began = f"fault for {person.name}", await person.thread(), time.monotonic()
    if "subagent" in name:
        model.script("note it", *[fault.answer] * (fault.requests - 1))
        model.script(text, DELEGATE)
    else:
        model.script(text, *[fault.answer] * fault.requests)
    await person.turn(thread, text, raise_error=False)
    seconds = time.monotonic() - began
    (run,) = await person.made("GET", f"/threads/{thread}/runs")
    assert run["status"] == "error", name
    assert fault.error in str((await person.made("GET", f"/threads/{thread}")).get("error")), name
    requests = len(model.requests_for(text)) + (
        len(model.requests_for("note it")) if "subagent" in name else 0
    )
    assert requests <= fault.requests, name
    bound = (
        LIMITS.max_run_seconds
        if fault.error == "RunTooLongError"
        else 3 * LIMITS.model_silence_seconds
    )
    assert seconds < bound + 600, (
        f"{name}, with the queue's time, and that of a busy machine: one fault would take an hour"
    )
    model.script(
        f"and now, {person.name}", [Text("ok")]
    )  # before what a run that gave up early left of the fault
    after = await person.turn(thread, f"and now, {person.name}?")
    assert after["messages"][-1]["content"] == "ok", name
    assert "peanuts" not in f"{after['messages']} {await person.read(NOTED)}", name


async def test_an_answer_that_broke_off_once_is_asked_for_again(
    faulty: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    model.script(alice, CUT, WRITE, replace(CUT, reply=SAY), [Text("Noted.")])
    person, streamed = faulty.person(alice), dict[str, str]()
    thread, message = await person.thread(), {"messages": alice}
    async for event in person.client.runs.stream(
        thread, "agent", input=message, stream_mode="messages-tuple"
    ):
        if event.event == "messages" and event.data[0]["type"] == "AIMessageChunk":
            text = "".join(
                block.get("text", "")
                for block in event.data[0]["content"]
                if isinstance(block, dict)
            )
            streamed[event.data[0]["id"]] = streamed.get(event.data[0]["id"], "") + text
    values: Any = (await person.client.threads.get_state(thread))["values"]
    kept = [message["id"] for message in values["messages"] if message["type"] == "ai"]
    assert [message["type"] for message in values["messages"]] == ["human", "ai", "tool", "ai"]
    assert values["messages"][-1]["content"] in (
        "Noted.",
        [{"type": "text", "text": "Noted.", "index": 0}],
    )
    assert values["messages"][1]["tool_calls"][0]["args"]["text"] == SECRET
    assert set(kept) < set(streamed), "a client that keeps messages by id sees which ones are gone"
    assert len(streamed) == 4
    assert SECRET in await person.read(NOTED)
