"""Skills in the system prompt: listed afresh in every run, never taken from a client's input or thread state."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from deepagents.backends import CompositeBackend, StateBackend
from deepagents.backends.protocol import BackendProtocol, FileDownloadResponse
from deepagents.middleware.skills import SkillMetadata, SkillsMiddleware, SkillToolResolver
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.tools import BaseTool
from langgraph.store.base import BaseStore
from langgraph.types import Command

from lasting_memory.agent.blocks import Block, PerRun, shown
from lasting_memory.deployment import Deployment
from lasting_memory.files.backends import ScopedFiles
from lasting_memory.files.routes import build_backend
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.platform import SPANS_WITHOUT_PAYLOAD
from lasting_memory.validation import MAX_FRONT_MATTER_BYTES, SKILL_FILE, RefusedWrite, read_skill

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
    return FreshSkills(d, build_backend(d), tools) if "/skills/" in d.routes else None


async def preview_skills(store: BaseStore, actor: Actor, assistant: str, deployment: Deployment) -> Block:
    """The block of skills as this person's next run will show it. Needs no run."""
    places = {
        "/skills/": namespaces.skills(assistant),
        "/memories/": deployment.memory.namespace(actor, assistant),
    }
    routes: dict[str, BackendProtocol] = {
        route: ScopedFiles(deployment=deployment, namespace=lambda _, place=place: place, store=store)  # type: ignore[misc]  # bound now
        for route, place in places.items()
    }
    return await FreshSkills(deployment, CompositeBackend(default=StateBackend(), routes=routes)).preview()


class FreshSkills(SkillsMiddleware[Any, Any]):
    """deepagents' middleware, with its skills loaded once a run; of two with one name, the later source's wins."""

    name = "SkillsMiddleware"  # takes the built-in's place in the stack

    trace_policy = SPANS_WITHOUT_PAYLOAD

    # Thread state neither keeps nor provides skills. Without these hooks the graph also has two nodes less, each a step.
    before_agent = AgentMiddleware.before_agent  # type: ignore[assignment]  # the built-in's returns its own state
    abefore_agent = AgentMiddleware.abefore_agent  # type: ignore[assignment]
    before_model = AgentMiddleware.before_model
    abefore_model = AgentMiddleware.abefore_model

    def __init__(self, deployment: Deployment, backend: BackendProtocol, tools: SkillTools | None = None) -> None:
        self._block, self._budget = deployment.prompt("skills_block.md"), deployment.limits.skills_block_bytes
        sources = ["/skills/"] if deployment.memory.is_shared else ["/skills/", "/memories/skills/"]
        super().__init__(backend=backend, sources=sources, system_prompt=self._block, tools=tools)
        self._loaded = PerRun(self._load)

    async def preview(self) -> Block:
        """The block as a run would show it."""
        loaded = await self._load()
        text = self._block.format(
            skills_locations=self._format_skills_locations(),
            skills_load_warnings=self._format_skills_load_warnings(loaded["skills_load_errors"]),
            skills_list=self._format_skills_list(loaded["skills_metadata"]),
        )
        return Block("skills", text, self._budget, tuple(loaded["skills_load_errors"]))

    async def _load(self) -> dict[str, Any]:
        listings = [await self._backend.als(source) for source in reversed(self.sources)]  # the person's own first
        folders = [entry["path"] for found in listings for entry in found.entries or [] if entry.get("is_dir")]
        files = await self._backend.adownload_files([f"{folder.rstrip('/')}/{SKILL_FILE}" for folder in folders])
        skills, errors = await asyncio.to_thread(_listed, files, self._budget)
        return {"skills_metadata": skills, "skills_load_errors": errors}

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        state = cast("Any", {**request.state, **await self._loaded.get()})
        pinned = await SkillsMiddleware.abefore_model(self, state, request.runtime)
        if pinned is None:
            return await super().awrap_model_call(request.override(state=state), handler)
        texts = pinned.pop("messages", [])
        request = request.override(state=state, messages=[*request.messages, *texts])
        answer = cast("Any", await super().awrap_model_call(request, handler))
        # In the thread they stand before the answer: a message between a tool's call and its result would be refused.
        response = replace(answer.model_response, result=[*texts, *answer.model_response.result])
        return replace(answer, model_response=response, command=Command(update={**answer.command.update, **pinned}))


def _listed(files: Sequence[FileDownloadResponse], room: int) -> tuple[list[SkillMetadata], list[str]]:
    """The skills of these SKILL.md files, and a line for each that is left out. Of two with one name the first counts.

    No more are read than so many bytes have room for: it blocks for a fraction of a second at most.
    """
    skills, errors, unread = dict[str, SkillMetadata](), list[str](), 0
    for file in files:
        name = file.path.split("/")[-2]
        if file.content is None or name in skills:
            continue
        room -= len(file.path) + min(len(file.content.split(b"\n---", 1)[0]), MAX_FRONT_MATTER_BYTES)
        if room < 0:
            unread += 1
            continue
        try:
            skills[name] = _escaped(read_skill(file.path, file.content.decode(errors="replace")))
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
