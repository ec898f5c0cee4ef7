"""Whose turn it is where places are few: whoever had one longest ago, also at the HTTP door."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from lasting_memory.auth.share import share_of
from lasting_memory.consolidation import REHEARSING
from lasting_memory.consolidation.turns import Places
from lasting_memory.http import bringing as bringing_routes
from lasting_memory.http import consolidation as routes
from lasting_memory.http.models.consolidation import NothingToDo
from lasting_memory.people.identity import Actor
from lasting_memory.testing.contract import http_client
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import SignedIn
from tests.consolidation.conftest import LONG, until


async def test_a_person_waits_once_and_who_never_had_a_place_comes_before_who_had() -> None:
    places = Places()
    order = list[str]()
    ended = {name: asyncio.Event() for name in ("ann", "bob", "cid")}

    async def hold(name: str) -> bool:
        async with places.taken(Actor(name, "acme"), 1, LONG) as is_turn:
            if is_turn:
                order.append(name)
                await ended[name].wait()
            return is_turn

    ended["bob"].set()
    assert await hold("bob")
    ann = asyncio.create_task(hold("ann"))
    await until(lambda: order == ["bob", "ann"])
    waits = [asyncio.create_task(hold(name)) for name in ("bob", "cid")]
    await until(lambda: len(places._turns._waits) == 2)
    assert not await hold("cid"), "one of each person waits"
    for event in ended.values():
        event.set()
    assert await asyncio.gather(ann, *waits) == [True] * 3
    assert order == ["bob", "ann", "cid", "bob"]


class Worked:
    """Stands for the runs that requests wait for: notes who began one, and lets one end when it is
    told to.
    """

    def __init__(self) -> None:
        self.began = list[str]()
        self.ends = asyncio.Semaphore(0)

    async def __call__(self, caller: Any, *_: Any, **__: Any) -> Any:
        self.began.append(caller.actor.user_id)
        await self.ends.acquire()
        return NothingToDo(dry_run=True, files={}, reason="it ran", notes=[])

    async def by(self, *people: str) -> None:
        """Wait until these have begun one, and nobody else."""
        await until(lambda: len(self.began) >= len(people))
        assert self.began == [*people]


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> Worked:
    share_of.cache_clear()
    worked = Worked()
    for module in (routes, bringing_routes):
        monkeypatch.setattr(module, "run_and_wait", worked)
    return worked


async def rehearse(client: httpx.AsyncClient) -> str:
    answer = await client.post("/memory/consolidate", params={"dry_run": "true"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["reason"])


@pytest.fixture
def people(store: Any) -> Callable[[str], httpx.AsyncClient]:
    return lambda name: http_client(
        deployed(), store, SignedIn(identity=name, org_id="acme", permissions=[])
    )


def waiting() -> list[str]:
    return [each.person.user_id for each in routes._rehearsals._turns._waits]


async def test_a_person_who_loops_takes_no_rehearsal_from_people_who_wait(
    worked: Worked, people: Callable[..., Any]
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(people(name)) for name in ("ann", "bob", "cid")
        }
        loops = 6

        async def loop() -> None:
            for _ in range(loops):
                assert await rehearse(clients["ann"]) == "it ran"

        ann = asyncio.create_task(loop())
        await worked.by("ann")
        others = []
        others.append(asyncio.create_task(rehearse(clients["bob"])))
        await until(lambda: waiting() == ["bob"])
        others.append(asyncio.create_task(rehearse(clients["cid"])))
        await until(lambda: waiting() == ["bob", "cid"])
        for next_one in (["bob"], ["bob", "cid"], ["bob", "cid", "ann"]):
            await until(
                lambda: "ann" in waiting() or worked.began[-1] == "ann"
            )  # she asks again before this one ends
            worked.ends.release()
            await worked.by("ann", *next_one)
        for _ in range(loops):
            worked.ends.release()
        assert await asyncio.gather(*others) == ["it ran", "it ran"]
        await ann
        assert worked.began.count("ann") == loops


async def test_a_rehearsal_that_waits_too_long_says_that_another_is_at_work(
    worked: Worked, people: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lasting_memory.consolidation.TURN_SECONDS", 0.01)
    async with people("ann") as ann, people("bob") as bob:
        first = asyncio.create_task(rehearse(ann))
        await worked.by("ann")
        assert await rehearse(bob) == REHEARSING
        worked.ends.release()
        assert await first == "it ran"
        worked.ends.release()
        assert await rehearse(bob) == "it ran"


async def test_texts_that_are_brought_along_have_turns_too(
    worked: Worked, people: Callable[..., Any]
) -> None:
    names = ["ann", "bob", "cid", "dan"]
    async with contextlib.AsyncExitStack() as stack:
        clients = {name: await stack.enter_async_context(people(name)) for name in names}
        bringing = {}
        for number, name in enumerate(names):
            bringing[name] = asyncio.create_task(
                clients[name].post("/memory/bring", json={"text": "- likes leek"})
            )
            await worked.by(*names[: min(number + 1, 3)])
        await until(lambda: len(bringing_routes._readings._turns._waits) == 1)
        worked.ends.release()
        await worked.by(*names)
        for _ in names:
            worked.ends.release()
        assert [(await each).status_code for each in bringing.values()] == [200] * 4


async def test_a_request_that_is_cancelled_keeps_no_place(
    worked: Worked, people: Callable[..., Any]
) -> None:
    async with people("ann") as ann, people("bob") as bob, people("cid") as cid:
        first = asyncio.create_task(rehearse(ann))
        await worked.by("ann")
        second = asyncio.create_task(rehearse(bob))
        await until(lambda: waiting() == ["bob"])
        second.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await second
        assert waiting() == []
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first
        worked.ends.release()
        assert await rehearse(cid) == "it ran"
