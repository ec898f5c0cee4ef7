"""A scripted server that speaks the Anthropic Messages protocol on loopback, for tests without a
model.
"""

import asyncio
import json
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lasting_memory.testing.loopback import LoopbackServer, QuietHandler

MAX_DELAY_SECONDS = 600.0
DELTA_CHARACTERS = 16
MAX_DELTAS = 200  # about: a long text comes in longer pieces, and a tool's long input whole

Body = dict[str, Any]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Text:
    """A text block the model says."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """A tool_use block the model says: the tool's name and its arguments."""

    name: str
    args: dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """An error answer: HTTP status, Anthropic error type (such as "overloaded_error") and message,
    and a Retry-After header.

    The Anthropic SDK retries 408, 409, 429 and 5xx (twice by default), and every retry takes the
    next reply.
    """

    status: int
    type: str
    message: str
    retry_after: str = ""


@dataclass(frozen=True)
class Slow:
    """An answer held back for `seconds`."""

    seconds: float
    reply: "Answer"

    def __call__(self, _: Body) -> "Answer":
        time.sleep(self.seconds)
        return self.reply


@dataclass(frozen=True)
class Ended:
    """An answer that ends for this `stop_reason`, such as "refusal" or "max_tokens". It may be
    empty.
    """

    reply: "Reply"
    reason: str


@dataclass(frozen=True)
class Changed:
    """A streamed answer that goes wrong: `change` takes its events, and gives the events that are
    sent instead.

    A number is a pause in seconds. The connection then closes.
    """

    reply: "Reply"
    change: Callable[[list[bytes]], Iterable[bytes | float]]


Reply = Sequence[Text | ToolCall]
Answer = Reply | Failure | Ended | Changed | Callable[[Body], "Answer"]
Match = str | Callable[[Body], bool]
# The answers to what matches.
Rule = tuple[Match, deque[Answer]]


def after(event: threading.Event, reply: Reply) -> Callable[[Body], Reply]:
    """A reply that is given once the event is set, or after MAX_DELAY_SECONDS."""

    def wait(_: Body) -> Reply:
        event.wait(MAX_DELAY_SECONDS)
        return reply

    return wait


class ScriptedAnthropic(LoopbackServer):
    """Context manager serving POST /v1/messages (JSON and SSE) on 127.0.0.1, with answers set by
    `script`.

    `requests` holds the JSON bodies it was shown, in order of arrival. A scripted callable that
    raises is answered with a 400 that names the exception, which the SDK does not retry.
    """

    def __init__(self) -> None:
        self.requests = list[Body]()
        self._rules = list[Rule]()
        self._lock = threading.RLock()  # a predicate may call requests_for
        super().__init__(_Handler)

    @property
    def env(self) -> dict[str, str]:
        """Environment by which the real Anthropic client talks to this server."""
        return {
            "AGENT_MODEL": "anthropic:claude-sonnet-4-6",
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "test",
        }

    def script(self, match: Match, *replies: Answer) -> None:
        """Answer the requests that match, one reply each; when they run out the rule no longer
        matches.

        `match` is a string looked for in `last_user_text`, or a predicate over the body. The newest
        rule is tried first; a request that no rule matches is answered with Text("ok").
        """
        with self._lock:
            self._rules.insert(0, (match, deque(replies)))

    def requests_for(self, text: str) -> list[Body]:
        """The recorded bodies whose JSON contains `text`."""
        needle = _dumps(text)[1:-1]
        with self._lock:
            return [body for body in self.requests if needle in _dumps(body)]

    async def asked(self, text: str, times: int = 1) -> None:
        """Wait until so many requests contain `text`. Raises TimeoutError after five minutes."""
        async with asyncio.timeout(300):
            while len(self.requests_for(text)) < times:  # noqa: ASYNC110  # its threads set no event
                await asyncio.sleep(0.02)

    def clear(self) -> None:
        """Drop all rules and records."""
        with self._lock:
            self.requests.clear()
            self._rules.clear()

    def answer(self, body: Body) -> Reply | Failure | Ended | Changed:
        """Record a request and give its answer, once any delay is over."""
        reply = self._next(body)
        while callable(reply):
            reply = reply(body)
        return reply

    def _next(self, body: Body) -> Answer:
        text = last_user_text(body)
        with self._lock:
            self.requests.append(body)
            for match, replies in self._rules:
                if replies and _is_match(match, text, body):
                    return replies.popleft()
        return (Text("ok"),)


def system_text(body: Body) -> str:
    """The whole system prompt of a request ("" when there is none)."""
    return _text(body.get("system", ""))


def last_user_text(body: Body) -> str:
    """The text of the last user message that has any; tool results are not text."""
    for content in _user_contents(body):
        text = _text(content)
        if text:
            return text
    return ""


def tool_results(body: Body) -> list[str]:
    """The texts of the tool_result blocks in the last user message."""
    last_content: Any = next(_user_contents(body), "")
    texts = list[str]()
    for block in last_content:
        if _is_block(block, "tool_result"):
            content = block.get("content", "")
            texts.append(_text(content))
    return texts


def _user_contents(body: Body) -> Iterator[Any]:
    """The contents of the user's messages, the last first."""
    for message in reversed(body["messages"]):
        if message["role"] == "user":
            yield message["content"]


def _is_match(match: Match, text: str, body: Body) -> bool:
    """Whether a rule is about a request with this last text of the user's."""
    if isinstance(match, str):
        return match in text
    return match(body)


def _text(content: str | list[Any]) -> str:
    """The text of a message's content."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if _is_block(block, "text"))


def _is_block(value: object, kind: str) -> bool:
    return isinstance(value, dict) and value.get("type") == kind


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _message(body: Body, reply: Reply) -> Body:
    """The answer to a request, as it is without a stream."""
    content = [_block(part) for part in reply]
    has_calls = any(isinstance(part, ToolCall) for part in reply)
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": content,
        "stop_reason": "tool_use" if has_calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": len(_dumps(body)) // 4,
            "output_tokens": len(_dumps(content)) // 4,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


def _block(part: Text | ToolCall) -> Body:
    """A part of a reply as a block of content."""
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {
        "type": "tool_use",
        "id": f"toolu_{uuid.uuid4().hex}",
        "name": part.name,
        "input": part.args,
    }


def _events(message: Body) -> Iterator[Body]:
    """The events of a streamed answer, given the answer that is not streamed."""
    opening = {
        **message,
        "content": [],
        "stop_reason": None,
        "usage": {**message["usage"], "output_tokens": 1},
    }
    yield {"type": "message_start", "message": opening}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty_block = {**block, "text": ""}
            deltas = _text_deltas(block["text"])
        else:
            empty_block = {**block, "input": {}}
            deltas = _json_deltas(_dumps(block["input"]))
        yield {"type": "content_block_start", "index": index, "content_block": empty_block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _text_deltas(text: str) -> Iterator[Body]:
    """The pieces of a text."""
    size = DELTA_CHARACTERS
    if len(text) > size * MAX_DELTAS:
        size = len(text) // MAX_DELTAS
    for piece in _pieces(text, size):
        yield {"type": "text_delta", "text": piece}


def _json_deltas(arguments: str) -> Iterator[Body]:
    """The pieces of a call's arguments."""
    size = DELTA_CHARACTERS
    if len(arguments) > size * MAX_DELTAS:
        # A client parses what has come so far at each piece: the time grows with the square.
        size = len(arguments)
    for piece in _pieces(arguments, size):
        yield {"type": "input_json_delta", "partial_json": piece}


def _pieces(text: str, size: int) -> Iterator[str]:
    """A text in pieces of this size; the last one may be smaller."""
    for start in range(0, len(text), size):
        end = start + size
        yield text[start:end]


class _Handler(QuietHandler):
    server: ScriptedAnthropic

    def do_POST(self) -> None:
        try:
            body = json.loads(self.body())
            reply = self.server.answer(body)
            content = reply.reply if isinstance(reply, Changed | Ended) else reply
            message: Body = {}
            if not isinstance(content, Failure):
                message = _message(body, content)
            if isinstance(reply, Ended):
                message["stop_reason"] = reply.reason
        except Exception as error:
            _logger.exception("scripted reply failed")
            body = {}
            reply = Failure(400, "invalid_request_error", f"scripted_anthropic: {error!r}")
        if isinstance(reply, Failure):
            self._fail(reply)
        elif body.get("stream"):
            self.head(200, "text/event-stream")
            events = list[bytes]()
            for event in _events(message):
                kind = event["type"]
                data = _dumps(event)
                events.append(f"event: {kind}\ndata: {data}\n\n".encode())
            parts: Iterable[bytes | float] = events
            if isinstance(reply, Changed):
                parts = reply.change(events)
            for part in parts:
                if isinstance(part, bytes):
                    self.wfile.write(part)
                else:
                    time.sleep(part)
        else:
            self.send(200, _dumps(message).encode())

    def _fail(self, failure: Failure) -> None:
        """Answer with an error."""
        error = {"type": failure.type, "message": failure.message}
        body = _dumps({"type": "error", "error": error})
        # Where nothing says when to come back, the SDK's retries are quick.
        headers = {"retry_after_ms": "10"}
        if failure.retry_after:
            headers = {"Retry_After": failure.retry_after}
        self.send(failure.status, body.encode(), **headers)
