"""One server for what fails: short patience for the model (`graphs.py`), and a store that fails when asked to."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import BUILDERS, model_env

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def shared_faulty(shared_model: ScriptedAnthropic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    graphs = {name: f"{HERE / 'graphs.py'}:{name}" for name in BUILDERS}
    config = {"graphs": graphs, "store": {"path": f"{HERE / 'failing_store.py'}:store"}}
    env = {**model_env(shared_model), "CONSOLIDATE_AFTER_SECONDS": "0"}
    with DevServer(tmp_path_factory.mktemp("faulty"), env=env, config=config) as server:
        yield server


@pytest.fixture
async def faulty(shared_faulty: DevServer, model: ScriptedAnthropic) -> AsyncIterator[DevServer]:  # cleared
    yield shared_faulty
    await shared_faulty.close_clients()
