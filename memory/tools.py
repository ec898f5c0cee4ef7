"""The tools by which the model writes and searches memory, beside deepagents' own file tools."""

from __future__ import annotations

import asyncio
from typing import Any

from deepagents.backends import CompositeBackend
from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, tool
from langgraph.store.base import BaseStore, SearchItem
from pydantic import ValidationError

from memory import scopes
from memory.files import memory_writes, stored_file
from memory.lexical import rank
from memory.profile import Profile
from settings import MAX_SEARCH_RESULT_CHARS, MAX_SEARCHED_FILES, Settings

PROFILE_PATH = "/memories/profile.json"
_RESULTS = 5
_SNIPPET_CHARS = 600
_PAGE = 100


def build_memory_tools(settings: Settings, backend: CompositeBackend) -> list[BaseTool]:
    """`search_memories`, and `append_memory` and `save_profile` where the agent may write `/memories/`."""
    writing = [append_memory_tool(backend), _save_profile(backend)]
    return [_search_memories(settings), *(writing if memory_writes(settings, consolidating=False) != "deny" else ())]


def append_memory_tool(backend: CompositeBackend) -> BaseTool:
    """`append_memory`, on the filesystem of the graph that is given it."""

    @tool
    async def append_memory(path: str, text: str, runtime: ToolRuntime[scopes.Context]) -> str:
        """Add text at the end of a file under /memories/, which is created if need be. Nothing already there is changed.

        Args:
            path: the file, e.g. /memories/topics/cooking.md.
            text: what to add; a line break goes before and after it where there is none.
            runtime: given by the platform.
        """
        if not path.startswith("/memories/"):
            return f"Error: '{path}' is not memory; use a path under /memories/."
        (found,) = await backend.adownload_files([path])
        if found.error and found.error != "file_not_found":
            return f"Error: {found.error}"
        try:
            before = (found.content or b"").decode()
        except UnicodeDecodeError:
            return f"Error: '{path}' is not text; choose another file."
        gap = "\n" if before and not before.endswith("\n") else ""
        result = await backend.awrite(path, f"{before}{gap}{text.rstrip()}\n")
        return result.error or f"Added to {path}."

    return append_memory


def _save_profile(backend: CompositeBackend) -> BaseTool:
    @tool
    async def save_profile(profile: Profile, runtime: ToolRuntime[scopes.Context]) -> str:
        """Save what the user says about themselves: name, role, language, time zone, units. What is left out stays as it is.

        Args:
            profile: the fields to set.
            runtime: given by the platform.
        """
        (found,) = await backend.adownload_files([PROFILE_PATH])
        try:
            known = Profile.model_validate_json(found.content) if found.content and found.content.strip() else Profile()
        except ValidationError as error:
            return f"Error: {PROFILE_PATH} holds no profile ({error.error_count()} errors); delete it, then save again."
        merged = known.model_copy(update=profile.model_dump(exclude_none=True))
        result = await backend.awrite(PROFILE_PATH, merged.model_dump_json(indent=2, exclude_none=True) + "\n")
        return result.error or f"Saved {PROFILE_PATH}."

    return save_profile


def _search_memories(settings: Settings) -> BaseTool:
    @tool
    async def search_memories(
        query: str,
        runtime: ToolRuntime[scopes.Context],
        filter: dict[str, Any] | None = None,  # noqa: A002  # the store's word for it
    ) -> str:
        """Search the files under /memories/ for what is remembered about the user.

        Args:
            query: what to look for, in plain words.
            filter: values that fields of a file must have, e.g. {"encoding": "utf-8"}.
            runtime: given by the platform.
        """
        if runtime.store is None:
            return "Error: this run has no store, so there is no memory to search."
        namespace = scopes.memories(scopes.current_actor(settings), scopes.current_assistant(), settings)
        try:
            found = await _search(runtime.store, namespace, query, filter)
        except (ValueError, TypeError) as error:
            return f"Error: the filter {filter!r} cannot be used ({error}); leave it out."
        if not found:
            return f"Nothing in /memories/ matches {query[:100]!r}."
        return "\n\n".join(f"/memories{key}\n{snippet}" for key, snippet in found)[:MAX_SEARCH_RESULT_CHARS]

    return search_memories


async def _search(
    store: BaseStore,
    namespace: scopes.Namespace,
    query: str,
    filter: dict[str, Any] | None,  # noqa: A002  # the store's word for it
) -> list[tuple[str, str]]:
    """Key and snippet of the best files: by the store's semantic index where it has one, by BM25 otherwise."""
    first = await store.asearch(namespace, query=query, filter=filter, limit=_PAGE)
    if any(item.score is not None for item in first):
        return [(item.key, text[:_SNIPPET_CHARS]) for item in first[:_RESULTS] if (text := _text(item))]
    items = list(first)
    while len(items) % _PAGE == 0 and 0 < len(items) < MAX_SEARCHED_FILES:
        page = await store.asearch(namespace, filter=filter, limit=_PAGE, offset=len(items))
        if not page:
            break
        items += page
    passages = [(item.key, part) for item in items for part in _text(item).split("\n\n") if part.strip()]
    ranked = await asyncio.to_thread(rank, query, [f"{key} {part}" for key, part in passages])
    return [(passages[i][0], passages[i][1][:_SNIPPET_CHARS]) for i, _ in ranked[:_RESULTS]]


def _text(item: SearchItem) -> str:
    try:
        file = stored_file(item)
    except ValueError:
        return ""
    return file["content"] if file["encoding"] == "utf-8" else ""
