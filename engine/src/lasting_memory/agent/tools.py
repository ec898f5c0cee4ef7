"""The model's tools for memory."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from deepagents.backends import CompositeBackend
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.config import get_store
from langgraph.store.base import BaseStore
from pydantic import BaseModel, Field, ValidationError, create_model

from lasting_memory import platform
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.files.backends import ScopedFiles, build_backend
from lasting_memory.people import identity, namespaces
from lasting_memory.recall import fused, nearest, rank
from lasting_memory.validation import RefusedWrite, text_of

# Files in an answer of `search_memories`, characters of each, and files to ask a semantic index for: some may not be text.
_RESULTS, _SNIPPET_CHARS, _NEAR = 5, 600, 100
MEMORY_TOOLS = ("append_memory", "save_profile", "search_memories")


def memory_tools(d: Deployment, descriptions: Mapping[str, str] = MappingProxyType({})) -> list[BaseTool]:
    """`search_memories`; `append_memory`, if the agent may write `/memories/`; `save_profile`, if there are profiles.

    `descriptions` are a fork's own, by tool, in place of the whole of what the model is told of it; of a tool that the settings
    leave out one may be there. Raises `ValueError` for a name that is none of the three.
    """
    if unknown := descriptions.keys() - MEMORY_TOOLS:
        raise ValueError(f"memory_tools(d, descriptions=...) names {min(unknown)!r}; use {', '.join(MEMORY_TOOLS)}.")
    tools, backend = [_search_memories(d)], build_backend(d)
    if d.memory.rule(d.settings) != "deny":
        tools.append(append_memory_tool(backend))
        if d.profile:
            tools.append(_save_profile(backend, d.profile))
    for each in tools:
        each.description = descriptions.get(each.name, each.description)
    return tools


def append_memory_tool(backend: CompositeBackend) -> BaseTool:
    """`append_memory` on a graph's filesystem."""

    @tool
    async def append_memory(path: str, text: str) -> str:
        """Add text at the end of a file under /memories/, which is created if need be. Nothing already there is changed.

        Args:
            path: the file, e.g. /memories/topics/cooking.md.
            text: what to add; a line break goes before and after it where there is none.
        """
        if not path.startswith("/memories/"):
            return f"Error: '{path}' is not memory; use a path under /memories/."

        def appended(before: str) -> str:
            gap = "\n" if before and not before.endswith("\n") else ""
            return f"{before}{gap}{text.rstrip()}\n"

        return await _change(backend, path, appended) or f"Added to {path}."

    return append_memory


def _save_profile(backend: CompositeBackend, schema: type[BaseModel]) -> BaseTool:
    """`save_profile`, whose argument and description have the fields of the schema."""

    async def save_profile(profile: BaseModel) -> str:
        given = profile.model_dump(exclude_unset=True, exclude_none=True)

        def updated(before: str) -> str:
            try:
                known = schema.model_validate_json(before) if before.strip() else schema()
            except ValidationError:
                raise RefusedWrite(f"{PROFILE_PATH} holds no profile; delete it, then save again.") from None
            return known.model_copy(update=given).model_dump_json(indent=2, exclude_none=True, by_alias=True) + "\n"

        return await _change(backend, PROFILE_PATH, updated) or f"Saved {PROFILE_PATH}."

    fields = ", ".join(schema.model_fields)
    return StructuredTool.from_function(
        coroutine=save_profile,
        description=f"Save what the user says about themselves: {fields}. What is left out stays as it is.",
        args_schema=create_model("save_profile", profile=(schema, Field(description="the fields to set"))),
    )


async def _change(backend: CompositeBackend, path: str, change: Callable[[str], str]) -> str | None:
    """Change a file under /memories/; the reason of a refusal, or None."""
    files = cast("ScopedFiles", backend.routes["/memories/"])
    return await files.achange(path.removeprefix("/memories"), change)


def _search_memories(deployment: Deployment) -> BaseTool:
    @tool
    async def search_memories(query: str) -> str:
        """Search the files under /memories/ for what is remembered about the user.

        Args:
            query: what to look for, in plain words.
        """
        actor, assistant = identity.current_actor(deployment.settings), identity.current_assistant(deployment.default_assistant)
        namespace = deployment.memory.namespace(actor, assistant)
        matches = await _search(get_store(), namespace, query, deployment.limits.max_files)
        if not matches:
            return f"Nothing in /memories/ matches {query[:100]!r}."
        # One line for each, so that no text looks like another match.
        shown = "\n\n".join(f"/memories{key}\n{' '.join(text.split())}" for key, text in matches)
        return shown[: deployment.limits.search_result_chars]

    return search_memories


async def _search(store: BaseStore, namespace: namespaces.Namespace, query: str, most: int) -> list[tuple[str, str]]:
    """Keys and snippets of the best of at most so many files: by BM25, and by the semantic index where there is one."""
    near = await nearest(store, namespace, query, _NEAR) if platform.embedding_model(store) else []
    items = await store.asearch(namespace, limit=most)
    texts = {item.key: text_of(item) or "" for item in items}
    passages = [(key, part) for key, text in texts.items() for part in text.split("\n\n") if part.strip()]
    words = dict(await platform.in_thread(rank, query, [f"{key} {part}" for key, part in passages]))
    # A file's meaning counts for its best passage.
    order = sorted(range(len(passages)), key=lambda place: (words.get(place, 0.0), -place))
    best = {passages[place][0]: place for place in order}
    places = [(best[item.key], item.score or 0.0, clear) for item, clear in near if item.key in best]
    scores = fused(words, {place: score for place, score, clear in places if clear or place in words})
    ranked = sorted(scores, key=lambda place: -scores[place])[:_RESULTS]
    # Which part of a file is alike in meaning is not known: its beginning is shown.
    shown = [(key, part if place in words else texts[key]) for place in ranked for key, part in [passages[place]]]
    return [(key, text[:_SNIPPET_CHARS]) for key, text in shown]
