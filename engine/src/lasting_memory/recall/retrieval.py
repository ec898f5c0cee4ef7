"""A search of a person's past conversations, its answer as text, and the model's tools. `agent.py`
can do without these.

Candidates come from the index, are ranked exactly, and are read from their threads when they are
shown. It reads the headers of a dozen segments, the buckets of the query's words, `CANDIDATES`
documents, and the threads it shows.
"""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from operator import itemgetter
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, tool
from langgraph.config import get_store
from langgraph.store.base import BaseStore, GetOp, Item, SearchItem
from langgraph_sdk import get_client

from lasting_memory import days, journal, platform
from lasting_memory.deployment import DEFAULTS, PROFILE_PATH, Deployment
from lasting_memory.people import identity, namespaces
from lasting_memory.people.caller import Caller
from lasting_memory.people.scopes import ROUTES
from lasting_memory.recall import lexical, ranking
from lasting_memory.recall.conversations import (
    ASKS,
    TENTHS,
    Conversation,
    DamagedError,
    Document,
    Threads,
    conversation_of,
    key_of,
    newest,
    read_document,
)
from lasting_memory.recall.index import (
    Index,
    catch_up,
    drop,
    forget,
    read_conversations,
    read_postings,
    state_of,
)
from lasting_memory.recall.lexical import Array
from lasting_memory.recall.meaning import similar
from lasting_memory.recall.ranking import MAX_QUERY_CHARS
from lasting_memory.validation import text_of
from lasting_memory.words import folded

logger = logging.getLogger("memory")

_PROFILE_KEY = PROFILE_PATH.removeprefix("/memories")

# Conversations in an answer. Twelve in the same number of characters name all evidence more often
# than five, and quote as much of it: the best turns are quoted, whichever conversations they are in
# (docs/recall.md).
DEFAULT_LIMIT, MAX_LIMIT = 12, 20
# Conversations that are ranked exactly: more than any answer shows, because the first ranking is
# rough.
CANDIDATES = 48
# The oldest of those with most of the question's words, beside these.
OLDEST = 48
# Attempts of a search whose index others change meanwhile; of one whose index stays the same, and
# cannot be read, before the index is made anew.
_TRIES, _TRIES_OF_DAMAGED = 20, 3
# Unindexed conversations that a search reads and indexes at most, newest first; seconds that it
# waits for their embeddings.
MAX_CATCH_UP, EMBED_SECONDS = 100, 3.0
# Weight of similarity in meaning beside words, both up to 1. Higher ones find no more
# (docs/recall.md).
DENSE_WEIGHT = 0.2
PAGE_TURNS = 20
# Characters of a turn among many, of an excerpt that is worth its line, and of a speaker's name.
_TURN_CHARS, _LEAST_CHARS, _NAME_CHARS = 250, 60, 40
# Said of a conversation that only its meaning found.
_ALIKE = " (none of the words; alike in meaning)"
# Topic files that an answer names at most, and turns of one conversation that a search shows a
# person.
_TOPICS, _EXCERPTS = 2, 2
_NO_SERVER = "There are no past conversations: this run is not on a server, which keeps them."
# Bounds of the choice of an excerpt: characters of a turn, words of the query, and places of each.
_LOOKED_AT_CHARS, _LOOKED_FOR, _PLACES = 200_000, 48, 100


@dataclass(frozen=True, slots=True)
class Match:
    """A matching conversation, its matching turns, best first, each with its score, and whether it
    shares words at all.

    `left_out` counts the turns at its beginning that are not in the index.
    """

    conversation: Conversation
    turns: ranking.Turns
    by_words: bool = True
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Results:
    """Matching conversations, best first; the number of searched ones, and of those that are not
    wholly indexed yet.
    """

    matches: list[Match]
    searched: int
    outstanding: int


async def search(
    store: BaseStore,
    threads: Threads,
    actor: identity.Actor,
    query: str,
    limit: int,
    *,
    agents: Collection[str],
    alternatives: Sequence[str] = (),
    period: lexical.Time | None = None,
    current: str | None = None,
    today: date | None = None,
    zone: ZoneInfo = days.WORLDS,
    began: journal.Began | None = None,
    routes: Collection[str] = tuple(ROUTES),
) -> Results:
    """The person's own past conversations with these agents that match a query, at most `limit`,
    without the thread `current`.

    `alternatives` are other words that people may have used: they count less. Conversations of
    `period` count more. Days are those of `zone`; of a day without a year the last before `today`
    (default: the present day) is meant. `began` says when a request did; None for the current run.
    Once the person was forgotten, nothing is put into their index. Of tools that read files of
    `routes` nothing is found.
    """
    current = current or ""
    index, found = Index(), _Found()
    seen, unchanged = None, 0
    for _ in range(_TRIES):
        try:
            index = await catch_up(
                store, threads, actor, agents=agents, current=current, began=began, routes=routes,
                most=MAX_CATCH_UP, seconds=EMBED_SECONDS,
            )  # fmt: skip
            languages = {name for part in index.parts for name in part.languages}
            asked = ranking.question(
                query, languages, today or days.today(zone), alternatives, period, zone=zone
            )
            found = await _candidates(
                store, actor, index, asked, query=query, leave_out=key_of(current)
            )
            break
        except DamagedError as error:
            # Somebody merged parts, dropped a conversation or forgot the person meanwhile. If
            # nothing has moved, it is damage.
            state = await state_of(store, actor)
            unchanged = unchanged + 1 if state == seen else 1
            seen = state
            logger.info("The index of past conversations could not be read: %s", error)
            if unchanged >= _TRIES_OF_DAMAGED:
                await forget(store, actor)
    else:
        # It is derived data: the next search finds what this one could not read.
        logger.warning(
            "Past conversations were not searched: their index changed %s times while it was read.",
            _TRIES,
        )
        return Results([], 0, max(1, len(index.table)))
    scores = _fused(found)
    ids = {key_of(text.thread_id): text.thread_id for text in found.documents}
    left_out = {key_of(text.thread_id): text.left_out for text in found.documents}
    ranked = sorted(scores, key=lambda key: -scores[key])[:limit]
    # They are shown with their present text. Those that are gone leave the index.
    talks = (
        await read_conversations(threads, actor, agents, [ids[key] for key in ranked], routes)
        if ranked
        else []
    )
    there = {key_of(talk.thread_id): talk for talk in talks}
    await drop(store, actor, [ids[key] for key in ranked if key not in there], began)
    matches = list[Match]()
    for key in ranked:
        if key not in there:
            continue
        scored = found.scored.get(key)
        turns = scored.turns if scored else ((found.near[key][0].value["turn"], 1.0),)
        matches.append(
            Match(there[key], turns, by_words=scored is not None, left_out=left_out[key])
        )
    return Results(matches, found.total, index.outstanding)


@dataclass(frozen=True, slots=True)
class _Found:
    """Candidates of a search: their documents, scores by words, and nearest passages; and the
    number of conversations.
    """

    documents: Sequence[Document] = ()
    scored: Mapping[int, ranking.Scored] = field(default_factory=dict)
    near: Mapping[int, tuple[SearchItem, bool]] = field(default_factory=dict)
    total: int = 0


async def _candidates(
    store: BaseStore,
    actor: identity.Actor,
    index: Index,
    asked: ranking.Question,
    *,
    query: str,
    leave_out: int,
) -> _Found:
    """The candidates for a question in the index. Raises `DamagedError` if an item cannot be read,
    or is gone meanwhile.
    """
    rows = await read_postings(
        store, actor, index.parts, {hashed for word in asked.words for hashed in word}
    )
    keys, frequencies = await platform.in_thread(_matching, index.table, rows, asked, leave_out)
    near = await similar(store, actor, query[:MAX_QUERY_CHARS]) if index.meaning else {}
    near.pop(leave_out, None)
    where = namespaces.recall(actor, "documents")
    items = await store.abatch(
        [GetOp(where, f"{key:016x}") for key in dict.fromkeys([*keys, *near])]
    )
    documents = [read_document(item) for item in items]
    scored = await platform.in_thread(ranking.score, asked, documents, frequencies)
    return _Found(documents, scored, near, frequencies.searched)


def _fused(found: _Found) -> dict[int, float]:
    """The score of each candidate by words and meaning, by number."""
    by_words = {key: scored.score for key, scored in found.scored.items()}
    # What only meaning finds must be clearly near.
    dense = {
        key: item.score or 0.0
        for key, (item, clear) in found.near.items()
        if key in by_words or clear
    }
    telling = [scored.score for scored in found.scored.values() if scored.tells]
    # Where no words tell anything, those of a question about the past are no hit by which others
    # are measured.
    best = (
        max(telling) if telling else max(by_words.values(), default=0.0) * 10 / float(TENTHS[ASKS])
    )
    return fused(by_words, dense, best)


def _matching(
    table: Array, rows: Array, asked: ranking.Question, leave_out: int
) -> tuple[list[int], ranking.Frequencies]:
    """Numbers of the documents that match best as a whole, and the frequency of each word of the
    question.

    What asks for the past takes no place from what tells something, and changes nothing of how its
    words count.
    """
    live = newest(table) & (table["words"] > 0) & (conversation_of(table["key"]) != leave_out)
    tells = live & (table["told"] > 0)
    known = tells if tells.any() else live
    told = (
        ranking.counted(asked.words, rows["term"], rows["place"], len(table), rows["count"]) * live
    )
    asking = (
        ranking.counted(asked.words, rows["term"], rows["place"], len(table), rows["asked"] / 10)
        * live
    )
    counts = told + asking
    frequencies = ranking.Frequencies(
        ranking.told_first(told > 0, counts > 0),
        ranking.told_first(told, counts),
        int(known.sum()),
        len(np.unique(conversation_of(table["key"][live]))),
    )
    weights = asked.weights * ranking.inverse_frequency(
        frequencies.conversations, frequencies.total
    )
    average = float(table["words"][known].mean()) if live.any() else 1.0
    unit = float(weights[: asked.own].mean()) if asked.own else 1.0
    fits = ranking.TIME_WEIGHT * unit * live * asked.fit(table)
    chosen = dict[int, None]()
    for some in (counts, told) if asking.any() else (counts,):
        scores = weights @ ranking.saturated(some, table["words"], average) + fits
        # The newest win ties.
        best = np.lexsort((table["version"], scores))[::-1][:CANDIDATES]
        chosen |= {int(table["key"][place]): None for place in best if scores[place] > 0}
    # The oldest of those with the most words of the question: however many repeat it, the first
    # that told it is there.
    own = weights[: asked.own] @ (told[: asked.own] > 0)
    oldest = np.lexsort((-table["version"], own))[::-1][:OLDEST]
    chosen |= {int(table["key"][place]): None for place in oldest if own[place] > 0}
    return list(chosen), frequencies


def fused(
    lexical_scores: Mapping[int, float], dense_scores: Mapping[int, float], best: float = 0.0
) -> dict[int, float]:
    """Weighted sum of scores by words, as shares of the best, and similarities, stretched from 0
    for the lowest to 1.

    `best` is the score by words that counts as a whole one, if not the highest.
    """
    whole = best or max(lexical_scores.values(), default=0.0) or 1.0
    low, high = min(dense_scores.values(), default=0.0), max(dense_scores.values(), default=0.0)
    dense = {
        key: (value - low) / (high - low) if high > low else 1.0
        for key, value in dense_scores.items()
    }
    scores = {key: value / whole for key, value in lexical_scores.items()}
    return scores | {
        key: scores.get(key, 0.0) + DENSE_WEIGHT * value for key, value in dense.items()
    }


def results_text(
    query: str,
    results: Results,
    alternatives: Sequence[str] = (),
    chars: int = DEFAULTS.search_result_chars,
    zone: ZoneInfo = days.WORLDS,
) -> str:
    """The tool's answer: last day and thread of each matching conversation, and the best turns of
    all, in their order.

    A turn of another day says so. Days are those of the time zone.
    """
    matches, words = results.matches, _stems(" ".join([query[:MAX_QUERY_CHARS], *alternatives]))
    left = (
        f"\n\n[{results.outstanding} older conversations are not indexed yet; search again]"
        if results.outstanding
        else ""
    )
    if not matches:
        return f"Nothing found in {results.searched} earlier conversations.{left}"
    last_days = [match.conversation.last_day(zone) for match in matches]
    heads = list(map(_head, matches, last_days))
    room = chars - len(left) - sum(len(head) + 2 for head in heads)
    # Where few conversations match, excerpts may be long.
    most = max(_TURN_CHARS, room // len(matches) // 4)
    chosen: list[dict[int, str]] = [{} for _ in matches]
    matching = [
        (-score, number, turn)
        for number, item in enumerate(matches)
        for turn, score in item.turns
        if score > 0
    ]
    for _, number, turn in sorted(matching, key=itemgetter(0)):
        for said in matches[number].conversation.turns[
            turn : turn + 1
        ]:  # none, if it is gone meanwhile
            day = matches[number].conversation.day_of(said, zone)
            other_day = f"{day}, " if day != last_days[number] else ""
            start = f"\n  {turn + 1}. {other_day}{' '.join(said.name.split())[:_NAME_CHARS] or said.speaker}: "
            share = min(most, room - len(start))
            if share >= min(_LEAST_CHARS, len(said.text)):
                chosen[number][turn] = line = start + _excerpt(said.text, words, share)
                room -= len(line)
    texts = (
        head + "".join(lines[turn] for turn in sorted(lines))
        for head, lines in zip(heads, chosen, strict=True)
    )
    return "\n\n".join(texts)[: chars - len(left)] + left


def _head(match: Match, last_day: str) -> str:
    """The line that names a conversation."""
    head = f"{last_day} thread_id={match.conversation.thread_id}"
    if not match.by_words:
        head += _ALIKE
    if match.left_out:
        head += f" (its first {match.left_out} turns are not indexed; read_conversation shows them)"
    return head


def topics_text(query: str, answer: str, topics: Mapping[str, str]) -> str:
    """Names the topic files, given by path, that have more words of the query than any conversation
    of the answer.
    """
    asked, spoken = set(_stems(query)), lexical.language(query)
    known = max(len(asked.intersection(_stems_in(part, spoken))) for part in answer.split("\n\n"))
    counts = {
        path: len(asked.intersection(_stems_in(text, spoken))) for path, text in topics.items()
    }
    more = sorted(
        (path for path, count in counts.items() if count > known), key=lambda path: -counts[path]
    )[:_TOPICS]
    return f"\n\n[{' and '.join(more)} may say more; read it]" if more else ""


def excerpts(query: str, match: Match, chars: int) -> list[dict[str, Any]]:
    """The best turns of a matching conversation, in their order: number, speaker, and at most
    `chars` of the text.
    """
    words, turns = _stems(query), match.conversation.turns
    best = sorted(turn for turn, _ in (match.turns or ((0, 0.0),))[:_EXCERPTS] if turn < len(turns))
    return [
        {
            "number": turn + 1,
            "speaker": turns[turn].speaker,
            "text": _excerpt(turns[turn].text, words, chars),
        }
        for turn in best
    ]


def _stems(query: str) -> list[str]:
    return _stems_in(query[: 2 * MAX_QUERY_CHARS], lexical.language(query))


def _stems_in(text: str, language: str) -> list[str]:
    return [term.text for term in lexical.search_stems(text, language)]


def page_text(
    talk: Conversation,
    around: int | None,
    chars: int = DEFAULTS.search_result_chars,
    zone: ZoneInfo = days.WORLDS,
) -> str:
    """Numbered turns of a conversation: the wanted one (default: the last), and as many around it
    as fit.

    A turn of another day than the last one says so. Days are those of the time zone.
    """
    total = len(talk.turns)
    if not total:
        return f"Conversation {talk.thread_id} has no text."
    middle = min(max(around or total, 1), total) - 1
    last_day = talk.last_day(zone)
    head = f"{last_day} thread_id={talk.thread_id}, turns of {total}; more with around=<number>"
    room = chars - len(head)
    lines: dict[int, str] = {}
    for turn in sorted(range(total), key=lambda turn: (abs(turn - middle), turn))[:PAGE_TURNS]:
        share = room // 2 if turn == middle else room // 4
        day = talk.day_of(talk.turns[turn], zone)
        other_day = f"{day}, " if day != last_day else ""
        line = f"\n{turn + 1}. {other_day}{talk.turns[turn].speaker}: {_excerpt(talk.turns[turn].text, [], share)}"
        if len(line) > room:
            break
        lines[turn], room = line, room - len(line)
    return head + "".join(lines[turn] for turn in sorted(lines))


def _excerpt(text: str, stems: Sequence[str], chars: int) -> str:
    """At most `chars` characters of a text, from a little before the place with most of these stems
    on.
    """
    flat = " ".join(text[:_LOOKED_AT_CHARS].split())
    if len(flat) <= chars:
        return flat
    chars = max(0, chars - 2)
    low, origins = _searchable(flat)
    # The end of a stem may differ from the word's: "happi".
    asked = dict.fromkeys(stem[: max(3, len(stem) - 1)] for stem in stems)
    words = [word for word in islice(asked, _LOOKED_FOR) if word in low]
    hits = (islice(re.finditer(re.escape(word), low), _PLACES) for word in words)
    places = sorted({hit.start() for of_word in hits for hit in of_word})[:500]
    starts = [max(0, min(place - chars // 4, len(low) - chars)) for place in places] or [0]
    start = max(
        starts, key=lambda start: sum(low.find(word, start, start + chars) >= 0 for word in words)
    )
    start = max(0, min(origins[start] if origins else start, len(flat) - chars))
    return f"{'…' if start else ''}{flat[start : start + chars]}…"


def _searchable(text: str) -> tuple[str, list[int]]:
    """A text as a search compares it, and the place in the text of each of its characters; none
    where they are the same.
    """
    whole = folded(text)
    if len(whole) == len(text):
        return whole, []
    pieces, origins = list[str](), list[int]()
    for place, char in enumerate(text):
        piece = folded(char)
        pieces.append(piece)
        origins += [place] * len(piece)
    return "".join(pieces), [*origins, len(text)]


async def zone_of_person(
    store: BaseStore, d: Deployment, actor: identity.Actor, assistant: str
) -> ZoneInfo:
    """The time zone of a person's profile; UTC where they named none, or there are no profiles."""
    if not (d.has_own_memory and d.profile):
        return days.WORLDS
    return await _zone_in(d, await store.aget(d.memory.namespace(actor, assistant), _PROFILE_KEY))


async def _zone_in(d: Deployment, profile: Item | None) -> ZoneInfo:
    """The time zone in a person's profile."""
    if profile is None or not (d.has_own_memory and d.profile):
        return days.WORLDS
    return await platform.in_thread(days.zone_of, text_of(profile))


def conversation_tools(d: Deployment) -> list[BaseTool]:
    """`search_past_conversations` and `read_conversation`, each for the person the run acts as."""

    @tool(description=d.prompt("search_past_conversations.md"))
    async def search_past_conversations(  # noqa: PLR0917  # the model names them
        query: str,
        runtime: ToolRuntime[identity.Context],
        alternatives: list[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int = DEFAULT_LIMIT,
    ) -> str:
        try:
            period = lexical.period(since, until)
        except ValueError as error:
            return f"Error: {error}"
        if not identity.on_server() or runtime.store is None:
            return _NO_SERVER
        caller, threads, most = (
            Caller.of_run(d),
            get_client().threads,
            min(max(limit, 1), MAX_LIMIT),
        )
        current = str(runtime.config.get("configurable", {}).get("thread_id"))
        others = alternatives or []
        memories = d.memory.namespace(caller.actor, caller.assistant) if d.has_memory else None
        files = await runtime.store.asearch(memories, limit=d.limits.max_files) if memories else []
        zone = await _zone_in(d, next((item for item in files if item.key == _PROFILE_KEY), None))
        results = await search(
            runtime.store, threads, caller.actor, query, most, agents=d.agents, alternatives=others, period=period,
            current=current, routes=d.routes, zone=zone,
        )  # fmt: skip
        answer = await platform.in_thread(
            results_text, query, results, others, d.limits.search_result_chars, zone
        )
        topics = {
            f"/memories{item.key}": str(item.value.get("content"))
            for item in files
            if item.key.startswith("/topics/")
        }
        return answer + await platform.in_thread(topics_text, query, answer, topics)

    @tool
    async def read_conversation(
        thread_id: str, runtime: ToolRuntime[identity.Context], around: int | None = None
    ) -> str:
        """Read a page of an earlier conversation with this user.

        Args:
            thread_id: as named by search_past_conversations.
            runtime: given by the platform.
            around: number of a turn to read around; the end of the conversation if left out.
        """
        if not identity.on_server():
            return _NO_SERVER
        try:
            thread = str(UUID(thread_id))
        except ValueError:
            return f"Error: {thread_id[:80]!r} is no thread_id; take one that search_past_conversations named."
        # Searched, not fetched by id: an operator's run may see every thread, the person it acts
        # for only their own.
        caller = Caller.of_run(d)
        talks = await read_conversations(
            get_client().threads, caller.actor, d.agents, [thread], d.routes
        )
        if not talks:
            return f"There is no conversation {thread_id[:80]!r}."
        zone = await zone_of_person(get_store(), d, caller.actor, caller.assistant)
        return await platform.in_thread(
            page_text, talks[0], around, d.limits.search_result_chars, zone
        )

    return [search_past_conversations, read_conversation]
