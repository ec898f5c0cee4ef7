"""Policies and memory in the system prompt: fresh for every run, within a budget, unable to close their block.

deepagents loads memory once for a thread's life and keeps it in thread state, where a client can change it. This middleware
replaces the built-in one by its name, ignores thread state, and reads the store once a run.
"""

import asyncio
import re
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.config import get_config, get_store
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore, GetOp, Item, Op, SearchItem, SearchOp

from lasting_memory.controls import NAMES, Controls, controls_of, in_temporary_conversation, keep_out, read_controls
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.files.backends import StoreOverride
from lasting_memory.files.routes import starting_files
from lasting_memory.people import identity, namespaces
from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD
from lasting_memory.validation import is_policy, stored_file

# Policy files of one organization among which a run looks for top-level rules. Files that rules refer to are among them.
MAX_POLICY_FILES = 1_000
# All that compatibility normalization makes a "<" of; and what after it opens or closes a block, also for a reader
# who sees letters alone. So many characters are normalized: it takes time quadratic in accents that follow each other.
_BRACKET = re.compile("[<\ufe64\uff1c]")
_NAMES = "|".join(r"[\W_]{0,3}".join(name) for name in ("polic", "memor", "skill"))
_NAME = re.compile(rf"[\W_]{{0,40}}(?:{_NAMES})", re.IGNORECASE)
_NAME_CHARS = 60
_RUNS_KEPT = 256


def shown(text: str) -> str:
    """File text as a prompt block shows it: without HTML comments, and unable to open or close a block."""
    return _BRACKET.sub(_escaped, without_comments(text)).strip()


def without_comments(text: str, *, line_breaks: bool = False) -> str:
    """Text without HTML comments, or with the line breaks in them, so that each line keeps its number. In linear time."""
    before, *commented = text.split("<!--")
    parts = (part.partition("-->") for part in commented)
    return before + "".join(
        "\n" * (line_breaks * said.count("\n")) + after if end else f"<!--{said}" for said, end, after in parts
    )


def _escaped(bracket: re.Match[str]) -> str:
    after = bracket.string[bracket.end() : bracket.end() + _NAME_CHARS]
    return "&lt;" if _NAME.match(unicodedata.normalize("NFKD", after)) else bracket[0]


Loaded = TypeVar("Loaded")


def once_a_run(load: Callable[[], Awaitable[Loaded]]) -> Callable[[], Awaitable[Loaded]]:
    """One load for all model calls of a run, its subagents' included. Without a server, which gives run ids, one a call."""
    kept = dict[str, Loaded]()

    async def loaded() -> Loaded:
        run_id = identity.current_run_id()
        if run_id is None:
            return await load()
        if run_id not in kept:
            kept[run_id] = await load()
            if len(kept) > _RUNS_KEPT:
                del kept[next(iter(kept))]
        return kept[run_id]

    return loaded


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the system prompt: its name and text, its budget for files in bytes, and a line for each omission."""

    name: str
    text: str
    budget: int
    left_out: tuple[str, ...] = ()


def sections(files: Sequence[tuple[str, str]], budget: int) -> tuple[str, tuple[str, ...]]:
    """Files (path and text, most important first) as sections of one text, and a line for each omission.

    `budget` is UTF-8 bytes of text in all. Of a file over it the head is kept, and a line says how much is left out.
    """
    parts, left_out = list[str](), list[str]()
    for path, text in files:
        raw = (shown(text) if budget > 0 else text).encode(errors="replace")  # nothing is shown of it, so nothing is prepared
        head = raw[:budget].decode(errors="ignore")
        budget -= len(head.encode())
        if left := len(raw) - len(head.encode()):
            head += f"\n[{left:,} bytes left out; read_file {path} for the rest]"
            left_out.append(f"{path}: {left:,} bytes")
        parts.append(f"## {shown(path)}\n\n{head}".rstrip())
    return "\n\n".join(parts), tuple(left_out)


def file_text(path: str, item: Item) -> str:
    """The text of a stored file, or a line that says why there is none."""
    try:
        file = stored_file(item)
    except ValueError as error:
        return f"[{path} cannot be shown: {error}]"
    return file["content"] if file["encoding"] == "utf-8" else f"[{path} is not text; it is left out]"


def memory_files(deployment: Deployment) -> list[str]:
    """The files under `/memories/` that every prompt shows."""
    return [path for path in deployment.limits.memory_files if deployment.profile or path != PROFILE_PATH]


class PromptBlocks(AgentMiddleware[Any, Any, Any]):
    """Appends the policies block and the memory block to the system prompt of every model call.

    `files` are the paths under `/memories/` to show, in this order; `drafts` gives the store of a consolidation's draft.
    """

    name = "MemoryMiddleware"  # takes the built-in's place in the stack
    trace_policy = SPANS_WITHOUT_PAYLOAD

    def __init__(self, deployment: Deployment, files: Sequence[str], drafts: StoreOverride | None = None) -> None:
        super().__init__()
        self._deployment, self._drafts = deployment, drafts
        self._keys = [path.removeprefix("/memories") for path in files]
        blocks = ("policies", "memory", "paused", "reviewed", "temporary")
        names = (*(f"{name}_block" for name in blocks), "memory_shared", "memory_read_only")
        self._texts = {name: deployment.prompt(f"{name}.md") for name in names}
        self._blocks = once_a_run(self._load)

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Callable[[Any], Awaitable[Any]]) -> Any:
        blocks = await self._blocks()
        before = list(request.system_message.content_blocks) if request.system_message else []
        added: list[Any] = [{"type": "text", "text": f"\n\n{block.text}"} for block in blocks]
        # The provider's caching middleware marks the end of the static prompt. A second mark at the end of these blocks means
        # that a change of memory costs a new cache entry for the blocks alone.
        if before and (marker := cast("dict[str, Any]", before[-1]).get("cache_control")):
            added[-1]["cache_control"] = marker
        message = SystemMessage(content=[*cast("list[Any]", before), *added])
        conversation = [_without_authority(said) for said in request.messages]
        return await handler(request.override(system_message=message, messages=conversation))

    async def _load(self) -> tuple[Block, Block]:
        actor = identity.current_actor(self._deployment.settings)
        assistant = identity.current_assistant(self._deployment.default_assistant)
        return await self.read(get_store(), actor, assistant)

    async def read(
        self, store: BaseStore, actor: identity.Actor, assistant: str, *, preview: bool = False
    ) -> tuple[Block, Block]:
        """Policies and memory as this run shows them; a `preview` needs no run and writes nothing: as the next one will."""
        memories = self._deployment.memory.namespace(actor, assistant)
        policies = namespaces.policies(actor.org_id)
        temporary = in_temporary_conversation()
        reads: list[Op] = [] if temporary else [GetOp(memories, key) for key in self._keys]
        ops: list[Op] = [SearchOp(policies, limit=MAX_POLICY_FILES), *read_controls(actor), *reads]
        rules, *rest = cast("list[Any]", await store.abatch(ops))
        wanted, items = controls_of(rest[: len(NAMES)], self._deployment), rest[len(NAMES) :]
        is_paused = wanted.paused
        if is_paused and not temporary and not preview and identity.on_server():
            config = get_config()  # `auth.py` marks what is sent during a pause; this run may have waited for one to begin
            await keep_out(str(config["configurable"]["thread_id"]), config.get("metadata"))
        runtime = None if preview else get_runtime()
        dry = runtime is not None and identity.run_context(runtime).dry_run
        texts: dict[str, str] = {}
        if not (temporary or is_paused or dry or any(items)):
            texts = {**await starting_files(store, actor, assistant, self._deployment, write=not preview)}
        if self._drafts and (draft := self._drafts()):
            items = await draft.abatch(reads)

        def shown() -> tuple[Block, Block]:
            texts.update({item.key: file_text(f"/memories{item.key}", item) for item in items if item})
            memory = Block("temporary", self._texts["temporary_block"], 0) if temporary else self._memory_block(texts, wanted)
            return self._policy_block([item for item in rules if item.namespace == policies]), memory

        return await asyncio.to_thread(shown)  # people write many and large files

    def _memory_block(self, texts: dict[str, str], wanted: Controls) -> Block:
        files = [(f"/memories{key}", texts[key]) for key in self._keys if key in texts]
        budget = self._deployment.limits.memory_block_bytes
        text, left_out = sections(files, budget)
        today = f"{datetime.now(UTC):%A, %Y-%m-%d}"
        # The files last: what stands in them is never a place to fill.
        text = self._texts["memory_block"].replace("{today}", today).replace("{files}", text or "(Nothing is remembered yet.)")
        # Consolidation writes what agents may not.
        reads_only = self._deployment.settings.memory_writes == "background" and self._drafts is None
        if self._deployment.memory.is_shared:
            text = f"{self._texts['memory_shared']}\n{text}"
        elif reads_only:
            text = f"{self._texts['memory_read_only']}\n{text}"
        if wanted.paused:
            text = f"{text}\n{self._texts['paused_block']}"
        elif wanted.review_agent and not reads_only and self._drafts is None:
            text = f"{text}\n{self._texts['reviewed_block']}"
        return Block("memory", text, budget, left_out)

    def _policy_block(self, items: Sequence[SearchItem]) -> Block:
        rules = sorted((item for item in items if is_policy(item.key)), key=lambda item: item.key)
        files = [(path := f"/policies{item.key}", file_text(path, item)) for item in rules]
        budget = self._deployment.limits.policy_block_bytes
        text, left_out = sections(files, budget)
        text = text or "(The organization has set no policies.)"
        if len(items) >= MAX_POLICY_FILES:
            text += f"\n\n[There are {MAX_POLICY_FILES} files or more; ls /policies/ and read those that are not here]"
        return Block("policies", self._texts["policies_block"].replace("{files}", text), budget, left_out)


def _without_authority(message: AnyMessage) -> AnyMessage:
    """A message of the conversation. A client's "system" message becomes a user's."""
    if isinstance(message, HumanMessage | AIMessage | ToolMessage):
        return message
    return HumanMessage(message.content, id=message.id)
