"""How people become store namespaces that nobody else shares, and what the store API shows of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from uuid import uuid4

import pytest
from deepagents.backends import StoreBackend
from hypothesis import assume, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from langgraph.store.memory import InMemoryStore

from memory import namespaces
from memory.identity import (
    DEFAULT_AGENT_ASSISTANT,
    Actor,
    IdentityError,
    label,
)
from memory.namespaces import Namespace, may_read, memories, policies, skills
from memory.starting import starting_memory
from settings import MemoryScope, Settings
from testing.dev_server import DevServer, run_turn
from tests.memory.identities import ALICE, ASSISTANT, OTHER_ASSISTANT, SCOPES, SHAPES, identities, quickly, scoped, within_limit

ALLOWED_BY_STORE_BACKEND = re.compile(r"[A-Za-z0-9\-_@+:~]+\Z")  # less the period, which the store forbids


def test_a_lone_surrogate_is_an_error_that_can_itself_be_sent_as_utf_8() -> None:
    with pytest.raises(IdentityError, match="not valid Unicode") as caught:
        label("alice\ud800")
    assert str(caught.value).encode()


def check_stores_accept(namespace: Namespace) -> None:
    """A write and a read through the real backend and the real store's interface."""
    assert all(ALLOWED_BY_STORE_BACKEND.match(part) for part in namespace)
    store = InMemoryStore()
    backend = StoreBackend(store=store, namespace=lambda _: namespace)
    assert backend.write("/a.md", "text").error is None
    read = backend.read("/a.md")
    assert read.error is None
    assert read.file_data is not None
    assert read.file_data["content"] == "text"
    store.put(namespace, "/b.md", {"content": "more"})
    item = store.get(namespace, "/b.md")
    assert item is not None
    assert item.value == {"content": "more"}
    assert {item.key for item in store.search(namespace)} == {"/a.md", "/b.md"}
    assert store.list_namespaces(prefix=namespace) == [namespace]


@hypothesis_settings(max_examples=60, deadline=None)
@given(identities, identities, st.sampled_from(SCOPES))
def test_stores_accept_the_namespaces_of_any_identity(user: str, org: str, scope: MemoryScope) -> None:
    person = Actor(user, org)
    for namespace in (
        memories(person, user, scoped(scope)),
        policies(org),
        skills(user),
        namespaces.positions(person),
        namespaces.schedule(person),
    ):
        check_stores_accept(namespace)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("identity", SHAPES.values(), ids=SHAPES)
def test_stores_accept_the_namespaces_of_every_awkward_shape(identity: str, scope: MemoryScope) -> None:
    check_stores_accept(memories(Actor(identity, identity), ASSISTANT, scoped(scope)))
    check_stores_accept(policies(identity))


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("user", ("memories", "acme:alice@example~2Ecom")),
        ("user+assistant", ("memories", f"{ASSISTANT}:acme:alice@example~2Ecom")),
        ("assistant", ("memories", f"{ASSISTANT}:acme")),
    ],
)
def test_each_memory_scope_has_the_layout_of_the_design(scope: MemoryScope, expected: Namespace) -> None:
    assert memories(Actor("alice@example.com", "acme"), ASSISTANT, scoped(scope)) == expected


def test_policies_are_the_organizations_and_skills_the_assistants() -> None:
    assert (policies("acme.com"), skills(ASSISTANT)) == (("policies", "acme~2Ecom"), ("skills", ASSISTANT))


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
@given(two_people(), st.sampled_from(["user", "user+assistant"]))
@example((Actor("c", "a:b"), Actor("b:c", "a")), "user")
@example((Actor("a", "acme"), Actor("ab", "acme")), "user")
@example((Actor("a_b", "acme"), Actor("a%b", "acme")), "user+assistant")
@example((Actor("alice", "acme"), Actor("alice", "globex")), "user")
def test_a_search_of_one_persons_memory_never_returns_anothers(people: tuple[Actor, Actor], scope: MemoryScope) -> None:
    store = InMemoryStore()
    first, second = (memories(person, ASSISTANT, scoped(scope)) for person in people)
    for namespace, owner in ((first, "first"), (second, "second")):
        store.put(namespace, "/preferences.md", {"owner": owner})
    assert [item.value["owner"] for item in store.search(first)] == ["first"]
    assert [item.value["owner"] for item in store.search(second)] == ["second"]
    # Stores keep a namespace as text joined with periods and look for `text.%`.
    joined = [".".join(namespace) + "." for namespace in (first, second)]
    assert not joined[0].startswith(joined[1])
    assert not joined[1].startswith(joined[0])


@quickly
@given(two_people(), st.tuples(st.uuids().map(str), st.uuids().map(str)))  # as the platform makes their ids
@example((Actor("b", "a"), Actor("c", "a:b")), (ASSISTANT, OTHER_ASSISTANT))
def test_no_two_people_organizations_assistants_or_layouts_share_a_namespace(
    people: tuple[Actor, Actor], assistants: tuple[str, str]
) -> None:
    owners: dict[tuple[str, ...], Namespace] = {}
    for person in people:
        owners["policies", person.org_id] = policies(person.org_id)
        owners["consolidation", person.org_id, person.user_id] = namespaces.positions(person)
        owners["schedule", person.org_id, person.user_id] = namespaces.schedule(person)
        owners["user", person.org_id, person.user_id] = memories(person, assistants[0], scoped("user"))
        for assistant in assistants:
            owners["skills", assistant] = skills(assistant)
            owners["assistant", assistant, person.org_id] = memories(person, assistant, scoped("assistant"))
            both = memories(person, assistant, scoped("user+assistant"))
            owners["user+assistant", assistant, person.org_id, person.user_id] = both
    assert len(set(owners.values())) == len(owners)


# --- What the store API shows ----------------------------------------------------------------------------------------

Layout = Callable[[Actor, MemoryScope], Namespace]


def memory_of(person: Actor, assistant: str = ASSISTANT) -> Layout:
    return lambda _, scope: memories(person, assistant, scoped(scope))


def fixed(*namespace: str) -> Layout:
    return lambda _, __: namespace


PRIVATE = {"user", "user+assistant"}
EVERY = set(SCOPES)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    ("layout", "readable_under"),
    [
        pytest.param(memory_of(ALICE), PRIVATE, id="own memory"),
        pytest.param(memory_of(ALICE, OTHER_ASSISTANT), PRIVATE, id="own memory with another assistant"),
        pytest.param(memory_of(Actor("bob", "acme")), set(), id="a colleague's memory"),
        pytest.param(memory_of(Actor("alice", "globex")), set(), id="the same identity in another organization"),
        pytest.param(memory_of(Actor("alic", "acme")), set(), id="an identity that begins mine"),
        pytest.param(memory_of(Actor("acme", "alice")), set(), id="organization and identity swapped"),
        pytest.param(fixed("policies", "acme"), EVERY, id="own policies"),
        pytest.param(fixed("policies", "globex"), set(), id="another organization's policies"),
        pytest.param(
            fixed(
                "policies",
            ),
            set(),
            id="all policies",
        ),
        pytest.param(fixed("policies", "acme", "x"), set(), id="below own policies"),
        pytest.param(fixed("skills", ASSISTANT), set(), id="skills"),
        pytest.param(lambda me, _: namespaces.positions(me), set(), id="how far consolidation has read"),
        pytest.param(lambda me, _: namespaces.schedule(me), set(), id="which thread consolidation runs on"),
        pytest.param(fixed("skills", "acme:alice"), set(), id="skills named like me"),
        pytest.param(
            fixed(
                "memories",
            ),
            set(),
            id="everyone's memory",
        ),
        pytest.param(fixed(), set(), id="the whole store"),
        pytest.param(fixed("memories", "acme:alice", "x"), set(), id="below own memory"),
        pytest.param(fixed("memories", "acme", "alice"), set(), id="own memory as two labels"),
        pytest.param(fixed("memories", "a:b:c:d"), set(), id="four parts"),
        pytest.param(fixed("memories", "x:y:acme:alice"), set(), id="four parts that end like mine"),
        pytest.param(fixed("memories", "alice"), set(), id="my identity alone"),
        pytest.param(fixed("memories", ""), set(), id="empty label"),
        pytest.param(fixed("memories", ":"), set(), id="separator alone"),
        pytest.param(fixed("memories", "acme:alice:"), set(), id="trailing separator"),
        pytest.param(fixed("memories", "acme:alice\n"), set(), id="trailing newline"),
        pytest.param(fixed("memories", ASSISTANT), set(), id="an assistant's memory"),
        pytest.param(fixed("memories", "acme:alice"), {"user"}, id="own memory, layout user"),
        pytest.param(fixed("memories", f"{ASSISTANT}:acme:alice"), {"user+assistant"}, id="own memory, layout user+assistant"),
        pytest.param(fixed("", "acme:alice"), set(), id="empty root"),
    ],
)
def test_the_store_api_shows_people_their_own_memory_and_policies_alone(
    layout: Layout, readable_under: set[MemoryScope], scope: MemoryScope
) -> None:
    assert may_read(layout(ALICE, scope), ALICE, scoped(scope)) is (scope in readable_under)


@quickly
@given(two_people(), st.sampled_from(["user", "user+assistant"]))
def test_people_may_read_their_own_memory_and_never_anothers(people: tuple[Actor, Actor], scope: MemoryScope) -> None:
    """People may read their own memory, whatever their name, and never another's."""
    me, other = people
    assert may_read(memories(me, ASSISTANT, scoped(scope)), me, scoped(scope))
    assert not may_read(memories(other, ASSISTANT, scoped(scope)), me, scoped(scope))
    assert may_read(policies(other.org_id), me, scoped(scope)) is (me.org_id == other.org_id)


# --- Through the platform --------------------------------------------------------------------------------------------

# fmt: off
ON_THE_SERVER = (
    "e-mail", "auth0", "non-ascii", "long", "longest", "root label", "trailing newline", "LIKE any", "parent folder",
    "wildcard", "emoji", "right to left", "separator",
)
# fmt: on


async def check_first_run(server: DevServer, identity: str, org: str) -> None:
    """A first turn of this person, then the seeds in their namespace, over the store API."""
    client, operator = server.as_user(identity, org), server.as_operator()
    namespace = memories(Actor(identity, org), DEFAULT_AGENT_ASSISTANT, Settings())
    assert not (await operator.store.search_items(namespace))["items"]

    thread = await client.threads.create()
    await run_turn(client, thread["thread_id"], "hello")

    seed = starting_memory(Actor(identity, org), None)["/preferences.md"]
    for reader in (operator, client):
        item = await reader.store.get_item(namespace, key="/preferences.md")
        assert item["value"]["content"] == seed
        items = (await reader.store.search_items(namespace))["items"]
        assert "/preferences.md" in {hit["key"] for hit in items}
        assert {tuple(hit["namespace"]) for hit in items} == {namespace}


@pytest.mark.server
async def test_the_platform_gives_any_identity_a_memory_of_its_own(
    server: DevServer,
) -> None:
    """The platform gives any identity a memory of its own that starts with the seeds."""
    org = f"acme {uuid4().hex}.example"
    runs = [check_first_run(server, SHAPES[shape], org) for shape in ON_THE_SERVER]
    outcomes = zip(ON_THE_SERVER, await asyncio.gather(*runs, return_exceptions=True), strict=True)
    assert {shape: error for shape, error in outcomes if error is not None} == {}
