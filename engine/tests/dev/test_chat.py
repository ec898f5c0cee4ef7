"""`make chat`, driven as a person would: lines in, lines out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lasting_memory.testing.commands import run_command
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall


def chat(url: str, lines: str, identity: str = "alice@example.com") -> subprocess.CompletedProcess[str]:
    return run_command("lasting_memory.dev.chat", "--as", identity, "--org", "acme", "--url", url, stdin=lines)


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
    result = run_command("lasting_memory.dev.chat", "--as", "alice", "--org", "a:b", "--url", shared_server.url)
    assert result.returncode == 1
    assert "'a:b'" in result.stderr


@pytest.mark.server
def test_an_identity_the_server_refuses_is_explained(shared_server: DevServer) -> None:
    result = chat(shared_server.url, "hello\n", "langgraph-studio-user")
    assert result.returncode == 1
    assert "401" in result.stderr
    assert "Traceback" not in result.stderr


def test_make_chat_says_what_is_missing_though_make_itself_sets_it() -> None:
    command = ["make", "--assume-old", ".venv/.installed", "chat"]
    env = {name: value for name, value in os.environ.items() if name != "AS"}
    result = subprocess.run(command, cwd=Path(__file__).parents[3], env=env, capture_output=True, text=True, check=False)
    assert result.returncode
    assert "AS is empty; say who you are" in result.stderr
