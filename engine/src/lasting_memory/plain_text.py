"""Text as files keep it, and as it is compared: what ends a line, and when two lines are the same,
is said here alone.
"""

import unicodedata
from itertools import accumulate
from typing import Literal

import regex

Form = Literal["NFC", "NFKC"]
# Normalizing takes time quadratic in the accents that follow each other. White space ends such a
# run.
_PIECE = regex.compile(r".{1,256}(?<=\s)|.{1,256}", regex.DOTALL)
# A letter with its marks; so many signs of it at most.
_CLUSTER = regex.compile(r"\X")
_CLUSTER_CHARS = 64
_BYTE_ORDER_MARK = "\ufeff"
# What nobody sees, and no script is spelled with: soft hyphens, zero-width spaces, marks of
# direction, and what chooses a form of a sign. Joiners are letters in Persian and Indic scripts.
_INVISIBLE = dict.fromkeys([
    0xAD, 0x180E, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFE0E, 0xFE0F, 0xFEFF,
])  # fmt: skip
_JOINERS = dict.fromkeys([0x200C, 0x200D])


def plain(text: str) -> str:
    """A text as files keep it: a line feed ends each line, and it has no byte order mark.

    Where files were joined, such marks stand within the text, too.
    """
    without_marks = text.replace(_BYTE_ORDER_MARK, "")
    with_line_feeds = without_marks.replace("\r\n", "\n")
    return with_line_feeds.replace("\r", "\n")


def normalized(text: str, form: Form) -> str:
    """A text in a normal form. In linear time."""
    if text.isascii():
        return text
    normal = list[str]()
    for piece in _PIECE.findall(text):
        normal.append(unicodedata.normalize(form, piece))
    return "".join(normal)


def compared(line: str) -> str:
    """A line as it is compared, never as it is kept: in the normal form NFC, without what nobody
    sees, and without white space at its end.
    """
    seen = line if line.isascii() else line.translate(_INVISIBLE)
    normal = normalized(seen, "NFC")
    return normal.rstrip()


def visible(text: str) -> str:
    """A text without what nobody sees; "" if nothing is left but joiners and white space."""
    seen = text.translate(_INVISIBLE)
    without_joiners = seen.translate(_JOINERS)
    return seen if without_joiners.strip() else ""


def spelled_as_in(text: str, part: str) -> str:
    """A part of a text as the text spells it, whichever normal forms it mixes, and whatever is in it
    that nobody sees; as it is where the text does not have it.
    """
    if part in text or not part:
        return part
    if text.isascii() and part.isascii():
        return part
    clusters = _CLUSTER.findall(text)
    normal = [_normal(cluster) for cluster in clusters]
    wanted = "".join(map(_normal, _CLUSTER.findall(part)))
    whole = "".join(normal)
    begin = whole.find(wanted)
    if begin < 0 or not wanted:
        return part
    end = begin + len(wanted)
    # Where each letter begins, and the last one ends.
    bounds = [0, *accumulate(map(len, normal))]
    if begin not in bounds or end not in bounds:  # it begins or ends within a letter
        return part
    first = bounds.index(begin)
    last = bounds.index(end)
    spelled = clusters[first:last]
    return "".join(spelled)


def _normal(cluster: str) -> str:
    if len(cluster) > _CLUSTER_CHARS:
        return cluster
    seen = cluster.translate(_INVISIBLE)
    return unicodedata.normalize("NFC", seen)
