"""Past conversations (episodic memory): found by what was said in them, quoted turn by turn."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import islice
from uuid import UUID

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, tool
from langgraph_sdk import get_client

from memory import scopes
from memory.conversations import Conversation, Turn, conversation, message_text, owned_by
from memory.search import Found, Results, search
from settings import MAX_SEARCH_RESULT_CHARS, Settings

__all__ = ["Conversation", "Turn", "build_episode_tools", "conversation", "message_text", "owned_by", "page", "quote"]

MAX_LIMIT = 20
PAGE_TURNS = 20
# Characters of one turn among several; the best of a conversation may have half of the conversation's room.
_TURN_CHARS = 450
# A shorter excerpt is not worth its line.
_LEAST_CHARS = 60
_HEAD_CHARS = 64
_NAME_CHARS = 40
# By what an excerpt is chosen: characters of a turn, words of the query, and places of each.
_LOOKED_AT_CHARS, _LOOKED_FOR, _PLACES = 200_000, 48, 100


def quote(query: str, found: Sequence[Found]) -> str:
    """What the model is shown of the conversations found: day, thread, and the turns that match, in their order.

    Each conversation has room for its best turn and the ones beside it; what is left goes to the best turns of all.
    """
    if not found:
        return ""
    room = MAX_SEARCH_RESULT_CHARS - _HEAD_CHARS * len(found)
    share = room // len(found)
    chosen: list[dict[int, str]] = [{} for _ in found]

    def add(number: int, turn: int, chars: int) -> None:
        nonlocal room
        turns = found[number].conversation.turns
        if turn in chosen[number] or not 0 <= turn < len(turns):
            return
        name = " ".join(turns[turn].name.split())[:_NAME_CHARS]
        start = f"\n  {turn + 1}. {name or turns[turn].speaker}: "
        chars = min(chars, room - len(start))
        if chars >= min(_LEAST_CHARS, len(turns[turn].text)):
            chosen[number][turn] = line = start + _excerpt(turns[turn].text, query, chars)
            room -= len(line)

    most = max(share // 2, min(share - _HEAD_CHARS // 2, _TURN_CHARS))
    best = [_best_turn(item) for item in found]
    for number, turn in enumerate(best):
        add(number, turn, most)
    matching = [(score, number, turn) for number, item in enumerate(found) for turn, score in item.turns if score > 0]
    for _, number, turn in sorted(matching, key=lambda match: -match[0]):
        add(number, turn, min(most, _TURN_CHARS))
    for number, turn in enumerate(best):
        for near in (turn + 1, turn - 1):
            add(number, near, min(share // 4, _TURN_CHARS))
    return "\n\n".join(
        f"{item.conversation.date} thread_id={item.conversation.thread_id}" + "".join(lines[turn] for turn in sorted(lines))
        for item, lines in zip(found, chosen, strict=True)
    )


def _best_turn(found: Found) -> int:
    return found.turns[0][0] if found.turns else 0


def page(talk: Conversation, around: int | None) -> str:
    """Numbered turns of a conversation: the one asked for (default: the last), and as many around it as there is room for."""
    total = len(talk.turns)
    if not total:
        return f"Conversation {talk.thread_id} has no text."
    middle = min(max(around or total, 1), total) - 1
    head = f"{talk.date} thread_id={talk.thread_id}, turns of {total}; more with around=<number>"
    room = MAX_SEARCH_RESULT_CHARS - len(head)
    lines: dict[int, str] = {}
    for turn in sorted(range(total), key=lambda turn: (abs(turn - middle), turn))[:PAGE_TURNS]:
        share = room // 2 if turn == middle else room // 4
        line = f"\n{turn + 1}. {talk.turns[turn].speaker}: {_excerpt(talk.turns[turn].text, '', share)}"
        if len(line) > room:
            break
        lines[turn], room = line, room - len(line)
    return head + "".join(lines[turn] for turn in sorted(lines))


def _excerpt(text: str, query: str, chars: int) -> str:
    """A text in at most `chars` characters, from a little before where most words of the query are near each other."""
    flat = " ".join(text[:_LOOKED_AT_CHARS].split())
    if len(flat) <= chars:
        return flat
    chars = max(0, chars - 2)
    low = flat.lower()
    asked = list(dict.fromkeys(re.findall(r"\w{3,}", query[:2_000].lower())))[:_LOOKED_FOR]
    words = [word for word in asked if word in low]
    found = (islice(re.finditer(re.escape(word), low), _PLACES) for word in words)
    places = sorted({match.start() for matches in found for match in matches})[:500]
    starts = [max(0, min(place - chars // 4, len(flat) - chars)) for place in places] or [0]
    start = max(starts, key=lambda start: _count(words, low[start : start + chars]))
    return f"{'…' if start else ''}{flat[start : start + chars]}…"


def _count(words: Sequence[str], text: str) -> int:
    return sum(word in text for word in words)


def answer(query: str, results: Results) -> str:
    """The tool's answer."""
    text = quote(query, results.found) or f"Nothing found in {results.searched} earlier conversations."
    left = f"\n\n[{results.outstanding} older conversations are not indexed yet; search again]" if results.outstanding else ""
    return text[: MAX_SEARCH_RESULT_CHARS - len(left)] + left


def build_episode_tools(settings: Settings) -> list[BaseTool]:
    """`search_past_conversations` and `read_conversation`, each for the person the run acts as."""

    @tool
    async def search_past_conversations(query: str, runtime: ToolRuntime[scopes.Context], limit: int = 5) -> str:
        """Search earlier conversations with this user for what was said in them.

        Args:
            query: what it was about, in the words that were probably used; a time helps ("last week", "in May 2023").
            runtime: given by the platform.
            limit: how many conversations to quote, at most 20.
        """
        if (actor := _acting_on_server(settings)) is None or runtime.store is None:
            return _NO_SERVER
        current = str(runtime.config.get("configurable", {}).get("thread_id"))
        most = min(max(limit, 1), MAX_LIMIT)
        results = await search(runtime.store, get_client().threads, actor, query, most, current=current)
        return await asyncio.to_thread(answer, query, results)

    @tool
    async def read_conversation(thread_id: str, runtime: ToolRuntime[scopes.Context], around: int | None = None) -> str:
        """Read a page of an earlier conversation with this user.

        Args:
            thread_id: as named by search_past_conversations.
            runtime: given by the platform.
            around: number of a turn to read around; the end of the conversation if left out.
        """
        if (actor := _acting_on_server(settings)) is None:
            return _NO_SERVER
        try:
            thread = str(UUID(thread_id))
        except ValueError:
            return f"Error: {thread_id[:80]!r} is no thread_id; take one that search_past_conversations named."
        # Searched, not fetched by id: an operator's run may see every thread, the person it acts for only their own.
        threads = await get_client().threads.search(ids=[thread], metadata=owned_by(actor), limit=1)
        if not threads:
            return f"There is no conversation {thread_id[:80]!r}."
        return await asyncio.to_thread(lambda: page(conversation(threads[0]), around))

    return [search_past_conversations, read_conversation]


_NO_SERVER = "There are no past conversations: this run is not on a server, which keeps them."


def _acting_on_server(settings: Settings) -> scopes.Actor | None:
    return scopes.current_actor(settings) if scopes.on_server() else None
