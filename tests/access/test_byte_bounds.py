"""What one person sends or asks for is bounded in bytes, on the real server, while others are answered."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from settings import BYTES_AT_ONCE, BYTES_PER_SECOND, MAX_HISTORY, MAX_IMPORT_BYTES, MAX_OPEN_STREAMS
from testing.dev_server import DevServer, dev_token, run_turn
from testing.scripted_anthropic import ScriptedAnthropic, Text, after
from tests.access.test_request_bounds import caller, conversation

pytestmark = pytest.mark.server
# A server that is busy with somebody's flood still answers somebody else within so many seconds, on the busiest machine.
PATIENCE = 30


@pytest.fixture
async def http(server: DevServer, alice: str) -> AsyncIterator[httpx.AsyncClient]:
    """Alice's requests."""
    async with caller(server, alice) as client:
        client.timeout = httpx.Timeout(90)
        yield client


async def refusals(server: DevServer, send: Callable[[], Awaitable[httpx.Response]], times: int) -> list[int]:
    """The statuses of these requests, one after the other, while another person is answered."""
    done = asyncio.Event()

    async def watch() -> None:
        async with caller(server, f"other-{uuid.uuid4().hex}@example.com") as other:
            while not done.is_set():
                assert (await other.get("/memory/me", timeout=PATIENCE)).status_code == 200
                await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    try:
        return [(await send()).status_code for _ in range(times)]
    finally:
        done.set()
        await watching


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("POST /memory/import", b"[" + b"[]," * (MAX_IMPORT_BYTES // 3 - 10) + b"[]]"),
        ("POST /memory/import", b'{"version":1,"files":[' + b"{}," * (MAX_IMPORT_BYTES // 3 - 20) + b"{}]}"),
        ("POST /memory/import", b"[" * 1_000_000),
        ("PUT /memory/file?path=/memories/x.md", b'{"content":[' + b"[]," * 349_000 + b"[]]}"),
        ("PUT /memory/file?path=/memories/x.md", b'{"content":' + b"[" * 500_000 + b"]" * 500_000 + b"}"),
        ("PUT /memory/controls", b'{"paused":' + b"[" * 500 + b"]" * 500 + b"}"),
    ],
    ids=["import of lists", "import of objects", "import of depth", "file of lists", "file of depth", "controls"],
)
async def test_a_body_of_brackets_is_refused_before_it_is_parsed(
    server: DevServer, http: httpx.AsyncClient, route: str, body: bytes
) -> None:
    method, _, path = route.partition(" ")
    headers = {"content-type": "application/json"}
    sent = await refusals(server, lambda: http.request(method, path, content=body, headers=headers), 3)
    assert set(sent) <= {400, 422}


async def test_a_history_is_read_in_pages_of_a_hundred_states(server: DevServer, http: httpx.AsyncClient, alice: str) -> None:
    thread = await conversation(server, alice)
    path = f"/threads/{thread}/history"
    for limit in (MAX_HISTORY + 1, 1_000, "1e9"):
        assert (await http.get(path, params={"limit": limit})).status_code == 422, limit
    for number in (MAX_HISTORY + 1, 1e9):
        assert (await http.post(path, json={"limit": number})).status_code == 422, number
    for answer in (await http.get(path, params={"limit": MAX_HISTORY}), await http.post(path, json={"limit": 10})):
        assert answer.status_code == 200
        assert answer.json()


@pytest.mark.parametrize("way", ["sent", "answered", "computed"])
async def test_who_sends_or_is_sent_more_than_a_share_waits_and_others_do_not(server: DevServer, way: str) -> None:
    """A flood of bytes waits for its sender's turn, whether they are sent, answered, or stand for what is computed."""
    async with caller(server, f"flood-{uuid.uuid4().hex}@example.com") as http:
        http.timeout = httpx.Timeout(120)
        said = {"messages": [{"role": "user", "content": "y" * 3_000_000}]}
        steps = [{"updates": [{"values": said, "as_node": "__start__"}]}] if way == "answered" else []
        made = await http.post("/threads", json={"metadata": {"graph_id": "agent"}, "supersteps": steps})
        thread = made.json()["thread_id"]
        mcp = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        ways: dict[str, tuple[int, Callable[[], Awaitable[httpx.Response]]]] = {
            "sent": (4_000_000, lambda: http.post("/threads/search", json={"metadata": {"a": "x" * 4_000_000}})),
            "answered": (3_000_000, lambda: http.get(f"/threads/{thread}/state")),
            "computed": (2_097_152, lambda: http.post("/mcp", json=mcp, headers={"accept": "application/json"})),
        }
        size, send = ways[way]
        times, began = BYTES_AT_ONCE // size + 5, time.monotonic()
        await refusals(server, send, times)
        # A slow machine takes longer; without the share all of this takes a moment.
        assert time.monotonic() - began > (times * size - BYTES_AT_ONCE) / BYTES_PER_SECOND / 2


async def test_one_person_has_one_export_and_one_import_at_a_time(
    server: DevServer, http: httpx.AsyncClient, alice: str
) -> None:
    files = [{"path": f"/memories/{number}.md", "content": "- mine\n"} for number in range(100)]
    document = {"version": 1, "files": files}
    for method, path in (("POST", "/memory/import"), ("GET", "/memory/export")):
        body = document if method == "POST" else None
        answers = await asyncio.gather(*(http.request(method, path, json=body) for _ in range(5)))
        assert {answer.status_code for answer in answers} == {200, 429}
    assert (await http.get("/memory/export")).status_code == 200, "what ended holds nothing"


async def test_a_person_has_so_many_streams_open_and_may_open_others_when_they_end(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    client, over = server.as_user(alice), threading.Event()
    model.script(f"slow {alice}", after(over, [Text("done")]))
    thread = str((await client.threads.create())["thread_id"])
    message: Any = {"messages": [{"role": "user", "content": f"slow {alice}"}]}
    run = await client.runs.create(thread, "agent", input=message)
    path, limits = f"/threads/{thread}/runs/{run['run_id']}/stream", httpx.Limits(max_connections=MAX_OPEN_STREAMS + 20)
    headers = {"authorization": f"Bearer {dev_token('acme', alice)}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=90, limits=limits, trust_env=False) as http:
        async with AsyncExitStack() as streams:
            opened = [await streams.enter_async_context(http.stream("GET", path)) for _ in range(MAX_OPEN_STREAMS)]
            assert {answer.status_code for answer in opened} == {200}
            assert (await http.get(path)).status_code == 429
            assert (await http.get("/memory/me")).status_code == 200
            async with caller(server, f"other-{alice}") as other:
                assert (await other.get("/memory/me")).status_code == 200
        async with asyncio.timeout(PATIENCE):
            while True:
                async with http.stream("GET", path) as again:
                    if again.status_code == 200:
                        break
                await asyncio.sleep(0.1)
    over.set()
    await client.runs.join(thread, run["run_id"])


async def test_ordinary_use_never_meets_the_share(server: DevServer, http: httpx.AsyncClient, alice: str) -> None:
    """Twenty turns, a memory of some size, an export and the import of it: nothing of it is refused or waits."""
    client = server.as_user(alice)
    thread = str((await client.threads.create())["thread_id"])
    for number in range(20):
        await run_turn(client, thread, f"turn {number} " + "x" * 2_000)
    for number in range(10):
        path = {"path": f"/memories/topics/{number}.md"}
        content = {"content": f"- fact of some length {number}\n" * 1_000}
        assert (await http.put("/memory/file", params=path, json=content)).status_code == 200
    exported = await http.get("/memory/export")
    assert exported.status_code == 200
    answer = await http.post("/memory/import", content=exported.content, headers={"content-type": "application/json"})
    assert answer.status_code == 200
