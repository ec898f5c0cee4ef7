"""What becomes of offers whose author leaves the group, is forgotten, or deletes the fact."""

import asyncio
import json
import time
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.store.base import BaseStore

from lasting_memory import checkpoints, platform
from lasting_memory.deployment import Deployment
from lasting_memory.http import delete_for_good
from lasting_memory.http import forget as forget_route
from lasting_memory.http.forget import forget
from lasting_memory.memory import journal, own_offers
from lasting_memory.memory.offers import PROVED_DAYS
from lasting_memory.people import namespaces
from lasting_memory.testing.platform import Platform
from tests.http.conftest import kept
from tests.http.offers.conftest import (
    ALICE,
    PATH,
    TEAM,
    World,
    body,
    decide,
    offer,
    offers,
    remember,
)


@pytest.mark.parametrize("claims", [{}, {"team_id": "blue"}])
async def test_open_offers_of_a_former_member_are_gone_and_accepted_lines_stay(
    world: World, claims: dict[str, str]
) -> None:
    """By their next token, whatever they ask with it."""
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice, "- one", "- two")
    taken, left = await offer(alice, "one"), await offer(alice, "two")
    assert (await decide(bob, taken)).status_code == 200
    elsewhere = await world.api(claims=claims)
    await elsewhere.get("/memory/facts")
    assert (await offers(bob))["to_decide"] == []
    assert (await decide(bob, left)).status_code == 404
    assert world.team_file() == "- one\n", "what was accepted is the group's"
    assert [each["status"] for each in (await offers(elsewhere))["offers"]] == ["accepted"]
    back = await world.api()
    assert [each["status"] for each in (await offers(back))["offers"]] == ["accepted"]


async def test_a_token_that_is_over_says_nothing_of_who_left(world: World) -> None:
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice)
    await offer(alice)
    late = await world.api(expires_at=time.time() - 1)
    await late.get("/memory/facts")
    assert len((await offers(bob))["to_decide"]) == 1


async def test_an_offer_goes_when_its_author_was_not_seen_in_the_group_for_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice, "- one", "- two")
    seen, unseen = await offer(alice, "one"), await offer(alice, "two")
    place = namespaces.offers(ALICE)
    for made, days in ((seen, 2), (unseen, PROVED_DAYS + 1)):
        item = world.store.get(place, made["id"])
        assert item
        at = datetime.now(UTC) - timedelta(days=days)
        proved = {**item.value, "proved_at": at.isoformat(timespec="microseconds")}
        world.store.put(place, made["id"], proved)
    assert [each["text"] for each in (await offers(bob))["to_decide"]] == ["one"]
    assert (await decide(bob, unseen)).status_code == 404
    await alice.get("/memory/facts")  # proves it anew, for what is still offered
    item = world.store.get(place, seen["id"])
    assert item
    assert item.value["proved_at"] > (datetime.now(UTC) - timedelta(days=1)).isoformat()
    assert [each["text"] for each in (await offers(alice))["offers"]] == ["one"]


async def forgotten(store: BaseStore, deployment: Deployment) -> dict[str, int]:
    client: Any = Platform()
    return dict(await forget(store, client, ALICE, deployment))


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget_route, "FORGET_GRACE_SECONDS", 0.01)
    monkeypatch.setattr(forget_route, "STOP_SECONDS", 0.1)


@pytest.mark.usefixtures("short_grace")
async def test_offers_of_a_forgotten_person_are_gone_and_accepted_lines_stay(world: World) -> None:
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice, "- one", "- two", "- three")
    taken, declined, left = [await offer(alice, text) for text in ("one", "two", "three")]
    assert (await decide(bob, taken)).status_code == 200
    assert (await decide(bob, declined, accept=False)).status_code == 200
    counts = await forgotten(world.store, world.deployment)
    assert counts["offers"] == 3
    assert (await offers(bob))["to_decide"] == []
    assert (await decide(bob, left)).status_code == 404
    assert world.team_file() == "- one\n"
    rest = {place: of for place, of in kept(world.store).items() if place[0] != TEAM}
    assert "two" not in json.dumps([*rest.values()])
    assert "three" not in json.dumps([*rest.values()])


@pytest.mark.usefixtures("short_grace")
async def test_forgetting_says_what_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget_route, "get_client", Platform)
    monkeypatch.setattr(checkpoints, "delete_checkpoints", lambda *_: asyncio.sleep(0, 0))
    alice = await world.api()
    await remember(alice)
    await offer(alice)
    answer = (await alice.delete("/memory")).json()
    assert answer["deleted"]["offers"] == 1
    assert any("/team/" in line and "accepted" in line for line in answer["kept"])


async def test_an_offer_from_before_a_forgetting_that_goes_on_is_not_accepted(
    world: World,
) -> None:
    """The time of a forgetting is written first; the offer is still there."""
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice)
    made = await offer(alice)
    await journal.forget(world.store, ALICE)
    assert (await decide(bob, made)).status_code == 404
    assert world.team_file() == ""


async def test_a_request_from_before_a_forgetting_offers_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = await world.api()
    await remember(alice)
    check = own_offers.OffersOfPerson._check

    async def forget_first(self: Any, *args: Any) -> None:
        await check(self, *args)
        await journal.forget(world.store, ALICE)

    monkeypatch.setattr(own_offers.OffersOfPerson, "_check", forget_first)
    answer = await alice.post("/memory/offers", json=body())
    assert (answer.status_code, "deleted meanwhile" in answer.text) == (422, True)
    assert not any("offer" in str(place) for place in kept(world.store))


async def test_a_fact_that_is_deleted_for_good_is_offered_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_for_good, "get_client", Platform)
    monkeypatch.setattr(delete_for_good, "GRACE_SECONDS", 0.01)
    monkeypatch.setattr(platform, "acting_as_caller", lambda _: nullcontext())
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice, "- one", "- two")
    gone = await offer(alice, "one")
    await offer(alice, "two")
    asked: dict[str, Any] = {"params": {"path": PATH}, "json": {"text": "one"}}
    told = (await alice.request("DELETE", "/memory/fact", **asked)).json()
    assert told["deleted"]["offers"] == 1
    assert [each["text"] for each in (await offers(bob))["to_decide"]] == ["two"]
    assert (await decide(bob, gone)).status_code == 404
