"""How each provider's protocol ends an answer, and what becomes of one that did not end so: the
real clients over HTTP.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage
from pydantic import SecretStr

from lasting_memory import Limits
from lasting_memory.agent import whole_answers as whole_answers_module
from lasting_memory.agent.answer_errors import BadAnswerError, CutAnswerError, SilentModelError
from lasting_memory.agent.answers import MAX_ANSWER_CHARS
from lasting_memory.agent.whole_answers import whole_answers
from lasting_memory.testing.loopback import LoopbackServer, QuietHandler

pytestmark = pytest.mark.begins_first

Parts = list[bytes]
PATIENT, IMPATIENT = Limits(), Limits(model_silence_seconds=0.4)
KEY = SecretStr("test")


def _sse(*events: Any) -> Parts:
    """Server-sent events; Anthropic's and OpenAI's Responses are named by their type."""
    names = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
    return [
        f"{name}data: {json.dumps(event)}\n\n".encode()
        for name, event in zip(names, events, strict=True)
    ]


def anthropic(reason: str, *, tool: bool, parts: Sequence[str] = ()) -> Parts:
    call = {"type": "tool_use", "id": "1", "name": "note", "input": {}}
    block: dict[str, Any] = call if tool else {"type": "text", "text": ""}
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": usage,
    }
    parts = parts or (('{"text": "a', ' b"}') if tool else ("a", " b"))
    deltas = [
        {"type": "input_json_delta", "partial_json": it}
        if tool
        else {"type": "text_delta", "text": it}
        for it in parts
    ]
    return _sse(
        {
            "type": "message_start",
            "message": {**message, "stop_reason": None, "stop_sequence": None},
        },
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": usage,
        },
        {"type": "message_stop"},
    )


def openai(reason: str, *, tool: bool) -> Parts:
    def call(text: str, **first: Any) -> dict[str, Any]:
        return {
            "tool_calls": [
                {
                    "index": 0,
                    **first,
                    "function": {"arguments": text} | ({"name": "note"} if first else {}),
                }
            ]
        }

    deltas: list[dict[str, Any]] = (
        [call('{"text": "a', id="1", type="function"), call(' b"}')]
        if tool
        else [{"content": "a"}, {"content": " b"}]
    )
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return [*_sse(*({**head, "choices": [choice]} for choice in choices)), b"data: [DONE]\n\n"]


def responses(reason: str, *, tool: bool) -> Parts:
    item: dict[str, Any] = {"id": "i", "status": "completed"}
    if tool:
        item |= {
            "type": "function_call",
            "call_id": "1",
            "name": "note",
            "arguments": '{"text": "a b"}',
        }
        added = {**item, "arguments": "", "status": "in_progress"}
        deltas: list[dict[str, Any]] = [
            {"type": "response.function_call_arguments.delta", "delta": it}
            for it in ('{"text": "a', ' b"}')
        ]
    else:
        item |= {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a b", "annotations": []}],
        }
        added = {**item, "content": [], "status": "in_progress"}
        deltas = [
            {"type": "response.output_text.delta", "content_index": 0, "delta": it, "logprobs": []}
            for it in ("a", " b")
        ]
    response: dict[str, Any] = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "tools": [],
        "output": [],
    }
    response |= {"tool_choice": "auto", "parallel_tool_calls": True, "status": "in_progress"}
    done = {**response, "status": reason, "output": [item]}
    return _sse(
        {"type": "response.created", "sequence_number": 0, "response": response},
        {
            "type": "response.output_item.added",
            "sequence_number": 1,
            "output_index": 0,
            "item": added,
        },
        *({**it, "sequence_number": 2, "item_id": "i", "output_index": 0} for it in deltas),
        {"type": f"response.{reason}", "sequence_number": 4, "response": done},
    )


def google(reason: str, *, tool: bool) -> Parts:
    def said(part: dict[str, Any], **more: str) -> dict[str, Any]:
        return {
            "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, **more}],
            "modelVersion": "m",
        }

    first = {"functionCall": {"name": "note", "args": {"text": "a b"}}} if tool else {"text": "a"}
    return _sse(said(first), said({"text": "" if tool else " b"}, finishReason=reason))


def ollama(reason: str, *, tool: bool) -> Parts:
    def said(message: dict[str, Any], **more: Any) -> bytes:
        line = {
            "model": "m",
            "created_at": "2026-01-01T00:00:00Z",
            "message": {"role": "assistant", **message},
            **more,
        }
        return f"{json.dumps(line)}\n".encode()

    call = {
        "content": "",
        "tool_calls": [{"function": {"name": "note", "arguments": {"text": "a b"}}}],
    }
    first = (
        [said(call, done=False)]
        if tool
        else [said({"content": "a"}, done=False), said({"content": " b"}, done=False)]
    )
    return [*first, said({"content": ""}, done=True, done_reason=reason)]


Say = Callable[..., Parts]
# How a protocol is spoken, the client for it, how it ends a text, how a tool call, and how an
# answer at its limit of tokens.
Provider = tuple[Say, Callable[[str], BaseChatModel], str, str, str]


def client(name: str, **options: Any) -> Callable[[str], BaseChatModel]:
    return lambda url: init_chat_model(name, base_url=url, **options)


# fmt: off
PROVIDERS: dict[str, Provider] = {
    "anthropic": (anthropic, client("anthropic:m", api_key=KEY), "end_turn", "tool_use", "max_tokens"),
    "openai": (openai, client("openai:m", api_key=KEY), "stop", "tool_calls", "length"),
    "openai responses": (
        responses, client("openai:m", api_key=KEY, use_responses_api=True), "completed", "completed", "incomplete"),
    "google_genai": (google, client("google_genai:m", api_key=KEY), "STOP", "STOP", "MAX_TOKENS"),
    "ollama": (ollama, client("ollama:m"), "stop", "stop", "length"),
}
# fmt: on


def note(text: str) -> None:
    """Note a text."""


class Provided(LoopbackServer):
    """A provider that answers every request with `parts`, waits while it is not `silent`, and
    closes the connection.
    """

    def __init__(self) -> None:
        self.parts: Parts = []
        self.silent = threading.Event()
        self.silent.set()
        super().__init__(_Handler)


class _Handler(QuietHandler):
    server: Provided

    def do_POST(self) -> None:  # noqa: N802  # http.server's name
        self.body()
        self.head(200, "text/event-stream")
        for part in self.server.parts:
            self.wfile.write(part)
        self.server.silent.wait(300)


@pytest.fixture
def provided() -> Iterator[Provided]:
    with Provided() as provided:
        yield provided
        provided.silent.set()


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> Provider:
    return PROVIDERS[request.param]


@pytest.fixture
def ask(provider: Provider, provided: Provided) -> Callable[..., Any]:
    """Asks the provider's model, whose answer is `parts`, and gives the whole message."""

    plain = provider[1](provided.url)

    async def ask(parts: Parts, limits: Limits = PATIENT) -> AIMessage:
        provided.parts = parts
        return await whole_answers(plain, limits).bind_tools([note]).ainvoke("go")

    return ask


async def test_an_answer_that_ended_is_whole(
    provider: Provider, ask: Callable[..., Any], provided: Provided
) -> None:
    say, client, end_of_text, end_of_call, _ = provider
    assert (await ask(say(end_of_text, tool=False))).text == "a b"
    assert (
        "".join(
            [
                str(chunk.text)
                async for chunk in whole_answers(client(provided.url), PATIENT).astream("go")
            ]
        )
        == "a b"
    )
    (call,) = (await ask(say(end_of_call, tool=True))).tool_calls
    assert (call["name"], call["args"]) == ("note", {"text": "a b"})


async def test_an_answer_that_was_cut_is_an_error_wherever_it_was_cut(
    provider: Provider, ask: Callable[..., Any]
) -> None:
    say, _, end_of_text, end_of_call, _ = provider
    for tool, reason in ((False, end_of_text), (True, end_of_call)):
        parts = say(reason, tool=tool)
        end = max(number for number, part in enumerate(parts) if reason.encode() in part)
        for kept in range(end + 1):
            with pytest.raises(CutAnswerError, match="broke off"):
                await ask(parts[:kept])


async def test_a_tool_call_at_the_limit_of_tokens_is_an_error_and_a_text_is_kept(
    provider: Provider, ask: Callable[..., Any]
) -> None:
    say, *_, limit = provider
    with pytest.raises(BadAnswerError, match=limit):
        await ask(say(limit, tool=True))
    message = await ask(say(limit, tool=False))
    assert message.text == "a b"
    assert limit in str(message.response_metadata)


async def test_an_answer_that_falls_silent_is_an_error_and_the_log_names_the_limit(
    provider: Provider,
    ask: Callable[..., Any],
    provided: Provided,
    caplog: pytest.LogCaptureFixture,
) -> None:
    provided.silent.clear()
    for parts in ([], provider[0](provider[2], tool=False)[:2]):
        with pytest.raises(SilentModelError, match=r"nothing for 0\.4 seconds"):
            await ask(parts, IMPATIENT)
        assert "Limits(model_silence_seconds=...)" in caplog.text


@pytest.mark.parametrize("provider", ["openai"], indirect=True)
@pytest.mark.usefixtures("provider")
async def test_a_server_s_progress_is_no_silence(
    ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As llama.cpp does while it reads a long prompt, when it is asked for `return_progress`.

    The seconds of silence begin anew with each chunk that is waited for.
    """
    next_chunk = whole_answers_module._next_chunk
    texts = list[str | None]()

    async def noted(*args: Any, **kwargs: Any) -> Any:
        chunk = await next_chunk(*args, **kwargs)
        texts.append(None if chunk is None else str(chunk.message.text))
        return chunk

    monkeypatch.setattr(whole_answers_module, "_next_chunk", noted)
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    processed = (0, 3_000, 6_000, 9_000)
    progress = _sse(
        *(
            {**head, "choices": [], "prompt_progress": {"total": 9_000, "processed": tokens}}
            for tokens in processed
        )
    )
    message = await ask(progress + openai("stop", tool=False), PATIENT)
    assert message.text == "a b"
    before_the_text = texts[: next(place for place, text in enumerate(texts) if text)]
    assert len(before_the_text) >= len(processed), "each progress is a chunk of its own"


NO_THREAD_KEEPS = [
    '{"text": "half and',
    '{"n": 1' + "0" * 20 + "}",
    '{"n": NaN}',
    '{"x": ' + "[" * 400 + "]" * 400 + "}",
    '{"x": "\\ud800"}',
]


@pytest.mark.parametrize("provider", ["anthropic"], indirect=True)
@pytest.mark.usefixtures("provider")
async def test_an_answer_that_is_too_long_or_that_no_thread_can_keep_is_an_error(
    ask: Callable[..., Any],
) -> None:
    """langchain would complete half a text; with any other of these arguments the thread could
    never be read again.
    """
    with pytest.raises(BadAnswerError, match="2,000,000 characters"):
        await ask(
            anthropic(
                "end_turn", tool=False, parts=["x" * 10_000] * (MAX_ANSWER_CHARS // 10_000 + 1)
            )
        )
    for arguments in NO_THREAD_KEEPS:
        with pytest.raises(BadAnswerError, match="no thread can keep"):
            await ask(anthropic("tool_use", tool=True, parts=[arguments]))


async def test_a_model_nobody_knows_is_not_refused(provided: Provided) -> None:
    model = FakeListChatModel(responses=["as ever"])
    assert (await whole_answers(model, PATIENT).ainvoke("go")).text == "as ever"
