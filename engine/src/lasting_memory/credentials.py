"""Credentials in a text: keys and tokens, numbers of payment cards, and passwords in words.

Keys and tokens are found by the formats of their issuers. Published placeholders pass: AWS's
`AKIAIOSFODNN7EXAMPLE`, `ghp_xxxxxxxx...`, `sk-ant-api03-YOUR_KEY`, a private key's header without a
key. Every search takes time in proportion to the text's length.
"""

import re

from lasting_memory.card_numbers import has_card_number, whole_numbers
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
    """The expression that finds a key of any kind, in one search.

    It has a group for each kind, in the order of `_KINDS`: `k0`, `k1` and so on.
    """
    anywhere = list[str]()
    in_words = list[str]()
    shapes_by_kind = {**CREDENTIALS, **SERVICE_KEYS}
    for number, (kind, shape) in enumerate(shapes_by_kind.items()):
        group = f"(?P<k{number}>{shape})"
        if kind in _ANYWHERE:
            anywhere.append(group)
        else:
            in_words.append(group)
    any_of_words = "|".join(in_words)
    shapes = [*anywhere, f"{_NAME_BEFORE}(?:{any_of_words})"]
    return re.compile("|".join(shapes), re.ASCII)


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
    """The kind of a credential in a text, such as "an AWS access key"; None without one.

    Other kinds are "a card number" and "a password". The text is read as it is, and with its
    escapes (such as `\\n` and `\\u0034`) decoded, as whoever reads its JSON sees it.
    """
    kind = _kind_in(text)
    if kind is None and "\\" in text:
        kind = _kind_in(_unescaped(text))
    return kind


def find_credential_in_json(text: str) -> str | None:
    """As `find_credential`, for a text that may be JSON.

    Its numbers with a period or an exponent are read as whole ones.
    """
    kind = find_credential(text)
    if kind:
        return kind
    numbers = whole_numbers(text)
    return find_credential("\n".join(numbers))


def _kind_in(text: str) -> str | None:
    """The kind of a credential in a text as it stands; None without one."""
    for match in _KEY.finditer(text):
        group = match.lastgroup or "k0"
        words = match[group].split()
        value = words[-1]
        if not _FILLER.search(value) and not _WORDS.fullmatch(value):
            number = int(group[1:])
            return _KINDS[number]
    if has_card_number(text):
        return CARD_NUMBER
    if says_password(text):
        return PASSWORD
    return None


def _unescaped(text: str) -> str:
    """A text with its escapes decoded once."""
    plain = _ESCAPE.sub(_character, text)
    # Two escapes may be the halves of one character.
    encoded = plain.encode("utf-16-le", "surrogatepass")
    return encoded.decode("utf-16-le", "replace")


def _character(escape: re.Match[str]) -> str:
    """The character that an escape stands for; a line break for all that are breaks or spaces."""
    code = escape[1] or escape[2]
    if code:
        number = int(code, 16)
        return chr(number)
    letter = escape[3]
    return _ESCAPED.get(letter, "\n")
