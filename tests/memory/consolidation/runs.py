"""What tests of consolidation runs share: the person, the conversations, the model's replies, what the store then has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, Op, Result

from consolidation_agent import build_consolidation_agent
from environment import CONSOLIDATION_GRAPH
from memory import identity, journal, namespaces
from memory.consolidation import Consolidation, Drafts
from memory.consolidation.drafts import Draft
from memory.consolidation.due import Due, new_part
from memory.consolidation.positions import Position, positions
from memory.consolidation.run import ConsolidationRun
from memory.consolidation.run_records import Record
from memory.consolidation.slots import Slots
from memory.consolidation.taken_back import Said
from memory.identity import Author, Context
from memory.recall.conversations import Conversation, Turn
from settings import Settings
from testing.scripted_anthropic import Text, ToolCall
from tests.conftest import BuildGraph

ALICE = identity.Actor("alice", "acme")
FILES = namespaces.memories(ALICE, identity.DEFAULT_AGENT_ASSISTANT, Settings())
TASK = "Conversations with something new"
AGAIN = "was taken back"
READY = [Text("done")]
# A turn after which a batch has no room for another such.
A_BATCH = "x" * 40_000
EMPTIED = [ToolCall("write_file", {"file_path": "/memories/topics/food.md", "content": ""})]


def talk(thread_id: str, *texts: str) -> Due:
    turns = tuple(Turn("user", text, f"{thread_id}-{number}") for number, text in enumerate(texts))
    return Due(Conversation(thread_id, "2026-01-01", turns, updated_at=thread_id))


def append(text: str, path: str = "/memories/topics/food.md") -> ToolCall:
    return ToolCall("append_memory", {"path": path, "text": text})


class User(dict[str, Any]):
    """A signed-in user, as a server passes it to a run."""

    @property
    def identity(self) -> str:
        return str(self["identity"])


class Unlimited(Slots):
    """Slots for any number of runs."""

    def take(self, *_: Any, **__: Any) -> bool:
        return True


@dataclass
class Runs:
    """Consolidation for Alice on a graph of her own, called as a server would. Her conversations are given with each run.

    Args:
        graph: builds graphs on the test's store and model.
        store: the test's store.
        dies_after: the step of a run, and its number, after which the process is gone, once.
    """

    graph: BuildGraph
    store: BaseStore
    drafts_kept: int = 256
    dies_after: tuple[str, int] | None = None
    due: list[Due] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)  # when she said what, where it matters
    built: Any = None

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A process without the drafts of the one before. The threads stay."""
        graph = self.graph(build=self._build).graph
        if self.built is None:
            self.built = graph
        self.built.nodes = graph.nodes

    def _build(self, settings: Settings, model: Any) -> Any:
        consolidation = AlicesConsolidation(settings, Drafts(self.drafts_kept), Unlimited())
        consolidation.runs = self
        return build_consolidation_agent(settings, model, consolidation=consolidation)

    async def left(self, store: BaseStore) -> list[Due]:
        """What is due beyond her positions in this store."""
        return _left(self.due, await positions(store, ALICE))

    def step(self, name: str) -> None:
        """Die, if this is the step to die after."""
        if self.dies_after and self.dies_after[0] == name:
            left = self.dies_after[1] - 1
            self.dies_after = (name, left) if left else None
            if not left:
                raise ConnectionError

    async def __call__(
        self,
        run_id: str,
        due: Sequence[Due],
        *,
        dry: bool = False,
        thread: str | None = None,
        resumed: bool = False,
        permissions: Sequence[str] = (),
        steps: int = 9_999,
    ) -> str:
        """Run consolidation; the text of the last message."""
        self.due[:] = due
        user = User(identity="alice", org_id="acme", permissions=permissions)
        ids = {"thread_id": thread or run_id, "run_id": run_id, "graph_id": CONSOLIDATION_GRAPH}
        given = None if resumed else {"messages": [{"role": "user", "content": "store X"}]}
        result = await self.built.ainvoke(
            given,
            {"configurable": {**ids, "langgraph_auth_user": user}, "recursion_limit": steps},
            context=Context(dry_run=dry),
        )
        return str(result["messages"][-1].text)


class AlicesRun(ConsolidationRun):
    runs: Runs

    async def find_due(self, store: BaseStore, skipped: Sequence[str]) -> list[Due]:
        return [item for item in await self.runs.left(store) if item.conversation.thread_id not in skipped]

    async def begin(self, *args: Any, **options: Any) -> Draft | None:
        batch = await super().begin(*args, **options)
        self.runs.step("begin")
        return batch

    async def finish(self, report: Record) -> Record:
        report = await super().finish(report)
        self.runs.step("finish")
        return report

    async def said(self, shown: Sequence[Due], since: str) -> list[Said]:
        return [each for each in self.runs.said if each.at > since]

    async def fail(self, error: BaseException, report: Record) -> None:
        """A process that is gone says nothing more. Tests end one by a cancellation, or by this error."""
        if isinstance(error, Exception) and not isinstance(error, ConnectionError):
            await super().fail(error, report)

    async def index(self) -> None:
        """There are no threads to index."""


class AlicesConsolidation(Consolidation):
    runs: Runs

    def run(self, runtime: Runtime[Any]) -> ConsolidationRun:
        run = AlicesRun(self._settings, runtime, self.drafts)
        run.runs = self.runs
        return run


def _left(due: Sequence[Due], known: Mapping[str, Position]) -> list[Due]:
    """What is due beyond these positions."""
    left = []
    for item in due:
        position = known.get(item.conversation.thread_id, Position())
        if (new := new_part(item.conversation, position)).turns:
            left.append(replace(item, conversation=new, undone=max(item.undone, position.undone)))
    return left


async def text(store: BaseStore, key: str = "/topics/food.md") -> str:
    item = await store.aget(FILES, key)
    return str(item.value["content"]) if item else ""


async def consolidated(store: BaseStore) -> set[str]:
    """Ids of Alice's threads of which something was consolidated."""
    return {thread_id for thread_id, position in (await positions(store, ALICE)).items() if position.seen}


async def everything(store: BaseStore) -> set[str]:
    return {repr((item.namespace, item.key, item.value)) for item in await store.asearch((), limit=1000)}


async def remembered(store: BaseStore, content: str, key: str = "/topics/food.md") -> None:
    await store.aput(FILES, key, {**create_file_data(content)})


async def saved(store: BaseStore, content: str, key: str = "/topics/food.md", encoding: str = "utf-8") -> None:
    """A file saved by the person, by way of the journal."""
    file = {**create_file_data(content), "encoding": encoding}
    await journal.change(store, FILES, key, lambda _: file, Author("person", "alice"))  # type: ignore[arg-type,return-value]


async def write(store: BaseStore, key: str, line: str) -> None:
    """A line that the person adds."""

    def added(file: FileData | None) -> FileData:
        return FileData(content=f"{file['content'] if file else ''}{line}\n", encoding="utf-8")

    await journal.change(store, FILES, key, added, Author("person", "alice"))


class Mortal(BaseStore):
    """A store whose user is gone after some batches of operations: from then on nothing reaches it."""

    def __init__(self, store: BaseStore, batches: int) -> None:
        self._store, self.left = store, batches

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        raise NotImplementedError

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        if not self.left:
            raise ConnectionError
        self.left -= 1
        return await self._store.abatch(ops)
