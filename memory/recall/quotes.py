"""Past conversations as text for the model: turns that match a question, or a page of one conversation."""

import re
from collections.abc import Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

from memory.recall import lexical
from memory.recall.conversations import Conversation
from memory.recall.retrieval import Match, Results
from settings import MAX_SEARCH_RESULT_CHARS

PAGE_TURNS = 20
# Characters of a turn among many. Most turns are shorter.
_TURN_CHARS = 250
# The best conversations, whose best turn is always quoted. All other turns compete.
_QUOTED_FIRST = 3
# A shorter excerpt is not worth its line.
_LEAST_CHARS = 60
# Characters of a conversation's head, of a speaker's name, and of a query.
_HEAD_CHARS, _NAME_CHARS, _QUERY_CHARS = 64, 40, 4_000
# Turns of one conversation that a search shows a person.
_EXCERPTS = 2
# Bounds of the choice of an excerpt: characters of a turn, words of the query, and places of each.
_LOOKED_AT_CHARS, _LOOKED_FOR, _PLACES = 200_000, 48, 100


def results_text(query: str, results: Results, alternatives: Sequence[str] = ()) -> str:
    """The tool's answer: day and thread of each matching conversation, and the best turns of all, in their order."""
    matches, words = results.matches, _stems(" ".join([query[:_QUERY_CHARS], *alternatives]))
    left = f"\n\n[{results.outstanding} older conversations are not indexed yet; search again]" if results.outstanding else ""
    if not matches:
        return f"Nothing found in {results.searched} earlier conversations.{left}"
    room = MAX_SEARCH_RESULT_CHARS - _HEAD_CHARS * len(matches)
    # Where few conversations match, excerpts may be long.
    most = max(_TURN_CHARS, room // len(matches) // 4)
    chosen: list[dict[int, str]] = [{} for _ in matches]
    matching = [(-score, number, turn) for number, item in enumerate(matches) for turn, score in item.turns if score > 0]
    best = [(0.0, number, item.turns[0][0] if item.turns else 0) for number, item in enumerate(matches[:_QUOTED_FIRST])]
    for _, number, turn in [*best, *sorted(matching, key=itemgetter(0))]:
        turns = matches[number].conversation.turns
        if turn in chosen[number] or not 0 <= turn < len(turns):
            continue
        name = " ".join(turns[turn].name.split())[:_NAME_CHARS]
        start = f"\n  {turn + 1}. {name or turns[turn].speaker}: "
        chars = min(most, room - len(start))
        if chars >= min(_LEAST_CHARS, len(turns[turn].text)):
            chosen[number][turn] = line = start + _excerpt(turns[turn].text, words, chars)
            room -= len(line)
    heads = (f"{item.conversation.date} thread_id={item.conversation.thread_id}" for item in matches)
    texts = (head + "".join(lines[turn] for turn in sorted(lines)) for head, lines in zip(heads, chosen, strict=True))
    return "\n\n".join(texts)[: MAX_SEARCH_RESULT_CHARS - len(left)] + left


def excerpts(query: str, match: Match, chars: int) -> list[dict[str, Any]]:
    """The best turns of a matching conversation, in their order: number, speaker, and at most `chars` of the text."""
    words, turns = _stems(query), match.conversation.turns
    best = sorted(turn for turn, _ in (match.turns or ((0, 0.0),))[:_EXCERPTS] if turn < len(turns))
    texts = {turn: _excerpt(turns[turn].text, words, chars) for turn in best}
    return [{"number": turn + 1, "speaker": turns[turn].speaker, "text": text} for turn, text in texts.items()]


def _stems(query: str) -> list[str]:
    query = query[:_QUERY_CHARS]
    return lexical.stems(query, lexical.language(query))


def page_text(talk: Conversation, around: int | None) -> str:
    """Numbered turns of a conversation: the wanted one (default: the last), and as many around it as fit."""
    total = len(talk.turns)
    if not total:
        return f"Conversation {talk.thread_id} has no text."
    middle = min(max(around or total, 1), total) - 1
    head = f"{talk.date} thread_id={talk.thread_id}, turns of {total}; more with around=<number>"
    room = MAX_SEARCH_RESULT_CHARS - len(head)
    lines: dict[int, str] = {}
    for turn in sorted(range(total), key=lambda turn: (abs(turn - middle), turn))[:PAGE_TURNS]:
        share = room // 2 if turn == middle else room // 4
        line = f"\n{turn + 1}. {talk.turns[turn].speaker}: {_excerpt(talk.turns[turn].text, [], share)}"
        if len(line) > room:
            break
        lines[turn], room = line, room - len(line)
    return head + "".join(lines[turn] for turn in sorted(lines))


def _excerpt(text: str, stems: Sequence[str], chars: int) -> str:
    """At most `chars` characters of a text, from a little before the place with most of these stems on."""
    flat = " ".join(text[:_LOOKED_AT_CHARS].split())
    if len(flat) <= chars:
        return flat
    chars = max(0, chars - 2)
    low = flat.lower()
    # The end of a stem may differ from the word's: "happi".
    asked = dict.fromkeys(stem[: max(3, len(stem) - 1)] for stem in stems)
    words = [word for word in islice(asked, _LOOKED_FOR) if word in low]
    hits = (islice(re.finditer(re.escape(word), low), _PLACES) for word in words)
    places = sorted({hit.start() for of_word in hits for hit in of_word})[:500]
    starts = [max(0, min(place - chars // 4, len(flat) - chars)) for place in places] or [0]
    start = max(starts, key=lambda start: sum(low.find(word, start, start + chars) >= 0 for word in words))
    return f"{'…' if start else ''}{flat[start : start + chars]}…"
