"""One person who sends as much as a server takes, in every shape: a process of its own, so that its
work is not the others'.

`flood` never returns: whoever started the process ends it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from lasting_memory.deployment import DEFAULTS
from lasting_memory.http.request_bounds import MAX_IMPORT_BYTES
from lasting_memory.testing.dev_server import dev_token

INPUT = {"messages": [{"role": "user", "content": "Hello."}]}
# Seconds that a caller waits after a refusal, where the shape is not to be refused as fast as it
# can.
BACK_OFF = 0.1
HELD_SECONDS = 3_600  # by which the runs are put off that hold somebody's places

_GOOD_REFUSED = (200, 429)
_JSON = {"content-type": "application/json"}

Send = Callable[[httpx.AsyncClient, str], Awaitable[httpx.Response]]


async def _run(client: httpx.AsyncClient, path: str, **more: Any) -> httpx.Response:
    return await client.post(path, json={"assistant_id": "agent", "input": INPUT, **more})


async def _same_thread(client: httpx.AsyncClient, thread: str) -> httpx.Response:
    return await _run(client, f"/threads/{thread}/runs/wait", multitask_strategy="enqueue")


async def _new_thread(client: httpx.AsyncClient, thread: str) -> httpx.Response:
    made = await client.post("/threads", json={})
    return (
        await _run(client, f"/threads/{made.json()['thread_id']}/runs/wait")
        if made.is_success
        else made
    )


async def _stateless(client: httpx.AsyncClient, thread: str) -> httpx.Response:
    return await _run(client, "/runs/wait")


async def _stream(client: httpx.AsyncClient, thread: str) -> httpx.Response:
    path = f"/threads/{uuid.uuid4()}/runs/stream"
    return await _run(
        client, path, if_not_exists="create", stream_mode=["values", "messages-tuple"]
    )


async def _refused(client: httpx.AsyncClient, thread: str) -> httpx.Response:
    return await _run(client, f"/threads/{uuid.uuid4()}/runs", if_not_exists="create")


async def _brackets(client: httpx.AsyncClient, thread: str) -> httpx.Response:
    body = b"[" + b"[]," * (MAX_IMPORT_BYTES // 3 - 10) + b"[]]"
    return await client.post("/memory/import", content=body, headers=_JSON)


async def _file_of_lists(client: httpx.AsyncClient, thread: str) -> httpx.Response:
    body = b'{"content":[' + b"[]," * 349_000 + b"[]]}"
    return await client.put(
        "/memory/file", params={"path": "/memories/x.md"}, content=body, headers=_JSON
    )


async def _states(client: httpx.AsyncClient, thread: str) -> httpx.Response:
    """A state of 900 KB is added, and all of them are read."""
    said = {"messages": [{"role": "user", "content": "x" * 900_000}]}
    await client.post(f"/threads/{thread}/state", json={"values": said, "as_node": "__start__"})
    return await client.get(f"/threads/{thread}/history", params={"limit": 100})


async def _mcp(client: httpx.AsyncClient, thread: str) -> httpx.Response:
    listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    return await client.post("/mcp", json=listed, headers={"accept": "application/json"})


async def _stored(client: httpx.AsyncClient, thread: str) -> httpx.Response:
    said = [
        {
            "updates": [
                {
                    "values": {"messages": [{"role": "user", "content": "x" * 3_900_000}]},
                    "as_node": "__start__",
                }
            ]
        }
    ]
    return await client.post(
        "/threads", json={"metadata": {"graph_id": "agent"}, "supersteps": said}
    )


# What each of so many callers does again and again, and whether the person's places are taken
# before.
SHAPES: dict[str, tuple[Send, int, bool]] = {
    "same thread": (_same_thread, DEFAULTS.busy_threads, False),
    "new threads": (_new_thread, DEFAULTS.busy_threads, False),
    "stateless": (_stateless, DEFAULTS.busy_threads, False),
    "streams": (_stream, DEFAULTS.busy_threads, False),
    "refused runs": (_refused, 20, True),
    "60 callers": (_new_thread, 60, False),
    "imports of brackets": (_brackets, 2, False),
    "files of lists": (_file_of_lists, 2, False),
    "histories": (_states, 2, False),
    "MCP": (_mcp, 4, False),
    "stored states": (_stored, 4, False),
}


def flood(url: str, shape: str, person: str, counts: Any) -> None:
    """Send for ever.

    Args:
        url: the server's. shape: one of `SHAPES`. person: who floods, in the organization acme.
        counts: an array shared with the process that started this one: answers that are good, 429,
        and anything else.
    """
    asyncio.run(_flood(url, shape, person, counts))


async def _flood(url: str, shape: str, person: str, counts: Any) -> None:
    send, callers, held = SHAPES[shape]
    thread = str(uuid.uuid4())
    headers = {"Authorization": f"Bearer {dev_token('acme', person)}"}
    limits = httpx.Limits(max_connections=callers + 5)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=120, limits=limits, trust_env=False
    ) as client:
        await client.post("/threads", json={"thread_id": thread, "metadata": {"graph_id": "agent"}})
        for _ in range(DEFAULTS.busy_threads * held):
            await _run(
                client,
                f"/threads/{uuid.uuid4()}/runs",
                if_not_exists="create",
                after_seconds=HELD_SECONDS,
            )

        async def call() -> None:
            while True:
                try:
                    status = (await send(client, thread)).status_code
                except httpx.TransportError:
                    status = 0
                counts[_GOOD_REFUSED.index(status) if status in _GOOD_REFUSED else 2] += 1
                if status != _GOOD_REFUSED[0] and not held:
                    await asyncio.sleep(BACK_OFF)

        await asyncio.gather(*(call() for _ in range(callers)))
