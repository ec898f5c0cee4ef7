"""`make chat`, driven as a person would: lines in, lines out."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from settings import PROJECT
from testing.commands import run_command
from testing.dev_server import DevServer
from testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall


def chat(url: str, lines: str, identity: str = "alice@example.com") -> subprocess.CompletedProcess[str]:
    return run_command("dev.chat", "--as", identity, "--org", "acme", "--url", url, stdin=lines)


@pytest.mark.server
def test_what_is_said_is_remembered_listed_undone_and_forgotten(
    shared_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    for text in ("likes tea", "likes coffee"):
        write = ToolCall("append_memory", {"path": "/memories/drinks.md", "text": f"- {text}"})
        model.script(text, [write], [Text(f"noted: {text}")])
    lines = ["likes tea", "likes coffee", "/files", "/undo drinks.md 1", "/files", "/undo drinks.md 99"]
    lines += ["/forget", "/files", "/unknown", "/forget everything", "/files"]
    result = chat(shared_server.url, "\n".join([*lines, ""]), alice)
    assert result.returncode == 0, result.stderr
    said, _, forgotten = result.stdout.partition("1 threads")
    assert said.count("noted: likes tea") == 1, result.stdout + result.stderr
    assert "likes tea" in str(model.requests_for("likes coffee")[-1]["messages"]), "it is one conversation"
    assert "/memories/drinks.md  27 bytes, revision 2" in said
    assert "/memories/drinks.md  12 bytes, revision 3" in said
    assert " answered 404" in said
    assert said.count("/undo <path> <revision>") == 3, "the beginning, a deletion that is not confirmed, an unknown command"
    assert said.count("/memories/drinks.md  ") == 3, "asking deletes nothing"
    assert "/memories/drinks.md" not in forgotten


@pytest.mark.server
def test_an_organization_that_a_token_cannot_carry_is_refused(shared_server: DevServer) -> None:
    """With a colon it would be another person of another organization."""
    result = run_command("dev.chat", "--as", "alice", "--org", "a:b", "--url", shared_server.url)
    assert result.returncode == 1
    assert "'a:b'" in result.stderr


@pytest.mark.server
def test_an_identity_the_server_refuses_is_explained(shared_server: DevServer) -> None:
    result = chat(shared_server.url, "hello\n", "langgraph-studio-user")
    assert result.returncode == 1
    assert "401" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.fixture
def terminal(shared_server: DevServer, alice: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A chat on a terminal of its own, as Ctrl-C needs one."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dev.chat", "--as", alice, "--org", "acme", "--url", shared_server.url]
    process = subprocess.Popen(
        command,
        cwd=PROJECT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        process_group=0,
        preexec_fn=heed,  # noqa: PLW1509
    )
    os.close(theirs)
    yield ours, process
    process.kill()
    process.wait()
    os.close(ours)


def heed() -> None:
    """Whoever runs the tests in the background of a shell has SIGINT ignored, in all their processes."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Screen:
    """What a terminal has shown since it was last waited for."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._unread = ""

    def wait_for(self, text: str, seconds: float = 30) -> str:
        """Everything up to and including `text`."""
        deadline = time.monotonic() + seconds
        while text not in self._unread:
            assert select.select([self._terminal], [], [], max(0, deadline - time.monotonic()))[0], self._unread
            self._unread += os.read(self._terminal, 1024).decode(errors="replace")
        seen, _, self._unread = self._unread.partition(text)
        return seen + text


@pytest.mark.server
def test_ctrl_c_stops_the_answer_and_not_the_conversation(
    terminal: tuple[int, subprocess.Popen[bytes]], model: ScriptedAnthropic
) -> None:
    ours, process = terminal
    screen = Screen(ours)
    model.script("take your time", Slow(30, [Text("never")]))
    model.script("still there?", [Text("yes, still here")])
    screen.wait_for("> ")
    os.write(ours, b"take your time\n")
    deadline = time.monotonic() + 20
    while not model.requests_for("take your time"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    screen.wait_for("(stopped)")
    os.write(ours, b"still there?\n")
    assert "Traceback" not in screen.wait_for("yes, still here")
    screen.wait_for("> ")
    os.write(ours, b"\x04")
    assert process.wait(10) == 0


def test_make_chat_says_what_is_missing_though_make_itself_sets_it() -> None:
    command = ["make", "--assume-old", ".venv/.installed", "chat"]
    env = {name: value for name, value in os.environ.items() if name != "AS"}
    result = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, check=False)
    assert result.returncode
    assert "AS is empty; say who you are" in result.stderr
