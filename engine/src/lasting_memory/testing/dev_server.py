"""Runs the real `langgraph dev` as a subprocess, for tests that go through the platform."""

import asyncio
import atexit
import gc
import json
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

import httpx
from langchain_core.messages import content as langchain_content
from langgraph_sdk.client import LangGraphClient
from langsmith.utils import get_env_var

from lasting_memory.dev.configuration import configuration
from lasting_memory.dev.langgraph_dev import SERVING
from lasting_memory.settings import project_config
from lasting_memory.testing.deployed import PROJECT
from lasting_memory.testing.people import OPERATOR, Person, dev_token, run_turn

__all__ = ["DevServer", "dev_token", "environment", "run_turn"]

START_SECONDS = 300.0
STOP_SECONDS = 60.0
# How often a server started from now on looks for runs; None for the platform's half a second, for
# which each turn waits.
queue_seconds: float | None = None

# A developer's own settings, keys and tracing must not reach the server under test.
# fmt: off
_DROPPED_PREFIXES = (
    "AUTH_", "AGENT_", "CONSOLIDAT", "MEMORY_", "SHARED_WRITES", "OPERATORS", "DEFAULT_ORG", "DEV_TOKENS",
    "ANTHROPIC_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_", "LANGSERVE_", "POSTGRES_", "OTEL_", "DD_",
)
# fmt: on
# A server is forked from a process that has imported, once, what takes three of the five seconds of its start: other
# people's packages and the engine's, none of which reads the environment then.
_FORKS = multiprocessing.get_context("forkserver")
# fmt: off
_FORKS.set_forkserver_preload([
    "deepagents", "langchain_anthropic", "langgraph.store.postgres.aio", "langgraph_cli.cli", "bm25s", "sse_starlette",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter", "jwt", "grpc", "croniter",
    "prometheus_client", "structlog", "uvicorn", "fastapi", "lasting_memory.http.app",
])
# fmt: on
_SERVER_ENV = {
    # No model of a fork's, and none that a fork may have taken off.
    "AGENT_MODEL": "anthropic:claude-sonnet-4-6",
    "ANTHROPIC_API_KEY": "test",
    # Tests ask for consolidation themselves: the scripted model counts every call.
    "CONSOLIDATE_AFTER_SECONDS": "0",
    "LANGSMITH_TRACING": "false",
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "LOG_COLOR": "false",
}


class DevServer:
    """Context manager around `langgraph dev` of a project (the engine's own, or a fork's), working
    in `folder`.

    The server keeps its state in folder/.langgraph_api, so a restart in the same folder keeps
    everything and two servers need two folders. `env` is added to a cleaned environment; `config`
    is deep-merged over the project's langgraph.json. `options` are further ones of the command. The
    port stays the same across restarts, so clients do too. With `plain` it is what people start by
    habit, with langgraph.json itself, not what `make dev` makes of that. Its process does `serve`
    in place of `serve_command`, which that calls.
    """

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        options: Sequence[str] = (),
        project: Path = PROJECT,
        *,
        plain: bool = False,
        serve: Callable[[Path, list[str], dict[str, str], float | None], None] | None = None,
    ) -> None:
        self._plain = plain
        self._serve = serve or serve_command
        self.project = project.resolve()
        self.folder = folder.resolve()
        self._env = dict(env or {})
        self._config = dict(config or {})
        self._options = tuple(options)
        self._process: multiprocessing.process.BaseProcess | None = None
        self._clients = list[httpx.AsyncClient]()
        # Bound but never listening: keeps the port from others, while SO_REUSEADDR lets the server
        # bind it as well.
        reservation = socket.socket()
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind(("127.0.0.1", 0))
        _, port = reservation.getsockname()
        self._reservation = reservation
        self.port: int = port
        self.url = f"http://127.0.0.1:{port}"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._reservation.close()

    @property
    def group(self) -> int:
        """The process group of the running server."""
        process = self._process
        if process is None or process.pid is None:
            raise RuntimeError("The server does not run.")
        return process.pid

    @property
    def log(self) -> str:
        """Everything the server has printed, over all its starts."""
        path = self.folder / "server.log"
        if not path.exists():
            return ""
        return path.read_text(errors="replace")

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises RuntimeError with the end of the log when it exits first or is not up within
        START_SECONDS.
        """
        command, env = self.command()
        arguments = (self.folder, command, env, queue_seconds)
        process = _FORKS.Process(target=self._serve, args=arguments)
        self._process = process
        process.start()
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            code = process.exitcode
            failure = ""
            if code is not None:
                failure = f"exited with {code}"
            elif time.monotonic() > deadline:
                failure = f"not up after {START_SECONDS} s"
            if failure:
                self.kill()
                last_lines = self.log.splitlines()[-40:]
                tail = "\n".join(last_lines)
                raise RuntimeError(f"langgraph dev {failure}:\n{tail}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop with SIGINT, which flushes the state to disk; SIGKILL after STOP_SECONDS."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL: data that the server has not flushed yet is lost (it flushes every 10 s)."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop, then start again with the same folder, port and settings."""
        self.stop()
        self.start()

    def as_user(self, identity: str, org: str = "acme") -> LangGraphClient:
        """An SDK client with the dev token of `identity` in `org`."""
        return self.person(identity, org).client

    def as_operator(self) -> LangGraphClient:
        """An SDK client that comes in the way Studio does."""
        return self.person("", headers=OPERATOR).client

    def person(self, identity: str, org: str = "acme", **options: Any) -> Person:
        """Somebody with a dev token; `options` are those of `Person`."""
        person = Person(self.url, identity, org, **options)
        self._clients.append(person.raw)
        return person

    async def close_clients(self) -> None:
        """Close every client given out so far; to be called in the event loop that used them."""
        clients = self._clients
        self._clients = []
        for client in clients:
            await client.aclose()

    def command(self) -> tuple[list[str], dict[str, str]]:
        """Arguments of `python -m langgraph_cli` in the folder, where its configuration is written,
        and the environment.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        config = _project_config(self.project, self._config)
        plain_path = self.folder / "langgraph.json"
        plain_text = json.dumps(config, indent=2)
        plain_path.write_text(plain_text)
        if not self._plain:
            config = configuration(config, postgres=False)
        config_path = self.folder / ".dev.json"
        config_text = json.dumps(config)
        config_path.write_text(config_text)
        command = ["dev", "--config", str(config_path), "--port", str(self.port)]
        command += ["--no-browser", "--no-reload", "--n-jobs-per-worker", "10"]
        command += self._options
        env = environment(self._env, self.project)
        return command, env

    def answers(self) -> bool:
        """Whether the server is up."""
        try:
            answer = httpx.get(f"{self.url}/ok", timeout=2, trust_env=False)
        except httpx.TransportError:
            return False
        return answer.status_code == 200

    def _end(self, signum: signal.Signals) -> None:
        """Send the server's process group a signal, and wait for its end; SIGKILL after
        STOP_SECONDS.
        """
        process = self._process
        self._process = None
        if process is None or process.pid is None:
            return
        if process.is_alive():
            os.killpg(process.pid, signum)
        process.join(STOP_SECONDS)
        if process.is_alive():
            os.killpg(process.pid, signal.SIGKILL)
            process.join()


def remember_types_of_blocks() -> None:
    """Have langchain work out once in a process what types of blocks there are.

    It does so for every block of every message that a model is sent, which takes a third of the
    time of a test's turn.
    """
    find = langchain_content._get_data_content_block_types
    langchain_content._get_data_content_block_types = cache(find)


def serve_command(
    folder: Path, command: list[str], env: dict[str, str], look_seconds: float | None
) -> None:
    """What a server's process does: `python -m langgraph_cli` in this folder and environment, with
    its output in `server.log`. It changes the process that it is called in.

    `look_seconds` is how often the server looks for runs; None: as often as the platform does.
    """
    remember_types_of_blocks()
    gc.freeze()  # what it was forked with stays
    os.setpgid(0, 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    log = os.open("server.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    paths = env["PYTHONPATH"].split(os.pathsep)
    sys.path[:0] = [path for path in paths if path not in sys.path]

    import uvicorn  # noqa: PLC0415  # only in the server's environment, as the next
    from langgraph_cli.cli import cli  # noqa: PLC0415  # it reads the environment

    uvicorn.run = partial(uvicorn.run, timeout_keep_alive=SERVING["timeout_keep_alive"])
    if look_seconds is not None:
        uvicorn.run = partial(_serve_looking_for_runs, look_seconds, uvicorn.run)
    get_env_var.cache_clear()  # type: ignore[attr-defined]  # of lru_cache, which an overload hides
    try:
        cli(command)
    finally:  # multiprocessing leaves it out
        atexit._run_exitfuncs()


def _serve_looking_for_runs(
    look_seconds: float, serve: Callable[..., None], *args: Any, **options: Any
) -> None:
    """Serve, with a queue that looks for new runs so often."""
    from langgraph_runtime_inmem.ops import Runs  # type: ignore[import-untyped]  # noqa: PLC0415  # as `serve_command`

    look = Runs.next

    async def soon(*, wait: bool, limit: int = 1) -> AsyncIterator[Any]:
        await asyncio.sleep(look_seconds if wait else 0)
        async for found in look(wait=False, limit=limit):
            yield found

    Runs.next = soon
    serve(*args, **options)


def _project_config(project: Path, overrides: Mapping[str, Any]) -> Any:
    """The project's langgraph.json with these overrides, and absolute paths."""
    config = project_config(project)
    config.pop("env", None)
    config["dependencies"] = [str(project)]
    merged = _merged(config, overrides)
    return _absolute(merged, project)


def _merged(base: Any, override: Any) -> Any:
    """Two values of JSON as one: objects are merged field by field, any other value is replaced."""
    if not isinstance(base, Mapping) or not isinstance(override, Mapping):
        return override
    merged = dict(base)
    for key, value in override.items():
        base_value = base.get(key)
        merged[key] = _merged(base_value, value)
    return merged


def _absolute(value: Any, project: Path) -> Any:
    """The value with every "file:name" in it that names a file of the project made absolute."""
    if isinstance(value, dict):
        return {key: _absolute(item, project) for key, item in value.items()}
    if not isinstance(value, str) or ":" not in value:
        return value
    file, name = value.rsplit(":", 1)
    path = project / file
    if not path.is_file():
        return value
    return f"{path.resolve()}:{name}"


def environment(extra: Mapping[str, str], project: Path = PROJECT) -> dict[str, str]:
    """A server's environment: this process's without what a developer has set for a deployment, and
    `extra`.
    """
    environ = dict[str, str]()
    for name, value in os.environ.items():
        if not name.startswith(_DROPPED_PREFIXES):
            environ[name] = value
    import_path = str(project)
    own_import_path = environ.get("PYTHONPATH")
    if own_import_path:
        import_path = f"{import_path}{os.pathsep}{own_import_path}"
    return {**environ, **_SERVER_ENV, "PYTHONPATH": import_path, **extra}
