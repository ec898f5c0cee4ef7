"""The development server on Postgres is guarded as the other one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing.dev_server import DevServer
from testing.parts import ON_POSTGRES
from testing.scripted_anthropic import ScriptedAnthropic
from tests.access.test_dev_guard import AS_STUDIO, WIPING, conversation, own, raw
from tests.conftest import model_env

pytestmark = pytest.mark.postgres


@pytest.mark.server
@pytest.mark.proof
async def test_the_server_on_postgres_is_guarded_too(
    postgres_uri: str, shared_model: ScriptedAnthropic, tmp_path: Path, alice: str
) -> None:
    env = {**model_env(shared_model), "MEMORY_POSTGRES_URI": postgres_uri}
    with DevServer(tmp_path, env=env, config=ON_POSTGRES) as server:
        thread = await conversation(server, alice)
        for target in WIPING[:4]:
            assert raw(server.port, "POST", target, own(server)) == 403
        assert raw(server.port, "POST", "/threads/search", ("Host", "rebound.example"), *AS_STUDIO.items()) == 403
        assert raw(server.port, "POST", "/deploy", own(server), ("Origin", "https://attacker.example")) == 403
        assert (await server.as_user(alice).threads.get(thread))["values"]
        assert [one["thread_id"] for one in await server.as_operator().threads.search(ids=[thread])] == [thread]
        await server.close_clients()
