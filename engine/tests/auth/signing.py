"""Tokens as the tests sign them, and the users who sign in with one."""

import base64
import dataclasses
import json
import time
from typing import Any

import jwt
import pytest
from langgraph_sdk import Auth

from lasting_memory.auth import tokens
from lasting_memory.settings import Settings, load_settings

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


def settings_of(**environ: str) -> Settings:
    return load_settings({"AUTH_JWT_SECRET": SECRET, **environ})
