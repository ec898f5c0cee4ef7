"""Past conversations (episodic memory): found by what was said in them, quoted turn by turn.

A conversation is a thread of graph `agent`. It is scored by its best windows of neighbouring turns, because a question is
answered by a few turns, not by a whole conversation, and a turn is often understood only beside the one before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
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
_TURN_CHARS = 2_000
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
    """A conversation that matches, and the number of the turn at its best window's centre."""

    conversation: Conversation
    turn: int


def conversation(thread: Mapping[str, Any]) -> Conversation:
    """A thread of the platform, with its values, as a conversation. Turns without text are left out."""
    messages = (thread.get("values") or {}).get("messages") or []
    turns = [
        Turn(_SPEAKERS[message["type"]], text, str(message.get("id") or ""))
        for message in messages
        if message.get("type") in _SPEAKERS and (text := message_text(message.get("content")))
    ]
    return Conversation(str(thread["thread_id"]), str(thread.get("updated_at") or "")[:10], tuple(turns))


def message_text(content: object) -> str:
    """The text in a message's content, which is text or a list of blocks of which some have text."""
    if isinstance(content, str):
        return content.strip()
    blocks = content if isinstance(content, list) else []
    texts = [
        block if isinstance(block, str) else block.get("text") for block in blocks if isinstance(block, str | dict)
    ]
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


def search(query: str, conversations: Sequence[Conversation], limit: int) -> list[Found]:
    """The conversations that match the query, best first: at most `limit`. Blocks; call it in a thread."""
    windows: list[tuple[int, int, str]] = []
    for number, talk in enumerate(conversations):
        for turn in range(len(talk.turns)):
            near = talk.turns[max(0, turn - TURNS_BEFORE) : turn + TURNS_AFTER + 1]
            text = "\n".join(part.text[:_TURN_CHARS] for part in near)
            windows.append((number, turn, f"{talk.date} {text}"))
    best: dict[int, list[tuple[float, int]]] = {}
    for index, score in rank(query[:_QUERY_CHARS], [text for _, _, text in windows]):
        number, turn, _ = windows[index]
        best.setdefault(number, []).append((score, turn))
    totals = {number: sum(score for score, _ in scored[:WINDOWS_COUNTED]) for number, scored in best.items()}
    ranked = sorted(totals, key=lambda number: -totals[number])[:limit]
    return [Found(conversations[number], best[number][0][1]) for number in ranked]


def quote(found: Sequence[Found]) -> str:
    """What the model is shown of the conversations found: day, thread, and the turns around the best one, in short."""
    room = MAX_SEARCH_RESULT_CHARS // max(1, len(found)) - 120
    parts = []
    for item in found:
        first = max(0, item.turn - 1)
        near = item.conversation.turns[first : item.turn + TURNS_AFTER + 1]
        each = room // len(near)
        lines = [
            f"  {number}. {turn.speaker}: {_short(turn.text, each)}" for number, turn in enumerate(near, first + 1)
        ]
        parts.append("\n".join([f"{item.conversation.date} thread_id={item.conversation.thread_id}", *lines]))
    return "\n\n".join(parts)[:MAX_SEARCH_RESULT_CHARS]


def page(talk: Conversation, around: int | None) -> str:
    """Numbered turns of a conversation around one of them (default: the last), within the size of a search result."""
    total = len(talk.turns)
    middle = total if around is None else min(max(around, 1), total)
    first = max(0, min(middle - PAGE_TURNS // 2, total - PAGE_TURNS))
    shown = talk.turns[first : first + PAGE_TURNS]
    if not shown:
        return f"Conversation {talk.thread_id} has no text."
    head = f"{talk.date} thread_id={talk.thread_id}, turns {first + 1}-{first + len(shown)} of {total}"
    each = (MAX_SEARCH_RESULT_CHARS - len(head)) // len(shown) - 30
    lines = [f"{number}. {turn.speaker}: {_short(turn.text, each)}" for number, turn in enumerate(shown, first + 1)]
    return "\n".join([head, *lines])


def _short(text: str, chars: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= chars else flat[: max(0, chars - 1)] + "…"


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
        return quote(found) or f"Nothing found in {len(others)} earlier conversations."

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
