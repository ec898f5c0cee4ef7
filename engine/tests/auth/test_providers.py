"""The table of providers in docs/sign-in.md: the settings of a row read tokens of that provider,
signed with own keys.
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from langgraph_sdk import Auth

from lasting_memory.auth.tokens import Tokens, TokenUser
from lasting_memory.settings import Settings, load_settings
from tests.auth.key_server import KeyServer

SIGN_IN = (Path(__file__).parents[2] / "docs/sign-in.md").read_text("utf-8")
SECRET = "a-shared-secret-of-at-least-32-bytes"
TENANT = "3f2a6c1e-8a57-4b6e-9a27-0f5b7c1d2e3f"
KEYCLOAK: dict[str, Any] = {
    "iss": "https://id.example.com/realms/acme", "aud": "account", "azp": "agent-page", "sub": "f3e1", "typ": "Bearer",
    "scope": "openid organization", "realm_access": {"roles": ["offline_access", "policies:write"]},
    "resource_access": {"account": {"roles": ["manage-account"]}}, "email_verified": False,
}  # fmt: skip
ENTRA: dict[str, Any] = {
    "oid": "5a0e",
    "sub": "pairwise",
    "tid": TENANT,
    "roles": ["policies:write"],
    "scp": "chat",
}


class Example(NamedTuple):
    """A person's token, as the provider documents it, and who that is."""

    claims: dict[str, Any]
    identity: str
    org: str
    permissions: list[str]
    elsewhere: dict[
        str, Any
    ]  # what another application's token, or another person's, has in place of these claims
    algorithm: str = "RS256"


EXAMPLES = [
    (
        "Auth0",
        Example(
            {
                "iss": "https://acme.eu.auth0.com/",
                "sub": "auth0|65a",
                "azp": "page",
                "scope": "openid policies:write",
                "aud": ["https://agent.example.com", "https://acme.eu.auth0.com/userinfo"],
                "org_id": "org_A",
                "permissions": ["policies:write"],
            },
            "auth0|65a",
            "org_A",
            ["policies:write"],
            {"aud": "https://acme.eu.auth0.com/api/v2/"},
        ),
    ),
    (
        "Okta",
        Example(
            {
                "ver": 1,
                "iss": "https://acme.okta.com/oauth2/default",
                "aud": "api://default",
                "cid": "0oa1",
                "uid": "00u1",
                "scp": ["openid", "policies:write"],
                "sub": "alice@example.com",
                "auth_time": 1,
            },
            "00u1",
            "acme",
            ["openid", "policies:write"],
            {"aud": "https://acme.okta.com"},
        ),
    ),
    (
        "Microsoft Entra ID",
        Example(
            {
                **ENTRA,
                "ver": "2.0",
                "iss": f"https://login.microsoftonline.com/{TENANT}/v2.0",
                "aud": "7b1d-client",
                "azp": "page",
            },
            "5a0e",
            TENANT,
            ["policies:write"],
            {"aud": "00000003-0000-0000-c000-000000000000"},
        ),
    ),
    (
        "Microsoft Entra ID",
        Example(
            {
                **ENTRA,
                "ver": "1.0",
                "iss": f"https://sts.windows.net/{TENANT}/",
                "aud": "api://7b1d-client",
                "appid": "page",
            },
            "5a0e",
            TENANT,
            ["policies:write"],
            {"iss": "https://sts.windows.net/9188040d-6c67-4c5b-b112-36a304b66dad/"},
        ),
    ),
    (
        "Keycloak",
        Example(
            {**KEYCLOAK, "organization": {"acme": {}}},
            "f3e1",
            "acme",
            ["offline_access", "policies:write"],
            {"azp": "another-client"},
        ),
    ),
    (
        "Keycloak",
        Example(
            {**KEYCLOAK, "organization": ["acme"]},
            "f3e1",
            "acme",
            ["offline_access", "policies:write"],
            {"organization": ["acme", "globex"]},
        ),
    ),
    (
        "Amazon Cognito",
        Example(
            {
                "iss": "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_AbC",
                "client_id": "4f7client",
                "sub": "aa-bb",
                "token_use": "access",
                "scope": "openid",
                "cognito:groups": ["policies:write"],
                "username": "alice",
                "version": 2,
            },
            "aa-bb",
            "acme",
            ["policies:write"],
            {"client_id": "another"},
        ),
    ),
    (
        "Clerk",
        Example(
            {
                "iss": "https://clerk.example.com",
                "sub": "user_2a",
                "azp": "https://chat.example.com",
                "sid": "sess_1",
                "v": 2,
                "fva": [0, -1],
                "o": {
                    "id": "org_A",
                    "rol": "admin",
                    "slg": "acme",
                    "per": "read,manage",
                    "fpm": "1",
                },
            },
            "user_2a",
            "org_A",
            [],
            {"azp": "https://evil.example.com"},
        ),
    ),
    (
        "Supabase",
        Example(
            {
                "iss": "https://abcd.supabase.co/auth/v1",
                "aud": "authenticated",
                "sub": "123e",
                "role": "authenticated",
                "aal": "aal1",
                "email": "alice@example.com",
                "is_anonymous": False,
                "app_metadata": {"provider": "email", "org_id": "org_A"},
                "user_metadata": {"org_id": "org_B", "permissions": ["memory:operate"]},
            },
            "123e",
            "org_A",
            [],
            {"app_metadata": {"provider": "email"}},
            "ES256",
        ),
    ),
    (
        "Firebase",
        Example(
            {
                "iss": "https://securetoken.google.com/acme-project",
                "aud": "acme-project",
                "sub": "uid1",
                "user_id": "uid1",
                "auth_time": 1,
                "firebase": {
                    "identities": {"email": ["alice@example.com"]},
                    "sign_in_provider": "password",
                    "tenant": "acme-x1",
                },
            },
            "uid1",
            "acme-x1",
            [],
            {"aud": "another-project"},
        ),
    ),
    (
        "Google",
        Example(
            {
                "iss": "https://accounts.google.com",
                "aud": "1234.apps.googleusercontent.com",
                "azp": "1234.apps.googleusercontent.com",
                "sub": "1089",
                "hd": "example.com",
                "email": "alice@example.com",
                "email_verified": True,
                "at_hash": "x",
            },
            "1089",
            "example.com",
            [],
            {"hd": None},
        ),
    ),
    (
        "Google",
        Example(
            {
                "iss": "accounts.google.com",
                "aud": "1234.apps.googleusercontent.com",
                "sub": "1089",
                "hd": "example.com",
            },
            "1089",
            "example.com",
            [],
            {"iss": "https://accounts.google.com.example.com"},
        ),
    ),
    (
        "WorkOS",
        Example(
            {
                "iss": "https://api.workos.com/",
                "sub": "user_01H",
                "sid": "session_01H",
                "org_id": "org_01H",
                "role": "member",
                "roles": ["member"],
                "permissions": ["policies:write"],
                "entitlements": ["audit-logs"],
            },
            "user_01H",
            "org_01H",
            ["policies:write"],
            {"org_id": None},
        ),
    ),
    (
        "ZITADEL",
        Example(
            {
                "iss": "https://acme.zitadel.cloud",
                "sub": "1634",
                "aud": ["1600client", "2963project"],
                "client_id": "1600client",
                "urn:zitadel:iam:org:project:roles": {"policies:write": {"1631": "acme.example"}},
                "urn:zitadel:iam:user:resourceowner:id": "1631",
                "urn:zitadel:iam:user:resourceowner:name": "Acme",
            },
            "1634",
            "1631",
            ["policies:write"],
            {"aud": ["1600client"]},
        ),
    ),
    (
        "your own",
        Example(
            {
                "iss": "https://app.example.com/",
                "aud": "agent",
                "user_id": 42,
                "scope": "read policies:write",
            },
            "42",
            "acme",
            ["read", "policies:write"],
            {"user_id": 4.2},
            "HS256",
        ),
    ),
]


def rows() -> dict[str, dict[str, str]]:
    """By provider, the settings of the table, without the key set's address."""
    table = SIGN_IN.partition("## Providers")[2].partition("\n## ")[0]
    lines = [
        line.strip("|").split(" | ")
        for line in table.splitlines()
        if line.startswith("| ") and "`AUTH_ISSUER=" in line
    ]
    return {cells[0].strip(): dict(re.findall(r"`([A-Z_]+)=([^`]*)`", cells[2])) for cells in lines}


@pytest.fixture
def keys() -> Iterator[KeyServer]:
    with KeyServer() as keys:
        yield keys


def own_key(algorithm: str) -> Any:
    """A private key that nobody else has."""
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    return (
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
        if algorithm == "RS256"
        else SECRET
    )


def served(key: Any, algorithm: str, keys: KeyServer) -> dict[str, str]:
    """The settings for tokens of this key, which the server has in its key set from now on."""
    if algorithm == "HS256":
        return {"AUTH_JWT_SECRET": SECRET}
    to_jwk = (
        jwt.algorithms.ECAlgorithm.to_jwk
        if algorithm == "ES256"
        else jwt.algorithms.RSAAlgorithm.to_jwk
    )
    public = {**json.loads(to_jwk(key.public_key())), "kid": "own", "use": "sig", "alg": algorithm}
    keys.answer = json.dumps({"keys": [public]}).encode()
    return {"AUTH_JWKS_URL": keys.url}


async def user_of(
    claims: dict[str, Any], key: Any, algorithm: str, settings: Settings
) -> TokenUser:
    """Who somebody with these claims is."""
    now = int(time.time())
    payload = {
        name: value
        for name, value in {"iat": now, "exp": now + 300, **claims}.items()
        if value is not None
    }
    token = jwt.PyJWS().encode(json.dumps(payload).encode(), key, algorithm, headers={"kid": "own"})
    return await Tokens(settings).user(f"Bearer {token}")


def test_every_row_of_the_table_of_providers_has_an_example() -> None:
    assert list(rows()) == list(dict(EXAMPLES))
    assert len(rows()) >= 10


@pytest.mark.parametrize(
    ("provider", "example"), EXAMPLES, ids=[f"{name} {n}" for n, (name, _) in enumerate(EXAMPLES)]
)
async def test_the_settings_of_a_row_read_the_provider_s_tokens(
    provider: str, example: Example, keys: KeyServer
) -> None:
    key = own_key(example.algorithm)
    settings = load_settings({**served(key, example.algorithm, keys), **rows()[provider]})
    user = await user_of(example.claims, key, example.algorithm, settings)
    assert (user["identity"], user["org_id"], user["permissions"]) == (
        example.identity,
        example.org,
        example.permissions,
    )
    assert (settings.auth_issuer, settings.requires_org) == (
        rows()[provider]["AUTH_ISSUER"],
        "DEFAULT_ORG" not in rows()[provider],
    )
    with pytest.raises(Auth.exceptions.HTTPException) as refused:
        await user_of({**example.claims, **example.elsewhere}, key, example.algorithm, settings)
    assert refused.value.status_code == 401
    if example.algorithm != "HS256":
        with pytest.raises(Auth.exceptions.HTTPException) as refused:
            await user_of(example.claims, own_key(example.algorithm), example.algorithm, settings)
        assert refused.value.status_code == 401
