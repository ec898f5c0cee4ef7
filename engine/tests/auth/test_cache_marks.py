"""A client's marks of what a provider should cache are dropped: with the agent's own there would be
more than it takes.
"""

import json
from typing import Any

import pytest

from lasting_memory.auth.handler_values import RunState
from lasting_memory.auth.state_input import rebuild_state
from lasting_memory.testing.people import Person
from tests.auth.test_messages import PICTURE, human
from tests.conftest import Scripted

Body = dict[str, Any]
MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def text(words: str, **more: Any) -> Body:
    return {"type": "text", "text": words, **more}


# By where the mark is: a message, and what is left of its content.
MARKED: dict[str, tuple[Any, Any]] = {
    "a text": (human(text("hi", **MARK)), [text("hi")]),
    "a picture": (human(text("hi"), {**PICTURE, **MARK}), [text("hi"), PICTURE]),
    "extras": (human(text("hi", extras={**MARK})), [text("hi")]),
    "extras among others": (
        human(text("hi", extras={**MARK, "a": 1})),
        [text("hi", extras={"a": 1})],
    ),
    "the message": ({"role": "user", "content": [text("hi")], **MARK}, [text("hi")]),
    "a pair": (["user", [text("hi", **MARK)]], [text("hi")]),
    "an answer": ({"role": "assistant", "content": [text("hi", **MARK)]}, [text("hi")]),
    "a tool's result": (
        {"role": "tool", "tool_call_id": "1", "content": [text("hi", **MARK)]},
        [text("hi")],
    ),
    "a result in a result": (
        {
            "role": "assistant",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": [text("hi", **MARK)]}
            ],
        },
        [{"type": "tool_result", "tool_use_id": "1", "content": [text("hi")]}],
    ),
    "langchain's wrapping": (
        {
            "role": "assistant",
            "content": [{"type": "non_standard", "value": {"type": "x", **MARK}}],
        },
        [{"type": "non_standard", "value": {"type": "x"}}],
    ),
    "Bedrock's": (
        {"role": "assistant", "content": [text("hi"), {"cachePoint": {"type": "default"}}]},
        [text("hi")],
    ),
}


@pytest.mark.parametrize("where", MARKED)
@pytest.mark.parametrize("door", ["input", "update", "pairs"])
def test_no_mark_of_a_client_reaches_a_run(where: str, door: str) -> None:
    message, content = json.loads(json.dumps(MARKED[where]))
    request: RunState = {"input": {"messages": [message]}}
    if door != "input":
        update: Any = {"messages": [message]} if door == "update" else [["messages", [message]]]
        request = {"input": None, "command": {"update": update}}
    rebuild_state(request)
    assert "cache_control" not in json.dumps(request)
    assert (message["content"] if isinstance(message, dict) else message[-1]) == content


def test_arguments_of_a_tool_call_are_no_cache_marks() -> None:
    call = {"type": "tool_use", "id": "1", "name": "write", "input": {**MARK}}
    request: Any = {"input": {"messages": [{"role": "assistant", "content": [call]}]}}
    rebuild_state(request)
    assert request["input"]["messages"][0]["content"] == [call]


async def test_a_conversation_that_has_marks_goes_on(agent: Scripted) -> None:
    marked = [
        human(text(f"part {number}", **MARK), additional_kwargs={**MARK}) for number in range(5)
    ]
    await agent.turn(
        "", messages=[*marked, {"role": "assistant", "content": [text("well", **MARK)]}]
    )
    await agent.turn("", messages=[human(text("go on", **MARK))])
    shown = agent.model.requests[-1]
    assert "part 4" in json.dumps(shown["messages"])
    assert "cache_control" not in json.dumps(shown["messages"])
    marks = json.dumps(shown).count('"cache_control"')
    assert 1 <= marks <= 4, "the agent's own stay"


@pytest.mark.server
async def test_an_echoed_conversation_with_cache_marks_adds_the_new_message_alone(
    ada: Person,
) -> None:
    thread = await ada.thread()

    def sent(*messages: Any) -> Body:
        return {"assistant_id": "agent", "input": {"messages": list(messages)}}

    first = human({**PICTURE, **MARK}, text("one", **MARK), id="first")
    await ada.made("POST", f"/threads/{thread}/runs/wait", sent(first))
    after = await ada.made(
        "POST", f"/threads/{thread}/runs/wait", sent(first, human(text("two", **MARK)))
    )
    assert [message["type"] for message in after["messages"]] == ["human", "ai", "human", "ai"]
    assert "cache_control" not in json.dumps(after)
