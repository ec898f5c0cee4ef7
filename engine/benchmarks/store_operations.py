"""What the graph alone asks of the store in a run, and how long it takes: python -m
benchmarks.store_operations

No server and no network. A store in memory counts its `batch` and `abatch` calls (each a round trip
where the store is Postgres) and the operations in them. The model is the real Anthropic client up
to the request it would send: it binds the tools and builds the whole request, then answers at once.
`configurable.run_id` is set as the platform sets it, since the agent loads its prompt blocks once
for each run id. The time is `ainvoke`, alternated, without the seconds a model takes: nothing
dilutes this ratio, so it is the harshest of the three that these benchmarks give.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import uuid
from typing import Any

from agent import build_agent
from deepagents.backends.utils import create_file_data
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import Op, PutOp
from pydantic import SecretStr

from benchmarks.bare_agent import build_bare_agent
from benchmarks.pairs import Pairs, print_table
from benchmarks.stored import ORG, stored_files
from lasting_memory.people.identity import Context
from lasting_memory.testing.deployed import deployed
from lasting_memory.testing.stores import WrappedStore

WARM_UP_PAIRS = 20
PLAIN, TOOL, SUBAGENT = "Hello.", "What do I prefer?", "Ask your helper."
CALLS = {
    TOOL: ToolCall(name="read_file", args={"file_path": "/memories/preferences.md"}, id="call_1"),
    SUBAGENT: ToolCall(
        name="task", args={"description": PLAIN, "subagent_type": "general-purpose"}, id="call_2"
    ),
}
KNOWN, NEW, COLLECTOR = "bench", "newcomer", "collector"
COLLECTED_FILES = 500
# What is asked, by whom, and whether the thread is new.
CASES = {
    "new user's first run": (PLAIN, NEW, True),
    "new thread": (PLAIN, KNOWN, True),
    "same thread": (PLAIN, KNOWN, False),
    "one tool call": (TOOL, KNOWN, True),
    "one subagent": (SUBAGENT, KNOWN, True),
    f"new thread, {COLLECTED_FILES} files": (PLAIN, COLLECTOR, True),
    f"same thread, {COLLECTED_FILES} files": (PLAIN, COLLECTOR, False),
}


class InstantAnthropic(ChatAnthropic):
    """Everything of the Anthropic client but the request."""

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        self._get_request_payload(messages, stop=stop, **kwargs)
        call = CALLS.get(messages[-1].text)
        answer = AIMessage("", tool_calls=[call]) if call else AIMessage("ok")
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Graph:
    """A graph with its own store and checkpoints."""

    def __init__(self, graph: Any) -> None:
        self.calls = list[list[Op]]()
        self.store = graph.store = WrappedStore(before=self.calls.append)
        graph.checkpointer = InMemorySaver()
        self._graph = graph
        for namespace, key, text in [*stored_files(KNOWN), *stored_files(COLLECTOR)]:
            self.store.put(namespace, key, dict(create_file_data(text)))
        for number in range(COLLECTED_FILES):
            text = f"# Topic {number}\n\n" + "- Something she said.\n" * 50
            self.store.put(
                ("memories", f"{ORG}:{COLLECTOR}"),
                f"/topics/{number}.md",
                dict(create_file_data(text)),
            )

    async def run(self, text: str, user: str, thread: str) -> float:
        """Seconds of one run, whose round trips are in `calls` then."""
        config: RunnableConfig = {
            "configurable": {"thread_id": thread, "run_id": str(uuid.uuid4())}
        }
        self.calls.clear()
        start = time.perf_counter()
        message = {"messages": [{"role": "user", "content": text}]}
        await self._graph.ainvoke(message, config, context=Context(user_id=user, org_id=ORG))
        return time.perf_counter() - start


async def counted(graph: Graph) -> dict[str, dict[str, int]]:
    """Round trips, operations and writes of one run of each case."""
    counts = {}
    for name, (text, user, new_thread) in CASES.items():
        thread = str(uuid.uuid4())
        if not new_thread:
            await graph.run(text, user, thread)
        await graph.run(text, user, thread)
        ops = [op for call in graph.calls for op in call]
        writes = sum(isinstance(op, PutOp) for op in ops)
        counts[name] = {"round_trips": len(graph.calls), "operations": len(ops), "writes": writes}
    return counts


async def timed(agent: Graph, bare: Graph, wanted: int) -> list[Pairs]:
    """Seconds of every case but the newcomer's, who is new only once; the graph that begins
    alternates.
    """
    measured = [Pairs(name) for name in CASES if CASES[name][1] != NEW]
    for pair in range(-WARM_UP_PAIRS, wanted):
        for pairs in measured:
            text, user, new_thread = CASES[pairs.name]
            thread = str(uuid.uuid4())
            taken = {}
            for graph in (agent, bare) if pair % 2 else (bare, agent):
                if not new_thread:
                    await graph.run(text, user, thread)
                taken[graph] = await graph.run(text, user, thread)
            if pair >= 0:
                pairs.ours.append(taken[agent])
                pairs.theirs.append(taken[bare])
    return measured


async def main() -> None:
    parser = argparse.ArgumentParser(description="Store operations and time of the graph alone.")
    parser.add_argument(
        "--turns",
        type=int,
        default=100,
        help="pairs of each case; a hundred take about half a minute",
    )
    wanted = max(2, parser.parse_args().turns)
    model = InstantAnthropic(
        model="claude-sonnet-4-6", api_key=SecretStr("test"), disable_streaming=True
    )
    agent, bare = Graph(build_agent(deployed(), model)), Graph(build_bare_agent(model))
    counts = {"agent": await counted(agent), "bare": await counted(bare)}
    print(f"{'round trips (operations, of them writes)':42} {'project':>14} {'bare':>14}")
    for name in CASES:
        cells = ["{} ({}, {})".format(*counts[graph][name].values()) for graph in counts]
        print(f"{name:42} {cells[0]:>14} {cells[1]:>14}")
    measured = await timed(agent, bare, wanted)
    print_table(measured)
    results = {pairs.name: pairs.summary() for pairs in measured}
    print(
        json.dumps(
            {"benchmark": "store_operations", "pairs": wanted, "counts": counts, "results": results}
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
