"""What the server's log says of requests to /memory."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from lasting_memory.testing.dev_server import DevServer, dev_token, run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import model_env

pytestmark = pytest.mark.server


@pytest.fixture(params=["false", "true"], ids=["text", "json"])
async def talkative(model: ScriptedAnthropic, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[DevServer]:
    """A server that logs every request."""
    with DevServer(tmp_path, env={**model_env(model), "LOG_LEVEL": "INFO", "LOG_JSON": request.param}) as server:
        yield server


async def test_the_log_names_requests_and_nothing_of_what_they_ask_for(talkative: DevServer, alice: str) -> None:
    said, token = f"secret{uuid4().hex}", {"Authorization": f"Bearer {dev_token('acme', alice)}"}
    async with httpx.AsyncClient(base_url=talkative.url, trust_env=False, timeout=60) as http:
        for path in ("/memory", "/memory/search", "/memory/file", "/memory/nothing"):
            for headers in (token, {}, {"Authorization": "Bearer none"}):
                for name in ("q", "path", "user_id", "unknown"):
                    await http.get(path, params={name: said}, headers=headers)
                await http.put(path, params={"path": f"/memories/{said}.md"}, json={"content": "x"}, headers=headers)
        await http.get(f"/memory/{(mark := f'last-{uuid4().hex}')}")
    async with asyncio.timeout(60):
        while mark not in talkative.log:  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.1)
    assert "/memory/search" in talkative.log
    assert said not in talkative.log


async def test_a_new_conversation_is_no_warning(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    """Whether the client makes the thread first, or the run does. A thread that is not there yet was asked for."""
    before, client = len(server.log), server.as_user(alice)
    await run_turn(client, str((await client.threads.create())["thread_id"]), "hello")
    await run_turn(client, made := str(uuid4()), "hello", if_not_exists="create")
    message: Any = {"messages": [{"role": "user", "content": "hello"}]}
    await client.runs.wait(None, "agent", input=message)
    new = server.log[before:]
    assert [line for line in new.splitlines() if " 404 " in line and (made in line or "/threads/" in line)] == []
