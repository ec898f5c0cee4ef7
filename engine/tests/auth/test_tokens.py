"""Which tokens are believed, what their claims decide, and an identity provider's keys, whatever
its server does.
"""

import asyncio
import base64
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from langgraph_sdk import Auth
from starlette.exceptions import HTTPException as ServerError

from lasting_memory.auth import provider_keys, tokens
from lasting_memory.people import identity
from lasting_memory.settings import Settings, load_settings
from lasting_memory.testing.dev_server import DevServer, dev_token
from lasting_memory.testing.loopback import LoopbackServer, QuietHandler
from lasting_memory.testing.people import SignedIn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic

SECRET = "a-shared-secret-of-at-least-32-bytes"
ISSUER, AUDIENCE = "https://id.example.com", "agent"
JWT = load_settings(
    {
        "AUTH_JWT_SECRET": SECRET,
        "AUTH_ISSUER": ISSUER,
        "AUTH_AUDIENCE": AUDIENCE,
        "OPERATORS": "root",
    }
)
LOCAL = dataclasses.replace(Settings(), local_dev=True)

RSA_KEYS = {
    kid: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for kid in ("one", "two", "never served")
}
EC_KEY = ec.generate_private_key(ec.SECP256R1())
DRIP_SECONDS = 0.05


def jwk(kid: Any = "one", **changes: Any) -> dict[str, Any]:
    """The RSA key "one" as a JSON web key, under this id."""
    key = json.loads(
        jwt.algorithms.RSAAlgorithm.to_jwk(
            RSA_KEYS[kid if kid in list(RSA_KEYS) else "one"].public_key()
        )
    )
    return {**key, "kid": kid, "use": "sig", **changes}


class KeyServer(LoopbackServer):
    """An identity provider's key set: `answer`, or None for a hung up connection. While it `drips`,
    it does not end.
    """

    def __init__(self) -> None:
        super().__init__(_KeyHandler)
        self.url += "/jwks.json"
        self.answer: bytes | None = None
        self.status, self.headers = 200, dict[str, str]()
        self.drips = False
        self.asked = 0

    def __exit__(self, *_: object) -> None:
        self.drips = False
        super().__exit__()

    def serve(self, *kids: str) -> None:
        curve = {
            **json.loads(jwt.algorithms.ECAlgorithm.to_jwk(EC_KEY.public_key())),
            "kid": "curve",
            "use": "sig",
        }
        self.answer = json.dumps({"keys": [*map(jwk, kids), curve]}).encode()


class _KeyHandler(QuietHandler):
    server: KeyServer

    def do_GET(self) -> None:  # noqa: N802  # the library's name
        self.server.asked += 1
        if self.server.answer is None:
            return
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        pause = threading.Event()
        with suppress(OSError):  # the client may go
            while self.server.drips:
                self.wfile.write(b" ")
                pause.wait(DRIP_SECONDS)
            self.wfile.write(self.server.answer)


def claims(expires_in: int = 300, **changes: Any) -> dict[str, Any]:
    """Claims of a good token, for `expires_in` seconds; a change to None leaves the claim out."""
    good = {
        "sub": "alice",
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": int(time.time()) + expires_in,
        "org_id": "acme",
    }
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def signed(
    key: Any = SECRET, algorithm: str = "HS256", kid: str | None = None, **changes: Any
) -> str:
    return jwt.encode(
        claims(**changes), key, algorithm=algorithm, headers={"kid": kid} if kid else None
    )


def signed_payload(**changes: Any) -> str:
    """A signed token with claims that the library would not write."""
    return jwt.PyJWS().encode(json.dumps(claims(**changes)).encode(), SECRET, "HS256")


def rsa_signed(kid: str, key: str | None = None, algorithm: str = "RS256", **changes: Any) -> str:
    return signed(RSA_KEYS[key or kid], algorithm, kid, **changes)


def hand_made(header: dict[str, Any], signature: bytes = b"", **changes: Any) -> str:
    """A token that no library would sign."""
    parts = [json.dumps(header).encode(), json.dumps(claims(**changes)).encode(), signature]
    return b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts).decode()


async def signed_in(token: str, settings: Settings = JWT) -> tokens.TokenUser:
    return await tokens.Tokens(settings).user(f"Bearer {token}")


async def refusal(header: str | None, settings: Settings) -> str:
    """What the answer to a header says, which must be a 401."""
    with pytest.raises(Auth.exceptions.HTTPException) as refused:
        await tokens.Tokens(settings).user(header)
    assert refused.value.status_code == 401
    return str(refused.value.detail)


ALICE = ("alice", "acme", False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ALICE),
        ({"org_id": "globex"}, ("alice", "globex", False)),
        ({"org_id": None}, ("alice", "default", False)),
        ({"identity": "bob", "user_id": "bob"}, ALICE),
        ({"expires_in": -10}, ALICE),  # within the clocks' difference
        ({"aud": ["other", AUDIENCE]}, ALICE),
        ({"permissions": ["memory:read", "memory:operated"]}, ALICE),
        ({"permissions": ["memory:read", identity.OPERATE]}, ("alice", "acme", True)),
        ({"permissions": f"openid {identity.OPERATE}"}, ("alice", "acme", True)),
        ({"permissions": [[identity.OPERATE]]}, ALICE),
        ({"permissions": [f"{identity.OPERATE}\x00", "a\x00b"]}, ALICE),
        ({"scope": identity.OPERATE}, ALICE),
        ({"sub": "root"}, ("root", "acme", True)),
        ({"sub": "Root"}, ("Root", "acme", False)),
        ({"sub": 42}, ("42", "acme", False)),
        ({"sub": -(2**70)}, (str(-(2**70)), "acme", False)),
        (
            {"permissions": {identity.OPERATE: {"1": "acme.example"}, "x": {}}},
            ("alice", "acme", True),
        ),
        ({"permissions": {}}, ALICE),
    ],
)
async def test_a_caller_is_the_person_whom_a_valid_token_names(
    changes: dict[str, Any], expected: tuple[str, str, bool]
) -> None:
    user: Any = SignedIn(await signed_in(signed(**changes)))
    assert (user.identity, user["org_id"], identity.is_operator(user, JWT)) == expected


# Made when they are tried: one made when tests are collected would be refused for its age.
REFUSED: dict[str, Callable[[], str]] = {
    "expired": lambda: signed(expires_in=-60),
    "without expiry": lambda: signed(exp=None),
    "not valid yet": lambda: signed(nbf=int(time.time()) + 600),
    "for another audience": lambda: signed(aud="other"),
    "without audience": lambda: signed(aud=None),
    "of another issuer": lambda: signed(iss="https://evil.example.com"),
    "without issuer": lambda: signed(iss=None),
    "without subject": lambda: signed(sub=None),
    "with a subject that is the platform's own": lambda: signed(sub="langgraph-studio-user"),
    "with an organization that is no text": lambda: signed(org_id=["acme", "globex"]),
    "with a NUL in its organization": lambda: signed(org_id="ac\x00me"),
    "with an empty organization": lambda: signed(org_id=""),
    "with permissions that are no list": lambda: signed(permissions={"memory:operate": True}),
    "signed with another key": lambda: signed("another-secret-of-at-least-32-bytes!"),
    "unsigned": lambda: signed("", "none"),
    "of algorithm None": lambda: hand_made({"alg": "None", "typ": "JWT"}),
    "with a subject that is no integer": lambda: signed_payload(sub=1.0),
    "with a boolean as subject": lambda: signed_payload(sub=True),
    "with an object as subject": lambda: signed_payload(sub={"alice": {}}),
    "with an integer of too many digits as subject": lambda: signed_payload(sub=10**255),
    "for nobody": lambda: signed(aud=[]),
    "for what is no text": lambda: signed(aud=[AUDIENCE, 7]),
    "for an object": lambda: signed(aud={AUDIENCE: {}}),
    "of an issuer that is a list": lambda: signed_payload(iss=[ISSUER]),
    "whose header is deeply nested": lambda: (
        base64.urlsafe_b64encode(b"[" * 9000).decode() + ".e30."
    ),
    "of this project's development": lambda: dev_token("acme", "alice"),
    "that is no token": lambda: "junk",
    "that is too long": lambda: signed(padding="x" * 20_000),
}


@pytest.mark.parametrize("make_token", REFUSED.values(), ids=list(REFUSED))
async def test_a_token_is_refused_that_is(make_token: Callable[[], str]) -> None:
    said = await refusal(f"Bearer {make_token()}", JWT)
    assert SECRET not in said
    assert "dev:" not in said


# --- Where the organization, permissions and groups are
# ---------------------------------------------------------------

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


async def test_a_user_has_the_lifetime_of_their_token() -> None:
    """That of a token which is accepted for the clocks' difference alone ends with that, and a
    development token's never.
    """
    now = int(time.time())
    assert (await signed_in(signed(exp=now + 300)))["expires_at"] == now + 300
    assert (await signed_in(signed(exp=now - 10)))[
        "expires_at"
    ] == now - 10 + tokens.CLOCK_SKEW_SECONDS
    assert (await signed_in(signed(exp=10**30)))["expires_at"] < 2**53
    assert "expires_at" not in await signed_in("dev:acme:alice?exp=1&expires_at=1", LOCAL)


@given(
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60
    )
)
async def test_a_development_token_s_identity_is_everything_after_the_second_colon_percent_decoded(
    name: str,
) -> None:
    if not name.startswith(tokens.RESERVED_PREFIX):
        user = await signed_in(dev_token("acme", name), LOCAL)
        assert (user["identity"], user["org_id"], user["permissions"]) == (name, "acme", [])
    assert (await signed_in("dev:acme:urn:x:1", LOCAL))["identity"] == "urn:x:1"


@pytest.mark.parametrize(
    "token",
    [
        *(
            "dev:acme:langgraph-studio-user",
            "dev:acme:",
            "dev::alice",
            "dev:acme:ali%00ce",
            "dev:acme",
            "dev:acme:u%ff",
        ),
        *(
            "development:acme:alice",
            "dev:acme:" + "a" * 256,
            "dev:" + "a" * 256 + ":alice",
            "dev:acme:" + "%41" * 6000,
        ),
    ],
)
async def test_a_development_token_that_names_nobody_is_refused(token: str) -> None:
    assert await refusal(f"Bearer {token}", LOCAL)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Basic dev:acme:alice", "dev:acme:alice"])
async def test_a_header_without_a_token_is_refused_and_says_what_to_send_or_to_set(
    header: str | None,
) -> None:
    assert "Authorization: Bearer dev:<org>:<identity>" in await refusal(header, LOCAL)
    for sent in (
        header,
        "Bearer junk",
        f"Bearer {dev_token('acme', 'alice')}",
        f"Bearer {signed()}",
    ):
        for settings in (Settings(), dataclasses.replace(LOCAL, exposed=True)):
            assert "AUTH_JWKS_URL or AUTH_JWT_SECRET" in await refusal(sent, settings)


# --- Who is meant, by whom, and for whom
# -----------------------------------------------------------------------------


def settings_of(**environ: str) -> Settings:
    return load_settings({"AUTH_JWT_SECRET": SECRET, **environ})


@pytest.mark.parametrize(
    ("path", "there", "expected"),
    [
        ("uid", {"uid": "00u1"}, "00u1"),
        ("oid", {"oid": "c0ffee"}, "c0ffee"),
        ("uid", {"uid": 42}, "42"),
        ("uid", {"uid": ["lou"]}, "lou"),
        ("user.id", {"user": {"id": 7}}, "7"),
        ("email", {"email": "a@example.com", "email_verified": True}, "a@example.com"),
        (
            "user.email",
            {"user": {"email": "a@example.com", "email_verified": True}},
            "a@example.com",
        ),
        (
            "https://example.com/email",
            {
                "https://example.com/email": "a@example.com",
                "https://example.com/email_verified": True,
            },
            "a@example.com",
        ),
    ],
)
async def test_an_identity_may_be_in_another_claim_than_sub(
    path: str, there: dict[str, Any], expected: str
) -> None:
    settings = settings_of(AUTH_IDENTITY_CLAIM=path, OPERATORS=expected)
    user: Any = SignedIn(await signed_in(signed_payload(**{"sub": None, **there}), settings))
    assert user.identity == expected
    assert identity.is_operator(user, settings)
    said = await refusal(f"Bearer {signed(sub='alice')}", settings)
    assert f"no claim '{path}'" in said
    local = dataclasses.replace(LOCAL, auth_identity_claim=path)
    assert (await signed_in("dev:acme:alice?email_verified=false", local))["identity"] == "alice"


@pytest.mark.parametrize("verified", [None, False, "true", 1, [True], {"email": True}])
@pytest.mark.parametrize(
    "path", ["email", "user.email", "https://example.com/email", "emailaddress", "mail"]
)
async def test_an_email_address_that_is_not_verified_is_nobody_s_identity(
    path: str, verified: Any
) -> None:
    outer, _, inner = path.rpartition(".") if path.startswith("user") else ("", "", path)
    there = {
        inner: "mallory@example.com",
        f"{inner}_verified": verified,
        "email_verified": verified,
    }
    there["https://example.com/email_verified"] = verified
    said = await refusal(
        f"Bearer {signed_payload(**({outer: there} if outer else there))}",
        settings_of(AUTH_IDENTITY_CLAIM=path),
    )
    assert "email_verified' is" in said
    assert "mallory" not in said


async def test_an_issuer_may_have_several_spellings() -> None:
    """A person is the same one under all of them."""
    tenant = "3f2a6c1e-8a57-4b6e-9a27-0f5b7c1d2e3f"
    spellings = [
        ("https://id.example.com", ["https://id.example.com", "https://id.example.com/"]),
        ("https://id.example.com/", ["https://id.example.com", "https://id.example.com/"]),
        (
            "https://accounts.google.com, accounts.google.com",
            ["https://accounts.google.com", "accounts.google.com"],
        ),
        (
            f"https://login.microsoftonline.com/{tenant}/v2.0,https://sts.windows.net/{tenant}/",
            [
                f"https://login.microsoftonline.com/{tenant}/v2.0",
                f"https://sts.windows.net/{tenant}/",
            ],
        ),
    ]
    for listed, found in spellings:
        settings = settings_of(AUTH_ISSUER=listed)
        for spelling in found:
            assert (await signed_in(signed(iss=spelling), settings))["identity"] == "alice"
        for other in (
            "https://id.example.com.evil.example",
            "https://id.example.com//",
            "id.example.com",
            "HTTPS://ID.EXAMPLE.COM",
        ):
            said = await refusal(f"Bearer {signed(iss=other)}", settings)
            assert f"claim 'iss' is a text of {len(other)} bytes" in said
            assert "AUTH_ISSUER" in said


async def test_the_same_name_with_two_issuers_is_two_people() -> None:
    one, two = "https://one.example.com", "https://two.example.com/realms/x"
    settings = settings_of(AUTH_ISSUER=f"{one}/,{one},{two}", OPERATORS=f"{one}|root,alice")
    first, again = [
        await signed_in(signed(iss=spelling), settings) for spelling in (one, f"{one}/")
    ]
    assert first["identity"] == again["identity"] == f"{one}|alice"
    assert (await signed_in(signed(iss=two), settings))["identity"] == f"{two}|alice"
    reordered = settings_of(AUTH_ISSUER=f"{two},{one}")
    assert (await signed_in(signed(iss=one), reordered))["identity"] == f"{one}|alice"
    for iss, sub, operates in ((one, "root", True), (two, "root", False), (one, "alice", False)):
        user: Any = SignedIn(await signed_in(signed(iss=iss, sub=sub), settings))
        assert identity.is_operator(user, settings) is operates
    said = await refusal(f"Bearer {signed(iss=one, sub='a' * 250)}", settings)
    assert "claim 'sub' is with its issuer a text of 274 bytes" in said
    assert "langgraph-" in await refusal(
        f"Bearer {signed(iss=one, sub='langgraph-studio-user')}", settings
    )


@pytest.mark.parametrize(
    ("path", "there", "shape"),
    [
        ("client_id", {"client_id": AUDIENCE}, None),
        ("azp", {"azp": AUDIENCE, "aud": "account"}, None),
        ("azp", {"azp": "page"}, None),
        ("aud", {"aud": ["other", "page"]}, None),
        ("resource.aud", {"resource": {"aud": [AUDIENCE]}}, None),
        ("client_id", {"aud": AUDIENCE}, "no claim 'client_id'"),
        ("client_id", {"client_id": None}, "no claim 'client_id'"),
        ("client_id", {"client_id": []}, "'client_id' is an empty list"),
        ("client_id", {"client_id": "elsewhere"}, "'client_id' is a text of 9 bytes"),
        ("client_id", {"client_id": ["elsewhere", "third"]}, "'client_id' is a list of 2 values"),
        ("client_id", {"client_id": ""}, "'client_id' is an empty text"),
        ("client_id", {"client_id": 7}, "'client_id' is a number"),
        ("client_id", {"client_id": {AUDIENCE: {}}}, "'client_id' is an object"),
        ("client_id", {"client_id": [[AUDIENCE]]}, "'client_id' is a list with a list"),
        ("resource.aud", {"resource": AUDIENCE}, "'resource.aud' leads through 'resource'"),
        ("aud", {"aud": []}, "'aud' is an empty list"),
        ("aud", {"aud": f"{AUDIENCE},page"}, "'aud' is a text of 10 bytes"),
    ],
)
async def test_the_audience_is_in_the_claim_that_the_environment_names(
    path: str, there: dict[str, Any], shape: str | None
) -> None:
    settings = settings_of(AUTH_AUDIENCE=f"{AUDIENCE}, page", AUTH_AUDIENCE_CLAIM=path)
    token = signed_payload(**{"aud": None, **there})
    if shape is None:
        assert (await signed_in(token, settings))["identity"] == "alice"
    else:
        said = await refusal(f"Bearer {token}", settings)
        assert shape in said
        assert "elsewhere" not in said


async def test_a_token_for_nobody_is_refused_also_where_no_audience_is_checked() -> None:
    assert "'aud' is an empty list" in await refusal(f"Bearer {signed(aud=[])}", settings_of())
    assert (await signed_in(signed(aud=None), settings_of()))["identity"] == "alice"


async def test_two_keys_without_ids_are_not_taken_for_one(keys: KeyServer) -> None:
    settings = load_settings({"AUTH_JWKS_URL": keys.url})
    nameless = {name: value for name, value in jwk("one").items() if name != "kid"}
    other = {name: value for name, value in jwk("two").items() if name != "kid"}
    keys.answer = json.dumps({"keys": [nameless]}).encode()
    assert (await signed_in(signed(RSA_KEYS["one"], "RS256"), settings))["identity"] == "alice"
    keys.answer = json.dumps({"keys": [nameless, other]}).encode()
    for key in ("one", "two"):
        assert "'kid'" in await refusal(f"Bearer {signed(RSA_KEYS[key], 'RS256')}", settings)


# --- A key set
# -------------------------------------------------------------------------------------------------------


@pytest.fixture
def keys() -> Iterator[KeyServer]:
    with KeyServer() as keys:
        keys.serve("one")
        yield keys


@pytest.mark.parametrize(
    "payload",
    [b"[" * 5_000, b'{"exp": ' + b"9" * 5_000 + b"}", b'{"sub": "\xff"}', b"[]", b'"text"', b""],
)
async def test_a_payload_that_is_no_object_of_json_is_refused_in_our_own_words(
    payload: bytes,
) -> None:
    token = jwt.PyJWS().encode(payload, SECRET, "HS256")
    assert (
        await refusal(f"Bearer {token}", JWT) == "The token is not valid: it is no JSON web token."
    )


class Fetches:
    """The times that fetches of keys may take: each is over when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._limits = list[asyncio.Timeout]()
        monkeypatch.setattr(
            provider_keys,
            "asyncio",
            SimpleNamespace(**{**vars(asyncio), "timeout": self._without_end}),
        )

    def _without_end(self, _: float) -> asyncio.Timeout:
        self._limits.append(asyncio.timeout(None))
        return self._limits[-1]

    def end(self) -> None:
        """Their time is over now."""
        for limit in self._limits:
            with suppress(RuntimeError):  # that fetch has ended
                limit.reschedule(asyncio.get_running_loop().time())
        self._limits.clear()


async def asked_again(keys: KeyServer, asked: int) -> None:
    """Return when the provider was asked once more than so often."""
    async with asyncio.timeout(300):
        while keys.asked <= asked:  # noqa: ASYNC110  # its thread sets no event
            await asyncio.sleep(0.01)


async def test_a_known_key_waits_for_nobody_and_unknown_ones_ask_once(
    keys: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_keys, "COOLDOWN_SECONDS", -1)
    key_set, fetches = provider_keys.KeySet(keys.url), Fetches(monkeypatch)
    await key_set.key("one")
    asked = keys.asked
    keys.drips = True
    unknown = [asyncio.create_task(key_set.key(f"made up {number}")) for number in range(20)]
    await asked_again(keys, asked)
    assert (await key_set.key("one")).key_id == "one", "while the others wait"
    assert not any(task.done() for task in unknown)
    unknown.pop().cancel()  # which ends it for nobody else
    fetches.end()  # a drip comes for ever
    async with asyncio.timeout(300):
        outcomes = await asyncio.gather(*unknown, return_exceptions=True)
    assert all(isinstance(outcome, jwt.PyJWTError) for outcome in outcomes)
    assert keys.asked - asked == 1


async def test_keys_are_fetched_anew_and_not_believed_for_ever(
    keys: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("COOLDOWN_SECONDS", -1), ("REFRESH_SECONDS", -1)):
        monkeypatch.setattr(provider_keys, name, seconds)
    key_set, fetches = provider_keys.KeySet(keys.url), Fetches(monkeypatch)
    await key_set.key("one")
    keys.drips = True
    for _ in range(3):
        asked = keys.asked
        believed = asyncio.create_task(key_set.key("one"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert believed.done(), "the old key waits for no new one"
        await asked_again(keys, asked)
        fetching = key_set._fetch_task
        fetches.end()
        assert fetching is not None
        await asyncio.wait([fetching], timeout=300)
    monkeypatch.setattr(provider_keys, "KEPT_SECONDS", 0)
    waiting = asyncio.create_task(key_set.key("one"))
    asked = keys.asked
    await asked_again(keys, asked)
    fetches.end()
    with pytest.raises(ServerError):
        await waiting


@pytest.mark.parametrize("status", [302, 500])
async def test_keys_come_from_the_address_that_is_set_and_from_no_other(
    keys: KeyServer, status: int
) -> None:
    with KeyServer() as elsewhere:
        elsewhere.serve("one")
        keys.status, keys.headers = status, {"location": elsewhere.url, "content-length": "0"}
        with pytest.raises(ServerError):
            await provider_keys.KeySet(keys.url).key("one")
        assert elsewhere.asked == 0


PRIVATE = json.loads(
    jwt.algorithms.RSAAlgorithm.to_jwk(
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
)
OCT = base64.urlsafe_b64encode(b"a-shared-secret-of-at-least-32-bytes").decode()
NEVER = [
    jwk("two", use="enc"),
    {"kty": "oct", "kid": "two", "k": OCT},
    {"kty": "oct", "kid": "two", "k": OCT, "alg": "RS256"},
    {**PRIVATE, "kid": "two"},
    jwk("two", alg="HS256"),
    {"kty": "EC", "crv": "secp256k1", "kid": "two", "x": OCT, "y": OCT},
]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda of: st.lists(of) | st.dictionaries(st.text(), of),
)
SPOILED = st.builds(
    lambda field, junk: {**jwk("two"), field: junk}, st.sampled_from(["kty", "n", "e"]), st.text()
)


@given(bad=st.sampled_from(NEVER) | JUNK | SPOILED)
def test_keys_not_for_signatures_are_left_out_and_the_others_are_found(bad: Any) -> None:
    usable = provider_keys.usable_keys(json.dumps({"keys": [bad, jwk("one")]}).encode())
    ids = [key.key_id for key in usable]
    assert "one" in ids
    assert {key.algorithm_name for key in usable} <= set(provider_keys.ASYMMETRIC)
    assert bad not in NEVER or "two" not in ids


# --- On the real server
# ----------------------------------------------------------------------------------------------


def public_pem(kid: str) -> bytes:
    return RSA_KEYS[kid].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def hand_made_hmac(secret: bytes, kid: str | None) -> str:
    """A token signed by HMAC with a public key, which PyJWT itself refuses to make."""
    unsigned = hand_made({"alg": "HS256", **({"kid": kid} if kid else {})}).rpartition(".")[0]
    key = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    return f"{unsigned}.{base64.urlsafe_b64encode(key.sign(unsigned.encode(), secret)).decode().rstrip('=')}"


@pytest.mark.server
def test_tokens_of_the_key_set_are_believed_and_no_others(
    keys: KeyServer, shared_model: ScriptedAnthropic, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """While the keys cannot be fetched nobody gets in, and the status says try again. A key that
    they change to is believed.
    """
    env = {"AUTH_JWKS_URL": keys.url, "AUTH_ISSUER": ISSUER, "AUTH_AUDIENCE": AUDIENCE}
    with DevServer(tmp_path_factory.mktemp("keys"), env={**shared_model.env, **env}) as server:

        def ask(token: str) -> httpx.Response:
            headers = {"Authorization": f"Bearer {token}"}
            return httpx.post(
                f"{server.url}/threads", json={}, headers=headers, timeout=300, trust_env=False
            )

        def soon(token: str) -> bool:
            """Whether a token is believed in the end."""
            deadline = time.monotonic() + 300
            while (status := ask(token).status_code) != 200 and time.monotonic() < deadline:
                time.sleep(0.2)
            return status == 200

        keys.answer = b"<html>down for maintenance</html>"
        assert ask(rsa_signed("one")).status_code == 503
        keys.serve("one")
        assert soon(rsa_signed("one")), "a failure is not kept"
        alone = signed(RSA_KEYS["one"], "RS256"), signed(EC_KEY, "ES256")
        for good in (rsa_signed("one"), signed(EC_KEY, "ES256", "curve"), *alone):
            assert ask(good).json()["metadata"] == {"user_id": "alice", "org_id": "acme"}
        bad = {
            "a key that is not in the set": rsa_signed("never served"),
            "another key under a known id": rsa_signed("one", key="never served"),
            "no key id, and another key": signed(RSA_KEYS["never served"], "RS256"),
            "no key id, and the public key as a shared secret": hand_made_hmac(
                public_pem("one"), None
            ),
            "a key of another kind": signed(EC_KEY, "ES256", "one"),
            "the public key as a shared secret": hand_made_hmac(public_pem("one"), "one"),
            "a key set of its own": hand_made({"alg": "RS256", "kid": "x", "jku": keys.url}, b"x"),
        }
        assert {name: ask(token).status_code for name, token in bad.items()} == dict.fromkeys(
            bad, 401
        )
        keys.serve("two")
        asked = keys.asked
        assert soon(rsa_signed("two"))
        assert keys.asked - asked <= 2, (
            "made-up ids, and impatient callers, do not flood the provider"
        )
        assert ask(rsa_signed("one")).status_code == 401, (
            "the key it changed from is not believed any more"
        )
        keys.serve("one", "two")
        assert soon(rsa_signed("one"))
        assert ask(signed(RSA_KEYS["one"], "RS256")).status_code == 401, (
            "of two keys of its algorithm it names none"
        )
