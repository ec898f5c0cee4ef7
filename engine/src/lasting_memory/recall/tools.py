"""The model's tools for past conversations. `agent.py` can do without them."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, tool
from langgraph.config import get_store
from langgraph.store.base import BaseStore, Item, SearchItem

from lasting_memory import days, platform
from lasting_memory.deployment import PROFILE_PATH, Deployment
from lasting_memory.memory import ends
from lasting_memory.memory.stored_files import text_of
from lasting_memory.people import identity
from lasting_memory.people.caller import Caller
from lasting_memory.platform import get_client
from lasting_memory.recall import lexical
from lasting_memory.recall.answers import page_text, results_text, topics_text
from lasting_memory.recall.retrieval import search
from lasting_memory.recall.threads import read_conversations

# Conversations in an answer. Sixteen in the same number of characters name all evidence more often
# than twelve, and quote nearly as much of it: the best turns are quoted, whichever conversations
# they are in (docs/recall.md).
DEFAULT_LIMIT = 16
MAX_LIMIT = 20
_PROFILE_KEY = PROFILE_PATH.removeprefix("/memories")
_NO_SERVER = "There are no past conversations: this run is not on a server, which keeps them."


async def zone_of_person(
    store: BaseStore, d: Deployment, actor: identity.Actor, assistant: str
) -> ZoneInfo:
    """The time zone of a person's profile; UTC where they named none, or there are no profiles."""
    if not _has_profiles(d):
        return days.WORLDS
    namespace = d.memory.namespace(actor, assistant)
    profile = await store.aget(namespace, _PROFILE_KEY)
    return await _zone_in(d, profile)


def _has_profiles(d: Deployment) -> bool:
    return d.has_own_memory and bool(d.profile)


async def _zone_in(d: Deployment, profile: Item | None) -> ZoneInfo:
    """The time zone in a person's profile."""
    if profile is None or not _has_profiles(d):
        return days.WORLDS
    text = text_of(profile)
    return await platform.in_thread(days.zone_of, text)


async def _memory_files(store: BaseStore, d: Deployment, caller: Caller) -> list[SearchItem]:
    """The person's memory files; none where there is no memory."""
    if not d.has_memory:
        return []
    namespace = d.memory.namespace(caller.actor, caller.assistant)
    return await store.asearch(namespace, limit=d.limits.max_files)


def _profile_in(files: list[SearchItem]) -> SearchItem | None:
    """The person's profile among their memory files."""
    for item in files:
        if item.key == _PROFILE_KEY:
            return item
    return None


def _topics(d: Deployment, files: list[SearchItem], profile: Item | None) -> dict[str, str]:
    """The texts of the topic files, by path, without lines that are over. Blocks."""
    profile_text = text_of(profile) if profile else None
    day = ends.present_day(d, profile_text)
    topics = dict[str, str]()
    for item in files:
        if item.key.startswith("/topics/"):
            path = f"/memories{item.key}"
            text = str(item.value.get("content"))
            topics[path] = ends.current_text(item, text, day)
    return topics


class _SearchRequest(NamedTuple):
    """What the model searches for. `current` is the thread of its run, which is left out."""

    query: str
    alternatives: Sequence[str]
    period: lexical.Time | None
    limit: int
    current: str


async def _search_answer(d: Deployment, store: BaseStore, request: _SearchRequest) -> str:
    """What a search finds for the person that the run acts as, with the topic files that may say
    more.
    """
    caller = Caller.of_run(d)
    files = await _memory_files(store, d, caller)
    profile = _profile_in(files)
    zone = await _zone_in(d, profile)
    query = request.query
    results = await search(
        store,
        get_client().threads,
        caller.actor,
        query,
        request.limit,
        agents=d.agents,
        alternatives=request.alternatives,
        period=request.period,
        current=request.current,
        routes=d.routes,
        zone=zone,
    )
    answer = await platform.in_thread(
        results_text, query, results, request.alternatives, d.limits.search_result_chars, zone
    )
    topics = await platform.in_thread(_topics, d, files, profile)
    note = await platform.in_thread(topics_text, query, answer, topics)
    return answer + note


async def _page_answer(d: Deployment, thread_id: str, around: int | None) -> str:
    """A page of a conversation of the person that the run acts as, around the turn of this number;
    None: its end.
    """
    try:
        thread = str(UUID(thread_id))
    except ValueError:
        fix = "take one that search_past_conversations named"
        return f"Error: {thread_id[:80]!r} is no thread_id; {fix}."
    # Searched, not fetched by id: an operator's run may see every thread, the person it acts for
    # only their own.
    caller = Caller.of_run(d)
    threads = get_client().threads
    actor = caller.actor
    talks = await read_conversations(threads, actor, d.agents, [thread], d.routes)
    if not talks:
        return f"There is no conversation {thread_id[:80]!r}."
    store = get_store()
    zone = await zone_of_person(store, d, actor, caller.assistant)
    return await platform.in_thread(page_text, talks[0], around, d.limits.search_result_chars, zone)


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
        at_most = min(max(limit, 1), MAX_LIMIT)
        current = runtime.config.get("configurable", {}).get("thread_id")
        request = _SearchRequest(query, alternatives or [], period, at_most, str(current))
        return await _search_answer(d, runtime.store, request)

    @tool(parse_docstring=True)
    async def read_conversation(
        thread_id: str, runtime: ToolRuntime[identity.Context], around: int | None = None
    ) -> str:
        """Read a page of an earlier conversation with this user.

        Args:
            thread_id: as named by search_past_conversations.
            around: number of a turn to read around; the end of the conversation if left out.
        """
        if not identity.on_server():
            return _NO_SERVER
        return await _page_answer(d, thread_id, around)

    return [search_past_conversations, read_conversation]
