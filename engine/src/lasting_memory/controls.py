"""A person's controls over their memory: paused memory, reviewed changes, temporary conversations;
and how much is used.

What is said in a paused or temporary conversation is marked in its thread's metadata, which only
the server sets. The platform copies a thread's metadata to its runs, and to copies of the thread.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from langgraph.config import get_config
from langgraph.store.base import BaseStore, GetOp, Item, PutOp
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError
from langgraph_sdk.schema import RunStatus

from lasting_memory import journal, platform
from lasting_memory.attachments import file_names, own_text
from lasting_memory.deployment import Deployment, Limits
from lasting_memory.people import identity, namespaces
from lasting_memory.stored_files import content_size

logger = logging.getLogger(__name__)

# --- Pause and review: an item each, so that changing one leaves the other alone.

PAUSED = "Memory is paused"
NAMES = ("paused", "review", "review_agent")


@dataclass(frozen=True, slots=True)
class Controls:
    """One person's controls."""

    paused: bool = False  # memory stays in use, and takes nothing new
    review: bool = False  # consolidation proposes its changes to the person
    review_agent: bool = False  # the agent proposes what it would write during a conversation

    def told(self) -> dict[str, bool]:
        """As clients see them, by name: what came later than the others is there where it is on."""
        return {name: on for name, on in asdict(self).items() if on or name != "review_agent"}


def read_controls(actor: identity.Actor) -> list[GetOp]:
    """The operations whose results `controls_of` takes."""
    return [GetOp(namespaces.controls(actor), name) for name in NAMES]


def controls_of(items: Sequence[object], deployment: Deployment) -> Controls:
    """The controls in these items, with the deployment's defaults. Shared memory has no controls,
    nor has none.
    """
    if not deployment.has_own_memory:
        return Controls()
    paused, review, agent = (
        item.value.get("on") is True if isinstance(item, Item) else None for item in items
    )
    review = deployment.settings.consolidation_review == "on" if review is None else review
    return Controls(bool(paused), review, bool(agent) and deployment.consolidation is not None)


async def controls(store: BaseStore, actor: identity.Actor, deployment: Deployment) -> Controls:
    """A person's present controls."""
    return controls_of(await store.abatch(read_controls(actor)), deployment)


async def set_controls(
    store: BaseStore,
    actor: identity.Actor,
    given: Mapping[str, bool],
    began: journal.Began | None = None,
) -> bool:
    """Change the given controls, by name. Returns False if the person was forgotten since this
    `began`: nothing is changed.
    """
    namespace = namespaces.controls(actor)
    at = datetime.now(UTC).isoformat()
    ops = [PutOp(namespace, name, {"on": on, "at": at}, index=False) for name, on in given.items()]
    return await journal.put_unless_forgotten(store, ops, began)


# --- Until when a person has looked at what changed. The page points out what is newer.

_SEEN = "seen"


async def seen_until(store: BaseStore, actor: identity.Actor) -> str:
    """The ISO time in UTC until which a person has seen the changes of their memory; "" for never."""
    item = await store.aget(namespaces.controls(actor), _SEEN)
    return str(item.value.get("until", "")) if item else ""


async def set_seen(
    store: BaseStore, actor: identity.Actor, until: str, began: journal.Began | None = None
) -> bool:
    """Note until when a person has seen the changes of their memory. Returns False as
    `set_controls`.
    """
    op = PutOp(namespaces.controls(actor), _SEEN, {"until": until}, index=False)
    return await journal.put_unless_forgotten(store, [op], began)


# --- Marks of threads

# On a thread that its creator asked to leave nothing behind.
TEMPORARY = "temporary"
# On a thread in which something was said while its person's memory was paused.
HELD_WHILE_PAUSED = "held_while_paused"
# On a conversation that was imported: it is read and searched, never continued, and never
# consolidated. And when it began and ended, in ISO format, UTC, where the document says so.
IMPORTED = "imported"
IMPORTED_BEGAN = "imported_began"
IMPORTED_ENDED = "imported_ended"
# Metadata of the runs that consolidation's triggers create.
RUN_METADATA = ("trigger", "consolidates")
# Metadata that only this process may set, while it does: an in-process call carries this to
# `auth.py`, no request can set it.
setting: ContextVar[Collection[str]] = ContextVar("setting", default=())


@contextmanager
def may_set(*names: str) -> Iterator[None]:
    """Meanwhile, this task's own calls may set this metadata."""
    token = setting.set(names)
    try:
        yield
    finally:
        setting.reset(token)


def is_temporary(thread: Mapping[str, Any]) -> bool:
    """Whether a thread, read with its metadata, is a temporary conversation."""
    return bool((thread.get("metadata") or {}).get(TEMPORARY))


def is_imported(thread: Mapping[str, Any]) -> bool:
    """Whether a thread, read with its metadata, is an imported conversation."""
    return bool((thread.get("metadata") or {}).get(IMPORTED))


def stays_out(thread: Mapping[str, Any]) -> bool:
    """Whether a thread is never consolidated."""
    return (
        is_temporary(thread)
        or is_imported(thread)
        or bool((thread.get("metadata") or {}).get(HELD_WHILE_PAUSED))
    )


async def keep_out(thread_id: str, metadata: Mapping[str, Any] | None) -> None:
    """Mark a thread, so that consolidation skips what was said during the pause. `metadata`: its
    own, or a run's.
    """
    if (metadata or {}).get(HELD_WHILE_PAUSED):
        return
    with (
        may_set(HELD_WHILE_PAUSED),
        suppress(NotFoundError),
    ):  # a stateless run, whose thread is gone
        await get_client().threads.update(thread_id, metadata={HELD_WHILE_PAUSED: True})


# --- Titles of threads

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


# --- Temporary conversations

_PAGE = 100
_FIELDS: list[Any] = ["thread_id", "updated_at", "status", "metadata"]


def in_temporary_conversation() -> bool:
    """Whether the current run belongs to a temporary conversation. False outside of runs."""
    try:
        return bool((get_config().get("metadata") or {}).get(TEMPORARY))
    except RuntimeError:
        return False


async def delete_temporary(
    client: LangGraphClient, hours: float, actor: identity.Actor | None = None
) -> None:
    """Delete temporary conversations, the actor's or all, so many hours after their last turn."""
    of_actor = asdict(actor) if actor else {}
    await delete_idle(
        client, {TEMPORARY: True, **of_actor}, datetime.now(UTC) - timedelta(hours=hours)
    )


async def delete_idle(
    client: LangGraphClient,
    wanted: Mapping[str, Any],
    before: datetime,
    spared: Callable[[list[Any]], Awaitable[Collection[str]]] | None = None,
    store: BaseStore | None = None,
) -> list[Any]:
    """Delete the idle threads with this metadata that have not changed since then. Returns them.

    `spared` gives the ids of those, of a page, that stay for now. With a `store`, what their runs
    still try to write is refused: one may go on although its thread is called idle, or begin at
    this moment.
    """
    deleted = list[Any]()
    left = 0
    while True:
        page: list[Any] = await client.threads.search(
            metadata=dict(wanted),
            limit=_PAGE,
            offset=left,
            sort_by="updated_at",
            sort_order="asc",
            select=_FIELDS,
        )
        over = [
            thread for thread in page if datetime.fromisoformat(str(thread["updated_at"])) < before
        ]
        stays = await spared(over) if spared else ()
        goes = [
            thread
            for thread in over
            if thread["status"] != "busy" and thread["thread_id"] not in stays
        ]
        if store is not None:
            await note_deleted(store, goes)
        for thread in over:
            left += 1
            if thread in goes:
                with suppress(
                    ConflictError, NotFoundError
                ):  # another request deleted it, or continues it
                    await client.threads.delete(str(thread["thread_id"]))
                    deleted.append(thread)
                    left -= 1
        if len(over) < _PAGE:
            return deleted


# --- Stopping the runs of conversations that are deleted

# Seconds that the cancelled runs of a conversation have to end. A slower one writes no memory.
STOP_SECONDS = 10.0
_RUNS = 100
_LOOK_SECONDS = 0.05
# Threads that one search finds.
_IDS = 1_000


def slices(ids: Iterable[str]) -> Iterator[list[str]]:
    """The ids in lists of so many, as one search takes them."""
    every = sorted(ids)
    for start in range(0, len(every), _IDS):
        yield every[start : start + _IDS]


async def cancel_runs(client: LangGraphClient, thread_id: str, stopped: set[str]) -> None:
    """Cancel what runs or waits on a thread, but the runs in `stopped`, to which those are added."""
    states: tuple[RunStatus, ...] = ("pending", "running")
    with suppress(NotFoundError):  # the thread, or the last of its runs, ended meanwhile
        runs = [
            run
            for state in states
            for run in await client.runs.list(thread_id, limit=_RUNS, status=state)
        ]
        if run_ids := {str(run["run_id"]) for run in runs} - stopped:
            await client.runs.cancel_many(thread_id=thread_id, run_ids=[*run_ids])
            stopped |= run_ids


async def stop_runs(client: LangGraphClient, thread_ids: Collection[str]) -> None:
    """Cancel the runs of these threads, and wait until they have ended, for at most `STOP_SECONDS`."""
    stopped = set[str]()
    deadline = time.monotonic() + STOP_SECONDS
    while True:
        busy = going = await _busy(client, thread_ids)
        if (
            platform.runs_going is not None
        ):  # what only waited has ended once it is cancelled, whatever the thread's status
            going = {thread_id for thread_id in thread_ids if platform.runs_going[thread_id] > 0}
        for thread_id in busy | going:
            await cancel_runs(client, thread_id, stopped)
        if not going or time.monotonic() > deadline:
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _busy(client: LangGraphClient, thread_ids: Collection[str]) -> set[str]:
    """Those of these threads that the platform calls busy: with a run under way or queued, or with
    none after a kill.
    """
    busy = set[str]()
    for some in slices(thread_ids):
        found = await client.threads.search(
            ids=some, status="busy", limit=len(some), select=["thread_id"]
        )
        busy |= {str(thread["thread_id"]) for thread in found}
    return busy


async def stop_run(client: LangGraphClient, thread_id: str, run_id: str) -> None:
    """Cancel one run, and wait until it has ended, for at most `STOP_SECONDS`. Others of its thread
    go on.
    """
    deadline = time.monotonic() + STOP_SECONDS
    with suppress(NotFoundError):  # it has ended
        await client.runs.cancel_many(thread_id=thread_id, run_ids=[run_id])
    while await _goes_on(client, thread_id, run_id):
        if time.monotonic() > deadline:
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _goes_on(client: LangGraphClient, thread_id: str, run_id: str) -> bool:
    """Whether a run is under way; where the platform itself says it, also whether it is queued."""
    if platform.run_ids_going is not None:
        return platform.run_ids_going[run_id] > 0
    try:
        run = await client.runs.get(thread_id, run_id)
    except NotFoundError:
        return False
    return run["status"] in {"pending", "running"}


async def note_deleted(store: BaseStore, threads: Iterable[Mapping[str, Any]]) -> None:
    """Have what the runs of these threads still try to write refused. The threads are read with
    their ids and metadata.
    """
    owned = defaultdict[identity.Actor, list[str]](list)
    for thread in threads:
        if owner := _owner_of(thread):
            owned[owner].append(str(thread["thread_id"]))
    for owner, thread_ids in owned.items():
        await journal.note_deleted(store, owner, thread_ids)


async def note_deleted_run(store: BaseStore, thread: Mapping[str, Any], run_id: str) -> None:
    """Have what a run of this thread still tries to write refused. The thread is read with its
    metadata.
    """
    if owner := _owner_of(thread):
        await journal.note_deleted(store, owner, [run_id])


def _owner_of(thread: Mapping[str, Any]) -> identity.Actor | None:
    """The owner in a thread's metadata; None for a thread without one, which has no memory."""
    metadata = thread["metadata"] or {}
    owner = identity.Actor(str(metadata.get("user_id") or ""), str(metadata.get("org_id") or ""))
    try:
        identity.check_person(owner)
    except identity.IdentityError:
        return None
    return owner


# --- The used share of a memory's quota

NEARLY_FULL = 0.8


def usage_of(files: Sequence[Item], limits: Limits) -> dict[str, int]:
    """Used and allowed files and bytes of a memory with these files, and whether it is nearly full."""
    size = sum(map(content_size, files))
    nearly_full = (
        len(files) >= NEARLY_FULL * limits.max_files or size >= NEARLY_FULL * limits.max_bytes
    )
    allowed = {"max_files": limits.max_files, "max_bytes": limits.max_bytes}
    return {"files": len(files), "bytes": size, **allowed, "nearly_full": nearly_full}
