"""Which word is in which conversation, as it is stored: arrays of numbers, packed as text.

Words are 32-bit hashes: nobody reads them, and an array of them is small and quick to compare. Two words of one hash cost a
wrong candidate at worst. Postings of many conversations are spread over buckets by word: a query reads only its words' own.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from memory import lexical

Array = npt.NDArray[Any]
# A change of what is stored below: items of another format are dropped, and what they were made of is indexed again.
FORMAT = 2
# Bytes of one bucket, roughly, and what one conversation adds to all of them.
_BUCKET_BYTES, _CONVERSATION_BYTES = 4_096, 400


class DamagedError(ValueError):
    """A stored item that is not what this version of the code writes."""


@dataclass(frozen=True, slots=True)
class Table:
    """The conversations of some postings: number, version and words of each. A forgotten one has no version."""

    keys: Array
    versions: Array
    words: Array


@dataclass(frozen=True, slots=True)
class Postings:
    """Which word is in how many passages of which conversation (its place in the table)."""

    table: Table
    terms: Array
    places: Array
    counts: Array
    languages: frozenset[str]


def tombstone(key: int) -> Postings:
    """Says that a conversation is gone, whatever older postings say."""
    empty = np.zeros(0, "<u4")
    return Postings(table_of([key], [0], [0]), empty, empty, np.zeros(0, "u1"), frozenset())


def table_of(keys: Sequence[int], versions: Sequence[int], words: Sequence[int]) -> Table:
    return Table(np.array(keys, "<u8"), np.array(versions, "<u8"), np.array(words, "<u4"))


def merged(parts: Sequence[Postings]) -> Postings:
    """Several as one, given oldest first: of what is in more than one the newest is kept."""
    keys = np.concatenate([part.table.keys for part in parts])
    newest = newest_of(keys)
    starts = np.cumsum([0, *(len(part.table.keys) for part in parts)])
    places = np.concatenate([part.places + np.uint32(start) for part, start in zip(parts, starts, strict=False)])
    kept = newest[places]
    new_place = (np.cumsum(newest) - 1).astype("<u4")
    versions = np.concatenate([part.table.versions for part in parts])[newest]
    words = np.concatenate([part.table.words for part in parts])[newest]
    return Postings(
        Table(keys[newest], versions, words),
        np.concatenate([part.terms for part in parts])[kept],
        new_place[places[kept]],
        np.concatenate([part.counts for part in parts])[kept],
        frozenset().union(*(part.languages for part in parts)),
    )


def newest_of(keys: Array) -> Array:
    """Of each key the last occurrence, as a mask."""
    mask = np.zeros(len(keys), bool)
    mask[len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1]] = True
    return mask


def stored(found: Postings, *, buckets: int = 1) -> tuple[dict[str, Any], list[str]]:
    """The value of the header item, and the text of each bucket."""
    table = {"keys": packed(found.table.keys), "versions": packed(found.table.versions), "words": packed(found.table.words)}
    header = {"format": FORMAT, "buckets": buckets, "languages": sorted(found.languages), **table}
    order = np.lexsort((found.places, found.terms, found.terms % np.uint32(buckets)))
    terms, places, counts = found.terms[order], found.places[order], found.counts[order]
    ends = np.searchsorted(terms % np.uint32(buckets), np.arange(buckets + 1))
    return header, [_bucket(terms[a:b], places[a:b], counts[a:b]) for a, b in itertools.pairwise(ends)]


def bucket_count(conversations: int) -> int:
    """A power of 2, so that buckets are about as large however many conversations there are."""
    return 1 << max(0, (conversations * _CONVERSATION_BYTES // _BUCKET_BYTES).bit_length() - 1)


def _bucket(terms: Array, places: Array, counts: Array) -> str:
    distinct, runs = np.unique(terms, return_counts=True)
    # Differences to the place before: small numbers, of which most bytes are 0, compress well.
    steps = np.diff(places, prepend=np.uint32(0)).astype("<u4")
    parts = (np.array([len(distinct)], "<u4"), distinct.astype("<u4"), runs.astype("<u4"), steps, counts.astype("u1"))
    return packed(np.frombuffer(b"".join(part.tobytes() for part in parts), "u1"))


def read_bucket(text: object) -> tuple[Array, Array, Array]:
    """Terms, places and counts of a bucket, ordered by term.

    Raises:
        DamagedError: it is none.
    """
    try:
        raw = unpacked(text, "u1").tobytes()
        size = int(np.frombuffer(raw, "<u4", 1)[0])
        distinct, runs = np.frombuffer(raw, "<u4", size, 4), np.frombuffer(raw, "<u4", size, 4 + 4 * size)
        total = int(runs.sum())
        steps = np.frombuffer(raw, "<u4", total, 4 + 8 * size)
        counts = np.frombuffer(raw, "u1", total, 4 + 8 * size + 4 * total)
    except (IndexError, TypeError, ValueError, binascii.Error, zlib.error) as error:
        raise DamagedError(f"no bucket: {error}") from error
    return np.repeat(distinct, runs), np.cumsum(steps, dtype="<u4"), counts


def read_header(value: Mapping[str, Any]) -> tuple[Table, int, frozenset[str]]:
    """Table, number of buckets and languages of a header item.

    Raises:
        DamagedError: it is none, or of another format.
    """
    try:
        check_format(value)
        table = Table(unpacked(value["keys"], "<u8"), unpacked(value["versions"], "<u8"), unpacked(value["words"], "<u4"))
        buckets, languages = int(value["buckets"]), frozenset(map(str, value["languages"]))
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error) as error:
        raise DamagedError(f"no header: {error}") from error
    if not len(table.keys) == len(table.versions) == len(table.words) or buckets < 1 or languages - set(lexical.STOP_WORDS):
        raise DamagedError("a header whose parts do not fit")
    return table, buckets, languages


def check_format(value: Mapping[str, Any]) -> None:
    if value.get("format") != FORMAT:
        raise DamagedError(f"format {value.get('format')!r}, not {FORMAT}")


def packed(numbers: Array) -> str:
    return base64.b64encode(zlib.compress(numbers.tobytes(), 1)).decode()


def unpacked(text: object, kind: str) -> Array:
    if not isinstance(text, str):
        raise DamagedError("no text")
    return np.frombuffer(zlib.decompress(base64.b64decode(text, validate=True)), kind)
