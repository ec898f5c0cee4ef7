"""Many at once: a sweep, people who go idle together, a person who floods. Somebody else's turn takes what it takes alone."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Self

import httpx
import pytest

from lasting_memory.limits import DEFAULT_CONSOLIDATION
from lasting_memory.testing.dev_server import DevServer, dev_token, run_turn
from lasting_memory.testing.scripted_anthropic import Body, Reply, ScriptedAnthropic, Slow, Text, last_user_text

pytestmark = [pytest.mark.server, pytest.mark.proof]

TASK = "Conversations with something new"
GOAL = 1.5
TURNS = 8


class SlowConsolidation:
    """A model that takes `seconds` over each consolidation, and counts how many it works on at once."""

    def __init__(self, model: ScriptedAnthropic, seconds: float) -> None:
        self._lock, self._seconds = threading.Lock(), seconds
        self.now = self.most = self.done = 0
        model.script(lambda body: TASK in last_user_text(body), *[self._answer] * 100_000)

    def _answer(self, _: Body) -> Reply:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self._seconds)
        with self._lock:
            self.now -= 1
            self.done += 1
        return [Text("done")]


async def say(server: DevServer, person: str) -> float:
    """Seconds of a turn in a new conversation."""
    client = server.as_user(person)
    begun = time.perf_counter()
    await run_turn(client, str((await client.threads.create())["thread_id"]), f"words of {person}")
    return time.perf_counter() - begun


async def all_talk(server: DevServer, people: int) -> None:
    gate = asyncio.Semaphore(6)

    async def one(number: int) -> None:
        async with gate:
            await say(server, f"person-{number}")

    await asyncio.gather(*(one(number) for number in range(people)))
    await server.close_clients()


async def turns(server: DevServer, number: int = TURNS) -> list[float]:
    """Somebody's turns, one after the other."""
    return [await say(server, "bystander") for _ in range(number)]


def ratio(alone: list[float], during: list[float]) -> float:
    """How many times longer a turn takes. Pytest shows what is printed of a test that fails, and with -s of all."""
    slowdown = statistics.median(during) / statistics.median(alone)
    print(f"alone {_rounded(alone)}, during {_rounded(during)}, ratio {slowdown:.2f}")  # noqa: T201
    return slowdown


def _rounded(seconds: list[float]) -> list[float]:
    return [round(each, 2) for each in seconds]


async def test_a_turn_during_a_sweep_takes_what_it_takes_alone(own_server: DevServer, model: ScriptedAnthropic) -> None:
    people, number = 60, 2 * TURNS
    await all_talk(own_server, people)
    slow = SlowConsolidation(model, 6)
    alone = await turns(own_server)
    await own_server.as_operator().runs.create(None, "consolidation_agent", input={"messages": []})
    during = await turns(own_server, number)
    assert ratio(alone, during) <= GOAL
    assert max(during) < 5, "nobody waits until consolidations have ended"
    assert 0 < slow.most <= DEFAULT_CONSOLIDATION.at_once


@pytest.mark.parametrize("own_server", [20], indirect=True)
async def test_a_turn_takes_what_it_takes_alone_while_many_are_consolidated(
    own_server: DevServer, model: ScriptedAnthropic
) -> None:
    """A turn takes what it takes alone while many who went idle together are consolidated."""
    slow = SlowConsolidation(model, 6)
    alone = await turns(own_server)
    await all_talk(own_server, 24)
    async with asyncio.timeout(60):
        while not slow.now:  # noqa: ASYNC110  # the scripted server's
            await asyncio.sleep(0.1)
    assert ratio(alone, await turns(own_server, 2 * TURNS)) <= GOAL
    assert slow.most <= DEFAULT_CONSOLIDATION.at_once


async def test_a_sweep_ends_however_slow_the_model_is_and_leaves_nobody_out(
    own_server: DevServer, model: ScriptedAnthropic
) -> None:
    people, seconds = 12, 4
    await all_talk(own_server, people)
    slow = SlowConsolidation(model, seconds)
    await own_server.as_operator().runs.wait(None, "consolidation_agent", input={"messages": []})
    async with asyncio.timeout(30 + 3 * people * seconds / DEFAULT_CONSOLIDATION.at_once):
        while slow.done < people:  # noqa: ASYNC110  # the scripted server's
            await asyncio.sleep(0.5)
    assert all(model.requests_for(f"words of person-{number}") for number in range(people))
    assert slow.most <= DEFAULT_CONSOLIDATION.at_once


# --- A person who floods ---------------------------------------------------------------------------------------------

CALLERS = 60


class Flood:
    """60 callers of one person. Each sends its requests again and again as soon as they are answered."""

    def __init__(self, server: DevServer, person: str, shape: str) -> None:
        self._http = httpx.AsyncClient(
            base_url=server.url,
            headers={"authorization": f"Bearer {dev_token('acme', person)}"},
            timeout=120,
            limits=httpx.Limits(max_connections=CALLERS),
            trust_env=False,
        )
        self._once: Callable[[], Awaitable[None]] = getattr(self, f"_{shape}")
        self._body = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": f"flood of {person}"}]}}
        self._thread = ""
        self.answers: dict[int, int] = {}

    async def __aenter__(self) -> Self:
        self._thread = str((await self._post("/threads", {}))["thread_id"])
        self._callers = [asyncio.create_task(self._calls()) for _ in range(CALLERS)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for caller in self._callers:
            caller.cancel()
        await asyncio.gather(*self._callers, return_exceptions=True)
        await self._http.aclose()

    async def _calls(self) -> None:
        while True:
            await self._once()

    async def _post(self, path: str, body: Any) -> Any:
        answer = await self._http.post(path, json=body)
        self.answers[answer.status_code] = self.answers.get(answer.status_code, 0) + 1
        return answer.json() if answer.is_success else None

    async def _new_threads(self) -> None:
        if thread := await self._post("/threads", {}):
            await self._post(f"/threads/{thread['thread_id']}/runs/wait", self._body)

    async def _stateless(self) -> None:
        await self._post("/runs/wait", self._body)

    async def _one_thread(self) -> None:
        await self._post(f"/threads/{self._thread}/runs", self._body)

    async def _threads(self) -> None:
        await self._post("/threads", {})


@pytest.mark.parametrize(("shape", "seconds"), [("new_threads", 20), ("stateless", 0), ("one_thread", 20), ("threads", 0)])
async def test_a_turn_takes_what_it_takes_alone_while_somebody_else_floods(
    own_server: DevServer, model: ScriptedAnthropic, shape: str, seconds: float
) -> None:
    person = f"flooder-{shape}"
    model.script(f"flood of {person}", *[Slow(seconds, [Text("ok")])] * 10_000)
    await turns(own_server, 3)
    alone = await turns(own_server)
    async with Flood(own_server, person, shape):
        await asyncio.sleep(2)
        during = await turns(own_server)
    assert ratio(alone, during) <= GOAL
    assert max(during) < 10, "nobody waits until the flood's own runs have ended"
