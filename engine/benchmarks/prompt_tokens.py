"""What a turn and a consolidation send to the model, in tokens of four characters: python -m
benchmarks.prompt_tokens

One person with the files of `stored.py`, and the bare deep agent of `bare_agent.py` beside the
project's, on one server. The scripted model records each request. Counted are its instructions
(`system`), its tools, and the messages. A provider's own tokens differ by a fifth or so, and by
more in languages other than English.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from deepagents.backends.utils import create_file_data

from benchmarks import HERE
from benchmarks.stored import stored_files
from lasting_memory.testing.dev_server import DevServer, run_turn
from lasting_memory.testing.scripted_anthropic import ScriptedAnthropic, Text, ToolCall

CHARS_OF_TOKEN = 4
PERSON, SAID = (
    "bench",
    "We settled on the build that caches its wheels, because the other one took too long.",
)
GRAPHS = {"project": "agent", "bare deep agent": "bare_agent"}


def tokens(value: Any) -> int:
    """About how many tokens a part of a request has."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return round(len(text) / CHARS_OF_TOKEN)


def parts(body: dict[str, Any]) -> dict[str, int]:
    return {name: tokens(body.get(name) or "") for name in ("system", "tools", "messages")}


async def measure(
    server: DevServer, model: ScriptedAnthropic, turns: int
) -> dict[str, list[dict[str, int]]]:
    """The parts of each request of a turn of each graph, and of a consolidation of so many turns."""
    client, operator, sent = server.as_user(PERSON), server.as_operator(), {}
    for namespace, key, text in stored_files(PERSON):
        await operator.store.put_item(namespace, key, dict(create_file_data(text)))
    for name, graph in GRAPHS.items():
        model.clear()
        # No temporary one: those have neither memory nor its tools.
        thread = str((await client.threads.create())["thread_id"])
        await run_turn(client, thread, SAID, graph)
        sent[f"a turn, {name}"] = [parts(body) for body in model.requests]
        # The consolidation is of the turns below alone.
        await client.threads.delete(thread)
    thread = str((await client.threads.create())["thread_id"])
    for _ in range(turns):
        await run_turn(client, thread, SAID)
    model.clear()
    note = ToolCall(
        "append_memory", {"path": "/memories/topics/work.md", "text": "- Caches wheels."}
    )
    model.script("Conversations with something new", [note], [Text("done")])
    await run_turn(
        client,
        str((await client.threads.create())["thread_id"]),
        "consolidate",
        "consolidation_agent",
    )
    sent[f"a consolidation of {turns} turns"] = [parts(body) for body in model.requests]
    await server.close_clients()
    return sent


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Tokens that a turn and a consolidation send to the model."
    )
    parser.add_argument(
        "--turns", type=int, default=10, help="of the conversation that is consolidated"
    )
    args = parser.parse_args()
    with ScriptedAnthropic() as model, tempfile.TemporaryDirectory() as folder:
        path = f"{HERE}/bare_agent.py:bare_agent"
        with DevServer(Path(folder), model.env, {"graphs": {"bare_agent": path}}) as server:
            sent = asyncio.run(measure(server, model, args.turns))
    print(f"{'tokens sent':34} {'calls':>6} {'system':>8} {'tools':>8} {'messages':>9} {'all':>8}")
    for name, requests in sent.items():
        sums = {
            part: sum(request[part] for request in requests)
            for part in ("system", "tools", "messages")
        }
        print(
            f"{name:34} {len(requests):6} {sums['system']:8,} {sums['tools']:8,} {sums['messages']:9,} {sum(sums.values()):8,}"
        )
    print(json.dumps({"benchmark": "prompt_tokens", "turns": args.turns, "sent": sent}))


if __name__ == "__main__":
    main()
