"""What may be written: sizes, text, the profile, and nothing that is a secret by its shape."""

import base64
import hashlib
import json
import random
import string
import uuid
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import Item
from langgraph.store.memory import InMemoryStore
from pydantic import ValidationError

from lasting_memory.deployment import Deployment, Profile
from lasting_memory.files.backends import ScopedFiles
from lasting_memory.limits import DEFAULTS, Limits
from lasting_memory.people.identity import Author
from lasting_memory.testing.deployed import deployed
from lasting_memory.validation import (
    CREDENTIALS,
    MAX_FILE_BYTES,
    MAX_PATH_BYTES,
    RefusedWrite,
    before_write,
    check_credentials,
    check_path,
    check_room,
)

FILES = ("memories", "acme:alice")
AGENT = Author("agent")
FORK = deployed()
NOTE = "/memories/topics/note.md"
PROFILE = "/memories/profile.json"

_DICE = random.Random(7)  # made up once, the same every time
WORD, LOWER_HEX, BASE32 = string.ascii_letters + string.digits, "0123456789abcdef", string.ascii_uppercase + "234567"


def made_up(alphabet: str, length: int) -> str:
    """Random characters, put together only here: nothing that scans this repository finds a key in it."""
    return "".join(_DICE.choice(alphabet) for _ in range(length))


def jwt_part(value: dict[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


SECRETS = [
    ("an AWS access key", "AK" + "IA" + made_up(BASE32, 16)),
    ("an AWS access key", "AS" + "IA" + made_up(BASE32, 16)),
    ("an AWS secret key", 'aws_secret_access_key = "' + made_up(WORD + "/+", 40)),
    ("an AWS secret key", "AWS_SECRET" + "_ACCESS_KEY=" + made_up(WORD + "/+", 40)),
    ("an Azure storage key", "AccountName=x;Account" + "Key=" + made_up(WORD + "/+", 86) + "=="),
    ("an OpenAI API key", "sk-" + "1" + made_up(LOWER_HEX, 31)),
    ("a Slack token", "xa" + "pp-1-A" + made_up(WORD, 10) + "-" + made_up(string.digits, 13) + "-" + made_up(LOWER_HEX, 64)),
    ("a Google API key", "AI" + "za" + made_up(WORD + "-_", 34) + "x"),
    ("an Anthropic API key", "sk-" + "ant-api03-" + made_up(WORD + "-_", 93) + "AA"),
    ("an OpenAI API key", "sk-" + made_up(WORD, 20) + "T3Blbk" + "FJ" + made_up(WORD, 20)),
    ("an OpenAI API key", "sk-" + "proj-" + made_up(WORD + "-_", 74) + "T3Blbk" + "FJ" + made_up(WORD + "-_", 74)),
    ("an OpenAI API key", "sk-" + "svcacct-" + made_up(WORD + "-_", 58) + "T3Blbk" + "FJ" + made_up(WORD, 58)),
    ("a LangSmith API key", "lsv" + "2_pt_" + made_up(LOWER_HEX, 32) + "_" + made_up(LOWER_HEX, 10)),
    ("a LangSmith API key", "lsv" + "2_sk_" + made_up(LOWER_HEX, 32) + "_" + made_up(LOWER_HEX, 10)),
    *(("a GitHub token", f"gh{kind}_" + made_up(WORD, 36)) for kind in "pousr"),
    ("a GitHub token", "github" + "_pat_" + made_up(WORD, 22) + "_" + made_up(WORD, 59)),
    ("a GitLab token", "gl" + "pat-" + made_up(WORD + "-_", 20)),
    ("a Slack token", "xo" + "xb-" + made_up(string.digits, 12) + "-" + made_up(string.digits, 12) + "-" + made_up(WORD, 24)),
    ("a Stripe key", "sk" + "_live_" + made_up(WORD, 24)),
    ("a Stripe key", "rk" + "_live_" + made_up(WORD, 99)),
    ("a Hugging Face token", "h" + "f_" + made_up(string.ascii_letters, 34)),
    (
        "a JSON web token",
        f"{jwt_part({'alg': 'HS256', 'typ': 'JWT'})}.{jwt_part({'sub': 'alice', 'org': 'acme'})}.{made_up(WORD + '-_', 43)}",
    ),
    *(
        ("a private key", f"-----BEGIN {kind}PRIVATE" + f" KEY-----\n{made_up(WORD, 64)}\n-----END {kind}PRIVATE" + " KEY-----")
        for kind in ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ")
    ),
    ("a private key", "-----BEGIN PGP PRIVATE" + f" KEY BLOCK-----\n\n{made_up(WORD, 64)}"),
]
AROUND = [
    "{}",
    "The key is {}.",
    'export KEY="{}"',
    "KEY={}\n",
    "`{}`",
    "{{'key': '{}'}}",
    "https://x.example/?key={}&y=1",
    "é{}é",
]
digest = hashlib.sha256(b"x").hexdigest()
ORDINARY = [
    "# Preferences\n\n- Prefers short answers. Sends keys by Signal, never by mail.\n- Ask-anything-you-like-about-boards.",
    "Her AKIA bag; AKIAHHHHHH is a shout. See AIza in the docs: keys begin with sk-ant-, sk-proj-, ghp_, glpat-, xoxb- or hf_.",
    f'uuid {uuid.UUID(int=7)}, run_{uuid.UUID(int=8).hex}, sha256:{digest}, commit {digest[:40]}, etag "{digest[:32]}"',
    "https://docs.example.com/a/sk-learn-tutorial-for-beginners-2024-edition-part-one?utm_source=mail&id=0123456789abcdef0123456789",
    "Reads task-management-for-distributed-teams-2nd-edition-2023-paperback-unabridged and risk-2024-assessment-for-everybody.",
    "sk-learn-pipelines-for-2024-and-how-we-use-them-at-work is the name of her talk.",
    "sk-abc; sk-test-key; sk-your-key-here; sk-ant-...; sk_live_...; ghp_xxxxxxxxxxxx; hf_model_hub_download_cache_directory",
    "def hf_transformers_tokenizer_from_pretrained_model(path): return path",
    "hf_" + "hub_download" * 4,
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    f"data:image/png;base64,{base64.b64encode(bytes(range(256))).decode()}",
    "The JWT starts with eyJ, then a dot: eyJhbGciOiJIUzI1NiJ9.",
    "Bearer tokens, AWS_SECRET_ACCESS_KEY and OPENAI_API_KEY come from the vault; password: ask Bob.",
    "price_1MoBy5LkdIwHu7ixZhnattbh is a Stripe price, pk_live_51H8 is public, acct_1032D82eZvKYlo2C an account.",
    json.dumps({"id": "resp_" + digest, "thread": str(uuid.UUID(int=9)), "items": [1, 2, 3]}, indent=2),
    "IBAN DE89 3704 0044 0532 0130 00, phone +49 30 901820, order 2024-0007-XK, ISBN 978-3-16-148410-0",
]


def refusal(path: str, content: str) -> str:
    with pytest.raises(RefusedWrite) as refused:
        before_write(deployed(), path, content, AGENT)
    return str(refused.value)


def backend(store: InMemoryStore, deployment: Deployment = FORK) -> ScopedFiles:
    return ScopedFiles(deployment=deployment, namespace=lambda _: FILES, route="/memories", author=lambda: AGENT, store=store)


# --- Credentials -----------------------------------------------------------------------------------------------------


def test_every_shape_is_tested() -> None:
    assert {kind for kind, _ in SECRETS} == set(CREDENTIALS)


@pytest.mark.parametrize(("kind", "secret"), SECRETS, ids=[f"{kind} {number}" for number, (kind, _) in enumerate(SECRETS)])
def test_a_credential_is_refused_by_its_kind_and_its_value_is_not_repeated(kind: str, secret: str) -> None:
    for around in AROUND:
        reason = refusal(NOTE, around.format(secret))
        assert f"{kind};" in reason
        assert NOTE in reason
        assert not any(secret[at : at + 8] in reason for at in range(len(secret) - 8) if not secret[at : at + 8].isalpha())


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_holds_no_credential(text: str) -> None:
    check_credentials(NOTE, text)  # a fork's own rule may have more to say


@pytest.mark.parametrize(
    "text", ["sk-" * 80_000, "eyJ" * 80_000, "sk-a" + "-" * 200_000, "-----BEGIN " + "A " * 100_000, "eyJa.eyJ" * 30_000]
)
def test_no_text_takes_the_shapes_longer_than_its_length(text: str) -> None:
    """Shapes that look again from every beginning in such a text take minutes, and this test with them."""
    before_write(deployed(), NOTE, text[:MAX_FILE_BYTES], AGENT)


# --- Text, size, path and profile ------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec=None) | st.sampled_from("\x00\ud800"), max_size=20)


@given(TEXTS, st.sampled_from(["", "x", "é"]), st.integers(-2, 2))
def test_text_is_written_if_it_is_unicode_without_nul_and_has_room(text: str, filling: str, over: int) -> None:
    text += filling and filling * ((MAX_FILE_BYTES - len(text.encode(errors="replace"))) // len(filling.encode()) + over)
    valid = "\x00" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
    if valid and len(text.encode()) <= MAX_FILE_BYTES:
        before_write(deployed(), NOTE, text, AGENT)
    else:
        assert NOTE in refusal(NOTE, text)


PATHS = st.lists(
    st.sampled_from(["a", "b.md", ".", "..", "", "\\", "\x00", "\n", "\ud800", "\ufffd", "é", "x" * 300]),
    min_size=1,
    max_size=4,
)


@given(PATHS)
def test_a_path_is_accepted_in_its_one_printable_spelling(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    plain = {"a", "b.md", "é", "x" * 300}.issuperset(parts) and len(path.encode()) <= MAX_PATH_BYTES
    with nullcontext() if plain else pytest.raises(RefusedWrite):
        check_path(path)


FIELDS = st.dictionaries(
    st.sampled_from([*Profile.model_fields, "nmae"]), st.none() | st.text("ab", max_size=3) | st.integers() | st.just("x" * 201)
)


@given(FIELDS | st.text('{}[]:"a', max_size=5))
def test_a_profile_that_code_could_not_read_is_refused_with_the_fields_there_are(profile: object) -> None:
    content = profile if isinstance(profile, str) else json.dumps(profile)
    try:
        Profile.model_validate_json(content)
    except ValidationError:
        assert ", ".join(Profile.model_fields) in refusal(PROFILE, content)
    else:
        before_write(deployed(), PROFILE, content, AGENT)
    before_write(deployed(), "/memories/topics/profile.json", content, AGENT)


# --- Room ------------------------------------------------------------------------------------------------------------


SIZES = st.dictionaries(st.sampled_from(["/a", "/b", "/c"]), st.integers(0, 60))


@given(SIZES, st.sampled_from(["/a", "/b", "/new"]), st.integers(0, 60))
def test_what_fits_or_shrinks_is_written_and_no_byte_more(sizes: dict[str, int], key: str, size: int) -> None:
    now = datetime.now(UTC)
    files = [
        Item(value={"content": "x" * size}, key=key, namespace=FILES, created_at=now, updated_at=now)
        for key, size in sizes.items()
    ]
    fits = size <= sizes.get(key, 0) or sum(sizes.values()) - sizes.get(key, 0) + size <= 100
    with nullcontext() if fits else pytest.raises(RefusedWrite, match="shorten or delete"):
        check_room(files, key, size, Limits(max_bytes=100))


async def test_a_full_memory_refuses_new_files_and_can_be_tidied_up() -> None:
    store = InMemoryStore()
    size = DEFAULTS.max_bytes // DEFAULTS.max_files
    for number in range(DEFAULTS.max_files):
        store.put(FILES, f"/{number}.md", {"content": "x" * size, "encoding": "utf-8"})
    files = backend(store)
    assert "is the limit" in str((await files.awrite("/new.md", "x")).error)
    assert "shorten or delete" in str((await files.awrite("/0.md", "y" * (size + 1_000))).error)
    assert not (await files.aedit("/0.md", "x" * size, "short")).error
    assert not (await files.adelete("/1.md")).error
    assert not (await files.awrite("/new.md", "x")).error


async def test_every_way_of_writing_goes_through_the_checks() -> None:
    seen: list[tuple[Any, ...]] = []
    files = backend(InMemoryStore(), replace(deployed(), checks=[lambda *args: seen.append(args)]))
    await files.awrite("/a.md", "1")
    await files.aedit("/a.md", "1", "2")
    await files.achange("/a.md", lambda text: text + "3")
    await files.adelete("/a.md")
    assert [args[1] for args in seen] == ["1", "2", "23", None]
    assert {args[0] for args in seen} == {"/memories/a.md"}
    assert {args[2] for args in seen} == {AGENT}
