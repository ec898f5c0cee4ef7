"""Skills in the system prompt: listed afresh in every run, never taken from a client's input or thread state."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from deepagents.middleware.skills import SkillMetadata, SkillsMiddleware, SkillToolResolver
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.tools import BaseTool
from langgraph.config import get_store
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore
from langgraph.types import Command

from lasting_memory.agent.prompt import Block, once_a_run, shown
from lasting_memory.controls import in_temporary_conversation
from lasting_memory.deployment import Deployment
from lasting_memory.files.routes import build_backend
from lasting_memory.journal import all_items
from lasting_memory.people import identity
from lasting_memory.people.identity import Actor
from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD
from lasting_memory.validation import MAX_FRONT_MATTER_BYTES, SKILL_PATH, RefusedWrite, read_skill, text_of

# Tools of skills: a list, or a function that finds them by name.
SkillTools = Sequence[BaseTool | Callable[..., Any]] | SkillToolResolver


def skills(d: Deployment, tools: SkillTools | None = None) -> "FreshSkills | None":
    """The middleware that lists skills in the prompt; None where the deployment has no route `/skills/`.

    A person's own skill replaces the assistant's of the same name. A run's input may pin skills: the texts of those that
    `pinned_skills` names follow the person's message.

    Args:
        d: the deployment.
        tools: what the model gets only once it has read, or was pinned, a skill that names them in `metadata.include_tools`.
            A person's own skill can name them, too. Subagents have them if their own middleware is given them.

    Raises `TypeError` or `ValueError` for what are no tools, or two of one name.
    """
    return FreshSkills(d, tools) if "/skills/" in d.routes else None


class FreshSkills(SkillsMiddleware[Any, Any]):
    """deepagents' middleware, with its skills loaded once a run; of two with one name, the later source's wins."""

    name = "SkillsMiddleware"  # takes the built-in's place in the stack

    trace_policy = SPANS_WITHOUT_PAYLOAD

    # Thread state neither keeps nor provides skills. Without these hooks the graph also has two nodes less, each a step.
    before_agent = AgentMiddleware.before_agent  # type: ignore[assignment]  # the built-in's returns its own state
    abefore_agent = AgentMiddleware.abefore_agent  # type: ignore[assignment]
    before_model = AgentMiddleware.before_model
    abefore_model = AgentMiddleware.abefore_model

    def __init__(self, deployment: Deployment, tools: SkillTools | None = None) -> None:
        self._deployment, self._block = deployment, deployment.prompt("skills_block.md")
        sources = ["/skills/"] if deployment.memory.is_shared else ["/skills/", "/memories/skills/"]
        super().__init__(backend=build_backend(deployment), sources=sources, system_prompt=self._block, tools=tools)
        self._loaded = once_a_run(self._load)

    async def preview(self, store: BaseStore, actor: Actor, assistant: str, claims: Mapping[str, str]) -> Block:
        """The block as this person's next run will show it. Needs no run."""
        loaded = await self._read(store, actor, assistant, claims)
        text = self._block.format(
            skills_locations=self._format_skills_locations(),
            skills_load_warnings=self._format_skills_load_warnings(loaded["skills_load_errors"]),
            skills_list=self._format_skills_list(loaded["skills_metadata"]),
        )
        return Block("skills", text, self._deployment.limits.skills_block_bytes, tuple(loaded["skills_load_errors"]))

    async def _load(self) -> dict[str, Any]:
        actor = identity.current_actor(self._deployment.settings)
        assistant = identity.current_assistant(self._deployment.default_assistant)
        return await self._read(get_store(), actor, assistant, identity.claims_of(identity.run_user(get_runtime())))

    async def _read(self, store: BaseStore, actor: Actor, assistant: str, claims: Mapping[str, str]) -> dict[str, Any]:
        shared_only, files = self._deployment.memory.is_shared or in_temporary_conversation(), list[tuple[str, str]]()
        for route in ["/skills/"] if shared_only else ["/memories/", "/skills/"]:  # the person's own first
            items = await all_items(store, self._deployment.scope(route).namespace(actor, assistant, claims))
            paths = {f"{route.rstrip('/')}{item.key}": item for item in items}
            files += [(path, text_of(item) or "") for path, item in paths.items() if SKILL_PATH.fullmatch(path)]
        skills, errors = await asyncio.to_thread(_listed, files, self._deployment.limits.skills_block_bytes)
        return {"skills_metadata": skills, "skills_load_errors": errors}

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        state = cast("Any", {**request.state, **await self._loaded()})
        pinned = await SkillsMiddleware.abefore_model(self, state, request.runtime)
        if pinned is None:
            return await super().awrap_model_call(request.override(state=state), handler)
        texts = pinned.pop("messages", [])
        request = request.override(state=state, messages=[*request.messages, *texts])
        answer = cast("Any", await super().awrap_model_call(request, handler))
        # In the thread they stand before the answer: a message between a tool's call and its result would be refused.
        response = replace(answer.model_response, result=[*texts, *answer.model_response.result])
        return replace(answer, model_response=response, command=Command(update={**answer.command.update, **pinned}))


def _listed(files: Sequence[tuple[str, str]], room: int) -> tuple[list[SkillMetadata], list[str]]:
    """The skills of these SKILL.md files, and a line for each that is left out. Of two with one name the first counts.

    No more are read than so many bytes have room for: it blocks for a fraction of a second at most.
    """
    skills, errors, unread = dict[str, SkillMetadata](), list[str](), 0
    for path, text in files:
        name = path.split("/")[-2]
        if name in skills:
            continue
        room -= len(path) + min(len(text.split("\n---", 1)[0]), MAX_FRONT_MATTER_BYTES)
        if room < 0:
            unread += 1
            continue
        try:
            skills[name] = _escaped(read_skill(path, text))
        except RefusedWrite as error:
            errors.append(str(error))
    if unread:
        errors.append(f"{unread} more skills are not listed here; ls the folders above.")
    return list(skills.values()), errors


def _escaped(skill: SkillMetadata) -> SkillMetadata:
    """A skill whose texts can neither close the block, nor open another, nor add a line."""
    fields = {key: _line(value) if isinstance(value, str) else value for key, value in skill.items()}
    return cast("SkillMetadata", {**fields, "allowed_tools": [_line(tool) for tool in skill["allowed_tools"]]})


def _line(text: str) -> str:
    return " ".join(shown(text).split())
