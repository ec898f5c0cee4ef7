"""Threads of the agent graphs as conversations: turns of text, with the calls and results of tools."""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from lasting_memory.people import identity

_SPEAKERS = {"human": "user", "ai": "assistant", "tool": "tool"}
SPEAKERS = tuple(_SPEAKERS.values())
# Characters of a tool call's arguments.
_CALL_CHARS = 500


class Threads(Protocol):
    """The part of the platform's client (`get_client().threads`) that is used here."""

    async def search(self, *args: Any, **options: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: speaker (user, assistant, tool), text, the id of its message, and the speaker's name, if any."""

    speaker: str
    text: str
    message_id: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A thread for search. `date` is the ISO day of its last change, `updated_at` the whole time stamp."""

    thread_id: str
    date: str
    turns: tuple[Turn, ...]
    created_at: str = ""
    updated_at: str = ""


def conversation(thread: Mapping[str, Any], speakers: Sequence[str] = SPEAKERS) -> Conversation:
    """A thread of the platform, with its values, as a conversation: the turns of these speakers that have text."""
    values = thread.get("values")
    messages = _mappings(values.get("messages") if isinstance(values, Mapping) else None)
    said = (turn for message in messages for turn in _turns(message) if turn.speaker in speakers and turn.text)
    updated_at = str(thread.get("updated_at") or "")
    created_at = str(thread.get("created_at") or updated_at)
    return Conversation(str(thread["thread_id"]), updated_at[:10], tuple(said), created_at, updated_at)


def _mappings(items: object) -> list[Mapping[str, Any]]:
    """The mappings in a list; none in any other value that a client put there."""
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _turns(message: Mapping[str, Any]) -> Iterator[Turn]:
    """A message's text, and each of its tool calls as a turn of its own, so that a search finds the step that worked."""
    texts = {key: value for key, value in message.items() if isinstance(value, str)}
    speaker, message_id = _SPEAKERS.get(texts.get("type", "")), texts.get("id", "")
    added = message.get("additional_kwargs")
    if speaker is None or (isinstance(added, Mapping) and added.get("lc_source") == "pinned_skill"):
        return
    text = message_text(message.get("content"))
    failed = "failed: " if texts.get("status") == "error" and text else ""
    yield Turn(speaker, failed + text, message_id, texts.get("name", "") if speaker != "tool" else "")
    for call in _mappings(message.get("tool_calls")):
        with suppress(RecursionError, ValueError):
            arguments = json.dumps(call.get("args") or {}, ensure_ascii=False, default=str)[:_CALL_CHARS]
            if isinstance(name := call.get("name"), str):
                yield Turn("tool", f"called {name} {arguments}", message_id)


def message_text(content: object) -> str:
    """The text of a message's content: a text, or a list of blocks, some with text."""
    blocks = content if isinstance(content, list) else [content]
    texts = [block if isinstance(block, str) else block.get("text") for block in blocks if isinstance(block, str | dict)]
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


def owned_by(actor: identity.Actor, agents: Iterable[str]) -> list[dict[str, str]]:
    """Thread metadata of a person's conversations as `auth.py` and the platform stamp it, one for each agent graph."""
    return [{"graph_id": graph, "user_id": actor.user_id, "org_id": actor.org_id} for graph in agents]


async def threads_by_id(
    threads: Threads, ids: Sequence[str], owned: Sequence[dict[str, str]], select: Sequence[str]
) -> list[Any]:
    """The threads with one of these ids and one of these metadata. The platform's search takes one metadata at a time."""
    asked = [threads.search(ids=list(ids), metadata=metadata, limit=len(ids), select=select) for metadata in owned]
    return [thread for page in await asyncio.gather(*asked) for thread in page]
