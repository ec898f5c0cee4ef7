"""The revisions of a person's file, as the routes of files read and make them.

A history is a file's revisions, the newest first. Where a client sends `If-Match`, the file is
changed only if it is still at this revision.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from deepagents.backends.protocol import FileData
from fastapi import Header
from langgraph.store.base import Item
from starlette.exceptions import HTTPException

from lasting_memory.http import requests
from lasting_memory.http.models.files import WrittenFile
from lasting_memory.memory import journal
from lasting_memory.memory.journal import NOTHING, Revision
from lasting_memory.memory.vouches import Vouch

IfMatch = Annotated[str | None, Header(description="only if the file is still at this revision")]


async def find_item(caller: requests.PersonRequest, path: str) -> Item:
    """What the store has of a file that the caller may read. Raises `HTTPException` 404 if nothing."""
    place = caller.place(path)
    item = await caller.store.aget(place.namespace, place.key)
    if item is None:
        raise HTTPException(404, f"There is no file {path}.")
    return item


async def history(caller: requests.PersonRequest, path: str) -> list[Revision]:
    """The revisions of a readable file, newest first."""
    place = caller.place(path)
    limits = caller.deployment.limits
    writer = None if place.is_shared else caller.writer
    revisions = await journal.history(caller.store, place.namespace, place.key, limits, writer)
    if not place.is_shared:
        return revisions
    # In which conversation somebody's agent wrote a line is that person's own.
    without_conversations = list[Revision]()
    for revision in revisions:
        author = replace(revision.author, run_id="", thread_id="")
        shown_revision = replace(revision, author=author)
        without_conversations.append(shown_revision)
    return without_conversations


async def replace_file(
    caller: requests.PersonRequest,
    path: str,
    file: FileData | None,
    if_match: str | None,
    vouch: Vouch | None = None,
) -> WrittenFile:
    """Replace a file, or delete it. Raises `HTTPException` 412 unless it is as `If-Match` says."""
    if if_match is None:
        return await _revise(caller, path, file, None, vouch=vouch)
    revisions = await history(caller, path)
    return await replace_unless_moved(caller, path, file, if_match, revisions, vouch=vouch)


async def replace_unless_moved(
    caller: requests.PersonRequest,
    path: str,
    file: FileData | None,
    if_match: str | None,
    revisions: Sequence[Revision],
    *,
    vouch: Vouch | None = None,
) -> WrittenFile:
    """Replace a file if its history still is `revisions`, and as `If-Match` says. Raises 412."""
    newest = NOTHING
    if revisions:
        newest = revisions[0]
    number = 0  # as no file has it
    if newest.content is not None:
        number = newest.number
    expected_id = newest.id
    is_as_client_says = if_match is None or if_match.strip('"') == str(number)
    if not is_as_client_says:
        expected_id = "another"  # which no revision has
    return await _revise(caller, path, file, expected_id, number, vouch=vouch)


async def _revise(
    caller: requests.PersonRequest,
    path: str,
    file: FileData | None,
    expected_id: str | None,
    number: int = 0,
    *,
    vouch: Vouch | None = None,
) -> WrittenFile:
    """Make a revision of a file, or delete it (None). `number` is of the revision that is expected.

    Raises 412 unless the file is at the revision with the expected id; None expects nothing.
    """

    def replaced(_: FileData | None) -> FileData | None:
        return file

    try:
        key = requests.key_of(path)
        revision = await caller.files.arevise(key, replaced, expected_id, vouch=vouch)
    except journal.MovedError:
        raise HTTPException(
            412, f"{path} is at revision {number} or later by now; read it again."
        ) from None
    return WrittenFile(path=path, revision=revision.number)
