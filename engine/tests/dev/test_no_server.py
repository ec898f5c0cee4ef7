"""Commands for a running server, where none answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lasting_memory.testing.commands import run_command

COMMANDS = ["lasting_memory.dev.chat --as alice", "seeds"]
asked: list[str] = []


class Other(BaseHTTPRequestHandler):
    """A server that is none of ours: it leads to a page to sign in."""

    def do_GET(self) -> None:
        asked.append(self.path)
        self.send_response(302)
        self.send_header("location", "https://elsewhere.example/login")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def somebody_else_s() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def says_in_one_line(command: str, url: str) -> None:
    result = run_command(*command.split(), "--url", url)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert url in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_at_once_that_no_deployment_answers(command: str) -> None:
    says_in_one_line(command, "http://127.0.0.1:9")
    asked.clear()
    with somebody_else_s() as url:
        says_in_one_line(command, url)
    assert asked == ["/ok"]


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:x", "ftp://127.0.0.1", "127.0.0.1"])
def test_an_address_that_is_none_is_said_in_one_line(url: str) -> None:
    says_in_one_line("lasting_memory.dev.chat --as alice", url)
