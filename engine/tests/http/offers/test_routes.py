"""The routes of offers where there are none; odd and damaged ones; offers in the page and in an
export.
"""

import json
from typing import Any

import pytest

from lasting_memory.deployment import Deployment
from lasting_memory.http.export import document
from lasting_memory.people import namespaces
from lasting_memory.people.scopes import ROUTES, group
from lasting_memory.settings import SettingsError
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.platform import Platform
from tests.http.offers.conftest import (
    ALICE,
    MEMBERS,
    World,
    body,
    offer,
    offers,
    remember,
    with_team,
)


@pytest.mark.parametrize("odd", ["x", "%00", "%F0%9F%92%A5", "..%2Fx", "a" * 300])
async def test_an_odd_id_is_no_offer(world: World, odd: str) -> None:
    for api in (await world.api(), await world.operator()):
        decided = await api.post(f"/memory/offers/{odd}", json={"accept": True})
        withdrawn = await api.delete(f"/memory/offers/{odd}")
        assert [decided.status_code, withdrawn.status_code] == [404, 404], odd


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"offers": False}, 404),
        ({"routes": ROUTES}, 404),
        ({"routes": {**ROUTES, "/team/": group("team_id", over_http=False)}}, 404),
        ({"settings": deployed(memory_scope="assistant").settings}, 409),
    ],
)
async def test_routes_of_offers_say_why_there_are_none(
    world: World, more: dict[str, Any], status: int
) -> None:
    world.deployment = with_team(**more)
    assert not world.deployment.has_offers
    alice = await world.api()
    at = "/memory/offers"
    answers = [
        await alice.get(at),
        await alice.post(at, json=body()),
        await alice.post(f"{at}/x", json={"accept": True}),
        await alice.delete(f"{at}/x"),
    ]
    assert [answer.status_code for answer in answers] == [status] * 4
    assert answers[0].json()["detail"]


def test_the_argument_is_a_truth_value() -> None:
    with pytest.raises(SettingsError, match=r"^offers is 'no'; use True or False\.$"):
        with_team(offers="no")


@pytest.mark.parametrize("deployment", [MEMBERS, with_team(offers=False)])
async def test_the_page_has_the_part_where_there_are_offers(
    world: World, deployment: Deployment
) -> None:
    world.deployment = deployment
    page = (await (await world.api()).get("/app")).text
    assert ("offers/part.js" in page) == deployment.has_offers


async def test_an_export_names_the_offers(world: World) -> None:
    alice = await world.api()
    await remember(alice)
    made = await offer(alice, keep=False)
    client: Any = Platform()
    parts = [part async for part in document(world.store, client, ALICE, world.deployment)]
    (named,) = json.loads(b"".join(parts))["offers"]
    assert named == made


async def test_a_damaged_offer_is_left_out(world: World) -> None:
    alice, bob = await world.api(), await world.api("bob")
    await remember(alice)
    made = await offer(alice)
    world.store.put(("offered", "acme:team_id:red"), "odd", {"id": 5})
    world.store.put(("offered", "odd"), "odd", {"id": "odd"})
    world.store.put(namespaces.offers(ALICE), "odd", {"id": 5})
    assert [each["id"] for each in (await offers(bob))["to_decide"]] == [made["id"]]
    assert [each["id"] for each in (await offers(alice))["offers"]] == [made["id"]]
    root = await world.operator()
    assert [each["id"] for each in (await offers(root))["to_decide"]] == [made["id"]]
