"""When consolidation runs: some time after a person's last turn, when they ask for it, and in a
sweep of all who are due. And what is new for it in their conversations.

`positions.py` keeps what of each conversation is consolidated. The item in `namespaces.reading`
holds the time before which nothing is due, so that a run reads no further back.

The platform's queue keeps the runs. Those of an owner are on one thread, which the platform runs
one at a time. It is found by metadata that only this server sets. "rollback" takes back the run
that was planned before: it has written nothing.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, PutOp
from langgraph_sdk.client import LangGraphClient, RunsClient, ThreadsClient
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import Run

from lasting_memory import platform
from lasting_memory.agent.answers import NO_ANSWER
from lasting_memory.consolidation.kept_out import KeptOut, read_kept_out
from lasting_memory.consolidation.positions import Position, hash_of, positions_of, put_positions
from lasting_memory.conversations.marks import (
    RUN_METADATA,
    in_temporary_conversation,
    may_set,
    stays_out,
)
from lasting_memory.conversations.retention import delete_idle
from lasting_memory.days import WORLDS
from lasting_memory.deployment import DEFAULT_CONSOLIDATION, Consolidation, Deployment
from lasting_memory.memory import journal
from lasting_memory.people import identity, namespaces
from lasting_memory.people.caller import Caller
from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD, get_client, lock_of
from lasting_memory.recall import (
    Conversation,
    changed_since,
    conversation,
    drop,
    owned_by,
    threads_by_id,
)
from lasting_memory.settings import CONSOLIDATION_GRAPH, MAX_AFTER_SECONDS

logger = logging.getLogger(__name__)


class Trigger(StrEnum):
    """Why a run was planned."""

    IDLE = "idle"  # a turn ended
    SWEEP = "sweep"  # a sweep found something, or a run that there is more
    ASKED = "asked"  # its person asked
    TIDY = "tidy"  # memory is to be tidied
    BRING = "bring"  # its person brought a text, which is the run's input


# The newest runs of a thread, among which are those that wait or are at work.
_LISTED = 20
# Planning waits until the turn's checkpoint and answer are out.
_DELAY_SECONDS = 0.2
# How far before the last sweep one looks back: so long a failed consolidation is tried again. Also
# how much longer than `Limits.conversation_days` a conversation may wait for its consolidation.
_BACK = timedelta(days=7)
# Seconds between the begins of two people's runs, so that workers stay free for conversations.
APART_SECONDS = 4
# Conversations that are read at once with all their messages.
_READ_AT_ONCE = 20
# Turns commit late, and clocks differ.
_MARGIN = timedelta(minutes=10)
CHARS_PER_TOKEN = 4
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)


# --- What is due


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a memory: a person, under `MEMORY_SCOPE=user+assistant` with an assistant."""

    actor: identity.Actor
    assistant_id: str | None = None

    @property
    def key(self) -> str:
        return self.assistant_id or "all"

    def context(self) -> dict[str, str]:
        """A context that names this owner. It counts in operators' runs; other people's runs are
        always their own.
        """
        return asdict(self.actor) | (
            {"assistant_id": self.assistant_id} if self.assistant_id else {}
        )


@dataclass(frozen=True, slots=True)
class Due:
    """The new turns of one conversation, beyond its position. `whole`: no new turn is left out."""

    conversation: Conversation
    position: Position = Position()  # noqa: RUF009  # frozen
    whole: bool = True

    def advanced(self) -> Position:
        """The position once these turns are consolidated."""
        seen = self.position.seen.union(map(hash_of, self.conversation.turns))
        return Position(self.conversation.updated_at if self.whole else "", seen)

    def transcript(
        self, rules: Consolidation = DEFAULT_CONSOLIDATION, zone: ZoneInfo = WORLDS
    ) -> str:
        """The turns as the model reads them, a line each, under the day on which they were said and
        the thread.
        """
        most = rules.batch_tokens * CHARS_PER_TOKEN
        talk = self.conversation
        lines = list[str]()
        day = ""
        for turn in talk.turns:
            if talk.day_of(turn, zone) != day:
                day = talk.day_of(turn, zone)
                lines.append(f"{day} thread_id={talk.thread_id}")
            left_out = (
                f" [{len(turn.text) - most:,} more characters are left out]"
                if len(turn.text) > most
                else ""
            )
            lines.append(f"{turn.speaker}: {' '.join(turn.text[:most].split())}{left_out}")
        return "\n".join(lines)


def batch(due: Sequence[Due], tokens: int) -> list[Due]:
    """The oldest conversations that fit into a batch, of the last one perhaps only its first turns.
    At least one turn. Blocks.

    A conversation that was undone, or about which the model gave no answer, comes last and alone:
    it does not block others.
    """
    taken: list[Due] = []
    for item in sorted(
        due, key=lambda item: (item.position.setbacks, item.conversation.updated_at)
    ):
        if taken and item.position.setbacks:
            break
        turns = item.conversation.turns
        fitting = 0
        for turn in turns:
            tokens -= len(turn.text) // CHARS_PER_TOKEN
            if tokens < 0 and (taken or fitting):
                break
            fitting += 1
        if fitting:
            part = replace(item.conversation, turns=turns[:fitting])
            taken.append(
                replace(item, conversation=part, whole=item.whole and fitting == len(turns))
            )
        if tokens < 0:
            break
    return taken


async def find_due(
    deployment: Deployment, threads: ThreadsClient, store: BaseStore, owner: Owner, began: journal.Began | None = None,
    *, runs: RunsClient | None = None,
) -> list[Due]:  # fmt: skip
    """An owner's conversations with new turns; more than a batch holds, if there are more. `began`
    is the reading run's.

    `runs` tell what was being said when turns were kept out; None where nobody keeps any out.

    It reads conversations that changed since all were consolidated, newest first, and stops there.
    What has no new turns is noted as read.
    """
    noted = (namespaces.reading(owner.actor), owner.key)
    rules = deployment.consolidation or DEFAULT_CONSOLIDATION
    item = await store.aget(*noted)
    read_to = time_of(item.value.get("read_to") if item else None)
    changed = list[Any]()
    newest = read_to.isoformat()
    metadata = owned_by(owner.actor, deployment.agents)
    for owned in metadata:
        async for page in changed_since(threads, owned, read_to.timestamp() * 1_000_000):
            newest = max([newest, *(str(thread["updated_at"]) for thread in page)])
            changed += [
                each for each in await changed_in(page, deployment, store) if each[0] == owner
            ]
    changed.sort(key=lambda each: (each[2].setbacks, str(each[1]["updated_at"])))
    due = list[Due]()
    left = changed
    read = 0
    kept_out = await read_kept_out(store, runs, owner.actor) if changed else KeptOut()
    while left and (read <= rules.batch_tokens or len(due) < 2):  # noqa: PLR2004  # one more says that there is more
        known = {str(thread["thread_id"]): at for _, thread, at in left[:_READ_AT_ONCE]}
        left = left[_READ_AT_ONCE:]
        found = await threads_by_id(
            threads, [*known], metadata, ["thread_id", "created_at", "updated_at", "values"]
        )
        new, old = await platform.in_thread(_new_turns, found, known, kept_out)
        if old:
            await put_positions(store, owner.actor, old, began)
        due += new
        read += sum(
            len(turn.text) // CHARS_PER_TOKEN for item in new for turn in item.conversation.turns
        )
    if changed:
        oldest = (
            min(str(thread["updated_at"]) for _, thread, _ in changed) if due or left else newest
        )
        note = PutOp(*noted, {"read_to": (time_of(oldest) - _MARGIN).isoformat()}, index=False)
        await journal.put_unless_forgotten(store, [note], began)
    return due


def _new_turns(
    threads: Sequence[Mapping[str, Any]], known: Mapping[str, Position], kept_out: KeptOut
) -> tuple[list[Due], dict[str, Position]]:
    """The new turns of these threads, and the positions of threads without any. Blocks."""
    due = list[Due]()
    old = dict[str, Position]()
    for thread in threads:
        talk = conversation(thread, speakers=("user", "assistant"))
        position = known[talk.thread_id]
        open_turns = kept_out.without(talk)
        if new := tuple(turn for turn in open_turns if hash_of(turn) not in position.seen):
            due.append(Due(replace(talk, turns=new), position))
        else:
            old[talk.thread_id] = replace(position, updated_at=talk.updated_at, undone=0, failed=0)
    return due, old


async def changed_in(
    threads: Sequence[Any], deployment: Deployment, store: BaseStore
) -> list[tuple[Owner, Any, Position]]:
    """Those of these threads that changed since they were consolidated, with their owners and
    positions.
    """
    owned = [
        (owner, thread)
        for thread in threads
        if not stays_out(thread) and (owner := owner_of(thread, deployment))
    ]
    positions = await positions_of(
        store, [(owner.actor, thread["thread_id"]) for owner, thread in owned]
    )
    read = [(owner, thread, at) for (owner, thread), at in zip(owned, positions, strict=True)]
    return [each for each in read if each[2].updated_at != str(each[1]["updated_at"])]


def owner_of(thread: Any, deployment: Deployment) -> Owner | None:
    """The owner that `auth.py` and the platform stamped on a conversation; None if no run could act
    for them.
    """
    user_id, org_id, assistant_id = (
        (thread["metadata"] or {}).get(key) for key in ("user_id", "org_id", "assistant_id")
    )
    if not (isinstance(user_id, str) and isinstance(org_id, str) and isinstance(assistant_id, str)):
        return None
    with suppress(identity.IdentityError):
        identity.check_person(actor := identity.Actor(user_id, org_id))
        return Owner(actor, assistant_id if deployment.memory.per_assistant else None)
    return None


def time_of(stamp: object) -> datetime:
    """A time stamp; the earliest time for anything else."""
    try:
        at = datetime.fromisoformat(str(stamp))
    except ValueError:
        return EARLIEST
    return at if at.tzinfo else at.replace(tzinfo=UTC)


# --- One person's runs


def owner_for(caller: Caller, deployment: Deployment) -> Owner:
    """The owner for whom a run acts."""
    return Owner(caller.actor, caller.assistant if deployment.memory.per_assistant else None)


async def start(
    owner: Owner, client: LangGraphClient, trigger: Trigger = Trigger.SWEEP, seconds: int = 0, *, inside: bool = False,
    store: BaseStore | None = None, began: journal.Began | None = None
) -> bool:  # fmt: skip
    """Queue the owner's consolidation in `seconds`, in place of one that is planned. Returns
    whether it did.

    It does not where a run waits that will do: one that was asked for; for a sweep, any; for a
    turn, one behind a run that is at work. That is not taken back; `inside` says that it calls this
    itself. Runs that tidy have a thread of their own.

    With a `store`: nor if the owner was forgotten since this `began`. Then no run and no thread of
    theirs is left of it.
    """
    if store and await journal.is_forgotten(store, began):
        return False
    async with lock_of(
        "planning", owner
    ):  # turns that end at once would each make the owner's first thread
        consolidates = f"tidy {owner.key}" if trigger == "tidy" else owner.key
        known = await client.threads.search(
            metadata={**asdict(owner.actor), "consolidates": consolidates},
            limit=1, sort_by="created_at", sort_order="asc", select=["thread_id"],
        )  # fmt: skip
        thread_id = (
            str(known[0]["thread_id"]) if known else str(uuid4())
        )  # its first run creates the thread
        runs = await client.runs.list(thread_id, limit=_LISTED) if known else []
        planned = {
            (run["metadata"] or {}).get("trigger") for run in runs if run["status"] == "pending"
        }
        running = any(run["status"] == "running" for run in runs)
        will_do = trigger in {"sweep", "tidy"} or (trigger == "idle" and running)
        if "asked" in planned or (will_do and planned):
            return False
        with may_set(*RUN_METADATA):
            run = await client.runs.create(
                thread_id,
                CONSOLIDATION_GRAPH,
                input={"messages": []},
                context=owner.context(),
                metadata={"trigger": trigger, "consolidates": consolidates},
                multitask_strategy="enqueue" if inside or running else "rollback",
                durability="exit",  # one checkpoint a run, with its answer
                # The new thread belongs to the run's person, also if an operator creates it
                if_not_exists="create",
                after_seconds=min(seconds, MAX_AFTER_SECONDS),  # of a sweep for very many people
            )
        if store and await journal.is_forgotten(store, began):
            await _withdraw(run, client)
            return False
        return True


async def _withdraw(run: Run, client: LangGraphClient) -> None:
    """Delete the thread of a queued run; not if it has another run, by its owner who came back:
    then this finds nothing new.
    """
    with suppress(NotFoundError):  # whoever forgets the owner has deleted it
        runs = await client.runs.list(run["thread_id"], limit=_LISTED)
        if all(other["run_id"] == run["run_id"] for other in runs):
            await client.threads.delete(run["thread_id"])


class IdleTrigger(AgentMiddleware[Any, Any, Any]):
    """Plans a consolidation when a turn ends. For the main agent only, because subagents end no
    turn.
    """

    trace_policy = SPANS_WITHOUT_PAYLOAD

    def __init__(self, deployment: Deployment, delay: float = _DELAY_SECONDS) -> None:
        super().__init__()
        self._deployment = deployment
        self._delay = delay
        self._planning: set[asyncio.Task[None]] = set()  # the event loop itself keeps no task alive

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        try:
            response = await handler(request)
        except (
            NO_ANSWER
        ):  # what the person said is due all the same, and it may be the last for a long time
            self._plan_soon(request.runtime)
            raise
        # A turn ends with an answer that calls no tools, or only such whose result is the last
        # word.
        last_words = {
            tool.name for tool in request.tools if isinstance(tool, BaseTool) and tool.return_direct
        }
        if {
            call["name"]
            for message in response.result
            for call in getattr(message, "tool_calls", ())
        } <= last_words:
            self._plan_soon(request.runtime)
        return response

    def _plan_soon(self, runtime: Runtime[Any]) -> None:
        """Plan in the background, so that the turn neither waits nor fails."""
        task = asyncio.create_task(self._plan(runtime))
        self._planning.add(task)
        task.add_done_callback(self._planning.discard)

    async def _plan(self, runtime: Runtime[Any]) -> None:
        if not identity.on_server(runtime) or in_temporary_conversation() or runtime.store is None:
            return
        try:
            caller = Caller.of_run(self._deployment, runtime)
            owner = owner_for(caller, self._deployment)
            await asyncio.sleep(self._delay)
            began = journal.began_by(caller)
            seconds = self._deployment.settings.consolidate_after_seconds
            await start(
                owner, get_client(), Trigger.IDLE, seconds, store=runtime.store, began=began
            )
        except (
            Exception
        ) as error:  # whatever it is, the turn is done and the next sweep finds the conversation
            logger.warning(
                "No consolidation could be planned after a turn: %r. The sweep does it.",
                error,
                exc_info=True,
            )


def consolidated(d: Deployment) -> AgentMiddleware[Any, Any, Any] | None:
    """The middleware of an agent whose conversations become memory. None where nothing is to be
    consolidated after them.

    Private conversations must not flow into shared memory.
    """
    plans = d.consolidation and d.settings.consolidate_after_seconds and not d.memory.is_shared
    return IdleTrigger(d) if plans else None


# --- Everybody's


async def sweep(deployment: Deployment, client: LangGraphClient, store: BaseStore) -> int:
    """Plan a consolidation for everyone who is due. Returns the number of runs. The cost follows
    activity.
    """
    return (await sweep_counted(deployment, client, store))["runs"]


async def sweep_counted(
    deployment: Deployment, client: LangGraphClient, store: BaseStore
) -> Counter[str]:
    """As `sweep`. Returns how many people were `due`, for how many it `started` one, for how many
    one was `planned` already; and `runs`, with those that tidy.
    """
    began = datetime.now(UTC).isoformat(timespec="microseconds")
    counts = Counter[str]()
    for owner in dict.fromkeys([owner for owner, _ in await _all_due(deployment, client, store)]):
        counts["due"] += 1
        try:
            since = journal.Began(owner.actor, began)
            if await journal.is_forgotten(store, since):
                continue
            is_new = await start(
                owner, client, seconds=counts["runs"] * APART_SECONDS, store=store, began=since
            )
            counts["started" if is_new else "planned"] += 1
            counts["runs"] += is_new
            if await _tidy_is_due(owner, deployment, store, since):
                seconds = counts["runs"] * APART_SECONDS
                counts["runs"] += await start(
                    owner, client, Trigger.TIDY, seconds, store=store, began=since
                )
        except (
            Exception
        ) as error:  # one person's failure is not everybody's; their conversations are due again
            logger.warning(
                "No consolidation could be started for one person: %r. The next sweep tries.",
                error,
                exc_info=True,
            )
    await store.aput(*namespaces.LAST_SWEEP, {"began": began}, index=False)
    return counts


async def _tidy_is_due(
    owner: Owner, deployment: Deployment, store: BaseStore, began: journal.Began
) -> bool:
    """Whether `Consolidation.tidy_days` have passed since this was last so, or since the owner's
    first sweep.
    """
    if not (days := deployment.consolidation and deployment.consolidation.tidy_days):
        return False
    place = namespaces.reading(owner.actor)
    key = f"tidied-{owner.key}"
    now = datetime.now(UTC)
    item = await store.aget(place, key)
    is_due = item is not None and time_of(item.value.get("at")) <= now - timedelta(days=days)
    if is_due or item is None:
        note = PutOp(place, key, {"at": now.isoformat()}, index=False)
        return await journal.put_unless_forgotten(store, [note], began) and is_due
    return False


async def find_backlog(
    deployment: Deployment, client: LangGraphClient, store: BaseStore
) -> dict[str, Any]:
    """What a sweep would find now: `people`, their `conversations`, and when the `oldest` of these
    changed.
    """
    due = await _all_due(deployment, client, store)
    oldest = min((at for _, at in due), default=None)
    return {"people": len({owner for owner, _ in due}), "conversations": len(due), "oldest": oldest}


async def _all_due(
    deployment: Deployment, client: LangGraphClient, store: BaseStore
) -> list[tuple[Owner, str]]:
    """The owner of each conversation with something new, and when it changed."""
    due = list[tuple[Owner, str]]()
    last = await store.aget(*namespaces.LAST_SWEEP)
    since = min(time_of(last.value.get("began")), datetime.now(UTC)) - _BACK if last else EARLIEST
    for graph in deployment.agents:
        async for threads in changed_since(
            client.threads, {"graph_id": graph}, since.timestamp() * 1_000_000
        ):
            due += [
                (owner, str(thread["updated_at"]))
                for owner, thread, _ in await changed_in(threads, deployment, store)
            ]
    return due


async def delete_old(
    deployment: Deployment, client: LangGraphClient, store: BaseStore, now: datetime | None = None
) -> int:
    """Delete conversations `Limits.conversation_days` after their last turn, with index and
    positions. Returns their number.

    One that is due is consolidated first, and goes with a later sweep; after `_BACK` in any case.
    """
    if (days := deployment.limits.conversation_days) is None:
        return 0
    before = (now or datetime.now(UTC)) - timedelta(days=days)

    async def spared(threads: list[Any]) -> set[str]:
        late = [each for each in threads if time_of(each["updated_at"]) >= before - _BACK]
        due = [] if deployment.memory.is_shared else await changed_in(late, deployment, store)
        return {str(thread["thread_id"]) for _, thread, _ in due}

    deleted = list[Any]()
    for graph in deployment.agents:
        deleted += await delete_idle(client, {"graph_id": graph}, before, spared, store)
    owned = defaultdict[identity.Actor, list[str]](list)
    for thread in deleted:
        if owner := owner_of(thread, deployment):  # without one it has no index
            owned[owner.actor].append(thread["thread_id"])
    for actor, thread_ids in owned.items():
        await drop(store, actor, thread_ids)
        places = (namespaces.positions(actor), namespaces.kept_out(actor))
        await store.abatch(
            [PutOp(place, thread_id, None) for thread_id in thread_ids for place in places]
        )
    return len(deleted)
