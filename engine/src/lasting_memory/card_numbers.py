"""Numbers of payment cards in a text.

They are told from other numbers by their issuer's prefix and length, their check digit, and by what
stands beside them: telephone numbers, identifiers, product numbers, dates and bank accounts are
none.

A run is a match of digits with at most a few spaces or hyphens between them. A group is a part of a
run without such separators; a card shows its number in groups.
"""

import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation

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
_FEWEST = 13
_MOST = 19
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
    (4, 4, 4, 1),
    (4, 4, 4, 2),
    (4, 4, 4, 3),
    (4, 4, 4, 4),
    (4, 4, 4, 4, 1),
    (4, 4, 4, 4, 2),
    (4, 4, 4, 4, 3),
    (4, 6, 5),
    (4, 6, 4),
    (4, 3, 3, 3),
    (6, 13),
}
_SHORTEST_GROUP = 4  # of those that come first
_GROUPS_OF_A_CARD = sorted({len(grouping) for grouping in _GROUPINGS})
# An order's number has three groups, of which one is longer than any of a card's.
_LONGEST_GROUP = 6
_GROUPS_OF_ANY_SIZE = 2
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
# Characters before a number in which such a word is looked for, and those after it that may be of
# the same word.
_BEFORE = 24
_AFTER = 4
# A product's number, which has 13 or 14 digits.
_PRODUCT_WORD = re.compile(
    r"\b(?:EAN|GTIN|ISBN|UPC|JAN|bar ?code)(?:-?\d\d)?\W{0,4}\Z", re.IGNORECASE
)
_PRODUCT_DIGITS = {13, 14}
_EAN_DIGITS = 13
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


def has_card_number(text: str) -> bool:
    """Whether a number of a payment card stands in a text. In time proportional to its length."""
    has_run = _NUMBERS.search(text) is not None
    has_groups = _SHOWN.search(text) is not None
    if not has_run and not has_groups:
        return False
    without_addresses = _ADDRESS.sub("/", text)
    without_accounts = _IBAN.sub(_without_iban, without_addresses)
    for match in _SHOWN.finditer(without_accounts):
        if _is_shown_card(without_accounts, match):
            return True
    without_dates = _DATE.sub("/", without_accounts)
    runs = _NUMBERS.finditer(without_dates)
    return any(_has_card_in(without_dates, run) for run in runs)


def _text_before(text: str, match: re.Match[str]) -> str:
    """The characters before a match, in which a word may say what it is."""
    start = match.start()
    first = max(start - _BEFORE, 0)
    return text[first:start]


def _has_card_in(text: str, run: re.Match[str]) -> bool:
    """Whether a card's number is among the groups of a run in a text."""
    before = _text_before(text, run)
    is_product = _PRODUCT_WORD.search(before) is not None
    groups = _own_groups(text, run)
    separators = set(_separators(run))
    for number in _candidates(groups, separators):
        if is_product and len(number) in _PRODUCT_DIGITS:
            continue
        if _is_card_number(number):
            return True
    return False


def whole_numbers(text: str) -> list[str]:
    """The digits of the whole numbers in a JSON text that are written like `41.0` or `4.1e1`, and are
    not too long for a card's number.

    The list is empty for a text that is no JSON.
    """
    written = list[str]()
    try:
        # What reads a float only notes how it is written.
        json.loads(text, parse_float=written.append, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError):
        return []
    digits = list[str]()
    for number_text in written:
        if len(number_text) > _MOST_CHARACTERS:
            continue
        try:
            number = Decimal(number_text)
        except InvalidOperation:  # an exponent beyond what Decimal holds
            continue
        if _may_be_card(number):
            digits.append(f"{number:.0f}")
    return digits


def _may_be_card(number: Decimal) -> bool:
    """Whether a number is whole and above 0, and has no more digits than a card's."""
    if number <= 0:
        return False
    # The place of the first digit, from the units on.
    first_place = number.adjusted()
    if not 0 <= first_place < _MOST:
        return False
    return number == number.to_integral_value()


def _is_shown_card(text: str, match: re.Match[str]) -> bool:
    """Whether a match of `_SHOWN`, groups of a card's sizes, is a card's number, and no part of an
    identifier.
    """
    before = _text_before(text, match)
    if before.endswith("+") or _CODE_BEFORE.search(before):
        return False
    end = match.end()
    next_character = text[end : end + 1]
    goes_on = next_character.isalnum() or next_character == "-"
    is_hyphenated = "-" in (match["four"], match["six"])
    if is_hyphenated and goes_on:  # such as a UUID
        return False
    groups = _GROUP.findall(match[0])
    digits = "".join(groups)
    return _is_card_number(digits)


def _separators(run: re.Match[str]) -> list[str]:
    """What stands between the groups of a run, in order."""
    parts = _GROUP.split(run[0])
    return parts[1:-1]


def _own_groups(text: str, run: re.Match[str]) -> list[str]:
    """The groups of a run, without those that belong to a word, a fraction or a telephone number
    beside it.
    """
    groups = _GROUP.findall(run[0])
    separators = _separators(run)
    before = _text_before(text, run)
    end = run.end()
    after = text[end : end + _AFTER]
    first = 0
    last = len(groups)
    is_joined_before = _JOINED_BEFORE.search(before[-5:]) is not None
    is_joined_after = _JOINED_AFTER.match(after) is not None
    if before.endswith("+"):
        first = _telephone_groups(groups)
    elif is_joined_before and not _CARD_WORD.search(before):
        # With a group go those that a hyphen joins to it.
        first = 1 + _hyphen_count(separators)
    if is_joined_after:
        from_last_on = reversed(separators[first:])
        last -= 1 + _hyphen_count(from_last_on)
    return groups[first:last]


def _hyphen_count(separators: Iterable[str]) -> int:
    """How many of these separators, from the first one on, are a hyphen."""
    count = 0
    for separator in separators:
        if separator != "-":
            break
        count += 1
    return count


def _telephone_groups(groups: list[str]) -> int:
    """How many of these groups, from the first on, a telephone number may have."""
    digits = 0
    for number, group in enumerate(groups):
        digits += len(group)
        if digits > _TELEPHONE_DIGITS:
            return number
    return len(groups)


def _candidates(groups: list[str], separators: set[str]) -> Iterator[str]:
    """The digits of what may be a card's number: neighbouring ones of these groups, which have these
    separators between them.
    """
    sizes = [len(group) for group in groups]
    if _may_be_one_number(sizes, separators):
        yield "".join(groups)
    for start, size in enumerate(sizes):
        if size < _SHORTEST_GROUP:
            continue
        if _FEWEST <= size <= _MOST:
            yield groups[start]
        for count in _GROUPS_OF_A_CARD:
            end = start + count
            grouping = tuple(sizes[start:end])
            if grouping in _GROUPINGS:
                yield "".join(groups[start:end])


def _may_be_one_number(sizes: list[int], separators: set[str]) -> bool:
    """Whether groups of these sizes may together be one card's number."""
    # Two kinds of separators are between two numbers, such as telephones.
    if len(separators) > 1:
        return False
    if sum(sizes) > _MOST:
        return False
    if len(sizes) <= _GROUPS_OF_ANY_SIZE:
        return True
    return max(sizes) <= _LONGEST_GROUP


def _is_card_number(digits: str) -> bool:
    """Whether an issuer gives numbers of this prefix and length, the check digit is right, and this
    is no product's number.

    `digits` has nothing but digits, of any script. The check digit is that of ISO/IEC 7812 (Luhn).
    """
    if not _FEWEST <= len(digits) <= _MOST:
        return False
    values = [int(digit) for digit in digits]  # of any script
    in_ascii = "".join(map(str, values))
    issuer = _ISSUED.match(in_ascii)
    if issuer is None:
        return False
    issuer_number = issuer.lastindex or 1  # from 1 on: each issuer is a group of the pattern
    lengths = _LENGTHS[issuer_number - 1]
    if len(values) not in lengths:
        return False
    if _is_product_number(values):
        return False
    every_second, others = _alternate_digits(values)
    total = sum(others)
    for value in every_second:
        total += _DOUBLED[value]
    return total % 10 == 0


def _alternate_digits(values: list[int]) -> tuple[list[int], list[int]]:
    """Every second digit of a number, from the last but one on, and the other digits."""
    every_second = values[-2::-2]
    others = values[-1::-2]
    return every_second, others


def _is_product_number(values: list[int]) -> bool:
    """Whether these are the digits of an EAN-13 (GTIN-13).

    German ones begin as Visa's numbers do, but new numbers of Visa have 16 digits.
    """
    if len(values) != _EAN_DIGITS:
        return False
    every_second, others = _alternate_digits(values)
    weighted = 3 * sum(every_second)
    total = weighted + sum(others)
    return total % 10 == 0


def _without_iban(match: re.Match[str]) -> str:
    """The text of a match of `_IBAN` without the account number that it begins with: a slash in its
    place. The text as it is if it begins with none.
    """
    text = match[0]
    ends = list[int]()
    for end in range(len(text), 0, -1):
        last_character = text[end - 1]
        if not last_character.isspace():
            ends.append(end)
    too_short = _SHORTEST_IBAN - 1
    longest_first = ends[: len(ends) - too_short]
    for end in longest_first:
        words = text[:end].split()
        without_spaces = "".join(words)
        if _is_account_number(without_spaces):
            rest = text[end:]
            return f"/{rest}"
    return text


def _is_account_number(iban: str) -> bool:
    """Whether the check digits of an IBAN without spaces are right (ISO 13616)."""
    rearranged = iban[4:] + iban[:4]
    digits = ""
    for character in rearranged:
        value = int(character, 36)
        digits += str(value)
    return int(digits) % 97 == 1
