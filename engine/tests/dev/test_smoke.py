"""`make smoke`: what it tries of a server, what it says, and that nothing of it is left."""

import subprocess
from collections.abc import Callable

import pytest

from lasting_memory.dev.smoke import MARK
from lasting_memory.testing.commands import run_command
from lasting_memory.testing.dev_server import DevServer, dev_token
from lasting_memory.testing.scripted_anthropic import Body, ScriptedAnthropic, Text, ToolCall, last_user_text

CLAIMS = ["health", "newcomer", "write", "turn", "consolidation", "search", "export", "deletion"]


def smoke(url: str, token: str) -> subprocess.CompletedProcess[str]:
    return run_command("lasting_memory.dev.smoke", "--url", url, stdin=token)


def claims(said: str) -> list[str]:
    return [line.split()[1] for line in said.splitlines()]


def searching(body: Body) -> list[Text | ToolCall]:
    """Answers as a model that does what it is asked."""
    word = last_user_text(body).partition("about ")[2].partition("?")[0]
    return [ToolCall("search_past_conversations", {"query": word})]


@pytest.mark.server
async def test_it_tries_everything_and_leaves_nothing(server: DevServer, model: ScriptedAnthropic, alice: str) -> None:
    model.script("What did we say", searching, [Text("That.")])
    done = smoke(server.url, dev_token("acme", alice))
    assert (claims(done.stdout), done.stderr, done.returncode) == (CLAIMS, "", 0)
    assert await server.as_user(alice).threads.search() == []

    unsearched = smoke(server.url, dev_token("acme", alice))
    assert unsearched.returncode == 1
    assert "did not search" in unsearched.stderr
    assert claims(unsearched.stdout)[-1] == "consolidation"
    assert await server.as_user(alice).threads.search() == []


@pytest.mark.server
async def test_it_touches_nobody_who_has_memory_unless_it_is_its_own(server: DevServer, alice: str) -> None:
    client = server.as_user(alice)
    await client.threads.create(metadata={"graph_id": "agent"})
    done = smoke(server.url, dev_token("acme", alice))
    assert done.returncode == 1
    assert "TOKEN is of somebody who has memory" in done.stderr
    assert len(await client.threads.search()) == 1

    await client.http.put("/memory/file", params={"path": MARK}, json={"content": "an earlier one was stopped"})
    smoke(server.url, dev_token("acme", alice))
    assert await client.threads.search() == []


def test_an_address_where_nothing_answers_is_a_failure_in_one_line(free_port: Callable[[], int]) -> None:
    done = smoke(f"http://127.0.0.1:{free_port()}", "any")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
