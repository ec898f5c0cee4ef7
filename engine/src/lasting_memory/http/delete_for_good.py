"""Deleting one fact for good: from files and their histories, from what was proposed or declined,
from records, and from what is consolidated of the conversations in which it was said.

It is taken out everywhere, then the time is noted: what began before, and may have read it, writes
nothing from then on. What such a writer had put until then is taken out once more.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from deepagents.backends.protocol import FileData
from fastapi import APIRouter, Header, Query
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError, NotFoundError
from pydantic import AfterValidator, Field
from starlette.exceptions import HTTPException

from lasting_memory import consolidation, journal, platform, recall
from lasting_memory.files.backends import ScopedFiles
from lasting_memory.files.facts import said
from lasting_memory.files.one_fact import Fact, fact_of, lines_now
from lasting_memory.files.proposals import Memory
from lasting_memory.http import requests
from lasting_memory.http.requests import ROUTE, Answer, Caller, PersonRequest, Sent, key_of
from lasting_memory.journal import NOTHING, Revision
from lasting_memory.people.namespaces import Namespace
from lasting_memory.stored_files import stored_file
from lasting_memory.validation import RefusedWrite

logger = logging.getLogger("api")
router = APIRouter(tags=["Memory"])
# Seconds in which what is being written at this moment lands, before all is looked through again;
# and how often that is.
GRACE_SECONDS, _PASSES = 0.3, 5
# Deletions of one person that wait for each other.
_WAITING = 20
# Characters of a line, and conversations that one request deletes.
_LINE_CHARS, _CONVERSATIONS = 10_000, 100


def _some(text: str) -> str:
    if not said(text):
        raise ValueError("it has no words")
    return said(text)


ThreadId = Annotated[str, Field(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


class FactQuery(requests.OneFile):
    dry_run: bool = False


class Line(Sent):
    text: Annotated[str, Field(max_length=_LINE_CHARS), AfterValidator(_some)]
    conversations: Annotated[
        list[ThreadId], Field(max_length=_CONVERSATIONS, description="ids of those to delete, too")
    ] = Field(default_factory=list)


IfMatch = Annotated[str | None, Header(description="only if the file is still at this revision")]


@router.delete("/memory/fact", dependencies=[requests.in_turn("deletion for good", _WAITING)])
async def delete_fact(
    caller: Caller, query: Annotated[FactQuery, Query()], body: Line, if_match: IfMatch = None
) -> Answer:
    """Delete a fact for good: a line of a file, as `GET /memory/facts` or `/memory/trash` shows it,
    or of JSON a field's text.

    It goes with its earlier wordings from all files of yours and their histories, from proposals
    and what was declined, and from the records of consolidation. `conversations` are deleted with
    it. In the others that it came from it stays readable; nothing that was said in them up to now
    is consolidated again. What was under way meanwhile is refused.

    `deleted`: counts of files, revisions, proposals, consolidations, passages (of deleted
    conversations, in the index) and conversations; `conversations`: ids of those that it came from
    and that are there. With dry_run=true nothing is deleted, and they say what would be. 404: it is
    nowhere. 412: the file is at another revision. 503: it came back each time; call again.
    """
    async with get_client() as client:
        erasure = await _read(caller, client, query.path, body.text)
        known = await erasure.own([*erasure.sources, *body.conversations])
        if unknown := {*body.conversations} - known:
            raise HTTPException(404, f"You have no conversation {min(unknown)[:40]!r}.")
        counts = await erasure.erase(dry_run=True)
        if not counts.total():
            raise HTTPException(
                404, f"Nothing of yours says this, nor is it in the history of {query.path}."
            )
        if not query.dry_run:
            counts = await erasure.carry_out(query.path, if_match, body.conversations)
    counts["conversations"] = len(body.conversations)
    there = [
        thread_id for thread_id in erasure.sources if thread_id in known - {*body.conversations}
    ]
    return {"path": query.path, "deleted": dict(counts), "conversations": there}


@dataclass(frozen=True, slots=True)
class _Erasure:
    """The deletion of a fact of a person's, from these namespaces of files."""

    caller: PersonRequest
    client: LangGraphClient
    fact: Fact
    places: Sequence[Namespace]
    sources: Sequence[str]  # ids of the conversations that it came from
    newest: Revision  # of the file that was named

    async def own(self, thread_ids: Collection[str]) -> set[str]:
        """Those of these that are conversations of the person's."""
        ids = sorted({*thread_ids})
        if not ids:
            return set()
        owned = recall.owned_by(self.caller.actor, self.caller.deployment.agents)
        found = await recall.threads_by_id(self.client.threads, ids, owned, ["thread_id"])
        return {str(thread["thread_id"]) for thread in found}

    async def carry_out(
        self, path: str, if_match: str | None, conversations: Collection[str]
    ) -> Counter[str]:
        """Delete it. Returns how many of what had it."""
        caller, store, actor = self.caller, self.caller.store, self.caller.actor
        number = self.newest.number if self.newest.content is not None else 0
        if if_match is not None and if_match.strip('"') != str(number):
            raise HTTPException(
                412, f"{path} is at revision {number} or later by now; read it again."
            )
        said_in = await consolidation.saying(
            store, self.client, actor, self.fact, deployment=caller.deployment, began=caller.began
        )
        await self._revise(path, None if if_match is None else self.newest.id)
        try:
            await self._delete_conversations(conversations)
            staying = {*self.sources, *said_in} - {*conversations}
            there = await self.own(staying)
            await consolidation.keep_out(store, self.client, actor, sorted(there), caller.began)
            counts = await self.erase()
            for _ in range(_PASSES):
                await journal.note_erased(store, actor)
                await asyncio.sleep(GRACE_SECONDS)
                came_back = await self.erase()
                counts += came_back
                if not came_back.total():
                    break
            else:
                raise HTTPException(503, "It came back each time; call again.")
            if platform.flush:
                await platform.flush()
        finally:
            by = caller.author.user_id
            logger.warning(
                "AUDIT memory.delete_fact org=%r user=%r by=%r", actor.org_id, actor.user_id, by
            )
        return counts

    async def _revise(self, path: str, expect: str | None) -> None:
        """Make new revisions of the files that have it, so that nobody who read an older one
        overwrites it unawares.
        """
        caller = self.caller
        if await journal.is_forgotten(caller.store, caller.began):
            raise HTTPException(409, "You were forgotten meanwhile; nothing is left to delete.")
        began = journal.Began(
            caller.actor
        )  # an earlier deletion of theirs may have ended since the request came
        for place in self.places:
            about: Any = {
                "route": ROUTE,
                "author": caller.author,
                "began": began,
                "store": caller.store,
            }
            files = ScopedFiles(caller.deployment, lambda _, place=place: place, **about)  # type: ignore[misc]
            for key, content in (await _texts(caller, place)).items():
                if self.fact.cleaned(key, content) == content:
                    continue
                is_named = place == caller.namespace and key == key_of(path)
                try:
                    await files.arevise(key, self._without(key), expect if is_named else None)
                except journal.MovedError:
                    raise HTTPException(
                        412, f"{path} is at a later revision by now; read it again."
                    ) from None

    def _without(self, key: str) -> journal.Change:
        def make(before: FileData | None) -> FileData | None:
            if before is None or before["encoding"] != "utf-8":
                return before
            return FileData(content=self.fact.cleaned(key, before["content"]), encoding="utf-8")

        return make

    async def _delete_conversations(self, thread_ids: Collection[str]) -> None:
        """Delete conversations as their person does: their runs are stopped, and write nothing
        afterwards.
        """
        caller = self.caller
        try:
            async with platform.acting_as_caller(caller.http), get_client() as client:
                for thread_id in thread_ids:
                    try:
                        await client.threads.delete(thread_id)
                    except NotFoundError:
                        continue
        except APIStatusError as error:
            raise HTTPException(
                error.response.status_code, f"A conversation could not be deleted: {error.message}"
            ) from None
        await recall.drop(caller.store, caller.actor, thread_ids, caller.began)

    async def erase(self, *, dry_run: bool = False) -> Counter[str]:
        """Take it out of all that is stored. Returns how many of what had it. With `dry_run` it
        only counts.
        """
        caller, counts = self.caller, Counter[str]()
        store, actor, began = caller.store, caller.actor, caller.began
        for place in self.places:
            counts += await journal.erase(store, place, self.fact.cleaned, began, dry_run=dry_run)
            memory = Memory(store, actor, place, caller.deployment, began)
            counts["proposals"] += await memory.erase(self.fact, dry_run=dry_run)
        counts["consolidations"] += await consolidation.erase_from_records(
            store, actor, self.fact, began, dry_run=dry_run
        )
        counts["passages"] += await recall.drop_deleted(
            store,
            self.client.threads,
            actor,
            caller.deployment.agents,
            self.fact.is_quoted,
            began=began,
            dry_run=dry_run,
        )
        return +counts


async def _read(caller: PersonRequest, client: LangGraphClient, path: str, text: str) -> _Erasure:
    """The fact that a line of a file says."""
    namespace, limits = caller.namespace, caller.deployment.limits
    places = sorted(
        {namespace, *await requests.memories_of(caller.store, caller.actor, caller.deployment)}
    )
    past = await journal.history(caller.store, namespace, key_of(path), limits, caller.began)
    present, histories = dict[str, str](), list[tuple[str, list[Revision]]]()
    for place in places:
        histories += await journal.histories(caller.store, place, limits)
        present |= await _texts(caller, place)

    def found() -> tuple[Fact, list[str]]:
        fact = fact_of(text, past, lines_now(present))
        return fact, fact.threads(histories)

    fact, threads = await platform.in_thread(found)
    return _Erasure(caller, client, fact, places, [*filter(_is_id, threads)], [*past, NOTHING][0])


async def _texts(caller: PersonRequest, place: Namespace) -> dict[str, str]:
    """The texts of a memory, by key."""
    found = dict[str, str]()
    for item in await journal.all_items(caller.store, place):
        try:
            file = stored_file(item)
        except RefusedWrite:
            continue
        if file["encoding"] == "utf-8":
            found[item.key] = file["content"]
    return found


def _is_id(thread_id: str) -> bool:
    try:
        return str(UUID(thread_id)) == thread_id
    except ValueError:
        return False
