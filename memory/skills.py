"""Skills in the system prompt: listed afresh in every run, and never from what a client put into its input or state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from deepagents.backends.protocol import BackendProtocol, FileDownloadResponse, LsResult
from deepagents.middleware.skills import SkillMetadata, SkillsMiddleware
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langgraph.runtime import Runtime

from memory.prompt import PerRun, shown
from memory.scopes import IdentityError
from settings import PROJECT, SKILLS_BUDGET_BYTES

logger = logging.getLogger(__name__)

SKILLS_BLOCK = (PROJECT / "prompts" / "skills_block.md").read_text("utf-8")


class FreshSkills(SkillsMiddleware[Any, Any]):
    """Skills loaded afresh in every run, and never from what a client put into its input or state.

    Args:
        backend: the graph's filesystem.
        sources: folders of skills; later ones win.
    """

    name = "SkillsMiddleware"  # takes the built-in's place in the stack

    # Nothing of this is kept in, or taken from, thread state; without these hooks the graph also has two nodes less.
    before_agent = AgentMiddleware.before_agent  # type: ignore[assignment]  # the built-in's returns its own state
    abefore_agent = AgentMiddleware.abefore_agent  # type: ignore[assignment]
    before_model = AgentMiddleware.before_model
    abefore_model = AgentMiddleware.abefore_model

    def __init__(self, *, backend: BackendProtocol, sources: Sequence[str]) -> None:
        super().__init__(backend=backend, sources=list(sources), system_prompt=SKILLS_BLOCK)
        self._loaded = PerRun(self._load)

    async def _load(self) -> dict[str, Any]:
        sources = await asyncio.gather(*(self._load_source(source) for source in self.sources))
        by_name = {skill["name"]: skill for skills, _ in sources for skill in skills}
        listed, left_out = _within_budget(list(by_name.values()))
        errors = [error for _, source_errors in sources for error in source_errors]
        if left_out:
            errors.append(f"{left_out} more skills are not listed here; ls the folders above.")
        return {"skills_metadata": listed, "skills_load_errors": errors}

    async def _load_source(self, source: str) -> tuple[list[SkillMetadata], list[str]]:
        """The skills of one folder, and what is wrong with the others there."""
        seen = _Seen(self._backend)
        loader: SkillsMiddleware[Any, Any] = SkillsMiddleware(backend=cast("BackendProtocol", seen), sources=[source])
        loaded = cast("dict[str, Any]", await loader.abefore_agent({"messages": []}, Runtime(), {}))
        skills: list[SkillMetadata] = loaded["skills_metadata"]
        # The built-in leaves an invalid skill out without a word; its author would look for it for ever.
        broken = sorted(set(seen.skill_files) - {skill["path"] for skill in skills})
        if broken:
            logger.warning("Skills without valid front matter were left out: %s", ", ".join(broken))
        needed = "it needs front matter with a name, equal to its folder's, and a description"
        errors = [f"{path} was not loaded: {needed}." for path in broken]
        return [_shown(skill) for skill in skills], [*loaded["skills_load_errors"], *errors]

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        state = cast("Any", {**request.state, **await self._loaded.get()})
        return await super().awrap_model_call(request.override(state=state), handler)


class _Seen:
    """A backend as the skills loader uses it, remembering which SKILL.md files it found."""

    def __init__(self, backend: BackendProtocol) -> None:
        self._backend = backend
        self.skill_files: list[str] = []

    async def als(self, path: str) -> LsResult:
        try:
            return await self._backend.als(path)
        except IdentityError:
            raise
        except Exception as error:  # a store raises what its driver raises; the loader shows it as a warning
            logger.exception("Skills in %s could not be listed.", path)
            return LsResult(error=f"{path} could not be read ({type(error).__name__}); it is not empty")

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        try:
            responses = await self._backend.adownload_files(paths)
        except Exception as error:  # as above
            logger.exception("Skills could not be read.")
            responses = [FileDownloadResponse(path=path, error=type(error).__name__) for path in paths]
        self.skill_files += [response.path for response in responses if response.error != "file_not_found"]
        return responses


def _shown(skill: SkillMetadata) -> SkillMetadata:
    """A skill that can neither close the block nor open another: somebody wrote its description."""
    fields = {key: shown(value) if isinstance(value, str) else value for key, value in skill.items()}
    return cast("SkillMetadata", {**fields, "allowed_tools": [shown(tool) for tool in skill["allowed_tools"]]})


def _within_budget(found: Sequence[SkillMetadata]) -> tuple[list[SkillMetadata], int]:
    """The skills that fit into `SKILLS_BUDGET_BYTES`, and how many others there are."""
    listed, budget = list[SkillMetadata](), SKILLS_BUDGET_BYTES
    for skill in found:
        budget -= len(str(skill).encode(errors="replace"))
        if budget >= 0:
            listed.append(skill)
    return listed, len(found) - len(listed)
