"""Skills in the system prompt: read for every run, within a budget of bytes.

A skill is a folder with a file `SKILL.md`, at whose top stand its name and description. The prompt
lists these, and the model reads the file of a skill that it needs. A client may pin skills: then a
run gets the texts of their files at once.

deepagents loads skills once for a thread's life and keeps them in thread state, where a client can
change them. The middleware of this module takes the place of the built-in one by its name, and
takes them from what a run has read once (`snapshot.py`).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NotRequired, cast

from deepagents.middleware.skills import (
    SkillMetadata,
    SkillsMiddleware,
    SkillsStateUpdate,
    SkillToolResolver,
)
from deepagents.middleware.skills import SkillsState as BuiltInState
from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    OmitFromOutput,
    PrivateStateAttr,
)
from langchain_core.messages import BaseMessage
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
from lasting_memory.people.identity import Context
from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD
from lasting_memory.skill_file import MAX_FRONT_MATTER

# Tools of skills: a list, or a function that finds them by name.
SkillTools = Sequence[BaseTool | Callable[..., object]] | SkillToolResolver
# A folder of skills, or the folder and what prompts call it.
_Folder = str | tuple[str, str]


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
    if "/skills/" not in d.routes:
        return None
    return FreshSkills(d, tools)


def _texts_in(value: object) -> list[str]:
    """The texts of a list; none of anything else, which a client may have sent in its place."""
    if not isinstance(value, list | tuple):
        return []
    return [text for text in value if isinstance(text, str)]


def _joined_names(before: object, after: object) -> list[str]:
    """The names of pinned skills in a thread's state, with those of a run's input."""
    return [*_texts_in(before), *_texts_in(after)]


class SkillsState(AgentState[object]):
    """What a thread keeps of skills.

    The skills themselves are read from the store, and no client can put one here. deepagents' own
    state has a type that is no JSON schema on Python 3.11: a graph with it has no input for MCP and
    Studio.
    """

    pinned_skills: NotRequired[Annotated[list[str], OmitFromOutput, _joined_names]]
    # The tools that the last model call was offered for the skills it had read.
    _skill_tools_disclosed: NotRequired[Annotated[dict[str, str], PrivateStateAttr]]


# Forks give it to agents and subagents whose context and answer are their own.
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
        sources: list[_Folder] = [("/skills/", "Shared")]
        if deployment.has_own_memory:
            sources.append(("/memories/skills/", "Personal"))
        super().__init__(
            backend=build_backend(deployment),
            sources=sources,
            system_prompt=self._block,
            tools=tools,
        )
        self._loaded_skills = once_a_run(deployment, self._read)

    async def preview(self, snapshot: Snapshot) -> Block:
        """The block as this person's next run will show it. Needs no run."""
        loaded_skills = await self._skills_in(snapshot)
        errors = loaded_skills["skills_load_errors"]
        text = self._block.format(
            skills_locations=self._format_skills_locations(),
            skills_load_warnings=self._format_skills_load_warnings(errors),
            skills_list=self._format_skills_list(loaded_skills["skills_metadata"]),
        )
        budget = self._deployment.limits.skills_block_bytes
        return Block("skills", text, budget, tuple(errors))

    async def _read(self, store: BaseStore, caller: Caller) -> SkillsStateUpdate:
        """The skills of a run, as the state of deepagents' middleware."""
        snapshots = run_snapshots(self._deployment)
        snapshot = await snapshots.of_run(store, caller)
        return await self._skills_in(snapshot)

    async def _skills_in(self, snapshot: Snapshot) -> SkillsStateUpdate:
        """The skills of a person and an assistant, as the state of deepagents' middleware."""
        files = self._files_in(snapshot)
        room = self._deployment.limits.skills_block_bytes
        metadata, errors = await platform.in_thread(_listed_skills, files, room)
        return {"skills_metadata": metadata, "skills_load_errors": errors}

    def _files_in(self, snapshot: Snapshot) -> list[tuple[str, Item]]:
        """The files among which those of skills are, with their paths. A person's own come first."""
        files = list[tuple[str, Item]]()
        if self._deployment.has_own_memory:
            for item in snapshot.memory:
                path = f"/memories{item.key}"
                files.append((path, item))
        for item in snapshot.skills:
            path = f"/skills{item.key}"
            files.append((path, item))
        return files

    async def awrap_model_call(
        self,
        request: ModelRequest[Context],
        handler: Callable[[ModelRequest[Context]], Awaitable[ModelResponse[object]]],
    ) -> ModelResponse[object] | ExtendedModelResponse[object]:
        """The model's answer to a request with the skills, and with the texts of pinned ones.

        Texts of skills that were pinned since the last call go into the thread, before the answer.
        """
        # What a client sends as an overwrite does not pass the reducer.
        names = _texts_in(request.state.get("pinned_skills"))
        loaded_skills = await self._loaded_skills()
        # As deepagents' middleware has it, which reads the skills from it.
        state = cast("BuiltInState", {**request.state, **loaded_skills, "pinned_skills": names})
        request = request.override(state=state)
        update = await SkillsMiddleware.abefore_model(self, state, request.runtime)
        if update is None:
            return await super().awrap_model_call(request, handler)
        texts = update.pop("messages", [])
        messages = [*request.messages, *texts]
        request = request.override(messages=messages)
        answer = await super().awrap_model_call(request, handler)
        return _with_pinned(answer, texts, update)


def _with_pinned(
    answer: ModelResponse[object] | ExtendedModelResponse[object],
    texts: Sequence[BaseMessage],
    update: Mapping[str, object],
) -> ExtendedModelResponse[object]:
    """A model's answer that puts the texts of pinned skills, and `update`, into the thread's state.

    They stand before the answer: a message between a tool's call and its result would be refused.
    """
    if isinstance(answer, ModelResponse):
        answer = ExtendedModelResponse(answer)
    result = [*texts, *answer.model_response.result]
    response = replace(answer.model_response, result=result)
    own_update: Mapping[str, object] = {}
    if answer.command is not None:
        own_update = answer.command.update or {}
    command: Command[str] = Command(update={**own_update, **update})
    return replace(answer, model_response=response, command=command)


def _listed_skills(
    files: Sequence[tuple[str, Item]], room: int
) -> tuple[list[SkillMetadata], list[str]]:
    """The skills among these files (path and item), and a line for each that is left out. Blocks.

    Of two with one name the first counts. No more are read than `room`, in bytes, is enough for:
    reading blocks for a fraction of a second at most.
    """
    skills_by_name = dict[str, SkillMetadata]()
    errors = list[str]()
    unread_count = 0
    for path, item in files:
        if not validation.SKILL_PATH.fullmatch(path):
            continue
        name = path.split("/")[-2]
        if name in skills_by_name:
            continue
        text = stored_files.text_of(item) or ""
        room -= len(path) + _front_matter_chars(text)
        if room < 0:
            unread_count += 1
            continue
        try:
            skill = validation.read_skill(path, text)
        except validation.RefusedWrite as error:
            errors.append(str(error))
            continue
        skills_by_name[name] = _safe_skill(skill)
    if unread_count:
        errors.append(f"{unread_count} more skills are not listed here; ls the folders above.")
    return list(skills_by_name.values()), errors


def _front_matter_chars(text: str) -> int:
    """Characters that are read of a skill's file: its front matter, up to the most that counts."""
    front_matter, _, _ = text.partition("\n---")
    return min(len(front_matter), MAX_FRONT_MATTER)


def _safe_skill(skill: SkillMetadata) -> SkillMetadata:
    """A skill whose texts can neither close the block, nor open another, nor add a line."""
    safe_fields = dict[str, object]()
    for field, value in skill.items():
        safe_fields[field] = value
        if isinstance(value, str):
            safe_fields[field] = in_one_line(value)
    tools = list[str]()
    for tool in skill["allowed_tools"]:
        tools.append(in_one_line(tool))
    safe_fields["allowed_tools"] = tools
    return cast("SkillMetadata", safe_fields)
