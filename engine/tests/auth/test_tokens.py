"""Which tokens are believed, and whom they name."""

import base64
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasting_memory.auth import tokens
from lasting_memory.people import identity
from lasting_memory.settings import Settings
from lasting_memory.testing.dev_server import dev_token
from lasting_memory.testing.people import SignedIn
from tests.auth.signing import (
    AUDIENCE,
    ISSUER,
    JWT,
    LOCAL,
    SECRET,
    hand_made,
    refusal,
    signed,
    signed_in,
    signed_payload,
)

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
