"""Skills in the system prompt: read for every run, within a budget of bytes.

deepagents loads skills once for a thread's life and keeps them in thread state, where a client can
change them. The middleware of this module takes the place of the built-in one by its name, and
takes them from what a run has read once (`snapshot.py`).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NotRequired, cast

from deepagents.middleware.skills import SkillMetadata, SkillsMiddleware, SkillToolResolver
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    OmitFromOutput,
    PrivateStateAttr,
)
from langchain_core.tools import BaseTool
from langgraph.store.base import BaseStore, Item
from langgraph.types import Command

from lasting_memory import platform
from lasting_memory.agent.backends import build_backend
from lasting_memory.agent.file_sections import Block
from lasting_memory.agent.once_a_run import once_a_run
from lasting_memory.agent.shown_text import in_one_line
from lasting_memory.agent.snapshot import Snapshot, run_snapshots
from lasting_memory.deployment import Deployment
from lasting_memory.memory import stored_files, validation
from lasting_memory.people.caller import Caller
from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD
from lasting_memory.skill_file import MAX_FRONT_MATTER

# Tools of skills: a list, or a function that finds them by name.
SkillTools = Sequence[BaseTool | Callable[..., Any]] | SkillToolResolver


def skills(d: Deployment, tools: SkillTools | None = None) -> "FreshSkills | None":
    """The middleware that lists skills in the prompt; None where the routes lack `/skills/`.

    A person's own skill replaces the assistant's of the same name. A run's input may pin skills:
    the texts of those that `pinned_skills` names follow the person's message.

    Args:
        d: the deployment.
        tools: what the model gets only once it has read, or was pinned, a skill that names them in
            `metadata.include_tools`. A person's own skill can name them, too. Subagents have them
            if their own middleware is given them.

    Raises `TypeError` or `ValueError` for what are no tools, or two of one name.
    """
    return FreshSkills(d, tools) if "/skills/" in d.routes else None


def _texts_in(value: object) -> list[str]:
    """The texts of a list. A client may have sent anything in its place."""
    if not isinstance(value, list | tuple):
        return []
    return [name for name in value if isinstance(name, str)]


def _added_names(before: object, after: object) -> list[str]:
    return [*_texts_in(before), *_texts_in(after)]


class SkillsState(AgentState[Any]):
    """What a thread keeps of skills.

    The skills themselves are read from the store, and no client can put one here. deepagents' own
    state has a type that is no JSON schema on Python 3.11: a graph with it has no input for MCP and
    Studio.
    """

    pinned_skills: NotRequired[Annotated[list[str], OmitFromOutput, _added_names]]
    # The tools that the last model call was offered for the skills it had read.
    _skill_tools_disclosed: NotRequired[Annotated[dict[str, str], PrivateStateAttr]]


class FreshSkills(SkillsMiddleware[Any, Any]):
    """deepagents' middleware, with its skills loaded once a run."""

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
        self._deployment = deployment
        self._block = deployment.prompt("skills_block.md")
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

    async def preview(self, snapshot: Snapshot) -> Block:
        """The block as this person's next run will show it. Needs no run."""
        loaded = await self._of(snapshot)
        errors = loaded["skills_load_errors"]
        text = self._block.format(
            skills_locations=self._format_skills_locations(),
            skills_load_warnings=self._format_skills_load_warnings(errors),
            skills_list=self._format_skills_list(loaded["skills_metadata"]),
        )
        budget = self._deployment.limits.skills_block_bytes
        return Block("skills", text, budget, tuple(errors))

    async def _read(self, store: BaseStore, caller: Caller) -> dict[str, Any]:
        """The skills of a run."""
        snapshots = run_snapshots(self._deployment)
        snapshot = await snapshots.of_run(store, caller)
        return await self._of(snapshot)

    async def _of(self, snapshot: Snapshot) -> dict[str, Any]:
        """The skills of a person and an assistant, as the state of deepagents' middleware."""
        d = self._deployment
        files = list[tuple[str, Item]]()
        # A person's own come first.
        if d.has_own_memory:
            for item in snapshot.memory:
                path = f"/memories{item.key}"
                files.append((path, item))
        for item in snapshot.skills:
            path = f"/skills{item.key}"
            files.append((path, item))
        room = d.limits.skills_block_bytes
        metadata, errors = await platform.in_thread(_listed, files, room)
        return {"skills_metadata": metadata, "skills_load_errors": errors}

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        # What a client sends as an overwrite does not pass the reducer.
        names = _texts_in(request.state.get("pinned_skills"))
        loaded = await self._loaded()
        state: Any = {**request.state, **loaded, "pinned_skills": names}
        request = request.override(state=state)
        pinned = await SkillsMiddleware.abefore_model(self, state, request.runtime)
        if pinned is None:
            return await super().awrap_model_call(request, handler)
        texts = pinned.pop("messages", [])
        messages = [*request.messages, *texts]
        request = request.override(messages=messages)
        answer: Any = await super().awrap_model_call(request, handler)
        return _with_pinned(answer, texts, pinned)


def _with_pinned(answer: Any, texts: Sequence[Any], update: Mapping[str, Any]) -> Any:
    """A model's answer that puts the texts of pinned skills, and what is known of them, in the thread.

    They stand before the answer: a message between a tool's call and its result would be refused.
    """
    result = [*texts, *answer.model_response.result]
    response = replace(answer.model_response, result=result)
    whole_update = {**answer.command.update, **update}
    command: Any = Command(update=whole_update)
    return replace(answer, model_response=response, command=command)


def _listed(files: Sequence[tuple[str, Item]], room: int) -> tuple[list[SkillMetadata], list[str]]:
    """The skills among these files (path and item), and a line for each that is left out.

    Of two with one name the first counts. No more are read than `room`, in bytes, is enough for: it
    blocks for a fraction of a second at most.
    """
    by_name = dict[str, SkillMetadata]()
    errors = list[str]()
    unread = 0
    for path, item in files:
        name = path.split("/")[-2]
        is_skill = validation.SKILL_PATH.fullmatch(path)
        if name in by_name or not is_skill:
            continue
        text = stored_files.text_of(item) or ""
        front_matter, _, _ = text.partition("\n---")
        room -= len(path) + min(len(front_matter), MAX_FRONT_MATTER)
        if room < 0:
            unread += 1
            continue
        try:
            skill = validation.read_skill(path, text)
        except validation.RefusedWrite as error:
            errors.append(str(error))
            continue
        by_name[name] = _safe(skill)
    if unread:
        errors.append(f"{unread} more skills are not listed here; ls the folders above.")
    return list(by_name.values()), errors


def _safe(skill: Mapping[str, Any]) -> SkillMetadata:
    """A skill whose texts can neither close the block, nor open another, nor add a line."""
    safe = dict[str, Any]()
    for field, value in skill.items():
        if isinstance(value, str):
            safe[field] = in_one_line(value)
        else:
            safe[field] = value
    tools = skill["allowed_tools"]
    safe["allowed_tools"] = [in_one_line(tool) for tool in tools]
    return cast("SkillMetadata", safe)
