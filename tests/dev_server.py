"""Runs the real `langgraph dev` as a subprocess, for tests that go through the platform."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import quote

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

PROJECT = Path(__file__).resolve().parent.parent
START_SECONDS = 60.0
STOP_SECONDS = 15.0

# A developer's own settings, keys and tracing must not reach the server under test.
# fmt: off
_DROPPED_PREFIXES = (
    "AUTH_", "AGENT_", "CONSOLIDAT", "MEMORY_", "SHARED_WRITES", "OPERATORS", "DEFAULT_ORG", "DEV_TOKENS",
    "ANTHROPIC_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_", "POSTGRES_", "OTEL_", "DD_",
)
# fmt: on
_SERVER_ENV = {
    # A test asks for consolidation when it wants it; the scripted model would count what starts by itself.
    "CONSOLIDATE_AFTER_SECONDS": "0",
    "LANGSMITH_TRACING": "false",
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "LOG_COLOR": "false",
}


class DevServer:
    """Context manager around `langgraph dev` of the project, working in `folder`.

    The server keeps its state in folder/.langgraph_api, so a restart in the same folder keeps everything and two
    servers need two folders. `env` is added to a cleaned environment; `config` is deep-merged over the project's
    langgraph.json. `options` are further ones of the command. The port stays the same across restarts, so clients do too.
    """

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.folder = folder.resolve()
        self._env = dict(env or {})
        self._config = dict(config or {})
        self._options = tuple(options)
        # Bound but never listening: keeps the port from others, while SO_REUSEADDR lets the server bind it as well.
        self._reservation = socket.socket()
        self._reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reservation.bind(("127.0.0.1", 0))
        self.port: int = self._reservation.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._clients: list[LangGraphClient] = []

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
    def log(self) -> str:
        """Everything the server has printed, over all its starts."""
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises RuntimeError with the end of the log when it exits first or is not up within START_SECONDS.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "langgraph.json"
        config.write_text(json.dumps(_project_config(self._config), indent=2))
        options = [*f"--port {self.port} --no-browser --no-reload --n-jobs-per-worker 10".split(), *self._options]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "langgraph_cli", "dev", "--config", str(config), *options],
                cwd=self.folder,
                env=_environment(self._env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline:
                self.kill()
                tail = "\n".join(self.log.splitlines()[-40:])
                state = f"not up after {START_SECONDS} s" if code is None else f"exited with {code}"
                raise RuntimeError(f"langgraph dev {state}:\n{tail}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop with SIGINT, which flushes the state to disk; SIGKILL after STOP_SECONDS."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL: what the server has not flushed yet (it flushes every 10 s) is lost."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop, then start again with the same folder, port and settings."""
        self.stop()
        self.start()

    def client(self, token: str | None) -> LangGraphClient:
        """An SDK client that sends `token` as its bearer token, or no authorization at all."""
        return self._client({"Authorization": f"Bearer {token}"} if token else {})

    def as_user(self, identity: str, org: str = "acme") -> LangGraphClient:
        """An SDK client with the dev token of `identity` in `org`."""
        return self.client(dev_token(org, identity))

    def as_operator(self) -> LangGraphClient:
        """An SDK client that comes in the way Studio does."""
        return self._client({"x-auth-scheme": "langsmith"})

    def _client(self, headers: Mapping[str, str]) -> LangGraphClient:
        client = get_client(url=self.url, api_key=None, headers=headers)
        self._clients.append(client)
        return client

    async def close_clients(self) -> None:
        """Close every client given out so far; to be called in the event loop that used them."""
        clients, self._clients = self._clients, []
        for client in clients:
            await client.aclose()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ok", timeout=2, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def _end(self, signum: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            if process.poll() is None:
                os.killpg(process.pid, signum)
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def dev_token(org: str, identity: str) -> str:
    """The bearer token the project's development login takes for `identity` in `org`."""
    return f"dev:{org}:{quote(identity, safe='')}"


async def run_turn(
    client: LangGraphClient, thread_id: str, text: str, assistant: str = "agent", **kwargs: Any
) -> dict[str, Any]:
    """Send one user message, wait for the run and give the thread's final values.

    `kwargs` go to `client.runs.wait`. Raises the SDK's error when the run fails.
    """
    message: dict[str, Any] = {"messages": [{"role": "user", "content": text}]}
    return cast(dict[str, Any], await client.runs.wait(thread_id, assistant, input=message, **kwargs))


def _project_config(overrides: Mapping[str, Any]) -> Any:
    config = json.loads((PROJECT / "langgraph.json").read_text())
    config.pop("env", None)
    config["dependencies"] = [str(PROJECT)]
    return _absolute(_merged(config, overrides))


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    nested = {
        key: _merged(base[key], value)
        for key, value in over.items()
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
    }
    return {**base, **over, **nested}


def _absolute(value: Any) -> Any:
    """The value with every "file:name" in it that names a file of the project made absolute."""
    if isinstance(value, dict):
        return {key: _absolute(item) for key, item in value.items()}
    if isinstance(value, str) and ":" in value:
        file, name = value.rsplit(":", 1)
        return f"{(PROJECT / file).resolve()}:{name}" if (PROJECT / file).is_file() else value
    return value


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED_PREFIXES)}
    path = os.pathsep.join(filter(None, (str(PROJECT), kept.get("PYTHONPATH"))))
    return {**kept, **_SERVER_ENV, "PYTHONPATH": path, **extra}
