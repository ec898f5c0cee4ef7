"""Threads of the agent graphs as conversations: turns of text; and as numbers for the index: their
words, passage by passage.

Words are 32-bit hashes, because an array of them is small and quick to compare. Two words of one
hash cost a wrong candidate at worst. Every stored item is a few arrays of the kinds below, written
by `packed` and read by `unpacked`.
"""

import asyncio
import base64
import hashlib
import itertools
import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, NamedTuple, Protocol
from zoneinfo import ZoneInfo

import numpy as np

from lasting_memory.attachments import own_text, refused_media_of, words_of
from lasting_memory.controls import IMPORTED_BEGAN, IMPORTED_ENDED
from lasting_memory.days import day_of, said_at
from lasting_memory.people import identity
from lasting_memory.people.scopes import ROUTES
from lasting_memory.recall import lexical, repetition
from lasting_memory.recall.lexical import Array
from lasting_memory.words import length_of

_SPEAKERS = {"human": "user", "ai": "assistant", "tool": "tool"}
SPEAKERS = tuple(_SPEAKERS.values())
# Characters of a tool call's arguments, of a turn that tell its language, and of a speaker's name.
_CALL_CHARS, _SAMPLE_CHARS, _NAME_CHARS = 500, 1_500, 64


class Threads(Protocol):
    """The part of the platform's client (`get_client().threads`) that is used here."""

    async def search(self, *args: Any, **options: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: speaker (user, assistant, tool), text, the id of its message, and the speaker's
    name, if any.

    `asks`: it asks for what was said before, or repeats that. `adds`: memory was written then, so
    it also says something new. `said_at` is the time at which the person said it, or what it
    answers, in ISO format, UTC; "" where nobody noted it.
    """

    speaker: str
    text: str
    message_id: str
    name: str = ""
    asks: bool = False
    adds: bool = False
    said_at: str = ""


# How much a text counts: it tells something, stands beside a question about the past, or asks for
# the past and repeats it.
TELLS, BESIDE, ASKS = range(3)
# The weights of these, in tenths.
TENTHS = np.array([10, 2, 1], "u1")


def weighed(turn: Turn) -> Iterator[tuple[str, int]]:
    """The text of a turn in pieces, each with how much it counts."""
    if not turn.asks:
        yield turn.text, TELLS
        return
    if turn.speaker != "user":
        yield turn.text, ASKS
        return
    beside = TELLS if turn.adds else BESIDE
    for is_question, group in itertools.groupby(repetition.sentences(turn.text), key=itemgetter(1)):
        yield "".join(sentence for sentence, _ in group), ASKS if is_question else beside


@dataclass(frozen=True, slots=True)
class Conversation:
    """A thread for search. `date` is the ISO day on which it was last spoken in (UTC's),
    `updated_at` the time of its last change, which a new title is, too.
    """

    thread_id: str
    date: str
    turns: tuple[Turn, ...]
    created_at: str = ""
    updated_at: str = ""
    ended_at: str = ""  # of an imported one, whose thread is younger

    @property
    def last_said_at(self) -> str:
        """When something was said in it last, in ISO format, UTC; the time of its last change where
        nobody noted that.
        """
        return self._last_stamp or self.ended_at or self.updated_at or self.date

    @property
    def _last_stamp(self) -> str:
        return max((turn.said_at for turn in self.turns), default="")

    def day_of(self, turn: Turn, zone: ZoneInfo) -> str:
        """The day on which a turn was said, in a time zone; of one without a time "about" the day
        of the conversation.
        """
        return day_of(turn.said_at, zone) or f"about {self.date}"

    def last_day(self, zone: ZoneInfo) -> str:
        """The day on which something was said in it last; "about" that of its last change where
        nobody noted a time.
        """
        return day_of(self._last_stamp, zone) or f"about {self.date}"


def conversation(
    thread: Mapping[str, Any],
    speakers: Sequence[str] = SPEAKERS,
    routes: Collection[str] = tuple(ROUTES),
) -> Conversation:
    """A thread of the platform, with its values, as a conversation: the turns of these speakers
    that have text.

    What only repeats memory, past conversations, or the files of these routes is no turn.
    """
    values = thread.get("values")
    messages = _mappings(values.get("messages") if isinstance(values, Mapping) else None)
    calls, turns = dict[str, Mapping[str, Any]](), list[Turn]()
    updated_at = str(thread.get("updated_at") or "")
    at = ""
    for exchange in _exchanges(messages):
        # What answers a message was said when that was.
        people = [said_at(message) for message in exchange if message.get("type") == "human"]
        at = max(people) if people else at
        turns += [replace(turn, said_at=at) for turn in _exchanged(exchange, calls, routes)]
    shown = tuple(turn for turn in turns if turn.speaker in speakers and turn.text)
    metadata = thread.get("metadata") or {}
    created_at = str(metadata.get(IMPORTED_BEGAN) or thread.get("created_at") or updated_at)
    ended_at = str(metadata.get(IMPORTED_ENDED) or "")
    date = (ended_at or at or updated_at)[:10]
    return Conversation(str(thread["thread_id"]), date, shown, created_at, updated_at, ended_at)


def _exchanges(messages: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The messages, in order: those of a person together with what they led to, until the person
    speaks again.
    """
    exchange = list[Mapping[str, Any]]()
    for message in messages:
        if message.get("type") == "human" and exchange and exchange[-1].get("type") != "human":
            yield exchange
            exchange = []
        exchange.append(message)
    if exchange:
        yield exchange


def _exchanged(
    exchange: Sequence[Mapping[str, Any]],
    calls: dict[str, Mapping[str, Any]],
    routes: Collection[str],
) -> list[Turn]:
    """The turns of an exchange. Adds its tool calls to `calls`, by id."""
    turns, asks, adds = list[Turn](), False, False
    for message in exchange:
        for call in _mappings(message.get("tool_calls")):
            calls[str(call.get("id"))] = call
            asks = asks or repetition.asks(call, routes)
            adds = adds or repetition.writes(call, routes)
        for turn in _turns(message, calls, routes):
            # What an assistant says once it has looked something up repeats that.
            turns.append(replace(turn, asks=True) if asks and turn.speaker == "assistant" else turn)
    if not asks:
        return turns
    return [
        replace(turn, asks=True, adds=adds) if turn.speaker == "user" else turn for turn in turns
    ]


def _mappings(items: object) -> list[Mapping[str, Any]]:
    """The mappings in a list; none in any other value that a client put there."""
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _turns(
    message: Mapping[str, Any], calls: Mapping[str, Mapping[str, Any]], routes: Collection[str]
) -> Iterator[Turn]:
    """A message's text, and each of its tool calls as a turn of its own, so that a search finds the
    step that worked.

    `calls` are the thread's tool calls up to then, by id.
    """
    texts = {key: value for key, value in message.items() if isinstance(value, str)}
    speaker, message_id = _SPEAKERS.get(texts.get("type", "")), texts.get("id", "")
    added = message.get("additional_kwargs")
    if speaker is None or (isinstance(added, Mapping) and added.get("lc_source") == "pinned_skill"):
        return
    if refused_media_of(message.get("response_metadata")):  # a note of ours to the person
        return
    text = own_text(message)
    if speaker == "tool":
        # Without its call, a result of a tool that reads files may be of any file.
        call = calls.get(texts.get("tool_call_id", ""), {"name": texts.get("name")})
        if repetition.result_repeats(call, routes):
            return
        failed = "failed: " if texts.get("status") == "error" and text else ""
        yield Turn(speaker, failed + text, message_id)
        return
    yield Turn(speaker, text, message_id, texts.get("name", ""))
    for call in _mappings(message.get("tool_calls")):
        if repetition.repeats(call, routes):
            continue
        with suppress(RecursionError, ValueError):
            arguments = json.dumps(call.get("args") or {}, ensure_ascii=False, default=str)[
                :_CALL_CHARS
            ]
            if isinstance(name := call.get("name"), str):
                yield Turn("tool", f"called {name} {arguments}", message_id)


def message_text(content: object) -> str:
    """The text of a whole message's content: a text, or a list of blocks, some with words
    (`attachments.words_of`).
    """
    return "\n".join(_texts(content)).strip()


def piece_text(content: object) -> str:
    """The text of a piece of a message that is streamed. Its white space counts: the next piece
    goes on where it ends.
    """
    return "".join(_texts(content))


def _texts(content: object) -> list[str]:
    blocks = content if isinstance(content, list) else [content]
    return [text for block in blocks if (text := words_of(block))]


def owned_by(actor: identity.Actor, agents: Iterable[str]) -> list[dict[str, str]]:
    """Thread metadata of a person's conversations as `auth.py` and the platform stamp it, one for
    each agent graph.
    """
    return [
        {"graph_id": graph, "user_id": actor.user_id, "org_id": actor.org_id} for graph in agents
    ]


async def threads_by_id(
    threads: Threads, ids: Sequence[str], owned: Sequence[dict[str, str]], select: Sequence[str]
) -> list[Any]:
    """The threads with one of these ids and one of these metadata. The platform's search takes one
    metadata at a time.
    """
    asked = [
        threads.search(ids=list(ids), metadata=metadata, limit=len(ids), select=select)
        for metadata in owned
    ]
    return [thread for page in await asyncio.gather(*asked) for thread in page]


# Count it up with a change of what follows: items of another format are dropped, and their
# conversations indexed again.
FORMAT = 11
# A conversation, or a part of a long one, among others: its number, the time of its last change in
# microseconds, the times at which something was said first and last in seconds, its count of words,
# and of those that tell something.
TABLE = np.dtype([
    ("key", "<u8"), ("version", "<i8"), ("began", "<i8"), ("ended", "<i8"), ("words", "<u4"), ("told", "<u4"),
])  # fmt: skip
DAY_SECONDS = 24 * 3_600
# A word of a conversation, by the conversation's place in the table; the number of its passages
# that tell something with the word, and the weights of its other passages with the word, in tenths.
POSTINGS = np.dtype([("term", "<u4"), ("place", "<u4"), ("count", "u1"), ("asked", "u1")])
# A passage: its turn, speaker (index in `SPEAKERS`), how much it counts (`TELLS`, `BESIDE`,
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
# What is to be said of a word: whether it is in a question, and the number of its accents above
# that (`accents_of`).
MARKS = np.dtype("u1")
IN_QUESTION, ACCENTS_SHIFT = 1, 1

# Characters of a passage: a few sentences. A long answer has several, so that its end counts as
# much as a short turn.
PASSAGE_CHARS = 400
_PASSAGE = re.compile(rf".{{1,{PASSAGE_CHARS}}}(?=\s|$)|.{{1,{PASSAGE_CHARS}}}", re.DOTALL)
# Words and passages of one document. A longer conversation has several.
MAX_WORDS, MAX_PASSAGES = 50_000, 2_000
# Documents of one conversation: 128,000 passages, some 40 MB of text. The newest turns are in them.
MAX_DOCUMENTS = 64
# The numbers of a conversation's documents differ in these bits.
_PART_BITS = np.uint64(0xFFF)


class DamagedError(ValueError):
    """A stored item that is not what this version of the code writes."""


def packed(arrays: Mapping[str, Array], **about: Any) -> dict[str, Any]:
    """The value of an item with these arrays."""
    texts = {
        name: base64.b64encode(zlib.compress(array.tobytes(), 1)).decode()
        for name, array in arrays.items()
    }
    return {"format": FORMAT, **about, **texts}


def unpacked(item: object, **kinds: Any) -> list[Array]:
    """The arrays of these kinds in a stored item. Raises `DamagedError` if it is gone, of another
    format, or cannot be read.
    """
    value = getattr(item, "value", {})
    if value.get("format") != FORMAT:
        raise DamagedError(
            f"An item of the index is gone, or of the format {value.get('format')!r}."
        )
    try:
        return [
            np.frombuffer(zlib.decompress(base64.b64decode(value[name])), kind)
            for name, kind in kinds.items()
        ]
    except (LookupError, TypeError, ValueError, zlib.error) as error:
        raise DamagedError(f"An item of the index cannot be read: {error!r}.") from error


def key_of(thread_id: str) -> int:
    """A conversation's number in the index, which is that of its first document. The others follow
    it.
    """
    return int.from_bytes(hashlib.blake2b(thread_id.encode(), digest_size=8).digest()) & ~int(
        _PART_BITS
    )


def conversation_of(keys: Array) -> Array:
    """The numbers of the conversations of documents, by their numbers."""
    return keys & ~_PART_BITS


def version_of(updated_at: str) -> int:
    """Time of a thread's last change in microseconds since 1970; 0 if it is unknown."""
    try:
        moment = datetime.fromisoformat(updated_at)
    except ValueError:
        return 0
    return max(
        0, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000_000)
    )


def hash_of(word: str) -> int:
    """A word's number in the index."""
    return zlib.crc32(word.encode())


def accents_of(accents: str) -> int:
    """The number of a word's accents (`words.Term`), from 1 to 127; 0 for none."""
    return 1 + zlib.crc32(accents.encode()) % 127 if accents else 0


@dataclass(frozen=True, slots=True)
class Document:
    """A conversation, or a part of a long one, for ranking: its passages, and the hashes of their
    words, one after the other.

    `marks` say of each word whether it is in a sentence with a question mark, and which accents it
    has. `left_out` counts the turns at the beginning of the conversation that no document has.
    """

    thread_id: str
    row: Array
    language: str
    passages: Array
    words: Array
    marks: Array
    left_out: int = 0

    def stored(self) -> dict[str, Any]:
        """The item's value."""
        arrays = {
            "row": self.row,
            "passages": self.passages,
            "words": self.words,
            "marks": self.marks,
        }
        return packed(
            arrays, thread_id=self.thread_id, language=self.language, left_out=self.left_out
        )


def read_document(item: Any) -> Document:
    """The inverse of `Document.stored`, of its item."""
    row, passages, words, marks = unpacked(
        item, row=TABLE, passages=PASSAGES, words=WORDS, marks=MARKS
    )
    return Document(
        item.value["thread_id"],
        row,
        item.value["language"],
        passages,
        words,
        marks,
        item.value.get("left_out", 0),
    )


class _Passage(NamedTuple):
    """A passage of a turn: the turn's number, how much it counts, its text, and its words with
    their marks.
    """

    turn: int
    kind: int
    text: str
    words: list[tuple[str, int]]


def documents(talk: Conversation) -> list[Document]:
    """A conversation's documents, one or more, in order. Blocks for milliseconds per hundred turns."""
    spoken = lexical.language(
        " ".join(turn.text[:_SAMPLE_CHARS] for turn in talk.turns if turn.speaker != "tool")
    )
    # A search names speakers by their first name.
    names = {turn.name: _name_of(turn.name, spoken) for turn in talk.turns}
    parts = _parts(talk, spoken)
    shown = parts[-MAX_DOCUMENTS:]
    left_out = shown[0][0].turn if len(shown) < len(parts) else 0
    whole = Document(
        talk.thread_id,
        _row(talk),
        spoken,
        np.zeros(0, PASSAGES),
        np.zeros(0, WORDS),
        np.zeros(0, MARKS),
        left_out,
    )
    return [_document(whole, talk.turns, names, number, part) for number, part in enumerate(shown)]


def _parts(talk: Conversation, language: str) -> list[list[_Passage]]:
    """The passages of a conversation, of each of its documents."""
    parts, size = [list[_Passage]()], 0
    for number, turn in enumerate(talk.turns):
        for piece, kind in weighed(turn):
            for text in _PASSAGE.findall(piece):
                words = _words_of(text, language)
                if len(parts[-1]) >= MAX_PASSAGES or (size and size + len(words) > MAX_WORDS):
                    parts.append([])
                    size = 0
                parts[-1].append(_Passage(number, kind, text, words))
                size += len(words)
    return parts


def _row(talk: Conversation) -> Array:
    """The row of a conversation's first document, without its counts."""
    began, ended = (
        version_of(at) // 1_000_000 for at in (talk.created_at or talk.date, talk.last_said_at)
    )
    return np.array(
        [(key_of(talk.thread_id), version_of(talk.updated_at), began, ended, 0, 0)], TABLE
    )


def _document(
    whole: Document,
    turns: Sequence[Turn],
    names: Mapping[str, int],
    number: int,
    part: Sequence[_Passage],
) -> Document:
    """The document of some passages of a conversation. `whole` says what all of its documents have
    in common.
    """
    passages = list[tuple[int, ...]]()
    for passage in part:
        turn = turns[passage.turn]
        speaker, size = SPEAKERS.index(turn.speaker), len(passage.words)
        passages.append(
            (passage.turn, speaker, passage.kind, names[turn.name], size, length_of(passage.text))
        )
    every_word = [word for passage in part for word in passage.words]
    words = np.array([hash_of(word) for word, _ in every_word], WORDS)
    marks = np.array([mark for _, mark in every_word], MARKS)
    row = whole.row.copy()
    row["key"] += number
    row["words"] = len(words)
    row["told"] = sum(len(passage.words) for passage in part if passage.kind == TELLS)
    return replace(whole, row=row, passages=np.array(passages, PASSAGES), words=words, marks=marks)


def _name_of(speaker: str, language: str) -> int:
    """The number of a speaker's first name; 0 without one."""
    terms = lexical.search_stems(speaker[:_NAME_CHARS], language)
    return hash_of(terms[0].text) if terms else 0


def _words_of(text: str, language: str) -> list[tuple[str, int]]:
    """The words of a passage, stemmed, in order, each with its mark (`MARKS`)."""
    words = list[tuple[str, int]]()
    for sentence, is_question in repetition.sentences(text):
        mark = IN_QUESTION if is_question else 0
        if sentence.isascii():
            words += zip(lexical.ascii_search_stems(sentence, language), itertools.repeat(mark))
            continue
        for term in lexical.search_stems(sentence, language):
            words.append((term.text, accents_of(term.accents) << ACCENTS_SHIFT | mark))
    return words


def postings(talk: Document) -> Array:
    """The postings of one document. A speaker's name is a word of each of their passages."""
    passage = np.repeat(np.arange(len(talk.passages)), talk.passages["words"])
    named = np.flatnonzero(talk.passages["name"])
    words, places = (
        np.concatenate([talk.words, talk.passages["name"][named]]),
        np.concatenate([passage, named]),
    )
    distinct, where = np.unique(np.stack([words, places.astype("<u4")]), axis=1)
    terms, term = np.unique(distinct, return_inverse=True)
    kinds = talk.passages["kind"][where]
    told = np.bincount(term, kinds == TELLS, len(terms))
    asked = np.bincount(term, np.where(kinds == TELLS, 0, TENTHS[kinds]), len(terms))
    rows = np.zeros(len(terms), POSTINGS)
    rows["term"] = terms
    rows["count"] = np.minimum(told, 255)
    rows["asked"] = np.minimum(asked, 255)
    return rows


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
    """A part of the index, of the item of its table."""
    (table,) = unpacked(item, table=TABLE)
    return Part(item.namespace, item.key, table, item.value["languages"], item.value["buckets"])


def newest(table: Array) -> Array:
    """Which rows are those of the newest version of their conversation, each document once."""
    conversations, of_row = np.unique(conversation_of(table["key"]), return_inverse=True)
    latest = np.zeros(len(conversations), table["version"].dtype)
    np.maximum.at(latest, of_row, table["version"])
    current = np.flatnonzero(table["version"] == latest[of_row])
    first = current[np.unique(table["key"][current], return_index=True)[1]]
    return np.isin(np.arange(len(table)), first)


def joined(arrays: Sequence[Array], kind: Any) -> Array:
    """Arrays of a kind, one after the other."""
    return np.concatenate([np.zeros(0, kind), *arrays])
