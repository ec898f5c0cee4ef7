"""A conversation as numbers for the index: its words, passage by passage, and which word is in which conversation.

Words are 32-bit hashes, because an array of them is small and quick to compare. Two words of one hash cost a wrong candidate at
worst. Postings of many conversations are spread over buckets by word: a query reads only the buckets of its words.
"""

import base64
import hashlib
import itertools
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lasting_memory.recall import lexical
from lasting_memory.recall.conversations import SPEAKERS, Conversation

Array = npt.NDArray[Any]
# Terms, places of conversations in their table, and counts of passages: an entry for each term of each conversation.
Bucket = tuple[Array, ...]
# Count it up with a change of the format below: items of another format are dropped, and their conversations indexed again.
FORMAT = 3
_NOTHING: Bucket = (np.zeros(0, "<u4"), np.zeros(0, "<u4"), np.zeros(0, "u1"))
_TABLE = {"keys": "<u8", "versions": "<u8", "words": "<u4"}
_BUCKET = {"terms": "<u4", "places": "<u4", "counts": "u1"}


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


def stored(postings: Postings, *, buckets: int = 1) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The value of the header item, and that of each bucket."""
    terms, places, _ = postings.bucket
    order = np.lexsort((places, terms, terms % np.uint32(buckets)))
    ends = np.searchsorted(terms[order] % np.uint32(buckets), np.arange(buckets + 1))
    texts = [_bucket(*(entries[order[a:b]] for entries in postings.bucket)) for a, b in itertools.pairwise(ends)]
    header = {"format": FORMAT, "buckets": buckets, "languages": sorted(postings.languages)}
    return header | packed(postings.table._asdict()), texts


def _bucket(terms: Array, places: Array, counts: Array) -> dict[str, str]:
    # Differences between neighbours are small numbers, which compress well.
    steps = [np.diff(numbers, prepend=np.uint32(0)) for numbers in (terms, places)]
    return packed(dict(zip(_BUCKET, [*steps, counts], strict=True)))


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raises `DamagedError` for any fault of a stored item."""
    try:
        yield
    except (LookupError, TypeError, ValueError, OverflowError, zlib.error) as error:
        raise DamagedError(f"no {what}: {error}") from error


@reading("bucket")
def read_bucket(value: Mapping[str, Any], conversations: int = 1) -> Bucket:
    """A bucket, ordered by term, of postings with this number of conversations."""
    read = unpacked(value, _BUCKET)
    terms, places = (np.cumsum(read[name], dtype="<u4") for name in ("terms", "places"))
    if len({len(terms), len(places), len(read["counts"])}) != 1 or (places >= conversations).any():
        raise DamagedError("its parts do not fit")
    return terms, places, read["counts"]


@reading("header")
def read_header(name: str, value: Mapping[str, Any], *, inline: bool) -> Postings:
    """The postings of a header item, which contains their bucket if it is `inline`."""
    table = Table(**unpacked(value, _TABLE))
    languages, buckets = frozenset(map(str, value["languages"])), int(value["buckets"])
    fits = len({*map(len, table)}) == 1 and buckets > 0 and languages <= lexical.STOP_WORDS.keys()
    if value["format"] != FORMAT or not fits or (inline and len(table.keys) != 1):
        raise DamagedError("it is of another format, or its parts do not fit")
    bucket = read_bucket(value) if inline else ()
    return Postings(table, languages, bucket, buckets, name, int(value["indexed"]))


def packed(arrays: Mapping[str, Array]) -> dict[str, str]:
    return {name: base64.b64encode(zlib.compress(array.tobytes(), 1)).decode() for name, array in arrays.items()}


def unpacked(value: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Array]:
    read = {name: zlib.decompress(base64.b64decode(value[name], validate=True)) for name in kinds}
    return {name: np.frombuffer(read[name], kind) for name, kind in kinds.items()}


# Characters of a passage: a few sentences. A long answer has several, so that its end counts as much as a short turn.
PASSAGE_CHARS = 400
_PASSAGE = re.compile(rf".{{1,{PASSAGE_CHARS}}}(?=\s|$)|.{{1,{PASSAGE_CHARS}}}", re.DOTALL)
# Words and passages of one conversation. Beyond so many words, each passage keeps its first ones only.
MAX_WORDS, MAX_PASSAGES = 50_000, 2_000
# Letters that make words with different stems alike: "tournament" and "tourney", "destress" and "destressing".
BEGINNING_CHARS = 4
# Characters of a turn that tell its language; of a speaker's name.
_SAMPLE_CHARS, _NAME_CHARS = 1_500, 64
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def key_of(thread_id: str) -> int:
    """A conversation's number in the index."""
    return int.from_bytes(hashlib.blake2b(thread_id.encode(), digest_size=8).digest())


def version_of(updated_at: str) -> int:
    """Time of a thread's last change in microseconds since 1970; 0 if it is unknown."""
    return max(0, int(_moment(updated_at).timestamp() * 1_000_000))


def _moment(stamp: str) -> datetime:
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return _EPOCH
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def hash_of(word: str) -> int:
    """A word's number in the index."""
    return zlib.crc32(word.encode())


def beginning_of(word: str) -> int:
    """A number of 16 bits for a word's first letters."""
    return hash_of(word[:BEGINNING_CHARS]) & 0xFFFF


@dataclass(frozen=True, slots=True)
class Document:
    """A conversation for ranking, from the first to the last of its `days`.

    `turns`, `speakers` (index in `SPEAKERS`), `names` (hash of the speaker's name, 0 without one) and `lengths` (words) have an
    entry for each passage; `words` (hashes) and `beginnings` (stored once for each distinct word) for each word of all.
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
    beginnings: Array

    def stored(self) -> dict[str, Any]:
        """The item's value."""
        _, places = np.unique(self.words, return_index=True)
        arrays = {name: getattr(self, name) for name in _FIELDS} | {"beginnings": self.beginnings[places]}
        about = {"format": FORMAT, "thread_id": self.thread_id, "version": self.version, "language": self.language}
        return {**about, "days": [(day - _EPOCH.date()).days for day in self.days], **packed(arrays)}


_FIELDS = {"turns": "<u4", "speakers": "u1", "names": "<u4", "lengths": "<u4", "words": "<u4", "beginnings": "<u2"}


def document(talk: Conversation) -> Document:
    """A conversation's document. Blocks for milliseconds per hundred turns."""
    spoken = lexical.language(" ".join(turn.text[:_SAMPLE_CHARS] for turn in talk.turns if turn.speaker != "tool"))
    # Of an endless conversation the end.
    pieces = [(number, text) for number, turn in enumerate(talk.turns) for text in _PASSAGE.findall(turn.text)][-MAX_PASSAGES:]
    passages = [lexical.stems(text, spoken) for _, text in pieces]
    if sum(map(len, passages)) > MAX_WORDS:
        passages = [list(dict.fromkeys(words))[: MAX_WORDS // len(passages)] for words in passages]
    words = list(itertools.chain.from_iterable(passages))
    hashed = {word: (hash_of(word), beginning_of(word)) for word in set(words)}
    turns = [talk.turns[number] for number, _ in pieces]
    # A search names speakers by their first name.
    names = {name: lexical.stems(name[:_NAME_CHARS], spoken)[:1] for name in {turn.name for turn in turns}}
    numbers = {
        "turns": [number for number, _ in pieces],
        "speakers": [SPEAKERS.index(turn.speaker) for turn in turns],
        "names": [sum(map(hash_of, names[turn.name])) for turn in turns],
        "lengths": list(map(len, passages)),
        "words": [hashed[word][0] for word in words],
        "beginnings": [hashed[word][1] for word in words],
    }
    days = _moment((talk.created_at or talk.date)[:10]).date(), _moment((talk.updated_at or talk.date)[:10]).date()
    arrays = {name: np.array(numbers[name], kind) for name, kind in _FIELDS.items()}
    return Document(talk.thread_id, version_of(talk.updated_at), spoken, days, **arrays)


@reading("document")
def read_document(value: Mapping[str, Any]) -> Document:
    """The inverse of `Document.stored`."""
    numbers = unpacked(value, _FIELDS)
    distinct, places = np.unique(numbers["words"], return_inverse=True)
    passages = {len(numbers[name]) for name in ("turns", "speakers", "names", "lengths")}
    fits = (
        len(distinct) == len(numbers["beginnings"]) and len(numbers["words"]) == numbers["lengths"].sum() and len(passages) == 1
    )
    if value["format"] != FORMAT or not fits or value["language"] not in lexical.STOP_WORDS:
        raise DamagedError("it is of another format, or its parts do not fit")
    numbers["beginnings"] = numbers["beginnings"][places]
    first, last = (date.fromordinal(_EPOCH.toordinal() + int(day)) for day in value["days"])
    return Document(str(value["thread_id"]), int(value["version"]), str(value["language"]), (first, last), **numbers)


def postings(talk: Document) -> Postings:
    """The postings of one conversation. Its days are words, too, and a speaker's name is a word of each of their passages."""
    passage = np.repeat(np.arange(len(talk.lengths), dtype="<u8"), talk.lengths)
    named = np.flatnonzero(talk.names)
    words, places = np.concatenate([talk.words, talk.names[named]]), np.concatenate([passage, named.astype("<u8")])
    distinct = np.unique(words.astype("<u8") << np.uint64(32) | places) >> np.uint64(32)
    days = np.array([hash_of(token) for token in lexical.day_tokens(*talk.days)], "<u8")
    terms, counts = np.unique(np.concatenate([distinct, days]), return_counts=True)
    bucket = terms.astype("<u4"), np.zeros(len(terms), "<u4"), np.minimum(counts, 255).astype("u1")
    return Postings(table_of(key_of(talk.thread_id), talk.version, len(talk.words)), frozenset([talk.language]), bucket)
