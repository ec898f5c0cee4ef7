"""The model's tools to search and read past conversations. `agent.py` can do without them."""

import asyncio
from uuid import UUID

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, tool
from langgraph_sdk import get_client

from lasting_memory.deployment import Deployment
from lasting_memory.people import identity
from lasting_memory.recall import lexical
from lasting_memory.recall.index import read_conversations
from lasting_memory.recall.retrieval import DEFAULT_LIMIT, page_text, results_text, search, topics_text

MAX_LIMIT = 20
_TOPICS = "/topics/"
_NO_SERVER = "There are no past conversations: this run is not on a server, which keeps them."


def conversation_tools(d: Deployment) -> list[BaseTool]:
    """`search_past_conversations` and `read_conversation`, each for the person the run acts as."""

    @tool(description=d.prompt("search_past_conversations.md"))
    async def search_past_conversations(  # noqa: PLR0917  # the model names them
        query: str,
        runtime: ToolRuntime[identity.Context],
        alternatives: list[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int = DEFAULT_LIMIT,
    ) -> str:
        try:
            period = lexical.period(since, until)
        except ValueError as error:
            return f"Error: {error}"
        if not identity.on_server() or runtime.store is None:
            return _NO_SERVER
        actor, threads, most = identity.current_actor(d.settings), get_client().threads, min(max(limit, 1), MAX_LIMIT)
        current = str(runtime.config.get("configurable", {}).get("thread_id"))
        others = alternatives or []
        results = await search(
            runtime.store, threads, actor, query, most, agents=d.agents, alternatives=others, period=period, current=current
        )
        answer = await asyncio.to_thread(results_text, query, results, others, d.limits.search_result_chars)
        memories = d.memory.namespace(actor, identity.current_assistant(d.default_assistant))
        files = await runtime.store.asearch(memories, limit=d.limits.max_files)
        topics = {f"/memories{item.key}": str(item.value.get("content")) for item in files if item.key.startswith(_TOPICS)}
        return answer + await asyncio.to_thread(topics_text, query, answer, topics)

    @tool
    async def read_conversation(thread_id: str, runtime: ToolRuntime[identity.Context], around: int | None = None) -> str:
        """Read a page of an earlier conversation with this user.

        Args:
            thread_id: as named by search_past_conversations.
            runtime: given by the platform.
            around: number of a turn to read around; the end of the conversation if left out.
        """
        if not identity.on_server():
            return _NO_SERVER
        try:
            thread = str(UUID(thread_id))
        except ValueError:
            return f"Error: {thread_id[:80]!r} is no thread_id; take one that search_past_conversations named."
        # Searched, not fetched by id: an operator's run may see every thread, the person it acts for only their own.
        actor = identity.current_actor(d.settings)
        talks = await read_conversations(get_client().threads, actor, d.agents, [thread])
        if not talks:
            return f"There is no conversation {thread_id[:80]!r}."
        return await asyncio.to_thread(page_text, talks[0], around, d.limits.search_result_chars)

    return [search_past_conversations, read_conversation]
