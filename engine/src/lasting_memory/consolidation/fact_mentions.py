"""The conversations in which somebody says a fact, in any order of its words."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict

from langgraph.store.base import BaseStore
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

from lasting_memory import platform, recall
from lasting_memory.consolidation.facts import Facts, facts_of, weights_of
from lasting_memory.consolidation.kept_out import SPEAKERS, talk_in_state
from lasting_memory.deployment import Deployment
from lasting_memory.memory import journal
from lasting_memory.memory.one_fact import Fact
from lasting_memory.people import identity
from lasting_memory.recall import Conversation

# Conversations that a search for a wording finds, and busy ones of a person.
_TALKS_FOUND = 20
_TALKS_BUSY = 100
# Wordings of a fact that are searched for.
_WORDINGS = 10


async def saying(
    store: BaseStore,
    client: LangGraphClient,
    actor: identity.Actor,
    fact: Fact,
    *,
    deployment: Deployment,
    writer: journal.Writer,
) -> list[str]:
    """The ids of a person's conversations in which somebody says a fact, in any order of its words."""
    talks = list[Conversation]()
    wordings = sorted(fact.wordings)
    for wording in wordings[:_WORDINGS]:
        results = await recall.search(
            store,
            client.threads,
            actor,
            wording,
            _TALKS_FOUND,
            agents=deployment.agents,
            writer=writer,
            routes=deployment.routes,
        )
        for match in results.matches:
            talks.append(match.conversation)
    # What is said at this moment is in no index.
    talks += await _busy_talks(client, actor, deployment)
    return await platform.in_thread(_ids_that_say, fact, talks)


async def _busy_talks(
    client: LangGraphClient, actor: identity.Actor, deployment: Deployment
) -> list[Conversation]:
    """A person's conversations in which a run is at work."""
    busy_threads = await client.threads.search(
        metadata=asdict(actor), status="busy", limit=_TALKS_BUSY, select=["thread_id", "metadata"]
    )
    talks = list[Conversation]()
    for thread in busy_threads:
        metadata = thread["metadata"] or {}
        if metadata.get("graph_id") not in deployment.agents:
            continue
        thread_id = str(thread["thread_id"])
        with suppress(NotFoundError):  # it was deleted meanwhile
            state = await client.threads.get_state(thread_id)
            talk = talk_in_state(thread_id, state)
            talks.append(talk)
    return talks


def _ids_that_say(fact: Fact, talks: Iterable[Conversation]) -> list[str]:
    """The ids of the conversations that say a fact, each once, in order. Blocks."""
    wordings = _facts_of_texts(fact.wordings).stems.values()
    weights = weights_of(wordings)
    thread_ids = dict[str, None]()
    for talk in talks:
        texts = list[str]()
        for turn in talk.turns:
            if turn.speaker in SPEAKERS:
                texts.append(turn.text)
        said_facts = _facts_of_texts(texts)
        is_said = any(said_facts.has_fact(wording, weights) for wording in wordings)
        if is_said:
            thread_ids[talk.thread_id] = None
    return list(thread_ids)


def _facts_of_texts(texts: Iterable[str]) -> Facts:
    """The facts of texts that are of no file."""
    files = [("", text) for text in texts]
    facts = facts_of(files)
    return Facts(facts)
