"""What is loaded into the system prompt: fresh for every run, within a budget.

deepagents keeps memory in thread state: loaded once for a thread's life, and a client that writes state writes the prompt.
The middleware here takes the built-in one's place (by name), never looks at state, and reads the store once a run.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

from deepagents.backends.protocol import FileData
from deepagents.backends.utils import create_file_data
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage
from langgraph.config import get_store
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore, GetOp, Item, Op, SearchOp

from memory import epochs, scopes
from memory.consensus import Change, LoggedFile
from memory.files import acarry_out
from memory.journal import Journal
from memory.starting import starting_memory
from memory.validation import RefusedWriteError, stored_file
from settings import MAX_POLICY_FILES, MEMORY_BUDGET_BYTES, POLICY_BUDGET_BYTES, PROJECT, Settings

logger = logging.getLogger(__name__)

MEMORY_ROUTE = "/memories/"
POLICY_ROUTE = "/policies/"
POLICY_BLOCK = (PROJECT / "prompts" / "policies_block.md").read_text("utf-8")
MEMORY_BLOCK = (PROJECT / "prompts" / "memory_block.md").read_text("utf-8")

# White space is bounded: with an unbounded run, a file of "<" and spaces would take minutes to scan.
# Full-width brackets and invisible characters look like a tag to a reader, and may to a model.
_BLOCK_TAG = re.compile(
    r"[<\ufe64\uff1c](?=[\s/\uff0f\u00ad\u200b-\u200f\u2060-\u2064\ufeff]{0,19}(?:policies|memory|skills)\b)", re.IGNORECASE
)

_PAGE = 100

Loaded = TypeVar("Loaded")


class PerRun(Generic[Loaded]):
    """One load for all model calls of a run, subagents' included. Without a server there are no run ids: loads each time.

    A run that goes on after an approval is a run of its own and loads afresh.
    """

    def __init__(self, load: Callable[[], Awaitable[Loaded]], runs_kept: int = 256) -> None:
        self._load = load
        self._runs_kept = runs_kept
        self._kept: OrderedDict[str, Loaded] = OrderedDict()

    async def get(self) -> Loaded:
        run_id = scopes.current_run_id()
        if run_id is None:
            return await self._load()
        if run_id not in self._kept:
            self._kept[run_id] = await self._load()
            while len(self._kept) > self._runs_kept:
                self._kept.popitem(last=False)
        return self._kept[run_id]


def shown(text: str) -> str:
    """File text as a prompt block shows it: without HTML comments, and unable to open or close a block. In linear time."""
    parts, start = [], 0
    while (opening := text.find("<!--", start)) >= 0 and (closing := text.find("-->", opening)) >= 0:
        parts.append(text[start:opening])
        start = closing + len("-->")
    # What is left of comments within comments, or of one that never closes, is shown as text.
    rest = "".join([*parts, text[start:]]).replace("<!--", "&lt;!--")
    return _BLOCK_TAG.sub("&lt;", rest).strip()


def within_budget(files: Sequence[tuple[str, str]], budget: int) -> str:
    """Files as sections of one text.

    Args:
        files: path and text, most important first.
        budget: UTF-8 bytes of text in all. Of a file over it the head is kept, and a line says how much is left out.
    """
    sections = []
    for path, text in files:
        raw = (shown(text) if budget > 0 else text).encode(errors="replace")  # nothing is shown of it, so nothing is prepared
        head = raw[:budget].decode(errors="ignore")
        budget -= len(head.encode())
        if left := len(raw) - len(head.encode()):
            head += f"\n[{left:,} bytes left out; read_file {path} for the rest]"
        sections.append(f"## {path}\n\n{head}".rstrip())
    return "\n\n".join(sections)


def file_text(path: str, value: object) -> str:
    """The text of a loaded value, or a line that says why there is none. Never an empty text for something that is there."""
    if isinstance(value, BaseException):
        return f"[{path} could not be read ({type(value).__name__}); it is not empty: say so, and try read_file]"
    try:
        file = stored_file(cast("Item", value))
    except ValueError as error:
        return f"[{path} cannot be shown: {error}]"
    if file["encoding"] != "utf-8":
        return f"[{path} is not text; it is left out]"
    return file["content"]


async def read_all(store: BaseStore, ops: Sequence[Op]) -> list[Any]:
    """The results of all operations in one batch; if the batch fails, of each alone, an exception in place of a failing one."""
    try:
        return list(await store.abatch(ops))
    except Exception:  # a store raises what its driver raises; each failure is shown below
        logger.exception("Reading memory in one batch failed; reading each part alone.")
        parts = await asyncio.gather(*(store.abatch([op]) for op in ops), return_exceptions=True)
        return [part if isinstance(part, BaseException) else part[0] for part in parts]


class PromptBlocks(AgentMiddleware[Any, Any, Any]):
    """Appends the policies block and the memory block to the system prompt of every model call.

    Args:
        settings: whose memory, and whether it may be seeded.
        memory_files: paths under `/memories/` to show, in this order.
    """

    name = "MemoryMiddleware"  # takes the built-in's place in the stack

    def __init__(self, settings: Settings, memory_files: Sequence[str]) -> None:
        super().__init__()
        self._settings = settings
        self._keys = [_key(path) for path in memory_files]
        self._blocks = PerRun(self._load)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        blocks = await self._blocks.get()
        before = list(request.system_message.content_blocks) if request.system_message else []
        added: list[Any] = [{"type": "text", "text": f"\n\n{block}"} for block in blocks]
        # Where the provider's caching middleware marked the end of the static prompt, mark the end of these blocks too:
        # a change of memory then costs a new cache entry for the blocks alone. Elsewhere it marks the end by itself.
        if before and (marker := cast("dict[str, Any]", before[-1]).get("cache_control")):
            added[-1]["cache_control"] = marker
        message = SystemMessage(content=[*cast("list[Any]", before), *added])
        return await handler(request.override(system_message=message))

    async def _load(self) -> tuple[str, str]:
        actor = scopes.current_actor(self._settings)
        memories = scopes.memories(actor, scopes.current_assistant(), self._settings)
        policies = scopes.policies(actor.org_id)
        store = get_store()
        reads: list[Op] = [GetOp(memories, key) for key in self._keys]
        marked = SearchOp(scopes.unsettled(memories), limit=_PAGE)
        found, marks, epoch, *values = await read_all(
            store, [SearchOp(policies, limit=_PAGE), marked, epochs.read(actor), *reads]
        )
        if not isinstance(epoch, BaseException):
            epochs.begin(epoch)
        if isinstance(marks, list) and marks and await self._settle(store, memories, marks):
            values = await read_all(store, reads)
        failed: BaseException | None = None
        # Other files of the organization, such as those that rules refer to, must not crowd the rules out of the first page.
        while isinstance(found, list) and len(found) % _PAGE == 0 and 0 < len(found) < MAX_POLICY_FILES:
            (page,) = await read_all(store, [SearchOp(policies, limit=_PAGE, offset=len(found))])
            if isinstance(page, BaseException) or not page:
                failed = page if isinstance(page, BaseException) else None
                break
            found += page
        if all(value is None for value in values) and await self._seed(store, memories, actor):
            values = await read_all(store, reads)
        # Off the event loop: these are as many and as large files as somebody has written.
        return await asyncio.to_thread(lambda: (self._policy_block(policies, found, failed), self._memory_block(values)))

    def _policy_block(self, namespace: scopes.Namespace, found: Any, failed: BaseException | None) -> str:
        if isinstance(found, BaseException):
            text = file_text(POLICY_ROUTE, found)
        else:
            rules = sorted((item for item in found if item.namespace == namespace and _is_policy(item.key)), key=_item_key)
            files = [(f"/policies{item.key}", file_text(f"/policies{item.key}", item)) for item in rules]
            text = within_budget(files, POLICY_BUDGET_BYTES) or ("" if failed else "(The organization has set no policies.)")
            if failed:  # what was read is shown; that it is not all is said
                text += f"\n\n{file_text(POLICY_ROUTE, failed)}"
            if len(found) >= MAX_POLICY_FILES:
                text += f"\n\n[There are {MAX_POLICY_FILES} files or more; ls /policies/ and read those that are not here]"
        return POLICY_BLOCK.replace("{files}", text)

    def _memory_block(self, values: Sequence[Any]) -> str:
        paths = [f"/memories{key}" for key in self._keys]
        files = [(path, file_text(path, value)) for path, value in zip(paths, values, strict=True) if value is not None]
        return MEMORY_BLOCK.replace("{files}", within_budget(files, MEMORY_BUDGET_BYTES) or "(Nothing is remembered yet.)")

    async def _settle(self, store: BaseStore, namespace: scopes.Namespace, marks: Sequence[Item]) -> bool:
        """Put files right that a writer who died may have left behind. A failure must not stop the run."""
        try:
            for mark in marks:
                await acarry_out(store, Journal(LoggedFile(namespace, mark.key)).settle())
        except Exception:  # a store raises what its driver raises
            logger.exception("Memory files could not be settled; they may lack the last changes until the next write.")
            return False
        return True

    async def _seed(self, store: BaseStore, namespace: scopes.Namespace, actor: scopes.Actor) -> bool:
        """Write `starting_memory` for somebody who has no memory at all. Shared memory has no new users.

        A failure is logged and leaves them without: it must not stop their run. What another first run's agent has written
        meanwhile stays. A dry run of consolidation writes nothing.
        """
        context = get_runtime().context
        if self._settings.memory_scope == "assistant" or (isinstance(context, scopes.Context) and context.dry_run):
            return False
        author, files = scopes.Author("seed", actor.user_id), starting_memory(actor, context)
        try:
            if await store.asearch(namespace, limit=1):
                return False
            epoch = await acarry_out(store, epochs.of_run(actor))
            for key, text in files.items():
                with suppress(RefusedWriteError):
                    await acarry_out(store, Journal(LoggedFile(namespace, key), epoch).change(_unless_there(text), author))
        except Exception:  # a store raises what its driver raises
            logger.exception("The first memory of a new user could not be written.")
            return False
        return bool(files)


def _unless_there(text: str) -> Change:
    def new_file(before: FileData | None) -> FileData:
        if before is not None:
            raise RefusedWriteError("The file is there.")
        return create_file_data(text)

    return new_file


def _key(path: str) -> str:
    if not path.startswith(MEMORY_ROUTE):
        raise ValueError(f"MEMORY_FILES names {path!r}; use paths under {MEMORY_ROUTE}.")
    return "/" + path.removeprefix(MEMORY_ROUTE)


def _item_key(item: Item) -> str:
    return item.key


def _is_policy(key: str) -> bool:
    return key.endswith(".md") and key.count("/") == 1
