"""Conversations as documents for ranking: the hashes of their words, passage by passage.

A conversation has one document, or several if it is long. A document has passages, each of a few
sentences of one turn. The kind of a passage says how much it counts: it tells something, asks for
the past, or stands beside such a question (`format.TELLS` and so on). The mark of a word says
whether it is in a question, and which accents it has (`format.MARKS`).
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from langgraph.store.base import Item

from lasting_memory.recall import lexical, repetition
from lasting_memory.recall.arrays import Array, Integers, Rows
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
    hash_of,
    hash_of_accents,
    key_of,
    number_in,
    packed,
    text_in,
    unpacked,
    value_of,
    version_of,
)
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
    row: Rows
    language: str
    passages: Rows
    words: Integers
    marks: Integers
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

    def stored(self) -> dict[str, object]:
        """The item's value."""
        arrays: dict[str, Array] = {
            "row": self.row,
            "passages": self.passages,
            "words": self.words,
            "marks": self.marks,
        }
        return packed(
            arrays, thread_id=self.thread_id, language=self.language, left_out=self.left_out
        )


def read_document(item: Item | None) -> Document:
    """The document of a stored item, whose value `Document.stored` made.

    Raises `DamagedError` if the item is missing or cannot be read.
    """
    row, passages = unpacked(item, row=TABLE, passages=PASSAGES)
    (words,) = unpacked(item, words=WORDS)
    (marks,) = unpacked(item, marks=MARKS)
    value = value_of(item)
    left_out = 0
    if "left_out" in value:
        left_out = number_in(value, "left_out")
    return Document(
        text_in(value, "thread_id"),
        row,
        text_in(value, "language"),
        passages,
        words,
        marks,
        left_out,
    )


class _Passage(NamedTuple):
    """A passage of a turn: the turn's number, the kind, the text, and its stemmed words with their
    marks.
    """

    turn: int
    kind: int
    text: str
    words: list[tuple[str, int]]


def documents(talk: Conversation) -> list[Document]:
    """A conversation's documents, one or more, in order. Of an endless conversation the last ones.

    Blocks for milliseconds per hundred turns.
    """
    language = _language_of(talk)
    passages_of_documents = _split_passages(talk, language)
    last_ones = passages_of_documents[-MAX_DOCUMENTS:]
    left_out = 0
    if len(last_ones) < len(passages_of_documents):
        first_passage = last_ones[0][0]
        left_out = first_passage.turn
    template = Document(
        talk.thread_id,
        _row(talk),
        language,
        np.zeros(0, PASSAGES),
        np.zeros(0, WORDS),
        np.zeros(0, MARKS),
        left_out,
    )
    name_hashes = dict[str, int]()
    for turn in talk.turns:
        name = turn.name
        name_hashes[name] = _first_name_hash(name, language)
    all_documents = list[Document]()
    for number, passages in enumerate(last_ones):
        document = _document(template, talk.turns, name_hashes, number, passages)
        all_documents.append(document)
    return all_documents


def _language_of(talk: Conversation) -> str:
    """The language in which people and assistants speak in a conversation."""
    samples = list[str]()
    for turn in talk.turns:
        if turn.speaker == "tool":
            continue
        sample = turn.text[:_SAMPLE_CHARS]
        samples.append(sample)
    spoken = " ".join(samples)
    return lexical.language(spoken)


def _split_passages(talk: Conversation, language: str) -> list[list[_Passage]]:
    """A list of passages for each document of a conversation. A conversation without text has one
    document without passages.
    """
    passages = list[_Passage]()
    passages_of_documents = [passages]
    word_count = 0
    for passage in _passages(talk, language):
        size = len(passage.words)
        word_count += size
        has_enough_passages = len(passages) >= MAX_PASSAGES
        is_full = has_enough_passages or word_count > MAX_WORDS
        if passages and is_full:
            passages = []
            passages_of_documents.append(passages)
            word_count = size
        passages.append(passage)
    return passages_of_documents


def _passages(talk: Conversation, language: str) -> list[_Passage]:
    """All passages of a conversation, in order."""
    passages = list[_Passage]()
    for number, turn in enumerate(talk.turns):
        for piece, kind in weighted_pieces(turn):
            for text in _PASSAGE.findall(piece):
                words = _words_of(text, language)
                passage = _Passage(number, kind, text, words)
                passages.append(passage)
    return passages


def _row(talk: Conversation) -> Rows:
    """The row of a conversation's first document in the table, without its counts of words."""
    began_at = talk.created_at or talk.date
    beginning = version_of(began_at)
    end = version_of(talk.last_said_at)
    row = np.zeros(1, TABLE)
    row["key"] = key_of(talk.thread_id)
    row["version"] = version_of(talk.updated_at)
    row["began"] = beginning // 1_000_000
    row["ended"] = end // 1_000_000
    return row


def _document(
    template: Document,
    turns: Sequence[Turn],
    name_hashes: Mapping[str, int],
    number: int,
    passages: Sequence[_Passage],
) -> Document:
    """The document of this number, from 0, of a conversation. It has these passages.

    `template` says what all documents of the conversation have in common. `name_hashes` has the hash
    of each speaker's first name.
    """
    rows = np.zeros(len(passages), PASSAGES)
    words = list[int]()
    marks = list[int]()
    telling_words = 0
    for place, passage in enumerate(passages):
        turn = turns[passage.turn]
        kind = passage.kind
        speaker = SPEAKERS.index(turn.speaker)
        name = name_hashes[turn.name]
        size = len(passage.words)
        length = length_of(passage.text)
        rows[place] = (passage.turn, speaker, kind, name, size, length)
        if kind == TELLS:
            telling_words += size
        for word, mark in passage.words:
            words.append(hash_of(word))
            marks.append(mark)
    row = template.row.copy()
    row["key"] += number
    row["words"] = len(words)
    row["told"] = telling_words
    return replace(
        template,
        row=row,
        passages=rows,
        words=np.array(words, WORDS),
        marks=np.array(marks, MARKS),
    )


def _first_name_hash(speaker: str, language: str) -> int:
    """The hash of a speaker's first name, by which a search names them; 0 without one."""
    short_name = speaker[:_NAME_CHARS]
    terms = lexical.search_stems(short_name, language)
    if not terms:
        return 0
    first_term = terms[0]
    return hash_of(first_term.text)


def _words_of(text: str, language: str) -> list[tuple[str, int]]:
    """The words of a passage, stemmed, in order, each with its mark."""
    words = list[tuple[str, int]]()
    for sentence, is_question in repetition.sentences(text):
        sentence_mark = IN_QUESTION if is_question else 0
        if sentence.isascii():
            # These have no accents.
            stems = lexical.ascii_search_stems(sentence, language)
            words += zip(stems, itertools.repeat(sentence_mark))
            continue
        for term in lexical.search_stems(sentence, language):
            accents = hash_of_accents(term.accents)
            mark = accents << ACCENTS_SHIFT | sentence_mark
            words.append((term.text, mark))
    return words


def postings(document: Document) -> Rows:
    """The postings of one document: one for each of its words. The name of a passage's speaker is a
    word of the passage.
    """
    words, places = _distinct_words(document)
    terms, term_of_word = np.unique(words, return_inverse=True)
    kind_of_passage = document.passages["kind"]
    kind_of_word = kind_of_passage[places]
    tells = kind_of_word == TELLS
    tenths = TENTHS[kind_of_word]
    asking_tenths = np.where(tells, 0, tenths)
    term_count = len(terms)
    told_counts = np.bincount(term_of_word, tells, term_count)
    asking_counts = np.bincount(term_of_word, asking_tenths, term_count)
    rows = np.zeros(term_count, POSTINGS)
    rows["term"] = terms
    rows["count"] = np.minimum(told_counts, _MOST_COUNTED)
    rows["asked"] = np.minimum(asking_counts, _MOST_COUNTED)
    return rows


def _distinct_words(document: Document) -> tuple[Integers, Integers]:
    """The hashes of the words of each passage, each once for a passage, and the number of its
    passage.
    """
    passages = document.passages
    sizes = passages["words"]
    numbers = np.arange(len(passages))
    passage_of_word = np.repeat(numbers, sizes)
    names = passages["name"]
    named_passages = np.flatnonzero(names)
    spoken_names = names[named_passages]
    words = np.concatenate([document.words, spoken_names])
    places = np.concatenate([passage_of_word, named_passages])
    small_places = places.astype("<u4")
    words_and_places = np.stack([words, small_places])
    words, places = np.unique(words_and_places, axis=1)
    return words, places
