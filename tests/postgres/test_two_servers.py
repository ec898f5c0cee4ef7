"""Two `make dev-postgres` in two folders on one Postgres: each knows the conversations that were had with it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from testing.dev_server import DevServer, run_turn
from testing.parts import ON_POSTGRES, needs_consolidation
from testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import model_env
from tests.postgres.test_servers import embedded_in

TASK = "Conversations with something new"


@needs_consolidation
@pytest.mark.server
@pytest.mark.postgres
@pytest.mark.proof
async def test_the_sweep_of_one_finds_its_people_though_the_other_s_has_been_since(model: ScriptedAnthropic) -> None:
    env = model_env(model)
    # Folders that the user Postgres runs as under root can reach.
    with TemporaryDirectory(prefix="postgres-") as one, TemporaryDirectory() as two:
        first = DevServer(Path(one), env=env, config=ON_POSTGRES)
        second = DevServer(Path(two), env={**env, "MEMORY_POSTGRES_URI": embedded_in(Path(one))}, config=ON_POSTGRES)
        with first, second:
            for server, person in ((first, "alice"), (second, "bob")):
                client = server.as_user(person)
                await run_turn(client, str((await client.threads.create())["thread_id"]), f"words of {person}.")
            store = first.as_operator().store
            nothing: Any = {"messages": []}
            await first.as_operator().runs.wait(None, "consolidation_agent", input=nothing)
            # As if it had been an hour later: a sweep looks some minutes further back than to the one before.
            later = {"began": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
            marks = (await store.search_items(["sweep"]))["items"]
            assert marks
            for mark in marks:
                await store.put_item(mark["namespace"], mark["key"], later)
            await second.as_operator().runs.wait(None, "consolidation_agent", input=nothing)
            async with asyncio.timeout(30):
                while len(model.requests_for(TASK)) < 2:  # noqa: ASYNC110  # the scripted server's thread sets no event
                    await asyncio.sleep(0.1)
            shown = str(model.requests_for(TASK))
            assert "words of alice." in shown
            assert "words of bob." in shown
            for server in (first, second):
                await server.close_clients()
