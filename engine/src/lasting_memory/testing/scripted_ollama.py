"""Ollama's protocol, as a scripted provider speaks it."""

import json
from typing import Any

from lasting_memory.testing.scripted_provider import Body, Said


def chat(said: Said, body: Body) -> list[bytes]:
    """A streamed answer: a line of JSON for each piece."""
    lines = list[bytes]()
    if said.thought:
        thought = {"content": "", "thinking": said.thought}
        lines.append(_line(thought, done=False))
    for word in said.words:
        lines.append(_line({"content": word}, done=False))
    calls = list[Body]()
    for call, _ in said.calls():
        function = {"name": call.name, "arguments": call.args}
        calls.append({"function": function})
    if calls:
        message = {"content": "", "tool_calls": calls}
        lines.append(_line(message, done=False))
    reason = said.ending or "stop"
    counts = {"prompt_eval_count": 3, "eval_count": 2}
    end = _line({"content": ""}, done=True, done_reason=reason, **counts)
    lines.append(end)
    return lines


def _line(message: Body, **more: Any) -> bytes:
    line = {
        "model": "m",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", **message},
        **more,
    }
    return f"{json.dumps(line)}\n".encode()
