"""An identity provider's public keys (RFC 7517), with which tokens are verified."""

import asyncio
import json
import logging
import ssl
import time

import httpx
import jwt
from starlette.exceptions import HTTPException as ServerError

from lasting_memory import platform

# Seconds for the provider's whole answer.
FETCH_SECONDS = 5
# Seconds between two fetches, and so the longest refusal of a new key.
COOLDOWN_SECONDS = 5
# Age of keys, in seconds, from which on they are refreshed in the background.
REFRESH_SECONDS = 150
# Age of keys, in seconds, after which they are no longer used.
KEPT_SECONDS = 300
# Algorithms of signatures that a public key verifies.
ASYMMETRIC = [
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
]

logger = logging.getLogger("auth")


class KeySet:
    """An identity provider's public keys, cached; one task at a time fetches them.

    Not `jwt.PyJWKClient`: its lock would make people with a known key wait for a slow provider, as
    long as its answer drips.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._tls = ssl.create_default_context()  # reads files, so not in the event loop
        self._keys: list[jwt.PyJWK] = []
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._fetch_task: asyncio.Task[None] | None = None

    async def key(self, key_id: str | None, algorithm: str | None = None) -> jwt.PyJWK:
        """The key of this id; without an id, the only key of the token's algorithm.

        A known key needs no waiting; for an unknown one, the keys are fetched unless they just
        were. Raises `ServerError` 503 if the keys cannot be fetched, `jwt.PyJWTError` if there is
        no such key.
        """
        age = time.monotonic() - self._fetched_at
        is_known = age < KEPT_SECONDS and self._find(key_id, algorithm) is not None
        if not is_known or age > REFRESH_SECONDS:
            fetch_task = self._start_fetching()
            if fetch_task is not None and not is_known:
                # Callers share one fetch, which goes on when one of them hangs up.
                await asyncio.wait([fetch_task])
        if time.monotonic() - self._fetched_at >= KEPT_SECONDS:
            raise ServerError(503, "The identity provider's keys cannot be fetched; try again.")
        key = self._find(key_id, algorithm)
        if key is not None:
            return key
        if key_id is None:
            raise jwt.PyJWTError(
                "its header has no 'kid', and not exactly one of the identity provider's keys is of its 'alg'"
            )
        raise jwt.PyJWTError("its key is not one of the identity provider's")

    def _start_fetching(self) -> asyncio.Task[None] | None:
        """The fetch that is under way, started if there is none; None shortly after the last."""
        if time.monotonic() - self._tried_at <= COOLDOWN_SECONDS:
            return None
        if self._fetch_task is None or self._fetch_task.done():
            self._fetch_task = asyncio.create_task(self._fetch())
        return self._fetch_task

    def _find(self, key_id: str | None, algorithm: str | None) -> jwt.PyJWK | None:
        """The cached key of this id; without an id, that of the algorithm, if there is just one.

        None if there is none.
        """
        matches = list[jwt.PyJWK]()
        for key in self._keys:
            if key_id is not None and key.key_id == key_id:
                return key
            if key_id is None and key.algorithm_name == algorithm:
                matches.append(key)
        if len(matches) != 1:
            return None
        return matches[0]

    async def _fetch(self) -> None:
        """Fetch the keys into the cache in place of the old ones.

        Raises nothing: a failure is logged, and the old keys stay, with the time of their fetch.
        """
        try:
            async with (
                asyncio.timeout(FETCH_SECONDS),
                httpx.AsyncClient(verify=self._tls) as client,
            ):
                answer = await client.get(self._url)
                answer.raise_for_status()
            self._keys = await platform.in_thread(usable_keys, answer.content)
            self._fetched_at = time.monotonic()
        except Exception as error:  # noqa: BLE001  # unreachable, too slow, or not a key set
            logger.warning(
                "The identity provider's keys could not be fetched from %s: %r", self._url, error
            )
        finally:
            self._tried_at = time.monotonic()


def usable_keys(answer: bytes) -> list[jwt.PyJWK]:
    """The public keys for signatures in a JSON Web Key Set (RFC 7517).

    Raises any error if it is no key set, or has no such key.
    """
    key_set = jwt.PyJWKSet.from_dict(json.loads(answer))
    keys = [key for key in key_set.keys if _is_usable(key)]
    if not keys:
        raise ValueError("it has no key that tokens may be signed with")
    return keys


def _is_usable(key: jwt.PyJWK) -> bool:
    """Whether this is a public key that verifies signatures."""
    is_for_signatures = key.public_key_use in ("sig", None)
    is_public = hasattr(key.key, "verify")
    if not is_for_signatures or not is_public:
        return False
    return key.algorithm_name in ASYMMETRIC
