"""Processes of aegra that serve a project, on one Postgres and one Redis."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import httpx

from lasting_memory.testing import dev_server
from lasting_memory.testing.deployed import PROJECT
from lasting_memory.testing.people import Person, dev_token

START_SECONDS = 120
STOP_SECONDS = 20
OPERATOR = "root"
# A killed worker's runs go on elsewhere within seconds.
_SOON = {
    "LEASE_DURATION_SECONDS": "6",
    "HEARTBEAT_INTERVAL_SECONDS": "2",
    "REAPER_INTERVAL_SECONDS": "2",
    "STUCK_PENDING_THRESHOLD_SECONDS": "10",
}


class AegraServer:
    """Context manager around one process, which can be killed and started again.

    `env` is added to a cleaned environment. The log is in `folder`.
    """

    def __init__(
        self,
        python: Path,
        folder: Path,
        port: int,
        *,
        database: str,
        redis: str | None,
        env: Mapping[str, str],
        project: Path = PROJECT,
    ) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.folder = folder
        self.log = folder / f"server-{port}.log"
        self._people: list[Person] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._python = python
        self._command = [str(python), "-m", "uvicorn", "lasting_memory.dev.aegra_app:app"]
        self._command += ["--host", "127.0.0.1", "--port", str(port), "--no-access-log"]
        self._command += ["--timeout-graceful-shutdown", "1", "--timeout-keep-alive", "75"]
        self._env = {
            **dev_server.environment(env, project),
            **_SOON,
            "AEGRA_CONFIG": str(project / "langgraph.json"),
            "DATABASE_URL": database,
            "ENV_MODE": "PRODUCTION",
            "LANGGRAPH_API_URL": self.url,
            "LANGSMITH_LANGGRAPH_API_VARIANT": "local_dev",
            "LOG_LEVEL": "WARNING",
            "OPERATORS": OPERATOR,
            "REDIS_BROKER_ENABLED": "true" if redis else "false",
            **({"REDIS_URL": redis} if redis else {}),
            **env,
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGINT)

    def make_tables(self) -> None:
        """Make the tables: processes that begin at once would be in each other's way."""
        making = [str(self._python), "-m", "lasting_memory.platform.aegra.tables"]
        with self.log.open("ab") as log:
            subprocess.run(making, env=self._env, check=True, stdout=log, stderr=log)

    def begin(self) -> None:
        """Start the process, without waiting for it."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=self._env, stdout=log, stderr=log, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip

    def start(self) -> None:
        """Start the process, and wait until it answers."""
        self.begin()
        self.wait()

    def wait(self) -> None:
        """Wait until the process answers. Raises RuntimeError with the end of its log."""
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline:
                self.end(signal.SIGKILL)
                raise RuntimeError(f"aegra: {code}\n{self.log.read_text()[-4000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """kill -9."""
        self.end(signal.SIGKILL)

    def end(self, signum: signal.Signals) -> None:
        process = self._process
        self._process = None
        if process is None:
            return
        if process.poll() is None:
            os.killpg(process.pid, signum)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def person(self, identity: str, org: str = "acme") -> Person:
        """Somebody with a development token."""
        person = Person(self.url, identity, org)
        self._people.append(person)
        return person

    def operator_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {dev_token('default', OPERATOR)}"}

    async def close_clients(self) -> None:
        people = self._people
        self._people = []
        for person in people:
            await person.raw.aclose()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ok", timeout=2, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False
