"""Skills in the system prompt: listed afresh in every run, and never from what a client put into its input or state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from deepagents.backends.protocol import FILE_NOT_FOUND, BackendProtocol, FileDownloadResponse
from deepagents.middleware.skills import SkillMetadata, SkillsMiddleware
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse

from memory.front_matter import SKILL_FILE, SkillError, front_matter, read_skill
from memory.prompt import PerRun, shown
from memory.scopes import IdentityError
from settings import PROJECT, SKILLS_BUDGET_BYTES, SKILLS_READ_BYTES

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
        by_name = {skill["name"]: skill for source in sources for skill in source.skills}
        listed = _within_budget(list(by_name.values()))
        errors = [error for source in sources for error in source.errors]
        if left_out := len(by_name) - len(listed) + sum(source.unread for source in sources):
            errors.append(f"{left_out} more skills are not listed here; ls the folders above.")
        return {"skills_metadata": listed, "skills_load_errors": errors}

    async def _load_source(self, source: str) -> _Source:
        """The skills of one folder. deepagents' own loader reads whatever YAML is there, in the event loop."""
        try:
            listing = await self._backend.als(source)
            folders = [entry["path"].rstrip("/") for entry in listing.entries or [] if entry.get("is_dir")]
            files = await self._backend.adownload_files([f"{folder}/{SKILL_FILE}" for folder in folders]) if folders else []
        except IdentityError:
            raise
        except Exception as error:  # a store raises what its driver raises
            logger.exception("Skills in %s could not be read.", source)
            return _Source(errors=[f"{source} could not be read ({type(error).__name__}); it is not empty."])
        found = await asyncio.to_thread(_read, files)
        if listing.error:
            found.errors.append(f"{source} could not be listed: {listing.error}")
        if found.errors:
            logger.warning("Skills were left out: %s", " ".join(found.errors))
        return found

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        state = cast("Any", {**request.state, **await self._loaded.get()})
        return await super().awrap_model_call(request.override(state=state), handler)


@dataclass(slots=True)
class _Source:
    """The skills of a folder, why others there were not loaded, and how many nobody looked at."""

    skills: list[SkillMetadata] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    unread: int = 0


def _read(files: Sequence[FileDownloadResponse]) -> _Source:
    """The skills that these SKILL.md files are. Blocks for milliseconds for each, and a tenth of a second in all."""
    found, room = _Source(), SKILLS_READ_BYTES
    for file in files:
        if file.error == FILE_NOT_FOUND:
            continue
        try:
            front = _front_matter(file)
            room -= len(front.encode())
            if room < 0:
                found.unread += 1
            else:
                found.skills.append(_shown(read_skill(file.path, front)))
        except SkillError as error:
            found.errors.append(f"{file.path} was not loaded. {error}")
    return found


def _front_matter(file: FileDownloadResponse) -> str:
    if file.content is None:
        raise SkillError(f"It could not be read ({file.error}).")
    return front_matter(file.content)


def _shown(skill: SkillMetadata) -> SkillMetadata:
    """A skill that can neither close the block nor open another: somebody wrote its description."""
    fields = {key: shown(value) if isinstance(value, str) else value for key, value in skill.items()}
    return cast("SkillMetadata", {**fields, "allowed_tools": [shown(tool) for tool in skill["allowed_tools"]]})


def _within_budget(found: Sequence[SkillMetadata]) -> list[SkillMetadata]:
    """The skills that fit into `SKILLS_BUDGET_BYTES`."""
    listed, budget = list[SkillMetadata](), SKILLS_BUDGET_BYTES
    for skill in found:
        budget -= len(str(skill).encode(errors="replace"))
        if budget >= 0:
            listed.append(skill)
    return listed
