"""Gives a conversation its title, once."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.config import get_config

from lasting_memory import platform
from lasting_memory.conversations.marks import in_temporary_conversation
from lasting_memory.conversations.titles import MADE_TITLE, TITLE, set_title, title_of
from lasting_memory.people import identity


async def give_title(messages: Sequence[AnyMessage]) -> None:
    """Names the run's thread by the person's first words, on a server.

    A temporary conversation gets none. A thread with a title keeps it, unless its only message was
    edited: then its first words are others.
    """
    if not identity.on_server() or in_temporary_conversation():
        return
    of_person = [message for message in messages if isinstance(message, HumanMessage)]
    config = get_config()
    metadata = config.get("metadata") or {}  # the platform copies a thread's metadata to its runs
    present = metadata.get(TITLE)
    is_made = present == metadata.get(MADE_TITLE)
    may_change = is_made and len(of_person) <= 1
    if present is not None and not may_change:
        return
    dumped = [message.model_dump() for message in of_person]
    title = await platform.in_thread(title_of, dumped)
    if not title or title == present:
        return
    thread_id = str(config["configurable"]["thread_id"])
    await set_title(thread_id, title)
