"""Who a token names: development tokens on this machine, JSON web tokens everywhere else."""

from __future__ import annotations

import asyncio
import logging
import re
import time
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
# A new key is refused no longer than this.
JWKS_COOLDOWN_SECONDS = 5
JWKS_TIMEOUT_SECONDS = 5
JWKS_KEPT_SECONDS = 300
ASYMMETRIC = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

logger = logging.getLogger("auth")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def refused(detail: str) -> Auth.exceptions.HTTPException:
    """A 401 that says what is wrong with the token, or what to send."""
    return Auth.exceptions.HTTPException(status_code=401, detail=detail)


class KeySet:
    """An identity provider's public keys: fetched off the event loop, by one request at a time, and kept.

    A key that is known is found without waiting for anybody. For an unknown one the keys are fetched again, but not within
    `JWKS_COOLDOWN_SECONDS` of the last time.
    """

    def __init__(self, url: str) -> None:
        self._client = jwt.PyJWKClient(url, cache_jwk_set=False, timeout=JWKS_TIMEOUT_SECONDS)
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._turn = asyncio.Lock()

    async def key(self, key_id: str | None) -> jwt.PyJWK:
        """The key of this id.

        Raises:
            ServerError: 503, the keys cannot be fetched.
            jwt.PyJWTError: the provider has no such key.
        """
        asked_at = time.monotonic()
        if self._is_fresh(asked_at) and key_id in self._keys:
            return self._keys[key_id]
        async with self._turn:
            # Whoever waited for another's attempt goes by its outcome.
            if self._tried_at < asked_at and asked_at - self._fetched_at > JWKS_COOLDOWN_SECONDS:
                await self._fetch()
        if not self._is_fresh(asked_at):
            raise ServerError(503, "The identity provider's keys cannot be fetched; try again.")
        if key_id not in self._keys:
            raise jwt.PyJWTError("its key is not one of the identity provider's")
        return self._keys[key_id]

    def _is_fresh(self, now: float) -> bool:
        return now - self._fetched_at < JWKS_KEPT_SECONDS

    async def _fetch(self) -> None:
        try:
            data = await asyncio.to_thread(self._client.fetch_data)
            self._keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(data).keys}
        except (jwt.PyJWTError, OSError, ValueError):  # unreachable, cut off, or not a key set
            logger.warning("The identity provider's keys could not be fetched from %s.", self._client.uri)
        else:
            self._fetched_at = time.monotonic()
        self._tried_at = time.monotonic()


class Tokens:
    """Verifies Authorization headers as the settings say.

    Args:
        settings: the JWT settings; whether this is `langgraph dev`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._keys = KeySet(settings.auth_jwks_url) if settings.auth_jwks_url else None

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
        if self._settings.accepts_dev_tokens and token.startswith("dev:"):
            return _user(*_dev_identity(token))
        raise refused(self._how_to_sign_in())

    def _how_to_sign_in(self) -> str:
        if self._settings.uses_jwt:
            return "Send 'Authorization: Bearer <token>' with a token of this deployment's identity provider."
        if self._settings.accepts_dev_tokens:
            return "Send 'Authorization: Bearer dev:<org>:<identity>', e.g. dev:acme:alice@example.com, percent-encoded."
        if self._settings.local_dev:
            return "This server can be reached from elsewhere: set AUTH_JWT_SECRET, or DEV_TOKENS=anywhere to let anybody in."
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
        if self._keys is None:
            return self._settings.auth_jwt_secret, ["HS256"]
        # The whole key, not its `.key`: a token must name the algorithm that this key is for.
        return await self._keys.key(jwt.get_unverified_header(token).get("kid")), ASYMMETRIC

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
        scopes.check_person(scopes.Actor(identity, org))
    except scopes.IdentityError as error:
        raise refused(str(error)) from None
    if identity.startswith(RESERVED_PREFIX):
        raise refused(f"Identities that begin with {RESERVED_PREFIX!r} are the platform's own.")
    return {"identity": identity, "org_id": org, "permissions": permissions}
