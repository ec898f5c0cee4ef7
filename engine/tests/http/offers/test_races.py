"""Of several decisions about an offer one counts, and at most five offers of a person wait for a
group.
"""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lasting_memory.memory import journal, offer_claims, own_offers
from lasting_memory.memory import offer_decisions as decisions_module
from lasting_memory.memory.offers import put_group_offer
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import namespaces
from lasting_memory.people.scopes import ROUTES, group
from lasting_memory.testing.deployed import deployed
from tests.http.offers.conftest import (
    FACT,
    RED,
    TEAM,
    World,
    body,
    decide,
    offer,
    offers,
    own_file,
    remember,
)


async def test_a_sixth_offer_that_another_process_lets_in_is_taken_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes know nothing of each other's locks."""
    alice = await world.api()
    names = [f"number {number}" for number in range(own_offers.MAX_OPEN + 1)]
    await remember(alice, *[f"- {name}" for name in names])
    for name in names[1:]:
        await offer(alice, name)
    monkeypatch.setattr(own_offers, "MAX_OPEN", own_offers.MAX_OPEN + 1)
    put_all = own_offers.OffersOfPerson._put

    async def put(own: Any, ops: Any) -> None:
        """This process has looked before the other's offer was put, and looks again."""
        await put_all(own, ops)
        monkeypatch.setattr(own_offers, "MAX_OPEN", 5)

    monkeypatch.setattr(own_offers.OffersOfPerson, "_put", put)
    answer = await alice.post("/memory/offers", json=body(names[0]))
    assert (answer.status_code, "5 offers of yours wait" in answer.text) == (422, True)
    assert len((await offers(alice))["offers"]) == 5
    assert len(world.store.search(("offered",))) == 5


async def test_an_offer_with_several_decisions_at_once_takes_one(world: World) -> None:
    alice = await world.api()
    deciders = [await world.api(name) for name in ("bob", "carol", "dave")]
    await remember(alice)
    made = await offer(alice)
    answers = await asyncio.gather(*(decide(each, made) for each in deciders))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
    assert world.team_file() == f"- {FACT}\n"
    assert (await decide(deciders[0], made, accept=False)).status_code == 409
    assert (await alice.delete(f"/memory/offers/{made['id']}")).status_code == 409


async def test_an_offer_is_withdrawn_or_decided(world: World) -> None:
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice)
    made = await offer(alice)
    withdrawn, decided = await asyncio.gather(
        alice.delete(f"/memory/offers/{made['id']}"), decide(bob, made)
    )
    assert (withdrawn.status_code, decided.status_code) in [(200, 404), (409, 200)]
    assert (world.team_file() == "") == (withdrawn.status_code == 200)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request is in a process of its own: no lock of one holds another."""
    for module in (offer_claims, own_offers):
        monkeypatch.setattr(module, "lock_of", lambda *_: asyncio.Lock())


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("keep", [True, False])
async def test_an_offer_accepted_declined_and_withdrawn_at_once_takes_one_of_them(
    world: World, keep: bool
) -> None:
    alice, bob, carol = await world.api(), await world.api("bob"), await world.api("carol")
    for number in range(10):
        text = f"fact {number}"
        await remember(alice, f"- {text}")
        made = await offer(alice, text, keep=keep)
        acts = [
            decide(bob, made),
            decide(carol, made, accept=False),
            alice.delete(f"/memory/offers/{made['id']}"),
        ]
        acts = acts[number % 3 :] + acts[: number % 3]
        answers = await asyncio.gather(*acts)
        codes = [answer.status_code for answer in answers]
        accepted, declined, withdrawn = (codes[(each - number) % 3] for each in range(3))
        assert codes.count(200) <= 1, codes
        assert set(codes) <= {200, 404, 409}
        assert (text in world.team_file()) == (accepted == 200)
        shown = {each["id"]: each["status"] for each in (await offers(alice))["offers"]}
        status = {200: "accepted"}.get(accepted) or {200: "declined"}.get(declined)
        assert shown.get(made["id"]) == (status or (None if withdrawn == 200 else "open"))
        assert (text in await own_file(alice)) == (keep or accepted != 200)
        await alice.delete(f"/memory/offers/{made['id']}")


@pytest.mark.usefixtures("processes")
async def test_an_offer_claimed_by_a_process_that_died_is_decided_a_minute_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice)
    made = await offer(alice)
    place = namespaces.group_offers(TEAM)
    for seconds, code in ((1, 409), (300, 200)):
        at = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()
        await world.store.aput(place, f"{made['id']} died", {"claims": made["id"], "at": at})
        assert (await decide(bob, made)).status_code == code
    items = await journal.all_items(world.store, place)
    assert [item.key for item in items] == [made["id"]]


async def test_a_killed_decision_can_be_made_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice)
    made = await offer(alice)
    note = put_group_offer

    def killed(*_: object) -> Any:
        raise RefusedWrite("killed")

    monkeypatch.setattr(decisions_module, "put_group_offer", killed)
    await decide(bob, made)
    monkeypatch.setattr(decisions_module, "put_group_offer", note)
    assert (await decide(bob, made)).status_code == 200
    assert world.team_file() == f"- {FACT}\n"


async def test_five_offers_of_a_person_wait_for_a_group(world: World) -> None:
    both = {**ROUTES, "/team/": group("team_id", writes="members"), "/crew/": group("crew")}
    world.deployment = replace(deployed(), routes=both)
    in_both: dict[str, Any] = {"claims": {**RED, "crew": "x"}}
    alice, bob = await world.api(**in_both), await world.api("bob")
    texts = [f"fact {number}" for number in range(7)]
    await remember(alice, *(f"- {text}" for text in texts))
    made = [await offer(alice, text) for text in texts[:5]]
    assert (await offer(alice, texts[0]))["id"] == made[0]["id"], "the same one waits already"
    refused = await alice.post("/memory/offers", json=body(texts[5]))
    assert (refused.status_code, refused.headers["x-refusal-kind"]) == (422, "too_many_offers")
    assert [of["left"] for of in (await offers(alice))["groups"]] == [0, 5]
    await offer(alice, texts[5], folder="/crew/", group="x")
    await remember(bob, f"- {texts[6]}")
    await offer(bob, texts[6])
    assert (await decide(bob, made[0])).status_code == 200
    await alice.delete(f"/memory/offers/{made[1]['id']}")
    both_at_once = [alice.post("/memory/offers", json=body(text)) for text in texts[5:]]
    assert [answer.status_code for answer in await asyncio.gather(*both_at_once)] == [200, 200]
    assert [of["left"] for of in (await offers(alice))["groups"]] == [0, 4]
