"""The titles of conversations, as lists of threads show them."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import httpx
from langgraph_sdk.errors import NotFoundError

from lasting_memory import platform
from lasting_memory.attachments import file_names, own_text
from lasting_memory.platform import get_client

logger = logging.getLogger(__name__)

# The metadata that names a thread in lists. A person may set another one: the second one says which
# title a run made.
TITLE = "title"
MADE_TITLE = "made_title"
TITLE_CHARS = 80


def title_of(messages: Iterable[Mapping[str, Any]]) -> str:
    """A title of text for a conversation: the beginning of what its person said first, or the names
    of the files that came with it; "" as long as there is neither.
    """
    for message in messages:
        if message.get("type") == "human":
            said = own_text(message, files=False) or ", ".join(file_names(message))
            text = said.replace("\0", " ").encode(errors="replace").decode()
            words = " ".join(text[: TITLE_CHARS * TITLE_CHARS].split())
            if words:
                return (
                    words if len(words) <= TITLE_CHARS else f"{words[: TITLE_CHARS - 1].rstrip()}…"
                )
    return ""


async def set_title(thread_id: str, title: str) -> None:
    """Give a thread its title, unless a person gave it one. A run does that while it goes on, so no
    other date changes.

    A failure is for the log: a conversation without a title goes on.
    """
    client = get_client()
    try:
        # As nobody: it is the run's own thread, and who may do that was decided when the run was
        # made.
        found = await platform.as_nobody(
            client.threads.search(ids=[thread_id], limit=1, select=["metadata"])
        )
        known = (found[0]["metadata"] or {}) if found else {}
        if found and known.get(TITLE) in (None, known.get(MADE_TITLE)):
            await platform.as_nobody(
                client.threads.update(thread_id, metadata={TITLE: title, MADE_TITLE: title})
            )
    except NotFoundError:  # it was deleted meanwhile
        pass
    except httpx.HTTPError as error:
        logger.warning("The thread %s has no title: %r", thread_id, error)
