"""Who is meant by a token, by whom, and for whom: its identity, issuer and audience."""

import dataclasses
from typing import Any

import pytest

from lasting_memory.people import identity
from lasting_memory.testing.people import SignedIn
from tests.auth.signing import (
    AUDIENCE,
    LOCAL,
    refusal,
    settings_of,
    signed,
    signed_in,
    signed_payload,
)


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
