"""`make dev`: what it refuses, and one start for real, in a copy of the project."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import jwt
import psutil
import pytest

from lasting_memory.deployment import DEFAULTS
from lasting_memory.dev import server
from lasting_memory.settings import ENGINE
from lasting_memory.testing.deployed import PROJECT
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall, after
from tests.conftest import free_port

SECRET = "a secret of at least thirty-two bytes"


@pytest.fixture
def project() -> Iterator[Path]:
    skipped = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
    # Not below pytest's folder, which Postgres's own user may not enter.
    with TemporaryDirectory(prefix="project-") as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(ENGINE.parent, Path(folder) / "project" / "engine" / "src", ignore=skipped)
        yield Path(shutil.copytree(PROJECT, Path(folder) / "project", ignore=skipped, dirs_exist_ok=True))


Started = tuple[subprocess.Popen[str], str, str]
Start = Callable[..., Started]


@pytest.fixture
def start(project: Path) -> Iterator[Start]:
    """Starts it; gives the process, what that said until it ran, and its address."""
    with ExitStack() as ends:

        def run(*args: str, **env: str) -> Started:
            process = subprocess.Popen(
                [sys.executable, "-m", "lasting_memory.dev.server", *args],
                cwd=project,
                env={**os.environ, "PYTHONPATH": f"{project}{os.pathsep}{project}/engine/src", "LOG_LEVEL": "WARNING", **env},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                process_group=0,
                # A background job of a shell ignores SIGINT, and its children do.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
            )
            assert process.stdout
            ends.enter_context(process.stdout)
            ends.callback(stop, process)
            said = list[str]()
            while line := process.stdout.readline():
                said.append(line)
                if "In another terminal" in line:
                    break
            return process, "".join(said), (project / ".langgraph_api/address").read_text()

        yield run


def stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(300)


def ended(url: str) -> bool:
    try:
        httpx.get(f"{url}/ok", trust_env=False)
    except httpx.TransportError:
        return True
    return False


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit, match="PORT is"):
        server.choose_port(taken.getsockname()[1])


def test_two_people_s_conversations_and_consolidations_leave_workers_for_others() -> None:
    assert int(server.JOBS) > 2 * DEFAULTS.busy_threads


def test_a_folder_has_one_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with server.only_server(), pytest.raises(SystemExit, match="A server of this folder runs already"):
        server.only_server()


ask = partial(httpx.request, timeout=300, trust_env=False)


@pytest.mark.server
def test_it_reads_env_starts_seeds_and_ends_at_ctrl_c_though_a_model_hangs(
    project: Path, start: Start, model: ScriptedAnthropic
) -> None:
    (project / "policies/acme").mkdir(parents=True, exist_ok=True)
    (project / "policies/acme/rule.md").write_text("1. Be kind.\n")
    (project / ".env").write_text("DEFAULT_ORG=globex\nMEMORY_SCOPE=\nCONSOLIDATION_SCHEDULE=0 3 * * *\n")
    model.script("hang", after(threading.Event(), [Text("late")]))
    process, said, url = start("--port", str(free_port()), DEFAULT_ORG="acme", **model.env)
    assert "policies/acme/rule.md: added" in said, said
    assert "cron: created, 0 3 * * *" in said
    assert f"Open {url}/app to talk" in said
    assert "make chat AS=alice@example.com ORG=acme" in said
    assert ask("GET", f"{url}/app").is_success
    studio = {"x-auth-scheme": "langsmith", "origin": "https://smith.langchain.com"}
    thread = ask("POST", f"{url}/threads", json={}, headers=studio).json()
    assert thread["metadata"]["org_id"] == "acme", "what the process was given wins over .env"
    message = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hang"}]}}
    alice = {"authorization": "Bearer dev:acme:alice"}
    with ThreadPoolExecutor() as waiting:
        turn = waiting.submit(ask, "POST", f"{url}/runs/wait", json=message, headers=alice)
        while not (model.requests_for("hang") or turn.done()):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0
        assert isinstance(turn.exception(300), httpx.TransportError)
    assert ended(url)


@pytest.mark.server
@pytest.mark.proof
def test_what_serves_after_its_parents_were_killed_is_still_the_folders_one_server(
    project: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, _, url = start("--port", str(free_port()), AGENT_MODEL="")
    command = psutil.Process(process.pid)
    *parents, serving = sorted([command, *command.children(recursive=True)], key=lambda each: each.create_time())
    for each in parents:
        each.kill()
    monkeypatch.chdir(project)
    try:
        assert ask("GET", f"{url}/ok").is_success
        with pytest.raises(SystemExit, match=f"runs already, at {url}"):
            server.only_server()
    finally:
        serving.kill()
    serving.wait(300)
    server.only_server().close()


@pytest.mark.server
@pytest.mark.proof
@pytest.mark.parametrize("options", [[], ["--postgres"]])
def test_it_keeps_what_it_had_and_goes_down_with_its_terminal(
    start: Start, model: ScriptedAnthropic, options: list[str]
) -> None:
    note = ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- written before Ctrl-C"})
    model.script("note it", [note], [Text("done")])
    process, _, url = start(*options, "--port", str(free_port()), **model.env)
    message = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "note it"}]}}
    assert ask("POST", f"{url}/runs/wait", json=message, headers={"authorization": "Bearer dev:acme:alice"}).is_success
    process.send_signal(signal.SIGINT)
    assert process.wait(300) == 0

    process, said, url = start(*options, "--port", str(free_port()), AUTH_JWT_SECRET=SECRET, **model.env)
    assert "make chat TOKEN=" in said, "a development token would be refused"
    token = jwt.encode({"sub": "alice", "org_id": "acme", "exp": int(time.time()) + 600}, SECRET, "HS256")
    kept = ask("GET", f"{url}/memory/file?path=/memories/preferences.md", headers={"authorization": f"Bearer {token}"})
    assert "- written before Ctrl-C" in kept.text
    process.send_signal(signal.SIGHUP)
    process.wait(300)
    assert ended(url)
