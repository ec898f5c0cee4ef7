"""Everything of a person's, exported as one JSON document.

`memories` are the namespaces of the person's files, each with the id of the assistant whose memory
it is, "" if it is that of all assistants.
"""

import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import UTC, datetime

import httpx
from fastapi.responses import Response, StreamingResponse
from langgraph.store.base import BaseStore, Item
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.schema import Thread
from pydantic import TypeAdapter

from lasting_memory import consolidation, platform
from lasting_memory.conversations.marks import is_temporary
from lasting_memory.deployment import Deployment, Limits
from lasting_memory.http import requests
from lasting_memory.http.models.base import author_of
from lasting_memory.http.models.export import (
    Export,
    ExportedChange,
    ExportedDeletedFile,
    ExportedFile,
    ExportedOffer,
    ExportedProposal,
    ExportedRevision,
    ExportedTakenBack,
    ExportedValue,
)
from lasting_memory.http.models.files import size_of
from lasting_memory.http.models.person import controls_of
from lasting_memory.http.requests import ROUTE, AboutQuery, Caller
from lasting_memory.memory import journal
from lasting_memory.memory.controls import controls
from lasting_memory.memory.line_times import times_of_file
from lasting_memory.memory.own_offers import OffersOfPerson
from lasting_memory.memory.proposals import Memory
from lasting_memory.memory.sources import signs_in
from lasting_memory.memory.stored_files import stored_file
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people import identity, namespaces
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import get_client
from lasting_memory.recall import owned_by

router = requests.memory_router()
# Conversations, with their messages, that are read at once.
_PAGE = 20
# Ids of conversations that are read at once.
_IDS = 1_000
_CHANGES = TypeAdapter(list[ExportedChange])


@router.get("/memory/export", response_model=Export, dependencies=[requests.in_turn("export")])
async def export(caller: Caller, query: AboutQuery) -> Response:
    """Everything of yours as one JSON document. 429: another export of yours is under way."""
    parts = document(caller.store, get_client(), caller.actor, caller.deployment)
    headers = {"content-disposition": 'attachment; filename="memory.json"'}
    return StreamingResponse(parts, media_type="application/json", headers=headers)


async def document(
    store: BaseStore, client: LangGraphClient, actor: identity.Actor, deployment: Deployment
) -> AsyncIterator[bytes]:
    """The document in parts.

    One memory's histories, or `_PAGE` conversations, are in memory at a time.
    """
    memories = await requests.memories_of(store, actor, deployment)
    proposals, changes = await _proposals(store, actor, deployment, memories)
    head = {
        "version": 1,
        "exported_at": datetime.now(UTC).isoformat(),
        "user_id": actor.user_id,
        "org_id": actor.org_id,
        "proposals": [proposal.model_dump() for proposal in proposals],
        "proposed_changes": changes,
        "offers": await _offers(store, actor, deployment),
        "dream": await consolidation.exported_dream(store, actor),
        "taken_back": await _taken_back(store, memories),
        "left_out": ["temporary conversations"],
        "controls": controls_of(await controls(store, actor, deployment)).model_dump(),
    }
    head_json = json.dumps(head).removesuffix("}")
    yield head_json.encode()
    files = _Files(store, deployment.limits)
    entries_by_name = {
        "files": files.of(memories),
        "conversations": conversations(client, actor, deployment.agents),
    }
    for name, entries in entries_by_name.items():
        yield f', "{name}": ['.encode()
        comma = b"\n"
        async for entry in entries:
            yield comma + entry
            comma = b",\n"
        yield b"\n]"
    tail = {"deleted_files": files.deleted_files, "unreadable": files.unreadable_values}
    tail_json = await platform.in_thread(_json, tail)
    yield b", " + tail_json.removeprefix(b"{") + b"\n"


async def _proposals(
    store: BaseStore,
    actor: identity.Actor,
    deployment: Deployment,
    memories: Mapping[Namespace, str],
) -> tuple[list[ExportedProposal], dict[str, list[ExportedChange]]]:
    """The undecided proposals, and by their ids the changes that make them again."""
    proposals = list[ExportedProposal]()
    changes = dict[str, list[ExportedChange]]()
    for place, assistant_id in memories.items():
        memory = Memory(store, actor, place, deployment)
        shown_proposals, changes_by_id = await memory.exported_proposals()
        for shown_proposal in shown_proposals:
            proposal = ExportedProposal.model_validate(
                {**shown_proposal, "assistant_id": assistant_id}
            )
            proposals.append(proposal)
        for proposal_id, proposal_changes in changes_by_id.items():
            changes[proposal_id] = _CHANGES.validate_python(proposal_changes)
    return proposals, changes


async def _taken_back(
    store: BaseStore, memories: Mapping[Namespace, str]
) -> list[ExportedTakenBack]:
    """The lines that were taken back in revisions that are no longer kept."""
    lines = list[ExportedTakenBack]()
    for place in memories:
        items = await journal.all_items(store, namespaces.taken_back(place))
        for taken_back_line in journal.taken_back_in(items):
            path = f"{ROUTE}{taken_back_line.path}"
            lines.append({"path": path, "text": taken_back_line.text, "at": taken_back_line.at})
    return lines


async def _offers(
    store: BaseStore, actor: identity.Actor, deployment: Deployment
) -> list[ExportedOffer]:
    """What the person offers to groups, and what became of it."""
    exported_offers = list[ExportedOffer]()
    for offer in await OffersOfPerson(store, actor, deployment).all():
        exported_offers.append(
            {
                "id": offer.id,
                "at": offer.at,
                "status": offer.status,
                "text": offer.text,
                "path": offer.path,
                "folder": offer.route,
                "claim": offer.claim,
                "group": offer.group,
                "keep": offer.keep,
            }
        )
    return exported_offers


class _Files:
    """Reads files with their histories, and collects what is no file any more, or is none at all."""

    def __init__(self, store: BaseStore, limits: Limits) -> None:
        self._store = store
        self._limits = limits
        self.deleted_files = list[ExportedDeletedFile]()
        self.unreadable_values = list[ExportedValue]()

    async def of(self, memories: Mapping[Namespace, str]) -> AsyncIterator[bytes]:
        """The files of these memories, each as JSON."""
        store = self._store
        for namespace, assistant_id in memories.items():
            all_histories = await journal.histories(store, namespace, self._limits)
            history_by_key = dict(all_histories)
            for item in await journal.all_items(store, namespace):
                history = history_by_key.pop(item.key, [])
                file = self._file(item, _revisions(history), assistant_id)
                if file is not None:
                    yield await platform.in_thread(_json, file)
            # The other histories are of files that were deleted.
            for key, history in history_by_key.items():
                if history:
                    path = f"{ROUTE}{key}"
                    self._add_deleted(path, _revisions(history), assistant_id)

    def _file(
        self, item: Item, revisions: list[ExportedRevision], assistant_id: str
    ) -> ExportedFile | None:
        """A file as it is exported; None, and noted as unreadable, for an item that is no file."""
        path = f"{ROUTE}{item.key}"
        try:
            file = stored_file(item)
        except RefusedWrite:
            value: ExportedValue = {"path": path, "value": item.value}
            if assistant_id:
                value["assistant_id"] = assistant_id
            self.unreadable_values.append(value)
            return None
        entry: ExportedFile = {
            "path": path,
            "content": file["content"],
            "encoding": file["encoding"],
            "sources": signs_in(item.value),
            "revisions": revisions,
        }
        if "created_at" in file:
            entry["created_at"] = file["created_at"]
        if "modified_at" in file:
            entry["modified_at"] = file["modified_at"]
        times = times_of_file(item)
        if times:
            entry["written"] = times
        if assistant_id:
            entry["assistant_id"] = assistant_id
        return entry

    def _add_deleted(self, path: str, revisions: list[ExportedRevision], assistant_id: str) -> None:
        """Note a deleted file with its history."""
        file: ExportedDeletedFile = {"path": path, "revisions": revisions}
        if assistant_id:
            file["assistant_id"] = assistant_id
        self.deleted_files.append(file)


def _json(value: object) -> bytes:
    """A value as JSON; what JSON has no form for becomes a text. Blocks."""
    text = json.dumps(value, default=str)
    return text.encode()


def _revisions(history: Sequence[journal.Revision]) -> list[ExportedRevision]:
    """The revisions of a file, as they are exported."""
    return [
        {
            "revision": revision.number,
            "id": revision.id,
            "at": revision.at,
            "author": author_of(revision.author),
            "deleted": revision.content is None,
            "bytes": size_of(revision),
            "content": revision.content,
        }
        for revision in history
    ]


async def conversations(
    client: LangGraphClient, actor: identity.Actor, agents: Collection[str]
) -> AsyncIterator[bytes]:
    """A person's conversations with these agents as JSON objects with commas, `_PAGE` at a time.

    Temporary ones are left out.
    """
    for metadata in owned_by(actor, agents):
        ids = await _thread_ids(client, metadata)
        for start in range(0, len(ids), _PAGE):
            end = start + _PAGE
            objects = await _threads(client, metadata, ids[start:end])
            if objects:
                yield objects


async def _thread_ids(client: LangGraphClient, metadata: Mapping[str, str]) -> list[str]:
    """The ids of the conversations with this metadata. Pages of a changing list would skip some."""
    threads = list[Thread]()
    while True:
        page = await client.threads.search(
            metadata=dict(metadata),
            sort_by="thread_id",
            sort_order="asc",
            limit=_IDS,
            offset=len(threads),
            select=["thread_id", "metadata"],
        )
        if not page:
            return [str(thread["thread_id"]) for thread in threads if not is_temporary(thread)]
        threads += page


async def _threads(
    client: LangGraphClient, metadata: Mapping[str, str], ids: Sequence[str]
) -> bytes:
    """These conversations as JSON objects with commas between them.

    If the platform cannot read all of them, they are asked for one by one, and one that it cannot
    read has an `error`. Raises `HTTPStatusError` for a 503, which is an outage.

    The platform's JSON is passed on as it is: decoding it would take several times as long. It is
    streamed because httpx keeps what it has read itself until Python collects cycles.
    """
    fields = ["thread_id", "created_at", "updated_at", "metadata", "values"]
    query = {"metadata": metadata, "limit": len(ids), "select": fields, "ids": ids}
    http = client.http.client
    try:
        async with http.stream("POST", "/threads/search", json=query) as answer:
            answer.raise_for_status()
            parts = [part async for part in answer.aiter_bytes()]
        array = b"".join(parts).strip()
        return array[1:-1]
    except httpx.HTTPStatusError as error:
        if error.response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            raise
    if len(ids) == 1:
        unreadable = {"thread_id": ids[0], "error": "It cannot be read."}
        return json.dumps(unreadable).encode()
    objects = list[bytes]()
    for thread_id in ids:
        thread = await _threads(client, metadata, [thread_id])
        if thread:
            objects.append(thread)
    return b",\n".join(objects)
