"""Search of memory files: for tools, code and people alike.

Files are found by words and, where the store has a semantic index, by meaning. What is scored is a
*passage*, a paragraph of a file, known by its number among the passages of all files. A file counts
by its best passage. Lines that are over (`memory/ends.py`) are not searched.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from langgraph.config import get_store
from langgraph.store.base import BaseStore, Item

from lasting_memory import platform
from lasting_memory.agent.unconfirmed import unconfirmed_in, unconfirmed_lines
from lasting_memory.conversations.marks import in_temporary_conversation
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.memory.ends import ends_of_file, numbers_over, present_day, without_lines
from lasting_memory.memory.facts import without_comments
from lasting_memory.memory.sources import signs_in
from lasting_memory.memory.stored_files import text_of
from lasting_memory.people.caller import Caller
from lasting_memory.people.namespaces import Namespace
from lasting_memory.recall import fused, nearest, rank

# Files of an answer unless more are asked for, and at most.
DEFAULT_FOUND = 5
MAX_FOUND = 20
# Of each file: characters of its text, lines, and characters of each line.
_TEXT_CHARS = 600
_LINES = 10
_LINE_CHARS = 400
# Passages of all files, and lines of one, that are ranked each for itself: a file of 256 KiB has
# room for 100,000 of them, and each costs time and memory, however short it is.
_MOST_PASSAGES = 20_000
_MOST_LINES = 2_000
_PROFILE_KEY = PROFILE_PATH.removeprefix("/memories")
# Files to ask a semantic index for: some may not be text.
_NEAR = 100


@dataclass(frozen=True, slots=True)
class FoundMemory:
    """A memory file that a search found.

    Attributes:
        path: as the agent sees it, such as /memories/topics/cooking.md.
        text: at most 600 characters of it: the passage that matches best, or the beginning where
            it is found by meaning alone.
        lines: at most ten of its lines with words of the query, the best first, each with its
            number, from 0. None of JSON.
        unconfirmed: what lines of `text` say that nobody vouches for, or fields of JSON.
    """

    path: str
    text: str
    lines: tuple[tuple[int, str], ...] = ()
    unconfirmed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    """A file that is searched: its text, the numbers of its lines that are over, the text without
    these, and the signs of who vouches for its lines.
    """

    key: str
    text: str
    over_numbers: frozenset[int]
    current_text: str
    signs: str


class _Passage(NamedTuple):
    """A paragraph of a file."""

    file: _File
    text: str


class _Similar(NamedTuple):
    """A file that the semantic index found. `is_near`: alike enough to count by meaning alone."""

    key: str
    score: float
    is_near: bool


async def find_memories(
    d: Deployment, query: str, *, limit: int = DEFAULT_FOUND
) -> list[FoundMemory]:
    """What is remembered about a query; the best file first.

    It searches the memory of the current run's person, or shared memory. For a tool or a node of
    your own: it finds what the tool `search_memories` finds, and nothing in a temporary
    conversation.

    Args:
        d: the deployment.
        query: in plain words.
        limit: how many files, from 1 to 20.

    Raises `SettingsError` where there is no memory, and `IdentityError` where the run is nobody's.
    """
    caller = Caller.of_run(d)
    namespace = d.memory.namespace(caller.actor, caller.assistant)
    if in_temporary_conversation():
        return []
    return await search_files(get_store(), namespace, query, d, limit)


async def search_files(
    store: BaseStore, namespace: Namespace, query: str, d: Deployment, limit: int = DEFAULT_FOUND
) -> list[FoundMemory]:
    """The best files of a namespace for a query, the best first, by the words of their passages
    (BM25).

    Where the store has a semantic index, their meaning counts, too. `limit` is taken as 1 to 20.
    """
    similar_files = list[_Similar]()
    if platform.embedding_model(store):
        similar_files = await _similar_files(store, namespace, query)
    items = await store.asearch(namespace, limit=d.limits.max_files)
    positive_limit = max(limit, 1)
    max_files = min(positive_limit, MAX_FOUND)
    return await platform.in_thread(_search, d, query, items, similar_files, max_files)


async def _similar_files(store: BaseStore, namespace: Namespace, query: str) -> list[_Similar]:
    """The files whose meaning is most like that of a query."""
    similar_files = list[_Similar]()
    nearest_items = await nearest(store, namespace, query, _NEAR)
    for item, is_near in nearest_items:
        score = item.score or 0.0
        file = _Similar(item.key, score, is_near)
        similar_files.append(file)
    return similar_files


def _search(
    d: Deployment,
    query: str,
    items: Sequence[Item],
    similar_files: Sequence[_Similar],
    limit: int,
) -> list[FoundMemory]:
    """The best of these files, at most `limit`, the best first. Blocks."""
    files = _files(d, items)
    passages = _passages(files)
    scores_by_words = _scores_by_words(query, passages)
    scores_by_meaning = _scores_by_meaning(similar_files, passages, scores_by_words)
    scores = fused(scores_by_words, scores_by_meaning)
    numbers_best_first = sorted(scores, key=scores.__getitem__, reverse=True)
    memories = dict[str, FoundMemory]()
    for number in numbers_best_first:
        passage = passages[number]
        key = passage.file.key
        # A file is found once, by its best passage.
        if key in memories:
            continue
        has_words = number in scores_by_words
        memories[key] = _found_memory(query, passage, has_words=has_words)
        if len(memories) == limit:
            break
    return list(memories.values())


def _found_memory(query: str, passage: _Passage, *, has_words: bool) -> FoundMemory:
    """A file that was found by this passage. Without words of the query it was found by meaning
    alone.
    """
    file = passage.file
    # Which part of a file is alike in meaning is not known: its beginning is shown.
    text = file.current_text[:_TEXT_CHARS]
    if has_words:
        text = _best_part(query, passage.text)
    unconfirmed_entries = unconfirmed_lines(file.key, file.text, file.signs)
    return FoundMemory(
        path=f"/memories{file.key}",
        text=text,
        lines=_best_lines(query, file),
        unconfirmed=unconfirmed_in(text, unconfirmed_entries),
    )


def _files(d: Deployment, items: Sequence[Item]) -> list[_File]:
    """The files of these items. What is over today is judged in the time zone of the profile among
    them.
    """
    profile = None
    for item in items:
        if item.key == _PROFILE_KEY:
            profile = text_of(item) or ""
    day = present_day(d, profile)
    files = list[_File]()
    for item in items:
        text = text_of(item) or ""
        ends = ends_of_file(item, day)
        over_numbers = numbers_over(ends)
        current_text = without_lines(text, over_numbers)
        signs = signs_in(item.value)
        file = _File(item.key, text, over_numbers, current_text, signs)
        files.append(file)
    return files


def _scores_by_words(query: str, passages: Sequence[_Passage]) -> dict[int, float]:
    """The scores of passages that share a word with the query, by their numbers.

    The words of a file's name are words of each of its passages.
    """
    texts = list[str]()
    for passage in passages:
        key = passage.file.key
        texts.append(f"{key} {passage.text}")
    ranked_passages = rank(query, texts)
    return dict(ranked_passages)


def _best_passages(
    passages: Sequence[_Passage], scores_by_words: Mapping[int, float]
) -> dict[str, int]:
    """The number of each file's best passage, by key; of equal ones the first."""
    numbers = dict[str, int]()
    scores = dict[str, float]()
    for number, passage in enumerate(passages):
        key = passage.file.key
        score = scores_by_words.get(number, 0.0)
        is_better = key not in scores or score > scores[key]
        if is_better:
            numbers[key] = number
            scores[key] = score
    return numbers


def _scores_by_meaning(
    similar_files: Sequence[_Similar],
    passages: Sequence[_Passage],
    scores_by_words: Mapping[int, float],
) -> dict[int, float]:
    """Scores by meaning: a file's counts for its best passage, by that passage's number.

    Of a file that is not near they count only where it shares words with the query.
    """
    best_passages = _best_passages(passages, scores_by_words)
    scores = dict[int, float]()
    for file in similar_files:
        number = best_passages.get(file.key)
        if number is None:
            continue
        shares_words = number in scores_by_words
        if file.is_near or shares_words:
            scores[number] = file.score
    return scores


def _passages(files: Sequence[_File]) -> list[_Passage]:
    """The paragraphs of files. Where there are very many, the last ones of each file are one."""
    number_of_paragraphs = len(files)
    for file in files:
        blank_lines = file.current_text.count("\n\n")
        number_of_paragraphs += blank_lines
    max_splits = -1  # at every blank line
    if number_of_paragraphs > _MOST_PASSAGES:
        passages_of_file = _MOST_PASSAGES // len(files)
        max_splits = max(passages_of_file - 1, 1)
    passages = list[_Passage]()
    for file in files:
        paragraphs = file.current_text.split("\n\n", max_splits)
        for paragraph in paragraphs:
            if not paragraph.strip():
                continue
            passage = _Passage(file, paragraph)
            passages.append(passage)
    return passages


def _ranked_lines(query: str, lines: Sequence[str]) -> list[int]:
    """The numbers of the lines that share a word with the query, the best first.

    Of very many, only those in the best blocks of neighbouring lines are ranked.
    """
    block_size = math.ceil(len(lines) / _MOST_LINES)
    if block_size <= 1:
        return _ranked_places(query, lines)
    numbers = _numbers_in_best_blocks(query, lines, block_size)
    lines_of_blocks = [lines[number] for number in numbers]
    ranked_numbers = list[int]()
    for place in _ranked_places(query, lines_of_blocks):
        number = numbers[place]
        ranked_numbers.append(number)
    return ranked_numbers


def _numbers_in_best_blocks(query: str, lines: Sequence[str], block_size: int) -> list[int]:
    """The numbers of the lines in the blocks that match a query best."""
    starts = range(0, len(lines), block_size)
    blocks = list[str]()
    for start in starts:
        end = start + block_size
        block = "\n".join(lines[start:end])
        blocks.append(block)
    ranked_blocks = _ranked_places(query, blocks)
    best_blocks = ranked_blocks[:_LINES]
    numbers = list[int]()
    for place in best_blocks:
        start = starts[place]
        end = min(start + block_size, len(lines))
        numbers += range(start, end)
    return numbers


def _ranked_places(query: str, texts: Sequence[str]) -> list[int]:
    """The places of the texts that share a word with the query, the best first."""
    places = list[int]()
    for place, _ in rank(query, texts):
        places.append(place)
    return places


def _best_part(query: str, passage: str) -> str:
    """The beginning of a passage, or the part from its best line on where that is further down."""
    text = passage.strip("\n")
    if len(text) <= _TEXT_CHARS:
        return text
    lines = text.split("\n")
    ranked_numbers = _ranked_lines(query, lines)
    start = 0
    if ranked_numbers:
        best_number = ranked_numbers[0]
        text_before = "\n".join(lines[:best_number])
        start = len(text_before)
    # From the beginning, if the best line is in the first half of what is shown then.
    half = _TEXT_CHARS // 2
    if start <= half:
        start = 0
    end = start + _TEXT_CHARS
    part = text[start:end]
    return part.strip("\n")


def _best_lines(query: str, file: _File) -> tuple[tuple[int, str], ...]:
    """The best lines of a file with words of the query, each with its number in the file,
    from 0; no title, and no line whose day has passed. () for JSON.
    """
    if file.key.endswith(".json"):
        return ()
    visible_text = without_comments(file.text, line_breaks=True)
    numbers = list[int]()
    facts = list[str]()
    for number, line in enumerate(visible_text.split("\n")):
        if number in file.over_numbers:
            continue
        fact = line.strip()
        is_title = fact.startswith("#")
        if fact and not is_title:
            numbers.append(number)
            facts.append(fact)
    best_lines = list[tuple[int, str]]()
    ranked_places = _ranked_lines(query, facts)
    for place in ranked_places[:_LINES]:
        number = numbers[place]
        fact = facts[place]
        start = fact[:_LINE_CHARS]
        best_lines.append((number, start))
    return tuple(best_lines)
