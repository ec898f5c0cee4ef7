"""Who sees an offer to a group, and who decides about it."""

import time
from typing import Any

import pytest

from lasting_memory.deployment import Deployment
from tests.http.conftest import kept
from tests.http.offers.conftest import FACT, World, body, decide, offer, offers, remember, with_team

DENY = with_team("deny")
INTERRUPT = with_team("interrupt")


@pytest.mark.parametrize("deployment", [DENY, INTERRUPT])
async def test_operators_decide_offers_where_members_do_not_write(
    world: World, deployment: Deployment
) -> None:
    world.deployment = deployment
    alice, bob, root = await world.api(), await world.api("bob"), await world.operator()
    await remember(alice)
    made = await offer(alice)
    (shown,) = (await offers(bob))["groups"]
    assert (shown["decided_by"], shown["left"]) == ("operators", 5)
    assert (await offers(bob))["to_decide"] == []
    for member in (alice, bob):
        assert (await decide(member, made)).status_code == 403
    (seen,) = (await offers(root))["to_decide"]
    assert (seen["org_id"], seen["text"]) == ("acme", FACT)
    assert (await decide(root, made)).status_code == 200
    assert world.team_file() == f"- {FACT}\n"


@pytest.mark.parametrize(
    ("who", "name", "claims"),
    [
        ("another team", "carol", {"claims": {"team_id": "blue"}}),
        ("no claim", "dave", {"claims": {}}),
        ("the team of that name elsewhere", "erin", {"org_id": "globex"}),
        ("the same identity elsewhere", "alice", {"org_id": "globex"}),
        ("an expired token", "bob", {"expires_at": time.time() - 1}),
        ("another claim of that value", "mallory", {"claims": {"crew": "red"}}),
    ],
)
async def test_an_offer_is_seen_and_decided_by_nobody_outside_of_its_group(
    world: World, who: str, name: str, claims: dict[str, Any]
) -> None:
    alice, other = await world.api(), await world.api(name, **claims)
    await remember(alice)
    made = await offer(alice)
    before = kept(world.store)
    shown = await offers(other)
    assert (shown["offers"], shown["to_decide"]) == ([], []), who
    for accept in (True, False):
        assert (await decide(other, made, accept=accept)).status_code == 404, who
    assert (await other.delete(f"/memory/offers/{made['id']}")).status_code == 404
    if "org_id" not in claims:
        await remember(other)
        before = kept(world.store)
        answer = await other.post("/memory/offers", json=body())
        assert answer.status_code == 404
        assert "share no folder" in answer.json()["detail"]
    assert kept(world.store) == before


async def test_a_person_offers_to_the_group_that_they_see(world: World) -> None:
    """The page was opened with an older token."""
    alice = await world.api(claims={"team_id": "blue"})
    await remember(alice)
    assert (await alice.post("/memory/offers", json=body())).status_code == 404
    assert (await offer(alice, group="blue"))["group"] == "blue"


async def test_an_operator_reads_another_s_offers_and_decides_none_in_their_name(
    world: World,
) -> None:
    alice, root = await world.api(), await world.operator()
    await remember(alice)
    made = await offer(alice)
    named = {"user_id": "alice", "org_id": "acme"}
    shown = (await root.get("/memory/offers", params=named)).json()
    assert ([each["id"] for each in shown["offers"]], shown["to_decide"]) == ([made["id"]], [])
    asked: dict[str, Any] = {"params": named, "json": body()}
    assert (await root.post("/memory/offers", **asked)).status_code == 403
    at = f"/memory/offers/{made['id']}"
    assert (await root.delete(at, params=named)).status_code == 403
    answer = await root.post(at, params=named, json={"accept": True})
    assert answer.status_code == 403
    bob = await world.api("bob")
    assert (await bob.get("/memory/offers", params=named)).status_code == 403
