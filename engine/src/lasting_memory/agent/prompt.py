"""Policies and memory in the system prompt: read for every run, within a budget of bytes.

deepagents loads memory once for a thread's life and keeps it in thread state, where a client can
change it. The middleware of this module takes the place of the built-in one by its name, ignores
thread state, and shows what a run has read once, its snapshot (`snapshot.py`).

A block is a part of the prompt: that of policies (`policy_block.py`), and that of memory
(`memory_block.py`). Starting files are those that a person gets who has none yet.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.config import get_config
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore, GetOp, Item

from lasting_memory import platform
from lasting_memory.agent.file_sections import Block
from lasting_memory.agent.graph_parts import GuardedState
from lasting_memory.agent.memory_block import MemoryBlock
from lasting_memory.agent.once_a_run import once_a_run
from lasting_memory.agent.policy_block import policy_block
from lasting_memory.agent.route_files import StoreOverride
from lasting_memory.agent.snapshot import Snapshot, read_snapshot, run_snapshots
from lasting_memory.agent.starting_files import starting_files
from lasting_memory.agent.titles import give_title
from lasting_memory.conversations.marks import keep_out
from lasting_memory.deployment import Deployment
from lasting_memory.people import identity
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Actor, Context
from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD

# The section of `agent.md` on writing memory, which is left out where the agent may not.
_ON_WRITING = re.compile(r"^## Remembering\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def section_on_writing(d: Deployment) -> str:
    """The section of `agent.md` on writing memory; "" in a fork's prompt that has none."""
    try:
        prompt = d.prompt("agent.md")
    except FileNotFoundError:
        return ""
    section = _ON_WRITING.search(prompt)
    if section is None:
        return ""
    return section[0]


class PromptBlocks(AgentMiddleware[GuardedState, Context, object]):
    """Appends policies and, where there is memory, memory to every system prompt.

    `files` are the paths under `/memories/` to show, in this order. `drafts` gives the store of a
    consolidation's draft; None in a conversation. With `titles`, a turn of a conversation that has
    no title gives it one.
    """

    name = "MemoryMiddleware"  # takes the built-in's place in the stack
    state_schema = GuardedState
    trace_policy = SPANS_WITHOUT_PAYLOAD

    def __init__(
        self,
        deployment: Deployment,
        files: Sequence[str],
        drafts: StoreOverride | None = None,
        *,
        titles: bool = False,
    ) -> None:
        super().__init__()
        self._deployment = deployment
        self._drafts = drafts
        self._titles = titles
        self._in_conversation = drafts is None
        self._memory_block = MemoryBlock(deployment, files, in_conversation=self._in_conversation)
        self._section_on_writing = section_on_writing(deployment)
        self._blocks = once_a_run(deployment, self._read)

    async def awrap_model_call(
        self,
        request: ModelRequest[Context],
        handler: Callable[[ModelRequest[Context]], Awaitable[ModelResponse[object]]],
    ) -> ModelResponse[object]:
        """The model's answer to a request with the blocks in its system prompt."""
        blocks = await self._blocks()
        system_message = request.system_message
        # The tools stay: what a paused person asks to be kept is refused in words that they see.
        if any(block.is_read_only for block in blocks):
            system_message = _without_section(system_message, self._section_on_writing)
        system_with_blocks = _with_blocks(system_message, blocks)
        messages = [_without_authority(message) for message in request.messages]
        request_with_blocks = request.override(system_message=system_with_blocks, messages=messages)
        response = await handler(request_with_blocks)
        # After the answer: a run that is stopped or deleted before leaves nothing of what was said.
        if self._titles and _are_of_a_turn(request.messages):
            thread = request.state.get("messages") or []
            await give_title(thread)
        return response

    async def preview(
        self, store: BaseStore, actor: Actor, assistant: str, snapshot: Snapshot
    ) -> tuple[Block, ...]:
        """Policies and memory as the person's next run shows them.

        It needs no run and writes nothing.
        """
        starting_texts: Mapping[str, str] = {}
        if self._may_start_memory(snapshot):
            starting_texts = await self._starting_files(store, actor, assistant, write=False)
        items = snapshot.memory
        return await platform.in_thread(self._blocks_of, snapshot, starting_texts, items)

    async def _starting_files(
        self, store: BaseStore, actor: Actor, assistant: str, *, write: bool
    ) -> Mapping[str, str]:
        """The texts of a person's starting files, by key. With `write` they are stored."""
        return await starting_files(store, actor, assistant, self._deployment, write=write)

    async def _read(self, store: BaseStore, caller: Caller) -> tuple[Block, ...]:
        """Policies and memory as this run shows them.

        A person without files gets the starting ones. If they have paused memory, the thread is
        marked, so that consolidation skips it.
        """
        snapshot = await self._snapshot(store, caller)
        if snapshot.controls.paused and not snapshot.is_temporary:
            await _keep_thread_out()
        starting_texts: Mapping[str, str] = {}
        if self._may_start_memory(snapshot):
            context = identity.run_context(get_runtime())
            if not context.dry_run:
                starting_texts = await self._starting_files(
                    store, caller.actor, caller.assistant, write=True
                )
        items = snapshot.memory
        draft = self._drafts() if self._drafts else None
        if draft and not snapshot.is_temporary:
            items = await self._read_draft(draft, caller)
        # In a thread, because people write many and large files.
        return await platform.in_thread(self._blocks_of, snapshot, starting_texts, items)

    async def _snapshot(self, store: BaseStore, caller: Caller) -> Snapshot:
        """The snapshot that this run's agent shares; in a consolidation one without skills."""
        if self._in_conversation:
            snapshots = run_snapshots(self._deployment)
            return await snapshots.of_run(store, caller)
        return await read_snapshot(
            self._deployment, store, caller.actor, caller.assistant, with_skills=False
        )

    async def _read_draft(self, draft: BaseStore, caller: Caller) -> list[Item]:
        """The files of a consolidation's draft, as far as prompts need them."""
        namespace = self._deployment.memory.namespace(caller.actor, caller.assistant)
        reads = [GetOp(namespace, key) for key in self._memory_block.read_keys]
        results = await draft.abatch(reads)
        return [item for item in results if isinstance(item, Item)]

    def _may_start_memory(self, snapshot: Snapshot) -> bool:
        """Whether a person may be given the starting files: they have none, and may write."""
        if not self._deployment.has_memory or snapshot.is_temporary:
            return False
        if snapshot.controls.paused:
            return False
        return not snapshot.memory

    def _blocks_of(
        self, snapshot: Snapshot, starting_texts: Mapping[str, str], items: Sequence[Item]
    ) -> tuple[Block, ...]:
        """The block of policies, and that of memory where there is one. Blocks.

        `starting_texts` are those of the starting files, by key; `items` are the files of memory.
        """
        policies = policy_block(self._deployment, snapshot)
        if snapshot.is_temporary:
            text = self._deployment.prompt("temporary_block.md")
            temporary_block = Block("temporary", text, 0, is_read_only=True)
            return policies, temporary_block
        if not self._deployment.has_memory:
            return (policies,)
        memory = self._memory_block.of(starting_texts, items, snapshot.controls)
        return policies, memory


def _without_section(message: SystemMessage | None, section: str) -> SystemMessage | None:
    """The system message without a section of its text; None if there is no message."""
    if message is None or not section:
        return message
    blocks = list[Mapping[str, object]]()
    for block in message.content_blocks:
        if block["type"] != "text":
            blocks.append(block)
            continue
        text = block["text"].replace(section, "")
        blocks.append({**block, "text": text})
    return _system_message(blocks)


def _with_blocks(message: SystemMessage | None, blocks: Sequence[Block]) -> SystemMessage:
    """The system message with these blocks behind it."""
    content = list[Mapping[str, object]]()
    if message:
        content.extend(message.content_blocks)
    # The provider's caching middleware marks the end of the static prompt. A second mark at the end
    # of these blocks means that a change of memory costs a new cache entry for the blocks alone.
    marker = None
    if content:
        marker = content[-1].get("cache_control")
    for block in blocks:
        content.append({"type": "text", "text": f"\n\n{block.text}"})
    if marker:
        content[-1] = {**content[-1], "cache_control": marker}
    return _system_message(content)


def _system_message(blocks: list[Mapping[str, object]]) -> SystemMessage:
    """The system message of these blocks, which are dictionaries."""
    return SystemMessage(content=cast("list[str | dict[str, object]]", blocks))


def _are_of_a_turn(messages: Sequence[AnyMessage]) -> bool:
    """Whether the last of these messages is a person's."""
    if not messages:
        return False
    return isinstance(messages[-1], HumanMessage)


async def _keep_thread_out() -> None:
    """Marks the run's thread, so that consolidation skips what is said during the pause.

    `auth.py` marks what is sent during a pause. This run may have waited for one to begin. Without
    a server there are no threads to mark.
    """
    if not identity.on_server():
        return
    config = get_config()
    thread_id = str(config["configurable"]["thread_id"])
    metadata = config.get("metadata")
    await keep_out(thread_id, metadata)


def _without_authority(message: AnyMessage) -> AnyMessage:
    """A message of the conversation as it is, but for a client's "system" message.

    That becomes a user's, because only this library and the deployment instruct the model.
    """
    if isinstance(message, HumanMessage | AIMessage | ToolMessage):
        return message
    return HumanMessage(message.content, id=message.id)
