"""`make chat` and `make smoke`, driven as a person would, and what commands say where no server
answers.
"""

import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from typing import Any

import httpx
import jwt
import pytest

from lasting_memory.dev.smoke import MARK
from lasting_memory.testing.deployed import run_command
from lasting_memory.testing.dev_server import DevServer, dev_token
from lasting_memory.testing.loopback import LoopbackServer, QuietHandler
from lasting_memory.testing.people import FILE
from lasting_memory.testing.scripted_anthropic import (
    Body,
    ScriptedAnthropic,
    Text,
    ToolCall,
    last_user_text,
)
from tests.conftest import served


def chat(
    url: str, lines: str = "", identity: str = "", org: str = "acme"
) -> subprocess.CompletedProcess[str]:
    return run_command(
        "lasting_memory.dev.chat", "--as", identity, "--org", org, "--url", url, stdin=lines
    )


@pytest.mark.server
def test_a_chat_in_the_terminal_remembers_lists_undoes_and_forgets(
    shared_server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
    for text in ("likes tea", "likes coffee"):
        write = ToolCall("append_memory", {"path": "/memories/drinks.md", "text": f"- {text}"})
        model.script(text, [write], [Text(f"noted: {text}")])
    lines = [
        "likes tea",
        "likes coffee",
        "/files",
        "/undo drinks.md 1",
        "/files",
        "/undo drinks.md 99",
        "/undo",
    ]
    lines += ["/forget", "/files", "/unknown", "/forget everything", "/files"]
    result = chat(shared_server.url, "\n".join([*lines, ""]), alice)
    assert result.returncode == 0, result.stderr
    said, _, forgotten = result.stdout.partition("1 threads")
    assert said.count("noted: likes tea") == 1, result.stdout + result.stderr
    assert "likes tea" in str(model.requests_for("likes coffee")[-1]["messages"]), (
        "it is one conversation"
    )
    assert "/memories/drinks.md  27 bytes, revision 2" in said
    assert "/memories/drinks.md  12 bytes, revision 3" in said
    assert " answered 404" in said
    told = "the beginning, an undo of nothing, a deletion that is not confirmed, an unknown command"
    assert said.count("/undo <path> <revision>") == 4, told
    assert said.count("/memories/drinks.md  ") == 3, "asking deletes nothing"
    assert "/memories/drinks.md" not in forgotten


@pytest.mark.server
def test_a_caller_without_a_usable_token_gets_the_reason(
    shared_server: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a colon in the organization it would be another person of another organization."""
    monkeypatch.setenv("TOKEN", " ")
    for done, told in (
        (chat(shared_server.url, "", "alice", "a:b"), "'a:b'"),
        (chat(shared_server.url), "AS is empty; say who"),
    ):
        assert done.returncode == 1
        assert told in done.stderr


SECRET = "a secret of at least thirty-two bytes"
signing = served(AUTH_JWT_SECRET=SECRET)


@pytest.mark.server
def test_a_chat_with_an_identity_provider_s_token_is_of_the_person_it_names(
    signing: DevServer, model: ScriptedAnthropic, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token comes by the environment, so that no list of processes shows it. A development
    token is refused.
    """
    model.script("likes tea", [Text("noted: tea")])
    token = jwt.encode(
        {"sub": alice, "org_id": "acme", "exp": int(time.time()) + 600}, SECRET, "HS256"
    )
    monkeypatch.setenv("TOKEN", token)
    result = chat(signing.url, "likes tea\n")
    assert result.returncode == 0, result.stderr
    assert f"as {alice} of acme." in result.stdout
    assert "noted: tea" in result.stdout
    refused = chat(signing.url, "hello\n", alice)
    assert refused.returncode == 1
    assert "401" in refused.stderr


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
async def test_the_smoke_test_tries_everything_and_leaves_nothing(
    server: DevServer, model: ScriptedAnthropic, alice: str
) -> None:
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
async def test_the_smoke_test_touches_no_person_with_memory_but_its_own(
    server: DevServer, alice: str
) -> None:
    client = server.as_user(alice)
    await client.threads.create(metadata={"graph_id": "agent"})
    done = smoke(server.url, dev_token("acme", alice))
    assert done.returncode == 1
    assert "TOKEN is of somebody who has memory" in done.stderr
    assert len(await client.threads.search()) == 1

    await client.http.put(
        "/memory/file", params={"path": MARK}, json={"content": "an earlier one was stopped"}
    )
    smoke(server.url, dev_token("acme", alice))
    assert await client.threads.search() == []


def forget(server: DevServer, *words: str) -> subprocess.CompletedProcess[str]:
    return run_command("lasting_memory.dev.forget", *words, "--url", server.url)


@pytest.mark.server
async def test_an_operator_has_a_leaver_forgotten_and_nobody_else(
    server: DevServer, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is a colleague, or of another organization, keeps what they have."""
    monkeypatch.setenv("TOKEN", "")
    others = [server.person(f"bob of {alice}"), server.person(alice, "globex")]
    for person in (server.person(alice), *others):
        await person.write(FILE, "- likes tea")
        await person.turn(await person.thread(), "hello")
    asked = forget(server, alice, "acme")
    assert asked.returncode == 1
    assert asked.stdout == f"{alice} of acme has 1 files and 1 threads.\n"
    assert asked.stderr.startswith("Nothing was deleted: add --yes")
    done = forget(server, alice, "acme", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Deleted: " in done.stdout
    assert " 1 threads, " in done.stdout
    assert " 1 memories, " in done.stdout
    assert "What stays:\nThe time at which you were forgotten" in done.stdout
    left = [len((await person.made("GET", "/memory"))["files"]) for person in others]
    assert left == [1, 1]
    again = forget(server, alice, "acme")
    assert again.stdout == f"{alice} of acme has 0 files and 0 threads.\n"


@pytest.mark.server
def test_the_token_that_has_somebody_forgotten_is_an_operator_s(
    signing: DevServer, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def token(identity: str, **claims: object) -> str:
        return jwt.encode(
            {"sub": identity, "org_id": "acme", "exp": int(time.time()) + 600, **claims},
            SECRET,
            "HS256",
        )

    file: Any = {
        "url": f"{signing.url}/memory/file",
        "params": {"path": FILE},
        "headers": {"authorization": f"Bearer {token(alice)}"},
    }
    assert httpx.put(json={"content": "- likes tea"}, **file).is_success
    monkeypatch.setenv("TOKEN", token(f"bob of {alice}"))
    refused = forget(signing, alice, "acme", "--yes")
    assert refused.returncode == 1
    assert " answered 403: " in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert httpx.get(**file).is_success
    monkeypatch.setenv("TOKEN", token("root", permissions=["memory:operate"]))
    done = forget(signing, alice, "acme", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert httpx.get(**file).status_code == 404


asked: list[str] = []


class Other(QuietHandler):
    """A server that is none of ours: it leads to a page to sign in."""

    def do_GET(self) -> None:  # noqa: N802  # http.server's name
        asked.append(self.path)
        self.head(302, "text/plain", location="https://elsewhere.example/login")


class Silent(QuietHandler):
    """A server that says it is up, and never who somebody is."""

    waits = threading.Event()

    def do_GET(self) -> None:  # noqa: N802  # as above
        if self.path == "/ok":
            self.send(200, b'{"ok": true}')
        else:
            self.waits.set()
            self.rfile.read(1)  # until the other side is gone


class Another(QuietHandler):
    """A server that says in a form of its own who somebody is."""

    def do_GET(self) -> None:  # noqa: N802  # as above
        if self.path.startswith("/ok"):
            self.send(200, b'{"ok": true}')
        elif self.path == "/memory":
            self.send(401, b"{}")
        else:
            self.send(200, b'{"agents": "agent"}')


def test_the_smoke_test_says_in_one_line_which_answer_it_does_not_know() -> None:
    with LoopbackServer(Another) as another:
        done = smoke(another.url, "a token")
    assert (claims(done.stdout), done.returncode) == (["health"], 1)
    (line,) = done.stderr.splitlines()
    assert "GET /memory/me answered in a form that is not known here" in line


def test_ctrl_c_ends_a_chat_without_a_traceback_also_pressed_twice() -> None:
    with LoopbackServer(Silent) as silent:
        command = [
            sys.executable,
            "-m",
            "lasting_memory.dev.chat",
            "--as",
            "alice",
            "--org",
            "acme",
            "--url",
            silent.url,
        ]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=interruptible,  # noqa: PLW1509
        ) as process:
            assert Silent.waits.wait(300)
            for _ in range(2):
                process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=300)
    assert (said, process.returncode) == ("", 0)


def interruptible() -> None:
    """A background job of a shell ignores SIGINT, and its children do."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    "command",
    [
        "lasting_memory.dev.chat --as alice",
        "lasting_memory.dev.smoke",
        "lasting_memory.dev.forget alice acme --yes",
        "seeds",
    ],
)
@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "another", "http://[::1"])
def test_a_command_says_at_once_and_in_one_line_that_no_deployment_answers(
    command: str, url: str
) -> None:
    asked.clear()
    with LoopbackServer(Other) if url == "another" else nullcontext() as other:
        result = run_command(*command.split(), "--url", other.url if other else url)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert (other.url if other else url) in result.stderr
    assert asked in ([], ["/ok"])
