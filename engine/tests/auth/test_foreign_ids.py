"""A run's id beside a thread that it is not of: nothing is deleted. On Postgres; for other people's ids see the matrix."""

from pathlib import Path

import pytest

from lasting_memory.dev.server import ON_POSTGRES
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic

SECRET = "the-safe-opens-with-4711"


@pytest.mark.server
@pytest.mark.postgres
async def test_a_run_is_deleted_with_its_own_thread_alone(
    model: ScriptedAnthropic, postgres_uri: str, tmp_path: Path, alice: str
) -> None:
    """Not with another thread of the same person, which answers 404, nor from a copy that has the same run in its history."""
    env = {**model.env, "MEMORY_POSTGRES_URI": postgres_uri}
    with DevServer(tmp_path, env=env, config=ON_POSTGRES) as server:
        async with Person(server.url, alice) as person:
            first, second = await person.thread(), await person.thread()
            for thread, text in ((first, SECRET), (second, "hello")):
                await person.turn(thread, text)
            (run,) = await person.made("GET", f"/threads/{first}/runs")
            copy = (await person.made("POST", f"/threads/{first}/copy"))["thread_id"]

            async def shown(*threads: str) -> list[str]:
                parts = ("", "/state", "/history?limit=100", "/runs")
                return [(await person.ask("GET", f"/threads/{one}{part}")).text for one in threads for part in parts]

            before, others = await shown(first, second, copy), await shown(second, copy)
            for thread in (second, copy):
                assert (await person.ask("DELETE", f"/threads/{thread}/runs/{run['run_id']}")).status_code == 404
            assert await shown(first, second, copy) == before
            assert (await person.ask("DELETE", f"/threads/{first}/runs/{run['run_id']}")).status_code == 204
            assert SECRET not in (await shown(first))[1]
            assert await shown(second, copy) == others
