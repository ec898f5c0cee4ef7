"""What the server tests of consolidation share: conversations, and waiting for runs and records."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langgraph_sdk.client import LangGraphClient

from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, ToolCall
from tests.consolidation.runs import AGAIN, READY, TASK

READ = ToolCall("search_recent_conversations", {})


async def soon(ask: Callable[[], Awaitable[Any]], seconds: float = 60) -> Any:
    """The first answer that is not empty."""
    async with asyncio.timeout(seconds):
        while not (answer := await ask()):  # noqa: ASYNC110  # the server's
            await asyncio.sleep(0.1)
    return answer


async def chat(client: LangGraphClient, *texts: str) -> str:
    thread = str((await client.threads.create())["thread_id"])
    for text in texts:
        await run_turn(client, thread, text)
    return thread


async def go(client: LangGraphClient, **kwargs: Any) -> str:
    """A consolidation that the person begins; its last message."""
    thread = str((await client.threads.create())["thread_id"])
    values = await run_turn(client, thread, "store X as a policy", assistant="consolidation_agent", **kwargs)
    return str(values["messages"][-1]["content"])


async def consolidation_thread(server: DevServer, user: str) -> str:
    """The thread of a person's planned runs, once it has one."""
    wanted = {"user_id": user, "consolidates": "all"}
    (found,) = await soon(lambda: server.as_operator().threads.search(metadata=wanted, limit=1))
    return str(found["thread_id"])


async def statuses(client: LangGraphClient, thread: str) -> list[str]:
    return [str(run["status"]) for run in await client.runs.list(thread)]


async def ended(client: LangGraphClient, thread: str, runs: int = 1) -> list[str]:
    """The states of the thread's runs once there are so many and all have ended, newest first."""

    async def states() -> list[str]:
        found = await statuses(client, thread)
        return found if len(found) >= runs and not {"pending", "running"} & {*found} else []

    return list(await soon(states))


async def records(client: LangGraphClient) -> list[dict[str, Any]]:
    """The person's records, once there is one that has ended."""

    async def kept() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await client.http.get("/memory/consolidations"))["consolidations"]
        return found if found and found[0]["ended_at"] else []

    return list(await soon(kept))


async def rehearsed(client: LangGraphClient) -> dict[str, Any]:
    answer = await client.http.client.post("/memory/consolidate", params={"dry_run": "true"}, timeout=60)
    report: dict[str, Any] = answer.raise_for_status().json()
    return report


async def consolidate(client: LangGraphClient, model: ScriptedAnthropic, *calls: ToolCall, **context: Any) -> str:
    """A consolidation whose model makes these calls, also when it is told that they were refused. Its last message."""
    for words in (AGAIN, TASK):
        model.script(words, list(calls), READY)
    return await go(client, context=context or None)
