"""Who a token names: development tokens on this machine, JSON web tokens everywhere else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import jwt
from langgraph_sdk import Auth
from starlette.exceptions import HTTPException as ServerError

from memory import scopes
from settings import CLOCK_SKEW_SECONDS, Settings

# Identities that the platform uses for itself.
RESERVED_PREFIX = "langgraph-"
MAX_TOKEN_CHARS = 16_384
# An unknown key id makes the key set fetched again, at most this often: a new key is refused no longer than that.
JWKS_COOLDOWN_SECONDS = 5
JWKS_TIMEOUT_SECONDS = 5
ASYMMETRIC = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def refused(detail: str) -> Auth.exceptions.HTTPException:
    """A 401 that says what is wrong with the token, or what to send."""
    return Auth.exceptions.HTTPException(status_code=401, detail=detail)


class Tokens:
    """Verifies Authorization headers as the settings say.

    Args:
        settings: the JWT settings; whether this is `langgraph dev`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        url = settings.auth_jwks_url
        self._jwks: jwt.PyJWKClient | None = None
        if url:
            self._jwks = jwt.PyJWKClient(url, timeout=JWKS_TIMEOUT_SECONDS, cooldown_duration=JWKS_COOLDOWN_SECONDS)

    async def user(self, authorization: str | None) -> dict[str, Any]:
        """The user behind an Authorization header: `identity`, `org_id`, `permissions`.

        Raises:
            Auth.exceptions.HTTPException: 401, the token is missing or unusable.
            ServerError: 503, the identity provider's keys cannot be fetched. The SDK's exception would arrive as a 500.
        """
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise refused(self._how_to_sign_in())
        if len(token) > MAX_TOKEN_CHARS:
            raise refused(f"The token is longer than {MAX_TOKEN_CHARS} characters.")
        if self._settings.uses_jwt:
            return _user(*self._named_by(await self._verified_claims(token)))
        if self._settings.local_dev and token.startswith("dev:"):
            return _user(*_dev_identity(token))
        raise refused(self._how_to_sign_in())

    def _how_to_sign_in(self) -> str:
        if self._settings.uses_jwt:
            return "Send 'Authorization: Bearer <token>' with a token of this deployment's identity provider."
        if self._settings.local_dev:
            return (
                "Send 'Authorization: Bearer dev:<org>:<identity>', e.g. dev:acme:alice@example.com, percent-encoded."
            )
        return "Nobody can sign in yet: set AUTH_JWKS_URL or AUTH_JWT_SECRET. Studio works through LangSmith."

    async def _verified_claims(self, token: str) -> Mapping[str, Any]:
        settings = self._settings
        try:
            key, algorithms = await self._key(token)
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=algorithms,
                issuer=settings.auth_issuer,
                audience=settings.auth_audience,
                leeway=CLOCK_SKEW_SECONDS,
                options={"require": ["exp", "sub"], "verify_aud": settings.auth_audience is not None},
            )
        except jwt.PyJWTError as error:
            raise refused(f"The token is not valid: {error}.") from None
        return claims

    async def _key(self, token: str) -> tuple[Any, list[str]]:
        if self._jwks is None:
            return self._settings.auth_jwt_secret, ["HS256"]
        # Fetching keys blocks; a key set is kept for five minutes, and fetched again for an unknown key id.
        try:
            key = await asyncio.to_thread(self._jwks.get_signing_key_from_jwt, token)
        except (jwt.PyJWKClientConnectionError, OSError, ValueError):  # unreachable, cut off, or not JSON
            raise ServerError(503, "The identity provider's keys cannot be fetched; try again.") from None
        # The whole key, not its `.key`: a token must name the algorithm that this key is for.
        return key, ASYMMETRIC

    def _named_by(self, claims: Mapping[str, Any]) -> tuple[str, str, list[str]]:
        org = claims.get(self._settings.auth_org_claim)
        if org is None:  # an empty one is an error, not the default organization
            org = self._settings.default_org
        permissions = claims.get(self._settings.auth_permissions_claim) or []
        if isinstance(permissions, str):  # OAuth's own `scope` claim is one string
            permissions = permissions.split()
        if not isinstance(org, str) or not isinstance(permissions, list):
            raise refused("The token's organization is not text, or its permissions are no list.")
        return claims["sub"], org, [permission for permission in permissions if isinstance(permission, str)]


def _dev_identity(token: str) -> tuple[str, str, list[str]]:
    _, _, rest = token.partition(":")
    org, _, identity = rest.partition(":")
    broken = refused("The identity in the token is not percent-encoded UTF-8.")
    if _BROKEN_ESCAPE.search(identity):
        raise broken
    try:
        return unquote(identity, errors="strict"), org, []
    except UnicodeDecodeError:
        raise broken from None


def _user(identity: str, org: str, permissions: list[str]) -> dict[str, Any]:
    try:
        scopes.policies(org)
        scopes.label(identity)
    except scopes.IdentityError as error:
        raise refused(str(error)) from None
    if identity.startswith(RESERVED_PREFIX):
        raise refused(f"Identities that begin with {RESERVED_PREFIX!r} are the platform's own.")
    return {"identity": identity, "org_id": org, "permissions": permissions}
