"""Where the organization, permissions and groups of a token are, as providers write them."""

import dataclasses
from typing import Any

import jwt
import pytest
from langgraph_sdk import Auth

from lasting_memory.auth import tokens
from lasting_memory.people import identity
from lasting_memory.settings import load_settings
from tests.auth.signing import JWT, LOCAL, SECRET, claims, refusal, signed, signed_in

# As providers write them: AUTH_ORG_CLAIM, and what of a token names the organization org_A.
ORGANIZATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Clerk": ("o.id", {"o": {"id": "org_A", "rol": "admin", "slg": "a"}}),
    "Auth0": ("org_id", {"org_id": "org_A"}),
    "Auth0, namespaced": ("https://example.com/org", {"https://example.com/org": "org_A"}),
    "Auth0, namespaced object": (
        "https://example.com/claims.org_id",
        {"https://example.com/claims": {"org_id": "org_A"}},
    ),
    "a name with periods that ends in one": (
        "https://example.com/claims.org_id",
        {"https://example.com/claims.org_id": "org_A"},
    ),
    "Cognito": ("custom:org_id", {"custom:org_id": "org_A"}),
    "Entra": ("tid", {"tid": "org_A"}),
    "Keycloak": ("organization", {"organization": ["org_A"]}),
    "Keycloak, with the organization's attributes": (
        "organization",
        {"organization": {"org_A": {"id": "42"}}},
    ),
    "Keycloak, with nothing of the organization": ("organization", {"organization": {"org_A": {}}}),
    "Supabase": ("app_metadata.org_id", {"app_metadata": {"provider": "email", "org_id": "org_A"}}),
    "Firebase": ("firebase.tenant", {"firebase": {"tenant": "org_A", "identities": {}}}),
    "ZITADEL": ("urn:zitadel:iam:org:id", {"urn:zitadel:iam:org:id": "org_A"}),
    "three levels": ("a.b.c", {"a": {"b": {"c": "org_A"}}}),
    "a name with a period within a level": ("a.b.c.d", {"a": {"b.c": {"d": "org_A"}}}),
    "the longest name comes first": ("a.b", {"a.b": "org_A", "a": {"b": "org_B"}}),
    "the longest name comes first within a level": (
        "a.b.c",
        {"a": {"b.c": "org_A", "b": {"c": "org_B"}}},
    ),
    "a longer name that leads nowhere": (
        "a.b.c",
        {"a.b": {"x": "org_B"}, "a": {"b": {"c": "org_A"}}},
    ),
    "a longer name that is null": ("a.b", {"a.b": None, "a": {"b": "org_A"}}),
}


@pytest.mark.parametrize(("name", "there"), ORGANIZATIONS.values(), ids=list(ORGANIZATIONS))
async def test_an_organization_s_claim_is_named_as_providers_write_it(
    name: str, there: dict[str, Any]
) -> None:
    named = dataclasses.replace(JWT, auth_org_claim=name)
    token = jwt.encode({**claims(org_id=None), **there}, SECRET)
    assert (await signed_in(token, named))["org_id"] == "org_A"
    local = dataclasses.replace(LOCAL, auth_org_claim=name)
    assert (await signed_in("dev:org_A:alice", local))["org_id"] == "org_A"


@pytest.mark.parametrize(
    "missing",
    [{}, {"o": {}}, {"o": {"slg": "a"}}, {"o": None}, {"o": {"id": None}}, {"org_id": "org_A"}],
)
async def test_a_token_without_the_organization_claim_is_refused_but_for_operators(
    missing: dict[str, Any],
) -> None:
    """But in DEFAULT_ORG, where the environment names that too; and operators, who name the
    organization they act in.
    """
    environ = {"AUTH_JWT_SECRET": SECRET, "OPERATORS": "root", "AUTH_ORG_CLAIM": "o.id"}
    named, with_default = (
        load_settings(environ),
        load_settings({**environ, "DEFAULT_ORG": "default"}),
    )

    def token(**changes: Any) -> str:
        return jwt.encode({**claims(org_id=None, iss=None, aud=None, **changes), **missing}, SECRET)

    said = await refusal(f"Bearer {token()}", named)
    assert "'o.id'" in said
    assert "DEFAULT_ORG" in said
    assert (await signed_in(token(), with_default))["org_id"] == "default"
    for operator in (token(sub="root"), token(permissions=[identity.OPERATE])):
        assert (await signed_in(operator, named))["org_id"] == "default"


async def test_the_default_name_of_the_claim_may_be_named_too() -> None:
    named = load_settings({"AUTH_JWT_SECRET": SECRET, "AUTH_ORG_CLAIM": "org_id"})
    assert "'org_id'" in await refusal(f"Bearer {signed(org_id=None, iss=None, aud=None)}", named)


async def test_a_development_token_s_organization_is_its_user_where_the_claim_is_sub() -> None:
    for org in ("org_A", "org_B"):
        user = await signed_in(f"dev:{org}:alice", dataclasses.replace(LOCAL, auth_org_claim="sub"))
        assert (user["identity"], user["org_id"]) == ("alice", "alice")


# The value of a claim, and what is said of it.
UNREADABLE: list[tuple[Any, str]] = [
    (7, "a number"), (4.5, "a number"), (0, "a number"), (True, "a boolean"), (False, "a boolean"), ({}, "an object"),
    ({"id": "org_A"}, "an object"), ([], "an empty list"), (["org_A", "org_B"], "a list of 2 values"), ("", "an empty text"),
    ([7], "a list with a number"), ([["org_A"]], "a list with a list with a text of 5 bytes"), ([None], "a list with null"),
    ([""], "a list with an empty text"), ("org_A" * 99, "a text of 495 bytes"), ("org\0A", "a text with a NUL"),
    ("org_\ud800", "a text that is no UTF-8"), ({"org_A": {}, "org_B": {}}, "an object"), ({"org_A": None}, "an object"),
    ({"org_A": []}, "an object"), ({"": {}}, "an object"), ([{"org_A": {}}], "a list with an object"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "shape"), UNREADABLE, ids=lambda of: ascii(of)[:30])
async def test_an_organization_that_cannot_be_read_is_refused_to_everybody(
    value: Any, shape: str
) -> None:
    """Whatever the environment names, and to operators: the answer names the claim and the shape,
    and no value.
    """
    for name, there in (
        ("org_id", {"org_id": value}),
        ("o.id", {"o": {"id": value}}),
        ("a.b.c", {"a.b": {"c": value}}),
    ):
        for default_org in (None, "home"):
            named = dataclasses.replace(JWT, auth_org_claim=name, default_org=default_org)
            for sub in ("alice", "root"):
                said = await refusal(
                    f"Bearer {jwt.encode({**claims(org_id=None, sub=sub), **there}, SECRET)}", named
                )
                assert f"claim {name!r} is {shape};" in said
                assert "org_A" not in said
    assert shape in await refusal(f"Bearer {signed(org_id=value)}", JWT), "also without a setting"


async def test_a_claim_below_what_is_no_object_is_no_absent_claim() -> None:
    named = dataclasses.replace(JWT, auth_org_claim="o.id", default_org="home")
    for value in ("org_A", ["org_A"], 7, [{"id": "org_A"}]):
        said = await refusal(f"Bearer {signed(o=value, org_id=None)}", named)
        assert "'o.id' leads through 'o', which is a" in said
        assert "org_A" not in said


PERMISSIONS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("realm_access.roles", {"realm_access": {"roles": ["a", "b"]}}, ["a", "b"]),
    (
        "resource_access.my-app.roles",
        {"resource_access": {"my-app": {"roles": ["a"]}, "x": {"roles": ["b"]}}},
        ["a"],
    ),
    ("resource_access.my.app.roles", {"resource_access": {"my.app": {"roles": ["a"]}}}, ["a"]),
    ("app_metadata.scope", {"app_metadata": {"scope": "a b"}}, ["a", "b"]),
    ("https://example.com/roles", {"https://example.com/roles": ["a"]}, ["a"]),
    ("cognito:groups", {"cognito:groups": ["a"]}, ["a"]),
    (
        "urn:zitadel:iam:org:project:roles",
        {"urn:zitadel:iam:org:project:roles": {"a": {"1": "x.example"}, "b": {}}},
        ["a", "b"],
    ),
    ("scp", {"scp": "a b"}, ["a", "b"]),
    ("scp", {"scp": ["a", "b"]}, ["a", "b"]),
    ("realm_access.roles", {}, []),
    ("realm_access.roles", {"realm_access": {}}, []),
    ("realm_access.roles", {"realm_access": None}, []),
    ("realm_access.roles", {"realm_access": {"roles": None}}, []),
    ("realm_access.roles", {"permissions": ["a"]}, []),
]


@pytest.mark.parametrize(("name", "there", "permissions"), PERMISSIONS)
async def test_permissions_may_be_at_a_path_and_absent_ones_are_none(
    name: str, there: dict[str, Any], permissions: list[str]
) -> None:
    named = dataclasses.replace(JWT, auth_permissions_claim=name)
    assert (await signed_in(signed(**there), named))["permissions"] == permissions
    local = dataclasses.replace(LOCAL, auth_permissions_claim=name)
    forged = await signed_in(f"dev:acme:alice?{name.replace('%', '')}={identity.OPERATE}", local)
    assert forged["permissions"] == []


@pytest.mark.parametrize("value", [7, True, {"a": 1}, {"a": {}, "b": True}])
async def test_permissions_that_cannot_be_read_are_refused_by_name_and_shape(value: Any) -> None:
    named = dataclasses.replace(JWT, auth_permissions_claim="realm_access.roles")
    assert "claim 'realm_access.roles' is a" in await refusal(
        f"Bearer {signed(realm_access={'roles': value})}", named
    )


GROUPS: list[tuple[str, dict[str, Any], str | None]] = [
    ("resource.team", {"resource": {"team": "red"}}, "red"),
    ("resource.team", {"resource.team": "red", "resource": {"team": "blue"}}, "red"),
    ("https://example.com/team", {"https://example.com/team": "red"}, "red"),
    ("groups", {"groups": ["red"]}, "red"),
    ("resource.team", {"resource": {}}, None),
    ("resource.team", {"resource": {"team": None}}, None),
    ("resource.team", {"team": "red"}, None),
]


@pytest.mark.parametrize(("name", "there", "group"), GROUPS)
async def test_a_group_may_be_at_a_path_and_an_absent_one_is_none(
    name: str, there: dict[str, Any], group: str | None
) -> None:
    kept = {name: group} if group else None
    assert (await tokens.Tokens(JWT, {name}).user(f"Bearer {signed(**there)}")).get(
        "claims"
    ) == kept
    local = await tokens.Tokens(LOCAL, {name}).user(f"Bearer dev:acme:alice?{name}=red&resource=x")
    assert local["claims"] == {name: "red"}


@pytest.mark.parametrize("value", [7, [], ["red", "blue"], {"red": 1}, ""])
async def test_a_group_that_cannot_be_read_is_refused_by_name_and_shape(value: Any) -> None:
    with pytest.raises(Auth.exceptions.HTTPException) as refused:
        await tokens.Tokens(JWT, {"resource.team"}).user(
            f"Bearer {signed(resource={'team': value})}"
        )
    assert refused.value.status_code == 401
    assert "claim 'resource.team' is a" in str(refused.value.detail)
    assert "red" not in str(refused.value.detail)
