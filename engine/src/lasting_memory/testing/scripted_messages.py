"""Anthropic's protocol, as a scripted provider speaks it. `ScriptedAnthropic` chooses its answers
by what was asked.
"""

import uuid

from lasting_memory.testing.scripted_provider import Body, Said, sse

_USAGE = {"input_tokens": 3, "output_tokens": 2}


def messages(said: Said, body: Body) -> list[bytes]:
    """A streamed answer of Messages."""
    message: Body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": _USAGE,
    }
    events: list[Body] = [
        {
            "type": "message_start",
            "message": {**message, "stop_reason": None, "stop_sequence": None},
        }
    ]
    blocks: list[tuple[Body, list[Body]]] = []
    if said.thought:
        thinking = [
            {"type": "thinking_delta", "thinking": said.thought},
            {"type": "signature_delta", "signature": "c2lnbmVk"},
        ]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, thinking))
    if said.words:
        deltas: list[Body] = [{"type": "text_delta", "text": word} for word in said.words]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for call, arguments in said.calls():
        use = {
            "type": "tool_use",
            "id": f"toolu_{uuid.uuid4().hex}",
            "name": call.name,
            "input": {},
        }
        blocks.append((use, [{"type": "input_json_delta", "partial_json": arguments}]))
    for index, (block, parts) in enumerate(blocks):
        events += _block(index, block, parts)
    ending = said.ending or ("tool_use" if said.call else "end_turn")
    events.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": ending, "stop_sequence": None},
            "usage": _USAGE,
        }
    )
    events.append({"type": "message_stop"})
    return sse(*events)


def _block(index: int, block: Body, deltas: list[Body]) -> list[Body]:
    start: Body = {"type": "content_block_start", "index": index, "content_block": block}
    middle: list[Body] = [
        {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
    ]
    return [start, *middle, {"type": "content_block_stop", "index": index}]
