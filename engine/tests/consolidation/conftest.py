"""What tests of consolidation share: Alice's runs without a server, a platform for the triggers,
and a person's on a server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore

from lasting_memory.consolidation import run as run_module
from lasting_memory.consolidation.run import build_consolidation_agent
from lasting_memory.deployment import Consolidation
from lasting_memory.memory import journal
from lasting_memory.memory.proposals import Changed, Memory, Proposal
from lasting_memory.people import identity, namespaces
from lasting_memory.people.identity import Author, Context
from lasting_memory.settings import CONSOLIDATION_GRAPH
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import AGENT, Person, SignedIn
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall
from tests.conftest import BuildGraph

ALICE = identity.Actor("alice", "acme")
FILES = deployed().memory.namespace(ALICE, AGENT)
TASK = "Conversations with something new"
AGAIN = "What you wrote was taken back"
READ = ToolCall("search_recent_conversations", {})
FOOD, MY_FOOD = "/topics/food.md", "/memories/topics/food.md"
READY = [Text("done")]
# The file FOOD before a run.
BEFORE = "# Food\n\n- likes fennel\n- hates dill\n- eats at seven\n"
# In seconds: nothing that is waited for takes as long.
LONG = 600.0


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until this is so."""
    async with asyncio.timeout(LONG):
        while not is_so():  # noqa: ASYNC110  # of the code that is tested
            await asyncio.sleep(0)


def append(text: str, path: str = MY_FOOD) -> ToolCall:
    return ToolCall("append_memory", {"path": path, "text": text})


def write(path: str, content: str) -> ToolCall:
    return ToolCall("write_file", {"file_path": path, "content": content})


def forget(path: str, line: str, because: str) -> ToolCall:
    return ToolCall(
        "forget_lines", {"path": path, "lines": [line], "reason": "outdated", "because": because}
    )


@dataclass
class Hers:
    """Alice's memory in a store."""

    store: BaseStore
    author: ClassVar = Author("consolidation", "alice", "run", "thread")  # of what is proposed

    @property
    def memory(self) -> Memory:
        return Memory(self.store, ALICE, FILES, deployed(), journal.Writer(ALICE))

    async def text(self, key: str = FOOD) -> str:
        item = await self.store.aget(FILES, key)
        return str(item.value["content"]) if item else ""

    async def history(self) -> list[journal.Revision]:
        return await journal.history(self.store, FILES, FOOD)

    async def saved(self, content: str, key: str = FOOD, encoding: str = "utf-8") -> None:
        """She saves a file, by way of the journal."""
        file = FileData(content=content, encoding=encoding)
        await journal.change(self.store, FILES, key, lambda _: file, Author("person", "alice"))

    async def proposed(self, number: int, *changes: Changed) -> None:
        at = f"2026-01-01T00:{number:02}:00+00:00"
        await self.memory.propose(
            Proposal(f"{number}", at, FILES[-1], self.author, list(changes), [])
        )

    async def decided(self, proposal: object, **how: Any) -> dict[str, ValueError]:
        """She decides about a proposal of this id."""
        return await self.memory.decide(str(proposal), **how)


@pytest.fixture
def hers(store: BaseStore) -> Hers:
    return Hers(store)


@dataclass
class Runs(Hers):
    """Consolidation for Alice on a graph of her own, called as a server would."""

    built: Any
    model: ScriptedAnthropic
    platform: Platform

    async def __call__(
        self, run_id: str, store: BaseStore | None = None, /, **due: Sequence[str]
    ) -> str:
        """Run consolidation, after she has said this, by thread; the text of the last message."""
        for number, (thread_id, texts) in enumerate(due.items()):
            messages = [
                {"type": "human", "id": f"{thread_id}-{n}", "content": text}
                for n, text in enumerate(texts)
            ]
            self.platform.put(
                ALICE,
                thread_id,
                (self.platform.now + timedelta(seconds=number)).isoformat(),
                messages,
            )
        user = SignedIn(identity="alice", org_id="acme")
        ids = {"thread_id": run_id, "run_id": run_id, "graph_id": CONSOLIDATION_GRAPH}
        self.built.store = store or self.store
        result = await self.built.ainvoke(
            {"messages": [{"role": "user", "content": "store X"}]},
            {"configurable": {**ids, "langgraph_auth_user": user}, "recursion_limit": 9_999},
            context=Context(),
        )
        return str(result["messages"][-1].text)

    async def consolidated(self) -> set[str]:
        """Ids of her threads of which something was consolidated."""
        return {
            item.key
            for item in await self.store.asearch(namespaces.positions(ALICE), limit=100)
            if item.value["seen"]
        }


@pytest.fixture
def run(
    graph: BuildGraph,
    store: BaseStore,
    model: ScriptedAnthropic,
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
) -> Runs:
    """Runs consolidation for Alice."""
    monkeypatch.setattr(run_module, "get_client", lambda: platform)
    many = replace(deployed(), consolidation=Consolidation(at_once=1_000))
    return Runs(store, graph(many, build=build_consolidation_agent).graph, model, platform)


@pytest.fixture
def platform() -> Platform:
    platform = Platform()
    platform.now = datetime.now(UTC)
    return platform


def while_it_works(
    do: Callable[[], Coroutine[Any, Any, Any]], reply: Any = READY
) -> Callable[[object], Any]:
    """A reply of the model, before which this happens."""
    loop = asyncio.get_running_loop()

    def answer(_: object) -> Any:
        asyncio.run_coroutine_threadsafe(do(), loop).result()
        return reply

    return answer


async def soon(ask: Callable[[], Awaitable[Any]], seconds: float = 300) -> Any:
    """The first answer that is not empty."""
    async with asyncio.timeout(seconds):
        while not (answer := await ask()):  # noqa: ASYNC110  # the server's
            await asyncio.sleep(0.1)
    return answer


async def go(who: Person, **kwargs: Any) -> str:
    """A consolidation that the person begins; its last message."""
    values = await who.say("store X as a policy", "consolidation_agent", **kwargs)
    return str(values["messages"][-1]["content"])


async def consolidation_thread(who: Person) -> str:
    """The thread of a person's planned runs, once it has one."""
    (found,) = await soon(
        lambda: who.client.threads.search(metadata={"consolidates": "all"}, limit=1)
    )
    return str(found["thread_id"])


async def ended(who: Person, runs: int = 1) -> list[str]:
    """The states of the person's planned runs once there are so many and all have ended, newest
    first.
    """
    thread = await consolidation_thread(who)

    async def states() -> list[str]:
        found = [str(run["status"]) for run in await who.client.runs.list(thread)]
        return found if len(found) >= runs and not {"pending", "running"} & {*found} else []

    return list(await soon(states))


async def records(who: Person) -> list[dict[str, Any]]:
    """The person's records, once there is one that has ended."""

    async def kept() -> list[dict[str, Any]]:
        found = await who.listed("consolidations")
        return found if found and found[0]["ended_at"] else []

    return list(await soon(kept))


async def consolidate(who: Person, *calls: ToolCall, **context: Any) -> str:
    """A consolidation whose model makes these calls, also when it is told that they were refused.
    Its last message.
    """
    for words in (AGAIN, TASK):
        who.model.script(words, list(calls), READY)
    return await go(who, context=context or None)
