"""Commands for a running server, where none answers."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from socket import create_server

import pytest

from settings import PROJECT


@pytest.fixture
def refusing() -> Iterator[tuple[str, list[object]]]:
    """An address at which every connection fails, and the connections that were tried."""
    tried: list[object] = []
    with create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            while connection := listener.accept()[0]:
                tried.append(connection)
                connection.close()

        threading.Thread(target=refuse, daemon=True).start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}", tried


@pytest.mark.parametrize("command", ["dev.chat --as alice", "memory.reindex --user alice", "seeds", "dev.backup --folder none"])
def test_a_command_says_at_once_that_no_server_answers(refusing: tuple[str, list[object]], command: str) -> None:
    url, tried = refusing
    given = [sys.executable, "-m", *command.split(), "--url", url]
    result = subprocess.run(given, cwd=PROJECT, capture_output=True, text=True, check=False, input="")
    assert result.returncode == 1
    assert url in result.stderr
    assert "answer" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert len(tried) == 1
