"""What tests on a server share: somebody who talks with a scripted model, and by which status something is refused."""

import uuid
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError

from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall


class Somebody:
    """Somebody by their client, and the model that answers them."""

    def __init__(self, client: LangGraphClient, model: ScriptedAnthropic, name: str = "") -> None:
        self.client, self.http, self.model, self.name = client, client.http, model, name

    async def thread(self, metadata: Any = None) -> str:
        """A new conversation."""
        return str((await self.client.threads.create(metadata=metadata))["thread_id"])

    async def turn(self, thread: str, text: str, assistant: str = "agent", **kwargs: Any) -> dict[str, Any]:
        """Say something; the conversation's values."""
        return await run_turn(self.client, thread, text, assistant, **kwargs)

    async def say(self, text: str, assistant: str = "agent", **kwargs: Any) -> dict[str, Any]:
        """Say something in a new conversation; its values."""
        return await self.turn(await self.thread(), text, assistant, **kwargs)

    async def chat(self, *texts: str) -> str:
        """A new conversation in which this was said."""
        thread = await self.thread()
        for text in texts:
            await self.turn(thread, text)
        return thread

    async def called(self, *calls: ToolCall, thread: str | None = None, **kwargs: Any) -> list[str]:
        """What the model's calls are answered, made one after the other in a turn of this thread, or of a new one."""
        said = f"call {uuid.uuid4()}"
        self.model.script(said, *([call] for call in calls), [Text("done")])
        messages = (await self.turn(thread or await self.thread(), said, **kwargs))["messages"]
        start = next(number for number, message in enumerate(messages) if message["content"] == said)
        return [str(message["content"]) for message in messages[start:] if message["type"] == "tool"]

    async def control(self, **given: Any) -> Any:
        return await self.http.put("/memory/controls", json=given)

    async def file(self, path: str) -> str:
        """The content of a file of theirs."""
        return str((await self.http.get("/memory/file", params={"path": path}))["content"])

    async def write(self, path: str, content: str) -> None:
        await self.http.put("/memory/file", params={"path": path}, json={"content": content})

    async def listed(self, what: str) -> list[dict[str, Any]]:
        """Their `files`, `proposals` or `consolidations`."""
        found: list[dict[str, Any]] = (await self.http.get("/memory" if what == "files" else f"/memory/{what}"))[what]
        return found


def people(server: DevServer, model: ScriptedAnthropic, *names: str) -> list[Somebody]:
    return [Somebody(server.as_user(name), model, name) for name in names]


def note(fact: str) -> ToolCall:
    """Remembers it where every prompt shows it."""
    return ToolCall("append_memory", {"path": "/memories/preferences.md", "text": f"- {fact}"})


async def status(call: Any) -> int:
    """The status by which a call is refused."""
    with pytest.raises((APIStatusError, httpx.HTTPStatusError)) as refused:
        await call
    return refused.value.response.status_code
