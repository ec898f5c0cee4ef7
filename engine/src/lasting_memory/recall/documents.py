"""Conversations as documents for ranking: the hashes of their words, passage by passage."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lasting_memory.recall import lexical, repetition
from lasting_memory.recall.format import (
    ACCENTS_SHIFT,
    IN_QUESTION,
    MARKS,
    PASSAGES,
    POSTINGS,
    SPEAKERS,
    TABLE,
    TELLS,
    TENTHS,
    WORDS,
    accents_of,
    hash_of,
    key_of,
    packed,
    unpacked,
    version_of,
)
from lasting_memory.recall.lexical import Array
from lasting_memory.recall.threads import Conversation, Turn, weighted_pieces
from lasting_memory.words import length_of

# Characters of a turn that tell its language, and of a speaker's name.
_SAMPLE_CHARS = 1_500
_NAME_CHARS = 64
# Characters of a passage: a few sentences. A long answer has several, so that its end counts as
# much as a short turn.
PASSAGE_CHARS = 400
_PASSAGE = re.compile(rf".{{1,{PASSAGE_CHARS}}}(?=\s|$)|.{{1,{PASSAGE_CHARS}}}", re.DOTALL)
# Words and passages of one document. A longer conversation has several.
MAX_WORDS = 50_000
MAX_PASSAGES = 2_000
# Documents of one conversation: 128,000 passages, some 40 MB of text. The newest turns are in them.
MAX_DOCUMENTS = 64
# The largest number of a field of one byte.
_MOST_COUNTED = 255


@dataclass(frozen=True, slots=True)
class Document:
    """A conversation, or a part of a long one: its passages, and the hashes of their words, one
    after the other.

    `row` is its row of the table. `marks` say of each word whether it is in a sentence with a
    question mark, and which accents it has. `left_out` counts the turns at the beginning of the
    conversation that no document has.
    """

    thread_id: str
    row: Array
    language: str
    passages: Array
    words: Array
    marks: Array
    left_out: int = 0

    @property
    def key(self) -> int:
        """Its number."""
        return int(self.row["key"][0])

    @property
    def version(self) -> int:
        """The time of its conversation's last change, in microseconds since 1970."""
        return int(self.row["version"][0])

    @property
    def ended(self) -> int:
        """The time at which something was said in it last, in seconds since 1970."""
        return int(self.row["ended"][0])

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
    """The inverse of `Document.stored`, of its item. Raises as `unpacked`."""
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
    language = _language_of(talk)
    parts = _parts(talk, language)
    shown = parts[-MAX_DOCUMENTS:]
    left_out = 0
    if len(shown) < len(parts):
        first_shown = shown[0][0]
        left_out = first_shown.turn
    whole = Document(
        talk.thread_id,
        _row(talk),
        language,
        np.zeros(0, PASSAGES),
        np.zeros(0, WORDS),
        np.zeros(0, MARKS),
        left_out,
    )
    # A search names speakers by their first name.
    names = dict[str, int]()
    for turn in talk.turns:
        name = turn.name
        names[name] = _name_of(name, language)
    made = list[Document]()
    for number, part in enumerate(shown):
        document = _document(whole, talk.turns, names, number, part)
        made.append(document)
    return made


def _language_of(talk: Conversation) -> str:
    """The language in which people and assistants speak in a conversation."""
    samples = list[str]()
    for turn in talk.turns:
        if turn.speaker != "tool":
            samples.append(turn.text[:_SAMPLE_CHARS])
    spoken = " ".join(samples)
    return lexical.language(spoken)


def _parts(talk: Conversation, language: str) -> list[list[_Passage]]:
    """The passages of a conversation, of each of its documents."""
    part = list[_Passage]()
    parts = [part]
    words = 0
    for passage in _passages(talk, language):
        words += len(passage.words)
        is_full = len(part) >= MAX_PASSAGES or words > MAX_WORDS
        if is_full and part:
            part = []
            parts.append(part)
            words = len(passage.words)
        part.append(passage)
    return parts


def _passages(talk: Conversation, language: str) -> list[_Passage]:
    """All passages of a conversation, in order."""
    passages = list[_Passage]()
    for number, turn in enumerate(talk.turns):
        for piece, kind in weighted_pieces(turn):
            for text in _PASSAGE.findall(piece):
                words = _words_of(text, language)
                passages.append(_Passage(number, kind, text, words))
    return passages


def _row(talk: Conversation) -> Array:
    """The row of a conversation's first document, without its counts."""
    began_at = talk.created_at or talk.date
    began = version_of(began_at)
    ended = version_of(talk.last_said_at)
    row = np.zeros(1, TABLE)
    row["key"] = key_of(talk.thread_id)
    row["version"] = version_of(talk.updated_at)
    row["began"] = began // 1_000_000
    row["ended"] = ended // 1_000_000
    return row


def _document(
    whole: Document,
    turns: Sequence[Turn],
    names: Mapping[str, int],
    number: int,
    part: Sequence[_Passage],
) -> Document:
    """The document of some passages of a conversation.

    `whole` says what all of its documents have in common.
    """
    passages = np.zeros(len(part), PASSAGES)
    words = list[int]()
    marks = list[int]()
    told = 0
    for place, passage in enumerate(part):
        turn = turns[passage.turn]
        speaker = SPEAKERS.index(turn.speaker)
        name = names[turn.name]
        size = len(passage.words)
        length = length_of(passage.text)
        passages[place] = (passage.turn, speaker, passage.kind, name, size, length)
        if passage.kind == TELLS:
            told += size
        for word, mark in passage.words:
            words.append(hash_of(word))
            marks.append(mark)
    row = whole.row.copy()
    row["key"] += number
    row["words"] = len(words)
    row["told"] = told
    return replace(
        whole,
        row=row,
        passages=passages,
        words=np.array(words, WORDS),
        marks=np.array(marks, MARKS),
    )


def _name_of(speaker: str, language: str) -> int:
    """The number of a speaker's first name; 0 without one."""
    terms = lexical.search_stems(speaker[:_NAME_CHARS], language)
    if not terms:
        return 0
    first = terms[0]
    return hash_of(first.text)


def _words_of(text: str, language: str) -> list[tuple[str, int]]:
    """The words of a passage, stemmed, in order, each with its mark (`format.MARKS`)."""
    words = list[tuple[str, int]]()
    for sentence, is_question in repetition.sentences(text):
        mark = IN_QUESTION if is_question else 0
        if sentence.isascii():
            stems = lexical.ascii_search_stems(sentence, language)
            words += zip(stems, itertools.repeat(mark))
            continue
        for term in lexical.search_stems(sentence, language):
            accents = accents_of(term.accents) << ACCENTS_SHIFT
            words.append((term.text, accents | mark))
    return words


def postings(document: Document) -> Array:
    """The postings of one document. A speaker's name is a word of each of their passages."""
    words, places = _words_by_passage(document)
    terms, term_of_word = np.unique(words, return_inverse=True)
    kind_of_passage = document.passages["kind"]
    kinds = kind_of_passage[places]
    tells = kinds == TELLS
    tenths = TENTHS[kinds]
    asking_tenths = np.where(tells, 0, tenths)
    count = len(terms)
    told = np.bincount(term_of_word, tells, count)
    asked = np.bincount(term_of_word, asking_tenths, count)
    rows = np.zeros(count, POSTINGS)
    rows["term"] = terms
    rows["count"] = np.minimum(told, _MOST_COUNTED)
    rows["asked"] = np.minimum(asked, _MOST_COUNTED)
    return rows


def _words_by_passage(document: Document) -> tuple[Array, Array]:
    """The words of each passage, each once, and the number of its passage."""
    passages = document.passages
    numbers = np.arange(len(passages))
    passage_of_word = np.repeat(numbers, passages["words"])
    all_names = passages["name"]
    named = np.flatnonzero(all_names)
    names = all_names[named]
    words = np.concatenate([document.words, names])
    places = np.concatenate([passage_of_word, named])
    small_places = places.astype("<u4")
    both = np.stack([words, small_places])
    words, places = np.unique(both, axis=1)
    return words, places
