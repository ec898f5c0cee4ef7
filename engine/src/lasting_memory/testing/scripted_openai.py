"""OpenAI's two protocols, as a scripted provider speaks them: Chat Completions and Responses."""

import json
import uuid

from lasting_memory.testing.scripted_anthropic import ToolCall
from lasting_memory.testing.scripted_provider import Body, Said, sse

_USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def completions(said: Said, body: Body) -> list[bytes]:
    """An answer of Chat Completions, streamed or not."""
    ending = said.ending
    if not ending:
        ending = "tool_calls" if said.call else "stop"
    if not body.get("stream"):
        completion = _completion(said, ending)
        answer = json.dumps(completion)
        return [answer.encode()]
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = list[Body]()
    for delta in _deltas(said):
        choice: Body = {"index": 0, "delta": delta, "finish_reason": None}
        chunk = {**head, "choices": [choice]}
        chunks.append(chunk)
    last_choice = {"index": 0, "delta": {}, "finish_reason": ending}
    last_chunk = {**head, "choices": [last_choice]}
    usage_chunk = {**head, "choices": [], "usage": _USAGE}
    chunks += [last_chunk, usage_chunk]
    parts = sse(*chunks)
    return [*parts, b"data: [DONE]\n\n"]


def _deltas(said: Said) -> list[Body]:
    """The pieces of a streamed answer."""
    deltas: list[Body] = [{"role": "assistant", "content": ""}]
    if said.thought:
        # As vLLM, llama.cpp and DeepSeek send it.
        deltas.append({"reasoning_content": said.thought})
    deltas += [{"content": word} for word in said.words]
    refusal_parts = _halves(said.refusal)
    deltas += [{"refusal": part} for part in refusal_parts]
    calls = _function_calls(said)
    for number, call in enumerate(calls):
        numbered = {"index": number, **call}
        deltas.append({"tool_calls": [numbered]})
    return deltas


def _completion(said: Said, ending: str) -> Body:
    """An answer that is not streamed."""
    message: Body = {
        "role": "assistant",
        "content": "".join(said.words) or None,
        "refusal": said.refusal or None,
    }
    if said.call:
        message["tool_calls"] = _function_calls(said)
    choice = {"index": 0, "message": message, "finish_reason": ending}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": _USAGE,
    }


def _function_calls(said: Said) -> list[Body]:
    """The calls of an answer, as Chat Completions has them."""
    calls = list[Body]()
    for call, arguments in said.calls():
        call_id = f"call_{uuid.uuid4().hex}"
        function = {"name": call.name, "arguments": arguments}
        calls.append({"id": call_id, "type": "function", "function": function})
    return calls


def responses(said: Said, body: Body) -> list[bytes]:
    """A streamed answer of Responses. Its `ending` is the reason why it is incomplete."""
    response: Body = {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "tools": [],
        "output": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "status": "in_progress",
    }
    events: list[Body] = [{"type": "response.created", "response": response}]
    output = _add_items(events, said)
    status = "completed"
    details = None
    if said.ending:
        status = "incomplete"
        details = {"reason": said.ending}
    token_details = {"cached_tokens": 0, "reasoning_tokens": 0}
    usage = {
        "input_tokens": 3,
        "output_tokens": 2,
        "total_tokens": 5,
        "input_tokens_details": token_details,
        "output_tokens_details": token_details,
    }
    done = {
        **response,
        "status": status,
        "incomplete_details": details,
        "output": output,
        "usage": usage,
    }
    events.append({"type": f"response.{status}", "response": done})
    for number, event in enumerate(events):
        event["sequence_number"] = number
    return sse(*events)


def _add_items(events: list[Body], said: Said) -> list[Body]:
    """Adds the events of all items of an answer. Returns the items."""
    output = list[Body]()
    if said.thought:
        item = _add_reasoning(events, len(output), said.thought)
        output.append(item)
    if said.words:
        item = _add_message(events, len(output), said)
        output.append(item)
    if said.refusal:
        item = _add_refusal(events, len(output), said.refusal)
        output.append(item)
    for call, arguments in said.calls():
        item = _add_call(events, len(output), call, arguments)
        output.append(item)
    return output


def _add_message(events: list[Body], index: int, said: Said) -> Body:
    """Adds the events of a text. Returns its item, as do the functions below."""
    item = _add_message_item(events, index)
    place = {"item_id": item["id"], "output_index": index, "content_index": 0}
    for word in said.words:
        delta = {"type": "response.output_text.delta", "delta": word, "logprobs": []}
        delta.update(place)
        events.append(delta)
    text = "".join(said.words)
    done = {"type": "response.output_text.done", "text": text, "logprobs": []}
    done.update(place)
    events.append(done)
    content = {"type": "output_text", "text": text, "annotations": []}
    return {**item, "status": "completed", "content": [content]}


def _add_refusal(events: list[Body], index: int, refusal: str) -> Body:
    """Adds the events of a refusal."""
    item = _add_message_item(events, index)
    place = {"item_id": item["id"], "output_index": index, "content_index": 0}
    for part in _halves(refusal):
        delta = {"type": "response.refusal.delta", "delta": part, **place}
        events.append(delta)
    done = {"type": "response.refusal.done", "refusal": refusal, **place}
    events.append(done)
    content = {"type": "refusal", "refusal": refusal}
    return {**item, "status": "completed", "content": [content]}


def _add_message_item(events: list[Body], index: int) -> Body:
    """Adds the event with which a message begins."""
    message = {"type": "message", "id": f"msg_{index}", "role": "assistant", "content": []}
    return _add_item(events, index, message)


def _add_reasoning(events: list[Body], index: int, thought: str) -> Body:
    """Adds the events of a thought."""
    reasoning = {"type": "reasoning", "id": f"rs_{index}", "summary": []}
    item = _add_item(events, index, reasoning)
    place = {"item_id": item["id"], "output_index": index, "summary_index": 0}
    empty = {"type": "summary_text", "text": ""}
    part = {"type": "summary_text", "text": thought}
    added = {"type": "response.reasoning_summary_part.added", "part": empty, **place}
    delta = {"type": "response.reasoning_summary_text.delta", "delta": thought, **place}
    done = {"type": "response.reasoning_summary_part.done", "part": part, **place}
    events += [added, delta, done]
    return {**item, "status": "completed", "summary": [part]}


def _add_call(events: list[Body], index: int, called: ToolCall, arguments: str) -> Body:
    """Adds the events of a call."""
    call: Body = {
        "type": "function_call",
        "id": f"fc_{index}",
        "call_id": f"call_{uuid.uuid4().hex}",
        "name": called.name,
    }
    item = _add_item(events, index, {**call, "arguments": ""})
    delta: Body = {"type": "response.function_call_arguments.delta", "delta": arguments}
    delta["item_id"] = item["id"]
    delta["output_index"] = index
    events.append(delta)
    return {**item, "status": "completed", "arguments": arguments}


def _add_item(events: list[Body], index: int, item: Body) -> Body:
    """Adds the event with which an item begins."""
    item = {**item, "status": "in_progress"}
    event = {"type": "response.output_item.added", "output_index": index, "item": item}
    events.append(event)
    return item


def _halves(text: str) -> list[str]:
    """A text in two pieces, without empty ones."""
    middle = len(text) // 2
    halves = (text[:middle], text[middle:])
    return [half for half in halves if half]
