"""What tests of consolidation runs share: the person, the conversations, the model's replies, what the store then has."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data
from langgraph.store.base import BaseStore

from lasting_memory import journal
from lasting_memory.consolidation.proposals import decide
from lasting_memory.consolidation.run import build_consolidation_agent
from lasting_memory.files.proposals import Dated
from lasting_memory.limits import Consolidation
from lasting_memory.people import identity, namespaces
from lasting_memory.people.identity import Author, Context
from lasting_memory.settings import CONSOLIDATION_GRAPH
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.people import AGENT, SignedIn
from lasting_memory.testing.platform import Platform
from lasting_memory.testing.scripted_anthropic import Text, ToolCall
from tests.conftest import BuildGraph

ALICE = identity.Actor("alice", "acme")
FILES = deployed().memory.namespace(ALICE, AGENT)
TASK = "Conversations with something new"
AGAIN = "What you wrote was taken back"
READY = [Text("done")]
# A turn after which a batch has no room for another such.
A_BATCH = "x" * 40_000
EMPTIED = [ToolCall("write_file", {"file_path": "/memories/topics/food.md", "content": ""})]


class Talk(NamedTuple):
    """What the person said in one conversation."""

    thread_id: str
    texts: tuple[str, ...]


def run_at(at: str) -> str:
    """The id of a run that was created then."""
    milliseconds = int(datetime.fromisoformat(at).timestamp() * 1_000)
    return str(UUID(int=(milliseconds << 80) | (7 << 76) | (2 << 62)))


def talk(thread_id: str, *texts: str) -> Talk:
    return Talk(thread_id, texts)


def append(text: str, path: str = "/memories/topics/food.md") -> ToolCall:
    return ToolCall("append_memory", {"path": path, "text": text})


@dataclass
class Runs:
    """Consolidation for Alice on a graph of her own, called as a server would. Her conversations are given with each run."""

    graph: BuildGraph
    store: BaseStore
    platform: Platform
    said: list[Dated] = field(default_factory=list)  # when she said what, where it matters
    built: Any = None

    def __post_init__(self) -> None:
        many = replace(deployed(), consolidation=Consolidation(at_once=1_000))
        self.built = self.graph(many, build=build_consolidation_agent).graph

    async def __call__(
        self,
        run_id: str,
        due: Sequence[Talk],
        *,
        dry: bool = False,
        thread: str | None = None,
        permissions: Sequence[str] = (),
        steps: int = 9_999,
        store: BaseStore | None = None,
    ) -> str:
        """Run consolidation; the text of the last message."""
        for number, (thread_id, texts) in enumerate(due):
            messages = [{"type": "human", "id": f"{thread_id}-{n}", "content": text} for n, text in enumerate(texts)]
            self.platform.put(ALICE, thread_id, (self.platform.now + timedelta(seconds=number)).isoformat(), messages)
            for said in self.said:
                asked = {"input": {"messages": [{"role": "user", "content": said.text}]}}
                self.platform.runs.kept[thread_id].append({"run_id": run_at(said.at), "status": "success", "kwargs": asked})
        user = SignedIn(identity="alice", org_id="acme", permissions=permissions)
        ids = {"thread_id": thread or run_id, "run_id": run_id, "graph_id": CONSOLIDATION_GRAPH}
        self.built.store = store or self.store
        result = await self.built.ainvoke(
            {"messages": [{"role": "user", "content": "store X"}]},
            {"configurable": {**ids, "langgraph_auth_user": user}, "recursion_limit": steps},
            context=Context(dry_run=dry),
        )
        return str(result["messages"][-1].text)


async def text(store: BaseStore, key: str = "/topics/food.md") -> str:
    item = await store.aget(FILES, key)
    return str(item.value["content"]) if item else ""


async def consolidated(store: BaseStore) -> set[str]:
    """Ids of Alice's threads of which something was consolidated."""
    return {item.key for item in await store.asearch(namespaces.positions(ALICE), limit=100) if item.value["seen"]}


async def remembered(store: BaseStore, content: str, key: str = "/topics/food.md") -> None:
    await store.aput(FILES, key, {**create_file_data(content)})


async def saved(store: BaseStore, content: str, key: str = "/topics/food.md", encoding: str = "utf-8") -> None:
    """A file saved by the person, by way of the journal."""
    file = FileData(content=content, encoding=encoding)
    await journal.change(store, FILES, key, lambda _: file, Author("person", "alice"))


async def write(store: BaseStore, key: str, line: str) -> None:
    """A line that the person adds."""

    def added(file: FileData | None) -> FileData:
        return FileData(content=f"{file['content'] if file else ''}{line}\n", encoding="utf-8")

    await journal.change(store, FILES, key, added, Author("person", "alice"))


async def decided(store: BaseStore, proposal: object, **how: Any) -> dict[str, str]:
    """She decides about a proposal of this id."""
    how = {"paths": None, "began": journal.began_now(ALICE), "deployment": deployed(), **how}
    return await decide(store, ALICE, FILES, str(proposal), **how)
