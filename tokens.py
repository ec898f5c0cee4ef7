"""Who a token names: development tokens on this machine, JSON web tokens everywhere else."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import httpx
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
# For the whole answer, however slowly it comes.
JWKS_TIMEOUT_SECONDS = 5
# From the first on, the keys are fetched anew while they are still believed, so that nobody waits for it; until the second.
JWKS_REFRESH_SECONDS = 150
JWKS_KEPT_SECONDS = 300
MAX_JWKS_BYTES = 262_144
MAX_JWKS_KEYS = 200
ASYMMETRIC = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

logger = logging.getLogger("auth")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def refused(detail: str) -> Auth.exceptions.HTTPException:
    """A 401 that says what is wrong with the token, or what to send."""
    return Auth.exceptions.HTTPException(status_code=401, detail=detail)


class KeySet:
    """An identity provider's public keys: fetched by one task at a time, within bounds of time and size, and kept.

    A key that is known is found without waiting for anybody, also while the keys are fetched anew. For an unknown one they are
    fetched again, but not within `JWKS_COOLDOWN_SECONDS` of the last time.
    """

    def __init__(self, url: str) -> None:
        self._url = httpx.URL(url)
        self._tls = ssl.create_default_context()  # reads files, so not in the event loop
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def key(self, key_id: str | None) -> jwt.PyJWK:
        """The key of this id.

        Raises:
            ServerError: 503, the keys cannot be fetched.
            jwt.PyJWTError: the provider has no such key.
        """
        now = time.monotonic()
        age = now - self._fetched_at
        if age < JWKS_KEPT_SECONDS and key_id in self._keys:
            if age > JWKS_REFRESH_SECONDS and now - self._tried_at > JWKS_COOLDOWN_SECONDS:
                self._start()
            return self._keys[key_id]
        if age > JWKS_COOLDOWN_SECONDS:
            # Whoever comes while they are fetched goes by the outcome. Who hangs up does not end it for the others.
            await asyncio.wait([self._start()])
        if time.monotonic() - self._fetched_at >= JWKS_KEPT_SECONDS:
            raise ServerError(503, "The identity provider's keys cannot be fetched; try again.")
        if key_id not in self._keys:
            raise jwt.PyJWTError("its key is not one of the identity provider's")
        return self._keys[key_id]

    def _start(self) -> asyncio.Task[None]:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch())
        return self._fetching

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(JWKS_TIMEOUT_SECONDS):
                answer = await self._answer()
                self._keys = await asyncio.to_thread(usable_keys, answer)
        except (httpx.HTTPError, OSError, ValueError, RecursionError) as error:  # unreachable, too slow, or not a key set
            logger.warning("The identity provider's keys could not be fetched from %s: %r", self._url, error)
        else:
            self._fetched_at = time.monotonic()
        self._tried_at = time.monotonic()

    async def _answer(self) -> bytes:
        """What the provider answers, as it is sent: neither followed elsewhere nor unpacked."""
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        async with (
            httpx.AsyncClient(verify=self._tls, timeout=JWKS_TIMEOUT_SECONDS, follow_redirects=False) as client,
            client.stream("GET", self._url, headers=headers) as response,
        ):
            if response.status_code != HTTPStatus.OK:
                raise ValueError(f"it answers {response.status_code}")
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > MAX_JWKS_BYTES:
                    raise ValueError(f"it is longer than {MAX_JWKS_BYTES} bytes")
            return bytes(body)


def usable_keys(answer: bytes) -> dict[str | None, jwt.PyJWK]:
    """The keys of a JSON Web Key Set (RFC 7517) that tokens may be signed with, by id. The others are left out.

    Raises:
        ValueError: it is no key set, or has no such key.
        RecursionError: it is nested too deeply.
    """
    document = json.loads(answer)
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or len(keys) > MAX_JWKS_KEYS:
        raise ValueError(f"it is no object with a list of at most {MAX_JWKS_KEYS} keys")
    usable: dict[str | None, jwt.PyJWK] = {}
    for key in keys:
        if isinstance(key, dict) and (public := _public_key(key)):
            usable.setdefault(public.key_id, public)
    if not usable:
        raise ValueError("it has no key that tokens may be signed with")
    return usable


def _public_key(key: dict[str, Any]) -> jwt.PyJWK | None:
    """A public key for signatures, for one of the algorithms that are allowed; None for anything else."""
    operations = key.get("key_ops") or ["verify"]
    for_signatures = (key.get("use") or "sig") == "sig" and isinstance(operations, list) and "verify" in operations
    named = isinstance(key.get("kid"), str | None) and (key.get("alg") or ASYMMETRIC[0]) in ASYMMETRIC
    if not for_signatures or not named or "d" in key:
        return None
    try:
        public = jwt.PyJWK(key)
    except (jwt.PyJWTError, TypeError, ValueError):  # whatever is wrong with it, the others are keys
        return None
    return public if public.algorithm_name in ASYMMETRIC else None


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
        texts = [permission for permission in permissions if isinstance(permission, str) and permission.isprintable()]
        return claims["sub"], org, texts


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
