"""Drafts: each run works on a private copy of the person's memory files, which is committed at its end.

It is in the memory of this process, so a run that dies or is taken back has written nothing. A run also holds one of the
process's slots until it ends, however it ends: there are few workers, and a conversation must always find one.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain.tools import ToolRuntime
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore, Item
from langgraph.store.memory import InMemoryStore

from lasting_memory.agent.blocks import file_text, sections
from lasting_memory.consolidation.due import CHARS_PER_TOKEN, Due
from lasting_memory.consolidation.planning import Owner
from lasting_memory.consolidation.proposals import files_of
from lasting_memory.consolidation.run_records import Record
from lasting_memory.consolidation.taken_back import shown_lines
from lasting_memory.deployment import Deployment
from lasting_memory.files.changes import Changed, changes
from lasting_memory.files.proposals import Dated
from lasting_memory.limits import Consolidation, Limits
from lasting_memory.people import identity, namespaces
from lasting_memory.people.identity import Context
from lasting_memory.recall import rank
from lasting_memory.validation import RefusedWrite

TOOL = "search_recent_conversations"
NOTHING_NEW = "Nothing is new since the last consolidation."
# What a batch is made of: what is new in conversations; all of memory; a text that the person brought from another assistant.
Kind = Literal["conversations", "tidy", "bring"]
_TASKS: dict[Kind, str] = {kind: f"consolidation_{kind}.md" for kind in ("tidy", "bring")}
# Conversations of a batch that its revisions name.
_THREADS_NOTED = 10
_REASON_CHARS = 200


@dataclass(slots=True)
class Draft:
    """One batch: the conversations that the model works on at once, and its copy of the files."""

    owner: Owner
    files: namespaces.Namespace  # the same in the copy and in the real store
    base: Mapping[str, Item]  # the copied items, by key
    shown: Sequence[Due]
    said: Sequence[Dated]  # what the person said in these conversations since they first took something back
    text: str  # the conversations as the model reads them, with the files about them
    more: bool  # whether other conversations are due
    report: Record
    kind: Kind = "conversations"
    source: Sequence[tuple[str, str]] | None = None  # path and text of all that its new lines may say; None: anything
    refused: str = ""  # why the first attempt was refused
    steps: int = 0  # model calls of this attempt
    given_up: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))  # why, by path and line
    store: BaseStore = field(default_factory=InMemoryStore)

    @property
    def author(self) -> identity.Author:
        """The sources of a line, for a person who asks; the run's record counts all conversations."""
        said_in = " ".join(sorted(item.conversation.thread_id for item in self.shown)[:_THREADS_NOTED])
        return identity.Author("consolidation", self.owner.actor.user_id, self.report.run_id, said_in)

    async def begin(self, refused: str = "") -> None:
        """Fill the copy, without revisions: a first time, or again after a refusal."""
        self.store, self.refused, self.steps = InMemoryStore(), refused, 0
        self.given_up.clear()
        for key, item in self.base.items():
            await self.store.aput(self.files, key, {name: of for name, of in item.value.items() if "revision" not in name})

    async def changes(self) -> list[Changed]:
        return changes(self.base, await files_of(self.store, self.files))


# It gets the error that ended the run, or None.
Ending = Callable[[BaseException | None], Coroutine[Any, Any, None]]
_ENDINGS: dict[str, Ending] = {}  # by run id


class Drafts:
    """The runs of this process that are at work, each with its slot and its draft."""

    def __init__(self, most: int) -> None:
        self._most, self._drafts = most, dict[str, Draft]()
        self._slots = dict[str, tuple[identity.Actor, bool]]()

    def take(self, actor: identity.Actor, *, dry: bool = False, asked: bool = False) -> bool:
        """Take a slot for the current run, if one is free: a person leaves one to others, dry and asked runs have one more."""
        alike = [other for other, is_dry in self._slots.values() if is_dry == dry]
        free = len(alike) < (1 if dry else self._most + asked) and alike.count(actor) < max(1, self._most - 1)
        if free:
            self._slots[_run_id()] = actor, dry
        return free

    def begin(self, draft: Draft) -> None:
        self._drafts[_run_id()] = draft

    def end(self, run_id: str) -> None:
        """Free a run's slot."""
        self._slots.pop(run_id, None)
        self._drafts.pop(run_id, None)

    def current(self) -> Draft | None:
        """The current run's draft; None before it begins, and in a process to which the run came from another."""
        return self._drafts.get(_run_id())

    def store(self) -> BaseStore | None:
        """The store of the current run's files; None for the real one, which only scripts use."""
        if not identity.on_server():
            return None
        if draft := self.current():
            return draft.store
        raise RefusedWrite("This consolidation was interrupted; it begins again.")


def _run_id() -> str:
    return identity.current_run_id() or ""


def at_end(ending: Ending) -> None:
    """Have this called when the current run of an `EndedGraph` ends."""
    _ENDINGS[_run_id()] = ending


class EndedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A graph whose runs end as `at_end` says, also by an error in a node, a limit or a cancellation: then no node runs."""

    async def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:  # noqa: A002
        """Run the graph. Everything that a server runs or streams it with calls this."""
        error: BaseException | None = None
        try:
            parts: Any = super().astream(input, config, **options)
            async with aclosing(parts):
                async for part in parts:
                    yield part
        except BaseException as raised:
            error = raised
            raise
        finally:
            run_id = str((config or {}).get("configurable", {}).get("run_id") or "")
            if ending := _ENDINGS.pop(run_id, None):
                # A task of its own: whoever cancels the run once more does not cancel this.
                await asyncio.shield(asyncio.create_task(ending(error)))


# --- What the model is given


def task(deployment: Deployment, draft: Draft) -> str:
    """The first message: how many conversations there are, and after a refusal its reason. Blocks."""
    text = deployment.prompt(_TASKS.get(draft.kind, "consolidation_task.md")).replace("{count}", str(len(draft.shown)))
    if not draft.refused:
        return text
    return f"{text}\n{deployment.prompt('consolidation_retry.md').replace('{reason}', draft.refused)}"


def shown_text(
    talk: str,
    files: Mapping[str, Item],
    taken: Sequence[Dated],
    said: Sequence[Dated],
    *,
    rules: Consolidation,
    limits: Limits,
) -> str:
    """The conversations, the topic files with the most words in common, and what the person took back. Blocks."""
    topics = [item for key, item in files.items() if key.startswith("/topics/") and key != "/topics/index.md"]
    text, texts = talk, [(f"/memories{item.key}", file_text(f"/memories{item.key}", item)) for item in topics]
    best = rank(talk, [f"{path} {content}" for path, content in texts])[: rules.topic_files_shown]
    if best:
        text += f"\n\n# Files about the same\n\n{sections([texts[i] for i, _ in best], limits.memory_block_bytes)[0]}"
    return f"{text}\n\n# Taken back\n\n{shown_lines(taken, said)}" if taken else text


def whole_memory(files: Mapping[str, Item], taken: Sequence[Dated], *, rules: Consolidation) -> str:
    """All files as far as they fit into a batch, and what the person took back. Blocks."""
    paths = {f"/memories{key}": item for key, item in sorted(files.items()) if not key.startswith("/skills/")}
    text, _ = sections([(path, file_text(path, item)) for path, item in paths.items()], rules.batch_tokens * CHARS_PER_TOKEN)
    return f"{text}\n\n# Taken back\n\n{shown_lines(taken, ())}" if taken else text


def consolidation_tools(drafts: Drafts) -> list[BaseTool]:
    """The tools, which read and note in the current run's draft."""

    @tool(TOOL)
    async def search_recent_conversations() -> str:
        """Read again what is new in this person's conversations since the last consolidation, oldest first; or, where your
        task is about another text, that text.
        """
        draft = drafts.current()
        return draft.text if draft else NOTHING_NEW

    @tool
    async def forget_lines(
        path: str,
        lines: list[str],
        reason: Literal["outdated", "contradicted"],
        runtime: ToolRuntime[Context, Any],
        because: str = "",
    ) -> str:
        """Say which lines of a memory file are no longer true, before you remove or replace them. This changes no file itself.

        Args:
            path: the file, e.g. /memories/topics/cooking.md.
            lines: each line as it stands there.
            reason: outdated, where time has passed over them; contradicted, where something newer says otherwise.
            runtime: given by the platform.
            because: why, in a few words for the person, e.g. "the launch was in May".
        """
        if not path.startswith("/memories/") or ".." in path:
            return f"Error: '{path}' is not memory; use a path under /memories/."
        if draft := drafts.current():
            draft.given_up[path] |= {line.strip(): because[:_REASON_CHARS] or reason for line in lines}
        return f"Noted {len(lines)} lines; now change {path}."

    return [search_recent_conversations, forget_lines]
