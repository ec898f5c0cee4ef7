"""Past conversations (episodic memory): found by what was said in them, quoted turn by turn.

A conversation is a thread of graph `agent`. It is scored by its best windows of neighbouring turns, because a question is
answered by a few turns, not by a whole conversation, and a turn is often understood only beside the one before it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, tool
from langgraph_sdk import get_client

from memory import scopes
from memory.lexical import rank
from settings import MAX_SEARCH_RESULT_CHARS, Settings

# The platform's own maximum for one search; the most recently changed threads come first.
MAX_THREADS = 1_000
MAX_LIMIT = 20
# A window is a turn with this many before and after it, and a conversation counts with its best windows. Measured on
# LoCoMo (`benchmarks/`): better than whole conversations and than single turns.
TURNS_BEFORE, TURNS_AFTER = 2, 1
WINDOWS_COUNTED = 3
PAGE_TURNS = 20
_PIECE_CHARS, _PIECES = 2_000, 50
_QUERY_CHARS = 2_000
_SPEAKERS = {"human": "user", "ai": "assistant", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class Turn:
    """Something that was said: by whom (user, assistant, tool), what, and the id of its message."""

    speaker: str
    text: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A thread as it is searched. `date` is the ISO day of its last change."""

    thread_id: str
    date: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A conversation that matches, and the index of the turn that matches best."""

    conversation: Conversation
    turn: int


def conversation(thread: Mapping[str, Any], speakers: Sequence[str] = ("user", "assistant", "tool")) -> Conversation:
    """A thread of the platform, with its values, as a conversation: the turns of these speakers that have text."""
    messages = (thread.get("values") or {}).get("messages") or []
    turns = [
        Turn(_SPEAKERS[message["type"]], text, str(message.get("id") or ""))
        for message in messages
        if _SPEAKERS.get(message.get("type")) in speakers and (text := message_text(message.get("content")))
    ]
    return Conversation(str(thread["thread_id"]), str(thread.get("updated_at") or "")[:10], tuple(turns))


def message_text(content: object) -> str:
    """The text in a message's content, which is text or a list of blocks of which some have text."""
    if isinstance(content, str):
        return content.strip()
    blocks = content if isinstance(content, list) else []
    texts = [block if isinstance(block, str) else block.get("text") for block in blocks if isinstance(block, str | dict)]
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


def search(query: str, conversations: Sequence[Conversation], limit: int) -> list[Found]:
    """The conversations that match the query, best first: at most `limit`. Blocks; call it in a thread."""
    query = query[:_QUERY_CHARS]
    windows = [
        (number, turn, f"{talk.date} {before} {piece} {after}")
        for number, talk in enumerate(conversations)
        for turn in range(len(talk.turns))
        for before, piece, after in _windows(talk, turn)
    ]
    best: dict[int, list[tuple[float, int]]] = {}
    for index, score in rank(query, [text for _, _, text in windows]):
        number, turn, _ = windows[index]
        best.setdefault(number, []).append((score, turn))
    totals = {number: sum(score for score, _ in scored[:WINDOWS_COUNTED]) for number, scored in best.items()}
    ranked = sorted(totals, key=lambda number: -totals[number])[:limit]
    return [Found(conversations[number], _matching_turn(query, conversations[number], best[number][0][1])) for number in ranked]


def _windows(talk: Conversation, turn: int) -> Iterator[tuple[str, str, str]]:
    """A turn between its neighbours; a long one in pieces, so that what is said at its end is found too."""
    before = " ".join(part.text[-_PIECE_CHARS:] for part in talk.turns[max(0, turn - TURNS_BEFORE) : turn])
    after = " ".join(part.text[:_PIECE_CHARS] for part in talk.turns[turn + 1 : turn + 1 + TURNS_AFTER])
    text = talk.turns[turn].text
    pieces = [text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS)]
    return ((before, piece, after) for piece in pieces[:_PIECES])


def _matching_turn(query: str, talk: Conversation, centre: int) -> int:
    """Of the window around a turn, the turn that matches best: what people said before what tools answered."""
    first = max(0, centre - TURNS_BEFORE)
    near = range(first, min(len(talk.turns), centre + TURNS_AFTER + 1))
    said = [turn for turn in near if talk.turns[turn].speaker != "tool"]
    for turns in (said, list(near)):
        if ranked := rank(query, [talk.turns[turn].text for turn in turns]):
            return turns[ranked[0][0]]
    return centre


def quote(query: str, found: Sequence[Found]) -> str:
    """What the model is shown of the conversations found: day, thread, the turn that matches and its neighbours, in short."""
    room = MAX_SEARCH_RESULT_CHARS // max(1, len(found)) - 120
    parts = []
    for item in found:
        turns = item.conversation.turns
        near = range(max(0, item.turn - 1), min(len(turns), item.turn + 2))
        # Half for the turn itself, the rest for its neighbours.
        shares = {turn: room // 2 if turn == item.turn else room // 4 for turn in near}
        lines = [f"  {turn + 1}. {turns[turn].speaker}: {_excerpt(turns[turn].text, query, shares[turn])}" for turn in near]
        parts.append("\n".join([f"{item.conversation.date} thread_id={item.conversation.thread_id}", *lines]))
    return "\n\n".join(parts)[:MAX_SEARCH_RESULT_CHARS]


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
    """A text in at most `chars` characters, from a little before the first word of the query in it."""
    flat = " ".join(text.split())
    if len(flat) <= chars:
        return flat
    chars = max(0, chars - 2)
    words = [word for word in re.findall(r"\w{3,}", query.lower()) if word in flat.lower()]
    first = min((flat.lower().index(word) for word in words), default=0)
    start = max(0, min(first - chars // 4, len(flat) - chars))
    return f"{'…' if start else ''}{flat[start : start + chars]}…"


def owned_by(actor: scopes.Actor) -> dict[str, str]:
    """Thread metadata of a person's conversations with the agent, as `auth.py` and the platform stamp it."""
    return {"graph_id": "agent", "user_id": actor.user_id, "org_id": actor.org_id}


def build_episode_tools(settings: Settings) -> list[BaseTool]:
    """`search_past_conversations` and `read_conversation`, each for the person the run acts as."""

    @tool
    async def search_past_conversations(query: str, runtime: ToolRuntime[scopes.Context], limit: int = 5) -> str:
        """Search earlier conversations with this user for what was said in them.

        Args:
            query: what it was about, in the words that were probably used.
            runtime: given by the platform.
            limit: how many conversations to quote, at most 20.
        """
        if (actor := _acting_on_server(settings)) is None:
            return _NO_SERVER
        threads = await get_client().threads.search(
            metadata=owned_by(actor),
            limit=MAX_THREADS,
            sort_by="updated_at",
            sort_order="desc",
            select=["thread_id", "updated_at", "values"],
        )
        current = runtime.config.get("configurable", {}).get("thread_id")
        others = [conversation(thread) for thread in threads if str(thread["thread_id"]) != str(current)]
        found = await asyncio.to_thread(search, query, others, min(max(limit, 1), MAX_LIMIT))
        return quote(query, found) or f"Nothing found in {len(others)} earlier conversations."

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
        return page(conversation(threads[0]), around) if threads else f"There is no conversation {thread_id[:80]!r}."

    return [search_past_conversations, read_conversation]


_NO_SERVER = "There are no past conversations: this run is not on a server, which keeps them."


def _acting_on_server(settings: Settings) -> scopes.Actor | None:
    return scopes.current_actor(settings) if scopes.on_server() else None
