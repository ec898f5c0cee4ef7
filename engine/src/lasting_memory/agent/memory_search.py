"""Search of memory files: for tools, code and people alike.

Files are found by words and, where the store has a semantic index, by meaning.
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
    over: frozenset[int]
    current: str
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
    """The best files of a namespace, by the words of their passages (BM25).

    Where the store has a semantic index, their meaning counts, too.
    """
    similar = list[_Similar]()
    if platform.embedding_model(store):
        similar = await _similar_files(store, namespace, query)
    items = await store.asearch(namespace, limit=d.limits.max_files)
    most = min(max(limit, 1), MAX_FOUND)
    return await platform.in_thread(_search, d, query, items, similar, most)


async def _similar_files(store: BaseStore, namespace: Namespace, query: str) -> list[_Similar]:
    """The files whose meaning is most like that of a query."""
    similar = list[_Similar]()
    for item, is_near in await nearest(store, namespace, query, _NEAR):
        score = item.score or 0.0
        similar.append(_Similar(item.key, score, is_near))
    return similar


def _search(
    d: Deployment,
    query: str,
    items: Sequence[Item],
    similar: Sequence[_Similar],
    limit: int,
) -> list[FoundMemory]:
    """The best of these files, without their lines that are over. Blocks."""
    files = _files(d, items)
    passages = _passages(files)
    by_words = _scores_by_words(query, passages)
    by_meaning = _scores_by_meaning(similar, passages, by_words)
    scores = fused(by_words, by_meaning)
    ranked = sorted(scores, key=scores.__getitem__, reverse=True)
    found = dict[str, FoundMemory]()
    for number in ranked:
        file, passage = passages[number]
        if file.key in found:
            # A file is found once, by its best passage.
            continue
        # Which part of a file is alike in meaning is not known: its beginning is shown.
        text = file.current[:_TEXT_CHARS]
        if number in by_words:
            text = _shown(query, passage)
        path = f"/memories{file.key}"
        doubtful = unconfirmed_lines(file.key, file.text, file.signs)
        unconfirmed = unconfirmed_in(text, doubtful)
        found[file.key] = FoundMemory(path, text, _lines(query, file), unconfirmed)
        if len(found) == limit:
            break
    return list(found.values())


def _files(d: Deployment, items: Sequence[Item]) -> list[_File]:
    """The files of these items, by what is over today."""
    profile = None
    for item in items:
        if item.key == _PROFILE_KEY:
            profile = text_of(item) or ""
    day = present_day(d, profile)
    files = list[_File]()
    for item in items:
        text = text_of(item) or ""
        ends = ends_of_file(item, day)
        over = numbers_over(ends)
        current = without_lines(text, over)
        signs = signs_in(item.value)
        files.append(_File(item.key, text, over, current, signs))
    return files


def _scores_by_words(query: str, passages: Sequence[_Passage]) -> dict[int, float]:
    """Scores of passages that share a word with the query, by their number.

    The words of a file's name are words of each of its passages.
    """
    texts = [f"{file.key} {text}" for file, text in passages]
    ranked = rank(query, texts)
    return dict(ranked)


def _best_passages(passages: Sequence[_Passage], by_words: Mapping[int, float]) -> dict[str, int]:
    """The number of each file's best passage, by key; of equal ones the first."""
    numbers = dict[str, int]()
    scores = dict[str, float]()
    for number, passage in enumerate(passages):
        key = passage.file.key
        score = by_words.get(number, 0.0)
        is_better = key not in scores or score > scores[key]
        if is_better:
            numbers[key] = number
            scores[key] = score
    return numbers


def _scores_by_meaning(
    similar: Sequence[_Similar], passages: Sequence[_Passage], by_words: Mapping[int, float]
) -> dict[int, float]:
    """Scores by meaning: a file's counts for its best passage, by that passage's number.

    Of a file that is not near they count only where it shares words with the query.
    """
    best = _best_passages(passages, by_words)
    scores = dict[int, float]()
    for file in similar:
        if file.key not in best:
            continue
        number = best[file.key]
        if file.is_near or number in by_words:
            scores[number] = file.score
    return scores


def _passages(files: Sequence[_File]) -> list[_Passage]:
    """The paragraphs of files. Where there are very many, the last ones of each file are one."""
    paragraphs = 0
    for file in files:
        paragraphs += file.current.count("\n\n") + 1
    splits = -1  # at every blank line
    if paragraphs > _MOST_PASSAGES:
        passages_of_file = _MOST_PASSAGES // len(files)
        splits = max(passages_of_file - 1, 1)
    passages = list[_Passage]()
    for file in files:
        for part in file.current.split("\n\n", splits):
            if part.strip():
                passages.append(_Passage(file, part))
    return passages


def _ranked_lines(query: str, lines: Sequence[str]) -> list[int]:
    """The numbers of the lines that share a word with the query, the best first.

    Of very many, only those in the best blocks of neighbouring lines are ranked.
    """
    block_size = math.ceil(len(lines) / _MOST_LINES)
    if block_size <= 1:
        return _places(query, lines)
    numbers = _numbers_in_best_blocks(query, lines, block_size)
    near = [lines[number] for number in numbers]
    return [numbers[place] for place in _places(query, near)]


def _numbers_in_best_blocks(query: str, lines: Sequence[str], block_size: int) -> list[int]:
    """The numbers of the lines in the blocks that match a query best."""
    starts = range(0, len(lines), block_size)
    blocks = list[str]()
    for start in starts:
        block = lines[start : start + block_size]
        blocks.append("\n".join(block))
    best_blocks = _places(query, blocks)[:_LINES]
    numbers = list[int]()
    for place in best_blocks:
        start = starts[place]
        end = min(start + block_size, len(lines))
        numbers += range(start, end)
    return numbers


def _places(query: str, texts: Sequence[str]) -> list[int]:
    """The places of the texts that share a word with the query, the best first."""
    return [place for place, _ in rank(query, texts)]


def _shown(query: str, passage: str) -> str:
    """The beginning of a passage, or the part from its best line on where that is further down."""
    passage = passage.strip("\n")
    if len(passage) <= _TEXT_CHARS:
        return passage
    lines = passage.split("\n")
    ranked = _ranked_lines(query, lines)
    start = 0
    if ranked:
        lines_before = lines[: ranked[0]]
        start = len("\n".join(lines_before))
    if start <= _TEXT_CHARS // 2:
        start = 0
    part = passage[start : start + _TEXT_CHARS]
    return part.strip("\n")


def _lines(query: str, file: _File) -> tuple[tuple[int, str], ...]:
    """The best lines of a file with words of the query, each with its number in it; none that is
    over.
    """
    if file.key.endswith(".json"):
        return ()
    visible = without_comments(file.text, line_breaks=True)
    numbers = list[int]()
    facts = list[str]()
    for number, line in enumerate(visible.split("\n")):
        fact = line.strip()
        is_title = fact.startswith("#")
        if fact and not is_title and number not in file.over:
            numbers.append(number)
            facts.append(fact)
    best = list[tuple[int, str]]()
    for place in _ranked_lines(query, facts)[:_LINES]:
        number = numbers[place]
        fact = facts[place][:_LINE_CHARS]
        best.append((number, fact))
    return tuple(best)
