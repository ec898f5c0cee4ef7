"""OpenAI's two protocols, as a scripted provider speaks them: Chat Completions and Responses."""

import json
import uuid

from lasting_memory.testing.scripted_anthropic import ToolCall
from lasting_memory.testing.scripted_provider import Body, Said, sse

_USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def completions(said: Said, body: Body) -> list[bytes]:
    """An answer of Chat Completions, streamed or not."""
    ending = said.ending or ("tool_calls" if said.call else "stop")
    if not body.get("stream"):
        return [json.dumps(_completion(said, ending)).encode()]
    deltas: list[Body] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in said.words]
    deltas += [{"refusal": part} for part in _halves(said.refusal)]
    if said.thought:
        # As vLLM, llama.cpp and DeepSeek send it.
        deltas.insert(1, {"reasoning_content": said.thought})
    for number, call in enumerate(_function_calls(said)):
        deltas.append({"tool_calls": [{"index": number, **call}]})
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": ending}]})
    chunks.append({**head, "choices": [], "usage": _USAGE})
    return [*sse(*chunks), b"data: [DONE]\n\n"]


def _completion(said: Said, ending: str) -> Body:
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
    calls: list[Body] = []
    for call, arguments in said.calls():
        function = {"name": call.name, "arguments": arguments}
        calls.append({"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function})
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
    }
    response |= {"tool_choice": "auto", "parallel_tool_calls": True, "status": "in_progress"}
    events: list[Body] = [{"type": "response.created", "response": response}]
    output: list[Body] = []
    if said.thought:
        output.append(_add_reasoning(events, len(output), said.thought))
    if said.words:
        output.append(_add_message(events, len(output), said))
    if said.refusal:
        output.append(_add_refusal(events, len(output), said.refusal))
    for call, arguments in said.calls():
        output.append(_add_call(events, len(output), call, arguments))
    status = "incomplete" if said.ending else "completed"
    details = {"reason": said.ending} if said.ending else None
    done = {**response, "status": status, "incomplete_details": details, "output": output}
    done["usage"] = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    for of in ("input_tokens_details", "output_tokens_details"):
        done["usage"][of] = {"cached_tokens": 0, "reasoning_tokens": 0}
    events.append({"type": f"response.{status}", "response": done})
    return sse(*({**event, "sequence_number": number} for number, event in enumerate(events)))


def _add_message(events: list[Body], index: int, said: Said) -> Body:
    item = _add_item(
        events, index, {"type": "message", "id": f"msg_{index}", "role": "assistant", "content": []}
    )
    at = {"item_id": item["id"], "output_index": index, "content_index": 0}
    events += [
        {"type": "response.output_text.delta", "delta": word, "logprobs": [], **at}
        for word in said.words
    ]
    text = {"type": "output_text", "text": "".join(said.words), "annotations": []}
    events.append({"type": "response.output_text.done", "text": text["text"], "logprobs": [], **at})
    return {**item, "status": "completed", "content": [text]}


def _add_refusal(events: list[Body], index: int, refusal: str) -> Body:
    item = _add_item(
        events, index, {"type": "message", "id": f"msg_{index}", "role": "assistant", "content": []}
    )
    at = {"item_id": item["id"], "output_index": index, "content_index": 0}
    events += [{"type": "response.refusal.delta", "delta": part, **at} for part in _halves(refusal)]
    events.append({"type": "response.refusal.done", "refusal": refusal, **at})
    return {**item, "status": "completed", "content": [{"type": "refusal", "refusal": refusal}]}


def _add_reasoning(events: list[Body], index: int, thought: str) -> Body:
    item = _add_item(events, index, {"type": "reasoning", "id": f"rs_{index}", "summary": []})
    at = {"item_id": item["id"], "output_index": index, "summary_index": 0}
    part = {"type": "summary_text", "text": thought}
    empty = {**part, "text": ""}
    events.append({"type": "response.reasoning_summary_part.added", "part": empty, **at})
    events.append({"type": "response.reasoning_summary_text.delta", "delta": thought, **at})
    events.append({"type": "response.reasoning_summary_part.done", "part": part, **at})
    return {**item, "status": "completed", "summary": [part]}


def _add_call(events: list[Body], index: int, called: ToolCall, arguments: str) -> Body:
    call: Body = {
        "type": "function_call",
        "id": f"fc_{index}",
        "call_id": f"call_{uuid.uuid4().hex}",
        "name": called.name,
    }
    item = _add_item(events, index, {**call, "arguments": ""})
    delta = {"type": "response.function_call_arguments.delta", "delta": arguments}
    events.append({**delta, "item_id": item["id"], "output_index": index})
    return {**item, "status": "completed", "arguments": arguments}


def _add_item(events: list[Body], index: int, item: Body) -> Body:
    item = {**item, "status": "in_progress"}
    events.append({"type": "response.output_item.added", "output_index": index, "item": item})
    return item


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [part for part in (text[:middle], text[middle:]) if part]
