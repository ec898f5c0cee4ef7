"""Model calls and prompt bytes of consolidation, against the published recipe: python -m
benchmarks.consolidation.cost

A day of one person, on one `langgraph dev`: four windows of the recipe's schedule, and in two of
them conversations. In the second, one of the first window's goes on. The recipe's cron fires at the
end of every window; ours runs after the conversations (the idle trigger) and is fired in the empty
windows as well. Both have the same scripted model: it looks for conversations unless it was shown
them, writes once if there are any, and says that it is done. The recipe's model is shown no memory,
which spares it bytes that ours has in its prompt.

Goals: half the model calls and half the bytes for each consolidated conversation, and none when
nothing is new.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langgraph_sdk.client import LangGraphClient

from benchmarks import HERE
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.scripted_anthropic import (
    ScriptedAnthropic,
    Text,
    ToolCall,
    tool_results,
)

GOAL = 0.5
GRAPHS = ("consolidation_agent", "published_consolidation")
SEARCH = {"consolidation_agent": {}, "published_consolidation": {"query": "recent"}}
SAID = "In project number {n} we settled on the build that caches its wheels, because the other one took too long."


@dataclass
class Cost:
    """Of one graph: model calls and bytes of their requests, where there was something new, and
    where there was not.
    """

    calls: int = 0
    bytes: int = 0
    calls_for_nothing: int = 0
    bytes_for_nothing: int = 0


def script(model: ScriptedAnthropic, graph: str, fact: int) -> None:
    """A model that behaves the same in both graphs."""

    def answer(body: dict[str, Any]) -> Any:
        said = [text for message in [body["messages"]] for text in _results(message)]
        if not said:
            return [ToolCall("search_recent_conversations", SEARCH[graph])]
        if len(said) == 1 and "project number" in said[0]:
            path = f"/memories/topics/day-{uuid.uuid4().hex[:6]}.md"
            return [ToolCall("write_file", {"file_path": path, "content": f"- Fact {fact}.\n"})]
        return [Text("done")]

    model.script(
        lambda body: any(tool["name"] == "search_recent_conversations" for tool in body["tools"]),
        *[answer] * 20,
    )


def _results(messages: list[Any]) -> list[str]:
    return [text for message in messages for text in tool_results({"messages": [message]})]


async def talk(client: LangGraphClient, turns: int, thread: str | None = None) -> str:
    thread = thread or str((await client.threads.create())["thread_id"])
    for turn in range(turns):
        await run_turn(client, thread, SAID.format(n=turn))
    return thread


async def measure(
    server: DevServer, model: ScriptedAnthropic, conversations: int, turns: int
) -> dict[str, Cost]:
    client, costs = server.as_user("bench"), {graph: Cost() for graph in GRAPHS}
    since, first = datetime.now(UTC).isoformat(), ""
    for window in range(4):
        talks = window % 2 == 0
        if talks:
            first = await talk(client, turns, first or None)
            for _ in range(conversations - 1):
                await talk(client, turns)
        for graph in GRAPHS:
            model.clear()
            script(model, graph, window)
            # Temporary: the recipe's own run is no conversation to consolidate, though every other
            # graph is an agent here.
            thread = str(
                (await client.threads.create(metadata={"temporary": graph != GRAPHS[0]}))[
                    "thread_id"
                ]
            )
            await run_turn(
                client,
                thread,
                "Consolidate recent memories.",
                graph,
                metadata={"window_began": since},
            )
            cost, sent = costs[graph], sum(len(json.dumps(body)) for body in model.requests)
            if talks:
                cost.calls, cost.bytes = cost.calls + len(model.requests), cost.bytes + sent
            else:
                cost.calls_for_nothing += len(model.requests)
                cost.bytes_for_nothing += sent
        since = datetime.now(UTC).isoformat()
    await server.close_clients()
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Model calls and prompt bytes of consolidation, against the published recipe."
    )
    parser.add_argument("--conversations", type=int, default=3, help="in each window that has any")
    parser.add_argument("--turns", type=int, default=4, help="of each conversation")
    args = parser.parse_args()
    with ScriptedAnthropic() as model, tempfile.TemporaryDirectory() as folder:
        path = f"{HERE}/consolidation/published.py:published_consolidation"
        with DevServer(
            Path(folder), model.env, {"graphs": {"published_consolidation": path}}
        ) as server:
            costs = asyncio.run(measure(server, model, args.conversations, args.turns))
    ours, theirs = (costs[graph] for graph in GRAPHS)
    consolidated = 2 * args.conversations
    rows = {
        "calls of a day, each conversation": (
            ours.calls + ours.calls_for_nothing,
            theirs.calls + theirs.calls_for_nothing,
        ),
        "prompt bytes of a day, each conversation": (
            ours.bytes + ours.bytes_for_nothing,
            theirs.bytes + theirs.bytes_for_nothing,
        ),
        "calls with something new, each": (ours.calls, theirs.calls),
        "prompt bytes with something new, each": (ours.bytes, theirs.bytes),
    }
    print(f"{'':40} {'project':>10} {'recipe':>10} {'ratio':>7}")
    ratios = {}
    for name, (mine, other) in rows.items():
        ratios[name] = round(mine / other, 3)
        print(
            f"{name:40} {mine / consolidated:10,.1f} {other / consolidated:10,.1f} {ratios[name]:7.2f}"
        )
    print(
        f"{'calls when nothing is new, a run':40} {ours.calls_for_nothing / 2:10.1f} {theirs.calls_for_nothing / 2:10.1f}"
    )
    costs_now = {graph: asdict(cost) for graph, cost in costs.items()}
    print(
        json.dumps(
            {"benchmark": "consolidation_cost", "goal": GOAL, "ratios": ratios, "costs": costs_now}
        )
    )


if __name__ == "__main__":
    main()
