"""Gemini's protocol, as a scripted provider speaks it."""

from lasting_memory.testing.scripted_provider import Body, Said, sse

_USAGE = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}


def stream_generate_content(said: Said, body: Body) -> list[bytes]:
    """A streamed answer. What is filtered has a candidate without content; to a question that is
    blocked there is none.
    """
    if said.blocked:
        feedback = {"blockReason": said.blocked}
        blocked = {"promptFeedback": feedback, "usageMetadata": _USAGE, "modelVersion": "m"}
        return sse(blocked)
    chunks = list[Body]()
    if said.thought:
        thought = {"text": said.thought, "thought": True}
        chunks.append(_chunk(thought))
    for word in said.words:
        chunks.append(_chunk({"text": word}))
    for call, _ in said.calls():
        function_call = {"name": call.name, "args": call.args}
        chunks.append(_chunk({"functionCall": function_call}))
    ending = {"index": 0, "finishReason": said.ending or "STOP"}
    last_chunk = {"candidates": [ending], "usageMetadata": _USAGE, "modelVersion": "m"}
    chunks.append(last_chunk)
    return sse(*chunks)


def _chunk(part: Body) -> Body:
    """An event with a part of the answer."""
    content = {"role": "model", "parts": [part]}
    candidate = {"index": 0, "content": content}
    return {"candidates": [candidate], "modelVersion": "m"}
