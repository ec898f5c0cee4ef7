"""What the server's log says of requests to /memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from testing.dev_server import DevServer, dev_token
from testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import model_env

pytestmark = pytest.mark.server


@pytest.fixture(params=["false", "true"], ids=["text", "json"])
async def talkative(model: ScriptedAnthropic, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[DevServer]:
    """A server that logs every request."""
    with DevServer(tmp_path, env={**model_env(model), "LOG_LEVEL": "INFO", "LOG_JSON": request.param}) as server:
        yield server


def secrets() -> Iterator[str]:
    while True:
        yield f"secret{uuid4().hex}"


async def test_the_log_names_requests_and_nothing_of_what_they_ask_for(talkative: DevServer, alice: str) -> None:
    """The log names requests, also refused ones, and nothing of what they ask for."""
    given, paths = secrets(), ["/memory", "/memory/search", "/memory/file", "/memory/history", "/memory/nothing"]
    said = list[str]()
    token = {"Authorization": f"Bearer {dev_token('acme', alice)}"}
    async with httpx.AsyncClient(base_url=talkative.url, trust_env=False, timeout=60) as http:
        for path in paths:
            for headers in (token, {}, {"Authorization": "Bearer none"}):
                for name in ("q", "path", "user_id", "unknown"):
                    said.append(next(given))
                    await http.get(path, params={name: said[-1]}, headers=headers)
                said.append(next(given))
                await http.put(path, params={"path": f"/memories/{said[-1]}.md"}, json={"content": "x"}, headers=headers)
                await http.delete("/memory/file", params={"path": f"/memories/{said[-1]}.md"}, headers=headers)
        mark = f"last-{uuid4().hex}"
        await http.get(f"/memory/{mark}")
    async with asyncio.timeout(60):
        while mark not in talkative.log:  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.1)
    log = talkative.log
    assert "/memory/search" in log
    assert [word for word in said if word in log] == []
