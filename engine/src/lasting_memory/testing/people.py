"""Somebody who calls a server."""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any, Self, cast
from urllib.parse import quote

import httpx
from langgraph_sdk.client import LangGraphClient

from lasting_memory.people.identity import assistant_of
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall

AGENT = assistant_of("agent")
FILE = "/memories/notes.md"
OPERATOR = {"x-auth-scheme": "langsmith"}  # how Studio comes in: the `headers` of an operator


def dev_token(org: str, identity: str) -> str:
    """The bearer token the project's development login takes for `identity` in `org`."""
    return f"dev:{org}:{quote(identity, safe='')}"


class SignedIn(dict[str, Any]):
    """Somebody's claims as the platform hands them to handlers, routes and runs: by name, and the
    identity as an attribute.
    """

    is_authenticated = True

    @property
    def identity(self) -> str:
        return str(self["identity"])


class Person:
    """A person with a token of the development login, or with `headers` of their own, on one
    connection pool.

    `http` and the rest of `client`, the SDK's, raise the SDK's errors; `raw` and `ask` give every
    answer. `model` is the scripted one that answers them, where a test scripts it; `options` are
    those of httpx. Use it as `async with Person(server.url, alice) as person`, or by way of
    `server.person(alice)`, which the fixture closes.
    """

    def __init__(
        self,
        url: str,
        name: str,
        org: str = "acme",
        *,
        model: Any = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = 300,
        **options: Any,
    ) -> None:
        self.name = name
        self.org = org
        self.model: ScriptedAnthropic = model
        if headers is None:
            token = dev_token(org, name)
            headers = {"Authorization": f"Bearer {token}"}
        self.raw = httpx.AsyncClient(
            base_url=url, headers=headers, trust_env=False, timeout=seconds, **options
        )
        self.client = LangGraphClient(self.raw)
        self.http = self.client.http

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.raw.aclose()

    async def ask(
        self, method: str, path: str, /, body: Any = None, **params: Any
    ) -> httpx.Response:
        """The answer, whatever it is. `params` are the query's."""
        return await self.raw.request(method, path, json=body, params=params or None)

    async def made(self, method: str, path: str, /, body: Any = None, **params: Any) -> Any:
        """The JSON of an answer that must be a success; None where it is empty."""
        answer = await self.ask(method, path, body, **params)
        assert answer.is_success, (method, path, answer.status_code, answer.text[:500])
        if not answer.content:
            return None
        return answer.json()

    async def thread(self, **metadata: Any) -> str:
        """The id of a new conversation."""
        thread = await self.client.threads.create(metadata=metadata)
        return str(thread["thread_id"])

    async def turn(
        self, thread: str, text: str, assistant: str = "agent", **kwargs: Any
    ) -> dict[str, Any]:
        """Say something in a conversation; its values when the run has ended."""
        return await run_turn(self.client, thread, text, assistant, **kwargs)

    async def say(self, text: str, assistant: str = "agent", **kwargs: Any) -> dict[str, Any]:
        """Say something in a new conversation; its values when the run has ended."""
        thread = await self.thread()
        return await self.turn(thread, text, assistant, **kwargs)

    async def chat(self, *texts: str) -> str:
        """Say these texts in a new conversation, one after another. Returns its id."""
        thread = await self.thread()
        for text in texts:
            await self.turn(thread, text)
        return thread

    async def called(self, *calls: ToolCall, thread: str | None = None, **kwargs: Any) -> list[str]:
        """What the model's calls are answered, made one after the other in a turn of this thread,
        or of a new one.
        """
        text = f"call {uuid.uuid4()}"
        replies = [[call] for call in calls]
        self.model.script(text, *replies, [Text("done")])
        if not thread:
            thread = await self.thread()
        values = await self.turn(thread, text, **kwargs)
        results = list[str]()
        is_of_turn = False
        for message in values["messages"]:
            if message["content"] == text:
                is_of_turn = True
            if is_of_turn and message["type"] == "tool":
                results.append(str(message["content"]))
        assert is_of_turn, "the thread has no message of this turn"
        return results

    async def idle(self) -> None:
        """Return when none of their conversations has a run going or waiting."""
        own = {"user_id": self.name}
        async with asyncio.timeout(300):
            while await self.client.threads.count(status="busy", metadata=own):  # noqa: ASYNC110  # the server's state
                await asyncio.sleep(0.05)

    async def control(self, **given: Any) -> Any:
        """Pause, or turn on a review."""
        return await self.http.put("/memory/controls", json=given)

    async def write(self, path: str, content: str) -> None:
        """Write a file."""
        await self.http.put("/memory/file", params={"path": path}, json={"content": content})

    async def read(self, path: str = FILE) -> Any:
        """A file's content; None where there is none."""
        answer = await self.ask("GET", "/memory/file", path=path)
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        file = answer.json()
        return file["content"]

    async def listed(self, what: str) -> list[dict[str, Any]]:
        """Their `files`, `proposals` or `consolidations`."""
        route = f"/memory/{what}"
        if what == "files":
            route = "/memory"
        answer: Any = await self.http.get(route)
        listed: list[dict[str, Any]] = answer[what]
        return listed


async def run_turn(
    client: LangGraphClient, thread_id: str, text: str, assistant: str = "agent", **kwargs: Any
) -> dict[str, Any]:
    """Send one user message, wait for the run and give the thread's final values.

    `kwargs` go to `client.runs.wait`. Raises the SDK's error when the run fails.
    """
    message = {"role": "user", "content": text}
    run_input: dict[str, Any] = {"messages": [message]}
    values: Any = await client.runs.wait(thread_id, assistant, input=run_input, **kwargs)
    return cast("dict[str, Any]", values)
