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


def plain(text: str) -> str:
    """A text as files keep it: a line feed ends each line, and no byte order mark begins it."""
    return text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def normalized(text: str, form: Form) -> str:
    """A text in a normal form. In linear time."""
    return (
        text
        if text.isascii()
        else "".join(unicodedata.normalize(form, piece) for piece in _PIECE.findall(text))
    )


def compared(line: str) -> str:
    """A line as it is compared, never as it is kept: in the normal form NFC, without white space at
    its end.
    """
    return normalized(line, "NFC").rstrip()


def spelled_as_in(text: str, part: str) -> str:
    """A part of a text as the text spells it, whichever normal forms it mixes; as it is where the
    text does not have it.
    """
    if part in text or not part or (text.isascii() and part.isascii()):
        return part
    clusters = _CLUSTER.findall(text)
    normal = [_normal(cluster) for cluster in clusters]
    wanted = "".join(map(_normal, _CLUSTER.findall(part)))
    begin = "".join(normal).find(wanted)
    if begin < 0:
        return part
    starts = [0, *accumulate(map(len, normal))]
    if (
        begin not in starts or begin + len(wanted) not in starts
    ):  # it begins or ends within a letter
        return part
    return "".join(clusters[starts.index(begin) : starts.index(begin + len(wanted))])


def _normal(cluster: str) -> str:
    return cluster if len(cluster) > _CLUSTER_CHARS else unicodedata.normalize("NFC", cluster)
