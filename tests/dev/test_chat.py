"""`make chat`, driven as a person would: lines in, lines out."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from dev.chat import main
from dev.commands import Commands
from memory.identity import Actor
from settings import PROJECT, Settings
from testing.commands import run_command
from testing.dev_server import DevServer
from testing.parts import needs_consolidation
from testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall, system_text


def chat(url: str, lines: str, identity: str = "alice@example.com") -> subprocess.CompletedProcess[str]:
    return run_command("dev.chat", "--as", identity, "--org", "acme", "--url", url, stdin=lines)


@pytest.mark.server
def test_a_conversation_its_memory_and_a_new_one(shared_server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    model.script("first words", [Text("a first answer")])
    model.script("second words", [Text("a second answer")])
    result = chat(shared_server.url, "first words\n/memory\n/new\nsecond words\n/help\n/quit\nnever sent\n", alice)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("a first answer") == 1
    assert "a second answer" in result.stdout
    assert "/memories/preferences.md" in result.stdout
    assert "never sent" not in str(model.requests)
    assert "first words" not in str(model.requests[-1]["messages"])


@pytest.mark.server
def test_what_is_remembered_is_listed_undone_taken_along_and_forgotten(
    shared_server: DevServer, model: ScriptedAnthropic, alice: str, tmp_path: Path
) -> None:
    for text in ("likes tea", "likes coffee"):
        write = ToolCall("append_memory", {"path": "/memories/drinks.md", "text": f"- {text}"})
        model.script(text, [write], [Text("noted")])
    exported = tmp_path / "mine.json"
    lines = ["likes tea", "likes coffee", "/files", "/history drinks.md", "/undo drinks.md 1", "/memory"]
    lines += [f"/export {exported}", f"/export {exported}", "/undo drinks.md 99", "/history", "/forget", "/files"]
    result = chat(shared_server.url, "\n".join([*lines, "/forget everything", "/files", "/quit", ""]), alice)
    assert result.returncode == 0, result.stderr
    assert "/memories/drinks.md  27 bytes, revision 2" in result.stdout
    assert "revision 2, 20" in result.stdout
    assert "+- likes coffee" in result.stdout
    assert "is what it was at revision 1; that is revision 3 now." in result.stdout
    document = json.loads(exported.read_text("utf-8"))
    assert {file["path"]: file["content"] for file in document["files"]}["/memories/drinks.md"] == "- likes tea\n"
    assert len(document["conversations"]) == 1
    assert f"{exported}: File exists." in result.stdout
    assert "The server answered 404" in result.stdout
    assert "/undo <path> <revision>" in result.stdout
    asked, _, forgotten = result.stdout.partition("1 threads")
    assert "If so: /forget everything" in asked
    assert asked.count("/memories/drinks.md  ") == 2, "asking deletes nothing"
    assert "/memories/drinks.md" not in forgotten


@needs_consolidation
@pytest.mark.server
def test_memory_is_paused_and_resumed_and_what_is_proposed_is_decided(
    shared_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    write = ToolCall("append_memory", {"path": "/memories/drinks.md", "text": "- tea"})
    model.script("likes tea", [write], [Text("noted")])
    lines = [
        "/pause",
        "likes tea",
        "/files",
        "/resume",
        "/review on",
        "/review x",
        "/proposals",
        "/accept x",
        "/decline x a.md",
    ]
    result = chat(shared_server.url, "\n".join([*lines, "/temporary", "hello", "/quit", ""]), alice)
    assert result.returncode == 0, result.stderr
    assert "Memory is paused: nothing new is remembered." in result.stdout
    assert "drinks.md  " not in result.stdout
    assert "What you say is remembered.\nConsolidation proposes its changes." in result.stdout
    assert "/review on, or /review off" in result.stdout
    assert "Nothing is proposed." in result.stdout
    assert result.stdout.count("The server answered 4") == 2
    assert "A temporary conversation. Nothing is remembered in it or of it." in result.stdout
    assert "<temporary>" in system_text(model.requests[-1])


@pytest.mark.parametrize(("status", "is_offered"), [(200, True), (404, False)])
async def test_review_is_offered_where_the_server_has_consolidation(
    status: int, is_offered: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        told = {"proposals": [], "paused": True, "review": False}
        return httpx.Response(status if request.url.path == "/memory/proposals" else 200, json=told)

    client = LangGraphClient(httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://test"))
    commands = Commands(client, Actor("alice", "acme"), Settings(), "agent")
    for line in ("/pause", "/proposals", "/review on", "/help"):
        await commands.carry_out(line)
    said = capsys.readouterr().out
    assert said.count("Memory is paused") == (2 if is_offered else 1)
    offers = ("Consolidation makes its changes.", "Nothing is proposed.", "/review on|off", "/accept")
    assert {offer in said for offer in offers} == {is_offered}


def test_without_a_server_it_says_what_to_do() -> None:
    result = chat("http://127.0.0.1:9", "hello\n")
    assert result.returncode == 1
    assert result.stderr == "No server answers at http://127.0.0.1:9; start it with `make dev` in another terminal.\n"


@pytest.mark.parametrize("org", ["a:b", "caf\u00e9"])
def test_an_organization_that_a_token_cannot_carry_is_refused(org: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With a colon it would be another person of another organization."""
    assert main("alice", org, "http://127.0.0.1:9") == 1
    assert capsys.readouterr().err == (
        f"ORG is {org!r}; a development token can only carry an organization in ASCII without a colon.\n"
    )


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
        # Whoever runs the tests in the background of a shell has SIGINT ignored, in all their processes.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # nothing else happens there
    )
    os.close(theirs)
    yield ours, process
    process.kill()
    process.wait()
    os.close(ours)


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
