"""One server for what fails: short patience for the model (`graphs.py`)."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import BUILDERS

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def shared_faulty(shared_model: ScriptedAnthropic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    graphs = {name: f"{HERE / 'graphs.py'}:{name}" for name in BUILDERS}
    with DevServer(tmp_path_factory.mktemp("faulty"), env=shared_model.env, config={"graphs": graphs}) as server:
        yield server


@pytest.fixture
async def faulty(shared_faulty: DevServer, model: ScriptedAnthropic) -> AsyncIterator[DevServer]:  # cleared
    yield shared_faulty
    await shared_faulty.close_clients()
