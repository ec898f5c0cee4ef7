"""`lasting-memory`, the one command: what it starts, its exit codes, and the names that it uses."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lasting_memory.dev import checks, command, processes

ENGINE = Path(__file__).parents[2]


def run(
    folder: Path, *words: str, stdin: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """`lasting-memory` in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "lasting_memory.dev", *words],
        cwd=folder,
        env={**os.environ, **variables},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that is a deployment's, with tests and an engine."""
    (tmp_path / "langgraph.json").write_text('{"graphs": {}}')
    (tmp_path / "tests").mkdir()
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine/pyproject.toml").write_text("")
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, project: Path) -> list[str]:
    """What would be run in the project, as a line each: the folder, the command and its variables."""
    lines = list[str]()

    def record(
        words: list[str], folder: Path | None = None, stdin: str | None = None, **variables: str
    ) -> int:
        names = [f"{name}={value}" for name, value in variables.items()]
        tool = " ".join([Path(words[0]).name, *words[1:]])
        lines.append(" ".join([*names, f"{folder or Path()}:", tool]))
        return 0

    monkeypatch.chdir(project)
    monkeypatch.setattr(checks, "run", record)
    monkeypatch.setattr("sys.executable", "/venv/bin/python")
    monkeypatch.setattr("shutil.which", lambda name, path: f"{path}/{name}")
    return lines


LINT = [".: ruff check .", ".: ruff format --check ."]
LINT_ENGINE = ["engine: ruff check .", "engine: ruff format --check ."]
TYPES = [".: mypy", "engine: mypy"]
CONTRACTS = "engine: lint-imports --no-logo --no-cache"
MINE = ".: python -m pytest -n 2 tests"


def test_tests_are_those_of_the_fork_and_of_its_engine(started: list[str]) -> None:
    assert checks.test(template=False) == 0
    *before, engine = started
    lint, types, others = before[:4], before[4:6], before[6:]
    assert lint == [*LINT, *LINT_ENGINE]
    assert sorted(types) == TYPES, "in any order: they run at once"
    assert others == [CONTRACTS, MINE]
    assert engine.startswith("engine: python -m pytest -m not proof ")
    assert "--ignore=tests/template" in engine
    started.clear()
    assert checks.proof(template=True) == 0
    assert started[-1].startswith("DRAW_ANEW=1 engine: python -m pytest -n 5 ")
    assert "--ignore" not in started[-1]


def test_a_fork_without_the_engine_s_folder_is_checked_and_tested_alone(
    started: list[str], project: Path
) -> None:
    (project / "engine/pyproject.toml").unlink()
    assert checks.test(template=False) == 0
    assert started == [*LINT, ".: mypy", MINE]


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_exit_code_is_that_of_the_first_tool_that_fails(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(project / "mypy", "exit 0")
    script(project / "ruff", 'test "$1" = check || exit 7')
    monkeypatch.chdir(project)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(project))
    assert checks.check() == 7
    script(project / "ruff", "exit 0")
    script(project / "mypy", 'test "$(basename "$PWD")" != engine || exit 5')
    assert checks.check() == 5
    (project / "ruff").unlink()
    with pytest.raises(checks.MissingToolError, match=r"^ruff is not in .*`uv sync`.*\.$"):
        checks.check()


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ("sys.exit(3)", 3),
        ("sys.exit('why')", 1),
        ("os.kill(os.getpid(), 9)", 137),
        ("assert sys.stdin.read() == 'TOKEN'", 0),
    ],
)
def test_a_process_that_is_run_ends_with_its_own_code(ends: str, code: int) -> None:
    ended = processes.run([sys.executable, "-c", f"import os, sys; {ends}"], stdin="TOKEN")
    assert ended == code


@pytest.mark.parametrize("name", ["check", "test", "eval", "seed", "dev", "upgrade"])
def test_a_folder_that_is_no_deployment_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["lasting-memory", name])
    with pytest.raises(SystemExit) as ended:
        command.main()
    where = f"{tmp_path}/langgraph.json"
    assert ended.value.code == f"{where} is not there; run this in the project's folder."


def test_a_package_that_a_command_lacks_is_named_with_the_extra_that_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The console script is there without the extra."""
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.delitem(sys.modules, "lasting_memory.dev.chat", raising=False)
    monkeypatch.setattr("sys.argv", ["lasting-memory", "chat"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert str(ended.value.code).startswith("rich.console is not in ")
    assert str(ended.value.code).endswith("; install lasting-memory[dev], e.g. with `uv sync`.")


def test_the_command_lists_its_commands_also_where_one_is_unknown(
    tmp_path: Path,
) -> None:
    listed = run(tmp_path, "--help")
    assert listed.returncode == 0
    lines = listed.stdout.splitlines()
    for name, function in command.COMMANDS.items():
        assert f"  {name:<16}{function.__doc__}" in lines
    unknown = run(tmp_path, "start")
    assert unknown.returncode == 2
    assert unknown.stderr.startswith("lasting-memory has no command 'start'; use one of dev, ")
    assert len(unknown.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", command.COMMANDS)
def test_each_command_has_a_help_of_its_own(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    (project / "seeds.py").write_text("from lasting_memory.seeding import main\nmain(None)\n")
    monkeypatch.chdir(project)
    monkeypatch.setattr("sys.argv", ["lasting-memory", name, "--help"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert not ended.value.code
    assert capfd.readouterr().out.startswith("usage: ")


def test_the_tests_for_forks_without_pytest_name_the_extra_that_has_it() -> None:
    blocked = "import sys; sys.modules['pytest'] = None; import lasting_memory.testing"
    done = subprocess.run(
        [sys.executable, "-c", blocked], capture_output=True, text=True, check=False
    )
    fix = "lasting_memory.testing needs pytest; install lasting-memory[testing]."
    assert done.stderr.endswith(f"ModuleNotFoundError: {fix}\n")


SEEDS = "import sys\nprint(sys.argv[1:], repr(sys.stdin.read()))\nsys.exit(3)\n"


def test_a_token_reaches_the_seeds_by_standard_input_and_their_code_is_the_command_s(
    project: Path,
) -> None:
    """No list of processes shows it."""
    (project / "seeds.py").write_text(SEEDS)
    without = run(project, "seed", "--prune", TOKEN="")
    assert (without.stdout, without.returncode) == ("['--prune'] ''\n", 3)
    seeded = run(project, "seed", TOKEN="secret")
    assert (seeded.stdout, seeded.returncode) == ("['--token'] 'secret\\n'\n", 3)
    told = run(project, "seed", "--token", stdin="another", TOKEN="")
    assert told.stdout == "['--token'] 'another'\n"


def test_ctrl_c_waits_for_the_tool_and_leaves_no_traceback(project: Path) -> None:
    waiting = """
import signal, sys, time
def end(*_):
    time.sleep(0.5)
    print("ended", flush=True)
    sys.exit(5)
signal.signal(signal.SIGINT, end)
print("waits", flush=True)
time.sleep(600)
"""
    (project / "seeds.py").write_text(waiting)
    words = [sys.executable, "-m", "lasting_memory.dev", "seed"]
    with subprocess.Popen(
        words,
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
        # A background job of a shell ignores SIGINT, and its children do.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "waits\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.read() == "ended\n"
    assert process.returncode == 5


# What POSIX alone has is gone for this library; what it imports may find other names there.
ELSEWHERE = """
import builtins, json, os, signal, sys
import asyncio, multiprocessing, subprocess, langgraph_api.api, langgraph_api.cli, langgraph_cli.cli  # look at the system
from importlib import import_module
for name in ("killpg", "setsid", "getpgid", "setpgid", "fork", "getuid", "geteuid", "getloadavg"):
    delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGALRM", "SIGUSR1"):
    delattr(signal, name)
real = builtins.__import__
def importing(name, globals=None, *args, **options):
    if (globals or {}).get("__name__", "").startswith("lasting_memory"):
        assert name not in {"fcntl", "resource", "pwd", "grp", "termios", "tty"}, (name, globals["__name__"])
    return real(name, globals, *args, **options)
builtins.__import__ = importing
for name in json.loads(sys.argv[1]):
    import_module(name)
from lasting_memory.dev import processes, server
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
with server.only_server():
    process = processes.start_apart([sys.executable, "-c", "import time; time.sleep(600)"])
    processes.interrupt(process)
    process.wait(60)
print([number.name for number in processes.end_signals()])
from lasting_memory.dev import app  # it holds the folder's other lock
"""
# As `langgraph dev` sets it before it loads the app.
SERVER = {"LANGGRAPH_RUNTIME_EDITION": "inmem", "DATABASE_URI": ":memory:", "REDIS_URI": "fake"}
SERVED = ["agent", "auth", "consolidation_agent", "http_api", "deployment"]


@pytest.mark.proof
def test_modules_of_the_command_and_the_server_need_no_name_that_windows_lacks(
    tmp_path: Path,
) -> None:
    """The command, the server's own modules, and what a deployment loads."""
    modules = (ENGINE / "src/lasting_memory/dev").glob("[a-z]*.py")
    own = [f"lasting_memory.dev.{path.stem}" for path in modules if path.stem != "app"]
    project = ENGINE / "tests/project"
    served = [name for name in SERVED if (project / f"{name}.py").exists()]
    assert len(served) > 3
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {}}))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ELSEWHERE, json.dumps([*own, *served])],
        cwd=tmp_path,
        env={**os.environ, **SERVER, "PYTHONPATH": f"{ENGINE / 'src'}{os.pathsep}{project}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "['SIGINT', 'SIGTERM']\n", done.stderr


def test_a_process_is_killed_with_what_it_started(tmp_path: Path) -> None:
    """Its child would hold the pipe open."""
    child = "import time; print('up', flush=True); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    read, write = os.pipe()
    real: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen
    process = real([sys.executable, "-c", parent], stdout=write, start_new_session=True)
    os.close(write)
    with os.fdopen(read) as output:
        assert output.readline() == "up\n"
        processes.kill_with_children(process)
        assert output.read() == ""
    assert process.returncode == -signal.SIGKILL
