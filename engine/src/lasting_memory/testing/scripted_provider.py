"""A scripted server for any provider of models on loopback. How each protocol is spoken is in the
modules beside this.
"""

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lasting_memory.testing.loopback import LoopbackServer, QuietHandler
from lasting_memory.testing.scripted_anthropic import ToolCall

Body = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """One answer of a model.

    Args:
        words: its text, in the pieces in which it is sent.
        call: the tool that it calls after the text.
        more_calls: tools that it calls beside that one.
        arguments: the first call's arguments as they are sent, where they are no JSON; not in
            Gemini's protocol and Ollama's, whose arguments are objects.
        thought: what it thinks before the text, as a block of its own.
        refusal: what it says beside the text, in OpenAI's protocols.
        ending: why it ended, in the protocol's own word; "" as a whole answer ends.
        blocked: why the question was refused, in Gemini's protocol. Then there is nothing else.
    """

    words: tuple[str, ...] = ()
    call: ToolCall | None = None
    more_calls: tuple[ToolCall, ...] = ()
    arguments: str = ""
    thought: str = ""
    refusal: str = ""
    ending: str = ""
    blocked: str = ""

    def calls(self) -> list[tuple[ToolCall, str]]:
        """The calls of the answer, each with its arguments as JSON."""
        if self.call is None:
            return []
        arguments = self.arguments or json.dumps(self.call.args)
        calls = [(self.call, arguments)]
        for call in self.more_calls:
            arguments = json.dumps(call.args)
            calls.append((call, arguments))
        return calls


@dataclass(frozen=True)
class Refused:
    """An error in place of an answer: its HTTP status, its body in the protocol's own form, and a
    Retry-After header.
    """

    status: int
    body: Body
    retry_after: str = ""


# Why a request is not answered; None for one that is.
Refuse = Callable[[Body], Refused | None]
# The parts of the body of an answer. They are JSON where the request asks for no stream.
Speak = Callable[[Said, Body], list[bytes]]


class ScriptedProvider(LoopbackServer):
    """Context manager: answers each request with the next of `answers`, then with `usual`.
    `requests` has their bodies.

    What `refuse` refuses gets that error, and takes none of the answers.
    """

    def __init__(self, speak: Speak) -> None:
        self.speak = speak
        self.requests: list[Body] = []
        self.answers: deque[Said] = deque()
        self.usual = Said(("ok",))
        self.refuse: Refuse = lambda _: None
        self._lock = threading.Lock()
        super().__init__(_Handler)

    def script(self, *answers: Said, usual: Said | None = None) -> None:
        """Forget what was asked, and answer so from now on."""
        with self._lock:
            self.requests.clear()
            self.answers = deque(answers)
            self.usual = usual or Said(("ok",))

    def answer(self, body: Body) -> list[bytes] | Refused:
        """The parts of the next answer, or the error in its place."""
        with self._lock:
            self.requests.append(body)
            refused = self.refuse(body)
            if refused:
                return refused
            said = self.usual
            if self.answers:
                said = self.answers.popleft()
        return self.speak(said, body)


class _Handler(QuietHandler):
    server: ScriptedProvider

    def do_POST(self) -> None:
        body = json.loads(self.body())
        parts = self.server.answer(body)
        if isinstance(parts, Refused):
            headers = dict[str, str]()
            if parts.retry_after:
                headers["Retry_After"] = parts.retry_after
            data = json.dumps(parts.body)
            self.send(parts.status, data.encode(), **headers)
            return
        is_json = parts[0].startswith(b"{")
        content_type = "application/json" if is_json else "text/event-stream"
        self.head(200, content_type)
        for part in parts:
            self.wfile.write(part)


def sse(*events: Body) -> list[bytes]:
    """Server-sent events, with names where they have a type."""
    parts = list[bytes]()
    for event in events:
        data = json.dumps(event)
        part = f"data: {data}\n\n"
        if "type" in event:
            name = event["type"]
            part = f"event: {name}\n{part}"
        parts.append(part.encode())
    return parts
