"""A conversation for ranking and storing: its words in their order, passage by passage, as numbers."""

import hashlib
import itertools
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from memory.recall import dates, lexical
from memory.recall.conversations import SPEAKERS, Conversation
from memory.recall.postings import FORMAT, Array, DamagedError, Postings, packed, reading, table_of, unpacked

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
        about = {"thread_id": self.thread_id, "version": self.version, "language": self.language}
        days, passages = [(day - _EPOCH.date()).days for day in self.days], len(self.turns)
        return {"format": FORMAT, **about, "days": days, "passages": passages, "data": packed(*arrays.values())}


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
    data, start, passages = unpacked(value["data"]), 0, int(value["passages"])
    numbers: dict[str, Array] = {}
    for name, kind in _FIELDS.items():
        # Words: as many as the passages have. Beginnings, which come last: the rest.
        count = int(numbers["lengths"].sum()) if name == "words" else -1 if name == "beginnings" else passages
        numbers[name] = np.frombuffer(data, kind, count, start)
        start += numbers[name].nbytes
    distinct, places = np.unique(numbers["words"], return_inverse=True)
    fits = len(distinct) == len(numbers["beginnings"]) and value["language"] in lexical.STOP_WORDS
    if value["format"] != FORMAT or not fits:
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
    days = np.array([hash_of(token) for token in dates.day_tokens(*talk.days)], "<u8")
    terms, counts = np.unique(np.concatenate([distinct, days]), return_counts=True)
    bucket = terms.astype("<u4"), np.zeros(len(terms), "<u4"), np.minimum(counts, 255).astype("u1")
    return Postings(table_of(key_of(talk.thread_id), talk.version, len(talk.words)), frozenset([talk.language]), bucket)
