"""Verifies tokens: development tokens on this machine, JSON web tokens everywhere else.

A token that is not taken is refused with 401 and the reason. `UnreadableClaimError` is the reason
that a claim gives; `_user` and `_user_of_dev_token` make a refusal of it.
"""

import time
from collections.abc import Collection, Mapping
from typing import NotRequired, TypedDict, cast
from urllib.parse import parse_qsl, unquote

import jwt
from langgraph_sdk import Auth

from lasting_memory.auth.claims import (
    UnreadableClaimError,
    claim_at,
    identity_at,
    name_at,
    shape_of,
    texts_at,
    verification_of,
)
from lasting_memory.auth.issuers import Issuers
from lasting_memory.auth.provider_keys import ASYMMETRIC, KeySet
from lasting_memory.people.identity import MAX_IDENTITY_BYTES, OPERATE
from lasting_memory.settings import Settings

# The platform's own identities begin so.
RESERVED_PREFIX = "langgraph-"
MAX_TOKEN_CHARS = 16_384
# Accepted difference between the clocks of this server and of a token's issuer.
CLOCK_SKEW_SECONDS = 30
# The latest time of expiry that is passed on, in seconds since 1970: the end of the year 9999. JSON
# takes no larger numbers.
_LATEST_EXPIRY = 253_402_300_799


def _refused(detail: str) -> Auth.exceptions.HTTPException:
    """The 401 with this reason, to be raised."""
    return Auth.exceptions.HTTPException(status_code=401, detail=detail)


class TokenUser(TypedDict):
    """The user that a token names, as the platform passes it on.

    `claims` are those of groups, if there are any. `expires_at` says until when a JSON web token
    proves all this, in seconds since 1970; a development token has no end.
    """

    identity: str
    org_id: str
    permissions: list[str]
    claims: NotRequired[dict[str, str]]
    expires_at: NotRequired[int]


class Tokens:
    """Verifies Authorization headers.

    `claims` are the names, or paths, of the claims to keep for routes that are a group's.
    """

    def __init__(self, settings: Settings, claims: Collection[str] = ()) -> None:
        self._settings = settings
        self._claims = claims
        self._keys = None
        if settings.auth_jwks_url:
            self._keys = KeySet(settings.auth_jwks_url)
        self._issuers = Issuers(settings.issuers)

    async def user(self, authorization: str | None) -> TokenUser:
        """The user behind an Authorization header.

        Raises a 401 for a missing or unusable token, and
        `KeySet.key`'s 503 (the SDK's exception would arrive as a 500).
        """
        scheme, _, credentials = (authorization or "").partition(" ")
        token = credentials.strip()
        if scheme.lower() == "bearer" and 0 < len(token) <= MAX_TOKEN_CHARS:
            if self._settings.uses_jwt:
                claims = await self._verified_claims(token)
                return {**self._user(claims), "expires_at": _expiry_of(claims)}
            if self._settings.accepts_dev_tokens and token.startswith("dev:"):
                return self._user_of_dev_token(token)
        if self._settings.accepts_dev_tokens:
            raise _refused(
                "Sign in with 'Authorization: Bearer dev:<org>:<identity>', e.g. dev:acme:alice@example.com."
            )
        raise _refused(
            "Sign in with 'Authorization: Bearer <token>'. Operators set AUTH_JWKS_URL or AUTH_JWT_SECRET for that."
        )

    def _user_of_dev_token(self, token: str) -> TokenUser:
        """The user that a development token names. Raises a 401 for one that cannot be read."""
        claims = self._claims_of_dev_token(token)
        try:
            return self._user_of(claims, identity_at(claims, "sub"), "sub")
        except UnreadableClaimError as error:
            raise _refused(f"The token's claim {error}.") from None

    def _claims_of_dev_token(self, token: str) -> dict[str, object]:
        """The claims of a development token, `dev:<org>:<identity>?<claim>=<value>`. Raises a 401
        for another form.
        """
        org, _, name_and_query = token.removeprefix("dev:").partition(":")
        name, _, query = name_and_query.partition("?")
        # Strictly: with a character in place of each wrong byte, two tokens would be one person
        try:
            name = unquote(name, errors="strict")
            claims = parse_qsl(
                query.replace("+", "%2B"),
                keep_blank_values=True,
                strict_parsing=True,
                errors="strict",
            )
        except ValueError:
            raise _refused(
                "The token is not percent-encoded UTF-8 as in dev:acme:alice?team_id=red."
            ) from None
        is_each_named_once = len(dict(claims)) == len(claims)
        if not is_each_named_once or len(claims) != query.count("="):
            raise _refused(
                "After '?' the token names each claim once, as in dev:acme:alice?team_id=red."
            )
        # A claim that settings or routes name by a path is here under that whole name, which comes
        # before a path.
        return {
            **dict(claims),
            self._settings.org_claim: org,
            self._settings.auth_permissions_claim: [],
            "sub": name,
        }

    async def _verified_claims(self, token: str) -> dict[str, object]:
        """The claims of a JSON web token whose signature and times are right. Raises a 401 for any
        other.
        """
        algorithms = ["HS256"]
        if self._keys:
            algorithms = ASYMMETRIC
        try:
            return jwt.decode(
                token,
                await self._key_of(token),
                algorithms=algorithms,
                leeway=CLOCK_SKEW_SECONDS,
                # These three are checked here, by the claims that the settings name, and in the
                # shapes that providers send.
                options={
                    "require": ["exp"],
                    "verify_iss": False,
                    "verify_aud": False,
                    "verify_sub": False,
                },
            )
        except jwt.InvalidSignatureError:
            raise _refused(
                "The token is not valid: its signature is not that of the key."
            ) from None
        except jwt.DecodeError:  # whose text may be Python's own, of a payload that is no JSON
            raise _refused("The token is not valid: it is no JSON web token.") from None
        except jwt.PyJWTError as error:
            raise _refused(f"The token is not valid: {error}.") from None

    async def _key_of(self, token: str) -> jwt.PyJWK | str:
        """The key with which a JSON web token is verified.

        Raises `jwt.PyJWTError` if there is none, and `KeySet.key`'s 503.
        """
        if self._keys:
            header = jwt.get_unverified_header(token)
            # The whole key, not its `.key`: a token must name the algorithm that this key is for
            return await self._keys.key(header.get("kid"), header.get("alg"))
        if not self._settings.auth_jwt_secret:
            raise jwt.PyJWTError("no key is set with which it could be verified")
        return self._settings.auth_jwt_secret

    def _user(self, claims: Mapping[str, object]) -> TokenUser:
        """The user that verified claims name.

        Raises a 401 that names the claim which cannot be read, and never its value.
        """
        try:
            issuer = self._issuer_of(claims)
            self._check_audience(claims)
            path = self._settings.auth_identity_claim
            identity = identity_at(claims, path)
            if identity is not None:
                _check_verified(claims, path)
                identity = self._with_issuer(issuer, identity, path)
            return self._user_of(claims, identity, path)
        except UnreadableClaimError as error:
            raise _refused(f"The token's claim {error}.") from None

    def _issuer_of(self, claims: Mapping[str, object]) -> str:
        """The issuer of a token, in its one spelling; "" where `AUTH_ISSUER` is not set.

        Raises a 401 for a token without an issuer, `UnreadableClaimError` for one that is not listed.
        """
        if not self._settings.issuers:
            return ""
        spelling = claims.get("iss")
        if spelling is None:
            raise _refused("The token has no claim 'iss', which names its issuer.")
        issuer = None
        if isinstance(spelling, str):
            issuer = self._issuers.find(spelling)
        if issuer is None:
            raise UnreadableClaimError(
                f"'iss' is {shape_of(spelling)}, and none that AUTH_ISSUER lists"
            )
        return issuer

    def _check_audience(self, claims: Mapping[str, object]) -> None:
        """Raise `UnreadableClaimError` for a token that is for nobody, or for others than
        `AUTH_AUDIENCE` lists, and a 401 for one that names no audience where some are listed.
        """
        path = self._settings.auth_audience_claim
        value = claim_at(claims, path)
        if value == []:
            raise UnreadableClaimError(f"{path!r} is an empty list, so it is for nobody")
        if not self._settings.audiences:
            return
        if value is None:
            fix = "Operators name another with AUTH_AUDIENCE_CLAIM, e.g. client_id or azp."
            raise _refused(f"The token has no claim {path!r}, which names its audience. {fix}")
        audiences = [value]
        if isinstance(value, list):
            audiences = value
        if not all(isinstance(audience, str) for audience in audiences):
            raise UnreadableClaimError(
                f"{path!r} is {shape_of(value)}; use a text, or a list of texts"
            )
        if not set(self._settings.audiences) & set(audiences):
            raise UnreadableClaimError(
                f"{path!r} is {shape_of(value)}, and names nothing that AUTH_AUDIENCE lists"
            )

    def _with_issuer(self, issuer: str, name: str, path: str) -> str:
        """The identity of the person to whom an issuer gives this name.

        Raises `UnreadableClaimError` where both together are too long.
        """
        if name.startswith(RESERVED_PREFIX):
            return name  # which is refused
        identity = self._issuers.identity(issuer, name)
        if len(identity.encode()) > MAX_IDENTITY_BYTES:
            shape = shape_of(identity)
            raise UnreadableClaimError(
                f"{path!r} is with its issuer {shape}; use at most {MAX_IDENTITY_BYTES} bytes together"
            )
        return identity

    def _user_of(self, claims: Mapping[str, object], identity: str | None, path: str) -> TokenUser:
        """The user of this identity, with what else the claims say of them.

        The claim at `path` holds the identity. Raises a 401, or `UnreadableClaimError`.
        """
        permissions = texts_at(claims, self._settings.auth_permissions_claim)
        org_id = name_at(claims, self._settings.org_claim)
        group_claims = self._group_claims_of(claims)
        if identity is None:
            raise _refused(f"The token has no claim {path!r}, which names the person.")
        if identity.startswith(RESERVED_PREFIX):
            raise _refused(
                f"Identities that begin with {RESERVED_PREFIX!r} are the platform's own."
            )
        is_operator = identity in self._settings.operators or OPERATE in permissions
        if org_id is None and self._settings.requires_org and not is_operator:
            fix = "Operators set DEFAULT_ORG if people without it belong to one organization."
            raise _refused(
                f"The token has no claim {self._settings.org_claim!r}, which names the organization. {fix}"
            )
        user: TokenUser = {
            "identity": identity,
            "org_id": org_id or self._settings.fallback_org,
            "permissions": permissions,
        }
        if group_claims:
            user["claims"] = group_claims
        return user

    def _group_claims_of(self, claims: Mapping[str, object]) -> dict[str, str]:
        """Those of a token's claims that are kept for routes which are a group's.

        Raises `UnreadableClaimError`.
        """
        group_claims = dict[str, str]()
        for path in self._claims:
            name = name_at(claims, path)
            if name is not None:
                group_claims[path] = name
        return group_claims


def _check_verified(claims: Mapping[str, object], path: str) -> None:
    """Raise `UnreadableClaimError` if the identity is an email address that is not verified.

    Anybody may have typed it.
    """
    verification = verification_of(path)
    if verification is None:
        return
    value = claim_at(claims, verification)
    if value is True:
        return
    problem = f"is {shape_of(value)}"
    if value is None:
        problem = "is not there"
    raise UnreadableClaimError(
        f"{verification!r} {problem}; {path!r} names a person only where it is true"
    )


def _expiry_of(claims: Mapping[str, object]) -> int:
    """When a token's claims cease to hold, in seconds since 1970.

    A token may be accepted for the clocks' difference alone. It holds until that is over, too: its
    request needs its claims.
    """
    # PyJWT has read it as a whole number.
    expires_at = int(cast("float | str", claims["exp"]))
    if expires_at <= time.time():
        expires_at += CLOCK_SKEW_SECONDS
    return min(expires_at, _LATEST_EXPIRY)
