"""An export, merged into a person's memory.

Merging removes nothing. It creates missing files and appends missing lines to Markdown files, in
their order; other existing files stay as they are. Conversations come as history: their text alone,
to be read and searched, never continued, and never consolidated as what the person says. Proposals
come undecided, and pause and review can only be turned on.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID, uuid5

from deepagents.backends.protocol import FileData
from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from langgraph.store.base import Item
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError
from pydantic import BaseModel, Field, ValidationError, model_validator
from starlette.exceptions import HTTPException

from lasting_memory import controls, days, journal, platform
from lasting_memory.attachments import own_text
from lasting_memory.auth.share import THREAD_IN_REQUESTS, share_of
from lasting_memory.deployment import Change
from lasting_memory.files.proposals import MAX_PROPOSALS, Changed, Proposal
from lasting_memory.http import requests
from lasting_memory.http.requests import Answer, Caller, MemoryQuery, PersonRequest, key_of
from lasting_memory.people import identity
from lasting_memory.plain_text import compared, plain
from lasting_memory.stored_files import file_bytes, stored_file
from lasting_memory.validation import RefusedWrite, check_change, check_content, check_file

router = APIRouter(tags=["Memory"])
# Of one import. What a memory may have beside what is there is checked file by file.
MOST_FILES, MOST_CONVERSATIONS = 10_000, 1_000
# Of one conversation: messages, and characters of all of them. A longer one is left out.
_MESSAGES, _CHARS = 5_000, 2_000_000
_TITLE_CHARS = 200
# The namespace of the ids of imported conversations; ids of one conversation that are tried, if
# somebody else has it.
_IDS, _TRIES = UUID("0f0b4c1e-5a53-4c39-9b0c-6b7f1f0f6d52"), 5
# Threads that one search finds.
_LISTED = 1_000
# Before this nobody talked to an assistant.
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_SPEAKERS = ("human", "ai")
_KINDS = ("conversations", "tidy", "bring", "agent")
_FORGOTTEN = "You were forgotten meanwhile; what was imported is gone."


class Imported(BaseModel, strict=True):
    """A file to import. What else an export has of it is ignored."""

    path: requests.Path
    content: str
    encoding: Literal["utf-8", "base64"] = "utf-8"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.encoding == "utf-8":
            self.content = plain(self.content)
        file_bytes(self.merged(None))
        return self

    def merged(self, before: FileData | None) -> FileData:
        """The merged file, given the existing one."""
        if before is None:
            return FileData(content=self.content, encoding=self.encoding)
        if not self.path.endswith(".md") or {before["encoding"], self.encoding} != {"utf-8"}:
            return before
        known = {compared(line) for line in journal.lines_of(before["content"])}
        lacking = [
            line
            for line in journal.lines_of(self.content)
            if line.strip() and compared(line) not in known
        ]
        gap = "\n" if before["content"] and not before["content"].endswith("\n") and lacking else ""
        return FileData(
            content=before["content"] + gap + "".join(f"{line}\n" for line in lacking),
            encoding="utf-8",
        )


class ImportedChange(BaseModel, strict=True):
    path: requests.Path
    before: str
    after: str
    deleted: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_content(self.path, self.before)
        check_content(self.path, self.after)
        return self


ImportedChanges = Annotated[list[ImportedChange], Field(max_length=MOST_FILES)]


class ImportedProposal(BaseModel, strict=True):
    """A proposal of an export, as its person saw it. `proposed_changes` has what makes it again."""

    id: str = ""
    kind: str = "bring"


class ImportedConversation(BaseModel, strict=True):
    """A conversation as the platform gives it. What cannot be read of it is left out."""

    thread_id: Annotated[str, Field(max_length=200)]
    created_at: Any = None
    updated_at: Any = None
    metadata: Any = None
    values: Any = None


class ImportedControls(BaseModel, strict=True):
    paused: bool = False
    review: bool = False
    review_agent: bool = False


class Document(BaseModel, strict=True):
    """An export, or a part of one. Its other parts are ignored."""

    version: Literal[1]
    files: Annotated[list[Imported], Field(max_length=MOST_FILES)]
    proposals: Annotated[list[ImportedProposal], Field(max_length=MOST_FILES)] = Field(
        default_factory=list
    )
    proposed_changes: Annotated[dict[str, ImportedChanges], Field(max_length=MOST_FILES)] = Field(
        default_factory=dict
    )
    controls: ImportedControls = ImportedControls()
    conversations: Annotated[list[ImportedConversation], Field(max_length=MOST_CONVERSATIONS)] = (
        Field(default_factory=list)
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        twice = [
            path for path, times in Counter(file.path for file in self.files).items() if times > 1
        ]
        if twice:
            raise ValueError(
                f"{twice[0]} is there more than once; import one assistant's files at a time"
            )
        return self


_LIST, _OBJECT = {"type": "array", "items": {"type": "object"}}, {"type": "object"}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "description": "An export (GET /memory/export), or a part of one.",
                    "required": ["version", "files"],
                    "properties": {
                        "version": {"const": 1},
                        **dict.fromkeys(("files", "proposals", "conversations"), _LIST),
                        **dict.fromkeys(("proposed_changes", "controls"), _OBJECT),
                    },
                },
            },
        },
    },
}  # fmt: skip


@router.post("/memory/import", dependencies=[requests.in_turn("import")], openapi_extra=_BODY)
async def import_document(caller: Caller, query: MemoryQuery) -> Answer:
    """Merge an export, or a part of one, into your memory. To repeat it adds nothing.

    `files` are path and action: create, append (Markdown, of which lines were missing), keep
    (another one is there), same. `conversations` become history that is read and searched: their
    text alone, under new ids and marked `imported`, never continued, and never consolidated; counts
    of those `created`, that were `there`, and `left_out` because they cannot be read, say nothing
    or are too long. `proposals`: how many wait for you again; `controls`: pause and review, which
    are turned on where the export or you have them on. At most 10,000 files and 1,000
    conversations: send further ones in another part. 409: a file does not fit beside what is there;
    those before it were imported, and it can be repeated. 429: another import of yours is under
    way.
    """
    body = await platform.in_thread(_parsed, await caller.http.body())
    controls_now = await _tighten(caller, body.controls)
    proposals = await _import_proposals(caller, body)
    files = await _import_files(caller, body.files)
    async with get_client() as client:
        conversations = await _import_conversations(caller, client, body.conversations)
    return {
        "files": files,
        "proposals": proposals,
        "controls": controls_now,
        "conversations": conversations,
    }


def _parsed(body: bytes) -> Document:
    """The document. Raises as FastAPI for what is none. Blocks."""
    try:
        return Document.model_validate(json.loads(body))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False, include_context=False)
        raise RequestValidationError(
            [{**each, "loc": ("body", *each["loc"])} for each in errors[:1]]
        ) from None
    except (ValueError, RecursionError):
        raise RequestValidationError(
            [{"type": "json_invalid", "loc": ("body",), "msg": "JSON decode error"}]
        ) from None


def _check_file(caller: PersonRequest, file: Imported, there: Item | None) -> None:
    """Raise `RefusedWrite` for a file that must not be remembered, or not be merged with what is
    there. Blocks.
    """
    check_file(caller.deployment, file.path, file.content, caller.author, file.encoding)
    try:
        before = stored_file(there) if there else None
    except RefusedWrite:  # the import says so when it comes to it
        return
    after = file.merged(before)["content"]
    text = before["content"] if before else None
    if text != after:
        check_change(caller.deployment, Change(file.path, text, after, caller.author))


async def _import_files(caller: PersonRequest, files: Sequence[Imported]) -> list[Answer]:
    if len(files) > (most := caller.deployment.limits.max_files):
        raise RefusedWrite(f"There are {len(files)} files, and {most} is the limit; import fewer.")
    stored = {item.key: item for item in await journal.all_items(caller.store, caller.namespace)}
    for file in files:
        await platform.in_thread(_check_file, caller, file, stored.get(key_of(file.path)))
    done = list[Answer]()
    for file in files:
        item = stored.get(key_of(file.path))
        try:
            before = stored_file(item) if item else None
            action = "same" if before and before["content"] == file.content else "keep"
            if before is None or file.merged(before)["content"] != before["content"]:
                action = "append" if before else "create"
                await caller.files.arevise(key_of(file.path), file.merged)
        except RefusedWrite as error:
            raise HTTPException(
                409, f"{error} {len(done)} files before it were imported."
            ) from None
        done.append({"path": file.path, "action": action})
    return done


async def _import_proposals(caller: PersonRequest, document: Document) -> int:
    """Propose what an export proposes, unless it was imported before, or too much waits. Returns
    how many wait now.
    """
    memory, author = caller.memory, identity.Author("consolidation", caller.actor.user_id)
    if caller.deployment.consolidation is None:  # nobody could decide about them
        return 0
    known = (
        {each.id: bool(each.changes) for each in await memory.proposals()}
        if document.proposed_changes
        else {}
    )
    waiting, made = sum(known.values()), 0
    kinds = {proposal.id: proposal.kind for proposal in document.proposals}
    for exported_id, imported in document.proposed_changes.items():
        changes = [
            Changed(key_of(change.path), change.before, change.after, change.deleted)
            for change in imported
        ]
        proposal_id = f"imported-{_own_id(caller.actor, repr((memory.files, changes)))}"
        size = sum(len(each.before) + len(each.after) for each in changes)
        if (
            not changes
            or proposal_id in known
            or waiting >= MAX_PROPOSALS
            or size > 2 * caller.deployment.limits.max_bytes
        ):
            continue
        kind = kinds.get(exported_id, "")
        kind = kind if kind in _KINDS else "bring"
        at = datetime.now(UTC).isoformat()
        await memory.propose(
            Proposal(proposal_id, at, memory.files[-1], author, changes, [], kind=kind)
        )
        known[proposal_id] = True
        waiting += 1
        made += 1
    return made


async def _tighten(caller: PersonRequest, given: ImportedControls) -> dict[str, bool]:
    """Turn on what the export has on. The person alone does that. Returns what is on now."""
    present = await controls.controls(caller.store, caller.actor, caller.deployment)
    on = {
        name: True
        for name, is_on in given.model_dump().items()
        if is_on and not getattr(present, name)
    }
    if not on or caller.author.kind == "operator":
        return present.told()
    if not await controls.set_controls(caller.store, caller.actor, on, caller.began):
        raise HTTPException(409, _FORGOTTEN)
    return replace(present, **on).told()


# --- Conversations


@dataclass(frozen=True, slots=True)
class _Talk:
    """A conversation to import: its text, and metadata of ours and the allowed ones of the
    document's.
    """

    original_id: str
    messages: Sequence[tuple[str, str]]  # type and text
    times: Sequence[str]  # when each was said; "" where nobody noted it
    metadata: Mapping[str, Any]

    def ids(self, actor: identity.Actor) -> Iterator[str]:
        """The ids that it may have: the same for the same person and text, whoever computes them,
        and nobody else's.
        """
        digest = hashlib.sha256(json.dumps([self.original_id, self.messages]).encode()).hexdigest()
        for number in range(_TRIES):
            yield _own_id(actor, f"{number}/{digest}")

    def supersteps(self, thread_id: str) -> list[dict[str, Any]]:
        """What puts the messages into a thread, and leaves nothing to be done there."""
        messages = list[dict[str, Any]]()
        for number, ((kind, text), at) in enumerate(zip(self.messages, self.times, strict=True)):
            message: dict[str, Any] = {
                "type": kind,
                "content": text,
                "id": str(uuid5(UUID(thread_id), str(number))),
            }
            messages.append({**message, "additional_kwargs": {days.SAID_AT: at}} if at else message)
        said = {"values": {"messages": messages}, "as_node": "__start__"}
        return [{"updates": [said]}, {"updates": [{"values": None, "as_node": "__end__"}]}]


def _own_id(actor: identity.Actor, name: str) -> str:
    return str(uuid5(uuid5(_IDS, json.dumps([actor.org_id, actor.user_id])), name))


def _talks(given: Sequence[ImportedConversation], agent: str, actor: identity.Actor) -> list[_Talk]:
    """The conversations that can be read and say something. Blocks."""
    talks = list[_Talk]()
    for entry in given:
        messages = _messages(entry.values)
        if (
            not messages
            or len(messages) > _MESSAGES
            or sum(len(text) for _, text in messages) > _CHARS
        ):
            continue
        told = entry.metadata if isinstance(entry.metadata, Mapping) else {}
        began, ended = _times(
            told.get(controls.IMPORTED_BEGAN) or entry.created_at,
            told.get(controls.IMPORTED_ENDED) or entry.updated_at,
        )
        metadata: dict[str, Any] = {
            "graph_id": agent,
            "user_id": actor.user_id,
            "org_id": actor.org_id,
            controls.IMPORTED: True,
        }
        metadata |= {
            name: at
            for name, at in ((controls.IMPORTED_BEGAN, began), (controls.IMPORTED_ENDED, ended))
            if at
        }
        title = told.get("title")
        if isinstance(title, str) and title.strip():
            metadata["title"] = " ".join(_kept(title[:_TITLE_CHARS]).split())
        times = [at for _, _, at in _spoken(entry.values)]
        talks.append(_Talk(entry.thread_id, messages, times, metadata))
    return talks


def _messages(values: object) -> list[tuple[str, str]]:
    """The type and text of what people and assistants said: no system, no tools, nothing attached."""
    return [(kind, text) for kind, text, _ in _spoken(values)]


def _spoken(values: object) -> Iterator[tuple[str, str, str]]:
    """The same, with the time at which each was said; "" where nobody noted it."""
    listed = values.get("messages") if isinstance(values, Mapping) else None
    for message in listed if isinstance(listed, list) else ():
        if isinstance(message, Mapping) and message.get("type") in _SPEAKERS:
            text = _kept(own_text(message))
            if text:
                yield str(message["type"]), text, days.said_at(message)


def _kept(text: str) -> str:
    """A text as a store can keep it: without NUL, and without half a character."""
    return text.replace("\0", " ").encode(errors="replace").decode().strip()


def _times(began: object, ended: object) -> tuple[str, str]:
    """When a conversation began and ended, as far as that can be; "" where it cannot."""
    first, last = _time(began), _time(ended)
    if first and last and first > last:
        return "", last
    return first, last


def _time(stamp: object) -> str:
    try:
        at = datetime.fromisoformat(stamp) if isinstance(stamp, str) else _EARLIEST
    except ValueError:
        return ""
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    try:
        is_plausible = _EARLIEST < at <= datetime.now(UTC)
        return at.astimezone(UTC).isoformat() if is_plausible else ""
    except OverflowError:
        return ""


async def _import_conversations(
    caller: PersonRequest, client: LangGraphClient, given: Sequence[ImportedConversation]
) -> dict[str, int]:
    actor, agents = caller.actor, caller.deployment.agents
    talks = await platform.in_thread(_talks, given, agents[0], actor)
    counts = {"created": 0, "there": 0, "left_out": len(given) - len(talks)}
    wanted = await platform.in_thread(lambda: [(talk, next(talk.ids(actor))) for talk in talks])
    owners = await _owners(
        client,
        {_canonical(talk.original_id) for talk in talks} | {thread_id for _, thread_id in wanted},
    )
    for talk, thread_id in wanted:
        if actor in (owners.get(_canonical(talk.original_id)), owners.get(thread_id)):
            counts["there"] += 1
            continue
        outcome = await _create(caller, client, talk)
        counts[outcome] += 1
    return counts


def _canonical(thread_id: str) -> str:
    """A thread's id; "" for what is none."""
    try:
        return str(UUID(thread_id))
    except ValueError:
        return ""


async def _owners(client: LangGraphClient, thread_ids: set[str]) -> dict[str, identity.Actor]:
    """Whose the threads with these ids are; those without an owner are nobody's."""
    owners = dict[str, identity.Actor]()
    for some in controls.slices(thread_ids - {""}):
        for thread in await client.threads.search(
            ids=some, limit=len(some), select=["thread_id", "metadata"]
        ):
            metadata = thread["metadata"] or {}
            owners[str(thread["thread_id"])] = identity.Actor(
                str(metadata.get("user_id")), str(metadata.get("org_id"))
            )
    return owners


async def _create(
    caller: PersonRequest, client: LangGraphClient, talk: _Talk
) -> Literal["created", "there", "left_out"]:
    """Make a conversation, under the first of its ids that nobody else has."""
    if caller.author.kind != "operator":
        share_of(caller.actor, caller.deployment.limits).charge(THREAD_IN_REQUESTS)
    for thread_id in talk.ids(caller.actor):
        if await journal.is_forgotten(caller.store, caller.began):
            raise HTTPException(409, _FORGOTTEN)
        steps: Any = talk.supersteps(thread_id)
        try:
            made = await client.threads.create(
                thread_id=thread_id,
                metadata=dict(talk.metadata),
                if_exists="raise",
                supersteps=steps,
            )
        except ConflictError:
            owner = (await _owners(client, {thread_id})).get(thread_id)
            if owner == caller.actor:
                return "there"
            continue
        is_forgotten = await journal.is_forgotten(caller.store, caller.began)
        if (
            is_forgotten or "thread_id" not in made
        ):  # of a thread without its messages the platform says that it is made
            await client.threads.delete(thread_id)
        if is_forgotten:
            raise HTTPException(409, _FORGOTTEN)
        return "created" if "thread_id" in made else "left_out"
    return "left_out"
