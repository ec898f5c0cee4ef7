"""Gemini's protocol, as a scripted provider speaks it."""

from lasting_memory.testing.scripted_provider import Body, Said, sse

_USAGE = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}


def stream_generate_content(said: Said, body: Body) -> list[bytes]:
    """A streamed answer. What is filtered has a candidate without content; to a question that is
    blocked there is none.
    """
    if said.blocked:
        return sse(
            {
                "promptFeedback": {"blockReason": said.blocked},
                "usageMetadata": _USAGE,
                "modelVersion": "m",
            }
        )
    chunks = [_chunk({"text": said.thought, "thought": True})] if said.thought else []
    chunks += [_chunk({"text": word}) for word in said.words]
    for call, _ in said.calls():
        chunks.append(_chunk({"functionCall": {"name": call.name, "args": call.args}}))
    ending = {"index": 0, "finishReason": said.ending or "STOP"}
    chunks.append({"candidates": [ending], "usageMetadata": _USAGE, "modelVersion": "m"})
    return sse(*chunks)


def _chunk(part: Body) -> Body:
    content = {"role": "model", "parts": [part]}
    return {"candidates": [{"index": 0, "content": content}], "modelVersion": "m"}
