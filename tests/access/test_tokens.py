"""Which tokens of an identity provider are believed, and what their claims decide, on the real server."""

from __future__ import annotations

import base64
import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from langgraph_sdk import Auth

from access import tokens
from memory import identity
from settings import Settings
from testing.dev_server import DevServer, dev_token
from testing.key_server import EC_KEY, RSA_KEYS, KeyServer, key_server
from testing.scripted_anthropic import ScriptedAnthropic
from tests.conftest import model_env

SECRET = "a-shared-secret-of-at-least-32-bytes"
ISSUER, AUDIENCE = "https://id.example.com", "agent"


def claims(expires_in: int = 300, **changes: Any) -> dict[str, Any]:
    """Claims of a good token, for `expires_in` seconds; a change to None leaves the claim out."""
    good = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + expires_in, "org_id": "acme"}
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def signed(key: Any = SECRET, algorithm: str = "HS256", kid: str | None = None, **changes: Any) -> str:
    return jwt.encode(claims(**changes), key, algorithm=algorithm, headers={"kid": kid} if kid else None)


def rsa_signed(kid: str, key: str | None = None, algorithm: str = "RS256", **changes: Any) -> str:
    return signed(RSA_KEYS[key or kid], algorithm, kid, **changes)


def hand_made(header: dict[str, Any], signature: bytes = b"", **changes: Any) -> str:
    """A token that no library would sign."""
    parts = [json.dumps(header).encode(), json.dumps(claims(**changes)).encode(), signature]
    return b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts).decode()


def public_pem(kid: str) -> bytes:
    return RSA_KEYS[kid].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


Ask = Callable[[str], httpx.Response]


def asking(url: str) -> Ask:
    """Creates a thread with a token: its metadata says who the server took the caller for."""

    def ask(token: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.post(f"{url}/threads", json={}, headers=headers, timeout=30, trust_env=False)

    return ask


@pytest.fixture(scope="module")
def by_secret(shared_model: ScriptedAnthropic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    env = {"AUTH_JWT_SECRET": SECRET, "AUTH_ISSUER": ISSUER, "AUTH_AUDIENCE": AUDIENCE, "OPERATORS": "root"}
    with DevServer(tmp_path_factory.mktemp("secret"), env={**model_env(shared_model), **env}) as server:
        yield server


@pytest.fixture(scope="module")
def keys() -> Iterator[KeyServer]:
    with key_server() as keys:
        yield keys


@pytest.fixture(scope="module")
def by_keys(keys: KeyServer, shared_model: ScriptedAnthropic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    env = {"AUTH_JWKS_URL": keys.url, "AUTH_ISSUER": ISSUER, "AUTH_AUDIENCE": AUDIENCE}
    with DevServer(tmp_path_factory.mktemp("keys"), env={**model_env(shared_model), **env}) as server:
        yield server


@pytest.mark.server
@pytest.mark.parametrize(
    ("changes", "owner"),
    [
        ({}, {"user_id": "alice", "org_id": "acme"}),
        ({"org_id": "globex"}, {"user_id": "alice", "org_id": "globex"}),
        ({"org_id": None}, {"user_id": "alice", "org_id": "default"}),
        ({"sub": "auth0|42"}, {"user_id": "auth0|42", "org_id": "acme"}),
        ({"sub": "alice", "identity": "bob", "user_id": "bob"}, {"user_id": "alice", "org_id": "acme"}),
        ({"expires_in": -10}, {"user_id": "alice", "org_id": "acme"}),  # within the clocks' difference
        ({"aud": ["other", AUDIENCE]}, {"user_id": "alice", "org_id": "acme"}),
    ],
    ids=["plain", "other org", "no org", "other subject", "claims of no meaning", "just expired", "several audiences"],
)
def test_a_valid_token_s_subject_and_organization_are_who_the_caller_is(
    by_secret: DevServer, changes: dict[str, Any], owner: dict[str, str]
) -> None:
    response = asking(by_secret.url)(signed(**changes))
    assert response.status_code == 200
    assert response.json()["metadata"] == owner


# Made when they are sent: one made when tests are collected would be refused for its age.
REFUSED: dict[str, Callable[[], str]] = {
    "expired": lambda: signed(expires_in=-60),
    "without expiry": lambda: signed(exp=None),
    "not valid yet": lambda: signed(nbf=int(time.time()) + 600),
    "for another audience": lambda: signed(aud="other"),
    "without audience": lambda: signed(aud=None),
    "of another issuer": lambda: signed(iss="https://evil.example.com"),
    "without issuer": lambda: signed(iss=None),
    "without subject": lambda: signed(sub=None),
    "with an empty subject": lambda: signed(sub=""),
    "with a subject that is the platform's own": lambda: signed(sub="langgraph-studio-user"),
    "with an organization that is no text": lambda: signed(org_id=["acme"]),
    "with a NUL in its subject": lambda: signed(sub="ali\x00ce"),
    "with a NUL in its organization": lambda: signed(org_id="ac\x00me"),
    "with an empty organization": lambda: signed(org_id=""),
    "with permissions that are no list": lambda: signed(permissions={"memory:operate": True}),
    "signed with another key": lambda: signed("another-secret-of-at-least-32-bytes!"),
    "unsigned": lambda: signed("", "none"),
    "of algorithm None": lambda: hand_made({"alg": "None", "typ": "JWT"}),
    "of algorithm HS512": lambda: signed(SECRET * 2, "HS512"),
    "of a list of algorithms": lambda: hand_made({"alg": ["HS256"]}),
    "with a number as subject": lambda: hand_made({"alg": "HS256"}, sub=1),
    "whose header is deeply nested": lambda: base64.urlsafe_b64encode(b"[" * 9000).decode() + ".e30.",
    "of this project's development": lambda: dev_token("acme", "alice"),
    "that is no token": lambda: "junk",
    "that is too long": lambda: signed(padding="x" * 20_000),
}


@pytest.mark.server
@pytest.mark.parametrize("make_token", REFUSED.values(), ids=list(REFUSED))
def test_a_token_is_refused_that_is(by_secret: DevServer, make_token: Callable[[], str]) -> None:
    response = asking(by_secret.url)(make_token())
    assert response.status_code == 401
    assert SECRET not in response.text
    assert "dev:" not in response.text


@pytest.mark.server
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 403),
        ({"permissions": ["memory:read", "memory:operated"]}, 403),
        ({"permissions": ["memory:read", identity.OPERATE]}, 200),
        ({"permissions": f"openid {identity.OPERATE}"}, 200),
        ({"permissions": f"{identity.OPERATE}d x{identity.OPERATE}"}, 403),
        ({"permissions": [[identity.OPERATE]]}, 403),
        ({"permissions": [f"{identity.OPERATE}\x00", "a\x00b"]}, 403),
        ({"scope": identity.OPERATE}, 403),
        ({"sub": "root"}, 200),
        ({"sub": "root "}, 403),
        ({"sub": "Root"}, 403),
    ],
)
def test_the_permissions_claim_or_the_list_of_operators_decides_who_is_one(
    by_secret: DevServer, changes: dict[str, Any], status: int
) -> None:
    headers = {"Authorization": f"Bearer {signed(**changes)}"}
    response = httpx.post(f"{by_secret.url}/runs/crons/search", json={}, headers=headers, trust_env=False)
    assert response.status_code == status


@pytest.mark.server
@pytest.mark.parametrize("answer", [None, b"<html>down for maintenance</html>", b"\xff"], ids=["hung up", "a page", "junk"])
def test_while_keys_cannot_be_fetched_nobody_gets_in(by_keys: DevServer, keys: KeyServer, answer: bytes | None) -> None:
    """While keys cannot be fetched, nobody gets in, and the status says try again."""
    by_keys.restart()  # it knows no key
    keys.answer = answer
    ask, asked = asking(by_keys.url), keys.asked
    response = ask(rsa_signed("one"))
    assert response.status_code == 503
    assert "try again" in response.json()["detail"]
    assert keys.asked == asked + 1
    keys.serve("one")
    assert soon(ask, rsa_signed("one")), "a failure is not kept"


@pytest.mark.server
@pytest.mark.parametrize(("drips", "knows"), [("", False), ("body", True)], ids=["hangs up", "hangs, once it has answered"])
def test_a_provider_that_is_down_is_asked_at_most_every_five_seconds(
    by_keys: DevServer, keys: KeyServer, drips: str, *, knows: bool
) -> None:
    """A provider that is down is asked at most every five seconds, by all callers together, who rarely wait for it."""
    by_keys.restart()  # it knows no key
    keys.serve("one")
    ask, times, statuses = asking(by_keys.url), tokens.KeyTimes(), set[int]()
    if knows:
        assert soon(ask, rsa_signed("one"))
        time.sleep(times.cooldown)  # so that an unknown key is a reason to ask
    keys.drips, keys.answer = drips, keys.answer if drips else None
    asked, began = keys.asked, time.monotonic()
    with ThreadPoolExecutor(10) as callers:
        while (seconds := time.monotonic() - began) < 2.5 * times.cooldown:
            statuses |= set(callers.map(lambda _: ask(rsa_signed("never served")).status_code, range(10)))
    keys.drips = ""
    assert statuses == {401 if knows else 503}
    assert 1 <= keys.asked - asked <= 1 + seconds / (times.cooldown + (times.timeout if drips else 0))
    assert not knows or ask(rsa_signed("one")).status_code == 200, "a known key goes on to be believed"
    keys.serve("one")
    assert soon(ask, rsa_signed("one"))


def soon(ask: Ask, token: str) -> bool:
    """Whether a token is believed within a minute."""
    deadline = time.monotonic() + 60
    while ask(token).status_code != 200 and time.monotonic() < deadline:
        time.sleep(0.2)
    return ask(token).status_code == 200


@pytest.mark.server
def test_tokens_of_the_key_set_are_believed_and_no_others(by_keys: DevServer, keys: KeyServer) -> None:
    keys.serve("one")
    ask = asking(by_keys.url)
    for good in (rsa_signed("one"), signed(EC_KEY, "ES256", "curve")):
        assert ask(good).json()["metadata"] == {"user_id": "alice", "org_id": "acme"}
    bad = {
        "a key that is not in the set": rsa_signed("never served"),
        "another key under a known id": rsa_signed("one", key="never served"),
        "no key id": signed(RSA_KEYS["one"], "RS256"),
        "a key of another kind": signed(EC_KEY, "ES256", "one"),
        "the public key as a shared secret": hand_made_hmac(public_pem("one"), "one"),
        "unsigned": hand_made({"alg": "none", "kid": "one"}),
        "expired": rsa_signed("one", expires_in=-60),
        "another audience": rsa_signed("one", aud="other"),
        "another issuer": rsa_signed("one", iss="https://evil.example.com"),
        "a key set of its own": hand_made({"alg": "RS256", "kid": "x", "jku": keys.url}, b"x"),
        "a development token": dev_token("acme", "alice"),
    }
    assert {name: ask(token).status_code for name, token in bad.items()} == dict.fromkeys(bad, 401)


def hand_made_hmac(secret: bytes, kid: str) -> str:
    """A token signed by HMAC with a public key, which PyJWT itself refuses to make."""
    unsigned = hand_made({"alg": "HS256", "kid": kid}).rpartition(".")[0]
    key = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    return f"{unsigned}.{base64.urlsafe_b64encode(key.sign(unsigned.encode(), secret)).decode().rstrip('=')}"


@pytest.mark.server
def test_a_key_the_provider_changes_to_is_believed_soon(by_keys: DevServer, keys: KeyServer) -> None:
    """A key the provider changes to is believed soon, and made-up ids do not flood it."""
    keys.serve("one")
    ask = asking(by_keys.url)
    assert ask(rsa_signed("one")).status_code == 200
    keys.serve("two")
    asked, started = keys.asked, time.monotonic()
    while ask(rsa_signed("two")).status_code != 200:
        assert time.monotonic() - started < tokens.KeyTimes().cooldown + 10
        time.sleep(0.1)
    assert keys.asked - asked <= 2
    assert ask(rsa_signed("one")).status_code == 401, "the key it changed from is not believed any more"


@pytest.mark.parametrize("token", [None, "Bearer junk", f"Bearer {dev_token('acme', 'alice')}", f"Bearer {signed()}"])
async def test_where_nobody_set_up_sign_in_nobody_gets_in(monkeypatch: pytest.MonkeyPatch, token: str | None) -> None:
    """Where nobody set up sign-in, nobody gets in, and the answer says what to set."""
    deployed = tokens.Tokens(dataclasses.replace(Settings(), local_dev=False))
    with pytest.raises(Auth.exceptions.HTTPException) as refusal:
        await deployed.user(token)
    assert refusal.value.status_code == 401
    assert "AUTH_JWKS_URL or AUTH_JWT_SECRET" in refusal.value.detail
