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
from typing import Any

import numpy as np
import numpy.typing as npt

from lasting_memory.recall import lexical
from lasting_memory.recall.conversations import SPEAKERS, Conversation

Array = npt.NDArray[Any]
# Count it up with a change of the format below: items of another format are dropped, and their conversations indexed again.
FORMAT = 4
# A conversation of some postings: its number, version and count of words. A deleted one has version 0.
ENTRY = np.dtype([("key", "<u8"), ("version", "<u8"), ("words", "<u4")])
# A word of a conversation, by its place among these; and in how many of its passages the word is.
POSTING = np.dtype([("word", "<u4"), ("place", "<u4"), ("count", "u1")])
# A passage: its turn, the turn's speaker (index in `SPEAKERS`), the hash of the speaker's name (0 without one), count of words.
PASSAGE = np.dtype([("turn", "<u4"), ("speaker", "u1"), ("name", "<u4"), ("words", "<u4")])
WORD = np.dtype("<u4")

# Characters of a passage: a few sentences. A long answer has several, so that its end counts as much as a short turn.
PASSAGE_CHARS = 400
_PASSAGE = re.compile(rf".{{1,{PASSAGE_CHARS}}}(?=\s|$)|.{{1,{PASSAGE_CHARS}}}", re.DOTALL)
# Words and passages of one conversation. Beyond so many words, each passage keeps its first ones only.
MAX_WORDS, MAX_PASSAGES = 50_000, 2_000
# Characters of a turn that tell its language; of a speaker's name.
_SAMPLE_CHARS, _NAME_CHARS = 1_500, 64
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DamagedError(ValueError):
    """A stored item that is not what this version of the code writes."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raises `DamagedError` for any fault of a stored item."""
    try:
        yield
    except (LookupError, TypeError, ValueError, OverflowError, zlib.error) as error:
        raise DamagedError(f"no {what}: {error}") from error


def packed(array: Array) -> str:
    """An array as text: first all first bytes, then all second ones, because neighbours are alike and compress well."""
    return base64.b64encode(zlib.compress(array.view("u1").reshape(len(array), array.itemsize).T.tobytes(), 1)).decode()


def unpacked(text: Any, kind: np.dtype[Any]) -> Array:
    """The inverse of `packed`. Raises an error that `reading` knows."""
    columns = np.frombuffer(zlib.decompress(base64.b64decode(text, validate=True)), "u1").reshape(kind.itemsize, -1)
    return np.ascontiguousarray(columns.T).view(kind)[:, 0]


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


@dataclass(frozen=True, slots=True)
class Document:
    """A conversation for ranking, from the first to the last of its `days`: its passages, and the hashes of all their words."""

    thread_id: str
    version: int
    language: str
    days: tuple[date, date]
    passages: Array
    words: Array

    def stored(self) -> dict[str, Any]:
        """The item's value."""
        about = {"format": FORMAT, "thread_id": self.thread_id, "version": self.version, "language": self.language}
        days = [(day - _EPOCH.date()).days for day in self.days]
        return {**about, "days": days, "passages": packed(self.passages), "words": packed(self.words)}


def document(talk: Conversation) -> Document:
    """A conversation's document. Blocks for milliseconds per hundred turns."""
    spoken = lexical.language(" ".join(turn.text[:_SAMPLE_CHARS] for turn in talk.turns if turn.speaker != "tool"))
    # Of an endless conversation the end.
    pieces = [(number, text) for number, turn in enumerate(talk.turns) for text in _PASSAGE.findall(turn.text)][-MAX_PASSAGES:]
    said = [lexical.stems(text, spoken) for _, text in pieces]
    if sum(map(len, said)) > MAX_WORDS:
        said = [list(dict.fromkeys(words))[: MAX_WORDS // len(said)] for words in said]
    hashed = {word: hash_of(word) for words in said for word in words}
    # A search names speakers by their first name.
    names = {turn.name: sum(map(hash_of, lexical.stems(turn.name[:_NAME_CHARS], spoken)[:1])) for turn in talk.turns}
    passages = [
        (number, SPEAKERS.index(talk.turns[number].speaker), names[talk.turns[number].name], len(words))
        for (number, _), words in zip(pieces, said, strict=True)
    ]
    words = [hashed[word] for words in said for word in words]
    days = _moment((talk.created_at or talk.date)[:10]).date(), _moment((talk.updated_at or talk.date)[:10]).date()
    version = version_of(talk.updated_at)
    return Document(talk.thread_id, version, spoken, days, np.array(passages, PASSAGE), np.array(words, WORD))


@reading("document")
def read_document(value: Mapping[str, Any]) -> Document:
    """The inverse of `Document.stored`."""
    passages, words = unpacked(value["passages"], PASSAGE), unpacked(value["words"], WORD)
    fits = len(words) == passages["words"].sum() and value["language"] in lexical.STOP_WORDS
    if value["format"] != FORMAT or not fits:
        raise DamagedError("it is of another format, or its parts do not fit")
    first, last = (date.fromordinal(_EPOCH.toordinal() + int(day)) for day in value["days"])
    return Document(str(value["thread_id"]), int(value["version"]), str(value["language"]), (first, last), passages, words)


@dataclass(frozen=True, slots=True)
class Postings:
    """Which word is in which conversation (its place in the `table`).

    Stored ones have a name, the time when they were `indexed`, and a number of `buckets`, which are items of their own where
    `bucket` is None.
    """

    table: Array
    languages: frozenset[str] = frozenset()
    bucket: Array | None = None
    buckets: int = 1
    name: str = ""
    indexed: int = 0

    def stored(self, buckets: int = 1) -> tuple[dict[str, Any], list[dict[str, str]]]:
        """The value of the header item, and that of each bucket."""
        words = np.zeros(0, POSTING) if self.bucket is None else self.bucket
        numbers = words["word"] % np.uint32(buckets)
        order = np.lexsort((words["place"], words["word"], numbers))
        parts = np.split(words[order], np.searchsorted(numbers[order], np.arange(1, buckets)))
        header = {"format": FORMAT, "buckets": buckets, "languages": sorted(self.languages), "table": packed(self.table)}
        return header, [{"words": packed(part)} for part in parts]


def postings(talk: Document) -> Postings:
    """The postings of one conversation. Its days are words, too, and a speaker's name is a word of each of their passages."""
    passage = np.repeat(np.arange(len(talk.passages), dtype="<u8"), talk.passages["words"])
    names, named = talk.passages["name"], np.flatnonzero(talk.passages["name"])
    words, places = np.concatenate([talk.words, names[named]]), np.concatenate([passage, named.astype("<u8")])
    distinct = np.unique(words.astype("<u8") << np.uint64(32) | places) >> np.uint64(32)
    days = np.array([hash_of(token) for token in lexical.day_tokens(*talk.days)], "<u8")
    found, counts = np.unique(np.concatenate([distinct, days]), return_counts=True)
    bucket = np.zeros(len(found), POSTING)
    bucket["word"], bucket["count"] = found, np.minimum(counts, 255)
    return Postings(
        np.array([(key_of(talk.thread_id), talk.version, len(talk.words))], ENTRY), frozenset([talk.language]), bucket
    )


def gone(key: int) -> Postings:
    """Marks a conversation as deleted: they override older ones."""
    return Postings(np.array([(key, 0, 0)], ENTRY), bucket=np.zeros(0, POSTING))


@reading("bucket")
def read_bucket(value: Mapping[str, Any], conversations: int = 1) -> Array:
    """A bucket, ordered by word, of postings with this number of conversations."""
    bucket = unpacked(value["words"], POSTING)
    if (bucket["place"] >= conversations).any():
        raise DamagedError("its parts do not fit")
    return bucket


@reading("header")
def read_header(name: str, value: Mapping[str, Any], *, inline: bool) -> Postings:
    """The postings of a header item, which contains their bucket if it is `inline`."""
    table, languages = unpacked(value["table"], ENTRY), frozenset(map(str, value["languages"]))
    fits = int(value["buckets"]) > 0 and languages <= lexical.STOP_WORDS.keys() and (len(table) == 1 or not inline)
    if value["format"] != FORMAT or not fits:
        raise DamagedError("it is of another format, or its parts do not fit")
    return Postings(
        table, languages, read_bucket(value) if inline else None, int(value["buckets"]), name, int(value["indexed"])
    )


def together(parts: Sequence[Postings]) -> tuple[Array, Array]:
    """The table of all parts (oldest first), and which of its entries are a conversation's newest."""
    table = np.concatenate([np.zeros(0, ENTRY), *(part.table for part in parts)])
    newest = np.zeros(len(table), bool)
    newest[len(table) - 1 - np.unique(table["key"][::-1], return_index=True)[1]] = True
    return table, newest


def placed(parts: Sequence[Postings], buckets: Sequence[Sequence[Array]]) -> Iterator[Array]:
    """The buckets of all parts, with places in the table of all."""
    starts = itertools.accumulate((len(part.table) for part in parts), initial=0)
    for start, some in zip(starts, buckets, strict=False):
        for bucket in some:
            moved = bucket.copy()
            moved["place"] += start
            yield moved


def merged(parts: Sequence[Postings], buckets: Sequence[Sequence[Array]]) -> Postings:
    """All parts (oldest first) with their buckets as one. Of a conversation in several the newest entry stays."""
    table, newest = together(parts)
    words = np.concatenate(list(placed(parts, buckets)))
    words = words[newest[words["place"]]]
    words["place"] = (np.cumsum(newest) - 1)[words["place"]]
    return Postings(table[newest], frozenset[str]().union(*(part.languages for part in parts)), words)
