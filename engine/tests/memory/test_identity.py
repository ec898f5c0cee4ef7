"""Who a run acts as, the labels and namespaces that people become, and what the store API shows of
them.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, get_args
from uuid import uuid4

import pytest
from hypothesis import assume, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from langgraph.runtime import Runtime, ServerInfo
from langgraph.store.memory import InMemoryStore
from langgraph_api.auth.studio_user import StudioUser  # type: ignore[import-untyped]

from lasting_memory.memory.new_memory import starting_memory
from lasting_memory.people import identity as people
from lasting_memory.people import namespaces, scopes
from lasting_memory.people.identity import (
    MAX_IDENTITY_BYTES,
    OPERATE,
    Actor,
    Context,
    IdentityError,
    acting,
    check_person,
    is_operator,
    label,
    membership_of,
)
from lasting_memory.people.namespaces import Namespace, policies, skills
from lasting_memory.people.scopes import group
from lasting_memory.settings import MemoryScope, Settings
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import AGENT, OPERATOR, SignedIn

SETTINGS = Settings(operators=frozenset({"root"}), default_org="home")
SCOPES: tuple[MemoryScope, ...] = get_args(MemoryScope)
ASSISTANT = "11111111-2222-3333-4444-555555555555"
OTHER_ASSISTANT = "99999999-2222-3333-4444-555555555555"
ALICE = Actor("alice", "acme")

# Identities that break other deployments of this kind: of separators, patterns, normal forms and
# our own escapes. The first dozen are tried on a server.
SHAPES = [
    "alice@example.com", "auth0|42", "José Ñ", "é" * (MAX_IDENTITY_BYTES // 2), "langgraph", "alice\n", "a%b", "..", "*",
    "👩‍🚀", "אליס", "acme:alice", "a", "ab", "a_b", "é", "e\u0301", "~2E", "~~7E", "a/b", " ",
]  # fmt: skip


def within_limit(text: str) -> bool:
    return len(text.encode()) <= MAX_IDENTITY_BYTES


ordinary = st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,8})?@[a-z]{1,8}\.com", fullmatch=True)
hostile = st.text(alphabet="aA~27EY:._%|\n -é\u0301👩", min_size=1, max_size=12)
identities = st.one_of(
    ordinary,
    hostile,
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40),
    st.sampled_from(SHAPES),
)
quickly = hypothesis_settings(max_examples=150, deadline=None)


def signed_in(identity: str = "alice", **claims: Any) -> Any:
    return SignedIn(identity=identity, **claims)


def on_server(graph_id: str, assistant_id: str, context: Context | None = None) -> Runtime[Any]:
    return Runtime(
        context=context, server_info=ServerInfo(assistant_id=assistant_id, graph_id=graph_id)
    )


SOMEONE_ELSE, NAMED = Context(user_id="bob", org_id="globex"), Context(user_id="bob")
PERMITTED = ["memory:operate", "threads:read"]
OWN, BOB = Actor("alice", "acme"), Actor("bob", "globex")
RESUMING = signed_in("root", thread_owner={"user_id": "bob", "org_id": "globex"})
EXPIRED = signed_in(org_id="acme", permissions=PERMITTED, expires_at=1)
LASTING = signed_in(org_id="acme", permissions=PERMITTED, expires_at=253_402_300_799)
TABLE: dict[str, tuple[people.User, Context | None, Actor]] = {
    "end user": (signed_in(org_id="acme"), None, OWN),
    "end user, organization claim is null": (signed_in(org_id=None), None, Actor("alice", "home")),
    "end user, organization claim is empty": (signed_in(org_id=""), None, Actor("alice", "home")),
    "end user whose context names someone else": (signed_in(org_id="acme"), SOMEONE_ELSE, OWN),
    "end user without a claim, context names someone else": (
        signed_in(),
        SOMEONE_ELSE,
        Actor("alice", "home"),
    ),
    "end user with other permissions": (
        signed_in(org_id="acme", permissions=["threads:read"]),
        SOMEONE_ELSE,
        OWN,
    ),
    "almost an operator": (signed_in("ROOT", org_id="acme"), SOMEONE_ELSE, Actor("ROOT", "acme")),
    "Studio": (StudioUser("dev"), None, Actor("dev", "home")),
    "Studio naming user and organization": (StudioUser("dev"), SOMEONE_ELSE, BOB),
    "Studio naming an org": (StudioUser("dev"), Context(org_id="acme"), Actor("dev", "acme")),
    "OPERATORS": (signed_in("root", org_id="acme"), None, Actor("root", "home")),
    "OPERATORS naming a user": (signed_in("root", org_id="acme"), NAMED, Actor("bob", "home")),
    "permission naming someone": (
        signed_in(org_id="acme", permissions=PERMITTED),
        SOMEONE_ELSE,
        BOB,
    ),
    "operator resuming, context names a third": (RESUMING, Context("carol", "initech"), BOB),
    "permission naming someone, in time": (LASTING, SOMEONE_ELSE, BOB),
    "permission that has expired, naming nobody": (EXPIRED, None, OWN),
    "OPERATORS, whose token has expired": (
        signed_in("root", org_id="acme", expires_at=1),
        SOMEONE_ELSE,
        BOB,
    ),
    "end user whose token has expired": (signed_in(org_id="acme", expires_at=1), SOMEONE_ELSE, OWN),
}


@pytest.mark.parametrize(("user", "context", "expected"), TABLE.values(), ids=TABLE)
def test_a_run_on_a_server_acts_as_the_table_says(
    user: people.User, context: Context | None, expected: Actor
) -> None:
    assert acting(user, context or Context(), SETTINGS) == expected


@pytest.mark.parametrize("context", [SOMEONE_ELSE, NAMED, Context(org_id="globex")])
def test_an_operator_whose_permission_has_expired_acts_for_nobody_else(context: Context) -> None:
    with pytest.raises(IdentityError, match="token has expired"):
        acting(EXPIRED, context, SETTINGS)


@pytest.mark.parametrize("org_id", [None, "", 7, ["acme"], {"id": "acme"}, True])
def test_a_user_without_an_organization_that_can_be_read_is_an_error_and_no_default(
    org_id: Any,
) -> None:
    """But where the environment names DEFAULT_ORG, and the user has none."""
    for user in (signed_in(org_id=org_id), signed_in()):
        with pytest.raises(IdentityError, match="no organization"):
            acting(user, Context(), Settings())
    if org_id:
        with pytest.raises(IdentityError, match="no organization"):
            acting(signed_in(org_id=org_id), Context(), SETTINGS)


TEAM = {"team_id": "red"}
# A user, and whether the claims hold.
MEMBERS: dict[str, tuple[Any, bool]] = {
    "of a development token": (signed_in(claims=TEAM), True),
    "in time": (signed_in(claims=TEAM, expires_at=253_402_300_799), True),
    "too late": (signed_in(claims=TEAM, expires_at=1), False),
    "of a damaged lifetime": (signed_in(claims=TEAM, expires_at="2999-01-01"), False),
    "resumed in time": (signed_in("root", thread_owner={"claims": TEAM, "expires_at": None}), True),
    "resumed too late": (
        signed_in("root", expires_at=None, thread_owner={"claims": TEAM, "expires_at": 1}),
        False,
    ),
    "resumed by somebody of the group": (
        signed_in("root", claims=TEAM, thread_owner={"claims": {}}),
        False,
    ),
}


@pytest.mark.parametrize(("user", "holds"), MEMBERS.values(), ids=MEMBERS)
def test_claims_hold_within_the_lifetime_of_the_token_that_proved_them(
    user: Any, holds: bool
) -> None:
    assert people.claims_of(user) == (TEAM if holds else {})


def test_a_claim_whose_value_is_no_text_names_no_group() -> None:
    odd = {"roles": ["red"], "level": 7, "crew": None, "team": {"id": "red"}}
    assert people.claims_of(signed_in(claims={**TEAM, **odd})) == TEAM


@pytest.mark.parametrize("owner", ["bob", ["bob"], 7])
def test_the_owner_of_a_resumed_thread_who_cannot_be_read_is_an_error(owner: Any) -> None:
    user = signed_in("root", claims=TEAM, thread_owner=owner)
    with pytest.raises(IdentityError, match="names nobody"):
        acting(user, Context(), SETTINGS)
    with pytest.raises(IdentityError, match="names nobody"):
        membership_of(user)


@pytest.mark.parametrize(
    "owner",
    [
        {"user_id": "bob"},
        {"org_id": "acme"},
        {"user_id": ["bob"], "org_id": "acme"},
        {"user_id": "bob", "org_id": None},
    ],
)
def test_the_owner_of_a_resumed_thread_without_names_that_are_text_is_an_error(owner: Any) -> None:
    user = signed_in("root", thread_owner=owner)
    with pytest.raises(IdentityError, match="must be text"):
        acting(user, Context(), SETTINGS)


def test_permissions_hold_within_the_lifetime_of_the_token_that_proved_them() -> None:
    for expires_at, holds in ((None, True), (253_402_300_799, True), (1, False)):
        user = signed_in(permissions=[people.WRITE_POLICIES, people.OPERATE], expires_at=expires_at)
        assert (people.may_write_policies(user, SETTINGS), people.is_operator(user, SETTINGS)) == (
            holds,
            holds,
        )


@pytest.mark.parametrize(
    "user", [None, signed_in("", org_id="acme", permissions=PERMITTED), StudioUser("")]
)
def test_a_server_without_a_signed_in_user_is_an_error(user: people.User | None) -> None:
    """It says how to turn authentication on, and never takes the context's word."""
    for context in (Context(), SOMEONE_ELSE):
        with pytest.raises(
            IdentityError, match=r'"auth": \{"path": "\./auth\.py:auth"\}.* langgraph\.json'
        ):
            acting(user, context, SETTINGS)
    with pytest.raises(IdentityError):
        people.current_actor(SETTINGS, on_server("agent", ASSISTANT, SOMEONE_ELSE))


def test_a_run_without_a_server_acts_as_its_context_which_must_name_a_user() -> None:
    assert people.current_actor(SETTINGS, Runtime(context=SOMEONE_ELSE)) == BOB
    assert people.current_actor(SETTINGS, Runtime(context=NAMED)) == Actor("bob", "home")
    for context in (None, Context(), Context(user_id=""), Context(org_id="acme")):
        runtime: Runtime[Any] = Runtime(context=context)
        with pytest.raises(IdentityError, match=r"pass context=Context\(user_id=\.\.\.\)"):
            people.current_actor(SETTINGS, runtime)


@quickly
@given(identities)
def test_a_label_is_bounded_safe_for_stores_and_gives_the_identity_back(identity: str) -> None:
    text = label(identity)
    assert re.fullmatch(r"[A-Za-z0-9_@+~-]+", text)
    assert len(text) <= 3 * MAX_IDENTITY_BYTES
    assert people.part_of(text) == identity


@quickly
@given(st.text(alphabet="aAQYg~27EF0._é-:\n", max_size=10))
@example("~2e")
@example("~FF")
@example("~00")
@example("a" * (MAX_IDENTITY_BYTES + 1))
def test_a_text_is_the_one_label_of_its_part_or_refused(text: str) -> None:
    try:
        part = people.part_of(text)
    except ValueError:
        return
    assert label(part) == text


def test_a_label_is_readable() -> None:
    """These never change once there is a release."""
    identities = ["Alice_B+x-1", "alice@example.com", "auth0|42", "a%b:c~", "José\n"]
    assert list(map(label, identities)) == [
        "Alice_B+x-1",
        "alice@example~2Ecom",
        "auth0~7C42",
        "a~25b~3Ac~7E",
        "Jos~C3~A9~0A",
    ]


@pytest.mark.parametrize(
    "identity",
    ["", "a\x00b", "\x00", "\ud800", "é" * (MAX_IDENTITY_BYTES // 2 + 1), "x" * 10_000],
    ids=ascii,
)
def test_an_identity_that_no_store_should_hold_is_refused_in_a_short_sentence(
    identity: str,
) -> None:
    for person in (Actor(identity, "acme"), Actor("alice", identity)):
        with pytest.raises(IdentityError) as refused:
            check_person(person)
        assert len(str(refused.value).encode()) < 200


OTHERS = Context(assistant_id=OTHER_ASSISTANT)
ASSISTANTS = {
    "agent, whose context names another": (on_server("agent", ASSISTANT, OTHERS), ASSISTANT),
    "consolidation of a named one's conversations": (
        on_server("consolidation_agent", ASSISTANT, OTHERS),
        OTHER_ASSISTANT,
    ),
    "consolidation": (on_server("consolidation_agent", ASSISTANT, Context()), AGENT),
    "consolidation without a context": (on_server("consolidation_agent", ASSISTANT), AGENT),
    "no server": (Runtime(context=Context("alice")), AGENT),
}


@pytest.mark.parametrize(("runtime", "expected"), ASSISTANTS.values(), ids=ASSISTANTS)
def test_a_run_uses_its_own_assistant_and_consolidation_the_one_it_is_given(
    runtime: Runtime[Any], expected: str
) -> None:
    assert people.current_assistant(AGENT, runtime) == expected


@pytest.mark.server
async def test_the_platforms_assistant_of_the_graph_agent_has_the_default_id(
    server: DevServer,
) -> None:
    assistants = await server.as_operator().assistants.search(
        graph_id="agent", metadata={"created_by": "system"}
    )
    assert [assistant["assistant_id"] for assistant in assistants] == [AGENT]


@pytest.mark.parametrize(("scope", "expected"), [
    ("user", ("memories", "acme:alice@example~2Ecom")),
    ("user+assistant", ("memories", f"{ASSISTANT}:acme:alice@example~2Ecom")),
    ("assistant", ("memories", f"{ASSISTANT}:acme")),
])  # fmt: skip
def test_each_memory_scope_has_the_layout_of_the_design(
    scope: MemoryScope, expected: Namespace
) -> None:
    assert (
        deployed(memory_scope=scope).memory.namespace(Actor("alice@example.com", "acme"), ASSISTANT)
        == expected
    )


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
@given(
    two_people(), st.tuples(st.uuids().map(str), st.uuids().map(str))
)  # as the platform makes their ids
@example((Actor("b", "a"), Actor("c", "a:b")), (ASSISTANT, OTHER_ASSISTANT))
@example((Actor("c", "a:b"), Actor("b:c", "a")), (ASSISTANT, OTHER_ASSISTANT))
@example((Actor("a", "acme"), Actor("ab", "acme")), (ASSISTANT, OTHER_ASSISTANT))
@example((Actor("a:b", "acme"), Actor("b", "acme")), (ASSISTANT, OTHER_ASSISTANT))
@example((Actor("a", "acme"), Actor("a", "acme:team")), (ASSISTANT, OTHER_ASSISTANT))
def test_no_two_people_groups_assistants_or_layouts_share_a_namespace(
    people: tuple[Actor, Actor], assistants: tuple[str, str]
) -> None:
    owners: dict[tuple[str, ...], Namespace] = {}
    for person in people:
        owners["policies", person.org_id] = policies(person.org_id)
        owners["controls", person.org_id, person.user_id] = namespaces.controls(person)
        owners["user", person.org_id, person.user_id] = deployed(
            memory_scope="user"
        ).memory.namespace(person, assistants[0])
        for claim in ("team", "team:a", "a"):
            place = group(claim).namespace(person, "", {claim: person.user_id})
            owners["group", person.org_id, claim, person.user_id] = place
        for assistant in assistants:
            owners["skills", assistant] = skills(assistant)
            shared = deployed(memory_scope="assistant").memory.namespace(person, assistant)
            owners["assistant", assistant, person.org_id] = shared
            both = deployed(memory_scope="user+assistant").memory.namespace(person, assistant)
            owners["user+assistant", assistant, person.org_id, person.user_id] = both
    store = InMemoryStore()
    for owner, namespace in owners.items():
        store.put(namespace, "/a.md", {"owner": owner})
    for owner, namespace in owners.items():
        assert [item.value["owner"] for item in store.search(namespace)] == [owner]
        # Stores keep a namespace as text joined with periods and look for `text.%`.
        joined = ".".join(namespace) + "."
        assert [
            other for other in owners.values() if (".".join(other) + ".").startswith(joined)
        ] == [namespace]


@quickly
@given(two_people(), st.sampled_from(SCOPES))
def test_people_may_read_their_own_memory_and_policies_alone(
    people: tuple[Actor, Actor], scope: MemoryScope
) -> None:
    """Whichever assistant it is with; nothing below, above or beside it, and nothing that they
    share with others.
    """
    deployment, (me, other) = deployed(memory_scope=scope), people
    mine, elsewhere, others = (
        deployment.memory.namespace(who, which)
        for who, which in ((me, ASSISTANT), (me, OTHER_ASSISTANT), (other, ASSISTANT))
    )
    for namespace in (mine, elsewhere):
        assert deployment.may_read(namespace, me, {}) is not deployment.memory.is_shared
    assert deployment.may_read(policies(other.org_id), me, {}) is (me.org_id == other.org_id)
    own = mine[1]
    spelled = [
        ("memories", text)
        for text in (f"{own}:", f"{own}\n", f"x:{own}", own.partition(":")[2], "", ":")
    ]
    around = [
        (*mine, "x"),
        ("memories", *own.split(":")),
        ("", own),
        mine[:1],
        (),
        (*policies(me.org_id), "x"),
        ("policies",),
    ]
    ours = [skills(ASSISTANT), namespaces.controls(me), namespaces.usage(me)]
    assert [
        one for one in (others, *spelled, *around, *ours) if deployment.may_read(one, me, {})
    ] == []


async def check_first_run(server: DevServer, identity: str, org: str) -> None:
    """A first turn of this person, then the seeds in their namespace, over the store API."""
    person, namespace = (
        server.person(identity, org),
        scopes.person().namespace(Actor(identity, org), AGENT),
    )
    await person.turn(await person.thread(), "hello")
    for reader in (person, server.person("", headers=OPERATOR)):
        found = await reader.made("POST", "/store/items/search", {"namespace_prefix": namespace})
        (seed,) = (
            item["value"]["content"] for item in found["items"] if item["key"] == "/preferences.md"
        )
        assert seed == starting_memory(deployed().folder)["/preferences.md"]
        assert {tuple(item["namespace"]) for item in found["items"]} == {namespace}


@pytest.mark.server
async def test_the_platform_gives_any_identity_a_memory_of_its_own(server: DevServer) -> None:
    org = f"acme {uuid4().hex}.example"
    runs = [check_first_run(server, shape, org) for shape in SHAPES[:12]]
    outcomes = await asyncio.gather(*runs, return_exceptions=True)
    assert [(shape, error) for shape, error in zip(SHAPES, outcomes, strict=False) if error] == []


@pytest.mark.server
async def test_an_operator_searches_everybody_s_memory_with_a_filter_and_people_do_not(
    server: DevServer, alice: str
) -> None:
    """As LangChain's document on long-term memory searches a store: below a prefix, with fields
    that have a value.
    """
    org = f"acme {uuid4().hex}"
    operator, ada, bob = (
        server.person("", headers=OPERATOR),
        server.person(alice, org),
        server.person("bob", org),
    )
    for person, kind in ((ada, "plan"), (ada, "list"), (bob, "plan")):
        namespace = scopes.person().namespace(Actor(person.name, org), AGENT)
        value = {"content": f"a {kind} about leek", "encoding": "utf-8", "kind": f"{kind} {org}"}
        await operator.made(
            "PUT", "/store/items", {"namespace": namespace, "key": f"/{kind}.md", "value": value}
        )
    asked = {
        "namespace_prefix": ["memories"],
        "filter": {"kind": f"plan {org}"},
        "query": "leek",
        "limit": 100,
    }
    found = (await operator.made("POST", "/store/items/search", asked))["items"]
    owners = sorted(item["namespace"][1].rpartition(":")[2] for item in found)
    assert {item["key"] for item in found} == {"/plan.md"}
    assert owners == sorted(
        namespaces.person_label(Actor(name, org)).rpartition(":")[2] for name in (alice, "bob")
    )
    either = {**asked, "filter": {"kind": {"$ne": f"list {org}"}, "encoding": "utf-8"}}
    assert (await operator.ask("POST", "/store/items/search", either)).status_code == 200
    for person in (ada, bob):
        assert (await person.ask("POST", "/store/items/search", asked)).status_code == 403


class _Iterable:
    """A user as another platform gives it: claims are attributes, and it can be iterated."""

    identity = "alice@example.com"
    org_id = "acme"
    permissions = (OPERATE,)

    def __iter__(self) -> Iterator[tuple[str, object]]:
        yield "org_id", self.org_id


def test_a_user_that_cannot_be_read_is_an_error_and_nobody_of_the_default_organization() -> None:
    user: Any = _Iterable()
    assert "org_id" not in user  # as Python answers it
    settings = Settings(default_org="default")
    asks: list[Callable[[], object]] = [
        lambda: acting(user, Context(), settings),
        lambda: is_operator(user, settings),
        lambda: membership_of(user),
        lambda: people.claim(user, "org_id"),
    ]
    for ask in asks:
        with pytest.raises(IdentityError, match="cannot be read"):
            ask()
