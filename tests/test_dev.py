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
from pathlib import Path

import httpx
import pytest

from settings import PROJECT


@pytest.fixture
def project(tmp_path: Path) -> Path:
    skipped = shutil.ignore_patterns(
        ".venv", ".git", ".env", ".langgraph_api", "*.egg-info", "__pycache__", "tests", ".*_cache"
    )
    return Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=skipped))


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(project: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(*args: str, **env: str) -> subprocess.Popen[str]:
        clean = {name: value for name, value in os.environ.items() if name not in {"AGENT_MODEL", "ANTHROPIC_API_KEY"}}
        process = subprocess.Popen(
            [sys.executable, "dev.py", *args],
            cwd=project,
            env={**clean, "PYTHONPATH": str(project), "LOG_LEVEL": "WARNING", **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
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


def test_a_port_that_is_taken_is_refused_and_nothing_is_seeded(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        process = start("--port", port)
        assert process.wait(30) == 1
        assert output(process) == f"PORT is {port}, which is taken; choose another, or leave it out.\n"


@pytest.mark.server
def test_it_starts_seeds_reads_dot_env_runs_once_a_folder_and_goes_down_with_its_terminal(
    project: Path, start: Start, free_port: Callable[[], int]
) -> None:
    (project / ".env").write_text("DEFAULT_ORG=globex\nMEMORY_SCOPE=\nCONSOLIDATION_SCHEDULE=0 3 * * *\n")
    process = start("--port", str(free_port()), DEFAULT_ORG="acme")
    lines = []
    assert process.stdout
    for line in process.stdout:
        lines.append(line)
        if "In another terminal" in line:
            break
    said = "".join(lines)
    assert "policies/acme/compliance.md: added" in said, said
    assert "cron: created, 0 3 * * *" in said
    url = (project / ".langgraph_api/address").read_text()
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
    found = httpx.post(f"{url}/threads/search", json={}, headers=studio, trust_env=False)
    assert [one["thread_id"] for one in found.json()] == [thread["thread_id"]]

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


def test_a_bad_setting_in_dot_env_is_one_line_before_anything_starts(project: Path) -> None:
    (project / ".env").write_text("SHARED_WRITES=maybe\n")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(project)}
    result = subprocess.run(
        [sys.executable, "-m", "settings"], cwd=project, env=env, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr == "SHARED_WRITES is 'maybe'; use one of deny, interrupt, allow.\n"
