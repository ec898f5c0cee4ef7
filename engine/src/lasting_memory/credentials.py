"""Credentials in a text: keys and tokens by the formats of their issuers, numbers of payment cards,
and passwords in words.

Published placeholders pass: AWS's `AKIAIOSFODNN7EXAMPLE`, `ghp_xxxxxxxx...`,
`sk-ant-api03-YOUR_KEY`, a private key's header without a key. Every search takes time in proportion
to the text's length.
"""

import json
import re
from collections.abc import Iterator
from decimal import Decimal

from lasting_memory.passwords import says_password

# Of a body in which words are joined by hyphens: has a digit and a capital, which prose has not.
_MIXED = r"(?=[\w-]*\d)(?=[\w-]*[A-Z])"

# Between the lines of a key: line breaks, also as JSON and code write them, quotes, and marks of a
# quotation.
_BREAK = r"(?:\s|\\[nrt]|[>|,'\"+]){1,80}+"

# Keys by provider, as the issuers document or show them. The least length is at or below the
# shortest that the provider gives.
CREDENTIALS = {
    "an AWS access key": r"(?:(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])|ABSK[A-Za-z0-9+/]{80,})",
    "an AWS secret key": (
        r"(?i:secret[_ -]?access[_ -]?key|aws[_ -]?secret(?:[_ -]?key)?)\W{1,6}(?:is\W{1,6})?"
        r"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"
    ),
    "an Azure storage key": r"(?:Account|SharedAccess)Key\W{1,6}(?:[A-Za-z0-9/+]{86}==|[A-Za-z0-9/+]{43}=)",
    "a Google API key": r"(?:AIza[\w-]{35}(?![A-Za-z0-9-]|_{1,3}[A-Za-z0-9])|GOCSPX-[\w-]{28}|ya29\.[\w-]{30,})",
    "an Anthropic API key": rf"sk-ant-{_MIXED}(?:[a-z]+\d\d-)?[\w-]{{24,}}",
    # The middle of newer keys is "OpenAI" in base64; OpenRouter and others give keys of the same
    # form.
    "an OpenAI API key": (
        r"sk-(?:[\w-]{16,}T3BlbkFJ[\w-]{16,}"
        rf"|(?:proj|svcacct|admin|None)-{_MIXED}[\w-]{{20,}}"
        r"|or-v1-[0-9a-f]{40,}"
        r"|(?=[a-zA-Z]*\d)[A-Za-z0-9]{20,}(?![A-Za-z0-9-]|_{1,3}[A-Za-z0-9]))"
    ),
    "a LangSmith API key": r"(?:lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}|ls__[0-9a-f]{32})(?![A-Za-z0-9])",
    "a GitHub token": r"(?:gh[pousr]_[A-Za-z0-9]{30,}|ghs_(?:\d+_)?eyJ[\w.-]{20,}|github_pat_\w{22,})",
    # Newer ones go on after a period.
    "a GitLab token": r"(?:gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-[\w-]{20,}|GR1348941[\w-]{20})",
    "a Slack token": (
        r"(?:(?:xox[abceoprs]|xapp)-\d[\w-]{15,}|xoxd-[\w%+/-]{20,}|hooks\.slack\.com/services/T\w{8,}/B\w{8,}/\w{20,})"
    ),
    "a Stripe key": r"(?:[rs]k_(?:live|test|prod)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,})",
    "a Hugging Face token": r"(?:hf_[A-Za-z0-9]{30,}|api_org_[A-Za-z0-9]{34})(?![A-Za-z0-9])",
    # Signed, or encrypted in five parts. The subject 1234567890 is that of the token in every
    # tutorial.
    "a JSON web token": (
        r"eyJ[\w-]{10,}\.(?!eyJzdWIiOiIxMjM0NTY3ODkwI)"
        r"(?:eyJ[\w-]{7,}\.[\w-]{16,}|[\w-]{0,2000}\.[\w-]{16,}\.[\w-]{16,}\.[\w-]{16,})"
    ),
    # Then, on one line or many, lines such as `Proc-Type: 4,ENCRYPTED`, and the beginning of the
    # key itself.
    "a private key": (
        r"-{4,5} ?BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
        rf"{_BREAK}(?:[A-Za-z-]{{3,30}}: [^\n\\]{{0,200}}+{_BREAK}){{0,5}}[A-Za-z0-9+/=]{{32}}"
    ),
}
# Of further services, whose keys have a prefix of their own.
SERVICE_KEYS = {
    "an npm token": r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])",
    "a PyPI token": r"pypi-AgE[\w-]{50,}",
    "a SendGrid key": r"SG\.[\w-]{16,}\.[\w-]{32,}",
    "a DigitalOcean token": r"do[opr]_v1_[a-f0-9]{64}",
    "a Docker token": r"dckr_(?:pat|oat)_[\w-]{27,}",
    "a Groq API key": r"gsk_[A-Za-z0-9]{40,}",
    "an xAI API key": r"xai-[A-Za-z0-9]{60,}",
    "a Shopify token": r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    "an Atlassian token": r"ATATT3[\w=-]{60,}",
    "a Grafana token": r"glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}",
    "a Vault token": r"hv[sbr]\.[\w-]{24,}",
    "a Telegram bot token": r"\d{8,10}:AA[\w-]{33}(?![A-Za-z0-9-]|_{1,3}[A-Za-z0-9])",
    "an age secret key": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    "a Perplexity API key": r"pplx-[A-Za-z0-9]{40,}",
    "a Replicate token": r"r8_[A-Za-z0-9]{37,}",
    "an NVIDIA API key": r"nvapi-[\w-]{60,}",
    "a Tavily API key": r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{28,}",
    "a Linear API key": r"lin_api_[A-Za-z0-9]{32,}",
    "a Notion token": r"(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}(?![A-Za-z0-9]))",
    "a Figma token": r"figd_[\w-]{36,}",
    "a Databricks token": r"dapi[a-f0-9]{32}(?![A-Za-z0-9])",
    "a Postman API key": r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    "a Sentry token": r"(?:sntrys_eyJ[\w+/=-]{40,}|sntryu_[a-f0-9]{64})",
    "a Supabase token": r"sbp_[a-f0-9]{40}",
    "a Twilio API key": r"SK[a-f0-9]{32}(?![A-Za-z0-9])",
    "a Mailgun API key": r"key-[a-f0-9]{32}(?![A-Za-z0-9-])",
}
CARD_NUMBER = "a card number"
PASSWORD = "a password"  # noqa: S105
_KINDS = [*CREDENTIALS, *SERVICE_KEYS]
# They begin with words, or with hyphens. All others begin a word (with hyphens), so that each word
# is read a few times at most.
_ANYWHERE = {"an AWS secret key", "an Azure storage key", "a private key"}
# What may stand in the same word before a key: Markdown's emphasis, or a name as in
# `TOKEN_ghp_...`.
_NAME_BEFORE = r"(?<![\w-])(?=\w)(?:_{1,3}|(?:[A-Za-z0-9]{1,20}[_-]){1,4}?)??"


def _one_search() -> re.Pattern[str]:
    """A group for each kind, in the order of `_KINDS`, named after its place: `k0`, `k1` and so on."""
    anywhere: list[str] = []
    in_words: list[str] = []
    for number, (kind, shape) in enumerate({**CREDENTIALS, **SERVICE_KEYS}.items()):
        shapes = anywhere if kind in _ANYWHERE else in_words
        shapes.append(f"(?P<k{number}>{shape})")
    return re.compile(f"{'|'.join(anywhere)}|{_NAME_BEFORE}(?:{'|'.join(in_words)})", re.ASCII)


_KEY = _one_search()
# What nobody's key has in it. The last three are keys of Stripe's documentation.
_FILLER = re.compile(
    r"example|placeholder|redacted|your[_-]|x{6}|0{8}|4eC39HqLyj|BQokikJOvB|tR3PYbcVNZ",
    re.IGNORECASE,
)
# `glpat-some-token-here`: after the prefix words of one case, without a digit.
_WORDS = re.compile(
    r"(?:sk-ant-[a-z]+\d\d|[^_-]+)(?:[_-]+(?:[a-z]{1,15}|[A-Z]{1,15})(?![a-zA-Z])){2,}[_-]*"
)


# Escapes of JSON, YAML and code. Text that was quoted twice has more backslashes.
_ESCAPE = re.compile(r"(?<!\\)\\{1,8}(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([nrtbf/\"]))")
_ESCAPED = {"/": "/", '"': '"'}  # all others of one letter are breaks


def find_credential(text: str) -> str | None:
    """The kind of a credential in a text, such as "an AWS access key", "a card number" or "a
    password"; None without one.

    The text is read as it is, and with its escapes (such as `\\n` and `\\u0034`) decoded, as
    whoever reads its JSON sees it.
    """
    kind = _find_in_plain(text)
    if kind is None and "\\" in text:
        kind = _find_in_plain(_unescaped(text))
    return kind


def find_credential_in_json(text: str) -> str | None:
    """As `find_credential`, for a text that may be JSON: numbers with a period or an exponent are
    read as whole ones.
    """
    return find_credential(text) or find_credential("\n".join(_whole_numbers(text)))


def _find_in_plain(text: str) -> str | None:
    for match in _KEY.finditer(text):
        group = match.lastgroup or "k0"
        value = match[group].split()[-1]
        if not _FILLER.search(value) and not _WORDS.fullmatch(value):
            return _KINDS[int(group[1:])]
    if _has_card_number(text):
        return CARD_NUMBER
    return PASSWORD if says_password(text) else None


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(_character, text)
    # Two escapes may be the halves of one character.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _character(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    if code:
        return chr(int(code, 16))
    return _ESCAPED.get(escape[3], "\n")


def _whole_numbers(text: str) -> list[str]:
    """The digits of JSON's numbers such as `41.0` and `4.1e1`; none of a text that is no JSON."""
    written: list[str] = []
    try:
        json.loads(text, parse_float=written.append, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError):
        return []
    numbers = [Decimal(number) for number in written if len(number) <= _MOST_CHARACTERS]
    within = [number for number in numbers if number > 0 and 0 <= number.adjusted() < _MOST]
    return [f"{number:.0f}" for number in within if number == number.to_integral_value()]


# --- Card numbers

# Prefixes of issuers, and the lengths of their numbers in digits. The first prefix that matches
# counts.
_ISSUERS: dict[str, set[int]] = {
    r"4": {13, 16, 19},  # Visa
    r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720": {16},  # Mastercard
    r"3[47]": {15},  # American Express
    r"6011|64[4-9]|65": {16, 19},  # Discover
    r"30[0-5]|3095|36|38|39": {14, 16, 19},  # Diners Club
    r"352[89]|35[3-8]": {16, 17, 18, 19},  # JCB
    r"2131|1800": {15},  # JCB, the older ones
    r"62|81": {16, 17, 18, 19},  # UnionPay
    r"50|5[6-8]|63|67": {13, 14, 15, 16, 17, 18, 19},  # Maestro, Elo, Verve, Hipercard
    r"220[0-4]": {16, 17, 18, 19},  # Mir
    r"60|82": {16},  # RuPay
    r"9792|8600|9860": {16},  # Troy, UzCard, Humo
}
# A group for each, in their order.
_ISSUED = re.compile("|".join(f"({prefix})" for prefix in _ISSUERS))
_LENGTHS = list(_ISSUERS.values())
_FEWEST, _MOST = 13, 19
_MOST_CHARACTERS = 100  # of a number in JSON
# The sum of the digits of twice a digit.
_DOUBLED = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]
# Spaces, hyphens and dashes of any kind, and characters without width, as they come with a copied
# number.
_SEPARATOR = r"[ \t\u00a0\u00ad\u1680\u2000-\u200d\u2010-\u2015\u202f\u205f\u2060\u2212\u3000\ufe58\ufe63\ufeff\uff0d-]"
# `\d` are the digits of all scripts.
_NUMBERS = re.compile(rf"\d(?:{_SEPARATOR}{{0,3}}\d){{{_FEWEST - 1},}}")
_GROUP = re.compile(r"\d+")
# How cards show their numbers: a date or another number may stand beside them. What stands alone
# may be grouped otherwise.
_GROUPINGS = {
    *((4, 4, 4, rest) for rest in (1, 2, 3, 4)),
    *((4, 4, 4, 4, rest) for rest in (1, 2, 3)),
    (4, 6, 5),
    (4, 6, 4),
    (4, 3, 3, 3),
    (6, 13),
}
_SHORTEST_GROUP = 4  # of those that come first
_GROUPS_OF_A_CARD = sorted({len(grouping) for grouping in _GROUPINGS})
# An order's number has three groups, of which one is longer than any of a card's.
_LONGEST_GROUP = 6
# A telephone number begins with a plus and has no more digits.
_TELEPHONE_DIGITS = 15
# A part of an identifier or of a fraction. Underscores alone are Markdown's emphasis.
_JOINED_BEFORE = re.compile(r"(?:[A-Za-z]_{0,3}-?|\d_{1,3}-?|\d\.)\Z")
_JOINED_AFTER = re.compile(r"[A-Za-z]|_{1,3}[A-Za-z0-9]|\.\d")
# Behind these a number is a card's although it is written in one word with them: `Visa-4111...`,
# `card4111...`.
_CARD_WORD = re.compile(
    r"(?:visa|master|maestro|amex|express|discover|diners|jcb|unionpay|card|karte|carte|carta|tarjeta|kort|kaart"
    r"|credit|kredit|debit)(?:[ _-]?(?:number|num|no|nr))?[_-]{0,3}\Z",
    re.IGNORECASE,
)
_BEFORE = 24  # characters, in which such a word is looked for
# A product's number, which has 13 or 14 digits.
_PRODUCT_WORD = re.compile(
    r"\b(?:EAN|GTIN|ISBN|UPC|JAN|bar ?code)(?:-?\d\d)?\W{0,4}\Z", re.IGNORECASE
)
_PRODUCT_DIGITS = {13, 14}
# Days, of which two beside each other have as many digits as a card.
_DATE = re.compile(
    r"(?<![\d-])(?:[0-3]?\d-[01]?\d-(?:19|20)\d\d|(?:19|20)\d\d-[01]?\d-[0-3]?\d)(?![\d]|-\d)",
    re.ASCII,
)
# A card's groups with one separator, be it unusual. In one word with them may be letters, as in
# `Visa-4111 1111 ...`.
_SHOWN_SEPARATOR = r"[ \u00a0./|_\u00b7\u2022\u2027\u2219\u22c5\u30fb-]"
_SHOWN = re.compile(
    rf"(?<!\d)(?<!\d{_SHOWN_SEPARATOR})(?:"
    rf"\d{{4}}(?P<four>{_SHOWN_SEPARATOR})\d{{4}}(?P=four)\d{{4}}(?P=four)\d{{4}}(?:(?P=four)\d{{1,3}})?"
    rf"|\d{{4}}(?P<six>{_SHOWN_SEPARATOR})\d{{6}}(?P=six)\d{{4,5}}"
    rf")(?!\d|{_SHOWN_SEPARATOR}\d)"
)
# `AB12-` and `0f8e` begin identifiers, `Visa-` does not.
_CODE_BEFORE = re.compile(r"[0-9][A-Za-z0-9]*[_./-]?\Z|[A-Za-z0-9]*[0-9][A-Za-z]+[_./-]?\Z")
# An address without its query. A page's number is no card's.
_ADDRESS = re.compile(r"https?://[!\"$->@-~]*")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:[ \u00a0\u202f]?[A-Z0-9]){11,30}")
_SHORTEST_IBAN = 15


def _has_card_number(text: str) -> bool:
    if not _NUMBERS.search(text) and not _SHOWN.search(text):
        return False
    text = _IBAN.sub(_without_iban, _ADDRESS.sub("/", text))
    if any(_is_shown_card(text, match) for match in _SHOWN.finditer(text)):
        return True
    text = _DATE.sub("/", text)
    for run in _NUMBERS.finditer(text):
        before = text[max(run.start() - _BEFORE, 0) : run.start()]
        is_product = _PRODUCT_WORD.search(before) is not None
        for number in _candidates(_groups(text, run), _separators(run)):
            if is_product and len(number) in _PRODUCT_DIGITS:
                continue
            if _is_card_number(number):
                return True
    return False


def _is_shown_card(text: str, match: re.Match[str]) -> bool:
    """Whether groups of a card's sizes are a card's number, and no part of an identifier."""
    before = text[max(match.start() - _BEFORE, 0) : match.start()]
    after = text[match.end() : match.end() + 1]
    hyphened = "-" in (match["four"], match["six"])
    if before.endswith("+") or _CODE_BEFORE.search(before):
        return False
    if hyphened and (after.isalnum() or after == "-"):  # such as a UUID
        return False
    return _is_card_number("".join(_GROUP.findall(match[0])))


def _separators(run: re.Match[str]) -> set[str]:
    """What stands between the groups of a run."""
    return {*_GROUP.split(run[0])[1:-1]}


def _groups(text: str, run: re.Match[str]) -> list[str]:
    """The groups of digits in a run, without those that belong to a word, a fraction or a telephone
    number beside it.
    """
    groups = _GROUP.findall(run[0])
    between = _GROUP.split(run[0])[1:-1]
    before = text[max(run.start() - _BEFORE, 0) : run.start()]
    after = text[run.end() : run.end() + 4]
    first, last = 0, len(groups)
    if before.endswith("+"):
        first = _telephone_groups(groups)
    elif _JOINED_BEFORE.search(before[-5:]) and not _CARD_WORD.search(before):
        first = 1
        while first < last and between[first - 1] == "-":
            first += 1
    if _JOINED_AFTER.match(after):
        last -= 1
        while last > first and between[last - 1] == "-":
            last -= 1
    return groups[first:last]


def _telephone_groups(groups: list[str]) -> int:
    """How many of the first groups a telephone number may have."""
    digits = 0
    for number, group in enumerate(groups):
        digits += len(group)
        if digits > _TELEPHONE_DIGITS:
            return number
    return len(groups)


def _candidates(groups: list[str], separators: set[str]) -> Iterator[str]:
    """What may be a card's number among neighbouring groups of digits, with these between them."""
    sizes = [len(group) for group in groups]
    # Two kinds of separators are between two numbers, such as telephones.
    alone = len(separators) <= 1 and sum(sizes) <= _MOST
    if alone and (len(sizes) <= 2 or max(sizes) <= _LONGEST_GROUP):  # noqa: PLR2004
        yield "".join(groups)
    for start, size in enumerate(sizes):
        if size < _SHORTEST_GROUP:
            continue
        if _FEWEST <= size <= _MOST:
            yield groups[start]
        for number in _GROUPS_OF_A_CARD:
            if tuple(sizes[start : start + number]) in _GROUPINGS:
                yield "".join(groups[start : start + number])


def _is_card_number(digits: str) -> bool:
    """Whether an issuer gives numbers of this prefix and length, and the check digit is right
    (ISO/IEC 7812, Luhn).
    """
    if not _FEWEST <= len(digits) <= _MOST:
        return False
    values = [int(digit) for digit in digits]  # of any script
    issuer = _ISSUED.match("".join(map(str, values)))
    if issuer is None or len(values) not in _LENGTHS[(issuer.lastindex or 1) - 1]:
        return False
    if _is_product_number(values):
        return False
    doubled = sum(_DOUBLED[value] for value in values[-2::-2])
    return (doubled + sum(values[-1::-2])) % 10 == 0


def _is_product_number(values: list[int]) -> bool:
    """Whether these are the digits of an EAN-13 (GTIN-13). German ones begin as Visa's do, whose
    new ones have 16.
    """
    return len(values) == _FEWEST and (3 * sum(values[-2::-2]) + sum(values[-1::-2])) % 10 == 0


def _without_iban(match: re.Match[str]) -> str:
    """The text without the account's number that it begins with, if there is one (ISO 13616: the
    remainder by 97 is 1).
    """
    text = match[0]
    ends = [end for end in range(len(text), 0, -1) if not text[end - 1].isspace()]
    for end in ends[: len(ends) - _SHORTEST_IBAN + 1]:
        compact = "".join(text[:end].split())
        number = int("".join(str(int(character, 36)) for character in compact[4:] + compact[:4]))
        if number % 97 == 1:
            return "/" + text[end:]
    return text
