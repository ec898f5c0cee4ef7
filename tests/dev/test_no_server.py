"""Commands for a running server, where none answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import create_server

import pytest

from testing.commands import run_command


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


COMMANDS = ["dev.chat --as alice", "memory.reindex --user alice", "seeds"]


def run(command: str, url: str) -> str:
    """What a command that must fail says, in one line."""
    result = run_command(*command.split(), "--url", url)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_at_once_that_no_server_answers(refusing: tuple[str, list[object]], command: str) -> None:
    url, tried = refusing
    said = run(command, url)
    assert url in said
    assert "answer" in said
    assert len(tried) == 1


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:x", "ftp://127.0.0.1", "127.0.0.1"])
def test_an_address_that_is_none_is_said_in_one_line(command: str, url: str) -> None:
    assert url in run(command, url)


@pytest.fixture(params=["redirects to", "something else's"])
def other(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The address of a server that is none of ours, and what is said of it."""

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if request.param == "redirects to" else 200)
            self.send_header("location", "https://elsewhere.example/login")
            self.send_header("content-type", "text/html")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", request.param
        server.shutdown()


@pytest.mark.parametrize("command", COMMANDS)
def test_an_address_that_leads_elsewhere_is_said_in_one_line(other: tuple[str, str], command: str) -> None:
    url, said = other
    answer = run(command, url)
    assert url in answer
    assert said in answer
