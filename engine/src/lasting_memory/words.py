"""What a word is, in every script: by Unicode's rules, as the package `regex` has them. Nothing
else in the engine says it.

`words` gives the words as they are spelled: a letter keeps its marks, so that Hindi and Tamil do
not fall apart. It is for comparing facts. `search_terms` gives what a search compares: there
accents, points and forms of letters make no difference.

Both take a text in lower case and in the normal form NFKC, so that full-width letters, ligatures
and half-width Katakana are the usual letters, and all decimal digits are ASCII's. Byte order marks,
soft hyphens, joiners and other invisible characters are nothing. Dotted and dotless i are one
letter, because a capital I does not tell which one it is.

A run is a piece of writing without spaces, such as Chinese or Thai. A cluster is what people see as
one letter: the letter and its marks. To fold a letter is to take its plain form, as a search does.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import regex

from lasting_memory import plain_text

# Longer than any word, to bound a run of encoded bytes. Characters.
_MAX_WORD_CHARS = 64
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
# Kana and Hangul; and Thai, Lao, Burmese and Khmer, whose vowels and tones are marks.
_KANA_AND_HANGUL = "\u3040-\u30ff\uac00-\ud7af"
_UNSPACED = f"{_HAN}{_KANA_AND_HANGUL}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
# A name such as C++ and C#.
_MARKED = r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9]{0,15}(?:\+\+(?![+#A-Za-z])|\#(?![+#A-Za-z0-9]))"
_WORD = regex.compile(rf"{_MARKED}|[\p{{L}}\p{{N}}][\p{{L}}\p{{N}}\p{{Mn}}\p{{Mc}}]*")
_SPACED = (
    rf"(?:(?![{_UNSPACED}])[\p{{L}}\p{{N}}])(?:(?![{_UNSPACED}])[\p{{L}}\p{{N}}\p{{Mn}}\p{{Mc}}])*"
)
# .NET, node.js and 3.11; but no initials such as J.K.
_POINTED = (
    r"(?<![\w.])\.[a-z][a-z0-9]{1,15}(?![\w.])"
    r"|(?=[a-z.]{0,32}(?:[a-z]{2}|[0-9]))[a-z0-9]{1,32}(?:\.[a-z0-9]{1,32}){1,5}(?!\w)"
)
# A run of a script without spaces; a marked name; .NET, node.js and other words with points in
# them; any other word.
_TERM = regex.compile(
    rf"(?P<run>[{_UNSPACED}][{_UNSPACED}\p{{Mn}}\p{{Mc}}]*)"
    rf"|(?P<marked>{_MARKED})"
    rf"|(?P<pointed>{_POINTED})"
    rf"|(?P<word>{_SPACED})"
)
# The same of a text in ASCII.
_ASCII_WORD = re.compile(rf"{_MARKED}|[a-z0-9]+")
_ASCII_TERM = re.compile(rf"{_MARKED}|{_POINTED}|[a-z0-9]+")
_PLAIN_TERM, _SPECIAL = re.compile("[a-z0-9]+"), re.compile(r"[+#]|\.[a-z0-9]")
_IS_UNSPACED = regex.compile(rf"[{_UNSPACED}]")
_IS_HAN = regex.compile(f"[{_HAN}]")
_CLUSTER = regex.compile(r"\X")
_DIGIT = regex.compile(r"[^\P{Nd}0-9]")
# Between Cyrillic letters an apostrophe is one, however it is written.
_APOSTROPHE = regex.compile("(?<=\\p{Cyrillic})['\u2019\u02bc](?=\\p{Cyrillic})")
# Joiners, directions, byte order marks, zero-width spaces, soft hyphens, and what chooses a form of
# a sign.
_INVISIBLE = {ord(char): None for char in "\u00ad\u034f\u061c\u180e\ufeff"}
_INVISIBLE |= dict.fromkeys(
    [*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), *range(0xFE00, 0xFE10)]
)


def normalized(text: str) -> str:
    """A text in the normal form NFKC. In linear time."""
    return plain_text.normalized(text, "NFKC")


def visible(text: str) -> str:
    """A text without its invisible characters."""
    return text.translate(_INVISIBLE)


def comparable(text: str) -> str:
    """A text in lower case and normal form, with ASCII's digits and without invisible characters."""
    if text.isascii():
        return text.lower()
    low = normalized(text.translate(_INVISIBLE)).casefold()
    one_i = low.replace("i\u0307", "i").replace("\u0131", "i")
    ascii_digits = _DIGIT.sub(_ascii_digit, one_i)
    return str(_APOSTROPHE.sub("", ascii_digits))


def _ascii_digit(match: regex.Match[str]) -> str:
    """The digit of ASCII for one of another script."""
    value = unicodedata.decimal(match[0])
    return str(value)


def words(text: str) -> list[str]:
    """The words of a text in order, in lower case, with all their marks. Writing without spaces is
    one word.

    In linear time.
    """
    low = comparable(text)
    if low.isascii():
        return _ASCII_WORD.findall(low)
    return list(_WORD.findall(low))


def spelled_words(text: str) -> list[str]:
    """The words of a text in order, with capitals as the text has them."""
    normal = normalized(visible(text))
    return list(_WORD.findall(normal))


def pieces(text: str) -> list[str]:
    """The words of a text as in `words`, in order; of writing without spaces each cluster."""
    low = comparable(text)
    found = list[str]()
    for match in _TERM.finditer(low):
        pattern = _CLUSTER if match["run"] else _WORD
        found += pattern.findall(match[0])
    return found


class Term(NamedTuple):
    """A word of a search: the text that is compared, the word as it is spelled, and those of its
    characters that are folded, in order.
    """

    text: str
    spelled: str
    accents: str = ""


def search_terms(text: str) -> list[Term]:
    """The words of a text as a search compares them, in order; of writing without spaces pairs of
    neighbouring characters.

    The accents of Latin and Greek, stress marks and the points of e in Cyrillic, the points of
    Hebrew and Arabic and the forms of Arabic letters make no difference. The vowel signs of Indic
    scripts do. C++, C#, .NET and node.js are words. In linear time.
    """
    low = comparable(text)
    if low.isascii():
        return [Term(word, word) for word in ascii_terms(low)]
    return list(_terms(low))


def ascii_terms(low: str) -> list[str]:
    """The texts of `search_terms`, of an ASCII text in lower case, which is most of all text.
    Quicker.
    """
    is_plain = not _SPECIAL.search(low)
    pattern = _PLAIN_TERM if is_plain else _ASCII_TERM
    whole_terms: list[str] = pattern.findall(low)
    longest = max(map(len, whole_terms), default=0)
    if is_plain and longest <= _MAX_WORD_CHARS:
        return whole_terms
    terms = list[str]()
    for word in whole_terms:
        short = word[:_MAX_WORD_CHARS]
        if "." in short:
            parts = short.split(".")
            terms += filter(None, parts)
        terms.append(short)
    return terms


def is_unspaced(term: str) -> bool:
    """Whether a term is of writing without spaces, so that it may be less than a word."""
    return bool(_IS_UNSPACED.match(term))


def length_of(text: str) -> int:
    """How long a text is, in characters of an alphabet. An ideograph, Kana or Hangul says as much
    as three of these.
    """
    length = len(text)
    if text.isascii():
        return length
    wide = _WIDE.findall(text)
    return length + 2 * len(wide)


_WIDE = regex.compile(f"[{_HAN}{_KANA_AND_HANGUL}]")


def folded(text: str) -> str:
    """A text in lower case with folded letters, as a search compares it. A character may become
    none or two.
    """
    if text.isascii():
        return text.lower()
    low = comparable(text)
    return low.translate(_FOLDED)


def _terms(text: str) -> Iterator[Term]:
    """The terms of a text that `comparable` has made (`search_terms`)."""
    for match in _TERM.finditer(text):
        run = match["run"]
        if run:
            yield from _pairs(run)
            continue
        spelled = match[0][:_MAX_WORD_CHARS]
        if match["pointed"]:
            parts = spelled.split(".")
            for part in filter(None, parts):
                yield Term(part, part)
        if spelled.isascii():
            yield Term(spelled, spelled)
            continue
        folded_word = spelled.translate(_FOLDED)
        if folded_word:
            accents = _accents_of(spelled, folded_word)
            yield Term(folded_word, spelled, accents)


def _accents_of(spelled: str, folded_word: str) -> str:
    """The characters of a word that are folded; "" if none is."""
    if folded_word == spelled:
        return ""
    accents = [char for char in spelled if ord(char) in _FOLDED]
    return "".join(accents)


def _pairs(run: str) -> Iterator[Term]:
    """The terms of a run: each two neighbouring clusters; and each ideograph and each letter with
    marks, for a single one can be a word.
    """
    whole_clusters = _CLUSTER.findall(run)
    clusters = [cluster[:_MAX_WORD_CHARS] for cluster in whole_clusters]
    for first, second in pairwise(clusters):
        pair = first + second
        yield Term(pair, pair)
    is_alone = len(clusters) == 1
    for cluster in clusters:
        has_marks = len(cluster) > 1
        if is_alone or has_marks or _IS_HAN.match(cluster):
            yield Term(cluster, cluster)


def _folds() -> dict[int, str | None]:
    """The plain form of each character that is folded, by its code; None for one that is left out."""
    folds = dict[int, str | None]()
    for block in (
        range(0xC0, 0x250),
        range(0x1E00, 0x1F00),
        range(0x370, 0x400),
        range(0x1F00, 0x2000),
    ):
        for code in block:
            letter = chr(code)
            base = unicodedata.normalize("NFD", letter)[0]
            if base != letter and base.isalpha():
                folds[code] = base
    folds |= dict.fromkeys(range(0x300, 0x370))  # accents that no letter is composed with
    # Strokes, and letters that are two.
    for letters, base in (
        ("\u00f8", "o"),
        ("\u0142", "l"),
        ("\u0111\u00f0", "d"),
        ("\u0127", "h"),
        ("\u0167", "t"),
    ):
        folds |= dict.fromkeys(map(ord, letters), base)
    folds |= {0xE6: "ae", 0x153: "oe", 0xFE: "th"}
    # Cyrillic: i with a breve, and yi, are letters of their own.
    folds |= {0x451: "\u0435", 0x450: "\u0435", 0x45D: "\u0438"}
    # The points of Hebrew; of Arabic, with the stroke that only makes a word longer.
    for points in (
        range(0x591, 0x5C8),
        range(0x610, 0x61B),
        range(0x64B, 0x660),
        range(0x6D6, 0x6EE),
    ):
        for code in points:
            is_mark = unicodedata.category(chr(code)) == "Mn"
            if is_mark:
                folds[code] = None
    folds |= {0x670: None, 0x640: None}
    # Alef with hamza, madda or wasla; ya as Persian and at the end of a word; Persian's and Urdu's
    # kaf and ha.
    folds |= dict.fromkeys(map(ord, "\u0622\u0623\u0625\u0671"), "\u0627")
    folds |= dict.fromkeys(map(ord, "\u0649\u06cc\u06d2"), "\u064a")
    folds |= dict.fromkeys(map(ord, "\u06c1\u06be\u0629\u06c0"), "\u0647")
    folds |= {0x6A9: "\u0643"}
    return folds


_FOLDED = _folds()
