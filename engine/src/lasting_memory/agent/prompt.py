"""Policies and memory in the system prompt: read for every run, within a budget of bytes.

deepagents loads memory once for a thread's life and keeps it in thread state, where a client can
change it. The middleware of this module takes the place of the built-in one by its name, ignores
thread state, and shows what a run has read once, its snapshot (`snapshot.py`).

A block is a part of the prompt: that of policies, and that of memory. A line of memory is
unconfirmed where no person vouches for it (`unconfirmed.py`), and over where the day until which it
holds has passed (`memory/ends.py`). Starting files are those that a person gets who has none yet.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import attrgetter
from typing import cast

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.config import get_config
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore, GetOp, Item

from lasting_memory import days, platform
from lasting_memory.agent.backends import StoreOverride, starting_files
from lasting_memory.agent.checks import GuardedState
from lasting_memory.agent.file_sections import Block, TextFile, memory_sections, sections
from lasting_memory.agent.groups import section_on_groups
from lasting_memory.agent.once_a_run import once_a_run
from lasting_memory.agent.snapshot import Snapshot, read_snapshot, run_snapshots
from lasting_memory.agent.titles import give_title
from lasting_memory.agent.unconfirmed import listed_within, split_unconfirmed
from lasting_memory.conversations.marks import keep_out
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.memory import ends, stored_files, validation
from lasting_memory.memory.controls import Controls
from lasting_memory.memory.ends import Day
from lasting_memory.memory.sources import signs_in
from lasting_memory.people import identity
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Actor, Context
from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD

_PROFILE_KEY = PROFILE_PATH.removeprefix("/memories")
# Unconfirmed lines have this part of the room for memory, beside it.
_UNCONFIRMED_PART = 8
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


def policies_left_out(texts: Mapping[str, str], budget: int) -> list[str]:
    """A line for each policy of an organization that prompts do not show as a whole.

    `texts` are the organization's files of policies, by key. `budget` is bytes.
    """
    rules = list[TextFile]()
    in_folders = list[str]()
    for key, text in sorted(texts.items()):
        path = f"/policies{key}"
        if validation.is_policy(key):
            rules.append(TextFile(path, text))
        else:
            in_folders.append(path)
    _, omissions = sections(rules, budget)
    lines = list[str]()
    for omission in omissions:
        lines.append(
            f"{omission} of it (policy_block_bytes is {budget:,}); "
            "the agent reads the rest from the file"
        )
    for path in in_folders:
        lines.append(f"{path}: it is in a folder; name it in a policy that is in none")
    return lines


def file_text(path: str, item: Item) -> str:
    """The text of a stored file, or a line that says why there is none."""
    try:
        file = stored_files.stored_file(item)
    except ValueError as error:
        return f"[{path} cannot be shown: {error}]"
    if file["encoding"] != "utf-8":
        return f"[{path} is not text; it is left out]"
    return file["content"]


def memory_files(deployment: Deployment) -> list[str]:
    """The files under `/memories/` that every prompt shows; none where there is no memory."""
    if not deployment.has_memory:
        return []
    paths = list(deployment.limits.memory_files)
    if deployment.profile:
        return paths
    return [path for path in paths if path != PROFILE_PATH]


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
        # The keys of the files that are shown, and of those that are read.
        self._keys = [path.removeprefix("/memories") for path in files]
        self._read_keys = list(self._keys)
        # The profile says whose day it is, also where it is not shown.
        has_profile = deployment.profile is not None and deployment.has_own_memory
        if has_profile and _PROFILE_KEY not in self._keys:
            self._read_keys.append(_PROFILE_KEY)
        self._in_conversation = drafts is None
        # Memory may be written by consolidation alone.
        in_background = deployment.settings.memory_writes == "background"
        self._leaves_writing = self._in_conversation and in_background
        self._on_writing = section_on_writing(deployment)
        self._blocks = once_a_run(deployment, self._read)

    async def awrap_model_call(
        self,
        request: ModelRequest[Context],
        handler: Callable[[ModelRequest[Context]], Awaitable[ModelResponse[object]]],
    ) -> ModelResponse[object]:
        """The model's answer to a request with the blocks in its system prompt."""
        blocks = await self._blocks()
        system = request.system_message
        # The tools stay: what a paused person asks to be kept is refused in words that they see.
        if any(block.is_read_only for block in blocks):
            system = _without(system, self._on_writing)
        shown_system = _with_blocks(system, blocks)
        messages = [_without_authority(message) for message in request.messages]
        shown_request = request.override(system_message=shown_system, messages=messages)
        response = await handler(shown_request)
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
        reads = [GetOp(namespace, key) for key in self._read_keys]
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
        policies = self._policy_block(snapshot)
        if snapshot.is_temporary:
            text = self._deployment.prompt("temporary_block.md")
            temporary = Block("temporary", text, 0, is_read_only=True)
            return policies, temporary
        if not self._deployment.has_memory:
            return (policies,)
        texts = dict(starting_texts)
        read_items = dict[str, Item]()
        for item in items:
            if item.key in self._read_keys:
                path = f"/memories{item.key}"
                texts[item.key] = file_text(path, item)
                read_items[item.key] = item
        # Shared memory has no profile, so its days are those of UTC.
        profile = texts.get(_PROFILE_KEY)
        zone = days.zone_of(profile)
        day = Day.now(zone)
        unconfirmed = self._take_out(texts, read_items, day)
        memory = self._memory_block(texts, unconfirmed, snapshot.controls, day)
        return policies, memory

    def _take_out(self, texts: dict[str, str], items: Mapping[str, Item], day: Day) -> list[str]:
        """Takes lines that are over, and unconfirmed ones, out of the texts of stored files.

        It returns the unconfirmed lines, each as a list item with its file, in the order in which
        the files are shown. `texts` and `items` are given by key.
        """
        unconfirmed = list[str]()
        for key in self._keys:
            item = items.get(key)
            if item is None:
                continue
            whole_text = texts[key]
            current = whole_text
            if self._deployment.ends:
                current = ends.current_text(item, whole_text, day)
            signs = signs_in(item.value)
            texts[key], lines = split_unconfirmed(key, whole_text, signs, current)
            for line in lines:
                unconfirmed.append(f"- /memories{key}: {line}")
        return unconfirmed

    def _memory_block(
        self, texts: Mapping[str, str], unconfirmed: Sequence[str], controls: Controls, day: Day
    ) -> Block:
        """The block of memory: rules, the files, unconfirmed lines, more rules.

        `texts` are given by key, without the unconfirmed lines.
        """
        budget = self._deployment.limits.memory_block_bytes
        files = list[TextFile]()
        for key in self._keys:
            if key in texts:
                path = f"/memories{key}"
                files.append(TextFile(path, texts[key]))
        shown_files, left_out = memory_sections(files, budget)
        if unconfirmed:
            section = self._section_on_unconfirmed(unconfirmed, budget)
            shown_files = f"{shown_files}\n\n{section}"
        parts = self._rules_before()
        parts.append(self._section_on_files(shown_files, day))
        parts += self._rules_behind(controls)
        text = "\n".join(parts)
        is_read_only = self._is_read_only(controls)
        return Block("memory", text, budget, left_out, is_read_only)

    def _section_on_files(self, files: str, day: Day) -> str:
        """The section with the files, in the form of `memory_sections`, and the person's day."""
        section = self._deployment.prompt("memory_block.md")
        today = f"{day.today:%A, %Y-%m-%d} ({day.zone.key})"
        section = section.replace("{today}", today)
        # The files last: what stands in them is never a place to fill.
        return section.replace("{files}", files or "(Nothing is remembered yet.)")

    def _section_on_unconfirmed(self, lines: Sequence[str], budget: int) -> str:
        """The section of unconfirmed lines. `budget` is the bytes of the whole block of memory."""
        room = budget // _UNCONFIRMED_PART
        listed = listed_within(lines, room)
        section = self._deployment.prompt("memory_unconfirmed.md")
        section = section.replace("{lines}", listed)
        return section.strip()

    def _rules_before(self) -> list[str]:
        """What stands before memory: that it is shared, or that this agent does not write it.

        Nothing of an agent that writes its person's own memory.
        """
        if self._deployment.memory.is_shared:
            return [self._deployment.prompt("memory_shared.md")]
        if self._leaves_writing:
            return [self._deployment.prompt("memory_read_only.md")]
        return []

    def _rules_behind(self, controls: Controls) -> list[str]:
        """What stands behind memory: whose the folders of groups are, and that writes are paused, or
        wait for the person's review.
        """
        rules = list[str]()
        groups = section_on_groups(self._deployment)
        if groups and self._in_conversation:
            rules.append(groups)
        writes = self._in_conversation and not self._leaves_writing
        if controls.paused:
            rules.append(self._deployment.prompt("paused_block.md"))
        elif controls.review_agent and writes:
            rules.append(self._deployment.prompt("reviewed_block.md"))
        return rules

    def _is_read_only(self, controls: Controls) -> bool:
        """Whether this run may not write memory. A consolidation always may."""
        if not self._in_conversation:
            return False
        if controls.paused:
            return True
        d = self._deployment
        return d.memory.rule(d.settings) == "deny"

    def _policy_block(self, snapshot: Snapshot) -> Block:
        """The block of an organization's rules: its policies that are in no folder."""
        rules = list[TextFile]()
        for item in sorted(snapshot.policies, key=attrgetter("key")):
            if validation.is_policy(item.key):
                path = f"/policies{item.key}"
                text = file_text(path, item)
                rules.append(TextFile(path, text))
        budget = self._deployment.limits.policy_block_bytes
        files, left_out = sections(rules, budget)
        if not files:
            files = "(The organization has set no policies.)"
        if snapshot.lacks_policies:
            files += (
                f"\n\n[There are {len(snapshot.policies)} files or more; "
                "ls /policies/ and read those that are not here]"
            )
        prompt = self._deployment.prompt("policies_block.md")
        prompt = prompt.replace("{files}", files)
        return Block("policies", prompt, budget, left_out)


def _without(message: SystemMessage | None, section: str) -> SystemMessage | None:
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
