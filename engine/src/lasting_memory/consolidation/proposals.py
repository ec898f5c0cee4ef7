"""Applying a batch's changes to the files, at once or after their person has accepted them.

Others' changes since the batch began stay. A proposal is an item of its own, which also keeps what was declined of it. Its
conversations count as consolidated. A newer proposal assumes that the older ones are accepted.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from langgraph.store.base import BaseStore, Item, PutOp
from pydantic import TypeAdapter, ValidationError

from lasting_memory import journal
from lasting_memory.consolidation.guard import Changed, added_facts, diffs
from lasting_memory.consolidation.taken_back import Dated
from lasting_memory.deployment import Deployment
from lasting_memory.journal import Began
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor, Author
from lasting_memory.people.namespaces import Namespace
from lasting_memory.platform import lock_of
from lasting_memory.validation import RefusedWrite, content_size

# Undecided proposals of a person, at which consolidation stops proposing; and proposals whose decision is known.
MAX_PROPOSALS, _DECIDED_KEPT = 20, 200
_ALL = 1_000


class UnknownProposalError(RefusedWrite):
    """No proposal has this id, or it changes no such file."""


class DecidedError(RefusedWrite):
    """The person decided about this before."""


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
    kind: str = "conversations"  # what it was made of (`drafts.Kind`)
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)  # why a line goes, by path and line


_PROPOSALS = TypeAdapter(Proposal)


async def files_of(store: BaseStore, files: Namespace) -> dict[str, Item]:
    """All files of a namespace, by key."""
    return {item.key: item for item in await journal.all_items(store, files)}


def applied(
    items: Mapping[str, Item], changes: Iterable[Changed], author: Author, deployment: Deployment, *, skip: bool = False
) -> dict[str, Item]:
    """The files with these changes. Raises `ValueError` for one that cannot be made, or, with `skip`, leaves it out. Blocks."""
    result = dict(items)
    for change in changes:
        try:
            after = change.merged_item(result.get(change.key), author, deployment)
        except ValueError:
            if not skip:
                raise
            continue
        result.pop(change.key, None)
        result |= {change.key: after} if after else {}
    return result


async def refusal(
    store: BaseStore, files: Namespace, changes: Sequence[Changed], author: Author, deployment: Deployment
) -> str | None:
    """The reason why the present files cannot take these changes, or None."""
    items = await files_of(store, files)
    try:
        after = await asyncio.to_thread(applied, items, changes, author, deployment)
    except ValueError as error:
        return str(error)
    limits = deployment.limits
    before, then = sum(map(content_size, items.values())), sum(map(content_size, after.values()))
    if then > max(before, limits.max_bytes) or len(after) > max(len(items), limits.max_files):
        return f"It has {len(after)} files of {limits.max_files}, {then:,} bytes of {limits.max_bytes:,}; shorten it."
    return None


async def apply(
    store: BaseStore,
    files: Namespace,
    changes: Iterable[Changed],
    author: Author,
    deployment: Deployment,
    *,
    began: Began | None,
) -> dict[str, str]:
    """Make one revision of each file, additions first, for a fact that moves. Returns by path why some were not made."""
    refused = dict[str, str]()
    for change in sorted(changes, key=lambda change: len(change.before) - len(change.after)):
        try:
            merged = partial(change.merged, author=author, deployment=deployment)
            await journal.change(store, files, change.key, merged, author, began=began, limits=deployment.limits)
        except ValueError as error:
            refused[change.path] = str(error)
    return refused


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


async def shown_proposals(store: BaseStore, actor: Actor, files: Namespace) -> list[dict[str, Any]]:
    """The undecided proposals as their person sees them, oldest first."""
    return [await asyncio.to_thread(_shown, each) for each in await proposals(store, actor, files) if each.changes]


def _shown(proposal: Proposal) -> dict[str, Any]:
    """A proposal with its changes as diffs and as lines, each with the number by which it is decided. Blocks."""
    lines = {
        change.path: [
            {"line": number, "sign": sign, "text": text, "reason": proposal.reasons.get(change.path, {}).get(text.strip(), "")}
            for number, (sign, text) in enumerate(change.lines())
        ]
        for change in proposal.changes
    }
    told = {"id": proposal.id, "at": proposal.at, "kind": proposal.kind, "threads": proposal.threads}
    return {**told, "files": diffs(proposal.changes), "lines": lines}


async def decide(
    store: BaseStore,
    actor: Actor,
    files: Namespace,
    proposal_id: str,
    *,
    accept: bool,
    paths: Sequence[str] | None,
    lines: Mapping[str, Mapping[int, str | None]] = MappingProxyType({}),
    began: Began,
    deployment: Deployment,
) -> dict[str, str]:
    """Accept or decline all undecided files of a proposal, or some. Returns, by path, why some accepted ones wait again.

    `lines` are those to accept of these files, by number, with the text that the person writes instead or None; the file's
    other lines are declined. A revision of the person's own puts in what they wrote.

    Raises `UnknownProposalError`, `DecidedError`, or, if the present files cannot take the changes, `RefusedWrite`.
    """
    async with lock_of("deciding", proposal_id):  # two tabs of one person
        item = await store.aget(namespaces.proposals(actor), proposal_id)
        proposal = await asyncio.to_thread(_read, item) if item else None
        if proposal is None or proposal.memory != files[-1]:
            raise UnknownProposalError(f"There is no proposal {proposal_id[:40]!r}; GET /memory/proposals lists them.")
        if not proposal.changes or {*(paths or ())} & {*proposal.decided}:
            raise DecidedError(f"Proposal {proposal_id}, or one of these files, was decided already.")
        wanted = [change for change in proposal.changes if paths is None or change.path in paths]
        if unknown := {*(paths or ()), *lines} - {change.path for change in wanted}:
            raise UnknownProposalError(f"Proposal {proposal_id} changes no file {min(unknown)[:80]!r}.")
        refused, taken = dict[str, str](), list[Changed]()
        if accept:
            parts = [change.only(lines[change.path]) for change in wanted if change.path in lines]
            whole = [change for change in wanted if change.path not in lines]
            taken = [*whole, *(replace(own, after=theirs.after) for own, theirs in parts)]
            if reason := await refusal(store, files, taken, proposal.author, deployment):
                raise RefusedWrite(reason)
            own = [*whole, *(own for own, _ in parts if own.deleted or own.before != own.after)]
            refused = await apply(store, files, own, proposal.author, deployment, began=began)
            edited = [each for _, each in parts if each.before != each.after and each.path not in refused]
            author = Author("person", actor.user_id)
            refused |= await apply(store, files, edited, author, deployment, began=began)
        declined = await asyncio.to_thread(_declined, [each for each in wanted if each.path not in refused], taken, began.at)
        over = {change.path for change in wanted} - refused.keys()
        left = [change for change in proposal.changes if change.path not in over]
        known = [*proposal.declined, *declined]
        proposal = replace(proposal, changes=left, decided=sorted({*proposal.decided, *over}), declined=known)
        await propose(store, actor, proposal, began)
        old = [each.id for each in await proposals(store, actor, files) if not each.changes][:-_DECIDED_KEPT]
        await store.abatch([PutOp(namespaces.proposals(actor), each, None) for each in old])
        return refused


def _declined(changes: Iterable[Changed], taken: Iterable[Changed], at: str) -> list[Dated]:
    """The facts that these changes would have added, but for those that are taken. Blocks."""
    known = {key for change in taken for key in added_facts(change)}
    return [Dated(line, at) for change in changes for key, line in added_facts(change).items() if key not in known]
