"""Gives a conversation its title, once.

A title is made of the person's first words, or set by the person. Both stand in the metadata of the
thread, which also say which title was made.
"""

from collections.abc import Mapping, Sequence

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.config import get_config

from lasting_memory import platform
from lasting_memory.conversations.marks import in_temporary_conversation
from lasting_memory.conversations.titles import MADE_TITLE, TITLE, set_title, title_of
from lasting_memory.people import identity


async def give_title(messages: Sequence[AnyMessage]) -> None:
    """Names the run's thread by the person's first words.

    `messages` are those of the thread. Nothing happens without a server, in a temporary
    conversation, and where the thread keeps the title that it has.
    """
    if not identity.on_server() or in_temporary_conversation():
        return
    person_messages = [message for message in messages if isinstance(message, HumanMessage)]
    config = get_config()
    metadata = config.get("metadata") or {}  # the platform copies a thread's metadata to its runs
    if _keeps_title(metadata, person_messages):
        return
    message_dicts = [message.model_dump() for message in person_messages]
    title = await platform.in_thread(title_of, message_dicts)
    if not title or title == metadata.get(TITLE):
        return
    thread_id = str(config["configurable"]["thread_id"])
    await set_title(thread_id, title)


def _keeps_title(metadata: Mapping[str, object], person_messages: Sequence[HumanMessage]) -> bool:
    """Whether a thread has a title that stays.

    One that was made does not stay if the person has edited their only message: then its first
    words are others.
    """
    title = metadata.get(TITLE)
    if title is None:
        return False
    is_made = title == metadata.get(MADE_TITLE)
    has_one_message = len(person_messages) <= 1
    return not (is_made and has_one_message)
