"""Runs a case: its conversations into threads, its memory into the store, consolidation over both, the files back."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from deepagents.backends.utils import create_file_data
from langgraph_sdk.client import LangGraphClient

from evals.consolidation.cases import Case, Thread
from memory import identity, namespaces
from settings import MAX_MEMORY_FILES, Settings
from testing.dev_server import DevServer

PERSON = "person@example.com"
_LOG_LINES = 30


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind: the person's files by path, and the conversations it read."""

    files: dict[str, str]
    threads: list[Thread]


async def run_case(server: DevServer, case: Case) -> Outcome:
    """Consolidate a case's conversations for a person in an organization of their own.

    Raises:
        RuntimeError: the run failed; with the end of the server's log, because the platform masks why.
    """
    org = f"eval-{uuid.uuid4().hex[:12]}"
    namespace = list(namespaces.memories(identity.Actor(PERSON, org), identity.DEFAULT_AGENT_ASSISTANT, Settings()))
    client, operator = server.as_user(PERSON, org), server.as_operator()
    for path, text in case.memory.items():
        await operator.store.put_item(namespace, path.removeprefix("/memories"), {**create_file_data(text)})
    if case.policies:
        await operator.store.put_item(list(namespaces.policies(org)), "/policy.md", {**create_file_data(case.policies)})
    threads = [await _conversation(client, messages) for messages in case.messages()]
    try:
        thread = await client.threads.create()
        await client.runs.wait(thread["thread_id"], "consolidation_agent", input={"messages": []})
    except Exception as error:
        log = "\n".join(server.log.splitlines()[-_LOG_LINES:])
        raise RuntimeError(f"Consolidation failed ({error}). The end of the server's log:\n{log}") from error
    items = (await operator.store.search_items(namespace, limit=MAX_MEMORY_FILES))["items"]
    return Outcome({f"/memories{item['key']}": str(item["value"].get("content", "")) for item in items}, threads)


async def _conversation(client: LangGraphClient, messages: list[dict[str, str]]) -> Thread:
    """A conversation with the agent that has ended, without calling a model."""
    said: Any = {"updates": [{"values": {"messages": messages}, "as_node": "__start__"}]}
    ended: Any = {"updates": [{"values": None, "as_node": "__end__"}]}
    created = await client.threads.create(graph_id="agent", supersteps=[said, ended])
    thread = await client.threads.get(created["thread_id"])
    return Thread(str(thread["thread_id"]), str(thread["updated_at"])[:10])
