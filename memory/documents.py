"""A conversation as it is ranked and stored: its words in their order, passage by passage, as numbers."""

from __future__ import annotations

import binascii
import hashlib
import itertools
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from memory import dates, lexical
from memory.conversations import SPEAKERS, Conversation
from memory.postings import FORMAT, Array, DamagedError, Postings, check_format, packed, table_of, unpacked

# A long turn is several passages, so that what is said at its end counts as much as in a short one.
PASSAGE_CHARS = 1_500
# Of one conversation: beyond it, each passage keeps its first words only.
MAX_WORDS, MAX_PASSAGES = 50_000, 2_000
# Letters by which words are alike though their stems differ: "tournament" and "tourney", "destress" and "destressing".
BEGINNING_CHARS = 4
_EPOCH = date(1970, 1, 1).toordinal()


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


def beginning_of(word: str) -> int:
    """A number of 16 bits for a word's first letters."""
    return zlib.crc32(word[:BEGINNING_CHARS].encode()) & 0xFFFF


@dataclass(frozen=True, slots=True)
class Document:
    """A conversation as it is ranked.

    `turns`, `speakers` (index in `SPEAKERS`), `names` (hash of the speaker's name, 0 without one) and `lengths` (words) have an
    entry for each passage, `words` the hashes of all of them; `beginnings` (`beginning_of`) those of
    the same words, stored once for each distinct one. `days` are the first and the last.
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
        numbers = b"".join(arrays[name].astype(kind).tobytes() for name, kind in _FIELDS.items())
        about = {"thread_id": self.thread_id, "version": self.version, "language": self.language}
        days, passages = [day.toordinal() - _EPOCH for day in self.days], len(self.turns)
        return {"format": FORMAT, **about, "days": days, "passages": passages, "data": packed(np.frombuffer(numbers, "u1"))}


_FIELDS = {"turns": "<u4", "speakers": "u1", "names": "<u4", "lengths": "<u4", "words": "<u4", "beginnings": "<u2"}


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
    hashed = {word: (hash_of(word), beginning_of(word)) for word in itertools.chain.from_iterable(passages)}
    numbers = [hashed[word] for words in passages for word in words]
    return Document(
        thread_id=talk.thread_id,
        version=version_of(talk.updated_at),
        language=spoken,
        days=(_day(talk.created_at or talk.date), _day(talk.updated_at or talk.date)),
        turns=np.array([number for number, _, _ in pieces], "<u4"),
        speakers=np.array([SPEAKERS.index(turn.speaker) for _, turn, _ in pieces], "u1"),
        names=np.array([name_hash(turn.name, spoken) if turn.name else 0 for _, turn, _ in pieces], "<u4"),
        lengths=np.array([len(words) for words in passages], "<u4"),
        words=np.array([word for word, _ in numbers], "<u4"),
        beginnings=np.array([beginning for _, beginning in numbers], "<u2"),
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
        check_format(value)
        data, start, passages = unpacked(value["data"], "u1").tobytes(), 0, int(value["passages"])
        numbers: dict[str, Array] = {}
        for name, kind in _FIELDS.items():
            # As many words as the passages have; the beginnings, which come last, as there is room for.
            count = int(numbers["lengths"].sum()) if name == "words" else -1 if name == "beginnings" else passages
            numbers[name] = np.frombuffer(data, kind, count, start)
            start += numbers[name].nbytes
        distinct, places = np.unique(numbers["words"], return_inverse=True)
        if len(distinct) != len(numbers["beginnings"]):
            raise DamagedError("a document whose parts do not fit")
        numbers["beginnings"] = numbers["beginnings"][places]
        first, last = (date.fromordinal(_EPOCH + int(day)) for day in value["days"])
        read = Document(str(value["thread_id"]), int(value["version"]), str(value["language"]), (first, last), **numbers)
    except (KeyError, TypeError, ValueError, OverflowError, binascii.Error, zlib.error) as error:
        raise DamagedError(f"no document: {error}") from error
    if read.language not in lexical.STOP_WORDS:
        raise DamagedError(f"a document in no language of ours: {read.language[:20]!r}")
    return read


def postings(talk: Document) -> Postings:
    """Those of one conversation. Its days are words, too."""
    passage = np.repeat(np.arange(len(talk.lengths), dtype="<u8"), talk.lengths)
    distinct = np.unique(talk.words.astype("<u8") << np.uint64(32) | passage) >> np.uint64(32)
    names = talk.names[talk.names > 0].astype("<u8")
    days = np.array([hash_of(token) for token in dates.day_tokens(*talk.days)], "<u8")
    terms, counts = np.unique(np.concatenate([distinct, np.unique(names), days]), return_counts=True)
    table = table_of([key_of(talk.thread_id)], [talk.version], [len(talk.words)])
    one = frozenset([talk.language])
    return Postings(table, terms.astype("<u4"), np.zeros(len(terms), "<u4"), np.minimum(counts, 255).astype("u1"), one)
