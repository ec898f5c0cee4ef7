"""`make dev` whose own process is killed: its server lives on, and nobody starts another in its folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from dev.lock import only_server
from tests.dev.test_server import project  # noqa: F401  # a fixture

pytestmark = [pytest.mark.server, pytest.mark.proof]


@pytest.fixture
def dev(project: Path, free_port: Callable[[], int]) -> Iterator[Callable[[], subprocess.Popen[str]]]:  # noqa: F811
    """Starts `dev/server.py` in a copy of the project; what is left of it is killed in the end."""
    started = list[subprocess.Popen[str]]()

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "dev.server", "--port", str(free_port())]
        env = {**os.environ, "PYTHONPATH": str(project), "LOG_LEVEL": "WARNING"}
        process = subprocess.Popen(command, cwd=project, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(process)
        return process

    yield start
    left = [process for process in psutil.process_iter() if _works_in(process, project)]
    for process in left:
        process.kill()
    psutil.wait_procs(left, 10)
    for ended in started:
        ended.wait(10)
        if ended.stdout:
            ended.stdout.close()


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return Path(process.cwd()) == folder
    except psutil.Error:
        return False


def until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "In another terminal" in line:
            return
    pytest.fail("".join(lines))


def test_a_server_whose_starter_was_killed_keeps_its_folder(
    project: Path,  # noqa: F811
    dev: Callable[[], subprocess.Popen[str]],
) -> None:
    """A server whose starter was killed keeps its folder until its last process is gone."""
    first = dev()
    until_ready(first)
    url = (project / ".langgraph_api/address").read_text()
    starter = psutil.Process(first.pid)
    (supervisor,) = starter.children()
    workers = [process for process in supervisor.children() if "spawn_main" in " ".join(process.cmdline())]
    assert workers, [process.cmdline() for process in supervisor.children(recursive=True)]

    for killed in (starter, supervisor):
        killed.send_signal(signal.SIGKILL)
        killed.wait(10)
        assert httpx.get(f"{url}/ok", trust_env=False).is_success, "the process that serves lives on"
        second = dev()
        said, _ = second.communicate(timeout=60)
        assert second.returncode == 1
        assert said.startswith(f"A server of this folder runs already, at {url} (process {supervisor.pid})"), said

    for worker in workers:
        worker.kill()
    psutil.wait_procs(workers, 10)
    only_server(project).close()  # or it would exit


@pytest.mark.proof
def test_after_the_code_was_reloaded_too(project: Path, dev: Callable[[], subprocess.Popen[str]]) -> None:  # noqa: F811
    first = dev()
    until_ready(first)
    (supervisor,) = psutil.Process(first.pid).children()
    before = {process.pid for process in supervisor.children()}
    (project / "prompts.py").write_text("# changed\n")
    deadline = time.monotonic() + 60
    while {process.pid for process in supervisor.children()} <= before:
        assert time.monotonic() < deadline, "nothing was reloaded"
        time.sleep(0.2)
    url = (project / ".langgraph_api/address").read_text()
    while True:
        try:
            httpx.get(f"{url}/ok", trust_env=False, timeout=5)
            break
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    for killed in (psutil.Process(first.pid), supervisor):
        killed.kill()
        killed.wait(10)
    second = dev()
    said, _ = second.communicate(timeout=60)
    assert (second.returncode, "runs already" in said) == (1, True), said
