"""Verifies tokens: development tokens on this machine, JSON web tokens everywhere else."""

import asyncio
import json
import logging
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import httpx
import jwt
from langgraph_sdk import Auth
from starlette.exceptions import HTTPException as ServerError

from memory.identity import Actor, IdentityError, check_person
from settings import Settings

# The platform's own identities begin so.
RESERVED_PREFIX = "langgraph-"
MAX_TOKEN_CHARS = 16_384
# Accepted difference between the clocks of this server and of a token's issuer.
CLOCK_SKEW_SECONDS = 30
MAX_JWKS_BYTES = 262_144
ASYMMETRIC = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

logger = logging.getLogger("auth")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def refused(detail: str) -> Auth.exceptions.HTTPException:
    """A 401 with the fault of the token, or the token to send."""
    return Auth.exceptions.HTTPException(status_code=401, detail=detail)


@dataclass(slots=True)
class KeyTimes:
    """Seconds."""

    cooldown: float = 5  # between two fetches, and so the longest refusal of a new key
    timeout: float = 5  # for the provider's whole answer
    refresh: float = 150  # the age from which on keys are refreshed in the background
    kept: float = 300  # the age after which they are no longer used


class KeySet:
    """An identity provider's public keys, cached; one task at a time fetches them, within bounds of time and size.

    Not `jwt.PyJWKClient`: its lock would make people with a known key wait for a slow provider, and it reads an answer of any
    length for as long as it drips.
    """

    def __init__(self, url: str, times: KeyTimes | None = None) -> None:
        self._url, self._times = url, times or KeyTimes()
        self._tls = ssl.create_default_context()  # reads files, so not in the event loop
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def key(self, key_id: str | None) -> jwt.PyJWK:
        """The key of this id. A known one needs no waiting; for an unknown one, the keys are fetched unless they just were.

        Raises `ServerError` 503 if the keys cannot be fetched, `jwt.PyJWTError` if there is none of this id.
        """
        now = time.monotonic()
        known = key_id in self._keys and now - self._fetched_at < self._times.kept
        stale = not known or now - self._fetched_at > self._times.refresh
        if stale and now - self._tried_at > self._times.cooldown:
            if self._fetching is None or self._fetching.done():
                self._fetching = asyncio.create_task(self._fetch())
            if not known:  # callers share one fetch, which goes on when one of them hangs up
                await asyncio.wait([self._fetching])
        if time.monotonic() - self._fetched_at >= self._times.kept:
            raise ServerError(503, "The identity provider's keys cannot be fetched; try again.")
        if key_id not in self._keys:
            raise jwt.PyJWTError("its key is not one of the identity provider's")
        return self._keys[key_id]

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(self._times.timeout):
                self._keys = await asyncio.to_thread(usable_keys, await self._answer())
            self._fetched_at = time.monotonic()
        except Exception as error:  # noqa: BLE001  # unreachable, too slow, or not a key set
            logger.warning("The identity provider's keys could not be fetched from %s: %r", self._url, error)
        finally:
            self._tried_at = time.monotonic()

    async def _answer(self) -> bytes:
        """The provider's answer as sent, without redirects or decompression."""
        body, headers = bytearray(), {"accept-encoding": "identity"}
        async with httpx.AsyncClient(verify=self._tls) as client, client.stream("GET", self._url, headers=headers) as response:
            async for part in response.aiter_raw():
                body += part
                if response.status_code != HTTPStatus.OK or len(body) > MAX_JWKS_BYTES:
                    raise ValueError(f"it answers {response.status_code}, and has more than {len(body) - 1} bytes")
        return bytes(body)


def usable_keys(answer: bytes) -> dict[str | None, jwt.PyJWK]:
    """The public keys for signatures in a JSON Web Key Set (RFC 7517), by id. Raises any error if it is none, or has none."""
    keys = jwt.PyJWKSet.from_dict(json.loads(answer)).keys
    signing = [key for key in keys if key.public_key_use in ("sig", None) and hasattr(key.key, "verify")]
    if usable := {key.key_id: key for key in reversed(signing) if key.algorithm_name in ASYMMETRIC}:
        return usable
    raise ValueError("it has no key that tokens may be signed with")


class Tokens:
    """Verifies Authorization headers."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._keys = KeySet(settings.auth_jwks_url) if settings.auth_jwks_url else None

    async def user(self, authorization: str | None) -> dict[str, Any]:
        """The user behind an Authorization header: `identity`, `org_id`, `permissions`. Raises a 401 for a missing or unusable
        token, and `KeySet.key`'s 503 (the SDK's exception would arrive as a 500).
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
        key: Any = self._settings.auth_jwt_secret
        try:
            if self._keys:  # the whole key, not its `.key`: a token must name the algorithm that this key is for
                key = await self._keys.key(jwt.get_unverified_header(token).get("kid"))
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=ASYMMETRIC if self._keys else ["HS256"],
                issuer=self._settings.auth_issuer,
                audience=self._settings.auth_audience,
                leeway=CLOCK_SKEW_SECONDS,
                options={"require": ["exp", "sub"], "verify_aud": self._settings.auth_audience is not None},
            )
        except jwt.PyJWTError as error:
            raise refused(f"The token is not valid: {error}.") from None
        return claims

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
    org, _, identity = token.removeprefix("dev:").partition(":")
    try:
        if not _BROKEN_ESCAPE.search(identity):
            return unquote(identity, errors="strict"), org, []
    except UnicodeDecodeError:
        pass
    raise refused("The identity in the token is not percent-encoded UTF-8.")


def _user(identity: str, org: str, permissions: list[str]) -> dict[str, Any]:
    try:
        check_person(Actor(identity, org))
    except IdentityError as error:
        raise refused(str(error)) from None
    if identity.startswith(RESERVED_PREFIX):
        raise refused(f"Identities that begin with {RESERVED_PREFIX!r} are the platform's own.")
    return {"identity": identity, "org_id": org, "permissions": permissions}
