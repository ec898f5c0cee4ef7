"""An identity provider's keys, whatever its server does."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException as ServerError

from lasting_memory.auth import provider_keys
from lasting_memory.settings import load_settings
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic
from tests.auth.key_server import EC_KEY, RSA_KEYS, KeyServer, jwk, rsa_signed
from tests.auth.signing import AUDIENCE, ISSUER, hand_made, refusal, signed, signed_in


@pytest.fixture
def keys() -> Iterator[KeyServer]:
    with KeyServer() as keys:
        keys.serve("one")
        yield keys


async def test_two_keys_without_ids_are_not_taken_for_one(keys: KeyServer) -> None:
    settings = load_settings({"AUTH_JWKS_URL": keys.url})
    nameless = {name: value for name, value in jwk("one").items() if name != "kid"}
    other = {name: value for name, value in jwk("two").items() if name != "kid"}
    keys.answer = json.dumps({"keys": [nameless]}).encode()
    assert (await signed_in(signed(RSA_KEYS["one"], "RS256"), settings))["identity"] == "alice"
    keys.answer = json.dumps({"keys": [nameless, other]}).encode()
    for key in ("one", "two"):
        assert "'kid'" in await refusal(f"Bearer {signed(RSA_KEYS[key], 'RS256')}", settings)


class Fetches:
    """The times that fetches of keys may take: each is over when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._limits = list[asyncio.Timeout]()
        monkeypatch.setattr(
            provider_keys,
            "asyncio",
            SimpleNamespace(**{**vars(asyncio), "timeout": self._without_end}),
        )

    def _without_end(self, _: float) -> asyncio.Timeout:
        self._limits.append(asyncio.timeout(None))
        return self._limits[-1]

    def end(self) -> None:
        """Their time is over now."""
        for limit in self._limits:
            with suppress(RuntimeError):  # that fetch has ended
                limit.reschedule(asyncio.get_running_loop().time())
        self._limits.clear()


async def asked_again(keys: KeyServer, asked: int) -> None:
    """Return when the provider was asked once more than so often."""
    async with asyncio.timeout(300):
        while keys.asked <= asked:  # noqa: ASYNC110  # its thread sets no event
            await asyncio.sleep(0.01)


async def test_a_known_key_waits_for_nobody_and_unknown_ones_ask_once(
    keys: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_keys, "COOLDOWN_SECONDS", -1)
    key_set, fetches = provider_keys.KeySet(keys.url), Fetches(monkeypatch)
    await key_set.key("one")
    asked = keys.asked
    keys.drips = True
    unknown = [asyncio.create_task(key_set.key(f"made up {number}")) for number in range(20)]
    await asked_again(keys, asked)
    assert (await key_set.key("one")).key_id == "one", "while the others wait"
    assert not any(task.done() for task in unknown)
    unknown.pop().cancel()  # which ends it for nobody else
    fetches.end()  # a drip comes for ever
    async with asyncio.timeout(300):
        outcomes = await asyncio.gather(*unknown, return_exceptions=True)
    assert all(isinstance(outcome, jwt.PyJWTError) for outcome in outcomes)
    assert keys.asked - asked == 1


async def test_keys_are_fetched_anew_and_not_believed_for_ever(
    keys: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("COOLDOWN_SECONDS", -1), ("REFRESH_SECONDS", -1)):
        monkeypatch.setattr(provider_keys, name, seconds)
    key_set, fetches = provider_keys.KeySet(keys.url), Fetches(monkeypatch)
    await key_set.key("one")
    keys.drips = True
    for _ in range(3):
        asked = keys.asked
        believed = asyncio.create_task(key_set.key("one"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert believed.done(), "the old key waits for no new one"
        await asked_again(keys, asked)
        fetching = key_set._fetch_task
        fetches.end()
        assert fetching is not None
        await asyncio.wait([fetching], timeout=300)
    monkeypatch.setattr(provider_keys, "KEPT_SECONDS", 0)
    waiting = asyncio.create_task(key_set.key("one"))
    asked = keys.asked
    await asked_again(keys, asked)
    fetches.end()
    with pytest.raises(ServerError):
        await waiting


@pytest.mark.parametrize("status", [302, 500])
async def test_keys_come_from_the_address_that_is_set_and_from_no_other(
    keys: KeyServer, status: int
) -> None:
    with KeyServer() as elsewhere:
        elsewhere.serve("one")
        keys.status, keys.headers = status, {"location": elsewhere.url, "content-length": "0"}
        with pytest.raises(ServerError):
            await provider_keys.KeySet(keys.url).key("one")
        assert elsewhere.asked == 0


PRIVATE = json.loads(
    jwt.algorithms.RSAAlgorithm.to_jwk(
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
)
OCT = base64.urlsafe_b64encode(b"a-shared-secret-of-at-least-32-bytes").decode()
NEVER = [
    jwk("two", use="enc"),
    {"kty": "oct", "kid": "two", "k": OCT},
    {"kty": "oct", "kid": "two", "k": OCT, "alg": "RS256"},
    {**PRIVATE, "kid": "two"},
    jwk("two", alg="HS256"),
    {"kty": "EC", "crv": "secp256k1", "kid": "two", "x": OCT, "y": OCT},
]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda of: st.lists(of) | st.dictionaries(st.text(), of),
)
SPOILED = st.builds(
    lambda field, junk: {**jwk("two"), field: junk}, st.sampled_from(["kty", "n", "e"]), st.text()
)


@given(bad=st.sampled_from(NEVER) | JUNK | SPOILED)
def test_keys_not_for_signatures_are_left_out_and_the_others_are_found(bad: Any) -> None:
    usable = provider_keys.usable_keys(json.dumps({"keys": [bad, jwk("one")]}).encode())
    ids = [key.key_id for key in usable]
    assert "one" in ids
    assert {key.algorithm_name for key in usable} <= set(provider_keys.ASYMMETRIC)
    assert bad not in NEVER or "two" not in ids


def public_pem(kid: str) -> bytes:
    return RSA_KEYS[kid].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def hand_made_hmac(secret: bytes, kid: str | None) -> str:
    """A token signed by HMAC with a public key, which PyJWT itself refuses to make."""
    unsigned = hand_made({"alg": "HS256", **({"kid": kid} if kid else {})}).rpartition(".")[0]
    key = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    return f"{unsigned}.{base64.urlsafe_b64encode(key.sign(unsigned.encode(), secret)).decode().rstrip('=')}"


@pytest.mark.server
def test_tokens_of_the_key_set_are_believed_and_no_others(
    keys: KeyServer, shared_model: ScriptedAnthropic, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """While the keys cannot be fetched nobody gets in, and the status says try again. A key that
    they change to is believed.
    """
    env = {"AUTH_JWKS_URL": keys.url, "AUTH_ISSUER": ISSUER, "AUTH_AUDIENCE": AUDIENCE}
    with DevServer(tmp_path_factory.mktemp("keys"), env={**shared_model.env, **env}) as server:

        def ask(token: str) -> httpx.Response:
            headers = {"Authorization": f"Bearer {token}"}
            return httpx.post(
                f"{server.url}/threads", json={}, headers=headers, timeout=300, trust_env=False
            )

        def soon(token: str) -> bool:
            """Whether a token is believed in the end."""
            deadline = time.monotonic() + 300
            while (status := ask(token).status_code) != 200 and time.monotonic() < deadline:
                time.sleep(0.2)
            return status == 200

        keys.answer = b"<html>down for maintenance</html>"
        assert ask(rsa_signed("one")).status_code == 503
        keys.serve("one")
        assert soon(rsa_signed("one")), "a failure is not kept"
        alone = signed(RSA_KEYS["one"], "RS256"), signed(EC_KEY, "ES256")
        for good in (rsa_signed("one"), signed(EC_KEY, "ES256", "curve"), *alone):
            assert ask(good).json()["metadata"] == {"user_id": "alice", "org_id": "acme"}
        bad = {
            "a key that is not in the set": rsa_signed("never served"),
            "another key under a known id": rsa_signed("one", key="never served"),
            "no key id, and another key": signed(RSA_KEYS["never served"], "RS256"),
            "no key id, and the public key as a shared secret": hand_made_hmac(
                public_pem("one"), None
            ),
            "a key of another kind": signed(EC_KEY, "ES256", "one"),
            "the public key as a shared secret": hand_made_hmac(public_pem("one"), "one"),
            "a key set of its own": hand_made({"alg": "RS256", "kid": "x", "jku": keys.url}, b"x"),
        }
        assert {name: ask(token).status_code for name, token in bad.items()} == dict.fromkeys(
            bad, 401
        )
        keys.serve("two")
        asked = keys.asked
        assert soon(rsa_signed("two"))
        assert keys.asked - asked <= 2, (
            "made-up ids, and impatient callers, do not flood the provider"
        )
        assert ask(rsa_signed("one")).status_code == 401, (
            "the key it changed from is not believed any more"
        )
        keys.serve("one", "two")
        assert soon(rsa_signed("one"))
        assert ask(signed(RSA_KEYS["one"], "RS256")).status_code == 401, (
            "of two keys of its algorithm it names none"
        )
