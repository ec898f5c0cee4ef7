"""What may be written: sizes, text, the profile, and nothing that is a secret by its shape."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from langgraph.store.base import Item
from langgraph.store.memory import InMemoryStore

from memory.files import ScopedFiles
from memory.identity import Author
from memory.validation import CREDENTIALS, Profile, RefusedWriteError, before_write, check_credentials, check_room
from settings import MAX_FILE_BYTES, MAX_MEMORY_BYTES, MAX_MEMORY_FILES, PROJECT

FILES = ("memories", "acme:alice")
AGENT = Author("agent")
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
    with pytest.raises(RefusedWriteError) as refused:
        before_write(path, content, AGENT)
    return str(refused.value)


def backend(store: InMemoryStore) -> ScopedFiles:
    return ScopedFiles(namespace=lambda _: FILES, gate=lambda: None, route="/memories", author=lambda: AGENT, store=store)


# --- Credentials -----------------------------------------------------------------------------------------------------


def test_every_shape_is_tested() -> None:
    assert {kind for kind, _ in SECRETS} == set(CREDENTIALS)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(("kind", "secret"), SECRETS, ids=[f"{kind} {number}" for number, (kind, _) in enumerate(SECRETS)])
def test_a_credential_is_refused_by_its_kind_and_its_value_is_not_repeated(kind: str, secret: str, around: str) -> None:
    reason = refusal(NOTE, around.format(secret))
    assert f"{kind};" in reason
    assert NOTE in reason
    assert not any(secret[at : at + 8] in reason for at in range(len(secret) - 8) if not secret[at : at + 8].isalpha())


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_holds_no_credential(text: str) -> None:
    check_credentials(NOTE, text)  # a fork's own rule may have more to say


def test_this_project_s_own_text_and_code_are_ordinary() -> None:
    for path in [*PROJECT.glob("*.md"), *PROJECT.glob("*.py"), *PROJECT.glob("memory/*.py"), *PROJECT.glob("prompts/*.md")]:
        text = path.read_text("utf-8")
        if len(text.encode()) <= MAX_FILE_BYTES:
            check_credentials(f"/memories/{path.name}", text)


@pytest.mark.parametrize(
    "text", ["sk-" * 80_000, "eyJ" * 80_000, "sk-a" + "-" * 200_000, "-----BEGIN " + "A " * 100_000, "eyJa.eyJ" * 30_000]
)
def test_no_text_takes_the_shapes_longer_than_its_length(text: str) -> None:
    """Shapes that look again from every beginning in such a text take minutes, and this test with them."""
    before_write(NOTE, text[:MAX_FILE_BYTES], AGENT)


# --- Text and size ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("a\x00b", "NUL"),
        ("\ud800", "Unicode"),
        ("x" * (MAX_FILE_BYTES + 1), "split it"),
        ("é" * (MAX_FILE_BYTES // 2 + 1), "split"),
    ],
)
def test_text_that_not_every_store_holds_is_refused(content: str, reason: str) -> None:
    assert reason in refusal(NOTE, content)


@pytest.mark.parametrize("content", ["", "x" * MAX_FILE_BYTES, "é" * (MAX_FILE_BYTES // 2), "\ufeff\u2028\x7f"])
def test_text_up_to_the_limit_is_written(content: str) -> None:
    before_write(NOTE, content, AGENT)


# --- The profile -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("{name: Alice}", "Invalid JSON"),
        ("", "Invalid JSON"),
        ("[]", "it: "),
        ('{"nmae": "Alice"}', "nmae: Extra inputs are not permitted"),
        ('{"name": 7, "units": []}', "name: Input should be a valid string; units: "),
        (json.dumps({"name": "x" * 201}), "name: String should have at most 200 characters"),
    ],
)
async def test_a_profile_code_could_not_read_is_refused_with_what_is_wrong(content: str, wrong: str) -> None:
    store = InMemoryStore()
    error = (await backend(store).awrite("/profile.json", content)).error
    assert error
    assert error.startswith(f"Error: {PROFILE} was not written: ")
    assert wrong in error
    assert ", ".join(Profile.model_fields) in error
    assert store.search(FILES) == []


async def test_an_edit_or_an_upload_that_would_break_the_profile_is_refused() -> None:
    """An edit or an upload that would break the profile is refused, and a good one is not."""
    store = InMemoryStore()
    files = backend(store)
    assert not (await files.awrite("/profile.json", '{"name": "Alice"}')).error
    assert "Invalid JSON" in str((await files.aedit("/profile.json", '"}', '"')).error)
    (uploaded,) = await files.aupload_files([("/profile.json", b"\xff")])
    assert uploaded.error
    assert not (await files.aedit("/profile.json", "Alice", "Alice Liddell")).error
    assert not (await files.awrite("/topics/profile.json", "no JSON")).error
    item = store.get(FILES, "/profile.json")
    assert item
    assert item.value["content"] == '{"name": "Alice Liddell"}'


# --- Room ------------------------------------------------------------------------------------------------------------


def stored(sizes: dict[str, int]) -> list[Item]:
    now = datetime.now(UTC)
    return [
        Item(value={"content": "x" * size}, key=key, namespace=FILES, created_at=now, updated_at=now)
        for key, size in sizes.items()
    ]


def test_the_last_byte_of_room_may_be_used_and_no_more() -> None:
    files = stored({"/a.md": MAX_MEMORY_BYTES - 100, "/b.md": 50})
    check_room(files, "/b.md", 100)
    check_room(files, "/c.md", 50)
    for key, size in (("/b.md", 101), ("/c.md", 51)):
        with pytest.raises(RefusedWriteError, match="shorten or delete"):
            check_room(files, key, size)


def test_what_shrinks_or_stays_is_let_through_however_full_it_is() -> None:
    files = stored({"/a.md": 2 * MAX_MEMORY_BYTES, "/b.md": 50})
    check_room(files, "/b.md", 50)
    check_room(files, "/a.md", 2 * MAX_MEMORY_BYTES - 1)


def test_one_file_more_than_the_limit_is_refused_and_those_there_are_written() -> None:
    files = stored({f"/{number}.md": 1 for number in range(MAX_MEMORY_FILES)})
    check_room(files, "/0.md", 2)
    with pytest.raises(RefusedWriteError, match=f"{MAX_MEMORY_FILES} is the limit"):
        check_room(files, "/new.md", 1)
    check_room(files[1:], "/new.md", 1)


async def test_a_full_memory_refuses_new_files_and_can_be_tidied_up() -> None:
    store = InMemoryStore()
    size = MAX_MEMORY_BYTES // MAX_MEMORY_FILES
    for number in range(MAX_MEMORY_FILES):
        store.put(FILES, f"/{number}.md", {"content": "x" * size, "encoding": "utf-8"})
    files = backend(store)
    assert "is the limit" in str((await files.awrite("/new.md", "x")).error)
    assert "shorten or delete" in str((await files.awrite("/0.md", "y" * (size + 1_000))).error)
    assert not (await files.aedit("/0.md", "x" * size, "short")).error
    assert not (await files.adelete("/1.md")).error
    assert not (await files.awrite("/new.md", "x")).error


async def test_every_way_of_writing_goes_through_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr("memory.files.before_write", lambda *args: seen.append(args))
    files = backend(InMemoryStore())
    await files.awrite("/a.md", "1")
    await files.aedit("/a.md", "1", "2")
    await files.achange("/a.md", lambda text: text + "3")
    await files.aupload_files([("/a.md", b"4")])
    await files.adelete("/a.md")
    assert [args[1] for args in seen] == ["1", "2", "23", "4", None]
    assert {args[0] for args in seen} == {"/memories/a.md"}
    assert {args[2] for args in seen} == {AGENT}
