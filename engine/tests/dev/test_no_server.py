"""Commands for a running server, where none answers."""

import pytest

from lasting_memory.testing.commands import run_command
from lasting_memory.testing.loopback import LoopbackServer, QuietHandler

COMMANDS = ["lasting_memory.dev.chat --as alice", "seeds"]
asked: list[str] = []


class Other(QuietHandler):
    """A server that is none of ours: it leads to a page to sign in."""

    def do_GET(self) -> None:  # noqa: N802  # http.server's name
        asked.append(self.path)
        self.head(302, "text/plain", location="https://elsewhere.example/login")


def says_in_one_line(command: str, url: str) -> None:
    result = run_command(*command.split(), "--url", url)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert url in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_at_once_that_no_deployment_answers(command: str) -> None:
    says_in_one_line(command, "http://127.0.0.1:9")
    asked.clear()
    with LoopbackServer(Other) as other:
        says_in_one_line(command, other.url)
    assert asked == ["/ok"]


def test_an_address_that_is_none_is_said_in_one_line() -> None:
    says_in_one_line("lasting_memory.dev.chat --as alice", "http://[::1")
