"""A picture that a model's provider refuses: the conversation goes on without it. The real clients
over HTTP, by provider.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest
from agent import build_agent
from langgraph.store.memory import InMemoryStore

from lasting_memory.recall import conversation
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.scripted_provider import Body, Refused, Said, ScriptedProvider
from tests.auth.test_messages import PICTURE, PNG
from tests.conftest import Graph
from tests.providers.protocols import PROVIDERS

PLACEHOLDER = "[a picture that the model's provider refused]"
TOLD = "provider refused a picture"


def _openai(message: str) -> Refused:
    return Refused(
        400,
        {
            "error": {
                "message": message,
                "type": "invalid_request_error",
                "param": None,
                "code": "invalid_image",
            }
        },
    )


# As each provider answers a picture that it cannot read.
REFUSALS = {
    "anthropic": Refused(
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "Could not process image"},
        },
    ),
    "openai": _openai("You uploaded an unsupported image. Please make sure your image is valid."),
    "openai unstreamed": _openai(
        "You uploaded an unsupported image. Please make sure your image is valid."
    ),
    "responses": _openai("The image data you provided does not represent a valid image."),
    "google": Refused(
        400,
        {
            "error": {
                "code": 400,
                "message": "Unable to process input image.",
                "status": "INVALID_ARGUMENT",
            }
        },
    ),
    "ollama": Refused(400, {"error": "Failed to load image or audio file"}),
}


class Conversation:
    def __init__(self, server: ScriptedProvider, agent: Any) -> None:
        self.server, self.graph = server, Graph(agent, InMemoryStore())
        server.script(usual=Said(("fine",)))
        server.refuse = lambda _: None

    async def turn(self, *blocks: Any) -> list[str]:
        return await self.graph.turn("", messages=[{"role": "user", "content": list(blocks)}])

    async def messages(self) -> list[Any]:
        state = await self.graph.graph.aget_state({"configurable": {"thread_id": "1"}})
        return list(state.values["messages"])


@pytest.fixture(scope="module")
def on() -> Iterator[Callable[[str], Conversation]]:
    """A new conversation on a provider, by its name. Its graph is built once."""
    with ExitStack() as stack:

        @cache
        def provided(name: str) -> tuple[ScriptedProvider, Any]:
            server = stack.enter_context(ScriptedProvider(PROVIDERS[name].speak))
            return server, build_agent(deployed(), PROVIDERS[name].client(server.url))

        yield lambda name: Conversation(*provided(name))


def has_picture(body: Body) -> bool:
    return PNG in json.dumps(body)


def text(words: str) -> Body:
    return {"type": "text", "text": words}


@pytest.mark.parametrize("name", PROVIDERS)
async def test_the_person_is_told_and_later_turns_work(
    on: Callable[[str], Conversation], name: str
) -> None:
    talk = on(name)
    talk.server.refuse = lambda body: REFUSALS[name] if has_picture(body) else None
    told = await talk.turn(text("look at this"), PICTURE)
    assert TOLD in str(told[1:])
    assert told[-1] == "fine"
    kept = (await talk.messages())[0]
    assert PNG in str(kept.content), "the thread keeps it: only what is sent is changed"

    talk.server.requests.clear()
    assert (await talk.turn(text("and now?")))[-1] == "fine"
    (shown,) = talk.server.requests
    assert not has_picture(shown)
    assert json.dumps(shown).count(json.dumps(PLACEHOLDER)[1:-1]) == 1
    assert TOLD not in json.dumps(shown), "the note is the person's"
    turns = conversation(
        {
            "thread_id": "t",
            "values": {"messages": [each.model_dump() for each in await talk.messages()]},
        }
    ).turns
    assert TOLD not in str(turns), "nobody said it"


async def test_another_picture_is_shown_and_one_that_was_taken_stays(
    on: Callable[[str], Conversation],
) -> None:
    talk = on("anthropic")
    bad, good = {**PICTURE, "base64": PNG[:-4] + "BBBB"}, PICTURE
    talk.server.refuse = lambda body: (
        REFUSALS["anthropic"] if bad["base64"] in json.dumps(body) else None
    )
    await talk.turn(text("the first"), good)
    await talk.turn(text("the second"), bad)
    await talk.turn(text("the third"), good)
    shown = json.dumps(talk.server.requests[-1])
    assert shown.count(PNG) == 2
    assert bad["base64"] not in shown


async def test_a_refusal_of_something_else_is_the_turns_error_and_the_picture_stays(
    on: Callable[[str], Conversation],
) -> None:
    talk = on("anthropic")
    talk.server.refuse = lambda _: Refused(
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "Your credit balance is too low"},
        },
    )
    with pytest.raises(Exception, match="credit balance"):
        await talk.turn(text("look"), PICTURE)
    talk.server.refuse = lambda _: None
    assert TOLD not in str(await talk.turn(text("again")))
    assert has_picture(talk.server.requests[-1])


@pytest.mark.parametrize("status", [403, 404, 415, 422])
async def test_a_conversation_goes_on_whatever_the_status_of_a_refusal(
    on: Callable[[str], Conversation], status: int
) -> None:
    """Gateways answer 404 where no model takes pictures, and 403 to one that is flagged."""
    talk = on("anthropic")
    body = {"type": "error", "error": {"type": "x", "message": "no image"}}
    talk.server.refuse = lambda sent: Refused(status, body) if has_picture(sent) else None
    assert TOLD in str(await talk.turn(text("look"), PICTURE))
    talk.server.requests.clear()
    assert (await talk.turn(text("and now?")))[-1] == "fine"
    assert not any(map(has_picture, talk.server.requests))


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_no_other_error_takes_a_picture_away(
    on: Callable[[str], Conversation], status: int
) -> None:
    talk = on("anthropic")
    talk.server.refuse = lambda body: (
        Refused(status, {"type": "error", "error": {}}) if has_picture(body) else None
    )
    with pytest.raises(Exception, match=str(status)):
        await talk.turn(text("look"), PICTURE)
    assert all(map(has_picture, talk.server.requests))


async def test_a_conversation_with_pictures_goes_on_with_a_model_that_looks_at_none(
    on: Callable[[str], Conversation],
) -> None:
    talk = on("openai")
    for words in ("one", "two"):
        await talk.turn(text(words), PICTURE)
    talk.server.refuse = lambda body: (
        _openai("image_url is not supported by this model.") if has_picture(body) else None
    )
    assert TOLD in str(await talk.turn(text("three")))
    talk.server.requests.clear()
    await talk.turn(text("four"))
    (shown,) = talk.server.requests
    assert json.dumps(shown).count(json.dumps(PLACEHOLDER)[1:-1]) == 2


async def test_a_conversation_that_failed_before_is_taken_up_again(
    on: Callable[[str], Conversation],
) -> None:
    talk = on("google")
    talk.server.refuse = lambda _: REFUSALS["google"]
    for words in ("look", "hello?"):
        with pytest.raises(Exception, match="input image"):
            await talk.turn(text(words), *([PICTURE] if words == "look" else []))
    talk.server.refuse = lambda body: REFUSALS["google"] if has_picture(body) else None
    assert TOLD in str(await talk.turn(text("are you there?")))


async def test_the_picture_of_a_tool_is_replaced_as_well(on: Callable[[str], Conversation]) -> None:
    talk = on("anthropic")
    talk.server.refuse = lambda body: REFUSALS["anthropic"] if has_picture(body) else None
    calls = [{"name": "look", "args": {}, "id": "1"}]
    messages = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": [PICTURE]},
    ]
    assert TOLD in str(await talk.graph.turn("", messages=messages))
    assert PLACEHOLDER in json.dumps(talk.server.requests[-1], ensure_ascii=False)
