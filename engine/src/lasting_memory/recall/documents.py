"""A conversation as numbers for the index: its words, passage by passage, and which word is in which conversation.

Words are 32-bit hashes, because an array of them is small and quick to compare. Two words of one hash cost a wrong candidate at
worst. Every stored item is a few arrays of the kinds below, written by `packed` and read by `unpacked`.
"""

import base64
import hashlib
import itertools
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from lasting_memory.recall import lexical
from lasting_memory.recall.conversations import SPEAKERS, Conversation
from lasting_memory.recall.lexical import Array

# Count it up with a change of what follows: items of another format are dropped, and their conversations indexed again.
FORMAT = 5
# A conversation among others: its number, the time of its last change in microseconds, its first day, and its count of words.
TABLE = np.dtype([("key", "<u8"), ("version", "<i8"), ("began", "<i4"), ("words", "<u4")])
# A word of a conversation, by the conversation's place in the table, and the number of its passages with the word.
POSTINGS = np.dtype([("term", "<u4"), ("place", "<u4"), ("count", "u1")])
# A passage: its turn, speaker (index in `SPEAKERS`), the hash of the speaker's name (0 without one), and its count of words.
PASSAGES = np.dtype([("turn", "<u4"), ("speaker", "u1"), ("name", "<u4"), ("words", "<u4")])
WORDS = np.dtype("<u4")

# Characters of a passage: a few sentences. A long answer has several, so that its end counts as much as a short turn.
PASSAGE_CHARS = 400
_PASSAGE = re.compile(rf".{{1,{PASSAGE_CHARS}}}(?=\s|$)|.{{1,{PASSAGE_CHARS}}}", re.DOTALL)
# Words and passages of one conversation. Beyond so many words, each passage keeps its first ones only.
MAX_WORDS, MAX_PASSAGES = 50_000, 2_000
# Characters of a turn that tell its language; of a speaker's name.
_SAMPLE_CHARS, _NAME_CHARS = 1_500, 64


class DamagedError(ValueError):
    """A stored item that is not what this version of the code writes."""


def packed(arrays: Mapping[str, Array], **about: Any) -> dict[str, Any]:
    """The value of an item with these arrays."""
    texts = {name: base64.b64encode(zlib.compress(array.tobytes(), 1)).decode() for name, array in arrays.items()}
    return {"format": FORMAT, **about, **texts}


def unpacked(item: object, **kinds: Any) -> list[Array]:
    """The arrays of these kinds in a stored item. Raises `DamagedError` if it is gone, of another format, or cannot be read."""
    value = getattr(item, "value", {})
    if value.get("format") != FORMAT:
        raise DamagedError(f"An item of the index is gone, or of the format {value.get('format')!r}.")
    try:
        return [np.frombuffer(zlib.decompress(base64.b64decode(value[name])), kind) for name, kind in kinds.items()]
    except (LookupError, TypeError, ValueError, zlib.error) as error:
        raise DamagedError(f"An item of the index cannot be read: {error!r}.") from error


def key_of(thread_id: str) -> int:
    """A conversation's number in the index."""
    return int.from_bytes(hashlib.blake2b(thread_id.encode(), digest_size=8).digest())


def version_of(updated_at: str) -> int:
    """Time of a thread's last change in microseconds since 1970; 0 if it is unknown."""
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
    """A conversation for ranking: its passages, and the hashes of the words of all of them, one after the other."""

    thread_id: str
    row: Array
    language: str
    passages: Array
    words: Array

    def stored(self) -> dict[str, Any]:
        """The item's value."""
        arrays = {"row": self.row, "passages": self.passages, "words": self.words}
        return packed(arrays, thread_id=self.thread_id, language=self.language)


def read_document(item: Any) -> Document:
    """The inverse of `Document.stored`, of its item."""
    row, passages, words = unpacked(item, row=TABLE, passages=PASSAGES, words=WORDS)
    return Document(item.value["thread_id"], row, item.value["language"], passages, words)


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
    words = np.array([hashed[word] for word in itertools.chain.from_iterable(said)], WORDS)
    began = version_of((talk.created_at or talk.date)[:10]) // (24 * 3_600 * 1_000_000)
    row = np.array([(key_of(talk.thread_id), version_of(talk.updated_at), began, len(words))], TABLE)
    return Document(talk.thread_id, row, spoken, np.array(passages, PASSAGES), words)


def postings(talk: Document) -> Array:
    """The postings of one conversation. A speaker's name is a word of each of their passages."""
    passage = np.repeat(np.arange(len(talk.passages)), talk.passages["words"])
    named = np.flatnonzero(talk.passages["name"])
    words, places = np.concatenate([talk.words, talk.passages["name"][named]]), np.concatenate([passage, named])
    distinct = np.unique(np.stack([words, places.astype("<u4")]), axis=1)[0]
    terms, counts = np.unique(distinct, return_counts=True)
    rows = np.zeros(len(terms), POSTINGS)
    rows["term"], rows["count"] = terms, np.minimum(counts, 255)
    return rows


class Part(NamedTuple):
    """Some conversations of the index, by the namespace and key of their table. Their postings are in so many buckets."""

    namespace: tuple[str, ...]
    name: str
    table: Array
    languages: Sequence[str]
    buckets: int


def newest(table: Array) -> Array:
    """Which rows are the newest of their conversation."""
    order = np.argsort(table["version"], kind="stable")[::-1]
    places, newest = order[np.unique(table["key"][order], return_index=True)[1]], np.zeros(len(table), bool)
    newest[places] = True
    return newest


def joined(arrays: Sequence[Array], kind: Any) -> Array:
    """Arrays of a kind, one after the other."""
    return np.concatenate([np.zeros(0, kind), *arrays])
