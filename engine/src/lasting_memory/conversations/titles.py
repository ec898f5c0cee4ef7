"""The titles of conversations, as lists of threads show them."""

import logging
import re
from collections.abc import Iterable, Mapping

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


def title_of(messages: Iterable[Mapping[str, object]]) -> str:
    """A title for a conversation: the beginning of what its person said first.

    In place of a text it names the files that came. It is "" as long as there is neither.
    """
    for message in messages:
        if message.get("type") != "human":
            continue
        text = own_text(message, files=False)
        title = _shortened(text)
        if title:
            return title
        names = ", ".join(file_names(message))
        title_of_files = _shortened(names)
        if title_of_files:
            return title_of_files
    return ""


def _shortened(text: str) -> str:
    """A text in one line of at most `TITLE_CHARS`, of characters that people see and every store
    keeps.
    """
    # No store keeps half a character.
    storable = text.encode(errors="replace").decode()
    beginning = visible(storable[:_READ_CHARS])
    printed = _CONTROLS.sub(" ", beginning)
    words = printed.split()
    line = " ".join(words)
    if len(line) <= TITLE_CHARS:
        return line
    chars = TITLE_CHARS - 1  # one for the ellipsis
    shortened = line[:chars].rstrip()
    return f"{shortened}…"


async def set_title(thread_id: str, title: str) -> None:
    """Gives a thread its title, unless a person gave it one.

    A run does that while it goes on, so no other date changes. A failure is logged: a conversation
    without a title goes on. Nothing is done for a thread that is deleted.
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
    """Sets a thread's title, unless it has one that a person gave it. Lets errors through."""
    client = get_client()
    ids = [thread_id]
    threads = await client.threads.search(ids=ids, limit=1, select=["metadata"])
    if not threads:
        return
    metadata = threads[0]["metadata"] or {}
    present_title = metadata.get(TITLE)
    made_title = metadata.get(MADE_TITLE)
    has_own_title = present_title is not None and present_title != made_title
    if has_own_title:
        return
    titles = {TITLE: title, MADE_TITLE: title}
    await client.threads.update(thread_id, metadata=titles)
