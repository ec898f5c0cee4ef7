"""Threads of the agent graphs as conversations: turns of text, with what they repeat left out.

A thread has messages, as the platform gives them; a client may have put any value there. A message
of a person begins an exchange: with what it led to, until the person speaks again. A turn is the
text of a message, or a tool call. A turn *asks* (`asks`) where the person asks for
the past, or an assistant repeats it; such turns count less in a search. Routes are the folders that hold memory or
shared files.
"""

import asyncio
import itertools
import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Protocol, cast
from zoneinfo import ZoneInfo

from langgraph_sdk.schema import SortOrder, Thread, ThreadSelectField, ThreadSortBy

from lasting_memory.attachments import own_text, words_of
from lasting_memory.conversations.marks import IMPORTED_BEGAN, IMPORTED_ENDED, is_temporary
from lasting_memory.days import day_of, said_at
from lasting_memory.people import identity
from lasting_memory.people.scopes import ROUTES
from lasting_memory.recall import repetition
from lasting_memory.recall.format import ASKS, BESIDE, SPEAKERS, TELLS, version_of
from lasting_memory.sent_content import refused_media_of

_SPEAKERS = dict(zip(("human", "ai", "tool"), SPEAKERS, strict=True))
# Characters of a tool call's arguments.
_CALL_CHARS = 500
# Threads of a page: listed (of the first page and the others), by which pages overlap.
FIRST_PAGE = 20
_PAGE = 1_000
_OVERLAP = 5


# A message, and a tool call in it, as the platform gives them: a client may have put anything there.
_Message = Mapping[str, object]
_Call = Mapping[str, object]


class Threads(Protocol):
    """The part of the platform's client (`get_client().threads`) that is used here."""

    async def search(
        self,
        *,
        metadata: dict[str, str],
        ids: Sequence[str] | None = None,
        limit: int,
        offset: int = 0,
        sort_by: ThreadSortBy = ...,
        sort_order: SortOrder = ...,
        select: list[ThreadSelectField],
    ) -> list[Thread]:
        """The threads with this metadata, and with one of these ids if any are given, with the
        fields `select`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: speaker (user, assistant, tool), text, the id of its message, and the speaker's
    name, if any.

    `asks`: it asks for what was said before, or repeats that. `adds`: memory was written then, so
    it also says something new. `said_at` is the time at which the person said it, or what it
    answers, in ISO format, UTC; "" where nobody noted it.
    """

    speaker: str
    text: str
    message_id: str
    name: str = ""
    asks: bool = False
    adds: bool = False
    said_at: str = ""


def weighted_pieces(turn: Turn) -> Iterator[tuple[str, int]]:
    """The text of a turn in pieces, each with its kind: it tells something, asks, or stands beside
    what asks (`format.TELLS`, `ASKS`, `BESIDE`).
    """
    if not turn.asks:
        yield turn.text, TELLS
        return
    if turn.speaker != "user":
        yield turn.text, ASKS
        return
    kind_of_statement = TELLS if turn.adds else BESIDE
    sentences = repetition.sentences(turn.text)
    groups = itertools.groupby(sentences, key=itemgetter(1))
    for is_question, group in groups:
        piece = ""
        for sentence, _ in group:
            piece += sentence
        yield piece, ASKS if is_question else kind_of_statement


@dataclass(frozen=True, slots=True)
class Conversation:
    """A thread for search. `date` is the ISO day on which it was last spoken in (UTC's),
    `updated_at` the time of its last change, which a new title is, too.
    """

    thread_id: str
    date: str
    turns: tuple[Turn, ...]
    created_at: str = ""
    updated_at: str = ""
    ended_at: str = ""  # of an imported one, whose thread is younger

    @property
    def last_said_at(self) -> str:
        """When something was said in it last, in ISO format, UTC; the time of its last change where
        nobody noted that.
        """
        last_change = self.ended_at or self.updated_at or self.date
        return self._latest_said_at or last_change

    @property
    def _latest_said_at(self) -> str:
        """The latest time that a turn is stamped with; "" if none is."""
        latest = ""
        for turn in self.turns:
            latest = max(latest, turn.said_at)
        return latest

    def day_of(self, turn: Turn, zone: ZoneInfo) -> str:
        """The day on which a turn was said, in a time zone; of one without a time "about" the day
        of the conversation.
        """
        return self._day(turn.said_at, zone)

    def last_day(self, zone: ZoneInfo) -> str:
        """The day on which something was said in it last; "about" that of its last change where
        nobody noted a time.
        """
        return self._day(self._latest_said_at, zone)

    def _day(self, stamp: str, zone: ZoneInfo) -> str:
        """The day of a time; "about" that of the conversation where there is none."""
        day = day_of(stamp, zone)
        return day or f"about {self.date}"


def conversation(
    thread: Mapping[str, object],
    speakers: Sequence[str] = SPEAKERS,
    routes: Collection[str] = tuple(ROUTES),
) -> Conversation:
    """A thread of the platform, with its values, as a conversation: the turns of these speakers
    that have text.

    What only repeats memory, past conversations, or the files of these routes is no turn.
    """
    values = thread.get("values")
    turns, last_said_at = _turns_of(values, routes)
    shown_turns = list[Turn]()
    for turn in turns:
        if turn.speaker in speakers and turn.text:
            shown_turns.append(turn)
    thread_id = str(thread["thread_id"])
    metadata = _mapping(thread.get("metadata"))
    updated_at = _text(thread, "updated_at")
    began_at = _text(metadata, IMPORTED_BEGAN)
    created_at = began_at or _text(thread, "created_at") or updated_at
    ended_at = _text(metadata, IMPORTED_ENDED)
    last_moment = ended_at or last_said_at or updated_at
    date = last_moment[:10]
    return Conversation(thread_id, date, tuple(shown_turns), created_at, updated_at, ended_at)


def _mapping(value: object) -> Mapping[str, object]:
    """A mapping; an empty one in place of any other value."""
    return value if isinstance(value, Mapping) else {}


def _text(values: Mapping[str, object], key: str) -> str:
    """A value as text; "" where it is missing."""
    value = values.get(key)
    return str(value or "")


def _turns_of(values: object, routes: Collection[str]) -> tuple[list[Turn], str]:
    """The turns in a thread's values, and the time at which a person spoke last; "" where nobody
    noted it.
    """
    if not isinstance(values, Mapping):
        return [], ""
    messages = _mappings(values.get("messages"))
    calls = dict[str, _Call]()
    turns = list[Turn]()
    at = ""
    for exchange in _exchanges(messages):
        # What answers a message was said when that was.
        at = _said_at(exchange, at)
        for turn in _exchanged(exchange, calls, routes):
            turns.append(replace(turn, said_at=at))
    return turns, at


def _said_at(exchange: Iterable[_Message], earlier_time: str) -> str:
    """The time of the last message of the person's in an exchange; without one, the time of what was
    said before.
    """
    times = list[str]()
    for message in exchange:
        if _is_of_human(message):
            times.append(said_at(message))
    return max(times, default=earlier_time)


def _is_of_human(message: _Message) -> bool:
    """Whether the person wrote a message."""
    return message.get("type") == "human"


def _exchanges(messages: Iterable[_Message]) -> Iterator[list[_Message]]:
    """The messages in exchanges, in order."""
    exchange = list[_Message]()
    is_answered = False
    for message in messages:
        is_of_human = _is_of_human(message)
        if is_of_human and is_answered:
            yield exchange
            exchange = []
        exchange.append(message)
        is_answered = not is_of_human
    if exchange:
        yield exchange


def _exchanged(
    exchange: Sequence[_Message],
    calls: dict[str, _Call],
    routes: Collection[str],
) -> list[Turn]:
    """The turns of an exchange. Adds its tool calls to `calls`, by id.

    What an assistant says once it has looked something up repeats that, so it asks. What the person
    said in such an exchange asks, too, and adds something if memory was written.
    """
    turns = list[Turn]()
    asks = False
    adds = False
    for message in exchange:
        for call in _mappings(message.get("tool_calls")):
            call_id = str(call.get("id"))
            calls[call_id] = call
            asks = asks or repetition.asks(call, routes)
            adds = adds or repetition.writes_knowledge(call, routes)
        for turn in _turns(message, calls, routes):
            if asks and turn.speaker == "assistant":
                turns.append(replace(turn, asks=True))
            else:
                turns.append(turn)
    if not asks:
        return turns
    for place, turn in enumerate(turns):
        if turn.speaker == "user":
            turns[place] = replace(turn, asks=True, adds=adds)
    return turns


def _mappings(items: object) -> list[Mapping[str, object]]:
    """The mappings in a list; none in any other value that a client put there."""
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, Mapping)]


def _turns(
    message: _Message, calls: Mapping[str, _Call], routes: Collection[str]
) -> Iterator[Turn]:
    """The turns of a message: its text, and each of its tool calls, so that a search finds the step
    that worked. None of a message that no person and no model wrote, or that only repeats.

    `calls` are the thread's tool calls up to then, by id.
    """
    message_type = _string(message, "type")
    speaker = _SPEAKERS.get(message_type)
    if speaker is None or _is_notice(message):
        return
    message_id = _string(message, "id")
    text = own_text(message)
    if speaker == "tool":
        if not _is_new(message, calls, routes):
            return
        has_failed = _string(message, "status") == "error"
        if text and has_failed:
            text = f"failed: {text}"
        yield Turn(speaker, text, message_id)
        return
    name = _string(message, "name")
    yield Turn(speaker, text, message_id, name)
    for call in _mappings(message.get("tool_calls")):
        step = _step(call, routes)
        if step:
            yield Turn("tool", step, message_id)


def _string(message: _Message, key: str) -> str:
    """A text in a message; "" for any other value that a client put there."""
    value = message.get(key)
    return value if isinstance(value, str) else ""


def _is_new(result: _Message, calls: Mapping[str, _Call], routes: Collection[str]) -> bool:
    """Whether a tool's result says something that is in no memory and no past conversation."""
    call_id = _string(result, "tool_call_id")
    # Without its call, a result of a tool that reads files may be of any file.
    call_without_arguments = {"name": _string(result, "name")}
    call = calls.get(call_id, call_without_arguments)
    return not repetition.result_repeats(call, routes)


def _is_notice(message: _Message) -> bool:
    """Whether a message is neither the person's nor the model's: a pinned skill, or a note of ours
    to the person.
    """
    extras = message.get("additional_kwargs")
    if isinstance(extras, Mapping):
        source = extras.get("lc_source")
        if source == "pinned_skill":
            return True
    refused_media = refused_media_of(message.get("response_metadata"))
    return bool(refused_media)


def _step(call: _Call, routes: Collection[str]) -> str:
    """The text of a tool call; "" for one that only repeats something, or that cannot be read."""
    name = call.get("name")
    if not isinstance(name, str):
        return ""
    if repetition.repeats(call, routes):
        return ""
    arguments = call.get("args") or {}
    try:
        text = json.dumps(arguments, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return ""
    short_text = text[:_CALL_CHARS]
    return f"called {name} {short_text}"


def message_text(content: object) -> str:
    """The text of a whole message's content: a text, or a list of blocks, some with words
    (`attachments.words_of`).
    """
    text = "\n".join(_texts(content))
    return text.strip()


def piece_text(content: object) -> str:
    """The text of a piece of a message that is streamed. Its white space counts: the next piece
    goes on where it ends.
    """
    return "".join(_texts(content))


def _texts(content: object) -> list[str]:
    """The texts in a message's content, in order, without empty ones."""
    blocks = [content]
    if isinstance(content, list):
        blocks = content
    texts = list[str]()
    for block in blocks:
        text = words_of(block)
        if text:
            texts.append(text)
    return texts


def owned_by(actor: identity.Actor, agents: Iterable[str]) -> list[dict[str, str]]:
    """Thread metadata of a person's conversations as `auth.py` and the platform stamp it, one for
    each agent graph.
    """
    metadata = list[dict[str, str]]()
    for graph in agents:
        owner = {"graph_id": graph, "user_id": actor.user_id, "org_id": actor.org_id}
        metadata.append(owner)
    return metadata


async def threads_by_id(
    threads: Threads, ids: Sequence[str], owners: Sequence[dict[str, str]], select: Sequence[str]
) -> list[Thread]:
    """The threads with one of these ids and one of these metadata, with the fields `select`.

    The platform's search takes one metadata at a time.
    """
    id_list = list(ids)
    count = len(id_list)
    fields = cast("list[ThreadSelectField]", list(select))
    searches = list[Awaitable[list[Thread]]]()
    for metadata in owners:
        search = threads.search(ids=id_list, metadata=metadata, limit=count, select=fields)
        searches.append(search)
    found_threads = list[Thread]()
    for page in await asyncio.gather(*searches):
        found_threads += page
    return found_threads


async def changed_since(
    threads: Threads, metadata: Mapping[str, str], since: float
) -> AsyncIterator[list[Thread]]:
    """Pages of the threads with this metadata that changed since then (as `format.version_of`),
    newest first, without messages.
    """
    listed_ids = set[str]()
    offset = 0
    size = FIRST_PAGE
    version = since
    while version >= since:
        page = await threads.search(
            metadata=dict(metadata),
            limit=size,
            offset=offset,
            sort_by="updated_at",
            sort_order="desc",
            select=["thread_id", "updated_at", "metadata"],
        )
        changed_threads = list[Thread]()
        for thread in page:
            thread_id = thread["thread_id"]
            version = version_of(str(thread["updated_at"]))
            has_changed = version >= since
            if has_changed and thread_id not in listed_ids:
                listed_ids.add(thread_id)
                changed_threads.append(thread)
        yield changed_threads
        if len(page) < size:
            return
        # Pages overlap: a thread deleted meanwhile moves the others up.
        offset += size - _OVERLAP
        size = _PAGE


async def read_conversations(
    threads: Threads,
    actor: identity.Actor,
    agents: Collection[str],
    thread_ids: Sequence[str],
    routes: Collection[str] = tuple(ROUTES),
) -> list[Conversation]:
    """The person's conversations with these agents and of these ids, as they are now, without
    temporary ones.
    """
    if not thread_ids:
        return []
    select = ["thread_id", "created_at", "updated_at", "metadata", "values"]
    owners = owned_by(actor, agents)
    existing_threads = await threads_by_id(threads, thread_ids, owners, select)
    conversations = list[Conversation]()
    for thread in existing_threads:
        if not is_temporary(thread):
            conversations.append(conversation(thread, routes=routes))
    return conversations
