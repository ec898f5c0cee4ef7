"""Whose memory a run uses, and how people become store namespaces that nobody else shares."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args
from uuid import UUID, uuid4, uuid5

import pytest
from deepagents.backends import StoreBackend
from hypothesis import assume, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from langgraph.runtime import Runtime, ServerInfo
from langgraph.store.memory import InMemoryStore
from langgraph_api.auth.studio_user import StudioUser  # type: ignore[import-untyped]

from memory import scopes
from memory.scopes import (
    DEFAULT_AGENT_ASSISTANT,
    MAX_IDENTITY_BYTES,
    Actor,
    Context,
    IdentityError,
    Namespace,
    acting,
    current_actor,
    current_assistant,
    label,
    may_read,
    memories,
    part_of,
    policies,
    skills,
)
from settings import PROJECT, MemoryScope, Settings
from tests.dev_server import DevServer, run_turn

SETTINGS = Settings(operators=frozenset({"root"}), default_org="home")
SCOPES: tuple[MemoryScope, ...] = get_args(MemoryScope)
ASSISTANT = "11111111-2222-3333-4444-555555555555"
OTHER_ASSISTANT = "99999999-2222-3333-4444-555555555555"
ALICE = Actor("alice", "acme")
MAX_LABEL_CHARS = 1_368
ALLOWED_BY_STORE_BACKEND = re.compile(r"[A-Za-z0-9\-_@+:~]+\Z")  # less the period, which the store forbids

# Identities that break other deployments of this kind.
SHAPES = {
    "e-mail": "alice@example.com",
    "auth0": "auth0|42",
    "non-ascii": "José Ñ",
    "long": "x" * 1_000,
    "longest": "é" * (MAX_IDENTITY_BYTES // 2),
    "root label": "langgraph",
    "trailing newline": "alice\n",
    "prefix": "a",
    "longer than the prefix": "ab",
    "LIKE one": "a_b",
    "LIKE any": "a%b",
    "parent folder": "..",
    "wildcard": "*",
    "emoji": "👩‍🚀",
    "NUL": "a\x00b",
    "right to left": "אליס",
    "composed": "é",
    "decomposed": "e\u0301",
    "separator": "acme:alice",
    "our own escapes": "~2E",
    "our own base64": "~~YQ",
    "slash": "a/b",
    "space": " ",
}

# What is in the stores of running deployments: these never change.
LABELS = {
    "alice": "alice",
    "Alice_B+x-1": "Alice_B+x-1",
    "11111111-2222-3333-4444-555555555555": "11111111-2222-3333-4444-555555555555",
    "alice@example.com": "alice@example~2Ecom",
    "auth0|42": "auth0~7C42",
    "a_b": "a_b",
    "a%b": "a~25b",
    "a:b": "a~3Ab",
    "~": "~7E",
    "alice\n": "alice~0A",
    "langgraph": "langgraph",
    "José Ñ": "~~Sm9zw6kgw5E",
    "👩‍🚀": "~~8J-RqeKAjfCfmoA",
}


class SignedIn(dict[str, Any]):
    """Claims as the platform hands them to a run: by name, and the identity as an attribute."""

    @property
    def identity(self) -> str:
        return str(self["identity"])


def signed_in(identity: str = "alice", **claims: Any) -> SignedIn:
    return SignedIn(identity=identity, **claims)


def scoped(scope: MemoryScope) -> Settings:
    return replace(SETTINGS, memory_scope=scope)


def start(user_id: str | None = None, org_id: str | None = None) -> Runtime[Any]:
    """A runtime without a server, with this user and organization in its context."""
    return Runtime(context=Context(user_id, org_id))


def on_server(graph_id: str, assistant_id: str, context: Context | None = None) -> Runtime[Any]:
    return Runtime(context=context, server_info=ServerInfo(assistant_id=assistant_id, graph_id=graph_id))


# --- Who is acting ---------------------------------------------------------------------------------------------------

SOMEONE_ELSE = Context(user_id="bob", org_id="globex")
OWNED_BY_BOB = {"user_id": "bob", "org_id": "globex"}
PERMITTED = ["memory:operate", "threads:read"]
OWN = Actor("alice", "acme")


@pytest.mark.parametrize(
    ("user", "context", "expected"),
    [
        pytest.param(signed_in(org_id="acme"), None, OWN, id="end user"),
        pytest.param(signed_in(), None, Actor("alice", "home"), id="end user without an organization claim"),
        pytest.param(signed_in(org_id=None), None, Actor("alice", "home"), id="end user, organization claim is null"),
        pytest.param(signed_in(org_id=""), None, Actor("alice", "home"), id="end user, organization claim is empty"),
        pytest.param(signed_in(org_id="acme"), SOMEONE_ELSE, OWN, id="end user whose context names someone else"),
        pytest.param(
            signed_in(), SOMEONE_ELSE, Actor("alice", "home"), id="end user without a claim, context names someone else"
        ),
        pytest.param(
            signed_in(org_id="acme", permissions=["threads:read"]),
            SOMEONE_ELSE,
            OWN,
            id="end user with other permissions",
        ),
        pytest.param(signed_in("ROOT", org_id="acme"), SOMEONE_ELSE, Actor("ROOT", "acme"), id="almost an operator"),
        pytest.param(StudioUser("dev"), None, Actor("dev", "home"), id="Studio"),
        pytest.param(StudioUser("dev"), SOMEONE_ELSE, Actor("bob", "globex"), id="Studio naming user and organization"),
        pytest.param(StudioUser("dev"), Context(user_id="bob"), Actor("bob", "home"), id="Studio naming a user"),
        pytest.param(StudioUser("dev"), Context(org_id="acme"), Actor("dev", "acme"), id="Studio naming an org"),
        pytest.param(signed_in("root", org_id="acme"), None, Actor("root", "home"), id="OPERATORS"),
        pytest.param(signed_in("root", org_id="acme"), SOMEONE_ELSE, Actor("bob", "globex"), id="OPERATORS naming someone"),
        pytest.param(
            signed_in("root", org_id="acme"), Context(user_id="bob"), Actor("bob", "home"), id="OPERATORS naming a user"
        ),
        pytest.param(signed_in(org_id="acme", permissions=PERMITTED), None, Actor("alice", "home"), id="permission"),
        pytest.param(
            signed_in(org_id="acme", permissions=PERMITTED),
            SOMEONE_ELSE,
            Actor("bob", "globex"),
            id="permission naming someone",
        ),
        pytest.param(signed_in("root", thread_owner=OWNED_BY_BOB), None, Actor("bob", "globex"), id="operator resuming"),
        pytest.param(
            signed_in("root", thread_owner=OWNED_BY_BOB),
            Context(user_id="carol", org_id="initech"),
            Actor("bob", "globex"),
            id="operator resuming, context names a third",
        ),
    ],
)
def test_on_a_server_a_run_acts_as_the_table_says(user: scopes.User, context: Context | None, expected: Actor) -> None:
    assert acting(user, context, SETTINGS, on_server=True) == expected


@pytest.mark.parametrize("context", [None, Context(), SOMEONE_ELSE], ids=["no context", "empty context", "named user"])
@pytest.mark.parametrize(
    "user",
    [None, signed_in(""), signed_in("", org_id="acme", permissions=PERMITTED), StudioUser("")],
    ids=["no user", "empty identity", "empty identity with claims", "Studio without identity"],
)
def test_a_server_without_a_signed_in_user_is_an_error_that_says_how_to_turn_auth_on(
    user: scopes.User | None, context: Context | None
) -> None:
    with pytest.raises(IdentityError, match=r'"auth": \{"path": "\./auth\.py:auth"\}.* langgraph\.json'):
        acting(user, context, SETTINGS, on_server=True)


def test_the_auth_entry_that_the_error_recommends_is_the_one_in_langgraph_json() -> None:
    assert '"auth": {"path": "./auth.py:auth"}' in (PROJECT / "langgraph.json").read_text("utf-8")


@pytest.mark.parametrize(
    ("context", "expected"),
    [(SOMEONE_ELSE, Actor("bob", "globex")), (Context(user_id="bob"), Actor("bob", "home"))],
)
def test_without_a_server_a_run_acts_as_its_context_says(context: Context, expected: Actor) -> None:
    assert acting(None, context, SETTINGS, on_server=False) == expected


@pytest.mark.parametrize("context", [None, Context(), Context(user_id=""), Context(org_id="acme")])
def test_without_a_server_a_context_that_names_no_user_is_an_error(context: Context | None) -> None:
    with pytest.raises(IdentityError, match=r"pass context=Context\(user_id=\.\.\.\)"):
        acting(None, context, SETTINGS, on_server=False)


def test_a_run_without_server_info_acts_as_its_context() -> None:
    assert current_actor(SETTINGS, start("bob", "globex")) == Actor("bob", "globex")


def test_a_run_on_a_server_without_authentication_never_acts_as_its_context() -> None:
    with pytest.raises(IdentityError):
        current_actor(SETTINGS, on_server("agent", ASSISTANT, SOMEONE_ELSE))


# --- Labels ----------------------------------------------------------------------------------------------------------


def within_limit(text: str) -> bool:
    return len(text.encode()) <= MAX_IDENTITY_BYTES


ordinary = st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,8})?@[a-z]{1,8}\.com", fullmatch=True)
hostile = st.text(alphabet="aA~27EY:._%|\n -é\u0301👩", min_size=1, max_size=12)
identities = st.one_of(ordinary, hostile, st.text(min_size=1, max_size=40), st.sampled_from(sorted(SHAPES.values())))
quickly = hypothesis_settings(max_examples=150, deadline=None)


@quickly
@given(identities)
def test_part_of_gives_back_what_was_labelled(identity: str) -> None:
    assert part_of(label(identity)) == identity


@pytest.mark.parametrize("identity", SHAPES.values(), ids=SHAPES)
def test_part_of_gives_back_every_awkward_shape(identity: str) -> None:
    assert part_of(label(identity)) == identity


def test_awkward_shapes_all_have_labels_of_their_own() -> None:
    assert len({label(identity) for identity in SHAPES.values()}) == len(SHAPES)


@quickly
@given(identities)
def test_an_identity_that_looks_like_the_label_of_another_has_a_label_of_its_own(identity: str) -> None:
    lookalike = label(identity)
    assume(lookalike != identity)
    assume(within_limit(lookalike))
    assert label(lookalike) != label(identity)


@quickly
@given(st.text(alphabet="aAQYg~27EF0._é-", min_size=1, max_size=10))
@example("~2e")
@example("~41")
@example("~~YQ")
@example("~~YR")
@example("~~!Y")
@example("~FF")
@example("a\n")
def test_a_text_is_either_the_one_label_of_its_part_or_refused(text: str) -> None:
    assume(text != "~~")  # a claim of its own, below
    try:
        part = part_of(text)
    except ValueError:
        return
    assert label(part) == text


@pytest.mark.parametrize("text", ["", "~~", "a" * (MAX_IDENTITY_BYTES + 1), "~2e", "a.b", "a:b", "é", "~~é", "a\n"])
def test_a_text_that_label_never_made_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        part_of(text)


@quickly
@given(identities)
def test_a_label_is_bounded_and_has_neither_a_period_nor_a_separator(identity: str) -> None:
    text = label(identity)
    assert len(text) <= MAX_LABEL_CHARS
    assert re.fullmatch(r"[A-Za-z0-9_@+~-]+", text)


@pytest.mark.parametrize("character", ["a", "é", "~", ".", "\x00", "👩", "\uffff"])
def test_the_longest_identity_of_any_one_character_stays_within_the_bound(character: str) -> None:
    identity = character * (MAX_IDENTITY_BYTES // len(character.encode()))
    assert len(label(identity)) <= MAX_LABEL_CHARS
    assert part_of(label(identity)) == identity


@pytest.mark.parametrize(("identity", "expected"), LABELS.items(), ids=ascii)
def test_a_label_is_readable_and_stays_what_it_was_in_earlier_versions(identity: str, expected: str) -> None:
    assert label(identity) == expected


@pytest.mark.parametrize(
    "identity", ["x" * (MAX_IDENTITY_BYTES + 1), "é" * (MAX_IDENTITY_BYTES // 2) + "x"], ids=["ascii", "two bytes each"]
)
def test_an_identity_over_the_limit_is_an_error_that_names_the_limit_and_stays_short(identity: str) -> None:
    with pytest.raises(IdentityError, match=rf"has {len(identity.encode())} bytes; at most {MAX_IDENTITY_BYTES} ") as e:
        label(identity)
    assert len(str(e.value)) < 200


def test_an_empty_identity_is_an_error() -> None:
    with pytest.raises(IdentityError, match="empty"):
        label("")


def test_a_lone_surrogate_is_an_error_that_can_itself_be_sent_as_utf_8() -> None:
    with pytest.raises(IdentityError, match="not valid Unicode") as caught:
        label("alice\ud800")
    assert str(caught.value).encode()


# --- Namespaces ------------------------------------------------------------------------------------------------------


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
    assert {found.key for found in store.search(namespace)} == {"/a.md", "/b.md"}
    assert store.list_namespaces(prefix=namespace) == [namespace]


@hypothesis_settings(max_examples=60, deadline=None)
@given(identities, identities, st.sampled_from(SCOPES))
def test_stores_accept_the_namespaces_of_any_identity(user: str, org: str, scope: MemoryScope) -> None:
    person = Actor(user, org)
    for namespace in (
        memories(person, user, scoped(scope)),
        policies(org),
        skills(user),
        scopes.consolidation(person),
        scopes.schedule(person),
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
        ("assistant", ("memories", ASSISTANT)),
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
@given(two_people(), st.tuples(identities, identities))
@example((Actor("b", "a"), Actor("c", "a:b")), ("a", "a:b"))
def test_no_two_people_organizations_assistants_or_layouts_share_a_namespace(
    people: tuple[Actor, Actor], assistants: tuple[str, str]
) -> None:
    owners: dict[tuple[str, ...], Namespace] = {}
    for person in people:
        owners["policies", person.org_id] = policies(person.org_id)
        owners["consolidation", person.org_id, person.user_id] = scopes.consolidation(person)
        owners["schedule", person.org_id, person.user_id] = scopes.schedule(person)
        owners["user", person.org_id, person.user_id] = memories(person, assistants[0], scoped("user"))
        for assistant in assistants:
            owners["skills", assistant] = skills(assistant)
            owners["assistant", assistant] = memories(person, assistant, scoped("assistant"))
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
        pytest.param(lambda me, _: scopes.consolidation(me), set(), id="how far consolidation has read"),
        pytest.param(lambda me, _: scopes.schedule(me), set(), id="which thread consolidation runs on"),
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
def test_people_may_read_their_own_memory_whatever_their_name_and_never_anothers(
    people: tuple[Actor, Actor], scope: MemoryScope
) -> None:
    me, other = people
    assert may_read(memories(me, ASSISTANT, scoped(scope)), me, scoped(scope))
    assert not may_read(memories(other, ASSISTANT, scoped(scope)), me, scoped(scope))
    assert may_read(policies(other.org_id), me, scoped(scope)) is (me.org_id == other.org_id)


# --- Which assistant -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        pytest.param(on_server("agent", ASSISTANT), ASSISTANT, id="agent"),
        pytest.param(
            on_server("agent", ASSISTANT, Context(assistant_id=OTHER_ASSISTANT)),
            ASSISTANT,
            id="agent, whose context names another",
        ),
        pytest.param(
            on_server("consolidation_agent", ASSISTANT, Context(assistant_id=OTHER_ASSISTANT)),
            OTHER_ASSISTANT,
            id="consolidation of a named assistant's conversations",
        ),
        pytest.param(on_server("consolidation_agent", ASSISTANT, Context()), DEFAULT_AGENT_ASSISTANT, id="consolidation"),
        pytest.param(
            on_server("consolidation_agent", ASSISTANT),
            DEFAULT_AGENT_ASSISTANT,
            id="consolidation without a context",
        ),
        pytest.param(start("alice"), DEFAULT_AGENT_ASSISTANT, id="no server"),
    ],
)
def test_a_run_uses_its_own_assistant_and_consolidation_the_one_it_is_given(runtime: Runtime[Any], expected: str) -> None:
    assert current_assistant(runtime) == expected


def test_the_default_assistant_is_the_one_that_langgraph_api_makes_for_the_graph_agent() -> None:
    package = find_spec("langgraph_api")  # importing its graph module needs a configured server
    assert package is not None
    assert package.origin is not None
    source = (Path(package.origin).parent / "graph.py").read_text("utf-8")
    constant = re.search(r'^NAMESPACE_GRAPH = UUID\("([0-9a-f-]+)"\)$', source, re.MULTILINE)
    assert constant is not None
    assert "assistant_id = uuid5(NAMESPACE_GRAPH, graph_id)" in source
    assert str(uuid5(UUID(constant[1]), "agent")) == DEFAULT_AGENT_ASSISTANT


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

    seed = (PROJECT / "seeds" / "memories" / "preferences.md").read_text("utf-8")
    for reader in (operator, client):
        item = await reader.store.get_item(namespace, key="/preferences.md")
        assert item["value"]["content"] == seed
        found = (await reader.store.search_items(namespace))["items"]
        assert "/preferences.md" in {hit["key"] for hit in found}
        assert {tuple(hit["namespace"]) for hit in found} == {namespace}


@pytest.mark.server
async def test_the_platform_gives_any_identity_a_memory_of_its_own_that_starts_with_the_seeds(
    server: DevServer,
) -> None:
    org = f"acme {uuid4().hex}.example"
    runs = [check_first_run(server, SHAPES[shape], org) for shape in ON_THE_SERVER]
    outcomes = zip(ON_THE_SERVER, await asyncio.gather(*runs, return_exceptions=True), strict=True)
    assert {shape: error for shape, error in outcomes if error is not None} == {}


@pytest.mark.server
async def test_the_platforms_assistant_of_the_graph_agent_has_the_default_id(server: DevServer) -> None:
    assistants = await server.as_operator().assistants.search(graph_id="agent", metadata={"created_by": "system"})
    assert [assistant["assistant_id"] for assistant in assistants] == [DEFAULT_AGENT_ASSISTANT]


def test_a_person_whose_namespaces_a_postgres_index_could_not_hold_is_refused() -> None:
    scopes.check_person(scopes.Actor("x" * 1_000, "y" * 1_000))
    with pytest.raises(scopes.IdentityError, match="characters together"):
        scopes.check_person(scopes.Actor("é" * 512, "é" * 512))


@pytest.mark.parametrize("person", [scopes.Actor("a\x00b", "acme"), scopes.Actor("alice", "\x00")])
def test_a_person_whose_name_postgres_could_not_keep_is_refused(person: scopes.Actor) -> None:
    with pytest.raises(scopes.IdentityError, match="NUL"):
        scopes.check_person(person)
