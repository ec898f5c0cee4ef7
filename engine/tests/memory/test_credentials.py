"""Credentials by what issuers give: card numbers, keys at their lengths, and what looks like one and is none."""

import string
import time
import uuid
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasting_memory.credentials import CARD_NUMBER, SERVICE_KEYS, find_credential
from lasting_memory.validation import MAX_FILE_BYTES
from tests.memory.test_validation import LOWER_HEX, WORD, made_up


def with_check_digit(body: str) -> str:
    """The number that these digits begin, and whose Luhn sum is right."""
    total = 0
    for place, digit in enumerate(reversed(body)):
        value = int(digit) * (2 - place % 2)
        total += value // 10 + value % 10
    return body + str(-total % 10)


# Prefixes and lengths, as issuers publish them.
ISSUED = [
    ("4", 13), ("4", 16), ("4", 19), ("51", 16), ("55", 16), ("2221", 16), ("2720", 16), ("34", 15), ("37", 15), ("6011", 16),
    ("644", 16), ("65", 19), ("300", 14), ("305", 14), ("3095", 14), ("36", 14), ("39", 16), ("3528", 16), ("3589", 19),
    ("62", 16), ("62", 19), ("5018", 13), ("6304", 17), ("6759", 18), ("2200", 16), ("2204", 19), ("60", 16), ("82", 16),
    ("509", 16), ("9792", 16),
]  # fmt: skip


@st.composite
def cards(draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    prefix, length = draw(st.sampled_from(ISSUED))
    missing = length - len(prefix) - 1
    return with_check_digit(prefix + draw(st.text("0123456789", min_size=missing, max_size=missing)))


SEPARATORS = ["", " ", "-", "\u00a0", "\u2009", "\u202f", "\u2013", "\u2011", " - ", "  ", "\u200b"]
SCRIPTS = ["0123456789", "".join(chr(0xFF10 + n) for n in range(10)), "".join(chr(0x0660 + n) for n in range(10)),
           "".join(chr(0x0966 + n) for n in range(10))]  # fmt: skip
WITH_TEXT = [
    "{}",
    "My card is {}.",
    "Karte:{};",
    "'{}'",
    "1. {} (Visa)",
    "**{}**",
    "卡号是{}。",
    "{} 12/29 123",
    "{}, {}",
    "é{}é",
]


@given(cards(), st.sampled_from(SEPARATORS), st.sampled_from(SCRIPTS), st.sampled_from(WITH_TEXT))
def test_a_card_s_number_is_found_however_it_is_written(card: str, separator: str, script: str, around: str) -> None:
    sizes = [4, 6, 5] if len(card) in {14, 15} else [4, 4, 4, 4, 3]
    parts, rest = list[str](), card
    for size in sizes:
        parts.append(rest[:size])
        rest = rest[size:]
    written = separator.join(part for part in parts if part)
    written = written.translate(str.maketrans(string.digits, script))
    assert find_credential(around.format(written, written)) == CARD_NUMBER


@given(cards(), st.integers(1, 9))
def test_a_number_with_another_check_digit_is_none(card: str, more: int) -> None:
    assert find_credential(card[:-1] + str((int(card[-1]) + more) % 10)) is None


@given(
    st.sampled_from(["+{0} {1} {2}", "+{0}{1}{2}", "+{0}-{1}-{2}", "00{0} {1} {2}", "({1}) {2}", "(+{0}) {1} {2}"]),
    st.integers(1, 998), st.integers(10, 9999), st.integers(100_000, 99_999_999),
)  # fmt: skip
def test_a_telephone_number_is_no_card_s(shape: str, country: int, area: int, number: int) -> None:
    assert find_credential(f"Call {shape.format(country, area, number)}, please.") is None


def iban(country: str, account: str) -> str:
    letters = "".join(str(int(character, 36)) for character in f"{account}{country}00")
    return f"{country}{98 - int(letters) % 97:02}{account}"


@given(st.text(string.digits, min_size=18, max_size=18), st.booleans())
def test_a_bank_account_is_no_card_s(account: str, spaced: bool) -> None:
    number = iban("DE", account)
    if spaced:
        number = " ".join(number[at : at + 4] for at in range(0, len(number), 4))
    assert find_credential(f"Pay to {number} please") is None


@given(
    st.uuids(version=4),
    st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_identifiers_times_and_fractions_are_no_cards(known: uuid.UUID, at: date, fraction: float) -> None:
    assert find_credential(f"{known} {at.isoformat()} {at:%Y%m%d} 235959 {fraction!r} {fraction:.16f}") is None


NUMBERS = [
    "ORD-4111111111111111", "order 405-4111111-1111111", "AB12-4111-1111-1111-1111", "0f8fad5b-d9cb-4691-8200-000000000007",
    "sku_4111111111111111", "4111111111111111a", "0x4111111111111111",
    "https://shop.example/items/4111111111111111", "3.4111111111111111", "41111111111111111111", "1764115200000",
    "1764115200000000000", "IMEI 490154203237518", "IMEI 35-209900-176148-1", "ISBN 978-3-16-148410-0", "1Z999AA10123456784",
    "9400 1000 0000 0000 0000 00", "0034 0434 1610 9412 3456", "4111 1111 1111 1112", "4111,1111,1111,1111",
    "4111\n1111\n1111\n1111",
]  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS)
def test_other_numbers_are_no_cards(text: str) -> None:
    assert find_credential(text) is None


# The shortest, or the newest, that each provider gives, and further kinds of theirs.
KEYS = [
    ("an AWS secret key", "my AWS secret access key is " + made_up(WORD + "/+", 40)),
    ("an AWS secret key", 'MY_AWS_SECRET_ACCESS_KEY: "' + made_up(WORD + "/+", 40) + '"'),
    ("an Azure storage key", "SharedAccess" + "Key=" + made_up(WORD + "/+", 43) + "="),
    ("a Google API key", "GOC" + "SPX-" + made_up(WORD + "-_", 27) + "x"),
    ("an Anthropic API key", "sk-" + "ant-api03-" + made_up(WORD, 30) + "9A"),
    ("an Anthropic API key", "sk-" + "ant-oat01-" + made_up(WORD + "-_", 93) + "9A"),
    ("an OpenAI API key", "sk-" + made_up(WORD, 20) + "T3Blbk" + "FJ" + made_up(WORD, 20)),
    ("an OpenAI API key", "sk-" + "svcacct-" + made_up(WORD + "-_", 40) + "9A"),
    ("an OpenAI API key", "sk-" + "or-v1-" + made_up(LOWER_HEX, 64)),
    ("an OpenAI API key", "sk-" + made_up(WORD, 22) + "9"),
    ("a LangSmith API key", "ls" + "__" + made_up(LOWER_HEX, 32)),
    ("a GitHub token", "ghs" + "_" + made_up(WORD, 36)),
    *(("a GitLab token", f"gl{kind}-" + made_up(WORD + "_", 19) + "9") for kind in ("dt", "rt", "ft", "soat", "agent", "cbt")),
    ("a GitLab token", "gl" + "pat-" + made_up(WORD, 30) + ".01." + made_up(LOWER_HEX, 9)),
    ("a Slack token", "xo" + "xb-" + made_up(string.digits, 8) + "-" + made_up(WORD, 18)),
    ("a Slack token", "xo" + "xe.xo" + "xp-1-" + made_up(WORD, 160)),
    ("a Slack token", "https://hooks.slack" + f".com/services/T{made_up(WORD, 8)}/B{made_up(WORD, 10)}/{made_up(WORD, 24)}"),
    ("a Stripe key", "rk" + "_test_" + made_up(WORD, 24)),
    ("a Stripe key", "sk" + "_live_" + "a" * 24),
    ("a GitHub token", "gh" + "p_" + "a" * 36),
    ("a GitLab token", "gl" + "pat-" + "b" * 20),
    ("a Stripe key", "whs" + "ec_" + made_up(WORD, 32)),
    ("a Hugging Face token", "h" + "f_" + made_up(WORD, 37)),
    ("a private key", "-----BEGIN " + "EC PRIVATE KEY-----\\n" + made_up(WORD, 64) + "\\n-----END"),
    ("a private key", "-----BEGIN " + "RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES,0F\n\n" + made_up(WORD, 64)),
    ("a private key", "> -----BEGIN " + "OPENSSH PRIVATE KEY-----\r\n> " + made_up(WORD, 70)),
    ("a private key", "-----BEGIN " + "PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG\nComment: example\n\n" + made_up(WORD, 64)),
    ("an npm token", "np" + "m_" + made_up(WORD, 36)),
    ("a PyPI token", "py" + "pi-AgE" + made_up(WORD, 60)),
    ("a SendGrid key", "S" + "G." + made_up(WORD, 22) + "." + made_up(WORD, 43)),
    ("a DigitalOcean token", "do" + "p_v1_" + made_up(LOWER_HEX, 64)),
    ("a Docker token", "dc" + "kr_pat_" + made_up(WORD, 27)),
    ("a Groq API key", "gs" + "k_" + made_up(WORD, 52)),
    ("an xAI API key", "xa" + "i-" + made_up(WORD, 80)),
    ("a Shopify token", "sh" + "pat_" + made_up(LOWER_HEX, 32)),
    ("an Atlassian token", "ATA" + "TT3" + made_up(WORD, 180)),
    ("a Grafana token", "gl" + "sa_" + made_up(WORD, 32) + "_" + made_up(LOWER_HEX, 8)),
    ("a Vault token", "hv" + "s." + made_up(WORD, 30)),
    ("a Telegram bot token", "123456789:" + "AA" + made_up(WORD, 33)),
    ("an age secret key", "AGE-SECRET" + "-KEY-1" + made_up(string.ascii_uppercase, 58)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "secret"), KEYS, ids=[f"{kind} {number}" for number, (kind, _) in enumerate(KEYS)])
def test_a_key_is_found_at_each_length_that_its_provider_gives(kind: str, secret: str) -> None:
    for around in ("{}", "The key is {}.", "a\n{}\nb", "first sk-your-key, then {}"):
        assert find_credential(around.format(secret)) == kind


def test_each_service_s_key_is_tested() -> None:
    assert {*SERVICE_KEYS} <= {kind for kind, _ in KEYS}


PLACEHOLDERS = [
    "AKIAIOSFODNN7EXAMPLE", "AKIAI44QH8DHBEXAMPLE", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "ghp_" + "x" * 36, "sk-" + "X" * 48, "sk-...", "sk-ant-api03-...", "sk-ant-api03-YOUR_API_KEY_GOES_HERE_PLEASE",
    "glpat-your-personal-access-token", "glpat-xxxxxxxxxxxxxxxxxxxx", "glpat-personal-access-token-goes-in-here",
    "xoxb-not-a-real-token-this-will-not-work", "xoxb-000000000000-000000000000-xxxxxxxxxxxxxxxxxxxxxxxx",
    "github_pat_put_your_own_token_here_please", "hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "sk_test_xxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-proj-xxxxxxxxxxxxxxxxxxxxT3BlbkFJxxxxxxxxxxxxxxxxxxxx", "lsv2_pt_" + "x" * 32 + "_" + "x" * 10,
    "-----BEGIN RSA PRIVATE KEY-----",
    "A file that begins with -----BEGIN PRIVATE KEY----- is a secret: never paste one of these.",
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n" + "x" * 64 + "\n-----END",
    "-----BEGIN EC PRIVATE KEY-----\n<your key>\n-----END EC PRIVATE KEY-----",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
]  # fmt: skip


@pytest.mark.parametrize("text", PLACEHOLDERS, ids=lambda text: text[:40])
def test_a_published_placeholder_is_no_credential(text: str) -> None:
    assert find_credential(text) is None


HOSTILE = {
    "digits": "4", "digits apart": "4 ", "cards' groups": "4111 ", "wrong cards": "4111111111111112 ", "accounts": "AA11",
    "accounts apart": "4111111111111112 AA11 ", "addresses": "http://4111111111111112", "telephones": "+4111 1111 1111 1112 ",
    "hyphens": "-", "tokens": "eyJ", "tokens' parts": "eyJaaaaaaaaaaaa.", "headers": "-----BEGIN PRIVATE KEY-----",
    "headers and lines": "-----BEGIN PRIVATE KEY-----\nabc: \nabc: \n", "words": "glpat-a-", "prefixes": "sk-proj-",
    "placeholders": "sk-your-key-aaaaaaaaaaaaaa1A ", "names of secrets": "aws_secret_access_key is ",
}  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_the_search_takes_time_in_proportion_to_the_text(piece: str) -> None:
    def seconds(size: int) -> float:
        """Of this thread alone, at the better of two."""
        times = list[float]()
        for _ in range(2):
            began = time.thread_time()
            find_credential((piece * size)[:size])
            times.append(time.thread_time() - began)
        return min(times)

    small, large = MAX_FILE_BYTES // 64, MAX_FILE_BYTES // 4
    assert seconds(large) < 80 * max(seconds(small), 0.001), (
        "16 times the text takes 16 times as long; squared it were 256 times"
    )
