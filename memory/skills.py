"""Skills in the system prompt: listed afresh in every run, never taken from a client's input or thread state."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from deepagents.backends import CompositeBackend, StateBackend
from deepagents.backends.protocol import FILE_NOT_FOUND, BackendProtocol, FileDownloadResponse
from deepagents.middleware.skills import SkillMetadata, SkillsMiddleware
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langgraph.store.base import BaseStore

from memory import namespaces
from memory.blocks import Block, PerRun, shown
from memory.files import ScopedFiles
from memory.identity import Actor, Author, IdentityError
from memory.validation import SKILL_FILE, RefusedWriteError, front_matter, read_skill
from settings import PROJECT, SKILLS_BUDGET_BYTES, Settings

logger = logging.getLogger(__name__)

SKILLS_BLOCK = (PROJECT / "prompts" / "skills_block.md").read_text("utf-8")


def build_skills(settings: Settings, backend: BackendProtocol) -> "FreshSkills":
    """The skills of `agent`, in `backend`. A user's own skill replaces the assistant's of the same name."""
    sources = ["/skills/"] if settings.memory_scope == "assistant" else ["/skills/", "/memories/skills/"]
    return FreshSkills(backend=backend, sources=sources)


async def preview_skills(store: BaseStore, actor: Actor, assistant: str, settings: Settings) -> Block:
    """The block of skills as this person's next run will show it. Needs no run."""

    def files(namespace: namespaces.Namespace) -> ScopedFiles:
        return ScopedFiles(
            namespace=lambda _: namespace, gate=lambda: "read-only", route="", author=lambda: Author("person"), store=store
        )

    routes: dict[str, BackendProtocol] = {"/skills/": files(namespaces.skills(assistant))}
    routes["/memories/"] = files(namespaces.memories(actor, assistant, settings))
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
        sources = await asyncio.gather(*(self._files_of(source) for source in reversed(self.sources)))  # the person's own first
        files = [file for source, _ in sources for file in source]
        skills, errors = await asyncio.to_thread(_listed, files) if files else ([], [])
        errors += [error for _, error in sources if error]
        if errors:
            logger.warning("Skills were left out: %s", " ".join(errors))
        return {"skills_metadata": skills, "skills_load_errors": errors}

    async def _files_of(self, source: str) -> tuple[list[FileDownloadResponse], str]:
        """The SKILL.md files of a folder, and what went wrong, or ""."""
        try:
            listing = await self._backend.als(source)
            folders = [entry["path"].rstrip("/") for entry in listing.entries or [] if entry.get("is_dir")]
            files = await self._backend.adownload_files([f"{folder}/{SKILL_FILE}" for folder in folders]) if folders else []
        except IdentityError:
            raise
        except Exception as error:  # a store raises what its driver raises
            logger.exception("Skills in %s could not be read.", source)
            return [], f"{source} could not be read ({type(error).__name__}); it is not empty."
        return files, f"{source} could not be listed: {listing.error}" if listing.error else ""

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        state = cast("Any", {**request.state, **await self._loaded.get()})
        return await super().awrap_model_call(request.override(state=state), handler)


def _listed(files: Sequence[FileDownloadResponse]) -> tuple[list[SkillMetadata], list[str]]:
    """The skills of these SKILL.md files, and a line for each that is left out. Of two with one name the first counts.

    `SKILLS_BUDGET_BYTES` of front matter are read, whatever there is: it blocks for a fraction of a second at most.
    """
    skills, errors, unread, room = dict[str, SkillMetadata](), list[str](), 0, SKILLS_BUDGET_BYTES
    for file in files:
        name = file.path.split("/")[-2]
        if file.error == FILE_NOT_FOUND or name in skills:
            continue
        try:
            if file.content is None:
                raise RefusedWriteError(f"It could not be read ({file.error}).")  # noqa: TRY301
            front = front_matter(file.content)
            room -= len(file.path) + len(front.encode())
            if room >= 0:
                skills[name] = _escaped(read_skill(file.path, front))
            unread += room < 0
        except RefusedWriteError as error:
            errors.append(f"{file.path} was not loaded. {error}")
    if unread:
        errors.append(f"{unread} more skills are not listed here; ls the folders above.")
    return list(skills.values()), errors


def _escaped(skill: SkillMetadata) -> SkillMetadata:
    """A skill whose texts can neither close the block, nor open another, nor add a line."""
    fields = {key: _line(value) if isinstance(value, str) else value for key, value in skill.items()}
    return cast("SkillMetadata", {**fields, "allowed_tools": [_line(tool) for tool in skill["allowed_tools"]]})


def _line(text: str) -> str:
    return " ".join(shown(text).split())
