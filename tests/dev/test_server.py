"""`make dev`: what it refuses, and one start for real, in a copy of the project."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest

from dev import server
from settings import PROJECT
from testing.parts import CONSOLIDATION, PAGE, POSTGRES
from testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, ToolCall
from tests.conftest import model_env

JOBS = int(server.JOBS)


@pytest.fixture
def project() -> Iterator[Path]:
    skipped = shutil.ignore_patterns(
        ".venv", ".git", ".env", ".langgraph_api", ".postgres", "*.egg-info", "__pycache__", "tests", ".*_cache"
    )
    # Not below pytest's folder, which Postgres's own user may not enter.
    with TemporaryDirectory(prefix="project-") as folder:
        Path(folder).chmod(0o755)
        yield Path(shutil.copytree(PROJECT, Path(folder) / "project", ignore=skipped))


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(project: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(*args: str, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "dev.server", *args],
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(project), "LOG_LEVEL": "WARNING", **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
            # A background job of a shell ignores SIGINT, and its children do.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)
        if process.stdout:
            process.stdout.close()


def output(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.read()


def started_at(process: subprocess.Popen[str], project: Path) -> tuple[str, str]:
    """What it said until it ran, and its address."""
    assert process.stdout
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "In another terminal" in line:
            break
    return "".join(lines), (project / ".langgraph_api/address").read_text()


def test_a_port_that_is_taken_is_refused_and_nothing_is_seeded(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        process = start("--port", port)
        assert process.wait(30) == 1
        assert output(process).startswith(f"PORT is {port}, ")


@pytest.mark.server
def test_it_starts_seeds_and_goes_down_with_its_terminal(project: Path, start: Start, free_port: Callable[[], int]) -> None:
    """It starts, seeds, reads `.env`, runs once a folder, and goes down with its terminal."""
    (project / "policies/acme").mkdir(parents=True, exist_ok=True)
    (project / "policies/acme/rule.md").write_text("1. Be kind.\n")
    (project / ".env").write_text("DEFAULT_ORG=globex\nMEMORY_SCOPE=\nCONSOLIDATION_SCHEDULE=0 3 * * *\n")
    process = start("--port", str(free_port()), DEFAULT_ORG="acme")
    said, url = started_at(process, project)
    assert "policies/acme/rule.md: added" in said, said
    assert ("cron: created, 0 3 * * *" in said) == CONSOLIDATION
    assert (f"Open {url}/app to talk" in said) == PAGE
    assert httpx.get(f"{url}/app", trust_env=False).is_success == PAGE
    headers = {"x-auth-scheme": "langsmith"}
    thread = httpx.post(f"{url}/threads", json={}, headers=headers, trust_env=False).json()
    assert thread["metadata"]["org_id"] == "acme", "what the process was given wins over .env"
    for path, sent in (
        ("/internal/truncate", {}),
        ("/threads/search", {**headers, "host": "rebound.example"}),
        ("/deploy", {"origin": "https://attacker.example"}),
    ):
        assert httpx.post(f"{url}{path}", json={}, headers=sent, trust_env=False).status_code == 403, path
    studio = {**headers, "origin": "https://smith.langchain.com"}
    answer = httpx.post(f"{url}/threads/search", json={}, headers=studio, trust_env=False)
    assert [one["thread_id"] for one in answer.json()] == [thread["thread_id"]]

    second = start()
    assert second.wait(30) == 1
    assert f"A server of this folder runs already, at {url}" in output(second)

    process.send_signal(signal.SIGHUP)
    process.wait(30)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            httpx.get(f"{url}/ok", trust_env=False)
        except httpx.TransportError:
            return
        time.sleep(0.2)
    pytest.fail("the server outlived its terminal")


@pytest.mark.server
@pytest.mark.proof
@pytest.mark.parametrize("options", [[], *[["--postgres"]] * POSTGRES])
def test_ctrl_c_ends_it_while_calls_of_the_model_hang_and_memory_is_kept(
    project: Path, start: Start, free_port: Callable[[], int], model: ScriptedAnthropic, options: list[str]
) -> None:
    def turn(url: str, who: str, text: str) -> httpx.Response:
        message = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}}
        headers = {"authorization": f"Bearer dev:acme:{who}"}
        return httpx.post(f"{url}/runs/wait", json=message, headers=headers, timeout=120, trust_env=False)

    note = ToolCall("append_memory", {"path": "/memories/preferences.md", "text": "- written before Ctrl-C"})
    model.script("note it", [note], [Text("done")])
    model.script("hang", *[Slow(60, [Text("late")])] * 20)
    process = start(*options, "--port", str(free_port()), **model_env(model))
    _, url = started_at(process, project)
    with ThreadPoolExecutor(JOBS) as waiting:
        assert turn(url, "alice", "note it").is_success
        hanging = [waiting.submit(turn, url, f"person-{number}", "hang") for number in range(JOBS)]
        deadline = time.monotonic() + 60
        while len(model.requests_for("hang")) < JOBS:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(25) == 0
        assert all(isinstance(call.exception(10), httpx.TransportError) for call in hanging)
    assert "TimeoutExpired" not in output(process), "it waited for what hangs"
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/ok", trust_env=False)

    _, url = started_at(start(*options, "--port", str(free_port()), **model_env(model)), project)
    headers = {"authorization": "Bearer dev:acme:alice"}
    answer = httpx.get(f"{url}/memory/file?path=/memories/preferences.md", headers=headers, trust_env=False)
    assert "- written before Ctrl-C" in answer.text
