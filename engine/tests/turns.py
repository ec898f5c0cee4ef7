"""What tests on a server share: conversations, what the model does in them, and what a person asks for or is refused."""

import uuid
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError

from lasting_memory.testing.dev_server import run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall


async def new_thread(client: LangGraphClient, metadata: Any = None) -> str:
    return str((await client.threads.create(metadata=metadata))["thread_id"])


async def say(client: LangGraphClient, text: str, assistant: str = "agent", **kwargs: Any) -> dict[str, Any]:
    """Say something in a new conversation; its values."""
    return await run_turn(client, await new_thread(client), text, assistant, **kwargs)


async def chat(client: LangGraphClient, *texts: str) -> str:
    """A new conversation in which this was said."""
    thread = await new_thread(client)
    for text in texts:
        await run_turn(client, thread, text)
    return thread


async def called(
    client: LangGraphClient, model: ScriptedAnthropic, *calls: ToolCall, thread: str | None = None, **kwargs: Any
) -> list[str]:
    """What the model's calls are answered, made one after the other in a turn of this thread, or of a new one."""
    said = f"call {uuid.uuid4()}"
    model.script(said, *([call] for call in calls), [Text("done")])
    values = await run_turn(client, thread or await new_thread(client), said, **kwargs)
    turn = next(number for number, message in enumerate(values["messages"]) if message["content"] == said)
    return [str(message["content"]) for message in values["messages"][turn:] if message["type"] == "tool"]


def note(fact: str) -> ToolCall:
    """Remembers it where every prompt shows it."""
    return ToolCall("append_memory", {"path": "/memories/preferences.md", "text": f"- {fact}"})


async def control(client: LangGraphClient, **given: Any) -> Any:
    return await client.http.put("/memory/controls", json=given)


async def status(call: Any) -> int:
    """The status by which a call is refused."""
    with pytest.raises((APIStatusError, httpx.HTTPStatusError)) as refused:
        await call
    return refused.value.response.status_code
