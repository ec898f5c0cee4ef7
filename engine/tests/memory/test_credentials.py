"""Credentials by what issuers give: card numbers, keys at their lengths, and what looks like one
and is none.
"""

import string
import time
import uuid
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lasting_memory.credentials import (
    CARD_NUMBER,
    SERVICE_KEYS,
    find_credential,
    find_credential_in_json,
)
from lasting_memory.memory.validation import MAX_FILE_BYTES
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
    card = with_check_digit(
        prefix + draw(st.text("0123456789", min_size=missing, max_size=missing))
    )
    assume(not is_ean(card))  # a product's number, which no one can tell from it
    return card


def is_ean(number: str) -> bool:
    """Whether this is a valid EAN-13."""
    digits = [int(digit) for digit in number]
    return len(digits) == 13 and (sum(digits[0::2]) + 3 * sum(digits[1::2])) % 10 == 0


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
def test_a_card_s_number_is_found_however_it_is_written(
    card: str, separator: str, script: str, around: str
) -> None:
    sizes = [4, 6, 5] if len(card) in {14, 15} else [4, 4, 4, 4, 3]
    parts, rest = list[str](), card
    for size in sizes:
        parts.append(rest[:size])
        rest = rest[size:]
    written = separator.join(part for part in parts if part)
    written = written.translate(str.maketrans(string.digits, script))
    assert find_credential(around.format(written, written)) == CARD_NUMBER


def cards_written(*texts: str) -> list[str]:
    return [text.replace("@", "4111") for text in texts]


SPELLINGS = [
    *cards_written(
        "Visa-@ 1111 1111 1111", "Visa-@111111111111", "card-@-1111-1111-1111", "my Mastercard_@111111111111",
        "card@111111111111",
        "_@ 1111 1111 1111_", "__@111111111111__", "_@111111111111_", "@.1111.1111.1111", "@\u00b71111\u00b71111\u00b71111",
        "@/1111/1111/1111", "@_1111_1111_1111", "|@|1111|1111|1111|", "@ 1111 1111 1111x",
        "x@ 1111 1111 1111", "Karte: @.1111.1111.1111.",
        "card_number_@111111111111", "on 30-02-2015 @ 1111 1111 1111 is",
    ),
    "3782.822463.10005", "_3782 822463 10005_", "4222222222222", "4222 2222 2222 2",
]  # fmt: skip


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_card_s_number_is_found_in_unusual_spellings(text: str) -> None:
    assert find_credential(text) == CARD_NUMBER
    assert find_credential(f"a {text} b") == CARD_NUMBER


ESCAPED = [
    *cards_written(
        r"Ann\n@111111111111", r"Ann\t@ 1111 1111 1111", r"@\u00a01111\u00a01111\u00a01111", r"\uff14111111111111111",
        r"\u0034\u0031\u0031\u0031111111111111", r"\ud835\udfd2111111111111111", r"@\/1111\/1111\/1111", r"Ann\\n@111111111111",
        r"\x34111111111111111",
    ),
]  # fmt: skip


@pytest.mark.parametrize("text", ESCAPED)
def test_a_card_s_number_is_found_behind_escapes(text: str) -> None:
    for around in ("{}", '{{"name": "{}"}}', '{{"{}": 1}}', 'say {{"a": ["{}"]}}'):
        assert find_credential(around.format(text)) == CARD_NUMBER


def test_a_key_is_found_behind_escapes() -> None:
    body = made_up(WORD, 36)
    for text in (
        r"gh\u0070_" + body,
        r"ghp\u005f" + body,
        r"Ann\n" + "gh" + "p_" + body,
        r"\u0067hp_" + body,
    ):
        assert find_credential(f'{{"name": "{text}"}}') == "a GitHub token"


@pytest.mark.parametrize(
    "number",
    ["4111111111111111", "4111111111111111.0", "4.111111111111111e15", "41111111111111110E-1"],
)
def test_a_number_of_json_is_read_as_its_value(number: str) -> None:
    assert (
        find_credential_in_json(f'{{"a": [1.5, 1e999999999, 1e99999999999999999999, {number}]}}')
        == CARD_NUMBER
    )


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{",
        "[1.5, NaN, -4.111111111111111e15, 4111111111111111.5]",
        "9" * 5_000,
        '"\\ud835"',
    ],
)
def test_other_json_has_no_card_s_number(text: str) -> None:
    assert find_credential_in_json(text) is None


@given(st.text(string.digits, min_size=11, max_size=11))
def test_a_product_s_number_is_no_card_s(body: str) -> None:
    known = next(f"4{body}{digit}" for digit in range(10) if is_ean(f"4{body}{digit}"))
    assert find_credential(f"Buy {known} again") is None
    assert find_credential(f"{known[0]} {known[1:7]} {known[7:]}") is None


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
def test_identifiers_times_and_fractions_are_no_cards(
    known: uuid.UUID, at: date, fraction: float
) -> None:
    assert (
        find_credential(f"{known} {at.isoformat()} {at:%Y%m%d} 235959 {fraction!r} {fraction:.16f}")
        is None
    )


NUMBERS = [
    "ORD-4111111111111111", "order 405-4111111-1111111", "AB12-4111-1111-1111-1111", "0f8fad5b-d9cb-4691-8200-000000000007",
    "sku_4111111111111111", "4111111111111111a", "0x4111111111111111",
    "https://shop.example/items/4111111111111111", "3.4111111111111111", "41111111111111111111", "1764115200000",
    "1764115200000000000", "IMEI 490154203237518", "IMEI 35-209900-176148-1", "ISBN 978-3-16-148410-0", "1Z999AA10123456784",
    "9400 1000 0000 0000 0000 00", "0034 0434 1610 9412 3456", "4111 1111 1111 1112", "4111,1111,1111,1111",
    "4111\n1111\n1111\n1111", "30-02-2015 20-12-2017", "EAN 4222222222222", "barcode: 4222222222222", "GTIN-13: 4222222222222",
    "555-123456 555-43217", "AB12-4111 1111 1111 1111", "1.4111.1111.1111.1111", "4111.1111.1111.1111.1111.1",
    r"C:\\notes\\u0034",
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
    ("an AWS access key", "AB" + "SK" + made_up(WORD, 120)),
    ("a Perplexity API key", "pp" + "lx-" + made_up(WORD, 48)),
    ("a Replicate token", "r" + "8_" + made_up(WORD, 37)),
    ("an NVIDIA API key", "nv" + "api-" + made_up(WORD + "-_", 64)),
    ("a Tavily API key", "tv" + "ly-dev-" + made_up(WORD, 32)),
    ("a Tavily API key", "tv" + "ly-" + made_up(WORD, 32)),
    ("a Linear API key", "lin" + "_api_" + made_up(WORD, 40)),
    ("a Notion token", "nt" + "n_" + made_up(WORD, 46)),
    ("a Notion token", "sec" + "ret_" + made_up(WORD, 43)),
    ("a Figma token", "fi" + "gd_" + made_up(WORD + "-_", 40)),
    ("a Databricks token", "da" + "pi" + made_up(LOWER_HEX, 32)),
    ("a Postman API key", "PM" + "AK-" + made_up(LOWER_HEX, 24) + "-" + made_up(LOWER_HEX, 34)),
    ("a Sentry token", "snt" + "rys_eyJ" + made_up(WORD, 60)),
    ("a Supabase token", "sb" + "p_" + made_up(LOWER_HEX, 40)),
    ("a Twilio API key", "S" + "K" + made_up(LOWER_HEX, 32)),
    ("a Mailgun API key", "ke" + "y-" + made_up(LOWER_HEX, 32)),
    ("an age secret key", "AGE-SECRET" + "-KEY-1" + made_up(string.ascii_uppercase, 58)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "secret"), KEYS, ids=[f"{kind} {number}" for number, (kind, _) in enumerate(KEYS)]
)
def test_a_key_is_found_at_each_length_that_its_provider_gives(kind: str, secret: str) -> None:
    for around in ("{}", "The key is {}.", "a\n{}\nb", "first sk-your-key, then {}"):
        assert find_credential(around.format(secret)) == kind


IN_A_WORD = [
    "_{}_",
    "__{}__",
    "TOKEN_{}",
    "TOKEN={}",
    "key:{}",
    "my_access_token_{}",
    "**{}**",
    "token-{}",
]
SHORT_KEYS = [
    ("a GitHub token", "gh" + "p_" + made_up(WORD, 36)),
    ("an AWS access key", "AK" + "IA" + made_up(string.ascii_uppercase, 16)),
    ("a Google API key", "AI" + "za" + made_up(WORD, 35)),
    ("a Hugging Face token", "h" + "f_" + made_up(WORD, 34)),
    ("an npm token", "np" + "m_" + made_up(WORD, 36)),
    ("an Anthropic API key", "sk-" + "ant-api03-" + made_up(WORD, 30) + "9A"),
    ("an OpenAI API key", "sk-" + made_up(WORD, 22) + "9"),
]


@pytest.mark.parametrize("around", IN_A_WORD)
@pytest.mark.parametrize(("kind", "secret"), SHORT_KEYS, ids=[kind for kind, _ in SHORT_KEYS])
def test_a_key_is_found_in_markdown_and_behind_a_name(kind: str, secret: str, around: str) -> None:
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
    "-----BEGIN RSA PRIVATE KEY-----", "_ghp_" + "x" * 36 + "_", "TOKEN_ghp_" + "x" * 36, r"ghp\u005f" + "x" * 36,
    "pplx-your-api-key", "pplx-" + "x" * 48, "r8_" + "x" * 37, "nvapi-" + "x" * 64, "tvly-YOUR_API_KEY",
    "lin_api_" + "x" * 40, "ntn_...",
    "secret_manager_of_the_whole_company_account_x", "figd_your-personal-access-token-goes-in-here-please", "dapi" + "0" * 32,
    "PMAK-" + "x" * 24 + "-" + "x" * 34, "sbp_" + "0" * 40, "SK" + "x" * 32, "key-" + "x" * 32, "key-" + "0" * 32,
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
    "escapes": "\\", "escaped digits": "\\u0034", "names": "a_", "names of keys": "_sk-ant-", "names of tokens": "_eyJ",
    "emphasis": "_", "numbers of json": "4.1e1,", "groups": "4111.", "groups in words": "a4111|", "dates": "30-02-2015 ",
    "placeholders": "sk-your-key-aaaaaaaaaaaaaa1A ", "names of secrets": "aws_secret_access_key is ",
}  # fmt: skip


@pytest.mark.proof
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
