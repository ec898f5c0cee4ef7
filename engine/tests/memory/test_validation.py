"""What may be written: sizes, text, the profile, and nothing that is a secret by its shape."""

import base64
import hashlib
import json
import random
import string
import uuid

import pytest
from langgraph.store.memory import InMemoryStore

from lasting_memory.agent.scoped_files import ScopedFiles
from lasting_memory.deployment import DEFAULTS
from lasting_memory.memory.validation import (
    CREDENTIALS,
    MAX_FILE_BYTES,
    RefusedWrite,
    before_write,
    check_credentials,
    read_skill,
)
from lasting_memory.people.identity import Author
from lasting_memory.testing.deployed import deployed

FILES = ("memories", "acme:alice")
AGENT = Author("agent")
NOTE = "/memories/topics/note.md"

_DICE = random.Random(7)  # made up once, the same every time
WORD, LOWER_HEX, BASE32 = (
    string.ascii_letters + string.digits,
    "0123456789abcdef",
    string.ascii_uppercase + "234567",
)


def made_up(alphabet: str, length: int) -> str:
    """Random characters, put together only here: nothing that scans this repository finds a key in
    it.
    """
    return "".join(_DICE.choice(alphabet) for _ in range(length))


def jwt_part(value: dict[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


SECRETS = [
    ("an AWS access key", "AK" + "IA" + made_up(BASE32, 16)),
    ("an AWS access key", "AS" + "IA" + made_up(BASE32, 16)),
    ("an AWS secret key", "AWS_SECRET" + '_ACCESS_KEY = "' + made_up(WORD + "/+", 40)),
    ("an Azure storage key", "AccountName=x;Account" + "Key=" + made_up(WORD + "/+", 86) + "=="),
    ("a Google API key", "AI" + "za" + made_up(WORD + "-_", 34) + "x"),
    ("an Anthropic API key", "sk-" + "ant-api03-" + made_up(WORD + "-_", 93) + "AA"),
    ("an OpenAI API key", "sk-" + "1" + made_up(LOWER_HEX, 31)),
    (
        "an OpenAI API key",
        "sk-" + "proj-" + made_up(WORD + "-_", 74) + "T3Blbk" + "FJ" + made_up(WORD + "-_", 74),
    ),
    (
        "a LangSmith API key",
        "lsv" + "2_pt_" + made_up(LOWER_HEX, 32) + "_" + made_up(LOWER_HEX, 10),
    ),
    *(("a GitHub token", f"gh{kind}_" + made_up(WORD, 36)) for kind in "pousr"),
    ("a GitHub token", "github" + "_pat_" + made_up(WORD, 22) + "_" + made_up(WORD, 59)),
    ("a GitLab token", "gl" + "pat-" + made_up(WORD + "-_", 20)),
    ("a Slack token", "xo" + "xb-" + made_up(string.digits, 12) + "-" + made_up(WORD, 24)),
    (
        "a Slack token",
        "xa"
        "pp-1-A"
        + made_up(WORD, 10)
        + "-"
        + made_up(string.digits, 13)
        + "-"
        + made_up(LOWER_HEX, 64),
    ),
    ("a Stripe key", "sk" + "_live_" + made_up(WORD, 24)),
    ("a Hugging Face token", "h" + "f_" + made_up(string.ascii_letters, 34)),
    (
        "a JSON web token",
        f"{jwt_part({'alg': 'HS256'})}.{jwt_part({'sub': 'alice'})}.{made_up(WORD + '-_', 43)}",
    ),
    *(
        ("a private key", f"-----BEGIN {kind}PRIVATE" + f" KEY{block}-----\n{made_up(WORD, 64)}")
        for kind, block in (("", ""), ("RSA ", ""), ("PGP ", " BLOCK"))
    ),
]
AROUND = [
    "{}",
    "The key is {}.",
    'export KEY="{}"',
    "KEY={}\n",
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
    json.dumps(
        {"id": "resp_" + digest, "thread": str(uuid.UUID(int=9)), "items": [1, 2, 3]}, indent=2
    ),
    "IBAN DE89 3704 0044 0532 0130 00, phone +49 30 901820, order 2024-0007-XK, ISBN 978-3-16-148410-0",
]


def refusal(path: str, content: str) -> str:
    with pytest.raises(RefusedWrite) as refused:
        before_write(deployed(), path, content, AGENT)
    return str(refused.value)


def test_every_shape_of_a_credential_is_tested() -> None:
    assert {kind for kind, _ in SECRETS} == set(CREDENTIALS)


@pytest.mark.parametrize(
    ("kind", "secret"),
    SECRETS,
    ids=[f"{kind} {number}" for number, (kind, _) in enumerate(SECRETS)],
)
def test_a_credential_is_refused_by_its_kind_and_its_value_is_not_repeated(
    kind: str, secret: str
) -> None:
    for around in AROUND:
        reason = refusal(NOTE, around.format(secret))
        assert f"{kind};" in reason
        assert NOTE in reason
        assert not any(
            secret[at : at + 8] in reason
            for at in range(len(secret) - 8)
            if not secret[at : at + 8].isalpha()
        )


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_holds_no_credential(text: str) -> None:
    check_credentials(NOTE, text)  # a fork's own rule may have more to say


@pytest.mark.parametrize(
    "text",
    [
        "sk-" * 80_000,
        "eyJ" * 80_000,
        "sk-a" + "-" * 200_000,
        "-----BEGIN " + "A " * 100_000,
        "eyJa.eyJ" * 30_000,
    ],
)
def test_the_search_for_credentials_takes_a_time_that_grows_with_the_text(text: str) -> None:
    """Shapes that look again from every beginning in such a text take minutes, and this test with
    them.
    """
    before_write(deployed(), NOTE, text[:MAX_FILE_BYTES], AGENT)


def test_text_is_written_if_it_is_unicode_without_nul_and_has_room() -> None:
    for text in ("", "\u2028\ufeff📏", "x" * MAX_FILE_BYTES, "é" * (MAX_FILE_BYTES // 2)):
        before_write(deployed(), NOTE, text, AGENT)
    for text in (
        "a\x00b",
        "a\ud800b",
        "\udfff",
        "x" * (MAX_FILE_BYTES + 1),
        "é" * (MAX_FILE_BYTES // 2) + "x",
    ):
        assert NOTE in refusal(NOTE, text)


async def test_a_full_memory_refuses_new_files_and_can_be_tidied_up() -> None:
    store = InMemoryStore()
    size = DEFAULTS.max_bytes // DEFAULTS.max_files
    for number in range(DEFAULTS.max_files):
        store.put(FILES, f"/{number}.md", {"content": "x" * size, "encoding": "utf-8"})
    files = ScopedFiles(deployed(), lambda _: FILES, author=AGENT, store=store)
    assert "is the limit" in str((await files.awrite("/new.md", "x")).error)
    room = DEFAULTS.max_bytes - size * (DEFAULTS.max_files - 1)
    assert "shorten or delete" in str((await files.awrite("/0.md", "y" * (room + 1))).error)
    assert not (await files.awrite("/0.md", "y" * room)).error
    assert not (await files.aedit("/0.md", "y" * room, "short")).error
    assert not (await files.adelete("/1.md")).error
    assert not (await files.awrite("/new.md", "x")).error


FIELDS = "name: letters\ndescription: Write letters."


@pytest.mark.parametrize("text", [
    f"\ufeff---\n{FIELDS}\n---\n",
    f"\n \n\t\n---\n{FIELDS}\n---\n",
    f"---  \n{FIELDS}\n---\t\nBody",
    f"---\n{FIELDS}\n---",
    f"\ufeff\r\n---\r\n{FIELDS}\r\n---\r\n".replace("\nd", "\r\nd"),
    f"---\r{FIELDS}\r---\r".replace("\nd", "\rd"),
], ids=["byte order mark", "blank lines", "spaces", "no last line break", "Windows", "old Mac"])  # fmt: skip
def test_a_skill_is_read_whatever_an_editor_put_around_its_fields(text: str) -> None:
    skill = read_skill("/skills/letters/SKILL.md", text)
    assert (skill["name"], skill["description"]) == ("letters", "Write letters.")


@pytest.mark.parametrize(("text", "reason"), [
    ("# Letters\n", "line 1 is '# Letters'"),
    ("\n\n----\nname: letters\n---\n", "line 3 is '----'"),
    (f"---\n{FIELDS}\n----\nBody", "line 4 is '----'"),
    (f"---\n{FIELDS}\n  ---\nBody", "line 4 is '  ---'"),
    (f"---\n{FIELDS}\nBody", "the fields that begin in line 2 have no end"),
    ("---\nname: letters\ndescription: Use when: it rains\n---\n", "line 3: the value of description has a colon"),
    ("\n\n---\nname: letters\ndescription: >\n  a\nx: b: c\n---\n", "line 7: the value of x has a colon"),
    ("---\nname: letters\n\tdescription: d\n---\n", "line 3 has a tab"),
    ("---\nname: letters\ndescription: 'it's late'\n---\n", "line 3: "),
    ("---\nName: letters\nDescription: d\n---\n", "it has no name; its fields are: Name, Description"),
    ("---\nname: letters\n---\n", "it has no description; its fields are: name"),
    ("---\nname: lettres\ndescription: d\n---\n", "its name is 'lettres', and its folder's is 'letters'"),
    ("---\n---\n", "between its two lines of --- are no fields"),
])  # fmt: skip
def test_an_unreadable_skill_is_refused_with_the_line_and_the_fault(text: str, reason: str) -> None:
    told = refusal("/skills/letters/SKILL.md", text)
    assert f"/skills/letters/SKILL.md is no valid skill: {reason}" in told
    assert "\n" not in told


PLACEHOLDERS = [
    "AWS_ACCESS_KEY_ID=" + "AKIA" + "IOSFODNN7EXAMPLE",
    "aws_secret_access_key = " + "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
    "export GITHUB_TOKEN=ghp_" + "x" * 36,
    "-----BEGIN RSA PRIVATE " + "KEY-----\n...\n-----END RSA PRIVATE " + "KEY-----",
    "-----BEGIN PRIVATE " + "KEY-----\n<your key>\n",
    "sk-ant-api03-" + "your-key-here" * 3,
    "OPENAI_API_KEY=sk-" + "X" * 48,
    "sk-proj-" + "0" * 40,
]


@pytest.mark.parametrize("text", PLACEHOLDERS)
def test_the_placeholder_of_a_key_is_no_credential(text: str) -> None:
    check_credentials(NOTE, text)
