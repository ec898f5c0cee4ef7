"""What is stored of conversations for search: arrays of numbers, and how they become an item's
value.

Words are 32-bit hashes, because an array of them is small and quick to compare. Two words of one
hash cost a wrong candidate at worst.
"""

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from lasting_memory.recall.lexical import Array

# Count it up with a change of what follows, of what stems words, or of function words: items of
# another format are dropped, and their conversations indexed again.
FORMAT = 13

# Who speaks in a passage, which has the place in this tuple.
SPEAKERS = ("user", "assistant", "tool")
# How much a text counts: it tells something, stands beside a question about the past, or asks for
# the past and repeats it.
TELLS, BESIDE, ASKS = range(3)
# The weights of these, in tenths.
TENTHS = np.array([10, 2, 1], "u1")

# A document among others: its number, the time of its conversation's last change in microseconds,
# the times at which something was said first and last in seconds, its count of words, and of those
# that tell something.
TABLE = np.dtype(
    [
        ("key", "<u8"),
        ("version", "<i8"),
        ("began", "<i8"),
        ("ended", "<i8"),
        ("words", "<u4"),
        ("told", "<u4"),
    ]
)
DAY_SECONDS = 24 * 3_600
# A word of a document, by the document's place in the table; the number of its passages that tell
# something with the word, and the weights of its other passages with the word, in tenths.
POSTINGS = np.dtype([("term", "<u4"), ("place", "<u4"), ("count", "u1"), ("asked", "u1")])
# A passage: its turn, speaker (place in `SPEAKERS`), how much it counts (`TELLS`, `BESIDE`,
# `ASKS`), the hash of the speaker's name (0 without one), its count of words, and its length
# (`words.length_of`).
PASSAGES = np.dtype(
    [
        ("turn", "<u4"),
        ("speaker", "u1"),
        ("kind", "u1"),
        ("name", "<u4"),
        ("words", "<u4"),
        ("length", "<u2"),
    ]
)
WORDS = np.dtype("<u4")
# Of a word: whether it is in a question, and the number of its accents above that (`accents_of`).
MARKS = np.dtype("u1")
IN_QUESTION = 1
ACCENTS_SHIFT = 1

# The numbers of a conversation's documents differ in these bits.
_DOCUMENT_BITS = np.uint64(0xFFF)


class DamagedError(ValueError):
    """A stored item that is not what this version of the code writes."""


def packed(arrays: Mapping[str, Array], **about: Any) -> dict[str, Any]:
    """The value of an item with these arrays, by name, and with what else is to be known."""
    value = {"format": FORMAT, **about}
    for name, array in arrays.items():
        compressed = zlib.compress(_columns(array), 1)
        encoded = base64.b64encode(compressed)
        value[name] = encoded.decode()
    return value


def unpacked(item: object, **kinds: Any) -> list[Array]:
    """The arrays of these kinds, by name, in a stored item.

    Raises `DamagedError` if it is gone, of another format, or cannot be read.
    """
    value = getattr(item, "value", {})
    if value.get("format") != FORMAT:
        raise DamagedError(
            f"An item of the index is gone, or of the format {value.get('format')!r}."
        )
    arrays = list[Array]()
    try:
        for name, kind in kinds.items():
            compressed = base64.b64decode(value[name])
            stored = zlib.decompress(compressed)
            arrays.append(_rows(stored, kind))
    except (LookupError, TypeError, ValueError, zlib.error) as error:
        raise DamagedError(f"An item of the index cannot be read: {error!r}.") from error
    return arrays


def _columns(array: Array) -> bytes:
    """The bytes of an array; of one with fields the first bytes of all its rows, then the second
    ones, and so on. Bytes of one meaning beside each other compress a sixth better.
    """
    if array.dtype.names is None or not len(array):
        return array.tobytes()
    rows = np.frombuffer(array.tobytes(), "u1").reshape(len(array), -1)
    return rows.T.tobytes()


def _rows(columns: bytes, kind: np.dtype[Any]) -> Array:
    """The inverse of `_columns`. Raises `ValueError` for bytes that are no rows of this kind."""
    if kind.names is None or not columns:
        return np.frombuffer(columns, kind)
    by_column = np.frombuffer(columns, "u1").reshape(kind.itemsize, -1)
    return np.frombuffer(by_column.T.tobytes(), kind)


def key_of(thread_id: str) -> int:
    """A conversation's number in the index, which is that of its first document.

    The numbers of its other documents follow it.
    """
    digest = hashlib.blake2b(thread_id.encode(), digest_size=8)
    number = int.from_bytes(digest.digest())
    return number & ~int(_DOCUMENT_BITS)


def name_of(key: int) -> str:
    """The key of a document's item in the store, by its number."""
    return f"{key:016x}"


def conversation_of(keys: Array) -> Array:
    """The numbers of the conversations of documents, by their numbers."""
    return keys & ~_DOCUMENT_BITS


def version_of(updated_at: str) -> int:
    """The time of a thread's last change in microseconds since 1970; 0 if it is unknown."""
    try:
        moment = datetime.fromisoformat(updated_at)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    microseconds = moment.timestamp() * 1_000_000
    return max(0, int(microseconds))


def hash_of(word: str) -> int:
    """A word's number in the index."""
    return zlib.crc32(word.encode())


def accents_of(accents: str) -> int:
    """The number of a word's accents (`words.Term`), from 1 to 127; 0 for none."""
    if not accents:
        return 0
    number = zlib.crc32(accents.encode())
    return 1 + number % 127


class Part(NamedTuple):
    """Some conversations of the index, by the namespace and key of their table. Their postings are
    in so many buckets.
    """

    namespace: tuple[str, ...]
    name: str
    table: Array
    languages: Sequence[str]
    buckets: int


def read_part(item: Any) -> Part:
    """A part of the index, of the item of its table. Raises as `unpacked`."""
    (table,) = unpacked(item, table=TABLE)
    languages = item.value["languages"]
    buckets = item.value["buckets"]
    return Part(item.namespace, item.key, table, languages, buckets)


def newest(table: Array) -> Array:
    """Which rows are those of the newest version of their conversation, each document once."""
    keys = table["key"]
    versions = table["version"]
    all_conversations = conversation_of(keys)
    conversations, conversation_of_row = np.unique(all_conversations, return_inverse=True)
    latest = np.zeros(len(conversations), versions.dtype)
    np.maximum.at(latest, conversation_of_row, versions)
    is_latest = versions == latest[conversation_of_row]
    current = np.flatnonzero(is_latest)
    current_keys = keys[current]
    _, first_places = np.unique(current_keys, return_index=True)
    places = current[first_places]
    is_newest = np.zeros(len(table), bool)
    is_newest[places] = True
    return is_newest


def joined(arrays: Sequence[Array], kind: Any) -> Array:
    """Arrays of a kind, one after the other; an empty one of none."""
    empty = np.zeros(0, kind)
    return np.concatenate([empty, *arrays])
