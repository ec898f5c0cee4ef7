"""A conversation that another provider's model has answered in goes on with each provider's."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from lasting_memory.agent.readable_messages import readable_messages
from lasting_memory.agent.visible_content import says_something
from lasting_memory.testing.scripted_provider import Said
from tests.auth.test_messages import PNG
from tests.consolidation.conftest import append
from tests.providers.conftest import Provided
from tests.providers.protocols import PROVIDERS

THOUGHT = "they seem to like dill a lot"
CALL = append("- dill")


@pytest.mark.parametrize("reader", PROVIDERS)
@pytest.mark.parametrize("writer", PROVIDERS)
async def test_a_thread_with_thoughts_and_calls_goes_on_with_another_provider(
    provided: Callable[[str], Provided], writer: str, reader: str
) -> None:
    first = provided(writer)
    graph = first.graph()
    first.server.script(
        Said(("Let me note it.",), CALL, thought=THOUGHT), Said(("Noted.",), thought=THOUGHT)
    )
    await graph.turn("I like dill")
    second = provided(reader)
    switched = second.graph()
    switched.graph.checkpointer = graph.graph.checkpointer
    second.server.script(usual=Said(("dill",)))
    assert (await switched.turn("What do I like?"))[-1] == "dill"
    sent = json.dumps(second.server.requests[-1])
    assert "Let me note it." in sent
    assert "append_memory" in sent, "the call"
    assert "Added to /memories/" in sent, "and its result"
    if PROVIDERS[writer].model != PROVIDERS[reader].model:
        assert THOUGHT not in sent
    else:
        first.server.script()
        assert (await graph.turn("What do I like?"))[-1] == "ok"


def shown(content: Any, kind: str = "ollama", **metadata: Any) -> Any:
    """The content of an answer as a provider's model is sent it."""
    model = type(PROVIDERS[kind].client("http://127.0.0.1:9"))
    message = AIMessage(content, response_metadata=metadata)
    return readable_messages([message], model)[0].content


THINKING = [
    {"type": "thinking", "thinking": THOUGHT, "signature": "c2lnbmVk"},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "text", "text": "Dill", "citations": []},
    {"type": "text", "text": ", you said."},
]


def test_a_provider_is_sent_its_own_thoughts_as_they_are() -> None:
    assert shown(THINKING, "anthropic", model_provider="anthropic") == THINKING
    assert shown(THINKING, "anthropic") == THINKING, "of before answers named their provider"


@pytest.mark.parametrize("kind", ["openai", "google", "ollama"])
def test_a_provider_is_sent_the_text_alone_of_another_s_answer(kind: str) -> None:
    assert shown(THINKING, kind, model_provider="anthropic") == "Dill, you said."


def test_ollama_is_sent_what_its_client_takes() -> None:
    picture = {"type": "image", "base64": PNG, "mime_type": "image/png"}
    file = {"type": "file", "base64": "eHh4", "mime_type": "application/pdf"}
    at_address = {"type": "image", "url": "https://example.com/a.png"}
    text = {"type": "text", "text": "look"}
    model = PROVIDERS["ollama"].client("http://127.0.0.1:9")
    messages: list[AnyMessage] = [
        HumanMessage([text, picture]),
        ToolMessage([text, file, at_address], tool_call_id="1"),
    ]
    sent = readable_messages(messages, type(model))
    assert sent[0].content == [text, picture]
    assert [block["text"] for block in sent[1].content] == [  # type: ignore[index]
        "look",
        "[a file that this model cannot look at]",
        "[a picture that this model cannot look at]",
    ]
    model._convert_messages_to_ollama_messages(sent)  # type: ignore[attr-defined]


def test_an_integration_that_is_not_known_is_sent_everything() -> None:
    class Other:
        pass

    message = AIMessage(THINKING, response_metadata={"model_provider": "anthropic"})  # type: ignore[arg-type]
    assert readable_messages([message], Other)[0] is message  # type: ignore[arg-type]


def test_a_picture_alone_is_an_answer() -> None:
    for block in (
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_generation_call", "id": "ig_1", "result": PNG},
    ):
        assert says_something(AIMessage([block]))
