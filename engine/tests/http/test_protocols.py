"""What MCP and A2A offer, request by request."""

import asyncio
import json
from typing import Any
from uuid import uuid4

from starlette.types import Message, Receive, Scope, Send

from lasting_memory.http.protocols import PeoplesAgents
from lasting_memory.settings import CONSOLIDATION_GRAPH, Settings
from lasting_memory.testing.people import SignedIn

ASSISTANT = f"/assistants/{uuid4()}"


async def nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def user(name: str) -> SignedIn:
    return SignedIn(identity=name, org_id="acme", permissions=[])


class Server:
    """Answers both protocols with the status of its own look-up of the consolidation's assistant,
    as the platform does.
    """

    def __init__(self) -> None:
        self.app = PeoplesAgents(self.respond, Settings(operators=frozenset({"root"})))
        self.then: list[asyncio.Task[int]] = []

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].endswith(ASSISTANT):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send(
                {
                    "type": "http.response.body",
                    "body": json.dumps({"graph_id": CONSOLIDATION_GRAPH}).encode(),
                }
            )
            return
        scope["user"] = user(scope["client"][0])
        status = await self.ask(ASSISTANT, root_path="/noauth")
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        if scope[
            "query_string"
        ]:  # the next request of a connection that is kept, as uvicorn begins it
            self.then.append(asyncio.create_task(self.ask("/mcp", scope["query_string"].decode())))

    async def ask(self, path: str, name: str = "", query: str = "", root_path: str = "") -> int:
        statuses = list[int]()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        scope: dict[str, Any] = {"type": "http", "path": root_path + path, "root_path": root_path}
        await self.app(
            {**scope, "client": (name, 0), "query_string": query.encode(), "headers": []},
            nothing,
            send,
        )
        return statuses[0]


async def test_a_request_that_begins_in_the_context_of_another_is_the_one_of_its_own_sender() -> (
    None
):
    server = Server()
    assert [await server.ask("/mcp", name) for name in ("root", "alice")] == [200, 404]
    assert [
        await server.ask("/mcp", name, query)
        for name, query in (("root", "alice"), ("alice", "root"))
    ] == [200, 404]
    assert await asyncio.gather(*server.then) == [404, 200]
