"""What is stored of conversations for search: arrays of numbers, and how they become an item's
value.

A conversation has one document, or several if it is long. A document has passages, each of a few
sentences of one turn. Conversations and documents have numbers of 64 bits (`key_of`); a
conversation's number is that of its first document. A part of the index is the table of some
documents, and their postings, which are spread over buckets.

Words are 32-bit hashes, because an array of them is small and quick to compare. Two words of one
hash cost a wrong candidate at worst.
"""

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from langgraph.store.base import Item

from lasting_memory.recall.arrays import Array, Flags, Held, Integers, Rows

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
# Of a word: whether it is in a question, and above that its accents' hash (`hash_of_accents`).
MARKS = np.dtype("u1")
IN_QUESTION = 1
ACCENTS_SHIFT = 1

# The numbers of a conversation's documents differ in these bits.
_DOCUMENT_BITS = np.uint64(0xFFF)


class DamagedError(ValueError):
    """A stored item that is not what this version of the code writes."""


def packed(arrays: Mapping[str, Array], **details: object) -> dict[str, object]:
    """The value of an item of the store with these arrays, by name, and these details."""
    value: dict[str, object] = {"format": FORMAT, **details}
    for name, array in arrays.items():
        columns = _columns(array)
        compressed_bytes = zlib.compress(columns, 1)
        base64_bytes = base64.b64encode(compressed_bytes)
        value[name] = base64_bytes.decode()
    return value


def value_of(item: object) -> Mapping[str, object]:
    """The value of a stored item.

    Raises `DamagedError` if the item is gone, or of another format.
    """
    value: Mapping[str, object] = getattr(item, "value", {})
    stored_format = value.get("format")
    if stored_format != FORMAT:
        raise DamagedError(f"An item of the index is gone, or of the format {stored_format!r}.")
    return value


def text_in(value: Mapping[str, object], name: str) -> str:
    """The text of this name in an item's value. Raises `DamagedError` if there is none."""
    text = value.get(name)
    if not isinstance(text, str):
        raise DamagedError(f"An item of the index has no text {name!r}.")
    return text


def number_in(value: Mapping[str, object], name: str) -> int:
    """The whole number of this name in an item's value. Raises `DamagedError` if there is none."""
    number = value.get(name)
    if not isinstance(number, int):
        raise DamagedError(f"An item of the index has no number {name!r}.")
    return number


def unpacked(item: object, **types: np.dtype[Held]) -> list[npt.NDArray[Held]]:
    """The arrays in a stored item, each by its name and of its type (`TABLE` and so on).

    Raises `DamagedError` if the item is gone, of another format, or cannot be read.
    """
    value = value_of(item)
    arrays = list[npt.NDArray[Held]]()
    for name, array_type in types.items():
        base64_text = text_in(value, name)
        array = _decoded(base64_text, array_type)
        arrays.append(array)
    return arrays


def _decoded(base64_text: str, array_type: np.dtype[Held]) -> npt.NDArray[Held]:
    """The array of this type in a text. Raises `DamagedError` if it has none."""
    try:
        compressed_bytes = base64.b64decode(base64_text)
        columns = zlib.decompress(compressed_bytes)
        return _rows(columns, array_type)
    except (ValueError, zlib.error) as error:
        raise DamagedError(f"An item of the index cannot be read: {error!r}.") from error


def _columns(array: Array) -> bytes:
    """The bytes of an array; of one with fields the first bytes of all its rows, then the second
    ones, and so on. Bytes of one meaning beside each other compress a sixth better.
    """
    raw_bytes = array.tobytes()
    has_fields = array.dtype.names is not None
    if not has_fields or not raw_bytes:
        return raw_bytes
    return _transposed(raw_bytes, len(array))


def _rows(columns: bytes, array_type: np.dtype[Held]) -> npt.NDArray[Held]:
    """The inverse of `_columns`. Raises `ValueError` for bytes that are no array of this type."""
    raw_bytes = columns
    has_fields = array_type.names is not None
    if has_fields and columns:
        raw_bytes = _transposed(columns, array_type.itemsize)
    return np.frombuffer(raw_bytes, array_type)


def _transposed(raw_bytes: bytes, row_count: int) -> bytes:
    """Bytes, taken as a matrix with so many rows, column by column.

    Raises `ValueError` if they do not fill the rows.
    """
    single_bytes = np.frombuffer(raw_bytes, "u1")
    matrix = single_bytes.reshape(row_count, -1)
    return matrix.T.tobytes()


def key_of(thread_id: str) -> int:
    """The number of a thread's conversation in the index, which is that of its first document.

    The numbers of its other documents follow it.
    """
    id_bytes = thread_id.encode()
    digest = hashlib.blake2b(id_bytes, digest_size=8)
    number = int.from_bytes(digest.digest())
    return number & ~int(_DOCUMENT_BITS)


def name_of(key: int) -> str:
    """The key of a document's item in the store, by its number."""
    return f"{key:016x}"


def conversation_of(keys: Integers) -> Integers:
    """The number of each document's conversation, by the documents' numbers."""
    return keys & ~_DOCUMENT_BITS


def version_of(updated_at: str) -> int:
    """A thread's version: the time of its last change in microseconds since 1970.

    Takes an ISO time, of UTC if it names no zone. Returns 0 for any other text.
    """
    try:
        moment = datetime.fromisoformat(updated_at)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    microseconds = moment.timestamp() * 1_000_000
    return max(0, int(microseconds))


def hash_of(word: str) -> int:
    """A word's hash: its number in the index."""
    word_bytes = word.encode()
    return zlib.crc32(word_bytes)


def hash_of_accents(accents: str) -> int:
    """The hash of a word's accents (`words.Term.accents`), from 1 to 127; 0 for none.

    It only ranks: a text with other accents of one hash counts as one that is spelled alike.
    """
    if not accents:
        return 0
    accents_hash = hash_of(accents)
    return 1 + accents_hash % 127


class Part(NamedTuple):
    """Some documents of the index: the namespace and key of the stored item of their table, the
    table, the languages of their conversations, and the number of buckets of their postings.
    """

    namespace: tuple[str, ...]
    name: str
    table: Rows
    languages: Sequence[str]
    buckets: int


def read_part(item: Item) -> Part:
    """The part of the index whose table is in a stored item.

    Raises `DamagedError` if the item cannot be read.
    """
    (table,) = unpacked(item, table=TABLE)
    value = value_of(item)
    languages = value.get("languages")
    if not isinstance(languages, list):
        raise DamagedError("An item of the index has no languages.")
    bucket_count = number_in(value, "buckets")
    return Part(item.namespace, item.key, table, languages, bucket_count)


def newest(table: Rows) -> Flags:
    """For each row of a table of documents, whether it counts.

    Those rows count that are of the newest version of their conversation, each document once.
    """
    keys = table["key"]
    versions = table["version"]
    conversation_of_row = conversation_of(keys)
    conversations, places = np.unique(conversation_of_row, return_inverse=True)
    latest = np.zeros(len(conversations), versions.dtype)
    np.maximum.at(latest, places, versions)
    is_latest = versions == latest[places]
    latest_rows = np.flatnonzero(is_latest)
    latest_keys = keys[latest_rows]
    _, first_places = np.unique(latest_keys, return_index=True)
    newest_rows = latest_rows[first_places]
    is_newest = np.zeros(len(table), bool)
    is_newest[newest_rows] = True
    return is_newest


def joined(arrays: Sequence[npt.NDArray[Held]], array_type: np.dtype[Held]) -> npt.NDArray[Held]:
    """Arrays of a type (`TABLE` and so on), one after the other; an empty array if there are none."""
    empty_array = np.zeros(0, array_type)
    all_arrays = [empty_array, *arrays]
    return np.concatenate(all_arrays)
