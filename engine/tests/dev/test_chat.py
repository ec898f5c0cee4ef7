"""`make chat`, driven as a person would: lines in, lines out."""

import subprocess
import time

import jwt
import pytest

from lasting_memory.testing.commands import run_command
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import served


def chat(url: str, lines: str, identity: str = "alice@example.com") -> subprocess.CompletedProcess[str]:
    return run_command("lasting_memory.dev.chat", "--as", identity, "--org", "acme", "--url", url, stdin=lines)


@pytest.mark.server
def test_what_is_said_is_remembered_listed_undone_and_forgotten(
    shared_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    for text in ("likes tea", "likes coffee"):
        write = ToolCall("append_memory", {"path": "/memories/drinks.md", "text": f"- {text}"})
        model.script(text, [write], [Text(f"noted: {text}")])
    lines = ["likes tea", "likes coffee", "/files", "/undo drinks.md 1", "/files", "/undo drinks.md 99", "/undo"]
    lines += ["/forget", "/files", "/unknown", "/forget everything", "/files"]
    result = chat(shared_server.url, "\n".join([*lines, ""]), alice)
    assert result.returncode == 0, result.stderr
    said, _, forgotten = result.stdout.partition("1 threads")
    assert said.count("noted: likes tea") == 1, result.stdout + result.stderr
    assert "likes tea" in str(model.requests_for("likes coffee")[-1]["messages"]), "it is one conversation"
    assert "/memories/drinks.md  27 bytes, revision 2" in said
    assert "/memories/drinks.md  12 bytes, revision 3" in said
    assert " answered 404" in said
    told = "the beginning, an undo of nothing, a deletion that is not confirmed, an unknown command"
    assert said.count("/undo <path> <revision>") == 4, told
    assert said.count("/memories/drinks.md  ") == 3, "asking deletes nothing"
    assert "/memories/drinks.md" not in forgotten


@pytest.mark.server
def test_an_organization_that_a_token_cannot_carry_is_refused(shared_server: DevServer) -> None:
    """With a colon it would be another person of another organization."""
    result = run_command("lasting_memory.dev.chat", "--as", "alice", "--org", "a:b", "--url", shared_server.url)
    assert result.returncode == 1
    assert "'a:b'" in result.stderr


def test_without_a_name_and_a_token_it_says_what_is_missing(shared_server: DevServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", " ")
    result = run_command("lasting_memory.dev.chat", "--url", shared_server.url)
    assert result.returncode == 1
    assert "AS is empty; say who you are" in result.stderr
    assert "TOKEN=" in result.stderr


SECRET = "a secret of at least thirty-two bytes"
signing = served(AUTH_JWT_SECRET=SECRET)


@pytest.mark.server
def test_with_an_identity_provider_s_token_one_is_whom_it_names(
    signing: DevServer, model: ScriptedAnthropic, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token comes by the environment, so that no list of processes shows it. A development token is refused."""
    model.script("likes tea", [Text("noted: tea")])
    token = jwt.encode({"sub": alice, "org_id": "acme", "exp": int(time.time()) + 600}, SECRET, "HS256")
    monkeypatch.setenv("TOKEN", token)
    result = run_command("lasting_memory.dev.chat", "--url", signing.url, stdin="likes tea\n")
    assert result.returncode == 0, result.stderr
    assert f"as {alice} of acme." in result.stdout
    assert "noted: tea" in result.stdout
    refused = chat(signing.url, "hello\n", alice)
    assert refused.returncode == 1
    assert "401" in refused.stderr
