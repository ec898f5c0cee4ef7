"""aegra's environment, a Postgres and a Redis for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lasting_memory.dev import aegra_environment
from lasting_memory.dev.checks import MissingToolError
from lasting_memory.settings import SettingsError
from lasting_memory.testing.stores import embedded, hurry

_ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter of aegra's environment, which is made unless it is there."""
    try:
        return aegra_environment.python_of_aegra(_ROOT)
    except MissingToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def redis() -> Iterator[str]:
    """The address of a Redis of this session's."""
    with aegra_environment.redis({}) as address:
        if address is None:
            pytest.skip(aegra_environment.NO_REDIS)
        yield address


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The address of a Postgres of this module's."""
    try:
        with embedded() as address:
            hurry(address)
            yield address
    except SettingsError as error:
        pytest.skip(str(error))
