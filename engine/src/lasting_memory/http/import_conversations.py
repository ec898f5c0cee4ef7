"""Conversations of an export, which become history.

Their text alone comes, to be read and searched. They are never continued, and never consolidated as
what the person says. An imported conversation has an id that follows from its person and text, so
that it is found again when the same export comes once more. The id that it had where it was exported
is its original id.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NamedTuple
from uuid import UUID, uuid5

from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError
from starlette.exceptions import HTTPException

from lasting_memory import days, platform
from lasting_memory.attachments import own_text
from lasting_memory.auth.share import THREAD_IN_REQUESTS, share_of
from lasting_memory.conversations import marks, stopping
from lasting_memory.http.import_document import DocumentConversation
from lasting_memory.http.models.export import ImportedConversations
from lasting_memory.http.requests import IMPORT_IS_GONE, PersonRequest
from lasting_memory.people import identity

# Of one conversation: messages, and characters of all of them. A longer one is left out.
_MAX_MESSAGES = 5_000
_MAX_CHARS = 2_000_000
_MAX_TITLE_CHARS = 200
# The namespace of the ids of imported conversations.
_ID_NAMESPACE = UUID("0f0b4c1e-5a53-4c39-9b0c-6b7f1f0f6d52")
# Ids of one conversation that are tried, if somebody else has it.
_MAX_TRIES = 5
# Before this nobody talked to an assistant.
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_SPEAKERS = ("human", "ai")


async def import_conversations(
    caller: PersonRequest, client: LangGraphClient, entries: Sequence[DocumentConversation]
) -> ImportedConversations:
    """Create the conversations that are not there yet."""
    actor = caller.actor
    agent = caller.deployment.agents[0]
    conversations = await platform.in_thread(_readable, entries, agent, actor)
    first_ids = await platform.in_thread(_first_ids, conversations, actor)
    original_ids = [_canonical(conversation.original_id) for conversation in conversations]
    owners = await _owners(client, {*original_ids, *first_ids})
    counts = Counter[str]()
    ids = zip(original_ids, first_ids, strict=True)
    for conversation, (original_id, first_id) in zip(conversations, ids, strict=True):
        owner_of_original = owners.get(original_id)
        owner_of_import = owners.get(first_id)
        if actor in (owner_of_original, owner_of_import):
            counts["there"] += 1
        else:
            outcome = await _create(caller, client, conversation)
            counts[outcome] += 1
    unreadable_count = len(entries) - len(conversations)
    return ImportedConversations(
        created=counts["created"],
        there=counts["there"],
        left_out=counts["left_out"] + unreadable_count,
    )


class _Message(NamedTuple):
    kind: str  # human or ai
    text: str
    at: str  # when it was said; "" where nobody noted it


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A conversation to import: its text, and metadata of ours and the allowed ones of the export's."""

    original_id: str
    messages: Sequence[_Message]
    metadata: Mapping[str, object]

    def ids(self, actor: identity.Actor) -> Iterator[str]:
        """The ids that it may have, the first one first.

        They are the same for the same person and text, whoever computes them, and nobody else's.
        """
        turns = [(message.kind, message.text) for message in self.messages]
        text = json.dumps([self.original_id, turns])
        digest = hashlib.sha256(text.encode())
        hex_digest = digest.hexdigest()
        for number in range(_MAX_TRIES):
            name = f"{number}/{hex_digest}"
            yield own_id(actor, name)

    def supersteps(self, thread_id: str) -> list[dict[str, Sequence[dict[str, object]]]]:
        """What puts the messages into a thread, and leaves nothing to be done there."""
        namespace = UUID(thread_id)
        messages = list[dict[str, object]]()
        for number, message in enumerate(self.messages):
            message_id = uuid5(namespace, str(number))
            stored_message: dict[str, object] = {
                "type": message.kind,
                "content": message.text,
                "id": str(message_id),
            }
            if message.at:
                stored_message["additional_kwargs"] = {days.SAID_AT: message.at}
            messages.append(stored_message)
        values = {"messages": messages}
        start: dict[str, object] = {"values": values, "as_node": "__start__"}
        end: dict[str, object] = {"values": None, "as_node": "__end__"}
        return [{"updates": [start]}, {"updates": [end]}]


def own_id(actor: identity.Actor, name: str) -> str:
    """An id that nobody else's imports have."""
    person = json.dumps([actor.org_id, actor.user_id])
    namespace = uuid5(_ID_NAMESPACE, person)
    return str(uuid5(namespace, name))


def _first_ids(conversations: Sequence[_Conversation], actor: identity.Actor) -> list[str]:
    """The first of the ids of each conversation. Blocks."""
    return [next(conversation.ids(actor)) for conversation in conversations]


def _readable(
    entries: Sequence[DocumentConversation], agent: str, actor: identity.Actor
) -> list[_Conversation]:
    """The conversations that can be read and say something. Blocks."""
    conversations = list[_Conversation]()
    for entry in entries:
        messages = spoken(entry.values)
        chars = sum(len(message.text) for message in messages)
        is_too_long = len(messages) > _MAX_MESSAGES or chars > _MAX_CHARS
        if not messages or is_too_long:
            continue
        metadata = _metadata(entry, agent, actor)
        conversation = _Conversation(entry.thread_id, messages, metadata)
        conversations.append(conversation)
    return conversations


def _metadata(entry: DocumentConversation, agent: str, actor: identity.Actor) -> dict[str, object]:
    """The metadata of the thread that is made of an entry."""
    exported_metadata: Mapping[str, object] = {}
    if isinstance(entry.metadata, Mapping):
        exported_metadata = entry.metadata
    # An export may have what was imported before.
    exported_began = exported_metadata.get(marks.IMPORTED_BEGAN) or entry.created_at
    exported_ended = exported_metadata.get(marks.IMPORTED_ENDED) or entry.updated_at
    began, ended = _times(exported_began, exported_ended)
    metadata: dict[str, object] = {
        "graph_id": agent,
        "user_id": actor.user_id,
        "org_id": actor.org_id,
        marks.IMPORTED: True,
    }
    if began:
        metadata[marks.IMPORTED_BEGAN] = began
    if ended:
        metadata[marks.IMPORTED_ENDED] = ended
    title = exported_metadata.get("title")
    if isinstance(title, str) and title.strip():
        words = _storable(title[:_MAX_TITLE_CHARS]).split()
        metadata["title"] = " ".join(words)
    return metadata


def spoken(values: object) -> list[_Message]:
    """What people and assistants said: no system, no tools, nothing attached."""
    if not isinstance(values, Mapping):
        return []
    messages = values.get("messages")
    if not isinstance(messages, list):
        return []
    turns = list[_Message]()
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        kind = message.get("type")
        if kind not in _SPEAKERS:
            continue
        text = _storable(own_text(message))
        if text:
            turn = _Message(str(kind), text, days.said_at(message))
            turns.append(turn)
    return turns


def _storable(text: str) -> str:
    """A text as a store can keep it: without NUL, and without half a character."""
    without_nul = text.replace("\0", " ")
    encoded_text = without_nul.encode(errors="replace")
    return encoded_text.decode().strip()


def _times(began: object, ended: object) -> tuple[str, str]:
    """When a conversation began and ended, as far as that can be; "" where it cannot."""
    began_at = _time(began)
    ended_at = _time(ended)
    if began_at and ended_at and began_at > ended_at:
        return "", ended_at
    return began_at, ended_at


def _time(stamp: object) -> str:
    """A time that can be, in ISO format, UTC; "" for another value."""
    if not isinstance(stamp, str):
        return ""
    try:
        time = datetime.fromisoformat(stamp)
        if not time.tzinfo:
            time = time.replace(tzinfo=UTC)
        time = time.astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    is_plausible = _EARLIEST < time <= datetime.now(UTC)
    if not is_plausible:
        return ""
    return time.isoformat()


def _canonical(thread_id: str) -> str:
    """A thread's id; "" for what is none."""
    try:
        return str(UUID(thread_id))
    except ValueError:
        return ""


async def _owners(client: LangGraphClient, thread_ids: set[str]) -> dict[str, identity.Actor]:
    """Whose the threads with these ids are; those without an owner are nobody's."""
    owners = dict[str, identity.Actor]()
    for ids in stopping.slices(thread_ids - {""}):
        threads = await client.threads.search(
            ids=ids, limit=len(ids), select=["thread_id", "metadata"]
        )
        for thread in threads:
            thread_id = str(thread["thread_id"])
            metadata = thread["metadata"] or {}
            user_id = str(metadata.get("user_id"))
            org_id = str(metadata.get("org_id"))
            owners[thread_id] = identity.Actor(user_id, org_id)
    return owners


async def _create(
    caller: PersonRequest, client: LangGraphClient, conversation: _Conversation
) -> Literal["created", "there", "left_out"]:
    """Make a conversation, under the first of its ids that nobody else has.

    "there": the person has it already. "left_out": others have all of its ids, or the platform did
    not take its messages. Raises `HTTPException` 409 if the person was forgotten meanwhile.
    """
    actor = caller.actor
    if caller.author.kind != "operator":
        share = share_of(actor, caller.deployment.limits)
        share.charge(THREAD_IN_REQUESTS)
    for thread_id in conversation.ids(actor):
        await _check_not_forgotten(caller)
        steps = conversation.supersteps(thread_id)
        try:
            answer = await client.threads.create(
                thread_id=thread_id,
                metadata=dict(conversation.metadata),
                if_exists="raise",
                supersteps=steps,
            )
        except ConflictError:
            owners = await _owners(client, {thread_id})
            if owners.get(thread_id) == actor:
                return "there"
            continue
        # The platform may make a thread without its messages, and its answer then has no id.
        is_whole = "thread_id" in answer
        is_forgotten = await caller.is_forgotten()
        if is_forgotten or not is_whole:
            await client.threads.delete(thread_id)
        if is_forgotten:
            raise HTTPException(409, IMPORT_IS_GONE)
        return "created" if is_whole else "left_out"
    return "left_out"


async def _check_not_forgotten(caller: PersonRequest) -> None:
    """Raise `HTTPException` 409 if the person was forgotten after the request had begun."""
    if await caller.is_forgotten():
        raise HTTPException(409, IMPORT_IS_GONE)
