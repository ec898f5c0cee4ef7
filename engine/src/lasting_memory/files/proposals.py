"""Changes that wait for their person: of consolidation, and, if the person wants that, of the agent in a conversation.

A proposal is an item of its own, which also keeps what was declined of it. The agent's writes of one run are one proposal.
"""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import uuid4

from langgraph.store.base import BaseStore, Item
from pydantic import TypeAdapter, ValidationError

from lasting_memory import journal
from lasting_memory.deployment import Deployment
from lasting_memory.files.changes import Changed
from lasting_memory.journal import Began, Change
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import lock_of
from lasting_memory.validation import RefusedWrite, stored_file

# Undecided proposals of a person, at which nothing more is proposed.
MAX_PROPOSALS = 20
_ALL = 1_000


class Dated(NamedTuple):
    """A line that was taken back, or what the person said; and when, in ISO format, UTC."""

    text: str
    at: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """Changes that wait for their person, for revisions of this author."""

    id: str
    at: str
    memory: str  # the last part of the files' namespace
    author: Author
    changes: list[Changed]  # the undecided ones
    threads: list[str]
    decided: list[str] = field(default_factory=list)  # paths
    declined: list[Dated] = field(default_factory=list)
    kind: str = "conversations"  # what it was made of (`consolidation.Kind`), or "agent": the agent wrote it
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)  # why a line goes, by path and line


_PROPOSALS = TypeAdapter(Proposal)


async def propose(store: BaseStore, actor: Actor, proposal: Proposal, began: Began | None) -> None:
    """Keep a proposal. Raises `RefusedWrite` if its person was forgotten since then."""
    place = namespaces.proposals(actor)
    value = await asyncio.to_thread(_PROPOSALS.dump_python, proposal, mode="json")
    await store.aput(place, proposal.id, value, index=False)
    if await journal.is_forgotten(store, began):
        await store.adelete(place, proposal.id)
        raise RefusedWrite("What is remembered of this person was deleted meanwhile.")


async def proposals(store: BaseStore, actor: Actor, files: Namespace) -> list[Proposal]:
    """A memory's proposals with those that were decided, oldest first. A damaged one is left out."""
    items = await store.asearch(namespaces.proposals(actor), limit=_ALL)
    known = [each for item in items if (each := await asyncio.to_thread(_read, item)) and each.memory == files[-1]]
    return sorted(known, key=lambda each: each.at)


def _read(item: Item) -> Proposal | None:
    try:
        return _PROPOSALS.validate_python(item.value)
    except ValidationError:
        return None


def deciding(proposal_id: str) -> asyncio.Lock:
    """Held while a proposal is decided or grows: two tabs of one person, or two writes of one run."""
    return lock_of("deciding", proposal_id)


async def propose_write(
    store: BaseStore,
    actor: Actor,
    files: Namespace,
    *,
    key: str,
    change: Change,
    author: Author,
    deployment: Deployment,
    began: Began | None,
) -> None:
    """Have a change of a text wait for its person, on top of what this run has proposed before.

    Raises `ValueError` if `change` refuses it, or too much waits already. Nothing was proposed.
    """
    proposal_id, limits = f"{author.run_id or uuid4().hex}-{author.kind}", deployment.limits
    async with deciding(proposal_id):
        known = {each.id: each for each in await proposals(store, actor, files)}
        at, thread_ids = datetime.now(UTC).isoformat(), [author.thread_id] if author.thread_id else []
        new = Proposal(proposal_id, at, files[-1], author, [], thread_ids, kind="agent")
        proposal = known.pop(proposal_id, new)
        if sum(bool(each.changes) for each in known.values()) >= MAX_PROPOSALS:
            raise RefusedWrite(
                "The person has too many undecided proposals; nothing is added before they decide. Tell them so."
            )
        item = await store.aget(files, key)
        present = stored_file(item) if item else None
        waiting = next((each for each in proposal.changes if each.key == key), None)
        file = await asyncio.to_thread(waiting.merged, present, author, deployment) if waiting else present
        after = change(file)
        if any(file and file["encoding"] != "utf-8" for file in (present, after)):
            raise RefusedWrite(f"{key} is not text, so a change of it cannot wait for the person.")
        before, then = (file["content"] if file else None for file in (present, after))
        changes = [each for each in proposal.changes if each.key != key]
        changes += [Changed(key, before or "", then or "", deleted=then is None)] if before != then else []
        if len(changes) > limits.max_files or sum(len(each.after.encode()) for each in changes) > limits.max_bytes:
            raise RefusedWrite(f"More than {limits.max_files} files or {limits.max_bytes:,} bytes would wait for the person.")
        decided = [path for path in proposal.decided if path != f"/memories{key}"]
        await propose(store, actor, replace(proposal, changes=changes, decided=decided), began)
