"""Turns that are *kept out*: what was said in a conversation before a fact from it was deleted for
good is not consolidated again. What is said later is.

The item `<thread id>` in `namespaces.kept_out` holds under `seen` the hashes of the turns that the
conversation had then, and under `runs` the ids of the runs that were under way: their messages come
later. A turn of the person is kept out together with the answers to it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType

from langgraph.store.base import BaseStore, Item, PutOp
from langgraph_sdk.client import LangGraphClient, RunsClient
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import RunSelectField, ThreadState

from lasting_memory.consolidation.positions import hash_of
from lasting_memory.consolidation.said_since import last_words
from lasting_memory.memory import journal
from lasting_memory.people import identity, namespaces
from lasting_memory.recall import Conversation, Turn, conversation

# Newest runs of a conversation, among which are those that wait or are at work now.
_RUNS = 20
# Newest runs of a conversation, among which are those that were under way then.
_RUNS_READ = 100
SPEAKERS = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class KeptOut:
    """Which turns of a person's conversations are kept out: those with these hashes, and those that
    runs were sent which were under way (`texts_of_runs`, texts by thread).
    """

    hashes: frozenset[str] = frozenset()
    texts_of_runs: Mapping[str, Collection[str]] = field(
        default_factory=lambda: MappingProxyType({})
    )

    def without(self, talk: Conversation) -> Iterator[Turn]:
        """The turns of a conversation that are not kept out."""
        texts = self.texts_of_runs.get(talk.thread_id, ())
        is_question_kept_out = False
        for turn in talk.turns:
            has_hash = hash_of(turn) in self.hashes
            if turn.speaker == "user":
                is_question_kept_out = has_hash or turn.text in texts
            if has_hash or is_question_kept_out:
                continue
            yield turn


async def keep_out(
    store: BaseStore,
    client: LangGraphClient,
    actor: identity.Actor,
    thread_ids: Collection[str],
    writer: journal.Writer,
) -> None:
    """Keep out what was said in these conversations up to now. One that is deleted meanwhile is left
    out.
    """
    ops = list[PutOp]()
    for thread_id in thread_ids:
        with suppress(NotFoundError):
            op = await _keep_out_op(store, client, actor, thread_id)
            ops.append(op)
    await journal.put_unless_forgotten(store, ops, writer)


async def _keep_out_op(
    store: BaseStore, client: LangGraphClient, actor: identity.Actor, thread_id: str
) -> PutOp:
    """The operation that keeps out all turns of a conversation up to now, beside those that are kept
    out already. Raises `NotFoundError` if there is no such conversation.
    """
    run_ids = await _ids_of_runs_under_way(client, thread_id)
    # The state, not the values of the thread: it already has the message that a run at work was sent.
    state = await client.threads.get_state(thread_id)
    talk = talk_in_state(thread_id, state)
    hashes = set(map(hash_of, talk.turns))
    place = namespaces.kept_out(actor)
    stored_item = await store.aget(place, thread_id)
    if stored_item:
        hashes.update(stored_item.value.get("seen", ()))
        run_ids.update(stored_item.value.get("runs", ()))
    now = datetime.now(UTC)
    value = {
        "at": now.isoformat(),
        "seen": sorted(hashes),
        "runs": sorted(run_ids),
    }
    return PutOp(place, thread_id, value, index=False)


async def _ids_of_runs_under_way(client: LangGraphClient, thread_id: str) -> set[str]:
    """The ids of a conversation's runs that wait or are at work."""
    run_ids = set[str]()
    runs = await client.runs.list(thread_id, limit=_RUNS)
    for run in runs:
        if run["status"] in {"pending", "running"}:
            run_id = str(run["run_id"])
            run_ids.add(run_id)
    return run_ids


def talk_in_state(thread_id: str, state: ThreadState) -> Conversation:
    """What is said in a thread with this state."""
    values = state.get("values")
    thread = {"thread_id": thread_id, "values": values}
    return conversation(thread, speakers=SPEAKERS)


async def kept_out_in(items: Iterable[Item], runs: RunsClient | None) -> KeptOut:
    """What these items of `namespaces.kept_out` keep out. A hash counts in all conversations,
    because a copy of a conversation has the same turns.

    `runs` are asked what the runs were sent that were under way. None: that is not kept out.
    """
    hashes = set[str]()
    texts_of_runs = dict[str, Collection[str]]()
    for item in items:
        thread_id = item.key
        hashes.update(item.value.get("seen", ()))
        run_ids = set(item.value.get("runs", ()))
        if not run_ids or runs is None:
            continue
        with suppress(NotFoundError):  # the conversation was deleted meanwhile
            texts_of_runs[thread_id] = await _last_words_of(runs, thread_id, run_ids)
    return KeptOut(frozenset(hashes), texts_of_runs)


async def _last_words_of(
    runs: RunsClient, thread_id: str, run_ids: Collection[str]
) -> Collection[str]:
    """What the person said in the inputs of a conversation's runs with these ids."""
    fields: list[RunSelectField] = ["run_id", "kwargs"]
    listed_runs = await runs.list(thread_id, limit=_RUNS_READ, select=fields)
    texts = set[str]()
    for run in listed_runs:
        run_id = str(run["run_id"])
        if run_id not in run_ids:
            continue
        text = last_words(run)
        if text:
            texts.add(text)
    return texts
