"""What a search found, and a page of a conversation, as text for the model and for people.

A match is a conversation that a search found, with the turns that match. Turns are quoted in lines,
each with the turn's number; a place is that number from 0. An excerpt is a part of a turn's text.
Days are those of a time zone. A turn of another day than the last one of its conversation says so.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple, TypedDict
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


# The lines of quoted turns, by the places of these.
_Lines = dict[int, str]


class Excerpt(TypedDict):
    """A turn as JSON: its number, its speaker, and a part of its text."""

    number: int
    speaker: str
    text: str


class _MatchingTurn(NamedTuple):
    """A turn that may be quoted: its score, the number of its match, and its place."""

    score: float
    match_number: int
    place: int


def results_text(
    query: str,
    results: Results,
    alternatives: Sequence[str] = (),
    chars: int = DEFAULTS.search_result_chars,
    zone: ZoneInfo = days.WORLDS,
) -> str:
    """The tool's answer, in at most so many characters: a head for each matching conversation (its
    last day and its thread), and the best turns of all, each below the head of its own.
    """
    note = _outstanding_note(results)
    matches = results.matches
    if not matches:
        return f"Nothing found in {results.searched} earlier conversations.{note}"
    chars_without_note = chars - len(note)
    room = chars_without_note
    heads = list[str]()
    for match in matches:
        head = _head(match, zone)
        heads.append(head)
        room -= len(head)
        room -= len(_GAP)
    shortened_query = query[:MAX_QUERY_CHARS]
    question_text = " ".join([shortened_query, *alternatives])
    stems = _query_stems(question_text)
    lines_of_matches = _quotes(matches, stems, room, zone)
    texts = list[str]()
    for head, lines in zip(heads, lines_of_matches, strict=True):
        quotation = _in_order(lines)
        texts.append(head + quotation)
    text = _GAP.join(texts)
    cut_text = text[:chars_without_note]
    return cut_text + note


def _outstanding_note(results: Results) -> str:
    """What an answer says of conversations that are not indexed; "" if all are."""
    if not results.outstanding:
        return ""
    older = f"{results.outstanding} older conversations are not indexed yet"
    return f"\n\n[{older}; search again]"


def _in_order(lines: Mapping[int, str]) -> str:
    """The lines of turns, which are given by place, as one text in the order of the turns."""
    text = ""
    for turn in sorted(lines):
        text += lines[turn]
    return text


def _quotes(
    matches: Sequence[Match], stems: Sequence[str], room: int, zone: ZoneInfo
) -> list[_Lines]:
    """The lines that quote the best turns of all matches and fit into so many characters.

    Returns for each match its lines, by the places of their turns. Excerpts are chosen by these
    stems.
    """
    quotes = list[_Lines]()
    for _ in matches:
        quotes.append({})
    # Where few conversations match, excerpts may be long.
    fair_share = room // len(matches) // 4
    most_chars = max(_TURN_CHARS, fair_share)
    for matching_turn in _matching_turns(matches):
        number = matching_turn.match_number
        place = matching_turn.place
        conversation = matches[number].conversation
        is_deleted_meanwhile = place >= len(conversation.turns)
        if is_deleted_meanwhile:
            continue
        text = conversation.turns[place].text
        start = _line_start(conversation, place, zone)
        room_for_text = room - len(start)
        share = min(most_chars, room_for_text)
        least = min(_LEAST_CHARS, len(text))
        if share < least:
            continue
        excerpt = _excerpt(text, stems, share)
        line = start + excerpt
        quotes[number][place] = line
        room -= len(line)
    return quotes


def _line_start(conversation: Conversation, place: int, zone: ZoneInfo) -> str:
    """The beginning of the line that quotes a turn: its number, day and speaker."""
    turn = conversation.turns[place]
    number = place + 1
    day = _other_day(conversation, turn, zone)
    names = turn.name.split()
    name = " ".join(names)
    shown_name = name[:_NAME_CHARS]
    speaker = shown_name or turn.speaker
    return f"\n  {number}. {day}{speaker}: "


def _matching_turns(matches: Sequence[Match]) -> list[_MatchingTurn]:
    """The matching turns of all matches, best first, without those whose score is 0."""
    turns = list[_MatchingTurn]()
    for number, match in enumerate(matches):
        for place, score in match.turns:
            if score > 0:
                turn = _MatchingTurn(score, number, place)
                turns.append(turn)
    turns.sort(key=attrgetter("score"), reverse=True)
    return turns


def _other_day(conversation: Conversation, turn: Turn, zone: ZoneInfo) -> str:
    """A turn's day and a comma; "" where it is the last day of its conversation."""
    day = conversation.day_of(turn, zone)
    if day == conversation.last_day(zone):
        return ""
    return f"{day}, "


def _head(match: Match, zone: ZoneInfo) -> str:
    """The line that names a conversation: its last day and its thread, and what is special of the
    match.
    """
    conversation = match.conversation
    last_day = conversation.last_day(zone)
    head = f"{last_day} thread_id={conversation.thread_id}"
    if not match.by_words:
        head += _ALIKE
    if match.left_out:
        head += f" (its first {match.left_out} turns are not indexed; read_conversation shows them)"
    return head


def topics_text(query: str, answer: str, topics: Mapping[str, str]) -> str:
    """A note that names the topic files which have more words of the query than any conversation of
    the answer; "" if there are none.

    `topics` are the texts of these files, by path.
    """
    language = lexical.language(query)
    stem_list = _query_stems(query)
    query_stems = set(stem_list)
    most_in_conversation = 0
    for part in answer.split("\n\n"):
        count = _shared_count(query_stems, part, language)
        most_in_conversation = max(most_in_conversation, count)
    counts = dict[str, int]()
    for path, text in topics.items():
        count = _shared_count(query_stems, text, language)
        if count > most_in_conversation:
            counts[path] = count
    if not counts:
        return ""
    most_first = sorted(counts, key=counts.__getitem__, reverse=True)
    named_paths = most_first[:_TOPICS]
    names = " and ".join(named_paths)
    return f"\n\n[{names} may say more; read it]"


def _shared_count(query_stems: set[str], text: str, language: str) -> int:
    """How many of these stems are in a text."""
    stems = _stems_in(text, language)
    shared_stems = query_stems.intersection(stems)
    return len(shared_stems)


def excerpts(query: str, match: Match, chars: int) -> list[Excerpt]:
    """The best turns of a matching conversation, in their order, as JSON: number, speaker, and at
    most `chars` of the text. Of a match without turns, the first one.
    """
    stems = _query_stems(query)
    turns = match.conversation.turns
    best_places = list[int]()
    for place, _ in match.turns[:_EXCERPTS]:
        best_places.append(place)
    if not best_places:
        best_places = [0]
    quoted_turns = list[Excerpt]()
    for place in sorted(best_places):
        is_deleted_meanwhile = place >= len(turns)
        if is_deleted_meanwhile:
            continue
        turn = turns[place]
        number = place + 1
        text = _excerpt(turn.text, stems, chars)
        excerpt: Excerpt = {"number": number, "speaker": turn.speaker, "text": text}
        quoted_turns.append(excerpt)
    return quoted_turns


def _query_stems(query: str) -> list[str]:
    """The stems of a query's words, in the language of the query."""
    text = query[: 2 * MAX_QUERY_CHARS]
    language = lexical.language(query)
    return _stems_in(text, language)


def _stems_in(text: str, language: str) -> list[str]:
    """The stems of a text's words, in this language."""
    terms = lexical.search_stems(text, language)
    return [term.text for term in terms]


def page_text(
    conversation: Conversation,
    around: int | None,
    chars: int = DEFAULTS.search_result_chars,
    zone: ZoneInfo = days.WORLDS,
) -> str:
    """A page of a conversation, in at most so many characters: a head, the turn number `around`
    (default: the last one), and as many turns before and after it as fit.
    """
    thread_id = conversation.thread_id
    total = len(conversation.turns)
    if not total:
        return f"Conversation {thread_id} has no text."
    number = around or total
    middle = _within(number, 1, total) - 1
    last_day = conversation.last_day(zone)
    head = f"{last_day} thread_id={thread_id}, turns of {total}; more with around=<number>"
    room = chars - len(head)
    lines = dict[int, str]()
    for place in _nearest_places(middle, total):
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
    """The line of a page that shows a turn, with at most so many characters of its text."""
    turn = conversation.turns[place]
    number = place + 1
    day = _other_day(conversation, turn, zone)
    text = _excerpt(turn.text, [], chars)
    speaker = turn.speaker
    return f"\n{number}. {day}{speaker}: {text}"


def _within(number: int, lowest: int, highest: int) -> int:
    """A number, or the nearest one between `lowest` and `highest`."""
    at_least = max(number, lowest)
    return min(at_least, highest)


def _nearest_places(middle: int, total: int) -> list[int]:
    """The places of a page's turns, of a conversation of `total` turns: the middle, then those
    nearest to it, the earlier of two first.
    """
    places = [middle]
    for distance in range(1, PAGE_TURNS):
        earlier_place = middle - distance
        later_place = middle + distance
        if earlier_place >= 0:
            places.append(earlier_place)
        if later_place < total:
            places.append(later_place)
    return places[:PAGE_TURNS]


def _excerpt(text: str, stems: Sequence[str], chars: int) -> str:
    """At most `chars` characters of a text, in one line: those with most of these stems, from a
    little before the first of them on. An ellipsis stands where something is left out.
    """
    words = text[:_LOOKED_AT_CHARS].split()
    flat = " ".join(words)
    if len(flat) <= chars:
        return flat
    # Two for the ellipses.
    shown_chars = max(0, chars - 2)
    searchable, origins = _searchable(flat)
    start = _best_start(searchable, stems, shown_chars)
    if origins:
        start = origins[start]
    start = _start_within(flat, start, shown_chars)
    end = start + shown_chars
    shown_text = flat[start:end]
    if start:
        return f"…{shown_text}…"
    return f"{shown_text}…"


def _start_within(text: str, start: int, chars: int) -> int:
    """A start of an excerpt, moved so that so many characters of the text follow it, if it has so
    many.
    """
    last_start = len(text) - chars
    latest_start = min(start, last_start)
    return max(0, latest_start)


def _best_start(text: str, stems: Sequence[str], chars: int) -> int:
    """Where the `chars` characters of a text begin that have most of these stems; 0 if it has none.

    The text is as `_searchable` makes it.
    """
    beginnings = _beginnings_in(text, stems)
    chars_before = chars // 4
    best_start = 0
    highest = -1
    for place in _places_of(beginnings, text):
        ideal_start = place - chars_before
        start = _start_within(text, ideal_start, chars)
        end = start + chars
        part = text[start:end]
        count = _count_in(part, beginnings)
        if count > highest:
            best_start = start
            highest = count
    return best_start


def _beginnings_in(text: str, stems: Sequence[str]) -> list[str]:
    """The beginnings of these stems that a text has, each once."""
    beginnings = map(_beginning, stems)
    distinct = dict.fromkeys(beginnings)
    present = list[str]()
    for beginning in islice(distinct, _LOOKED_FOR):
        if beginning in text:
            present.append(beginning)
    return present


def _beginning(stem: str) -> str:
    """A stem without its last letter, which may differ from the word's: "happi" for "happy"."""
    shorter = len(stem) - 1
    length = max(_LEAST_STEM, shorter)
    return stem[:length]


def _places_of(words: Sequence[str], text: str) -> list[int]:
    """The first places of these words in a text, in order."""
    places = set[int]()
    for word in words:
        pattern = re.escape(word)
        hits = re.finditer(pattern, text)
        for hit in islice(hits, _PLACES):
            places.add(hit.start())
    sorted_places = sorted(places)
    return sorted_places[:_ALL_PLACES]


def _count_in(text: str, words: Sequence[str]) -> int:
    """How many of these words a text has."""
    count = 0
    for word in words:
        if word in text:
            count += 1
    return count


def _searchable(text: str) -> tuple[str, list[int]]:
    """A text with folded letters, as a search compares it; and for each place in it, and its end,
    the place in the text that it comes from.

    The list is empty if all places are the same.
    """
    folded_text = folded(text)
    if len(folded_text) == len(text):
        return folded_text, []
    pieces = list[str]()
    origins = list[int]()
    for place, char in enumerate(text):
        piece = folded(char)
        pieces.append(piece)
        # One letter may become several.
        for _ in piece:
            origins.append(place)
    origins.append(len(text))
    joined_text = "".join(pieces)
    return joined_text, origins
