"""Somebody who calls a server with bare requests."""

import asyncio
from typing import Any, Self, cast
from urllib.parse import quote

import httpx

from lasting_memory.people.identity import assistant_of

AGENT = assistant_of("agent")
FILE = "/memories/notes.md"
OPERATOR = {"x-auth-scheme": "langsmith"}  # how Studio comes in: the `headers` of an operator


def dev_token(org: str, identity: str) -> str:
    """The bearer token the project's development login takes for `identity` in `org`."""
    return f"dev:{org}:{quote(identity, safe='')}"


class SignedIn(dict[str, Any]):
    """Somebody's claims as the platform hands them to handlers, routes and runs: by name, and the identity as an attribute."""

    is_authenticated = True

    @property
    def identity(self) -> str:
        return str(self["identity"])


class Person:
    """A person with a token of the development login (or `headers` of their own), on one connection pool.

    Use it as `async with Person(server.url, alice) as person`, or by way of `server.person(alice)`, which the fixture closes.
    """

    def __init__(
        self,
        url: str,
        name: str,
        org: str = "acme",
        *,
        headers: dict[str, str] | None = None,
        seconds: float = 60,
        **options: Any,
    ) -> None:
        self.name, self.org = name, org
        signed = {"Authorization": f"Bearer {dev_token(org, name)}"} if headers is None else headers
        self.http = httpx.AsyncClient(base_url=url, headers=signed, trust_env=False, timeout=seconds, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def ask(self, method: str, path: str, /, body: Any = None, **params: Any) -> httpx.Response:
        """The answer, whatever it is. `params` are the query's."""
        return await self.http.request(method, path, json=body, params=params or None)

    async def made(self, method: str, path: str, /, body: Any = None, **params: Any) -> Any:
        """The JSON of an answer that must be a success; None where it is empty."""
        answer = await self.ask(method, path, body, **params)
        assert answer.is_success, (method, path, answer.status_code, answer.text[:500])
        return answer.json() if answer.content else None

    async def thread(self, **metadata: Any) -> str:
        """The id of a new conversation."""
        return str((await self.made("POST", "/threads", {"metadata": metadata}))["thread_id"])

    async def turn(self, thread: str, text: str, assistant: str = "agent", **body: Any) -> dict[str, Any]:
        """Say something in a conversation; its values when the run has ended. `body` are further fields of the request."""
        said = {"assistant_id": assistant, "input": {"messages": [{"role": "user", "content": text}]}, **body}
        return cast(dict[str, Any], await self.made("POST", f"/threads/{thread}/runs/wait", said))

    async def idle(self) -> None:
        """Return when none of their conversations has a run going or waiting."""
        busy = {"status": "busy", "metadata": {"user_id": self.name}}
        async with asyncio.timeout(60):
            while await self.made("POST", "/threads/count", busy):  # noqa: ASYNC110  # the server's state
                await asyncio.sleep(0.05)

    async def write(self, content: str, path: str = FILE) -> httpx.Response:
        return await self.ask("PUT", "/memory/file", {"content": content}, path=path)

    async def read(self, path: str = FILE) -> str | None:
        """A file's content; None where there is none."""
        answer = await self.ask("GET", "/memory/file", path=path)
        return None if answer.status_code == 404 else str(answer.raise_for_status().json()["content"])
