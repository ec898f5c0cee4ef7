"""What was said in a conversation before a fact from it was deleted for good: it is not
consolidated again. What is said later is.

The item of a conversation holds the hashes of its turns then, and the runs that went on: their
messages may come later. A turn of a person is kept out together with what it led to.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from langgraph.store.base import BaseStore, Item, PutOp
from langgraph_sdk.client import LangGraphClient, RunsClient
from langgraph_sdk.errors import NotFoundError

from lasting_memory import platform, recall
from lasting_memory.consolidation.facts import Facts, facts_of, weights_of
from lasting_memory.consolidation.positions import hash_of
from lasting_memory.consolidation.said_since import last_words
from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.one_fact import Fact
from lasting_memory.people import identity, namespaces
from lasting_memory.recall import Conversation, Turn, conversation

# Conversations that a search for a fact looks at, and busy ones of a person.
_FOUND = 20
_BUSY = 100
# Wordings of a fact that are searched for.
_WORDINGS = 10
# Newest runs of a conversation, among which are those that wait or are at work.
_RUNS = 20
# Newest runs of a conversation, of which some were under way then.
_RUNS_READ = 100
_SPEAKERS = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class KeptOut:
    """The turns of a person's conversations that are kept out, by their hashes; and what was just
    being said, by thread.
    """

    hashes: frozenset[str] = frozenset()
    being_said: Mapping[str, Collection[str]] = field(default_factory=lambda: MappingProxyType({}))

    def without(self, talk: Conversation) -> Iterator[Turn]:
        """The other turns of a conversation."""
        texts = self.being_said.get(talk.thread_id, ())
        skips = False
        for turn in talk.turns:
            is_kept_out = hash_of(turn) in self.hashes
            if turn.speaker == "user":
                skips = is_kept_out or turn.text in texts
            if not (skips or is_kept_out):
                yield turn


async def keep_out(
    store: BaseStore,
    client: LangGraphClient,
    actor: identity.Actor,
    thread_ids: Collection[str],
    began: journal.Began,
) -> None:
    """Keep out what was said in these conversations up to now."""
    place = namespaces.kept_out(actor)
    ops = list[PutOp]()
    for thread_id in thread_ids:
        with suppress(NotFoundError):  # it was deleted meanwhile
            going = [
                run
                for run in await client.runs.list(thread_id, limit=_RUNS)
                if run["status"] in {"pending", "running"}
            ]
            state = await client.threads.get_state(
                thread_id
            )  # which has what a run that goes on was sent
            talk = _talk(thread_id, state)
            before = await store.aget(place, thread_id)
            known = before.value if before else {}
            seen = {*map(hash_of, talk.turns), *known.get("seen", ())}
            runs = {*(str(run["run_id"]) for run in going), *known.get("runs", ())}
            value = {
                "at": datetime.now(UTC).isoformat(),
                "seen": sorted(seen),
                "runs": sorted(runs),
            }
            ops.append(PutOp(place, thread_id, value, index=False))
    await journal.put_unless_forgotten(store, ops, began)


def _talk(thread_id: str, state: Any) -> Conversation:
    return conversation({"thread_id": thread_id, "values": state.get("values")}, speakers=_SPEAKERS)


async def kept_out_in(items: Iterable[Item], runs: RunsClient | None) -> KeptOut:
    """What the items of `namespaces.kept_out` keep out of a person's conversations.

    A copy of a conversation has the same turns, so hashes are of all.
    """
    hashes = set[str]()
    being_said = dict[str, Collection[str]]()
    for item in items:
        hashes |= {*item.value.get("seen", ())}
        wanted = {*item.value.get("runs", ())}
        if wanted and runs:
            with suppress(NotFoundError):  # the conversation was deleted meanwhile
                found: Any = await runs.list(
                    item.key, limit=_RUNS_READ, select=["run_id", "kwargs"]
                )
                being_said[item.key] = {
                    last_words(run) for run in found if str(run["run_id"]) in wanted
                } - {""}
    return KeptOut(frozenset(hashes), being_said)


async def saying(
    store: BaseStore,
    client: LangGraphClient,
    actor: identity.Actor,
    fact: Fact,
    *,
    deployment: Deployment,
    began: journal.Began,
) -> list[str]:
    """Ids of a person's conversations in which somebody says a fact, in any order of its words."""
    talks = list[Conversation]()
    for wording in sorted(fact.wordings)[:_WORDINGS]:
        results = await recall.search(
            store,
            client.threads,
            actor,
            wording,
            _FOUND,
            agents=deployment.agents,
            began=began,
            routes=deployment.routes,
        )
        talks += [match.conversation for match in results.matches]
    # What is said at this moment is in no index.
    busy = await client.threads.search(
        metadata=asdict(actor), status="busy", limit=_BUSY, select=["thread_id", "metadata"]
    )
    for thread in busy:
        if (thread["metadata"] or {}).get("graph_id") in deployment.agents:
            with suppress(NotFoundError):
                thread_id = str(thread["thread_id"])
                talks.append(_talk(thread_id, await client.threads.get_state(thread_id)))
    return await platform.in_thread(_that_say, talks, fact)


def _that_say(talks: Collection[Conversation], fact: Fact) -> list[str]:
    """Blocks."""
    wanted = Facts(facts_of(("", wording) for wording in fact.wordings)).words.values()
    weights = weights_of([*wanted])
    found = dict[str, None]()
    for talk in talks:
        lines = Facts(facts_of(("", turn.text) for turn in talk.turns if turn.speaker in _SPEAKERS))
        if any(True for words in wanted for _ in lines.keeping(words, weights)):
            found[talk.thread_id] = None
    return [*found]
