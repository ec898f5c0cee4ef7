"""How people become store namespaces that nobody else shares, and what the store API shows of them."""

import asyncio
from uuid import uuid4

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from langgraph.store.memory import InMemoryStore

from lasting_memory.files.starting import starting_memory
from lasting_memory.people import namespaces, scopes
from lasting_memory.people.identity import Actor
from lasting_memory.people.namespaces import Namespace, policies, skills
from lasting_memory.settings import MemoryScope
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import AGENT, OPERATOR
from tests.memory.identities import ASSISTANT, OTHER_ASSISTANT, SCOPES, SHAPES, identities, quickly, scoped, within_limit


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("user", ("memories", "acme:alice@example~2Ecom")),
        ("user+assistant", ("memories", f"{ASSISTANT}:acme:alice@example~2Ecom")),
        ("assistant", ("memories", f"{ASSISTANT}:acme")),
    ],
)
def test_each_memory_scope_has_the_layout_of_the_design(scope: MemoryScope, expected: Namespace) -> None:
    assert scoped(scope).memory.namespace(Actor("alice@example.com", "acme"), ASSISTANT) == expected


@st.composite
def two_people(draw: st.DrawFn) -> tuple[Actor, Actor]:
    """Two different people, mostly of the kinds that sloppy namespaces mix up."""
    one, more, third = draw(identities), draw(identities), draw(identities)
    pairs = [
        (Actor(one, third), Actor(more, third)),  # of one organization
        (Actor(one, third), Actor(one, more)),  # one identity in two organizations
        (Actor(one, third), Actor(one + more, third)),  # one identity begins the other
        (Actor(one, third), Actor(one, third + more)),
        (Actor(third, f"{one}:{more}"), Actor(f"{more}:{third}", one)),  # split elsewhere
        (Actor(one, more), Actor(more, one)),  # swapped
        (Actor(one, third), Actor(one.swapcase(), third)),
    ]
    first, second = draw(st.sampled_from(pairs))
    assume(first != second)
    assume(all(map(within_limit, (first.user_id, first.org_id, second.user_id, second.org_id))))
    return first, second


@quickly
@given(two_people(), st.tuples(st.uuids().map(str), st.uuids().map(str)))  # as the platform makes their ids
@example((Actor("b", "a"), Actor("c", "a:b")), (ASSISTANT, OTHER_ASSISTANT))
@example((Actor("c", "a:b"), Actor("b:c", "a")), (ASSISTANT, OTHER_ASSISTANT))
@example((Actor("a", "acme"), Actor("ab", "acme")), (ASSISTANT, OTHER_ASSISTANT))
def test_no_two_people_organizations_assistants_or_layouts_share_a_namespace_or_find_anothers(
    people: tuple[Actor, Actor], assistants: tuple[str, str]
) -> None:
    owners: dict[tuple[str, ...], Namespace] = {}
    for person in people:
        owners["policies", person.org_id] = policies(person.org_id)
        owners["controls", person.org_id, person.user_id] = namespaces.controls(person)
        owners["user", person.org_id, person.user_id] = scoped("user").memory.namespace(person, assistants[0])
        for assistant in assistants:
            owners["skills", assistant] = skills(assistant)
            owners["assistant", assistant, person.org_id] = scoped("assistant").memory.namespace(person, assistant)
            both = scoped("user+assistant").memory.namespace(person, assistant)
            owners["user+assistant", assistant, person.org_id, person.user_id] = both
    store = InMemoryStore()
    for owner, namespace in owners.items():
        store.put(namespace, "/a.md", {"owner": owner})
    for owner, namespace in owners.items():
        assert [item.value["owner"] for item in store.search(namespace)] == [owner]
        # Stores keep a namespace as text joined with periods and look for `text.%`.
        joined = ".".join(namespace) + "."
        assert [other for other in owners.values() if (".".join(other) + ".").startswith(joined)] == [namespace]


@quickly
@given(two_people(), st.sampled_from(SCOPES))
def test_people_may_read_their_own_memory_and_policies_alone(people: tuple[Actor, Actor], scope: MemoryScope) -> None:
    """Whichever assistant it is with; nothing below, above or beside it, and nothing that they share with others."""
    deployment, (me, other) = scoped(scope), people
    mine, elsewhere, others = (
        deployment.memory.namespace(who, which) for who, which in ((me, ASSISTANT), (me, OTHER_ASSISTANT), (other, ASSISTANT))
    )
    for namespace in (mine, elsewhere):
        assert deployment.may_read(namespace, me, {}) is not deployment.memory.is_shared
    assert deployment.may_read(policies(other.org_id), me, {}) is (me.org_id == other.org_id)
    spelled = [
        ("memories", text) for text in (f"{mine[1]}:", f"{mine[1]}\n", f"x:{mine[1]}", mine[1].partition(":")[2], "", ":")
    ]
    around = [
        (*mine, "x"),
        ("memories", *mine[1].split(":")),
        ("", mine[1]),
        mine[:1],
        (),
        (*policies(me.org_id), "x"),
        ("policies",),
    ]
    ours = [skills(ASSISTANT), namespaces.controls(me), namespaces.usage(me)]
    assert [one for one in (others, *spelled, *around, *ours) if deployment.may_read(one, me, {})] == []


# fmt: off
ON_THE_SERVER = (
    "e-mail", "auth0", "non-ascii", "longest", "root label", "trailing newline", "LIKE any", "parent folder",
    "wildcard", "emoji", "right to left", "separator",
)
# fmt: on


async def check_first_run(server: DevServer, identity: str, org: str) -> None:
    """A first turn of this person, then the seeds in their namespace, over the store API."""
    person, namespace = server.person(identity, org), scopes.person().namespace(Actor(identity, org), AGENT)
    await person.turn(await person.thread(), "hello")
    for reader in (person, server.person("", headers=OPERATOR)):
        found = await reader.made("POST", "/store/items/search", {"namespace_prefix": namespace})
        (seed,) = (item["value"]["content"] for item in found["items"] if item["key"] == "/preferences.md")
        assert seed == starting_memory(deployed().folder)["/preferences.md"]
        assert {tuple(item["namespace"]) for item in found["items"]} == {namespace}


@pytest.mark.server
async def test_the_platform_gives_any_identity_a_memory_of_its_own(server: DevServer) -> None:
    org = f"acme {uuid4().hex}.example"
    runs = [check_first_run(server, SHAPES[shape], org) for shape in ON_THE_SERVER]
    outcomes = zip(ON_THE_SERVER, await asyncio.gather(*runs, return_exceptions=True), strict=True)
    assert {shape: error for shape, error in outcomes if error is not None} == {}
