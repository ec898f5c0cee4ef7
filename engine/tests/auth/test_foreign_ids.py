"""A run's id beside a thread that it is not of: nothing is deleted. On both stores; for other people's ids see the matrix."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lasting_memory.dev.server import ON_POSTGRES
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import model_env, stores

SECRET = "the-safe-opens-with-4711"


@pytest.fixture(scope="module", params=stores())
def door(request: pytest.FixtureRequest, shared_model: ScriptedAnthropic) -> Iterator[DevServer]:
    if request.param == "memory":
        yield request.getfixturevalue("shared_server")
        return
    env = {**model_env(shared_model), "MEMORY_POSTGRES_URI": request.getfixturevalue("postgres_uri")}
    with TemporaryDirectory() as folder, DevServer(Path(folder), env=env, config=ON_POSTGRES) as server:
        yield server


@pytest.mark.server
async def test_a_run_is_deleted_with_its_own_thread_alone(door: DevServer, alice: str) -> None:
    """Not with another thread of the same person, which answers 404, nor from a copy that has the same run in its history."""
    async with Person(door.url, alice) as person:
        first, second = await person.thread(), await person.thread()
        for thread, text in ((first, SECRET), (second, "hello")):
            await person.turn(thread, text)
        (run,) = await person.made("GET", f"/threads/{first}/runs")
        copy = (await person.made("POST", f"/threads/{first}/copy"))["thread_id"]

        async def shown() -> dict[str, list[str]]:
            parts = ("", "/state", "/history?limit=100", "/runs")
            return {
                one: [(await person.ask("GET", f"/threads/{one}{part}")).text for part in parts]
                for one in (first, second, copy)
            }

        before = await shown()
        for thread in (second, copy):
            assert (await person.ask("DELETE", f"/threads/{thread}/runs/{run['run_id']}")).status_code == 404
        assert await shown() == before
        assert (await person.ask("DELETE", f"/threads/{first}/runs/{run['run_id']}")).status_code == 204
        now = await shown()
        assert SECRET not in now[first][1]
        assert {one: now[one] for one in (second, copy)} == {one: before[one] for one in (second, copy)}
