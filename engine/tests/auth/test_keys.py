"""An identity provider's keys: fetched within bounds, whatever its server does, and only keys that may sign tokens."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException as ServerError

from lasting_memory.auth import tokens
from lasting_memory.testing.key_server import KeyServer, jwk, key_server


@pytest.fixture
def keys() -> Iterator[KeyServer]:
    with key_server() as keys:
        keys.serve("one")
        yield keys


async def test_a_known_key_waits_for_nobody_and_many_unknown_ones_ask_once(
    keys: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "COOLDOWN_SECONDS", -1)
    key_set = tokens.KeySet(keys.url)
    await key_set.key("one")
    asked, keys.drips = keys.asked, True
    unknown = [asyncio.create_task(key_set.key(f"made up {number}")) for number in range(20)]
    await asyncio.sleep(0.1)
    assert (await key_set.key("one")).key_id == "one", "while the others wait"
    assert not any(task.done() for task in unknown)
    keys.drips = False
    outcomes = await asyncio.gather(*unknown, return_exceptions=True)
    assert all(isinstance(outcome, jwt.PyJWTError) for outcome in outcomes)
    assert keys.asked - asked == 1


async def test_an_answer_that_never_ends_is_given_up(keys: KeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that never ends is given up, and whoever hangs up ends it for nobody else."""
    monkeypatch.setattr(tokens, "FETCH_SECONDS", 1)
    keys.drips = True
    key_set, started = tokens.KeySet(keys.url), time.monotonic()
    first, other = (asyncio.create_task(key_set.key("one")) for _ in range(2))
    await asyncio.sleep(0.1)
    first.cancel()
    with pytest.raises(ServerError):
        await other
    assert time.monotonic() - started < 10, "a drip comes for ever"
    keys.drips = False
    with pytest.raises(ServerError):
        await key_set.key("one")
    assert keys.asked == 1, "within the cooldown, which begins when a fetch ends, nobody asks or waits"
    monkeypatch.setattr(tokens, "COOLDOWN_SECONDS", -1)
    assert await key_set.key("one"), "a failure is not kept"


async def test_keys_are_fetched_anew_and_not_believed_for_ever(keys: KeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("COOLDOWN_SECONDS", 0.05), ("REFRESH_SECONDS", 0.1), ("FETCH_SECONDS", 5)):
        monkeypatch.setattr(tokens, name, seconds)
    key_set = tokens.KeySet(keys.url)
    await key_set.key("one")
    monkeypatch.setattr(tokens, "FETCH_SECONDS", 0.3)
    keys.drips = True
    for _ in range(10):
        believed = asyncio.create_task(key_set.key("one"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert believed.done(), "the old key waits for no new one"
        await asyncio.sleep(0.05)
    assert keys.asked >= 2
    monkeypatch.setattr(tokens, "KEPT_SECONDS", 0.2)
    with pytest.raises(ServerError):
        await key_set.key("one")


@pytest.mark.parametrize("status", [302, 500])
async def test_keys_come_from_the_address_that_is_set_and_from_no_other(keys: KeyServer, status: int) -> None:
    with key_server() as elsewhere:
        elsewhere.serve("one")
        keys.status, keys.headers = status, {"location": elsewhere.url, "content-length": "0"}
        with pytest.raises(ServerError):
            await tokens.KeySet(keys.url).key("one")
        assert elsewhere.asked == 0


PRIVATE = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(rsa.generate_private_key(public_exponent=65537, key_size=2048)))
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
    st.none() | st.booleans() | st.integers() | st.text(max_size=9), lambda of: st.lists(of) | st.dictionaries(st.text(), of)
)
SPOILED = st.builds(lambda field, junk: {**jwk("two"), field: junk}, st.sampled_from(["kty", "n", "e"]), st.text())


@given(bad=st.sampled_from(NEVER) | JUNK | SPOILED)
def test_what_is_no_key_for_signatures_is_left_out_and_the_others_are_found(bad: Any) -> None:
    usable = tokens.usable_keys(json.dumps({"keys": [bad, jwk("one")]}).encode())
    assert "one" in usable
    assert {key.algorithm_name for key in usable.values()} <= set(tokens.ASYMMETRIC)
    assert bad not in NEVER or "two" not in usable
