"""The tools by which the model writes and searches memory, beside deepagents' own file tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from deepagents.backends import CompositeBackend
from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, tool
from langgraph.store.base import BaseStore, SearchItem
from pydantic import ValidationError

from memory import scopes
from memory.files import ScopedFiles
from memory.lexical import rank
from memory.profile import PROFILE_PATH, Profile
from memory.routes import memory_writes
from memory.validation import RefusedWriteError, check_text, stored_file
from settings import MAX_SEARCH_RESULT_CHARS, MAX_SEARCHED_FILES, Settings

_RESULTS = 5
_SNIPPET_CHARS = 600
_PAGE = 100


def build_memory_tools(settings: Settings, backend: CompositeBackend) -> list[BaseTool]:
    """`search_memories`; `append_memory` where the agent may write `/memories/`; `save_profile` where that is one person's."""
    tools = [_search_memories(settings)]
    if memory_writes(settings, consolidating=False) != "deny":
        tools.append(append_memory_tool(backend))
        if settings.memory_scope != "assistant":
            tools.append(_save_profile(backend))
    return tools


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

        def appended(before: str) -> str:
            gap = "\n" if before and not before.endswith("\n") else ""
            return f"{before}{gap}{text.rstrip()}\n"

        return await _change(backend, path, appended) or f"Added to {path}."

    return append_memory


def _save_profile(backend: CompositeBackend) -> BaseTool:
    @tool
    async def save_profile(profile: Profile, runtime: ToolRuntime[scopes.Context]) -> str:
        """Save what the user says about themselves: name, role, language, time zone, units. What is left out stays as it is.

        Args:
            profile: the fields to set.
            runtime: given by the platform.
        """

        def merged(before: str) -> str:
            try:
                known = Profile.model_validate_json(before) if before.strip() else Profile()
            except ValidationError as error:
                what = f"{PROFILE_PATH} holds no profile ({error.error_count()} errors)"
                raise RefusedWriteError(f"{what}; delete it, then save again.") from None
            profile_now = known.model_copy(update=profile.model_dump(exclude_none=True))
            return profile_now.model_dump_json(indent=2, exclude_none=True) + "\n"

        return await _change(backend, PROFILE_PATH, merged) or f"Saved {PROFILE_PATH}."

    return save_profile


async def _change(backend: CompositeBackend, path: str, change: Callable[[str], str]) -> str | None:
    """Change a file under /memories/; why it was not changed, or None."""
    files = backend.routes["/memories/"]
    if not isinstance(files, ScopedFiles):
        raise TypeError(f"/memories/ is a {type(files).__name__}; the memory tools write ScopedFiles.")
    return await files.achange(path.removeprefix("/memories"), change)


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
            check_text([query, filter])
            found = await _search(runtime.store, namespace, query, filter)
        except RefusedWriteError as error:
            return f"Error: {error}"
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
