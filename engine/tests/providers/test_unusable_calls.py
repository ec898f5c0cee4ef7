"""A tool call that cannot be used: the model is told why, and asked once more."""

from collections.abc import Callable
from typing import Any

import pytest

from lasting_memory.agent.answer_errors import BadAnswerError
from lasting_memory.consolidation import records
from lasting_memory.testing.scripted_provider import Said
from tests.consolidation.conftest import ALICE, Runs, append
from tests.providers.conftest import Provided, messages_of
from tests.providers.protocols import PROVIDERS

WORDS = ("Noted", ".")
CALL = append("- dill")
LIMITS = {"anthropic": "max_tokens", "responses": "max_output_tokens", "google": "MAX_TOKENS"}
# Gemini and Ollama send arguments as an object: what they cannot read they do not send.
SENT_AS_TEXT = [name for name in PROVIDERS if name not in ("google", "ollama")]
NO_OBJECT = ['{"path": "/memories/preferences.md", "text": "- di', "not json", '["a"]', "null"]


def cut(name: str) -> Said:
    """An answer whose call may be half."""
    return Said(call=CALL, ending=LIMITS.get(name, "length"))


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_call_that_is_cut_at_the_limit_is_asked_for_once_more_with_the_reason(
    provided: Callable[[str], Provided], name: str
) -> None:
    provider, graph = provided(name), provided(name).graph()
    provider.server.script(cut(name), Said(call=CALL), Said(WORDS))
    assert (await graph.turn("I like dill"))[-1] == "Noted."
    first, second, third = (str(body) for body in provider.server.requests)
    reason = "reached its limit of tokens inside a tool call"
    assert [reason in body for body in (first, second, third)] == [False, True, False]
    kinds = [message.type for message in await messages_of(graph)]
    assert kinds == ["human", "ai", "tool", "ai"], "the reason is no message of the thread"


@pytest.mark.parametrize("arguments", NO_OBJECT)
@pytest.mark.parametrize("name", SENT_AS_TEXT)
async def test_arguments_that_are_no_json_object_are_asked_for_once_more_with_the_reason(
    provided: Callable[[str], Provided], name: str, arguments: str
) -> None:
    provider, graph = provided(name), provided(name).graph()
    bad = Said(call=CALL, arguments=arguments)
    provider.server.script(bad, Said(call=CALL), Said(WORDS))
    assert (await graph.turn("I like dill"))[-1] == "Noted."
    # langchain itself tries to make an object of what is JSON: the tool says what it lacks then.
    if arguments not in NO_OBJECT[2:] or name in ("anthropic", "openai"):
        assert "no valid JSON object" in str(provider.server.requests[1])


@pytest.mark.parametrize("name", PROVIDERS)
async def test_an_unusable_call_is_asked_for_once_more_and_then_the_turn_says_why(
    provided: Callable[[str], Provided], name: str
) -> None:
    provider, graph = provided(name), provided(name).graph()
    provider.server.script(usual=cut(name))
    with pytest.raises(BadAnswerError, match="a tool call may be half"):
        await graph.turn("I like dill")
    assert len(provider.server.requests) == 2
    assert [message.type for message in await messages_of(graph)] == ["human"]


async def test_a_call_that_a_filter_cut_is_not_asked_for_again(
    provided: Callable[[str], Provided],
) -> None:
    provider, graph = provided("openai"), provided("openai").graph()
    provider.server.script(usual=Said(call=CALL, ending="content_filter"))
    with pytest.raises(BadAnswerError, match="content_filter"):
        await graph.turn("I like dill")
    assert len(provider.server.requests) == 1


@pytest.mark.parametrize("name", ["anthropic", "openai", "ollama"])
async def test_a_consolidation_is_asked_once_more_too(
    provided: Callable[[str], Provided], consolidation: Callable[[Any], Runs], name: str
) -> None:
    provider, run = provided(name), consolidation(provided(name))
    provider.server.script(cut(name), Said(call=CALL), Said(("done",)))
    await run("r1", t=["I like dill"])
    assert (await records(run.store, ALICE))[0]["status"] == "done"
    assert await run.text() == "- dill\n"
