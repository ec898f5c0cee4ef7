"""The titles of conversations, as lists of threads show them."""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

import httpx
from langgraph_sdk.errors import NotFoundError

from lasting_memory import platform
from lasting_memory.attachments import file_names, own_text
from lasting_memory.plain_text import visible
from lasting_memory.platform import get_client

logger = logging.getLogger(__name__)

# The metadata that names a thread in lists, and the title that a run made. They differ where a
# person gave it another one.
TITLE = "title"
MADE_TITLE = "made_title"
TITLE_CHARS = 80
# Characters of a text that are looked at for its title.
_READ_CHARS = TITLE_CHARS * TITLE_CHARS
# What a terminal, a list of threads or a store would take for something else than text.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")


def title_of(messages: Iterable[Mapping[str, Any]]) -> str:
    """A title for a conversation: the beginning of what its person said first.

    In place of a text it names the files that came. It is "" as long as there is neither.
    """
    for message in messages:
        if message.get("type") != "human":
            continue
        text = own_text(message, files=False)
        title = _shortened(text) or _shortened(", ".join(file_names(message)))
        if title:
            return title
    return ""


def _shortened(text: str) -> str:
    """A text in one line of at most `TITLE_CHARS`, of characters that people see and every store
    keeps.
    """
    storable = text.encode(errors="replace").decode()
    printed = _CONTROLS.sub(" ", visible(storable[:_READ_CHARS]))
    line = " ".join(printed.split())
    if len(line) <= TITLE_CHARS:
        return line
    return f"{line[: TITLE_CHARS - 1].rstrip()}…"


async def set_title(thread_id: str, title: str) -> None:
    """Give a thread its title, unless a person gave it one.

    A run does that while it goes on, so no other date changes. A failure is for the log: a
    conversation without a title goes on.
    """
    try:
        # As nobody: it is the run's own thread, and who may do that was decided when the run was
        # made.
        await platform.as_nobody(_set_title(thread_id, title))
    except NotFoundError:  # it was deleted meanwhile
        pass
    except httpx.HTTPError as error:
        logger.warning("The thread %s has no title: %r", thread_id, error)


async def _set_title(thread_id: str, title: str) -> None:
    client = get_client()
    threads = await client.threads.search(ids=[thread_id], limit=1, select=["metadata"])
    if not threads:
        return
    metadata = threads[0]["metadata"] or {}
    if metadata.get(TITLE) in (None, metadata.get(MADE_TITLE)):
        await client.threads.update(thread_id, metadata={TITLE: title, MADE_TITLE: title})
