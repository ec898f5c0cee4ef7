"""Policies, memory and skills in the system prompt: fresh for every run, within a budget, unable to
close their block.

deepagents loads memory and skills once for a thread's life and keeps them in thread state, where a
client can change them. This middleware replaces the built-in ones by their names, ignores thread
state, and reads the store once a run.
"""

import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NotRequired, TypeVar, cast

from deepagents.middleware.skills import SkillMetadata, SkillsMiddleware, SkillToolResolver
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    OmitFromOutput,
    PrivateStateAttr,
)
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config, get_store
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore, GetOp, Item, Op, SearchItem, SearchOp
from langgraph.types import Command

from lasting_memory import days, platform, validation
from lasting_memory.agent.checks import GuardedState
from lasting_memory.controls import (
    MADE_TITLE,
    NAMES,
    TITLE,
    Controls,
    controls_of,
    in_temporary_conversation,
    keep_out,
    read_controls,
    set_title,
    title_of,
)
from lasting_memory.days import zone_of
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.files.backends import StoreOverride, build_backend, starting_files
from lasting_memory.journal import all_items
from lasting_memory.people import identity, namespaces
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Actor
from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD
from lasting_memory.skill_file import MAX_FRONT_MATTER

_PROFILE_KEY = PROFILE_PATH.removeprefix("/memories")
# Policy files of one organization among which a run looks for top-level rules. Files that rules
# refer to are among them.
MAX_POLICY_FILES = 1_000
# All that compatibility normalization makes a "<" of; and what after it opens or closes a block,
# also for a reader who sees letters alone. So many characters are normalized: it takes time
# quadratic in accents that follow each other.
_BRACKET = re.compile("[<\ufe64\uff1c]")
_NAMES = "|".join(r"[\W_]{0,3}".join(name) for name in ("polic", "memor", "skill"))
_NAME = re.compile(rf"[\W_]{{0,40}}(?:{_NAMES})", re.IGNORECASE)
_NAME_CHARS = 60
_RUNS_KEPT = 256
# Tools of skills: a list, or a function that finds them by name.
SkillTools = Sequence[BaseTool | Callable[..., Any]] | SkillToolResolver


def shown(text: str) -> str:
    """File text as a prompt block shows it: without HTML comments, and unable to open or close a
    block.
    """
    return _BRACKET.sub(_escaped, without_comments(text)).strip()


def without_comments(text: str, *, line_breaks: bool = False) -> str:
    """Text without HTML comments, or with the line breaks in them, so that each line keeps its
    number. In linear time.
    """
    before, *commented = text.split("<!--")
    parts = (part.partition("-->") for part in commented)
    return before + "".join(
        "\n" * (line_breaks * said.count("\n")) + after if end else f"<!--{said}"
        for said, end, after in parts
    )


def _escaped(bracket: re.Match[str]) -> str:
    after = bracket.string[bracket.end() : bracket.end() + _NAME_CHARS]
    return "&lt;" if _NAME.match(unicodedata.normalize("NFKD", after)) else bracket[0]


Loaded = TypeVar("Loaded")


def once_a_run(
    d: Deployment, read: Callable[[BaseStore, Actor, str], Awaitable[Loaded]]
) -> Callable[[], Awaitable[Loaded]]:
    """One reading for all model calls of a run, its subagents' included. Without a server, which
    gives run ids, one a call.
    """
    kept = dict[str, Loaded]()

    async def loaded() -> Loaded:
        caller = Caller.of_run(d)
        if caller.run_id in kept:
            return kept[caller.run_id]
        found = await read(get_store(), caller.actor, caller.assistant)
        if caller.run_id:
            kept[caller.run_id] = found
            if len(kept) > _RUNS_KEPT:
                del kept[next(iter(kept))]
        return found

    return loaded


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the system prompt: its name and text, its budget for files in bytes, and a line for
    each omission.
    """

    name: str
    text: str
    budget: int
    left_out: tuple[str, ...] = ()


def sections(files: Sequence[tuple[str, str]], budget: int) -> tuple[str, tuple[str, ...]]:
    """Files (path and text, most important first) as sections of one text, and a line for each
    omission.

    `budget` is UTF-8 bytes of text in all. Of a file over it the head is kept, and a line says how
    much is left out.
    """
    parts, left_out = list[str](), list[str]()
    for path, text in files:
        raw = (shown(text) if budget > 0 else text).encode(
            errors="replace"
        )  # nothing is shown of it, so nothing is prepared
        head = raw[:budget].decode(errors="ignore")
        budget -= len(head.encode())
        if left := len(raw) - len(head.encode()):
            head += f"\n[{left:,} bytes left out; read_file {path} for the rest]"
            left_out.append(f"{path}: {left:,} bytes")
        parts.append(f"## {shown(path)}\n\n{head}".rstrip())
    return "\n\n".join(parts), tuple(left_out)


def shared_room(sizes: Sequence[int], budget: int) -> list[int]:
    """How much of a budget each of these may have: equal shares, of which what one does not need is
    for the others.
    """
    rooms, left = [0] * len(sizes), budget
    waiting = sorted(range(len(sizes)), key=lambda number: sizes[number])
    for place, number in enumerate(waiting):
        rooms[number] = min(sizes[number], left // (len(waiting) - place))
        left -= rooms[number]
    return rooms


def memory_sections(files: Sequence[tuple[str, str]], budget: int) -> tuple[str, tuple[str, ...]]:
    """Files of memory as sections of one text, and a line for each omission.

    `budget` is UTF-8 bytes of text in all. Each file has its share, so that a long one hides no
    other. Of a file over its share the beginning and the end are kept, for what was remembered last
    stands there, and a line between says how much is left out.
    """
    texts = [shown(text) for _, text in files]
    rooms = shared_room([len(text.encode(errors="replace")) for text in texts], budget)
    parts, left_out = list[str](), list[str]()
    for (path, _), text, room in zip(files, texts, rooms, strict=True):
        head, left, tail = _ends_of(text, room)
        if left:
            head = f"{head}\n[{left:,} bytes left out; read_file {path} for the rest]\n{tail}"
            left_out.append(f"{path}: {left:,} bytes")
        parts.append(f"## {shown(path)}\n\n{head}".rstrip())
    return "\n\n".join(parts), tuple(left_out)


def _ends_of(text: str, room: int) -> tuple[str, int, str]:
    """The beginning of a text, how many bytes are left out, and its end; both together in so many
    bytes, in whole lines.
    """
    raw = text.encode(errors="replace")
    if len(raw) <= room:
        return text, 0, ""
    head = raw[: room // 2].decode(errors="ignore")
    tail = raw[len(raw) - room // 2 :].decode(errors="ignore")
    lines, rest = head.rpartition("\n")[0], tail.partition("\n")[2]
    head, tail = lines or head, rest or tail
    return head, len(raw) - len(head.encode()) - len(tail.encode()), tail


def policies_left_out(texts: Mapping[str, str], budget: int) -> list[str]:
    """A line for each policy of an organization that prompts do not show as a whole. `texts` are
    its files, by key.
    """
    rules = sorted(key for key in texts if validation.is_policy(key))
    _, cut = sections([(f"/policies{key}", texts[key]) for key in rules], budget)
    deeper = sorted(texts.keys() - rules)
    budgeted = [
        f"{line} of it (policy_block_bytes is {budget:,}); the agent reads the rest from the file"
        for line in cut
    ]
    return budgeted + [
        f"/policies{key}: it is in a folder; name it in a policy that is in none" for key in deeper
    ]


def file_text(path: str, item: Item) -> str:
    """The text of a stored file, or a line that says why there is none."""
    try:
        file = validation.stored_file(item)
    except ValueError as error:
        return f"[{path} cannot be shown: {error}]"
    return (
        file["content"] if file["encoding"] == "utf-8" else f"[{path} is not text; it is left out]"
    )


def memory_files(deployment: Deployment) -> list[str]:
    """The files under `/memories/` that every prompt shows; none where there is no memory."""
    if not deployment.has_memory:
        return []
    return [
        path
        for path in deployment.limits.memory_files
        if deployment.profile or path != PROFILE_PATH
    ]


class PromptBlocks(AgentMiddleware[Any, Any, Any]):
    """Appends the policies block and, where there is memory, the memory block to the system prompt
    of every model call.

    `files` are the paths under `/memories/` to show, in this order; `drafts` gives the store of a
    consolidation's draft. With `titles`, a turn of a conversation that has no title gives it one.
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
        self._titles = titles
        self._deployment, self._drafts = deployment, drafts
        self._keys = [path.removeprefix("/memories") for path in files]
        # Not every deployment shows the profile; it says whose day it is in any case.
        has_zone = (
            deployment.profile is not None
            and deployment.has_own_memory
            and _PROFILE_KEY not in self._keys
        )
        self._read_keys = [*self._keys, *([_PROFILE_KEY] if has_zone else [])]
        self._blocks = once_a_run(deployment, self.read)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        blocks = await self._blocks()
        before = list(request.system_message.content_blocks) if request.system_message else []
        added: list[Any] = [{"type": "text", "text": f"\n\n{block.text}"} for block in blocks]
        # The provider's caching middleware marks the end of the static prompt. A second mark at the
        # end of these blocks means that a change of memory costs a new cache entry for the blocks
        # alone.
        if before and (marker := cast("dict[str, Any]", before[-1]).get("cache_control")):
            added[-1]["cache_control"] = marker
        message = SystemMessage(content=[*cast("list[Any]", before), *added])
        conversation = [_without_authority(said) for said in request.messages]
        response = await handler(request.override(system_message=message, messages=conversation))
        # After the answer: a run that is stopped or deleted before leaves nothing of what was said.
        if self._titles and request.messages and isinstance(request.messages[-1], HumanMessage):
            await _give_title(request.state.get("messages") or [])
        return response

    async def read(
        self, store: BaseStore, actor: Actor, assistant: str, *, preview: bool = False
    ) -> tuple[Block, ...]:
        """Policies and memory as this run shows them; a `preview` needs no run and writes nothing:
        as the next one will.
        """
        has_memory = self._deployment.has_memory
        memories = self._deployment.memory.namespace(actor, assistant) if has_memory else ()
        policies = namespaces.policies(actor.org_id)
        temporary = in_temporary_conversation()
        reads: list[Op] = [] if temporary else [GetOp(memories, key) for key in self._read_keys]
        ops: list[Op] = [SearchOp(policies, limit=MAX_POLICY_FILES), *read_controls(actor), *reads]
        rules, *rest = cast("list[Any]", await store.abatch(ops))
        wanted, items = controls_of(rest[: len(NAMES)], self._deployment), rest[len(NAMES) :]
        is_paused = wanted.paused
        if is_paused and not temporary and not preview and identity.on_server():
            # `auth.py` marks what is sent during a pause; this run may have waited for one to begin
            config = get_config()
            await keep_out(str(config["configurable"]["thread_id"]), config.get("metadata"))
        dry = not preview and identity.run_context(get_runtime()).dry_run
        texts: dict[str, str] = {}
        if has_memory and not (temporary or is_paused or dry or any(items)):
            texts = {
                **await starting_files(store, actor, assistant, self._deployment, write=not preview)
            }
        if self._drafts and (draft := self._drafts()):
            items = await draft.abatch(reads)

        def shown() -> tuple[Block, ...]:
            texts.update(
                {item.key: file_text(f"/memories{item.key}", item) for item in items if item}
            )
            told = self._policy_block([item for item in rules if item.namespace == policies])
            if temporary:
                return told, Block("temporary", self._deployment.prompt("temporary_block.md"), 0)
            return (told, self._memory_block(texts, wanted)) if has_memory else (told,)

        return await platform.in_thread(shown)  # people write many and large files

    def _memory_block(self, texts: dict[str, str], wanted: Controls) -> Block:
        files = [(f"/memories{key}", texts[key]) for key in self._keys if key in texts]
        budget, prompt = self._deployment.limits.memory_block_bytes, self._deployment.prompt
        text, left_out = memory_sections(files, budget)
        zone = zone_of(texts.get(_PROFILE_KEY))
        today = f"{days.today(zone):%A, %Y-%m-%d} ({zone.key})"
        # The files last: what stands in them is never a place to fill.
        text = (
            prompt("memory_block.md")
            .replace("{today}", today)
            .replace("{files}", text or "(Nothing is remembered yet.)")
        )
        # Consolidation writes what agents may not.
        reads_only = (
            self._deployment.settings.memory_writes == "background" and self._drafts is None
        )
        if self._deployment.memory.is_shared:
            text = f"{prompt('memory_shared.md')}\n{text}"
        elif reads_only:
            text = f"{prompt('memory_read_only.md')}\n{text}"
        if wanted.paused:
            text = f"{text}\n{prompt('paused_block.md')}"
        elif wanted.review_agent and not reads_only and self._drafts is None:
            text = f"{text}\n{prompt('reviewed_block.md')}"
        return Block("memory", text, budget, left_out)

    def _policy_block(self, items: Sequence[SearchItem]) -> Block:
        rules = sorted(
            (item for item in items if validation.is_policy(item.key)), key=lambda item: item.key
        )
        files = [(path := f"/policies{item.key}", file_text(path, item)) for item in rules]
        budget = self._deployment.limits.policy_block_bytes
        text, left_out = sections(files, budget)
        text = text or "(The organization has set no policies.)"
        if len(items) >= MAX_POLICY_FILES:
            text += f"\n\n[There are {MAX_POLICY_FILES} files or more; ls /policies/ and read those that are not here]"
        return Block(
            "policies",
            self._deployment.prompt("policies_block.md").replace("{files}", text),
            budget,
            left_out,
        )


async def _give_title(messages: Sequence[AnyMessage]) -> None:
    """Name the run's thread by what was said first in it, once, on a server, and not in a temporary
    conversation.

    Once more where the only message was edited: its first words are no longer said.
    """
    if not identity.on_server() or in_temporary_conversation():
        return
    config = get_config()
    people = [message for message in messages if isinstance(message, HumanMessage)]
    about = config.get("metadata") or {}  # the platform copies a thread's metadata to its runs
    present = about.get(TITLE)
    if present is not None and (len(people) > 1 or present != about.get(MADE_TITLE)):
        return
    title = await platform.in_thread(title_of, [message.model_dump() for message in people])
    if title and title != present:
        await set_title(str(config["configurable"]["thread_id"]), title)


def _without_authority(message: AnyMessage) -> AnyMessage:
    """A message of the conversation. A client's "system" message becomes a user's."""
    if isinstance(message, HumanMessage | AIMessage | ToolMessage):
        return message
    return HumanMessage(message.content, id=message.id)


# --- Skills


def skills(d: Deployment, tools: SkillTools | None = None) -> "FreshSkills | None":
    """The middleware that lists skills in the prompt; None where the deployment has no route
    `/skills/`.

    A person's own skill replaces the assistant's of the same name. A run's input may pin skills:
    the texts of those that `pinned_skills` names follow the person's message.

    Args:
        d: the deployment. tools: what the model gets only once it has read, or was pinned, a skill
        that names them in `metadata.include_tools`.
            A person's own skill can name them, too. Subagents have them if their own middleware is
            given them.

    Raises `TypeError` or `ValueError` for what are no tools, or two of one name.
    """
    return FreshSkills(d, tools) if "/skills/" in d.routes else None


def _names(given: object) -> list[str]:
    """The texts of a list. A client may have sent anything in its place."""
    return (
        [name for name in given if isinstance(name, str)] if isinstance(given, list | tuple) else []
    )


def _added_names(before: object, after: object) -> list[str]:
    return [*_names(before), *_names(after)]


class SkillsState(AgentState[Any]):
    """What a thread keeps of skills. The skills themselves are read from the store, and no client
    can put one here.

    deepagents' own state has a type that is no JSON schema on Python 3.11: a graph with it has no
    input for MCP and Studio.
    """

    pinned_skills: NotRequired[Annotated[list[str], OmitFromOutput, _added_names]]
    # The tools that the last model call was offered for the skills it had read.
    _skill_tools_disclosed: NotRequired[Annotated[dict[str, str], PrivateStateAttr]]


class FreshSkills(SkillsMiddleware[Any, Any]):
    """deepagents' middleware, with its skills loaded once a run; of two with one name, the later
    source's wins.
    """

    name = "SkillsMiddleware"  # takes the built-in's place in the stack
    state_schema = SkillsState  # type: ignore[assignment]  # the built-in's has the skills, too
    trace_policy = SPANS_WITHOUT_PAYLOAD

    # Thread state neither keeps nor provides skills. Without these hooks the graph also has two
    # nodes less, each a step.
    before_agent = AgentMiddleware.before_agent  # type: ignore[assignment]  # the built-in's returns its own state
    abefore_agent = AgentMiddleware.abefore_agent  # type: ignore[assignment]
    before_model = AgentMiddleware.before_model
    abefore_model = AgentMiddleware.abefore_model

    def __init__(self, deployment: Deployment, tools: SkillTools | None = None) -> None:
        self._deployment, self._block = deployment, deployment.prompt("skills_block.md")
        # deepagents would name each after its folder, "Skills".
        sources: list[str | tuple[str, str]] = [("/skills/", "Shared")]
        if deployment.has_own_memory:
            sources.append(("/memories/skills/", "Personal"))
        super().__init__(
            backend=build_backend(deployment),
            sources=sources,
            system_prompt=self._block,
            tools=tools,
        )
        self._loaded = once_a_run(deployment, self._read)

    async def preview(self, store: BaseStore, actor: Actor, assistant: str) -> Block:
        """The block as this person's next run will show it. Needs no run."""
        loaded = await self._read(store, actor, assistant)
        text = self._block.format(
            skills_locations=self._format_skills_locations(),
            skills_load_warnings=self._format_skills_load_warnings(loaded["skills_load_errors"]),
            skills_list=self._format_skills_list(loaded["skills_metadata"]),
        )
        return Block(
            "skills",
            text,
            self._deployment.limits.skills_block_bytes,
            tuple(loaded["skills_load_errors"]),
        )

    async def _read(self, store: BaseStore, actor: Actor, assistant: str) -> dict[str, Any]:
        shared_only, found = (
            not self._deployment.has_own_memory or in_temporary_conversation(),
            list[tuple[str, Item]](),
        )
        for route in (
            ["/skills"] if shared_only else ["/memories", "/skills"]
        ):  # the person's own first
            items = await all_items(
                store, self._deployment.scope(f"{route}/").namespace(actor, assistant)
            )
            found += [(f"{route}{item.key}", item) for item in items]
        skills, errors = await platform.in_thread(
            _listed, found, self._deployment.limits.skills_block_bytes
        )
        return {"skills_metadata": skills, "skills_load_errors": errors}

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        names = _names(
            request.state.get("pinned_skills")
        )  # an overwrite that a client sends passes the reducer by
        state = cast("Any", {**request.state, **await self._loaded(), "pinned_skills": names})
        pinned = await SkillsMiddleware.abefore_model(self, state, request.runtime)
        if pinned is None:
            return await super().awrap_model_call(request.override(state=state), handler)
        texts = pinned.pop("messages", [])
        request = request.override(state=state, messages=[*request.messages, *texts])
        answer = cast("Any", await super().awrap_model_call(request, handler))
        # In the thread they stand before the answer: a message between a tool's call and its result
        # would be refused.
        response = replace(answer.model_response, result=[*texts, *answer.model_response.result])
        return replace(
            answer,
            model_response=response,
            command=Command(update={**answer.command.update, **pinned}),
        )


def _listed(found: Sequence[tuple[str, Item]], room: int) -> tuple[list[SkillMetadata], list[str]]:
    """The skills among these files, and a line for each that is left out. Of two with one name the
    first counts.

    No more are read than so many bytes have room for: it blocks for a fraction of a second at most.
    """
    skills, errors, unread = dict[str, SkillMetadata](), list[str](), 0
    for path, item in found:
        name = path.split("/")[-2]
        if name in skills or not validation.SKILL_PATH.fullmatch(path):
            continue
        text = validation.text_of(item) or ""
        room -= len(path) + min(len(text.split("\n---", 1)[0]), MAX_FRONT_MATTER)
        if room < 0:
            unread += 1
            continue
        try:
            skills[name] = _safe(validation.read_skill(path, text))
        except validation.RefusedWrite as error:
            errors.append(str(error))
    if unread:
        errors.append(f"{unread} more skills are not listed here; ls the folders above.")
    return list(skills.values()), errors


def _safe(skill: SkillMetadata) -> SkillMetadata:
    """A skill whose texts can neither close the block, nor open another, nor add a line."""
    fields = {
        key: _line(value) if isinstance(value, str) else value for key, value in skill.items()
    }
    return cast(
        "SkillMetadata",
        {**fields, "allowed_tools": [_line(tool) for tool in skill["allowed_tools"]]},
    )


def _line(text: str) -> str:
    return " ".join(shown(text).split())
