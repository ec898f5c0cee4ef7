"""What a search found, and a page of a conversation, as text for the model and for people."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from lasting_memory import days
from lasting_memory.deployment import DEFAULTS
from lasting_memory.recall import lexical
from lasting_memory.recall.question import MAX_QUERY_CHARS
from lasting_memory.recall.retrieval import Match, Results
from lasting_memory.recall.threads import Conversation, Turn
from lasting_memory.words import folded

PAGE_TURNS = 20
# Characters of a turn among many, of an excerpt that is worth its line, and of a speaker's name.
_TURN_CHARS = 250
_LEAST_CHARS = 60
_NAME_CHARS = 40
# Between conversations.
_GAP = "\n\n"
# In the line of a conversation that only its meaning found.
_ALIKE = " (none of the words; alike in meaning)"
# Topic files that an answer names at most, and turns of one conversation that a search shows a
# person.
_TOPICS = 2
_EXCERPTS = 2
# Bounds of the choice of an excerpt: characters of a turn, words of the query, places of each, and
# of all together.
_LOOKED_AT_CHARS = 200_000
_LOOKED_FOR = 48
_PLACES = 100
_ALL_PLACES = 500
# Letters of a stem that are looked for at least.
_LEAST_STEM = 3


class _MatchingTurn(NamedTuple):
    """A turn that may be quoted: its match and its place in the conversation, by number."""

    score: float
    match: int
    turn: int


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
    matches = results.matches
    note = ""
    if results.outstanding:
        older = f"{results.outstanding} older conversations are not indexed yet"
        note = f"\n\n[{older}; search again]"
    if not matches:
        return f"Nothing found in {results.searched} earlier conversations.{note}"
    heads = [_head(match, match.conversation.last_day(zone)) for match in matches]
    shown_chars = chars - len(note)
    heads_chars = sum(len(head) + len(_GAP) for head in heads)
    asked = " ".join([query[:MAX_QUERY_CHARS], *alternatives])
    quotes = _quotes(matches, _stems(asked), shown_chars - heads_chars, zone)
    texts = list[str]()
    for head, lines in zip(heads, quotes, strict=True):
        texts.append(head + _in_order(lines))
    return _GAP.join(texts)[:shown_chars] + note


def _in_order(lines: Mapping[int, str]) -> str:
    """Lines, in the order of their turns."""
    return "".join(lines[turn] for turn in sorted(lines))


def _quotes(
    matches: Sequence[Match], words: Sequence[str], room: int, zone: ZoneInfo
) -> list[dict[int, str]]:
    """The best turns of all matches that fit into so many characters: of each match the lines, by
    turn.
    """
    quotes: list[dict[int, str]] = [{} for _ in matches]
    # Where few conversations match, excerpts may be long.
    most = max(_TURN_CHARS, room // len(matches) // 4)
    for _, number, place in _matching_turns(matches):
        conversation = matches[number].conversation
        if place >= len(conversation.turns):
            # It is gone meanwhile.
            continue
        turn = conversation.turns[place]
        day = _other_day(conversation, turn, zone)
        name = " ".join(turn.name.split())[:_NAME_CHARS] or turn.speaker
        start = f"\n  {place + 1}. {day}{name}: "
        share = min(most, room - len(start))
        if share >= min(_LEAST_CHARS, len(turn.text)):
            line = start + _excerpt(turn.text, words, share)
            quotes[number][place] = line
            room -= len(line)
    return quotes


def _matching_turns(matches: Sequence[Match]) -> list[_MatchingTurn]:
    """The matching turns of all matches, best first."""
    turns = list[_MatchingTurn]()
    for number, match in enumerate(matches):
        for turn, score in match.turns:
            if score > 0:
                turns.append(_MatchingTurn(score, number, turn))
    return sorted(turns, key=lambda turn: -turn.score)


def _other_day(conversation: Conversation, turn: Turn, zone: ZoneInfo) -> str:
    """The day of a turn, where it is not the last one of its conversation."""
    day = conversation.day_of(turn, zone)
    return f"{day}, " if day != conversation.last_day(zone) else ""


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
    asked = set(_stems(query))
    language = lexical.language(query)
    in_conversations = max(_shared(asked, part, language) for part in answer.split("\n\n"))
    counts = {path: _shared(asked, text, language) for path, text in topics.items()}
    telling = [path for path, count in counts.items() if count > in_conversations]
    telling.sort(key=lambda path: -counts[path])
    if not telling:
        return ""
    return f"\n\n[{' and '.join(telling[:_TOPICS])} may say more; read it]"


def _shared(asked: set[str], text: str, language: str) -> int:
    """How many of the words are in a text."""
    return len(asked.intersection(_stems_in(text, language)))


def excerpts(query: str, match: Match, chars: int) -> list[dict[str, Any]]:
    """The best turns of a matching conversation, in their order: number, speaker, and at most
    `chars` of the text.
    """
    words = _stems(query)
    turns = match.conversation.turns
    best = [turn for turn, _ in match.turns] or [0]
    shown = [turn for turn in best[:_EXCERPTS] if turn < len(turns)]
    found = list[dict[str, Any]]()
    for turn in sorted(shown):
        text = _excerpt(turns[turn].text, words, chars)
        found.append({"number": turn + 1, "speaker": turns[turn].speaker, "text": text})
    return found


def _stems(query: str) -> list[str]:
    return _stems_in(query[: 2 * MAX_QUERY_CHARS], lexical.language(query))


def _stems_in(text: str, language: str) -> list[str]:
    return [term.text for term in lexical.search_stems(text, language)]


def page_text(
    conversation: Conversation,
    around: int | None,
    chars: int = DEFAULTS.search_result_chars,
    zone: ZoneInfo = days.WORLDS,
) -> str:
    """Numbered turns of a conversation: the wanted one (default: the last), and as many around it
    as fit.

    A turn of another day than the last one says so. Days are those of the time zone.
    """
    total = len(conversation.turns)
    if not total:
        return f"Conversation {conversation.thread_id} has no text."
    middle = min(max(around or total, 1), total) - 1
    last_day = conversation.last_day(zone)
    thread_id = conversation.thread_id
    head = f"{last_day} thread_id={thread_id}, turns of {total}; more with around=<number>"
    room = chars - len(head)
    lines = dict[int, str]()
    for place in sorted(range(total), key=lambda place: (abs(place - middle), place))[:PAGE_TURNS]:
        turn = conversation.turns[place]
        share = room // 2 if place == middle else room // 4
        day = _other_day(conversation, turn, zone)
        line = f"\n{place + 1}. {day}{turn.speaker}: {_excerpt(turn.text, [], share)}"
        if len(line) > room:
            break
        lines[place] = line
        room -= len(line)
    return head + _in_order(lines)


def _excerpt(text: str, stems: Sequence[str], chars: int) -> str:
    """At most `chars` characters of a text, from a little before the place with most of these stems
    on.
    """
    flat = " ".join(text[:_LOOKED_AT_CHARS].split())
    if len(flat) <= chars:
        return flat
    # Two for the signs that say that there is more.
    chars = max(0, chars - 2)
    low, origins = _searchable(flat)
    start = _best_start(low, stems, chars)
    if origins:
        start = origins[start]
    start = max(0, min(start, len(flat) - chars))
    more_before = "…" if start else ""
    return f"{more_before}{flat[start : start + chars]}…"


def _best_start(low: str, stems: Sequence[str], chars: int) -> int:
    """Where the `chars` characters of a text begin that have most of these stems."""
    # The end of a stem may differ from the word's: "happi".
    looked_for = dict.fromkeys(stem[: max(_LEAST_STEM, len(stem) - 1)] for stem in stems)
    words = [word for word in islice(looked_for, _LOOKED_FOR) if word in low]
    places = set[int]()
    for word in words:
        for hit in islice(re.finditer(re.escape(word), low), _PLACES):
            places.add(hit.start())
    best = 0
    most = -1
    for place in sorted(places)[:_ALL_PLACES]:
        start = max(0, min(place - chars // 4, len(low) - chars))
        count = sum(low.find(word, start, start + chars) >= 0 for word in words)
        if count > most:
            best = start
            most = count
    return best


def _searchable(text: str) -> tuple[str, list[int]]:
    """A text as a search compares it, and the place in the text of each of its characters; none
    where they are the same.
    """
    whole = folded(text)
    if len(whole) == len(text):
        return whole, []
    pieces = list[str]()
    origins = list[int]()
    for place, char in enumerate(text):
        piece = folded(char)
        pieces.append(piece)
        origins += [place] * len(piece)
    origins.append(len(text))
    return "".join(pieces), origins
