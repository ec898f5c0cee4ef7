"""What a provider says that is no answer: filtered, refused, cut, empty, malformed. The real
clients over HTTP, by provider.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from agent import build_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.store.memory import InMemoryStore

from lasting_memory import build_consolidation_agent
from lasting_memory.agent.answer_endings import CUT, SILENT
from lasting_memory.agent.answer_errors import (
    CutAnswerError,
    EmptyAnswerError,
    FilteredAnswerError,
    SilentModelError,
)
from lasting_memory.consolidation import records
from lasting_memory.consolidation import run as run_module
from lasting_memory.dev import chat
from lasting_memory.people.identity import Context
from lasting_memory.recall import conversation
from lasting_memory.testing import (
    scripted_messages,
    scripted_openai,
    scripted_provider,
)
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_provider import Said, Speak
from tests.conftest import Graph
from tests.consolidation.conftest import ALICE, Runs, append
from tests.providers.conftest import Provided, messages_of
from tests.providers.protocols import PROVIDERS

WORDS = ("Plain ", "answer ", "about", " wombats", ".")
TEXT = "".join(WORDS)
REFUSAL = "I'm sorry, but I can't help with that."


# Of an answer without text: the ending in each protocol's own word, and what the error says of it.
FILTERED, REFUSED, EMPTY = "filtered this answer", "refused to answer", "without a word"
LIMIT = "limit of tokens before it said anything"
NOTHING = [
    ("anthropic", Said(ending="refusal"), FilteredAnswerError, f"{REFUSED} .refusal"),
    ("anthropic", Said(ending="max_tokens"), EmptyAnswerError, f"{LIMIT} .max_tokens"),
    ("anthropic", Said(), EmptyAnswerError, EMPTY),
    ("anthropic", Said(words=(" ", "\n")), EmptyAnswerError, EMPTY),
    (
        "anthropic",
        Said(ending="pause_turn"),
        EmptyAnswerError,
        "paused before it said anything .pause_turn",
    ),
    ("openai", Said(ending="content_filter"), FilteredAnswerError, f"{FILTERED} .content_filter"),
    ("openai", Said(ending="length"), EmptyAnswerError, f"{LIMIT} .length"),
    ("openai", Said(), EmptyAnswerError, EMPTY),
    (
        "openai unstreamed",
        Said(ending="content_filter"),
        FilteredAnswerError,
        f"{FILTERED} .content_filter",
    ),
    ("openai unstreamed", Said(), EmptyAnswerError, EMPTY),
    (
        "responses",
        Said(ending="content_filter"),
        FilteredAnswerError,
        f"{FILTERED} .incomplete: content_filter",
    ),
    (
        "responses",
        Said(ending="max_output_tokens"),
        EmptyAnswerError,
        f"{LIMIT} .incomplete: max_output_tokens",
    ),
    ("responses", Said(), EmptyAnswerError, EMPTY),
    ("google", Said(ending="SAFETY"), FilteredAnswerError, f"{FILTERED} .SAFETY"),
    (
        "google",
        Said(ending="PROHIBITED_CONTENT"),
        FilteredAnswerError,
        f"{FILTERED} .PROHIBITED_CONTENT",
    ),
    ("google", Said(ending="RECITATION"), FilteredAnswerError, f"{FILTERED} .RECITATION"),
    (
        "google",
        Said(blocked="PROHIBITED_CONTENT"),
        FilteredAnswerError,
        f"{FILTERED} .PROHIBITED_CONTENT",
    ),
    ("google", Said(blocked="OTHER"), FilteredAnswerError, f"{FILTERED} .OTHER"),
    (
        "google",
        Said(ending="MALFORMED_FUNCTION_CALL"),
        CutAnswerError,
        "cannot read it .MALFORMED_FUNCTION_CALL",
    ),
    ("google", Said(ending="MAX_TOKENS"), EmptyAnswerError, f"{LIMIT} .MAX_TOKENS"),
    (
        "google",
        Said(ending="OTHER"),
        EmptyAnswerError,
        "ended this answer before it said anything .OTHER",
    ),
    ("google", Said(), EmptyAnswerError, EMPTY),
    ("ollama", Said(ending="length"), EmptyAnswerError, f"{LIMIT} .length"),
    ("ollama", Said(), EmptyAnswerError, EMPTY),
]
# Of one with text: that, and what is said about it.
SOMETHING = [
    ("anthropic", Said(WORDS, ending="refusal"), TEXT, "refused to answer, or to go on (refusal)"),
    ("anthropic", Said(WORDS, ending="max_tokens"), TEXT, "limit of tokens (max_tokens)"),
    (
        "anthropic",
        Said(WORDS, ending="model_context_window_exceeded"),
        TEXT,
        "(model_context_window_exceeded)",
    ),
    (
        "anthropic",
        Said(("Let ", "me"), ending="pause_turn"),
        "Let me",
        "paused before it had finished (pause_turn)",
    ),
    (
        "openai",
        Said(WORDS, ending="content_filter"),
        TEXT,
        "by the filter of the model's provider (content_filter)",
    ),
    ("openai", Said(WORDS, ending="length"), TEXT, "limit of tokens (length)"),
    ("openai", Said(refusal=REFUSAL), REFUSAL, "refused to answer"),
    ("openai", Said(WORDS, refusal=REFUSAL), TEXT + REFUSAL, "refused to answer"),
    ("openai unstreamed", Said(WORDS, ending="length"), TEXT, "limit of tokens (length)"),
    ("openai unstreamed", Said(refusal=REFUSAL), REFUSAL, "refused to answer"),
    ("responses", Said(WORDS, ending="content_filter"), TEXT, "(incomplete: content_filter)"),
    (
        "responses",
        Said(WORDS, ending="max_output_tokens"),
        TEXT,
        "limit of tokens (incomplete: max_output_tokens)",
    ),
    ("responses", Said(refusal=REFUSAL), REFUSAL, "refused to answer"),
    ("responses", Said(WORDS, refusal=REFUSAL), TEXT + REFUSAL, "refused to answer"),
    (
        "google",
        Said(WORDS, ending="SAFETY"),
        TEXT,
        "by the filter of the model's provider (SAFETY)",
    ),
    ("google", Said(WORDS, ending="MAX_TOKENS"), TEXT, "limit of tokens (MAX_TOKENS)"),
    ("google", Said(WORDS, ending="LANGUAGE"), TEXT, "ended this early (LANGUAGE)"),
    ("ollama", Said(WORDS, ending="length"), TEXT, "limit of tokens (length)"),
]


def named(cases: list[Any]) -> list[Any]:
    """Parameters with a name that says provider and answer."""
    params = []
    for name, said, *expected in cases:
        parts = [
            said.ending or said.blocked,
            "words" if any(word.strip() for word in said.words) else "",
        ]
        parts.append("refusal" if said.refusal else "")
        label = " ".join([name, *filter(None, parts)])
        params.append(
            pytest.param(name, said, *expected, id=label if label != name else f"{name} empty")
        )
    return params


# --- A conversation


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


class BrokenError(RuntimeError):
    """An error of somebody else's code."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (BrokenError("secret"), "The run failed: BrokenError; see the server's log."),
        (
            SilentModelError("The model said nothing for 1 seconds."),
            "The model said nothing for 1 seconds.",
        ),
    ],
)
async def test_the_record_of_a_run_that_failed_has_a_sentence(
    provided: Callable[[str], Provided],
    consolidation: Callable[[Provided], Runs],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    reason: str,
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise error

    run = consolidation(provided("openai"))
    monkeypatch.setattr(run_module, "judge", fail)
    with pytest.raises(type(error)):
        await run("r1", t=["I like dill"])
    (record,) = await records(run.store, ALICE)
    assert (record["status"], record["reason"]) == ("failed", reason)


# --- Consolidation


UNFINISHED = [case[:2] for case in (*NOTHING, *SOMETHING)]


@pytest.mark.parametrize(("name", "said"), named(UNFINISHED))
async def test_a_consolidation_without_an_answer_has_failed_and_a_later_one_remembers(
    provided: Callable[[str], Provided],
    consolidation: Callable[[Provided], Runs],
    name: str,
    said: Said,
) -> None:
    provider, run = provided(name), consolidation(provided(name))
    provider.server.script(usual=said)
    assert "Nothing was consolidated: " in await run("r1", t=["I like dill"])
    (record,) = await records(run.store, ALICE)
    assert (record["status"], record["files"]) == ("failed", {})
    assert record["conversations"] == record["messages"] == 1
    assert record["ended_at"]
    assert record["reason"].endswith(".")
    assert (said.ending or said.blocked or record["reason"]) in record["reason"]
    assert await run.consolidated() == set()
    provider.server.script(Said(call=append("- dill")), Said(("done",)))
    await run("r2")
    assert await run.text() == "- dill\n"
    assert await run.consolidated() == {"t"}
    assert [kept["status"] for kept in await records(run.store, ALICE)] == ["done", "failed"]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_consolidation_that_changed_a_file_may_end_in_silence_but_not_be_cut(
    provided: Callable[[str], Provided], consolidation: Callable[[Provided], Runs], name: str
) -> None:
    provider, run = provided(name), consolidation(provided(name))
    ending = {
        "anthropic": "max_tokens",
        "responses": "max_output_tokens",
        "google": "MAX_TOKENS",
    }.get(name, "length")
    for number, cut in enumerate((Said(ending=ending), Said(WORDS, ending=ending))):
        provider.server.script(Said(call=append("- dill")), cut)
        await run(f"cut {number}", **({"t": ["I like dill"]} if number == 0 else {}))
        assert (await records(run.store, ALICE))[0]["status"] == "failed"
        assert await run.text() == ""
    provider.server.script(Said(call=append("- dill")), Said())
    await run("whole")
    assert (await records(run.store, ALICE))[0]["status"] == "done"
    assert await run.text() == "- dill\n"


async def test_a_conversation_that_is_filtered_keeps_no_other_from_memory(
    provided: Callable[[str], Provided],
    consolidation: Callable[[Provided], Runs],
    platform: Platform,
) -> None:
    """Whatever stands in one, the others are consolidated, each time that the platform runs what is
    planned.
    """
    provider, run = provided("openai"), consolidation(provided("openai"))

    def speak(_: Said, body: Any) -> list[bytes]:
        shown = str(body["messages"])
        if "something bad" in shown:
            return scripted_openai.completions(Said(ending="content_filter"), body)
        is_noted = any(
            message.get("tool_call_id", "").startswith("call_") for message in body["messages"]
        )
        said = Said(("done",)) if is_noted else Said(call=append("- good"))
        return scripted_openai.completions(said, body)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider.server, "speak", speak)
        await run("r0", a=["something bad"], b=["good"], c=["good too"])
        assert await run.consolidated() == set()
        for number in range(1, 5):
            await run(f"r{number}")
    assert await run.consolidated() == {"b", "c"}
    assert (await records(run.store, ALICE))[0]["status"] == "failed", "it stays due"


async def test_conversations_that_were_put_off_are_caught_up_without_another_turn(
    provided: Callable[[str], Provided],
    consolidation: Callable[[Provided], Runs],
    platform: Platform,
) -> None:
    """Once the provider answers again, a run that works plans the next, until nothing is left."""
    provider, run = provided("openai"), consolidation(provided("openai"))
    provider.server.script(usual=Said())
    await run("r0", a=["one"], b=["two"])
    assert platform.runs.all("pending") == [], (
        "a provider that says nothing is not asked again at once"
    )
    provider.server.script()
    await run("r1")
    assert len(platform.runs.all("pending")) == 1
    platform.runs.all("pending")[0]["status"] = "success"
    await run("r2")
    assert platform.runs.all("pending") == []
    assert await run.consolidated() == {"a", "b"}


async def test_a_model_for_consolidation_alone_is_held_to_the_same(
    provided: Callable[[str], Provided],
    consolidation: Callable[[Provided], Runs],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider = provided("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("OPENAI_BASE_URL", provider.server.url)
    run = consolidation(
        replace(
            provider,
            consolidation_agent=build_consolidation_agent(deployed(consolidation_model="openai:m")),
        )
    )
    provider.server.script(usual=Said(ending="content_filter"))
    await run("r1", t=["I like dill"])
    (record,) = await records(run.store, ALICE)
    assert (record["status"], "content_filter" in record["reason"]) == ("failed", True)
    assert await run.consolidated() == set()


# --- Models that do not stream


class Unstreamed(BaseChatModel):
    """Gives one message, as an integration of which nothing is known."""

    message: AIMessage

    @property
    def _llm_type(self) -> str:
        return "unstreamed"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.message)])


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (
            AIMessage("", response_metadata={"finish_reason": "content_filter"}),
            r"filtered this answer \(content_filter",
        ),
        (
            AIMessage("", response_metadata={"stop_reason": "guardrail_intervened"}),
            r"filtered this answer \(guardrail",
        ),
        (
            AIMessage("", response_metadata={"finish_reason": "length"}),
            r"limit of tokens before it said anything \(length",
        ),
        (AIMessage([{"type": "reasoning", "reasoning": "hm"}]), "without a word"),
    ],
)
async def test_a_model_of_which_nothing_is_known_is_held_to_the_same(
    message: AIMessage, why: str
) -> None:
    graph = Graph(build_agent(deployed(), Unstreamed(message=message)), InMemoryStore())
    with pytest.raises(RuntimeError, match=why):
        await graph.turn("wombats?")


async def test_an_answer_that_its_provider_calls_whole_is_taken_as_one() -> None:
    message = AIMessage("fine", response_metadata={"finish_reason": "COMPLETE"})
    graph = Graph(build_agent(deployed(), Unstreamed(message=message)), InMemoryStore())
    assert (await graph.turn("wombats?"))[-1] == "fine"
    assert CUT not in (await messages_of(graph))[-1].response_metadata


# --- `make chat`


class Streams:
    """The part of the platform's client that `make chat` uses, on a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.threads = self.runs = self

    async def create(self) -> dict[str, str]:
        return {"thread_id": "1"}

    async def stream(self, thread_id: str, _: str, *, input: Any, **__: Any) -> AsyncIterator[Any]:  # noqa: A002  # the client's
        config: Any = {"configurable": {"thread_id": thread_id}}
        context = Context(user_id="alice", org_id="acme")
        modes: Any = ["messages", "updates"]
        try:
            async for mode, part in self._graph.graph.astream(
                input, config, context=context, stream_mode=modes
            ):
                data = [part[0].model_dump(), part[1]] if mode == "messages" else part
                yield SimpleNamespace(event=mode, data=data)
        except RuntimeError as error:  # as the platform gives it
            yield SimpleNamespace(
                event="error", data={"error": type(error).__name__, "message": str(error)}
            )


@pytest.mark.parametrize("name", PROVIDERS)
def test_the_terminal_prints_what_was_said_with_its_spaces_and_why_it_is_not_all(
    provided: Callable[[str], Provided], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    provider, client = provided(name), Streams(provided(name).graph())
    talk: Any = chat.Chat(client, "agent")  # type: ignore[arg-type]  # all that it needs
    limit = {
        "anthropic": "max_tokens",
        "responses": "max_output_tokens",
        "google": "MAX_TOKENS",
    }.get(name, "length")
    printed = []
    for said in (Said(WORDS), Said(WORDS, ending=limit), Said()):
        provider.server.script(said)
        with suppress(KeyboardInterrupt):
            asyncio.run(talk.say("wombats?"))
        printed.append(capsys.readouterr().out)
    assert printed[0].strip() == TEXT
    assert printed[1].startswith(TEXT)
    assert printed[1].count(f"{limit}).") == 1
    assert printed[2].split("\n") == ["", SILENT, "", ""]


@pytest.mark.parametrize(
    ("name", "said", "why"), [(name, said, why) for name, said, _, why in NOTHING]
)
def test_the_terminal_says_once_and_without_a_class_why_there_is_no_answer(
    provided: Callable[[str], Provided],
    name: str,
    said: Said,
    why: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    provider, client = provided(name), Streams(provided(name).graph())
    provider.server.script(usual=said)
    asyncio.run(chat.Chat(client, "agent").say("wombats?"))  # type: ignore[arg-type]
    (line,) = [text for text in capsys.readouterr().out.split("\n") if text.strip()]
    assert re.search(why, line)
    assert "Error" not in line


@pytest.mark.parametrize("name", ["openai", "openai unstreamed", "responses"])
def test_the_terminal_prints_a_refusal(
    provided: Callable[[str], Provided], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    provider, client = provided(name), Streams(provided(name).graph())
    provider.server.script(Said(refusal=REFUSAL))
    asyncio.run(chat.Chat(client, "agent").say("wombats?"))  # type: ignore[arg-type]
    assert capsys.readouterr().out.startswith(REFUSAL)
