"""What a provider says that is no answer, in a conversation: filtered, refused, cut, empty, malformed.
The real clients over HTTP, by provider.
"""

from collections.abc import Callable
from typing import Any

import pytest

from lasting_memory.agent.answer_endings import CUT
from lasting_memory.agent.answer_errors import CutAnswerError, EmptyAnswerError
from lasting_memory.consolidation import records
from lasting_memory.recall import conversation
from lasting_memory.testing import scripted_messages, scripted_openai, scripted_provider
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.scripted_provider import Said, Speak
from tests.consolidation.conftest import ALICE, Runs, append
from tests.providers.conftest import Provided, messages_of
from tests.providers.no_answers import EMPTY, LIMIT, NOTHING, SOMETHING, TEXT, WORDS, named
from tests.providers.protocols import PROVIDERS


@pytest.mark.parametrize(("name", "said", "error", "why"), named(NOTHING))
async def test_an_answer_without_text_and_calls_is_an_error_that_says_why(
    provided: Callable[[str], Provided], name: str, said: Said, error: type[Exception], why: str
) -> None:
    provider, graph = provided(name), provided(name).graph()
    provider.server.script(usual=said)
    with pytest.raises(error, match=why):
        await graph.turn("wombats?")
    assert isinstance(error("x"), RuntimeError), "of these the platform shows people the message"
    assert [message.type for message in await messages_of(graph)] == ["human"]
    provider.server.script(Said(WORDS))
    assert (await graph.turn("again?"))[-1] == TEXT


@pytest.mark.parametrize(("name", "said", "text", "cut"), named(SOMETHING))
async def test_a_cut_answer_is_kept_with_the_note_that_it_is_not_all(
    provided: Callable[[str], Provided], name: str, said: Said, text: str, cut: str
) -> None:
    provider, graph = provided(name), provided(name).graph()
    provider.server.script(said)
    assert (await graph.turn("wombats?"))[-1] == text
    answer = (await messages_of(graph))[-1]
    assert cut in answer.response_metadata[CUT]
    thread = {"thread_id": "t", "values": {"messages": [answer.model_dump()]}}
    assert "".join(turn.text for turn in conversation(thread).turns).replace("\n", "") == text, (
        "as search and consolidation read it"
    )


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_whole_answer_has_no_note_of_a_cut(
    provided: Callable[[str], Provided], name: str
) -> None:
    provider, graph = provided(name), provided(name).graph()
    provider.server.script(Said(WORDS))
    assert (await graph.turn("wombats?"))[-1] == TEXT
    assert CUT not in (await messages_of(graph))[-1].response_metadata


async def test_a_call_that_its_provider_cannot_read_is_tried_again_as_often_as_a_cut_answer(
    provided: Callable[[str], Provided],
) -> None:
    provider, graph = provided("google"), provided("google").graph()
    malformed = Said(ending="MALFORMED_FUNCTION_CALL")
    begun = Said(("Let me see.",), ending="MALFORMED_FUNCTION_CALL")
    provider.server.script(malformed, begun, Said(WORDS))
    assert (await graph.turn("wombats?"))[1:] == [TEXT]
    provider.server.script(usual=malformed)
    with pytest.raises(CutAnswerError):
        await graph.turn("again?")
    assert len(provider.server.requests) == 1 + deployed().limits.model_retries


async def test_a_silent_end_after_a_tool_is_an_error_and_what_the_tool_did_stays(
    provided: Callable[[str], Provided],
) -> None:
    provider, graph = provided("anthropic"), provided("anthropic").graph()
    provider.server.script(Said(call=append("- dill")), Said())
    with pytest.raises(EmptyAnswerError, match=EMPTY):
        await graph.turn("I like dill")
    assert [message.type for message in await messages_of(graph)] == ["human", "ai", "tool"]


INVISIBLE = [
    ("<think>hmm</think>",),
    ("<think>", "h", "mm"),
    ("<thinking>\nhmm\n</thinking>", "\n\n"),
    ("hmm</think>\n",),
    ("\u200b\u2060", "\ufeff\u00ad"),
    ("\u00a0\u2028\ue000",),
    ("\u3164\u2800",),
]


@pytest.mark.parametrize("words", INVISIBLE, ids=repr)
async def test_a_text_in_which_nobody_sees_anything_is_no_answer(
    provided: Callable[[str], Provided],
    consolidation: Callable[[Provided], Runs],
    words: tuple[str, ...],
) -> None:
    for name, ending, why in (
        ("openai", "", EMPTY),
        ("ollama", "", EMPTY),
        ("openai", "length", LIMIT),
    ):
        provider, graph = provided(name), provided(name).graph()
        provider.server.script(usual=Said(words, ending=ending))
        with pytest.raises(EmptyAnswerError, match=why):
            await graph.turn("wombats?")
        run = consolidation(provider)
        await run("r1", t=["I like dill"])
        (record,) = await records(run.store, ALICE)
        assert record["status"] == "failed"
        assert await run.consolidated() == set()


async def test_a_text_after_a_thought_is_an_answer(
    provided: Callable[[str], Provided],
) -> None:
    provider, graph = provided("openai"), provided("openai").graph()
    for text in ("<think>hmm</think>\n" + TEXT, "hmm</think>" + TEXT, TEXT + "<think>"):
        provider.server.script(Said((text,)))
        assert (await graph.turn("wombats?"))[-1] == text


REPORTED = "broke off: its provider reported an error in the middle"


def _failing_responses(said: Said, body: Any) -> list[bytes]:
    """As Responses fails: the answer's status says it."""
    done = scripted_openai.responses(said, body)[-1].replace(
        b"response.completed", b"response.failed"
    )
    done = done.replace(
        b'"completed"', b'"failed", "error": {"code": "server_error", "message": "secret"}'
    )
    return [*scripted_openai.responses(said, body)[:-1], done]


def _ending_in_an_error(speak: Speak, kept: int) -> Speak:
    """The first events of an answer, and one that is an error."""
    event: dict[str, Any] = {
        "type": "error",
        "code": "server_error",
        "message": "secret",
        "param": None,
        "sequence_number": 9,
    }
    event["error"] = {"type": "server_error", "message": "secret"}
    error = scripted_provider.sse(event)

    def spoken(said: Said, body: Any) -> list[bytes]:
        return [*speak(said, body)[:kept], *error]

    return spoken


REPORTS = [
    pytest.param("responses", _failing_responses, id="response.failed"),
    pytest.param("responses", _ending_in_an_error(scripted_openai.responses, 3), id="responses"),
    pytest.param(
        "responses", _ending_in_an_error(scripted_openai.responses, 0), id="responses, at once"
    ),
    pytest.param("openai", _ending_in_an_error(scripted_openai.completions, 2), id="openai"),
    pytest.param(
        "openai", _ending_in_an_error(scripted_openai.completions, 0), id="openai, at once"
    ),
    pytest.param("anthropic", _ending_in_an_error(scripted_messages.messages, 3), id="anthropic"),
    pytest.param(
        "anthropic", _ending_in_an_error(scripted_messages.messages, 0), id="anthropic, at once"
    ),
]


@pytest.mark.parametrize(("name", "speak"), REPORTS)
async def test_an_error_that_a_provider_reports_in_its_answer_is_a_sentence_and_tried_again(
    provided: Callable[[str], Provided],
    consolidation: Callable[[Provided], Runs],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    speak: Speak,
) -> None:
    provider, graph, run = provided(name), provided(name).graph(), consolidation(provided(name))
    monkeypatch.setattr(provider.server, "speak", speak)
    provider.server.script(usual=Said(WORDS))
    with pytest.raises(CutAnswerError, match=REPORTED) as raised:
        await graph.turn("wombats?")
    assert "secret" not in str(raised.value)
    assert len(provider.server.requests) == 1 + deployed().limits.model_retries
    assert REPORTED in await run("r1", t=["I like dill"])
    assert REPORTED in (await records(run.store, ALICE))[0]["reason"]
