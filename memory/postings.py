"""The recall index as it is stored: what a conversation is searched by, in arrays of numbers, and which word is in which.

Words are stored as 32-bit hashes: nobody reads them, and an array of them is small and quick to compare. Two words of one hash
cost a wrong candidate at worst. Two forms:

- `Document`: one conversation, its words in their order, passage by passage. What a search ranks.
- `Postings`: of any number of conversations, which words are in how many passages of each. What a search finds candidates by.
  Large ones are spread over buckets by word, so that a query reads only those of its words.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from memory import dates, lexical
from memory.conversations import SPEAKERS, Conversation

Array = npt.NDArray[Any]
# A change of what is stored below: items of another format are dropped, and what they were made of is indexed again.
FORMAT = 1
# A long turn is several passages, so that what is said at its end counts as much as in a short one.
PASSAGE_CHARS = 1_500
# Of one conversation: beyond it, each passage keeps its first words only.
MAX_WORDS, MAX_PASSAGES = 50_000, 2_000
# Bytes of one bucket, roughly, and what one conversation adds to all of them.
_BUCKET_BYTES, _CONVERSATION_BYTES = 4_096, 400
_EPOCH = date(1970, 1, 1).toordinal()


class DamagedError(ValueError):
    """A stored item that is not what this version of the code writes."""


def key_of(thread_id: str) -> int:
    """A conversation's number in the index."""
    return int.from_bytes(hashlib.blake2b(thread_id.encode(), digest_size=8).digest())


def version_of(updated_at: str) -> int:
    """Microseconds since 1970 of a thread's last change; 0 where that is unknown."""
    try:
        moment = datetime.fromisoformat(updated_at)
    except ValueError:
        return 0
    return max(0, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000_000))


def hash_of(word: str) -> int:
    """A word's number in the index."""
    return zlib.crc32(word.encode())


@dataclass(frozen=True, slots=True)
class Document:
    """A conversation as it is ranked.

    `turns`, `speakers` (index in `SPEAKERS`), `names` (hash of the speaker's name, 0 without one) and `lengths` (words) have an
    entry for each passage, `words` the hashes of all of them. `days` are the first and the last.
    """

    thread_id: str
    version: int
    language: str
    days: tuple[date, date]
    turns: Array
    speakers: Array
    names: Array
    lengths: Array
    words: Array

    def stored(self) -> dict[str, Any]:
        """The item's value."""
        numbers = {name: _packed(getattr(self, name).astype(kind)) for name, kind in _FIELDS.items()}
        about = {"thread_id": self.thread_id, "version": self.version, "language": self.language}
        return {"format": FORMAT, **about, "days": [day.toordinal() - _EPOCH for day in self.days], **numbers}


_FIELDS = {"turns": "<u4", "speakers": "u1", "names": "<u4", "lengths": "<u4", "words": "<u4"}


def document(talk: Conversation) -> Document:
    """What a conversation is searched by. Blocks for milliseconds per hundred turns."""
    spoken = lexical.language(" ".join(turn.text[:PASSAGE_CHARS] for turn in talk.turns if turn.speaker != "tool"))
    # The end of an endless conversation rather than its beginning.
    pieces = [
        (number, turn, turn.text[start : start + PASSAGE_CHARS])
        for number, turn in enumerate(talk.turns)
        for start in range(0, len(turn.text), PASSAGE_CHARS)
    ][-MAX_PASSAGES:]
    passages = [lexical.stems(text, spoken) for _, _, text in pieces]
    if sum(map(len, passages)) > MAX_WORDS:
        passages = [list(dict.fromkeys(words))[: MAX_WORDS // len(passages)] for words in passages]
    return Document(
        thread_id=talk.thread_id,
        version=version_of(talk.updated_at),
        language=spoken,
        days=(_day(talk.created_at or talk.date), _day(talk.updated_at or talk.date)),
        turns=np.array([number for number, _, _ in pieces], "<u4"),
        speakers=np.array([SPEAKERS.index(turn.speaker) for _, turn, _ in pieces], "u1"),
        names=np.array([name_hash(turn.name, spoken) if turn.name else 0 for _, turn, _ in pieces], "<u4"),
        lengths=np.array([len(words) for words in passages], "<u4"),
        words=np.array([hash_of(word) for words in passages for word in words], "<u4"),
    )


def name_hash(name: str, language: str) -> int:
    """What a speaker's (first) name is found by."""
    return next((hash_of(word) for word in lexical.stems(name, language)), 0)


def _day(stamp: str) -> date:
    try:
        return date.fromisoformat(stamp[:10])
    except ValueError:
        return date.fromordinal(_EPOCH)


def read_document(value: Mapping[str, Any]) -> Document:
    """The inverse of `Document.stored`.

    Raises:
        DamagedError: it is none, or of another format.
    """
    try:
        _check_format(value)
        numbers = {name: _unpacked(value[name], kind) for name, kind in _FIELDS.items()}
        first, last = (date.fromordinal(_EPOCH + int(day)) for day in value["days"])
        read = Document(str(value["thread_id"]), int(value["version"]), str(value["language"]), (first, last), **numbers)
    except (KeyError, TypeError, ValueError, OverflowError, binascii.Error, zlib.error) as error:
        raise DamagedError(f"no document: {error}") from error
    passages = {len(read.turns), len(read.speakers), len(read.names), len(read.lengths)}
    if len(passages) != 1 or int(read.lengths.sum()) != len(read.words) or read.language not in lexical.STOP_WORDS:
        raise DamagedError("a document whose parts do not fit")
    return read


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


def postings(talk: Document) -> Postings:
    """Those of one conversation. Its days are words, too."""
    passage = np.repeat(np.arange(len(talk.lengths), dtype="<u8"), talk.lengths)
    distinct = np.unique(talk.words.astype("<u8") << np.uint64(32) | passage) >> np.uint64(32)
    names = talk.names[talk.names > 0].astype("<u8")
    days = np.array([hash_of(token) for token in dates.day_tokens(*talk.days)], "<u8")
    terms, counts = np.unique(np.concatenate([distinct, np.unique(names), days]), return_counts=True)
    table = _table([key_of(talk.thread_id)], [talk.version], [len(talk.words)])
    one = frozenset([talk.language])
    return Postings(table, terms.astype("<u4"), np.zeros(len(terms), "<u4"), np.minimum(counts, 255).astype("u1"), one)


def tombstone(key: int) -> Postings:
    """Says that a conversation is gone, whatever older postings say."""
    empty = np.zeros(0, "<u4")
    return Postings(_table([key], [0], [0]), empty, empty, np.zeros(0, "u1"), frozenset())


def _table(keys: Sequence[int], versions: Sequence[int], words: Sequence[int]) -> Table:
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
    table = {"keys": _packed(found.table.keys), "versions": _packed(found.table.versions), "words": _packed(found.table.words)}
    header = {"format": FORMAT, "buckets": buckets, "languages": sorted(found.languages), **table}
    order = np.lexsort((found.places, found.terms, found.terms % np.uint32(buckets)))
    terms, places, counts = found.terms[order], found.places[order], found.counts[order]
    ends = np.searchsorted(terms % np.uint32(buckets), np.arange(buckets + 1))
    return header, [_bucket(terms[a:b], places[a:b], counts[a:b]) for a, b in zip(ends, ends[1:], strict=False)]


def bucket_count(conversations: int) -> int:
    """A power of 2, so that buckets are about as large however many conversations there are."""
    return 1 << max(0, (conversations * _CONVERSATION_BYTES // _BUCKET_BYTES).bit_length() - 1)


def _bucket(terms: Array, places: Array, counts: Array) -> str:
    distinct, runs = np.unique(terms, return_counts=True)
    # Differences to the place before: small numbers, of which most bytes are 0, compress well.
    steps = np.diff(places, prepend=np.uint32(0)).astype("<u4")
    parts = (np.array([len(distinct)], "<u4"), distinct.astype("<u4"), runs.astype("<u4"), steps, counts.astype("u1"))
    return _packed(np.frombuffer(b"".join(part.tobytes() for part in parts), "u1"))


def read_bucket(text: object) -> tuple[Array, Array, Array]:
    """Terms, places and counts of a bucket, ordered by term.

    Raises:
        DamagedError: it is none.
    """
    try:
        raw = _unpacked(text, "u1").tobytes()
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
        _check_format(value)
        table = Table(_unpacked(value["keys"], "<u8"), _unpacked(value["versions"], "<u8"), _unpacked(value["words"], "<u4"))
        buckets, languages = int(value["buckets"]), frozenset(map(str, value["languages"]))
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error) as error:
        raise DamagedError(f"no header: {error}") from error
    if not len(table.keys) == len(table.versions) == len(table.words) or buckets < 1 or languages - set(lexical.STOP_WORDS):
        raise DamagedError("a header whose parts do not fit")
    return table, buckets, languages


def _check_format(value: Mapping[str, Any]) -> None:
    if value.get("format") != FORMAT:
        raise DamagedError(f"format {value.get('format')!r}, not {FORMAT}")


def _packed(numbers: Array) -> str:
    return base64.b64encode(zlib.compress(numbers.tobytes(), 1)).decode()


def _unpacked(text: object, kind: str) -> Array:
    if not isinstance(text, str):
        raise DamagedError("no text")
    return np.frombuffer(zlib.decompress(base64.b64decode(text, validate=True)), kind)
