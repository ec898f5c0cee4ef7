"""Many at once: a sweep, people who go idle together, a person who floods. Somebody else's turn
takes what it takes alone.
"""

import asyncio
import statistics
import time

import pytest

from benchmarks.load import GOAL, MODEL_SECONDS, beside
from lasting_memory.testing import dev_server
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Slow, Text, last_user_text

pytestmark = [pytest.mark.server, pytest.mark.proof]

TASK = "Conversations with something new"
TURNS = 8


@pytest.fixture(autouse=True)
def platform_s_own_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev_server, "queue_seconds", None)


async def say(server: DevServer, name: str) -> float:
    """Seconds of a turn in a new conversation."""
    person, begun = server.person(name), time.perf_counter()
    await person.turn(await person.thread(), f"words of {name}")
    return time.perf_counter() - begun


async def test_a_turn_during_a_sweep_takes_what_it_takes_alone(
    own_server: DevServer, model: ScriptedAnthropic
) -> None:
    for first in range(0, 60, 6):
        await asyncio.gather(*(say(own_server, f"person-{first + number}") for number in range(6)))
    model.script(lambda body: TASK in last_user_text(body), *[Slow(6, [Text("done")])] * 1_000)
    alone = [await say(own_server, "bystander") for _ in range(TURNS)]
    await own_server.as_operator().runs.create(None, "consolidation_agent", input={"messages": []})
    during = [await say(own_server, "bystander") for _ in range(2 * TURNS)]
    assert statistics.median(during) / statistics.median(alone) <= GOAL, (alone, during)
    assert max(during) < 5, "nobody waits until consolidations have ended"
    assert model.requests_for(TASK), "none was going meanwhile"


@pytest.mark.parametrize("shape", ["same thread", "stateless", "60 callers", "stored states"])
async def test_a_turn_takes_what_it_takes_alone_while_somebody_else_floods(
    own_server: DevServer, model: ScriptedAnthropic, shape: str
) -> None:
    model.script("Hello.", *[Slow(MODEL_SECONDS, [Text("ok")])] * 100_000)
    found = await beside(own_server, shape, TURNS)
    assert found["ratio"] <= GOAL
    assert found["worst_s"] < 10, "nobody waits until the flood's own runs have ended"
