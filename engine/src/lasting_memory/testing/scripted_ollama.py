"""Ollama's protocol, as a scripted provider speaks it."""

import json
from typing import Any

from lasting_memory.testing.scripted_provider import Body, Said


def chat(said: Said, body: Body) -> list[bytes]:
    """A streamed answer: a line of JSON for each piece."""
    lines = [_line({"content": "", "thinking": said.thought}, done=False)] if said.thought else []
    lines += [_line({"content": word}, done=False) for word in said.words]
    calls = [{"function": {"name": call.name, "arguments": call.args}} for call, _ in said.calls()]
    if calls:
        lines.append(_line({"content": "", "tool_calls": calls}, done=False))
    counts = {"prompt_eval_count": 3, "eval_count": 2}
    lines.append(_line({"content": ""}, done=True, done_reason=said.ending or "stop", **counts))
    return lines


def _line(message: Body, **more: Any) -> bytes:
    line = {
        "model": "m",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", **message},
        **more,
    }
    return f"{json.dumps(line)}\n".encode()
