"""`make dev`: what it refuses, and one start for real, in a copy of the project."""

import os
import re
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
from lasting_memory.dev.configuration import configuration
from lasting_memory.settings import ENGINE, SettingsError
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
        yield Path(
            shutil.copytree(PROJECT, Path(folder) / "project", ignore=skipped, dirs_exist_ok=True)
        )


Started = tuple[subprocess.Popen[str], str, str]
Start = Callable[..., Started]


@pytest.fixture
def start(project: Path) -> Iterator[Start]:
    """Starts it; gives the process, what that said until it ran, and its address."""
    with ExitStack() as ends:

        def run(*args: str, until: str = "In another terminal", **env: str) -> Started:
            process = subprocess.Popen(
                [sys.executable, "-m", "lasting_memory.dev.server", *args],
                cwd=project,
                env={
                    **os.environ,
                    "PYTHONPATH": f"{project}{os.pathsep}{project}/engine/src",
                    "LOG_LEVEL": "WARNING",
                    **env,
                },
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
                if until in line:
                    break
            address = project / ".langgraph_api/address"
            return process, "".join(said), address.read_text() if address.exists() else ""

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
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(SystemExit, match="PORT is"),
    ):
        server.choose_port(taken.getsockname()[1])


def test_two_people_s_conversations_and_consolidations_leave_workers_for_others() -> None:
    assert int(server.JOBS) > 2 * DEFAULTS.busy_threads


def test_a_folder_has_one_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        server.only_server(),
        pytest.raises(SystemExit, match="A server of this folder runs already"),
    ):
        server.only_server()


@pytest.mark.parametrize("block", ["http", "store", "checkpointer"])
def test_a_block_of_langgraph_json_that_is_no_object_is_named_in_one_line(block: str) -> None:
    assert configuration({block: None}, postgres=True)
    for wrong in ("on", [1], 5, True):
        with pytest.raises(
            SettingsError,
            match=rf"^langgraph\.json: {block} is .*; use an object, e\.g\. \{{.*\}}\.$",
        ):
            configuration({block: wrong}, postgres=True)


ask = partial(httpx.request, timeout=300, trust_env=False)


@pytest.mark.server
def test_make_dev_reads_env_seeds_and_ends_at_ctrl_c_though_a_model_hangs(
    project: Path, start: Start, model: ScriptedAnthropic
) -> None:
    (project / "policies/acme").mkdir(parents=True, exist_ok=True)
    (project / "policies/acme/rule.md").write_text("1. Be kind.\n")
    (project / ".env").write_text(
        "DEFAULT_ORG=globex\nMEMORY_SCOPE=\nCONSOLIDATION_SCHEDULE=0 3 * * *\n"
    )
    process, said, url = start("--port", str(free_port()), DEFAULT_ORG="acme", **model.env)
    assert "policies/acme/rule.md: added" in said, said
    assert "cron: created, 0 3 * * *" in said
    assert f"Open {url}/app to talk" in said
    assert "make chat AS=alice@example.com ORG=acme" in said
    assert ask("GET", f"{url}/app").is_success
    studio = {"x-auth-scheme": "langsmith", "origin": "https://smith.langchain.com"}
    thread = ask("POST", f"{url}/threads", json={}, headers=studio).json()
    assert thread["metadata"]["org_id"] == "acme", "what the process was given wins over .env"
    message = {
        "assistant_id": "agent",
        "input": {"messages": [{"role": "user", "content": "hang"}]},
    }
    alice = {"authorization": "Bearer dev:acme:alice"}
    assert ask("GET", url).json()["ok"]
    assert ask("GET", url, headers={"accept": "text/html,*/*;q=0.8"}).headers["location"] == "/app"
    talk(url, alice)
    model.script("hang", after(threading.Event(), [Text("late")]))
    with ThreadPoolExecutor() as waiting:
        turn = waiting.submit(ask, "POST", f"{url}/runs/wait", json=message, headers=alice)
        while not (model.requests_for("hang") or turn.done()):
            time.sleep(0.1)
        for _ in range(3):
            # As a terminal does, to all that it started there.
            os.killpg(process.pid, signal.SIGINT)
        assert process.wait(300) == 0
        assert isinstance(turn.exception(300), httpx.TransportError)
    assert ended(url)
    assert process.stdout
    assert process.stdout.read().strip() == "", "a terminal in which nothing went wrong is calm"
    # Whole words: a port may be 57401.
    assert not re.search(r"\b(warning|401|XDG|Traceback)\b", said, re.IGNORECASE), said


def talk(url: str, headers: dict[str, str]) -> None:
    """A turn, a rehearsal and a call by MCP."""
    message = {"messages": [{"role": "user", "content": "hello"}]}
    assert ask(
        "POST",
        f"{url}/runs/wait",
        json={"assistant_id": "agent", "input": message},
        headers=headers,
    ).is_success
    thread = ask("POST", f"{url}/threads", json={}, headers=headers).json()["thread_id"]
    turn = {"assistant_id": "agent", "input": message}
    assert ask("POST", f"{url}/threads/{thread}/runs/wait", json=turn, headers=headers).is_success
    assert ask("POST", f"{url}/memory/consolidate?dry_run=true", headers=headers).is_success
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "agent", "arguments": message},
    }
    accept = {**headers, "accept": "application/json, text/event-stream"}
    assert "ok" in ask("POST", f"{url}/mcp", json=call, headers=accept).text


@pytest.mark.proof
@pytest.mark.server
def test_ctrl_c_while_it_seeds_ends_it_without_a_traceback(project: Path, start: Start) -> None:
    waiting = "import time\nprint('It seeds.', flush=True)\ntime.sleep(600)\n"
    (project / "seeds/__main__.py").write_text(waiting)
    process, _, url = start("--port", str(free_port()), until="It seeds.", AGENT_MODEL="")
    for _ in range(2):
        os.killpg(process.pid, signal.SIGINT)
    assert process.wait(300) == 0
    assert process.stdout
    assert process.stdout.read() == ""
    assert ended(url)


@pytest.mark.server
def test_a_graph_that_is_refused_ends_it_with_the_reason(project: Path, start: Start) -> None:
    agent = (project / "agent.py").read_text("utf-8")
    part = "        subagents=subagents(d, WRITER),  # and the helper; each sees policies\n"
    assert part in agent
    (project / "agent.py").write_text(agent.replace(part, ""), "utf-8")
    process, said, _ = start("--port", str(free_port()), AGENT_MODEL="")
    assert process.wait(300) == 1
    assert (
        "The graph 'agent' of langgraph.json: The subagent 'general-purpose' sees no policies"
        in said
    )
    assert said.endswith("The server did not start; the reason is above.\n")


@pytest.mark.server
@pytest.mark.proof
def test_a_server_whose_parents_were_killed_is_still_the_folder_s_one_server(
    project: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, _, url = start("--port", str(free_port()), AGENT_MODEL="")
    command = psutil.Process(process.pid)
    *parents, serving = sorted(
        [command, *command.children(recursive=True)], key=lambda each: each.create_time()
    )
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
    server.only_server().release()


@pytest.mark.server
@pytest.mark.proof
@pytest.mark.parametrize("options", [[], ["--postgres"]])
def test_make_dev_keeps_its_memory_and_goes_down_with_its_terminal(
    start: Start, model: ScriptedAnthropic, options: list[str]
) -> None:
    note = ToolCall(
        "append_memory", {"path": "/memories/preferences.md", "text": "- written before Ctrl-C"}
    )
    model.script("note it", [note], [Text("done")])
    process, said, url = start(
        *options, "--port", str(free_port()), XDG_RUNTIME_DIR="/nowhere", **model.env
    )
    assert "XDG" not in said
    message = {
        "assistant_id": "agent",
        "input": {"messages": [{"role": "user", "content": "note it"}]},
    }
    assert ask(
        "POST", f"{url}/runs/wait", json=message, headers={"authorization": "Bearer dev:acme:alice"}
    ).is_success
    process.send_signal(signal.SIGINT)
    assert process.wait(300) == 0

    process, said, url = start(
        *options, "--port", str(free_port()), AUTH_JWT_SECRET=SECRET, **model.env
    )
    assert "make chat TOKEN=" in said, "a development token would be refused"
    token = jwt.encode(
        {"sub": "alice", "org_id": "acme", "exp": int(time.time()) + 600}, SECRET, "HS256"
    )
    kept = ask(
        "GET",
        f"{url}/memory/file?path=/memories/preferences.md",
        headers={"authorization": f"Bearer {token}"},
    )
    assert "- written before Ctrl-C" in kept.text
    process.send_signal(signal.SIGHUP)
    process.wait(300)
    assert ended(url)
