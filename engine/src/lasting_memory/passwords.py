"""Passwords in words: sentences that say what a password, a PIN or a secret is.

English, German, Spanish, Japanese and Chinese are read. `My password is hunter2hunter2` is one;
`The password is on the yellow note` and `Password policy: at least 12 characters` are none. What
looks like a password (letters with digits, say) counts wherever a sentence says that it is one. A
plain word counts only where nothing else can be meant: `my password is swordfish.`, `Password:
swordfish`. A phrase of several words passes.
"""

import re
import unicodedata

_PASSWORDS = r"pass(?:word|code|phrase)s?|passwd|pwd|pass(?:wort|wörter)s?|kenn(?:wort|wörter)s?|contraseñas?"
_PINS = r"(?<![a-z0-9])pin(?:[ _-]?(?:code|number|nummer))?s?|geheimzahl"
_SECRETS = (
    r"(?<![a-z0-9])(?:(?:client|app|api|shared|webhook)[ _-]?)?secret(?:[ _-]?key)?"
    r"|geheimnis|clave(?: secreta| de acceso)?"
)
# No part of a longer word, such as `password manager`, `password_hash` and `password-protected`.
_WHOLE = r"(?![a-z0-9à-ÿ]|[_-][a-z0-9])"
_LABEL = re.compile(
    r"(?P<password_cjk>パスワード|パスコード|合言葉|密[码碼]|口令)|(?P<pin_cjk>暗証番号|pin\s?[码碼])"
    rf"|(?:(?P<password>{_PASSWORDS})|(?P<pin>{_PINS})|(?P<secret>{_SECRETS})){_WHOLE}",
    re.IGNORECASE,
)
# Between the label and what it is said to be: what it is for, and a verb or a sign.
_FOR = (
    r"(?:\s*\([^()\n]{1,40}\)"
    r"|\s(?:for|of|to|on|at|in|für|von|vom|zum|zur|des|der|im|beim|de|del|para)\s[^\n.:;!?=|{}@]{1,60}?)?"
)
_NOW = r"(?:\s(?:now|still|currently|just|simply|always|jetzt|nun|noch|immer|ahora|siempre)){0,2}"
_IS = rf"\s(?:is|are|was|equals|ist|lautet|sind|war|es|son|era){_NOW}\s*:?\s"
_BECAME = r"\s(?:(?:is|was|has been|wurde)\s)?(?:changed|set|reset|geändert|gesetzt)\s(?:to|auf)\s"
_OF_CJK = r"\s?(?:は|が|是|为|為)\s?:?"
_SIGN = r"\s?(?P<sign>:=|[:=→|]|[=-]>)"
_CLOSING = r"[\"'`*_)\]”\u2019」]{0,4}"
_QUOTES = "\"'`*“”„«»\u201a\u2018\u2019「」『』"
_VALUE = rf"(?P<value>(?:(?![{_QUOTES}])[!-~À-ɏ])(?:(?![\"“”„«»])[!-~À-ɏ]){{0,99}})"
_SAYS = re.compile(
    rf"(?:['\u2019]s\s|{_CLOSING}{_FOR}(?:{_BECAME}|{_IS}|{_OF_CJK}|{_CLOSING}{_SIGN}{_CLOSING}))"
    rf"\s{{0,2}}[{_QUOTES}]{{0,3}}{_VALUE}",
    re.IGNORECASE,
)
_BESIDE = re.compile(rf"\s[{_QUOTES}]{{0,3}}{_VALUE}")
# `hunter2 is my password`, `I use hunter2 as the password`: what stands before a label.
_BEFORE = re.compile(
    rf"(?:^|[\s{_QUOTES}]){_VALUE}[{_QUOTES}]{{0,3}}\s(?:is|as|ist|als|es|como)(?:\s[\w-]{{1,20}}){{0,3}}\s[\w-]{{0,20}}\Z",
    re.IGNORECASE,
)
_BEFORE_CHARS = 120
# What ends a clause: after a value that may be an ordinary word or number nothing of the same
# clause follows.
_END = re.compile(
    rf"[{_QUOTES})\]}}]*\s?(?:\Z|\n|[.,;!?、。|)]|[-\u2013\u2014] |(?:and|und|y|but|aber|please|bitte)\b|です|だ|でした)"
)
_SENTENCE_END = re.compile(
    rf"[{_QUOTES}]*(?:です|だ)?[{_QUOTES}]*[.!。]?[{_QUOTES}]*\s*(?:\Z|\n|[A-Z(])|。"
)
_TRAILING = ".,;:!?)]}>*'\u2019`_|"
_OWN = re.compile(
    r"(?:\b(?:my|our|mein|meine|unser|unsere|mi|nuestra|nuestro)\s(?:[\w-]{1,20}\s){0,2}[\w-]{0,20}|私の|我的|我们的)\Z",
    re.IGNORECASE,
)
# A line or a sentence that is nothing but an entry, such as `- Wi-Fi password: swordfish`.
_ENTRY = re.compile(
    rf"(?:\A|\n|[.!?] )[ \t>+{_QUOTES}-]{{0,8}}(?:[\w'\u2019-]{{1,20}} ){{0,3}}[^\W_]{{0,20}}-?\Z"
)
_OWN_CHARS = 80
# Characters of each.
_LEAST_SECRET = 8
_LEAST_PASSWORD = 4
_LEAST_PIN = 4
_MOST_PIN = 12

# Published placeholders, and what stands for a value in code and in templates.
_NO_VALUE = re.compile(
    r"[<{$%(\[/~.\\-]|.*(?:\(|\[|\$\{|://|%|\*{3}|\.{3}|x{4}|example|placeholder|redacted|your[_-]|settings\.|environ)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
# Names and numbers with letters that stand beside the word without being one.
_UNITS = (
    r"h|s|m|min|am|pm|x|k|bits?|bytes?|chars?|characters?|digits?|letters?|words?|times|days?|weeks?|months?|years?"
    r"|zeichen|ziffern|stellig\w*|tage?n?|wochen?|monate?n?|jahre?n?|caracteres|dígitos|días|meses|años"
)
_NAMES = re.compile(
    r"(?:sha|aes|utf|argon|pbkdf|base|oauth|rfc|iso|tls|http)[_-]?\d+[\w/-]*|(?:md|rsa|ed|x)\d+|v\d+(?:\.\d+)*|[a-z]+2id"
    rf"|1password|(?:2|two|multi)-?fa(?:-\w+)?|\d+(?:st|nd|rd|th)|\d+[-\u2013]?(?:{_UNITS})(?:[-\u2013]\w+)?",
    re.IGNORECASE,
)
# Plain words that are said of passwords, and the names of what keeps them.
_SAID_OF = """
    ask asked bad changeme compromised correct different easy empty false fine good gone guessable hard hashed here hidden
    incorrect insecure invalid known leaked long lost missing mandatory mine necessary needed new none null old optional
    personal private public required safe same secret secure short string strong stored text there true unchanged unknown unset
    unsafe valid wrong weak yours
    alt anders bekannt falsch fehlt festgelegt geheim gleich gut hier kurz lang leer neu nicht notwendig nötig optional
    persönlich richtig schlecht schwach sicher stark unbekannt unsicher ungültig weg
    bueno buena corta correcta débil distinta diferente fuerte falsa incorrecta igual larga mala nueva obligatoria opcional
    segura secreta vieja
    bitwarden dashlane icloud keepass keepassxc keychain lastpass nordpass vault
"""
_ORDINARY = frozenset(_SAID_OF.split())
_PREDICATE = re.compile(
    r".{2,}(?:ed|ing|able|ible|ful|less|ly|bar|los|lich|ig|iert|ado|ada|ido|ida|able)"
    r"|(?:ab|an|auf|aus|ein|zu)?ge\w+(?:t|en)|(?:ver|be|ent)\w+(?:t|en)",
    re.IGNORECASE,
)
_SIGN_INSIDE = re.compile(r"\w[!@#$^&*+=~]\w")
_WORD = re.compile(r"[^\W\d_]+(?:(?:-[^\W\d_]+){3,})?")


def says_password(text: str) -> bool:
    """Whether a text says what a password, a passcode, a PIN or a secret is."""
    text = unicodedata.normalize("NFKC", text)  # wide colons, letters and digits become narrow ones
    labels = _LABEL.finditer(text)
    return any(_is_said(text, label) for label in labels)


def _is_said(text: str, label: re.Match[str]) -> bool:
    """Whether a text says what the password is that a label names."""
    kind = (label.lastgroup or "").removesuffix("_cjk")
    return (
        _is_said_after(kind, text, label)
        or _stands_beside(kind, text, label)
        or _is_said_before(kind, text, label)
    )


def _is_said_after(kind: str, text: str, label: re.Match[str]) -> bool:
    """Whether a sign or a verb follows a label, and then a value of this kind: `PIN: 4711`."""
    statement = _SAYS.match(text, label.end())
    if statement is None:
        return False
    if _is_value(kind, text, statement):
        return True
    return kind == "password" and _is_plain_word(text, label, statement)


def _stands_beside(kind: str, text: str, label: re.Match[str]) -> bool:
    """Whether a value follows a label at once: `password hunter2hunter2`."""
    beside = _BESIDE.match(text, label.end())
    if beside is None:
        return False
    value = _bare(beside)
    if not _looks_random(value):
        return False
    return _is_value(kind, text, beside) and _ends_clause(text, beside)


def _is_said_before(kind: str, text: str, label: re.Match[str]) -> bool:
    """Whether a value stands before its label: `hunter2 is my password`."""
    if not _END.match(text, label.end()):
        return False
    text_before = _before(text, label, _BEFORE_CHARS)
    before = _BEFORE.search(text_before)
    if before is None:
        return False
    value = _bare(before)
    return _looks_like(kind, value)


def _before(text: str, label: re.Match[str], chars: int) -> str:
    """So many characters before a label."""
    end = label.start()
    start = max(end - chars, 0)
    return text[start:end]


def _bare(match: re.Match[str]) -> str:
    """The value without what ends its clause."""
    value: str = match["value"]
    return value.rstrip(_TRAILING)


def _ends_clause(text: str, match: re.Match[str]) -> bool:
    """Whether nothing of the same clause follows the value."""
    end = _end_of_value(match)
    return _END.match(text, end) is not None


def _end_of_value(match: re.Match[str]) -> int:
    """Where a value ends, without what ends its clause."""
    value = _bare(match)
    return match.start("value") + len(value)


def _is_value(kind: str, text: str, match: re.Match[str]) -> bool:
    """Whether the value of a match looks like a password, and is not only a count of characters."""
    value = _bare(match)
    if not _looks_like(kind, value):
        return False
    # A number alone may be how many characters a password has.
    return not value.isdigit() or _ends_clause(text, match)


def _looks_like(kind: str, value: str) -> bool:
    """Whether a text looks like a password, a PIN or a secret, and like no word."""
    if _NO_VALUE.match(value) or _NAMES.fullmatch(value) or _ADDRESS.fullmatch(value):
        return False
    length = len(value)
    if kind == "pin":
        return value.isdigit() and _LEAST_PIN <= length <= _MOST_PIN
    has_letter = any(map(str.isalpha, value))
    has_digit = any(map(str.isdigit, value))
    if kind == "secret":
        has_length = length >= _LEAST_SECRET
        has_sign_of_names = "-" in value or "." in value
        return has_letter and has_digit and has_length and not has_sign_of_names
    if length < _LEAST_PASSWORD:
        return False
    if has_digit:
        return has_letter or value.isdigit()
    return has_letter and _SIGN_INSIDE.search(value) is not None


def _looks_random(value: str) -> bool:
    """Whether small letters and digits are mixed, as in no number of a standard or a ticket."""
    if len(value) <= _LEAST_PASSWORD:
        return False
    small_letter = re.search(r"[a-z]", value)
    digit = re.search(r"\d", value)
    return small_letter is not None and digit is not None


def _is_plain_word(text: str, label: re.Match[str], statement: re.Match[str]) -> bool:
    """Whether a plain word, with which a sentence ends, is said to be one's password."""
    value = _bare(statement)
    name = label[0].lower()
    is_plural = name.endswith(("words", "wörter", "s"))
    if is_plural or not _may_be_password(value):
        return False
    before = _before(text, label, _OWN_CHARS)
    is_own = _OWN.search(before) is not None
    is_entry = statement["sign"] == ":" and _ENTRY.search(before) is not None
    if not is_own and not is_entry:
        return False
    end = _end_of_value(statement)
    after = text[end:]
    return _SENTENCE_END.match(after) is not None


def _may_be_password(word: str) -> bool:
    """Whether this is a word, and none that is commonly said of passwords."""
    if len(word) < _LEAST_PASSWORD:
        return False
    if not _WORD.fullmatch(word) or _NO_VALUE.match(word):
        return False
    if word.lower() in _ORDINARY:
        return False
    return _PREDICATE.fullmatch(word) is None
