"""Verifies tokens: development tokens on this machine, JSON web tokens everywhere else."""

import asyncio
import json
import logging
import ssl
import time
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

import httpx
import jwt
from langgraph_sdk import Auth
from starlette.exceptions import HTTPException as ServerError

from lasting_memory import platform
from lasting_memory.auth.claims import UnreadableClaimError, name_at, texts_at
from lasting_memory.people.identity import OPERATE
from lasting_memory.settings import Settings

# The platform's own identities begin so.
RESERVED_PREFIX = "langgraph-"
MAX_TOKEN_CHARS = 16_384
# Accepted difference between the clocks of this server and of a token's issuer.
CLOCK_SKEW_SECONDS = 30
# Seconds for the provider's whole answer. Seconds between two fetches, and so the longest refusal of a new key.
FETCH_SECONDS, COOLDOWN_SECONDS = 5, 5
# Ages of keys, in seconds: from the first on they are refreshed in the background, after the second they are no longer used.
REFRESH_SECONDS, KEPT_SECONDS = 150, 300
# The latest time of expiry that is passed on, in seconds since 1970: the end of the year 9999. JSON takes no larger numbers.
_LATEST = 253_402_300_799
ASYMMETRIC = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

logger = logging.getLogger("auth")


def _refused(detail: str) -> Auth.exceptions.HTTPException:
    return Auth.exceptions.HTTPException(status_code=401, detail=detail)


class KeySet:
    """An identity provider's public keys, cached; one task at a time fetches them.

    Not `jwt.PyJWKClient`: its lock would make people with a known key wait for a slow provider, as long as its answer drips.
    """

    def __init__(self, url: str) -> None:
        self._url, self._tls = url, ssl.create_default_context()  # reads files, so not in the event loop
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def key(self, key_id: str | None) -> jwt.PyJWK:
        """The key of this id. A known one needs no waiting; for an unknown one, the keys are fetched unless they just were.

        Raises `ServerError` 503 if the keys cannot be fetched, `jwt.PyJWTError` if there is none of this id.
        """
        now = time.monotonic()
        known = key_id in self._keys and now - self._fetched_at < KEPT_SECONDS
        if (not known or now - self._fetched_at > REFRESH_SECONDS) and now - self._tried_at > COOLDOWN_SECONDS:
            if self._fetching is None or self._fetching.done():
                self._fetching = asyncio.create_task(self._fetch())
            if not known:  # callers share one fetch, which goes on when one of them hangs up
                await asyncio.wait([self._fetching])
        if time.monotonic() - self._fetched_at >= KEPT_SECONDS:
            raise ServerError(503, "The identity provider's keys cannot be fetched; try again.")
        if key_id not in self._keys:
            raise jwt.PyJWTError("its key is not one of the identity provider's")
        return self._keys[key_id]

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(FETCH_SECONDS), httpx.AsyncClient(verify=self._tls) as client:
                answer = (await client.get(self._url)).raise_for_status()
            self._keys = await platform.in_thread(usable_keys, answer.content)
            self._fetched_at = time.monotonic()
        except Exception as error:  # noqa: BLE001  # unreachable, too slow, or not a key set
            logger.warning("The identity provider's keys could not be fetched from %s: %r", self._url, error)
        finally:
            self._tried_at = time.monotonic()


def usable_keys(answer: bytes) -> dict[str | None, jwt.PyJWK]:
    """The public keys for signatures in a JSON Web Key Set (RFC 7517), by id. Raises any error if it is none, or has none."""
    usable = {
        key.key_id: key
        for key in reversed(jwt.PyJWKSet.from_dict(json.loads(answer)).keys)
        if key.public_key_use in ("sig", None) and hasattr(key.key, "verify") and key.algorithm_name in ASYMMETRIC
    }
    if not usable:
        raise ValueError("it has no key that tokens may be signed with")
    return usable


class Tokens:
    """Verifies Authorization headers. `claims` are the names, or paths, of those to keep for routes that are a group's."""

    def __init__(self, settings: Settings, claims: Collection[str] = ()) -> None:
        self._settings, self._claims = settings, claims
        self._keys = KeySet(settings.auth_jwks_url) if settings.auth_jwks_url else None

    async def user(self, authorization: str | None) -> dict[str, Any]:
        """The user behind an Authorization header: `identity`, `org_id`, `permissions` and the kept `claims`, if there are any.

        `expires_at` says until when a JSON web token proves this, in seconds since 1970. Development tokens have no end.
        Raises a 401 for a missing or unusable token, and `KeySet.key`'s 503 (the SDK's exception would arrive as a 500).
        """
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() == "bearer" and 0 < len(token) <= MAX_TOKEN_CHARS:
            if self._settings.uses_jwt:
                claims = await self._verified_claims(token)
                return {**self._user_of(claims), "expires_at": _expiry_of(claims)}
            if self._settings.accepts_dev_tokens and token.startswith("dev:"):
                return self._user_of(self._dev_claims(token))
        if self._settings.accepts_dev_tokens:
            raise _refused("Sign in with 'Authorization: Bearer dev:<org>:<identity>', e.g. dev:acme:alice@example.com.")
        raise _refused("Sign in with 'Authorization: Bearer <token>'. Operators set AUTH_JWKS_URL or AUTH_JWT_SECRET for that.")

    def _dev_claims(self, token: str) -> dict[str, Any]:
        org, _, rest = token.removeprefix("dev:").partition(":")
        name, _, query = rest.partition("?")
        try:  # strictly: with a character in place of each wrong byte, two tokens would be one person
            name = unquote(name, errors="strict")
            claims = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True, strict_parsing=True, errors="strict")
        except ValueError:
            raise _refused("The token is not percent-encoded UTF-8 as in dev:acme:alice?team_id=red.") from None
        if not len(dict(claims)) == len(claims) == query.count("="):
            raise _refused("After '?' the token names each claim once, as in dev:acme:alice?team_id=red.")
        # A claim that settings or routes name by a path is here under that whole name, which comes before a path.
        return {**dict(claims), self._settings.org_claim: org, self._settings.auth_permissions_claim: [], "sub": name}

    async def _verified_claims(self, token: str) -> dict[str, Any]:
        key: Any = self._settings.auth_jwt_secret
        try:
            if self._keys:  # the whole key, not its `.key`: a token must name the algorithm that this key is for
                key = await self._keys.key(jwt.get_unverified_header(token).get("kid"))
            return jwt.decode(
                token,
                key,
                algorithms=ASYMMETRIC if self._keys else ["HS256"],
                issuer=self._settings.auth_issuer,
                audience=self._settings.auth_audience,
                leeway=CLOCK_SKEW_SECONDS,
                options={"require": ["exp", "sub"], "verify_aud": self._settings.auth_audience is not None},
            )
        except jwt.InvalidSignatureError:
            raise _refused("The token is not valid: its signature is not that of the key.") from None
        except jwt.DecodeError:  # whose text may be Python's own, of a payload that is no JSON
            raise _refused("The token is not valid: it is no JSON web token.") from None
        except jwt.PyJWTError as error:
            raise _refused(f"The token is not valid: {error}.") from None

    def _user_of(self, claims: Mapping[str, Any]) -> dict[str, Any]:
        """The user that verified claims name. Raises a 401 that names the claim which cannot be read, and never its value."""
        try:
            identity = name_at(claims, "sub")
            permissions = texts_at(claims, self._settings.auth_permissions_claim)
            org_id = name_at(claims, self._settings.org_claim)
            groups = {path: name_at(claims, path) for path in self._claims}
        except UnreadableClaimError as error:
            raise _refused(f"The token's claim {error}.") from None
        if identity is None:
            raise _refused("The token has no claim 'sub', which names the person.")
        if identity.startswith(RESERVED_PREFIX):
            raise _refused(f"Identities that begin with {RESERVED_PREFIX!r} are the platform's own.")
        is_operator = identity in self._settings.operators or OPERATE in permissions
        if org_id is None and self._settings.requires_org and not is_operator:
            fix = "Operators set DEFAULT_ORG if people without it belong to one organization."
            raise _refused(f"The token has no claim {self._settings.org_claim!r}, which names the organization. {fix}")
        user = {"identity": identity, "org_id": org_id or self._settings.fallback_org, "permissions": permissions}
        kept = {path: name for path, name in groups.items() if name is not None}
        return {**user, "claims": kept} if kept else user


def _expiry_of(claims: Mapping[str, Any]) -> int:
    """When a token's claims stop to hold, in seconds since 1970.

    A token that is accepted for the clocks' difference alone holds until that is over, too: its request needs its claims.
    """
    expires_at = int(claims["exp"])
    if expires_at <= time.time():
        expires_at += CLOCK_SKEW_SECONDS
    return min(expires_at, _LATEST)
