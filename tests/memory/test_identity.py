"""Who a run acts as, which assistant's memory it uses, and the labels that people become."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from langgraph.runtime import Runtime, ServerInfo
from langgraph_api.auth.studio_user import StudioUser  # type: ignore[import-untyped]

from memory.identity import (
    DEFAULT_AGENT_ASSISTANT,
    MAX_IDENTITY_BYTES,
    Actor,
    Context,
    IdentityError,
    User,
    acting,
    check_person,
    current_actor,
    current_assistant,
    label,
    part_of,
)
from settings import PROJECT
from testing.dev_server import DevServer
from tests.memory.identities import ASSISTANT, OTHER_ASSISTANT, SETTINGS, SHAPES, identities, quickly, within_limit

MAX_LABEL_CHARS = 1_368

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
def test_on_a_server_a_run_acts_as_the_table_says(user: User, context: Context | None, expected: Actor) -> None:
    assert acting(user, context, SETTINGS, on_server=True) == expected


@pytest.mark.parametrize("context", [None, Context(), SOMEONE_ELSE], ids=["no context", "empty context", "named user"])
@pytest.mark.parametrize(
    "user",
    [None, signed_in(""), signed_in("", org_id="acme", permissions=PERMITTED), StudioUser("")],
    ids=["no user", "empty identity", "empty identity with claims", "Studio without identity"],
)
def test_a_server_without_a_signed_in_user_is_an_error(user: User | None, context: Context | None) -> None:
    """A server without a signed in user is an error that says how to turn auth on."""
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
def test_an_identity_that_looks_like_a_label_has_one_of_its_own(identity: str) -> None:
    """An identity that looks like the label of another has a label of its own."""
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
def test_an_identity_over_the_limit_is_an_error_that_names_the_limit(identity: str) -> None:
    """An identity over the limit is an error that names the limit, and stays short."""
    with pytest.raises(IdentityError, match=rf"has {len(identity.encode())} bytes; at most {MAX_IDENTITY_BYTES} ") as e:
        label(identity)
    assert len(str(e.value)) < 200


def test_an_empty_identity_is_an_error() -> None:
    with pytest.raises(IdentityError, match="empty"):
        label("")


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


def test_the_default_assistant_is_the_one_that_langgraph_api_makes() -> None:
    """The default assistant is the one that langgraph-api makes for the graph agent."""
    package = find_spec("langgraph_api")  # importing its graph module needs a configured server
    assert package is not None
    assert package.origin is not None
    source = (Path(package.origin).parent / "graph.py").read_text("utf-8")
    constant = re.search(r'^NAMESPACE_GRAPH = UUID\("([0-9a-f-]+)"\)$', source, re.MULTILINE)
    assert constant is not None
    assert "assistant_id = uuid5(NAMESPACE_GRAPH, graph_id)" in source
    assert str(uuid5(UUID(constant[1]), "agent")) == DEFAULT_AGENT_ASSISTANT


@pytest.mark.server
async def test_the_platforms_assistant_of_the_graph_agent_has_the_default_id(server: DevServer) -> None:
    assistants = await server.as_operator().assistants.search(graph_id="agent", metadata={"created_by": "system"})
    assert [assistant["assistant_id"] for assistant in assistants] == [DEFAULT_AGENT_ASSISTANT]


def test_a_person_whose_namespaces_a_postgres_index_could_not_hold_is_refused() -> None:
    check_person(Actor("x" * 1_000, "y" * 1_000))
    with pytest.raises(IdentityError, match="characters together"):
        check_person(Actor("é" * 512, "é" * 512))


@pytest.mark.parametrize("person", [Actor("a\x00b", "acme"), Actor("alice", "\x00")])
def test_a_person_whose_name_postgres_could_not_keep_is_refused(person: Actor) -> None:
    with pytest.raises(IdentityError, match="NUL"):
        check_person(person)
