"""Skills in the system prompt: listed afresh in every run, never taken from a client's input or thread state."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, cast

from deepagents.backends import CompositeBackend, StateBackend
from deepagents.backends.protocol import FILE_NOT_FOUND, BackendProtocol, FileDownloadResponse
from deepagents.middleware.skills import SkillMetadata, SkillsMiddleware
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langgraph.store.base import BaseStore

from memory import namespaces
from memory.blocks import Block, PerRun, shown
from memory.files import ScopedFiles
from memory.front_matter import SKILL_FILE, SkillError, front_matter, read_skill
from memory.identity import Actor, Author, IdentityError
from settings import PROJECT, SKILLS_BUDGET_BYTES, SKILLS_READ_BYTES, Settings

logger = logging.getLogger(__name__)

SKILLS_BLOCK = (PROJECT / "prompts" / "skills_block.md").read_text("utf-8")


def build_skills(settings: Settings, backend: BackendProtocol) -> "FreshSkills":
    """The skills of `agent`, in `backend`. A user's own skill replaces the assistant's of the same name."""
    sources = ["/skills/"] if settings.memory_scope == "assistant" else ["/skills/", "/memories/skills/"]
    return FreshSkills(backend=backend, sources=sources)


async def preview_skills(store: BaseStore, actor: Actor, assistant: str, settings: Settings) -> Block:
    """The block of skills as this person's next run will show it. Needs no run."""
    places = {"/skills": namespaces.skills(assistant), "/memories": namespaces.memories(actor, assistant, settings)}
    routes: dict[str, BackendProtocol] = {
        f"{route}/": ScopedFiles(
            namespace=lambda _, of=namespace: of,  # type: ignore[misc]  # bound now
            gate=lambda: "it is read-only here.",
            route=route,
            author=lambda: Author("person", actor.user_id),
            store=store,
        )
        for route, namespace in places.items()
    }
    return await build_skills(settings, CompositeBackend(default=StateBackend(), routes=routes)).preview()


class FreshSkills(SkillsMiddleware[Any, Any]):
    """deepagents' middleware, with skills loaded once a run; of two with one name, the later source's wins."""

    name = "SkillsMiddleware"  # takes the built-in's place in the stack

    # Thread state neither keeps nor provides skills. Without these hooks the graph also has two nodes less.
    before_agent = AgentMiddleware.before_agent  # type: ignore[assignment]  # the built-in's returns its own state
    abefore_agent = AgentMiddleware.abefore_agent  # type: ignore[assignment]
    before_model = AgentMiddleware.before_model
    abefore_model = AgentMiddleware.abefore_model

    def __init__(self, *, backend: BackendProtocol, sources: Sequence[str]) -> None:
        super().__init__(backend=backend, sources=list(sources), system_prompt=SKILLS_BLOCK)
        self._loaded = PerRun(self._load)

    async def preview(self) -> Block:
        """The block as a run would show it."""
        loaded = await self._load()
        text = SKILLS_BLOCK.format(
            skills_locations=self._format_skills_locations(),
            skills_load_warnings=self._format_skills_load_warnings(loaded["skills_load_errors"]),
            skills_list=self._format_skills_list(loaded["skills_metadata"]),
        )
        return Block("skills", text, SKILLS_BUDGET_BYTES, tuple(loaded["skills_load_errors"]))

    async def _load(self) -> dict[str, Any]:
        sources = await asyncio.gather(*(self._load_source(source) for source in self.sources))
        by_name = {skill["name"]: skill for source in sources for skill in source.skills}
        listed = _within_budget(list(by_name.values()))
        errors = [error for source in sources for error in source.errors]
        if left_out := len(by_name) - len(listed) + sum(source.unread for source in sources):
            errors.append(f"{left_out} more skills are not listed here; ls the folders above.")
        return {"skills_metadata": listed, "skills_load_errors": errors}

    async def _load_source(self, source: str) -> "_Source":
        """The skills of one folder. deepagents' own loader parses any YAML, in the event loop."""
        try:
            listing = await self._backend.als(source)
            folders = [entry["path"].rstrip("/") for entry in listing.entries or [] if entry.get("is_dir")]
            files = await self._backend.adownload_files([f"{folder}/{SKILL_FILE}" for folder in folders]) if folders else []
        except IdentityError:
            raise
        except Exception as error:  # a store raises what its driver raises
            logger.exception("Skills in %s could not be read.", source)
            return _Source(errors=[f"{source} could not be read ({type(error).__name__}); it is not empty."])
        skills = await asyncio.to_thread(_read, files) if files else _Source()
        if listing.error:
            skills.errors.append(f"{source} could not be listed: {listing.error}")
        if skills.errors:
            logger.warning("Skills were left out: %s", " ".join(skills.errors))
        return skills

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        state = cast("Any", {**request.state, **await self._loaded.get()})
        return await super().awrap_model_call(request.override(state=state), handler)


@dataclass(slots=True)
class _Source:
    """The skills of a folder, the errors of those that were not loaded, and the number of those that were not read."""

    skills: list[SkillMetadata] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    unread: int = 0


def _read(files: Sequence[FileDownloadResponse]) -> _Source:
    """The skills of these SKILL.md files. Blocks for milliseconds a file, and a tenth of a second in all."""
    source, room = _Source(), SKILLS_READ_BYTES
    for file in files:
        if file.error == FILE_NOT_FOUND:
            continue
        try:
            if file.content is None:
                raise SkillError(f"It could not be read ({file.error}).")  # noqa: TRY301
            front = front_matter(file.content)
            room -= len(front.encode())
            if room < 0:
                source.unread += 1
            else:
                source.skills.append(_escaped(read_skill(file.path, front)))
        except SkillError as error:
            source.errors.append(f"{file.path} was not loaded. {error}")
    return source


def _escaped(skill: SkillMetadata) -> SkillMetadata:
    """A skill whose texts can neither close the block, nor open another, nor add a line."""
    fields = {key: _line(value) if isinstance(value, str) else value for key, value in skill.items()}
    return cast("SkillMetadata", {**fields, "allowed_tools": [_line(tool) for tool in skill["allowed_tools"]]})


def _line(text: str) -> str:
    return " ".join(shown(text).split())


def _within_budget(skills: Sequence[SkillMetadata]) -> list[SkillMetadata]:
    """The first skills, as many as fit into `SKILLS_BUDGET_BYTES`."""
    sizes = accumulate(len(str(skill).encode(errors="replace")) for skill in skills)
    return [skill for skill, size in zip(skills, sizes, strict=True) if size <= SKILLS_BUDGET_BYTES]
