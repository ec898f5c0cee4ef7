"""What a search found, and a page of a conversation, as text for the model and for people."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import attrgetter
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
    note = _outstanding_note(results)
    matches = results.matches
    if not matches:
        return f"Nothing found in {results.searched} earlier conversations.{note}"
    shown_chars = chars - len(note)
    room = shown_chars
    heads = list[str]()
    for match in matches:
        head = _head(match, zone)
        heads.append(head)
        room -= len(head)
        room -= len(_GAP)
    own_words = query[:MAX_QUERY_CHARS]
    asked = " ".join([own_words, *alternatives])
    words = _stems(asked)
    quotes = _quotes(matches, words, room, zone)
    texts = list[str]()
    for head, lines in zip(heads, quotes, strict=True):
        texts.append(head + _in_order(lines))
    text = _GAP.join(texts)
    return text[:shown_chars] + note


def _outstanding_note(results: Results) -> str:
    """What an answer says of conversations that are not indexed; "" if all are."""
    if not results.outstanding:
        return ""
    older = f"{results.outstanding} older conversations are not indexed yet"
    return f"\n\n[{older}; search again]"


def _in_order(lines: Mapping[int, str]) -> str:
    """Lines, in the order of their turns."""
    text = ""
    for turn in sorted(lines):
        text += lines[turn]
    return text


def _quotes(
    matches: Sequence[Match], words: Sequence[str], room: int, zone: ZoneInfo
) -> list[dict[int, str]]:
    """The best turns of all matches that fit into so many characters: of each match the lines, by
    turn.
    """
    quotes: list[dict[int, str]] = [{} for _ in matches]
    # Where few conversations match, excerpts may be long.
    fair_share = room // len(matches) // 4
    most = max(_TURN_CHARS, fair_share)
    for _, number, place in _matching_turns(matches):
        conversation = matches[number].conversation
        if place >= len(conversation.turns):
            # It is gone meanwhile.
            continue
        text = conversation.turns[place].text
        start = _line_start(conversation, place, zone)
        room_for_text = room - len(start)
        share = min(most, room_for_text)
        least = min(_LEAST_CHARS, len(text))
        if share < least:
            continue
        excerpt = _excerpt(text, words, share)
        line = start + excerpt
        quotes[number][place] = line
        room -= len(line)
    return quotes


def _line_start(conversation: Conversation, place: int, zone: ZoneInfo) -> str:
    """The beginning of the line that quotes a turn: its number, day and speaker."""
    turn = conversation.turns[place]
    number = place + 1
    day = _other_day(conversation, turn, zone)
    name = " ".join(turn.name.split())
    shown_name = name[:_NAME_CHARS]
    speaker = shown_name or turn.speaker
    return f"\n  {number}. {day}{speaker}: "


def _matching_turns(matches: Sequence[Match]) -> list[_MatchingTurn]:
    """The matching turns of all matches, best first."""
    turns = list[_MatchingTurn]()
    for number, match in enumerate(matches):
        for turn, score in match.turns:
            if score > 0:
                turns.append(_MatchingTurn(score, number, turn))
    turns.sort(key=attrgetter("score"), reverse=True)
    return turns


def _other_day(conversation: Conversation, turn: Turn, zone: ZoneInfo) -> str:
    """The day of a turn, where it is not the last one of its conversation."""
    day = conversation.day_of(turn, zone)
    if day == conversation.last_day(zone):
        return ""
    return f"{day}, "


def _head(match: Match, zone: ZoneInfo) -> str:
    """The line that names a conversation."""
    conversation = match.conversation
    head = f"{conversation.last_day(zone)} thread_id={conversation.thread_id}"
    if not match.by_words:
        head += _ALIKE
    if match.left_out:
        head += f" (its first {match.left_out} turns are not indexed; read_conversation shows them)"
    return head


def topics_text(query: str, answer: str, topics: Mapping[str, str]) -> str:
    """Names the topic files, given by path, that have more words of the query than any conversation
    of the answer.
    """
    language = lexical.language(query)
    asked = set(_stems(query))
    in_conversations = 0
    for part in answer.split("\n\n"):
        count = _shared(asked, part, language)
        in_conversations = max(in_conversations, count)
    counts = dict[str, int]()
    for path, text in topics.items():
        count = _shared(asked, text, language)
        if count > in_conversations:
            counts[path] = count
    if not counts:
        return ""
    most_first = sorted(counts, key=counts.__getitem__, reverse=True)
    named = " and ".join(most_first[:_TOPICS])
    return f"\n\n[{named} may say more; read it]"


def _shared(asked: set[str], text: str, language: str) -> int:
    """How many of the words are in a text."""
    stems = _stems_in(text, language)
    shared = asked.intersection(stems)
    return len(shared)


def excerpts(query: str, match: Match, chars: int) -> list[dict[str, Any]]:
    """The best turns of a matching conversation, in their order: number, speaker, and at most
    `chars` of the text.
    """
    words = _stems(query)
    turns = match.conversation.turns
    best = [turn for turn, _ in match.turns] or [0]
    shown = best[:_EXCERPTS]
    found = list[dict[str, Any]]()
    for place in sorted(shown):
        if place >= len(turns):
            # It is gone meanwhile.
            continue
        turn = turns[place]
        text = _excerpt(turn.text, words, chars)
        excerpt = {"number": place + 1, "speaker": turn.speaker, "text": text}
        found.append(excerpt)
    return found


def _stems(query: str) -> list[str]:
    text = query[: 2 * MAX_QUERY_CHARS]
    language = lexical.language(query)
    return _stems_in(text, language)


def _stems_in(text: str, language: str) -> list[str]:
    terms = lexical.search_stems(text, language)
    return [term.text for term in terms]


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
    thread_id = conversation.thread_id
    total = len(conversation.turns)
    if not total:
        return f"Conversation {thread_id} has no text."
    wanted = max(around or total, 1)
    middle = min(wanted, total) - 1
    last_day = conversation.last_day(zone)
    head = f"{last_day} thread_id={thread_id}, turns of {total}; more with around=<number>"
    room = chars - len(head)
    lines = dict[int, str]()
    for place in _nearest(middle, total):
        share = room // 4
        if place == middle:
            share = room // 2
        line = _page_line(conversation, place, share, zone)
        if len(line) > room:
            break
        lines[place] = line
        room -= len(line)
    return head + _in_order(lines)


def _page_line(conversation: Conversation, place: int, chars: int, zone: ZoneInfo) -> str:
    """The line of a page that shows a turn, with so many characters of its text."""
    turn = conversation.turns[place]
    number = place + 1
    day = _other_day(conversation, turn, zone)
    text = _excerpt(turn.text, [], chars)
    return f"\n{number}. {day}{turn.speaker}: {text}"


def _nearest(middle: int, total: int) -> list[int]:
    """The places of a page's turns among so many, from the middle on, the earlier of two first."""
    places = [middle]
    for distance in range(1, PAGE_TURNS):
        before = middle - distance
        behind = middle + distance
        if before >= 0:
            places.append(before)
        if behind < total:
            places.append(behind)
    return places[:PAGE_TURNS]


def _excerpt(text: str, stems: Sequence[str], chars: int) -> str:
    """At most `chars` characters of a text, from a little before the place with most of these stems
    on.
    """
    words = text[:_LOOKED_AT_CHARS].split()
    flat = " ".join(words)
    if len(flat) <= chars:
        return flat
    # Two for the signs that say that there is more.
    shown_chars = max(0, chars - 2)
    searchable, origins = _searchable(flat)
    start = _best_start(searchable, stems, shown_chars)
    if origins:
        start = origins[start]
    start = _moved_into(flat, start, shown_chars)
    end = start + shown_chars
    more_before = "…" if start else ""
    return f"{more_before}{flat[start:end]}…"


def _moved_into(text: str, start: int, chars: int) -> int:
    """The place from which on a text still has so many characters; from 0 on."""
    last_start = len(text) - chars
    return max(0, min(start, last_start))


def _best_start(low: str, stems: Sequence[str], chars: int) -> int:
    """Where the `chars` characters of a text begin that have most of these stems."""
    words = _words_in(low, stems)
    before = chars // 4
    best = 0
    most = -1
    for place in _places_of(words, low):
        start = _moved_into(low, place - before, chars)
        end = start + chars
        part = low[start:end]
        count = _count_in(part, words)
        if count > most:
            best = start
            most = count
    return best


def _words_in(low: str, stems: Sequence[str]) -> list[str]:
    """What a text has of these stems, each once."""
    beginnings = map(_beginning, stems)
    distinct = dict.fromkeys(beginnings)
    words = list[str]()
    for word in islice(distinct, _LOOKED_FOR):
        if word in low:
            words.append(word)
    return words


def _beginning(stem: str) -> str:
    """A stem without its last letter, which may differ from the word's: "happi"."""
    length = max(_LEAST_STEM, len(stem) - 1)
    return stem[:length]


def _places_of(words: Sequence[str], low: str) -> list[int]:
    """The first places of these words in a text, in order."""
    places = set[int]()
    for word in words:
        pattern = re.escape(word)
        hits = re.finditer(pattern, low)
        for hit in islice(hits, _PLACES):
            places.add(hit.start())
    return sorted(places)[:_ALL_PLACES]


def _count_in(text: str, words: Sequence[str]) -> int:
    """How many of these words a text has."""
    count = 0
    for word in words:
        if word in text:
            count += 1
    return count


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
        for _ in piece:
            origins.append(place)
    origins.append(len(text))
    joined = "".join(pieces)
    return joined, origins
