"""Deleting one fact for good.

It goes from files and their histories, from what was proposed or declined, from records, and from
what is consolidated of the conversations in which it was said. It is taken out everywhere (erased),
then the time is noted: what began before, and may have read it, writes nothing from then on. What
such a writer had put until then is erased once more. The sources of a fact are the conversations
that its revisions came from.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from deepagents.backends.protocol import FileData
from fastapi import Header, Query
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError, NotFoundError
from pydantic import AfterValidator, Field
from starlette.exceptions import HTTPException

from lasting_memory import consolidation, platform, recall
from lasting_memory.agent.scoped_files import ScopedFiles
from lasting_memory.http import requests
from lasting_memory.http.models.facts import DeletedCounts, DeletedFact
from lasting_memory.http.requests import ROUTE, Caller, PersonRequest, Sent, key_of
from lasting_memory.memory import journal
from lasting_memory.memory.facts import bare_line
from lasting_memory.memory.journal import NOTHING, Revision
from lasting_memory.memory.one_fact import Fact, fact_of, wordings_in
from lasting_memory.memory.own_offers import OffersOfPerson
from lasting_memory.memory.proposals import Memory
from lasting_memory.memory.stored_files import stored_file
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import get_client

logger = logging.getLogger("api")
router = requests.memory_router()
# Seconds in which what is being written at this moment lands, before all is looked through again.
GRACE_SECONDS = 0.3
# All is looked through so often, at most.
_MAX_PASSES = 5
# So many deletions of one person wait for each other.
_MAX_WAITING = 20
# Characters of a line.
_MAX_LINE_CHARS = 10_000
# Conversations that one request deletes.
_MAX_CONVERSATIONS = 100


def _text_of_line(line: str) -> str:
    """The words of a line, without marks of a list. Raises `ValueError` if it has none."""
    text = bare_line(line)
    if not text:
        raise ValueError("it has no words")
    return text


ThreadId = Annotated[str, Field(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


class FactQuery(requests.OneFile):
    dry_run: bool = False


class FactToDelete(Sent):
    text: Annotated[str, Field(max_length=_MAX_LINE_CHARS), AfterValidator(_text_of_line)]
    conversations: Annotated[
        list[ThreadId],
        Field(max_length=_MAX_CONVERSATIONS, description="ids of those to delete, too"),
    ] = Field(default_factory=list)


IfMatch = Annotated[str | None, Header(description="only if the file is still at this revision")]


@router.delete("/memory/fact", dependencies=[requests.in_turn("deletion for good", _MAX_WAITING)])
async def delete_fact(
    caller: Caller,
    query: Annotated[FactQuery, Query()],
    body: FactToDelete,
    if_match: IfMatch = None,
) -> DeletedFact:
    """Delete a fact for good: a line of a file, or the text of a field of JSON.

    The line is as `GET /memory/facts` or `/memory/trash` shows it. It goes with its earlier
    wordings from all files of yours and their histories, from proposals and what was declined, from
    offers to groups that nobody has accepted, and from the records of consolidation.
    `conversations` are deleted with it. In the others that it came from it stays readable; nothing
    that was said in them up to now is consolidated again. What was under way meanwhile is refused.

    With dry_run=true nothing is deleted, and the counts say what would be. 404: it is nowhere. 412:
    the file is at another revision. 503: it came back each time; call again.
    """
    path = query.path
    chosen_ids = set(body.conversations)
    async with get_client() as client:
        erasure = await _find_erasure(caller, client, path, body.text)
        own_ids = await erasure.own_threads([*erasure.sources, *chosen_ids])
        unknown_ids = chosen_ids - own_ids
        if unknown_ids:
            unknown_id = min(unknown_ids)
            raise HTTPException(404, f"You have no conversation {unknown_id[:40]!r}.")
        counts = await erasure.erase(dry_run=True)
        if not counts.total():
            raise HTTPException(
                404, f"Nothing of yours says this, nor is it in the history of {path}."
            )
        if not query.dry_run:
            counts = await erasure.carry_out(path, if_match, body.conversations)
    counts["conversations"] = len(body.conversations)
    remaining_ids = own_ids - chosen_ids
    remaining_sources = [thread_id for thread_id in erasure.sources if thread_id in remaining_ids]
    return DeletedFact(path=path, deleted=DeletedCounts(**counts), conversations=remaining_sources)


@dataclass(frozen=True, slots=True)
class _Erasure:
    """The deletion of a fact of a person's, from these namespaces of files."""

    caller: PersonRequest
    client: LangGraphClient
    fact: Fact
    namespaces: Sequence[Namespace]
    sources: Sequence[str]  # ids of the conversations that it came from
    newest: Revision  # of the file that was named

    async def own_threads(self, thread_ids: Collection[str]) -> set[str]:
        """Those of these ids that are of conversations of the person's."""
        ids = sorted(set(thread_ids))
        if not ids:
            return set()
        caller = self.caller
        owner_metadata = recall.owned_by(caller.actor, caller.deployment.agents)
        threads = await recall.threads_by_id(
            self.client.threads, ids, owner_metadata, ["thread_id"]
        )
        return {str(thread["thread_id"]) for thread in threads}

    async def carry_out(
        self, path: str, if_match: str | None, conversations: Collection[str]
    ) -> Counter[str]:
        """Delete it, and these conversations. Returns how many files, proposals and so on had it.

        Raises `HTTPException` 412 if the named file is at another revision than `if_match`, 503 if
        the fact comes back each time.
        """
        caller = self.caller
        store = caller.store
        actor = caller.actor
        writer = caller.writer
        expected_id = None
        if if_match is not None:
            self._check_revision(path, if_match)
            expected_id = self.newest.id
        saying_ids = await consolidation.saying(
            store, self.client, actor, self.fact, deployment=caller.deployment, writer=writer
        )
        await self._revise(path, expected_id)
        try:
            await self._delete_conversations(conversations)
            other_ids = {*self.sources, *saying_ids} - set(conversations)
            remaining_ids = await self.own_threads(other_ids)
            await consolidation.keep_out(store, self.client, actor, sorted(remaining_ids), writer)
            counts = await self._erase_until_gone()
            if platform.flush:
                await platform.flush()
        finally:
            caller_id = caller.author.user_id
            logger.warning(
                "AUDIT memory.delete_fact org=%r user=%r by=%r",
                actor.org_id,
                actor.user_id,
                caller_id,
            )
        return counts

    def _check_revision(self, path: str, if_match: str) -> None:
        """Raise `HTTPException` 412 unless the named file is at this revision; 0 is no file."""
        number = 0
        if self.newest.content is not None:
            number = self.newest.number
        if if_match.strip('"') != str(number):
            raise HTTPException(
                412, f"{path} is at revision {number} or later by now; read it again."
            )

    async def _erase_until_gone(self) -> Counter[str]:
        """Erase it until nothing has it. Raises `HTTPException` 503 if it comes back each time."""
        counts = await self.erase()
        for _ in range(_MAX_PASSES):
            await journal.note_erased(self.caller.store, self.caller.actor)
            await asyncio.sleep(GRACE_SECONDS)
            further_counts = await self.erase()
            counts += further_counts
            if not further_counts.total():
                return counts
        raise HTTPException(503, "It came back each time; call again.")

    async def _revise(self, path: str, expected_id: str | None) -> None:
        """Make new revisions of the files that have it.

        So nobody who read an older one overwrites it unawares. Raises 412 unless the named file is
        at the expected revision; None expects nothing.
        """
        caller = self.caller
        if await caller.is_forgotten():
            raise HTTPException(409, "You were forgotten meanwhile; nothing is left to delete.")
        # An earlier deletion of theirs may have ended since the request came.
        writer = journal.Writer(caller.actor)
        named_key = key_of(path)
        for namespace in self.namespaces:
            files = _files_in(caller, namespace, writer)
            texts = await _texts_in(caller, namespace)
            for key, content in texts.items():
                has_fact = self.fact.cleaned(key, content) != content
                if not has_fact:
                    continue
                is_named = namespace == caller.namespace and key == named_key
                own_expected_id = expected_id if is_named else None
                try:
                    await files.arevise(key, self._without(key), own_expected_id)
                except journal.MovedError:
                    raise HTTPException(
                        412, f"{path} is at a later revision by now; read it again."
                    ) from None

    def _without(self, key: str) -> journal.Change:
        """The change of a file that takes the fact out."""

        def without_fact(file: FileData | None) -> FileData | None:
            """The file without the fact; one that is no text stays as it is."""
            if file is None or file["encoding"] != "utf-8":
                return file
            content = self.fact.cleaned(key, file["content"])
            return FileData(content=content, encoding="utf-8")

        return without_fact

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
        await recall.drop(caller.store, caller.actor, thread_ids, caller.writer)

    async def erase(self, *, dry_run: bool = False) -> Counter[str]:
        """Take it out of all that is stored. Returns how many files, proposals and so on had it.

        With `dry_run` it only counts.
        """
        caller = self.caller
        store = caller.store
        actor = caller.actor
        writer = caller.writer
        counts = Counter[str]()
        for namespace in self.namespaces:
            counts += await journal.erase(
                store, namespace, self.fact.cleaned, writer, dry_run=dry_run
            )
            memory = Memory(store, actor, namespace, caller.deployment, writer)
            counts["proposals"] += await memory.erase(self.fact, dry_run=dry_run)
        offers = OffersOfPerson(store, actor, caller.deployment, writer)
        counts["offers"] += await offers.erase(self.fact, dry_run=dry_run)
        counts["consolidations"] += await consolidation.erase_from_records(
            store, actor, self.fact, writer, dry_run=dry_run
        )
        counts["files"] += await consolidation.erase_from_dream(
            store, actor, self.fact, writer, dry_run=dry_run
        )
        counts["passages"] += await recall.drop_deleted(
            store,
            self.client.threads,
            actor,
            caller.deployment.agents,
            self.fact.is_quoted,
            writer=writer,
            dry_run=dry_run,
        )
        return +counts  # without what is 0


async def _find_erasure(
    caller: PersonRequest, client: LangGraphClient, path: str, text: str
) -> _Erasure:
    """The deletion of the fact that a line of a file says, which has not begun."""
    store = caller.store
    limits = caller.deployment.limits
    key = key_of(path)
    memories = await requests.memories_of(store, caller.actor, caller.deployment)
    namespaces = sorted({caller.namespace, *memories})
    revisions = await journal.history(store, caller.namespace, key, limits, caller.writer)
    newest = NOTHING
    if revisions:
        newest = revisions[0]
    texts = dict[str, str]()
    histories = list[tuple[str, list[Revision]]]()
    for namespace in namespaces:
        histories += await journal.histories(store, namespace, limits)
        texts |= await _texts_in(caller, namespace)

    def fact_and_sources() -> tuple[Fact, list[str]]:
        """The fact, and the conversations that it came from. Blocks."""
        lines = wordings_in(texts)
        fact = fact_of(text, revisions, lines)
        thread_ids = fact.threads(histories)
        sources = [thread_id for thread_id in thread_ids if _is_thread_id(thread_id)]
        return fact, sources

    fact, sources = await platform.in_thread(fact_and_sources)
    return _Erasure(caller, client, fact, namespaces, sources, newest)


def _files_in(caller: PersonRequest, namespace: Namespace, writer: journal.Writer) -> ScopedFiles:
    """The files in a namespace of the person's, for writing."""
    return ScopedFiles(
        caller.deployment,
        lambda _: namespace,
        route=ROUTE,
        author=caller.author,
        writer=writer,
        store=caller.store,
    )


async def _texts_in(caller: PersonRequest, namespace: Namespace) -> dict[str, str]:
    """The texts of a memory, by key; files that are no text, or cannot be read, are left out."""
    texts = dict[str, str]()
    items = await journal.all_items(caller.store, namespace)
    for item in items:
        try:
            file = stored_file(item)
        except RefusedWrite:
            continue
        if file["encoding"] == "utf-8":
            texts[item.key] = file["content"]
    return texts


def _is_thread_id(text: str) -> bool:
    """Whether this is the id of a thread, as the platform spells one."""
    try:
        thread_id = UUID(text)
    except ValueError:
        return False
    return text == str(thread_id)
