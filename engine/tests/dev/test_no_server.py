"""Commands for a running server, where none answers."""

from contextlib import nullcontext

import pytest

from lasting_memory.testing.commands import run_command
from lasting_memory.testing.loopback import LoopbackServer, QuietHandler

asked: list[str] = []


class Other(QuietHandler):
    """A server that is none of ours: it leads to a page to sign in."""

    def do_GET(self) -> None:  # noqa: N802  # http.server's name
        asked.append(self.path)
        self.head(302, "text/plain", location="https://elsewhere.example/login")


@pytest.mark.parametrize("command", ["lasting_memory.dev.chat --as alice", "seeds"])
@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "another", "http://[::1"])
def test_a_command_says_at_once_and_in_one_line_that_no_deployment_answers(command: str, url: str) -> None:
    asked.clear()
    with LoopbackServer(Other) if url == "another" else nullcontext() as other:
        result = run_command(*command.split(), "--url", other.url if other else url)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert (other.url if other else url) in result.stderr
    assert asked in ([], ["/ok"])
