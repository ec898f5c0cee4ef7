"""Which word is in which conversation: arrays of numbers, packed as text for the store.

Words are 32-bit hashes, because an array of them is small and quick to compare. Two words of one hash cost a wrong candidate at
worst. Postings of many conversations are spread over buckets by word: a query reads only the buckets of its words.
"""

import base64
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memory.recall.lexical import STOP_WORDS

Array = npt.NDArray[Any]
# Terms, places of conversations in their table, and counts of passages: an entry for each term of each conversation.
Bucket = tuple[Array, ...]
# Count it up with a change of the format below: items of another format are dropped, and their conversations indexed again.
FORMAT = 2
_NOTHING: Bucket = (np.zeros(0, "<u4"), np.zeros(0, "<u4"), np.zeros(0, "u1"))
_TABLE = {"keys": "<u8", "versions": "<u8", "words": "<u4"}


class DamagedError(ValueError):
    """A stored item that is not what this version of the code writes."""


class Table(NamedTuple):
    """The conversations of some postings: number, version and count of words of each. A deleted one has version 0."""

    keys: Array
    versions: Array
    words: Array


@dataclass(frozen=True, slots=True)
class Postings:
    """Which word is in how many passages of which conversation (its place in the table).

    Stored postings have a name, the time when they were `indexed`, and either one `bucket` or a number of `buckets`, which are
    read on demand.
    """

    table: Table
    languages: frozenset[str] = frozenset()
    bucket: Bucket = _NOTHING
    buckets: int = 1
    name: str = ""
    indexed: int = 0


def table_of(*conversation: int) -> Table:
    """The table of one conversation."""
    return Table(*(np.array([number], kind) for number, kind in zip(conversation, _TABLE.values(), strict=True)))


def together(parts: Sequence[Postings]) -> tuple[Table, Array]:
    """All conversations of the parts (oldest first), and which entries are a conversation's newest."""
    table = Table(
        *(np.concatenate([np.zeros(0, _TABLE[name]), *(getattr(part.table, name) for part in parts)]) for name in _TABLE)
    )
    newest = np.zeros(len(table.keys), bool)
    newest[len(newest) - 1 - np.unique(table.keys[::-1], return_index=True)[1]] = True
    return table, newest


def placed(parts: Sequence[Postings], buckets: Sequence[Sequence[Bucket]]) -> list[Bucket]:
    """The buckets of all parts, with places in the table of all conversations."""
    starts = itertools.accumulate((len(part.table.keys) for part in parts), initial=0)
    return [(terms, places + start, n) for start, some in zip(starts, buckets, strict=False) for terms, places, n in some]


def merged(parts: Sequence[Postings], buckets: Sequence[Sequence[Bucket]]) -> Postings:
    """All parts (oldest first) with their buckets as one. Of a conversation in several the newest entry stays."""
    table, newest = together(parts)
    terms, places, counts = (np.concatenate(arrays) for arrays in zip(*placed(parts, buckets), strict=True))
    kept, languages = newest[places], frozenset[str]().union(*(part.languages for part in parts))
    new_places = (np.cumsum(newest) - 1).astype("<u4")[places[kept]]
    return Postings(Table(*(entries[newest] for entries in table)), languages, (terms[kept], new_places, counts[kept]))


def stored(postings: Postings, *, buckets: int = 1) -> tuple[dict[str, Any], list[str]]:
    """The value of the header item, and the text of each bucket."""
    terms, places, counts = postings.bucket
    table = {name: packed(entries) for name, entries in postings.table._asdict().items()}
    order = np.lexsort((places, terms, terms % np.uint32(buckets)))
    ends = np.searchsorted(terms[order] % np.uint32(buckets), np.arange(buckets + 1))
    texts = [_bucket(*(entries[order[a:b]] for entries in (terms, places, counts))) for a, b in itertools.pairwise(ends)]
    return {"format": FORMAT, "buckets": buckets, "languages": sorted(postings.languages), **table}, texts


def _bucket(terms: Array, places: Array, counts: Array) -> str:
    distinct, runs = np.unique(terms, return_counts=True)
    # Differences between neighbouring places are small numbers, which compress well.
    steps = np.diff(places, prepend=np.uint32(0)).astype("<u4")
    return packed(np.array([len(distinct)], "<u4"), distinct, runs.astype("<u4"), steps, counts)


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raises `DamagedError` for any fault of a stored item."""
    try:
        yield
    except (LookupError, TypeError, ValueError, OverflowError, zlib.error) as error:
        raise DamagedError(f"no {what}: {error}") from error


@reading("bucket")
def read_bucket(text: object, conversations: int = 1) -> Bucket:
    """A bucket, ordered by term, of postings with this number of conversations."""
    raw = unpacked(text)
    size = int(np.frombuffer(raw, "<u4", 1)[0])
    distinct, runs = np.frombuffer(raw, "<u4", 2 * size, 4).reshape(2, size)
    total = int(runs.sum())
    places = np.cumsum(np.frombuffer(raw, "<u4", total, 4 + 8 * size), dtype="<u4")
    if (places >= conversations).any():
        raise DamagedError("it names others")
    return np.repeat(distinct, runs), places, np.frombuffer(raw, "u1", total, 4 + 8 * size + 4 * total)


@reading("header")
def read_header(name: str, value: Mapping[str, Any], *, inline: bool) -> Postings:
    """The postings of a header item, which contains their bucket if it is `inline`."""
    table = Table(*(np.frombuffer(unpacked(value[entries]), kind) for entries, kind in _TABLE.items()))
    languages, buckets = frozenset(map(str, value["languages"])), int(value["buckets"])
    fits = len({*map(len, table)}) == 1 and buckets > 0 and languages <= STOP_WORDS.keys()
    if value["format"] != FORMAT or not fits or (inline and len(table.keys) != 1):
        raise DamagedError("it is of another format, or its parts do not fit")
    bucket = read_bucket(value["bucket"]) if inline else ()
    return Postings(table, languages, bucket, buckets, name, int(value["indexed"]))


def packed(*arrays: Array) -> str:
    return base64.b64encode(zlib.compress(b"".join(array.tobytes() for array in arrays), 1)).decode()


def unpacked(text: Any) -> bytes:
    return zlib.decompress(base64.b64decode(text, validate=True))
