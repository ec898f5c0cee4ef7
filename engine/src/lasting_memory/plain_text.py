"""Text as files keep it, and as it is compared: what ends a line, and when two lines are the same,
is said here alone.

A normal form is Unicode's: NFC composes a letter and its accents, NFKC also takes forms of a letter
as that letter. A cluster is what people see as one letter: the letter and its marks. Invisible
characters are those that nobody sees, and with which no script is spelled.
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
    """A line as it is compared, never as it is kept: in the normal form NFC, without invisible
    characters, and without white space at its end.
    """
    if line.isascii():
        return line.rstrip()
    visible_line = line.translate(_INVISIBLE)
    normal = normalized(visible_line, "NFC")
    return normal.rstrip()


def visible(text: str) -> str:
    """A text without invisible characters; "" if nothing is left but joiners and white space."""
    without_invisible = text.translate(_INVISIBLE)
    without_joiners = without_invisible.translate(_JOINERS)
    if not without_joiners.strip():
        return ""
    return without_invisible


def spelled_as_in(text: str, part: str) -> str:
    """A part of a text as the text spells it, whichever normal forms and invisible characters the
    two have. Returns `part` itself where the text does not have it.
    """
    if part in text or not part:
        return part
    if text.isascii() and part.isascii():
        return part
    clusters = _CLUSTER.findall(text)
    normal_clusters = [_normal(cluster) for cluster in clusters]
    normal_text = "".join(normal_clusters)
    part_clusters = _CLUSTER.findall(part)
    normal_part = "".join(map(_normal, part_clusters))
    begin = normal_text.find(normal_part)
    if begin < 0 or not normal_part:
        return part
    end = begin + len(normal_part)
    # Where each cluster begins, and the last one ends.
    sizes = map(len, normal_clusters)
    bounds = [0, *accumulate(sizes)]
    begins_within_cluster = begin not in bounds
    ends_within_cluster = end not in bounds
    if begins_within_cluster or ends_within_cluster:
        return part
    first = bounds.index(begin)
    last = bounds.index(end)
    spelled = clusters[first:last]
    return "".join(spelled)


def _normal(cluster: str) -> str:
    """A cluster in the normal form NFC, without invisible characters; a very long one as it is."""
    if len(cluster) > _CLUSTER_CHARS:
        return cluster
    without_invisible = cluster.translate(_INVISIBLE)
    return unicodedata.normalize("NFC", without_invisible)
