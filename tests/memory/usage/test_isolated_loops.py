"""Counts on a server whose runs have an event loop and a thread each."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from memory import namespaces
from memory.identity import Actor
from settings import MAX_BUSY_THREADS
from testing.dev_server import DevServer, run_turn
from testing.parts import ON_POSTGRES
from testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import model_env

pytestmark = [pytest.mark.server, pytest.mark.postgres]
ROUNDS = 8


async def test_tokens_of_runs_at_once_are_all_counted(
    tmp_path: Path, postgres_uri: str, model: ScriptedAnthropic, alice: str
) -> None:
    env = {"MEMORY_POSTGRES_URI": postgres_uri, "BG_JOB_ISOLATED_LOOPS": "true", "DAILY_TOKENS": "1000000000"}
    with DevServer(tmp_path, env={**model_env(model), **env}, config=ON_POSTGRES) as server:
        client, took = server.as_user(alice), 0
        threads = [str((await client.threads.create())["thread_id"]) for _ in range(MAX_BUSY_THREADS)]
        for number in range(ROUNDS):
            for values in await asyncio.gather(*(run_turn(client, thread, f"hello {number}") for thread in threads)):
                took += values["messages"][-1]["usage_metadata"]["total_tokens"]
        namespace = list(namespaces.usage(Actor(alice, "acme")))
        found: Any = await server.as_operator().store.search_items(namespace, limit=1_000)
        assert sum(item["value"]["tokens"] for item in found["items"]) == took
        await server.close_clients()
