"""What compose.aegra.yaml starts in its container, started here: as a deployment, not for development."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from lasting_memory.testing.dev_server import dev_token
from lasting_memory.testing.people import Person
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from tests.auth.signing import AUDIENCE, ISSUER, SECRET, signed
from tests.conftest import free_port

pytestmark = [pytest.mark.proof, pytest.mark.server, pytest.mark.postgres]

_ROOT = Path(__file__).parents[3]
START_SECONDS = 300
_PORT = "8000"


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ok?check_db=1", timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def url(
    python: Path, redis: str, database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of the container's command, on this machine's Postgres and Redis."""
    agent: dict[str, Any] = yaml.safe_load((_ROOT / "compose.aegra.yaml").read_text("utf-8"))[
        "services"
    ]["agent"]
    shell, flag, line = agent["command"]
    port = free_port()
    log = tmp_path_factory.mktemp("compose") / "log"
    with ScriptedAnthropic() as model, log.open("ab") as output:
        environ = {
            "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(log.parent),
            **model.env,
            **agent["environment"],
            "AGENT_MODEL": "anthropic:claude-sonnet-4-6",
            "AUTH_AUDIENCE": AUDIENCE,
            "AUTH_ISSUER": ISSUER,
            "AUTH_JWT_SECRET": SECRET,
            "DATABASE_URL": database,
            "PYTHONPATH": str(_ROOT / "engine" / "src"),
            "REDIS_URL": redis,
        }
        here = line.replace("0.0.0.0", "127.0.0.1").replace(f"--port {_PORT}", f"--port {port}")  # noqa: S104  # replaced
        process = subprocess.Popen(
            [shell, flag, here], cwd=_ROOT, env=environ, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
        address = f"http://127.0.0.1:{port}"
        try:
            deadline = time.monotonic() + START_SECONDS
            while not answers(address):
                over = process.poll() is not None or time.monotonic() > deadline
                assert not over, log.read_text()[-4_000:]
                time.sleep(0.2)
            yield address
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


def test_requests_without_a_token_of_the_identity_provider_are_refused(url: str) -> None:
    for headers in ({}, {"Authorization": f"Bearer {dev_token('acme', 'alice')}"}):
        for path in ("/threads", "/memory/controls"):
            answer = httpx.post(f"{url}{path}", json={}, headers=headers, trust_env=False)
            assert answer.status_code in (401, 405), (path, answer.text)
            assert "thread_id" not in answer.text


async def test_a_person_signed_in_by_the_provider_talks_and_is_remembered(url: str) -> None:
    token = signed(sub="ada@example.com", org_id="acme")
    signed_in = {"Authorization": f"Bearer {token}"}
    async with Person(url, "ada@example.com", headers=signed_in, seconds=300) as person:
        assert re.search("hello", str(await person.say("hello")))
        await person.write("/memories/notes.md", "- likes leek\n")
        assert await person.read("/memories/notes.md") == "- likes leek\n"
