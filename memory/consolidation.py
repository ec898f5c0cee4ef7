"""What consolidation reads: the part of each conversation that came after the person's last consolidation.

The position is kept per thread, in the store: the id of the last message that was consolidated and the thread's time stamp
when it was read. There is no lookback window to keep in step with a schedule: a missed run, or a thousand of them, drops
nothing, and a conversation that changed while it was being read is due again. The position moves when a run has ended well.

A run is for the person it acts as. An operator's run that names nobody, such as the cron's, starts one for everybody who has
something new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import hook_config
from langchain.agents.middleware.types import AgentMiddleware, AgentState, PrivateStateAttr
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.config import get_store
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, PutOp
from langgraph.types import Command
from langgraph_sdk import get_client
from langgraph_sdk.schema import ThreadSelectField

from memory import scopes
from memory.episodes import Conversation, conversation, owned_by
from memory.prompt import PerRun
from memory.sweep import sweep
from memory.triggers import current_owner, is_stray
from settings import BATCH_CHARS, PROJECT, Settings

TASK = (PROJECT / "prompts" / "consolidation_task.md").read_text("utf-8")
TOOL = "search_recent_conversations"
_PAGE = 100


@dataclass(frozen=True, slots=True)
class Due:
    """The new turns of one conversation, and the thread's time stamp when they were read. `whole`: none are left out."""

    conversation: Conversation
    updated_at: str
    whole: bool = True

    def position(self) -> dict[str, str]:
        """What is stored once these turns are consolidated."""
        last = self.conversation.turns[-1].message_id
        return {"message_id": last, "updated_at": self.updated_at if self.whole else ""}


def new_part(talk: Conversation, message_id: str | None) -> Conversation:
    """The turns after a message; all of them where it is not in the conversation (edited, deleted, never consolidated)."""
    ids = [turn.message_id for turn in talk.turns]
    start = ids.index(message_id) + 1 if message_id in ids else 0
    return Conversation(talk.thread_id, talk.date, talk.turns[start:])


def batch(due: Sequence[Due], chars: int) -> list[Due]:
    """As many conversations as fit, oldest first. Of the last one only the turns that fit may be in it; at least one is."""
    taken: list[Due] = []
    for item in sorted(due, key=lambda item: item.updated_at):
        talk, fitting = item.conversation, 0
        for turn in talk.turns:
            chars -= len(turn.text)
            if chars < 0 and (taken or fitting):
                break
            fitting += 1
        if fitting:
            part = Conversation(talk.thread_id, talk.date, talk.turns[:fitting])
            taken.append(Due(part, item.updated_at, whole=fitting == len(talk.turns)))
        if chars < 0:
            break
    return taken


class ConsolidationState(AgentState[Any]):
    """`read_positions`: how far the model has read in this run, by thread id; kept with the tool's answer it belongs to."""

    read_positions: NotRequired[Annotated[dict[str, dict[str, str]], PrivateStateAttr]]


class Consolidation(AgentMiddleware[Any, Any, Any]):
    """Ends a run before the model is called when nothing is new, and moves the positions when a run has ended well.

    What a client sends as messages is not read: a run of this graph is about the person's conversations, and nothing else.
    """

    state_schema = ConsolidationState

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings
        self._found = PerRun(self._find, runs_kept=16)  # each holds conversations, not prompts
        self.tools = [self._tool()]

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Replace the messages by the task, or end."""
        if not scopes.on_server(runtime):
            return None  # a script that calls the graph has no conversations on a server, and says itself what to do
        if self._settings.memory_scope == "assistant":
            return _end("Nothing is consolidated under MEMORY_SCOPE=assistant: private conversations stay private.")
        if scopes.names_nobody(self._settings, runtime):
            return _end(f"Consolidation was started for {await sweep(self._settings, get_client(), get_store())} people.")
        if await is_stray(current_owner(self._settings, runtime), get_store()):
            return _end("This run was planned for somebody who is gone, or on a thread that another has replaced.")
        if not (found := await self._found.get()):
            return _end("Nothing is new since the last consolidation.")
        return _only(HumanMessage(TASK.replace("{count}", str(len(found)))))

    async def aafter_agent(self, state: Any, runtime: Runtime[Any]) -> None:
        """Move the positions of the conversations the model has read."""
        if positions := state.get("read_positions"):
            namespace = scopes.consolidation(scopes.current_actor(self._settings, runtime))
            await get_store().abatch([PutOp(namespace, thread_id, {**at}) for thread_id, at in positions.items()])

    def _tool(self) -> BaseTool:
        @tool(TOOL)
        async def search_recent_conversations(runtime: ToolRuntime[scopes.Context]) -> Command[Any]:
            """Read what this person's conversations have had that is new since the last consolidation, oldest first."""
            found = await self._found.get() if scopes.on_server() else []
            shown = batch(found, BATCH_CHARS)
            left = len(found) - sum(item.whole for item in shown)
            rest = [f"[{left} more conversations are due; the next run reads them]"] if left else []
            text = "\n\n".join([*map(_transcript, shown), *rest]) or "Nothing is new since the last consolidation."
            positions = {item.conversation.thread_id: item.position() for item in shown}
            message = ToolMessage(text, name=TOOL, tool_call_id=runtime.tool_call_id)
            return Command(update={"messages": [message], "read_positions": positions})

        return search_recent_conversations

    async def _find(self) -> list[Due]:
        """Conversations of the person this run acts for that changed since their position."""
        actor, store = scopes.current_actor(self._settings), get_store()
        namespace = scopes.consolidation(actor)
        positions = await _positions(store, namespace)
        metadata = owned_by(actor)
        if self._settings.memory_scope == "user+assistant":
            metadata["assistant_id"] = scopes.current_assistant()
        changed = [
            thread
            for thread in await _threads(metadata)
            if positions.get(str(thread["thread_id"]), {}).get("updated_at") != str(thread["updated_at"])
        ]
        due, unchanged = [], []
        for start in range(0, len(changed), _PAGE):
            ids = [str(thread["thread_id"]) for thread in changed[start : start + _PAGE]]
            threads: Any = await get_client().threads.search(
                ids=ids, metadata=metadata, limit=_PAGE, select=["thread_id", "updated_at", "values"]
            )
            for thread in threads:
                known = positions.get(str(thread["thread_id"]), {})
                talk = conversation(thread, speakers=("user", "assistant"))
                item = Due(new_part(talk, known.get("message_id")), str(thread["updated_at"]))
                if item.conversation.turns:
                    due.append(item)
                elif known:  # touched, but nothing was said
                    unchanged.append(PutOp(namespace, str(thread["thread_id"]), {**known, "updated_at": item.updated_at}))
        if unchanged:
            await store.abatch(unchanged)
        return due


async def _positions(store: BaseStore, namespace: scopes.Namespace) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    while page := await store.asearch(namespace, limit=_PAGE, offset=len(found)):
        found |= {item.key: item.value for item in page}
        if len(page) < _PAGE:
            break
    return found


async def _threads(metadata: dict[str, str]) -> list[Any]:
    """All conversations with this metadata, without what was said in them."""
    found: list[Any] = []
    fields: list[ThreadSelectField] = ["thread_id", "updated_at", "metadata"]
    while True:
        page: Any = await get_client().threads.search(
            metadata=metadata, limit=_PAGE, offset=len(found), sort_by="thread_id", select=fields
        )
        found += page
        if len(page) < _PAGE:
            return found


def _transcript(item: Due) -> str:
    talk = item.conversation
    lines = [f"{turn.speaker}: {' '.join(turn.text[:BATCH_CHARS].split())}" for turn in talk.turns]
    return "\n".join([f"{talk.date} thread_id={talk.thread_id}", *lines])


def _only(message: HumanMessage | AIMessage) -> dict[str, Any]:
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), message], "read_positions": {}}


def _end(text: str) -> dict[str, Any]:
    return {**_only(AIMessage(text)), "jump_to": "end"}
