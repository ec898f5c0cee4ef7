"""Many at once: a sweep, people who go idle together, a person who floods. Somebody else's turn takes what it takes alone."""

import asyncio
import statistics
import threading
import time

import pytest

from benchmarks.load import GOAL, MODEL_SECONDS, beside
from lasting_memory.limits import DEFAULT_CONSOLIDATION
from lasting_memory.testing import dev_server
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import Body, Reply, ScriptedAnthropic, Slow, Text, last_user_text

pytestmark = [pytest.mark.server, pytest.mark.proof]

TASK = "Conversations with something new"
TURNS = 8


@pytest.fixture(autouse=True)
def platform_s_own_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev_server, "queue_seconds", None)


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


async def say(server: DevServer, name: str) -> float:
    """Seconds of a turn in a new conversation."""
    person, begun = server.person(name), time.perf_counter()
    await person.turn(await person.thread(), f"words of {name}")
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
    print(f"alone {alone}, during {during}, ratio {slowdown:.2f}")  # noqa: T201
    return slowdown


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


# --- A person who floods ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["same thread", "stateless", "60 callers", "stored states"])
async def test_a_turn_takes_what_it_takes_alone_while_somebody_else_floods(
    own_server: DevServer, model: ScriptedAnthropic, shape: str
) -> None:
    model.script("Hello.", *[Slow(MODEL_SECONDS, [Text("ok")])] * 100_000)
    found = await beside(own_server, shape, TURNS)
    assert found["ratio"] <= GOAL
    assert found["worst_s"] < 10, "nobody waits until the flood's own runs have ended"
