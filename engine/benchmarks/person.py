"""Taking everything along and being forgotten, for a person with many conversations: python -m
benchmarks.person

On `langgraph dev` with an embedded Postgres for store and checkpoints. One person gets
`--conversations` threads of `--turns` messages and some memory files with a history; beside them
there is somebody else with a tenth of that. Then, in one run: reading the same threads once by
`threads.search` with their values, page by page, as any client would (`--repeat` times, the median
counts); `GET /memory/export`; `DELETE /memory`, which ends with a grace of `FORGET_GRACE_SECONDS`
in which nothing is done. The ratios are to reading once.

Memory is the server's own: its highest resident size (VmHWM, which Linux lets one reset) during
each of the three, less what was resident before. Linux only. The dev server keeps the list of all
threads, with their values, in its memory, and that is in what was resident before. It also writes
that list to disk every ten seconds, which takes as much memory again and would be measured instead:
each measurement begins when it has just done so.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from langgraph_sdk.client import LangGraphClient

from lasting_memory.dev.configuration import ON_POSTGRES
from lasting_memory.http.forget import FORGET_GRACE_SECONDS
from lasting_memory.testing.dev_server import DevServer
from lasting_memory.testing.people import Person

PERSON, OTHER, ORG = "bench@example.com", "other@example.com", "acme"
FILES, REVISIONS = 20, 5
PAGE = 20
AT_ONCE = 8
WORDS = (
    "The gliders were packed before noon, and nobody remembered who had asked for the longer rope. "
    * 3
)


@dataclass
class Taken:
    """Seconds, and bytes of resident memory beyond what there was."""

    seconds: float
    peak: int


class Server:
    """The server's process, as Linux tells of it."""

    def __init__(self, server: DevServer) -> None:
        if server._process is None:  # noqa: SLF001  # our own harness
            raise RuntimeError("the server is not running")
        self._folder = Path("/proc") / str(server._process.pid)  # noqa: SLF001
        self._saved = server.folder / ".langgraph_api" / ".langgraph_ops.pckl"

    def memory(self, name: str) -> int:
        line = next(
            line
            for line in (self._folder / "status").read_text().splitlines()
            if line.startswith(f"{name}:")
        )
        return int(line.split()[1]) * 1024

    async def just_saved(self) -> None:
        """Wait until the list of threads has been written to disk."""

        def changed() -> int:
            return self._saved.stat().st_mtime_ns if self._saved.exists() else 0

        before = changed()
        while changed() == before:  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)

    async def measure(self, work: Callable[[], Awaitable[Any]]) -> tuple[Taken, Any]:
        await self.just_saved()
        (self._folder / "clear_refs").write_text("5")  # the peak begins anew
        before, start = self.memory("VmRSS"), time.perf_counter()
        result = await work()
        return Taken(time.perf_counter() - start, max(0, self.memory("VmHWM") - before)), result


async def furnish(server: DevServer, identity: str, conversations: int, turns: int) -> None:
    client, room = server.as_user(identity, ORG), asyncio.Semaphore(AT_ONCE)

    async def conversation(number: int) -> None:
        async with room:
            thread = await client.threads.create(metadata={"graph_id": "agent"})
            kinds = itertools.cycle(["human", "ai"])
            messages = [
                {"type": next(kinds), "content": f"{number}.{turn} {WORDS}"}
                for turn in range(turns)
            ]
            await client.threads.update_state(
                thread["thread_id"], {"messages": messages}, as_node="__start__"
            )

    await asyncio.gather(*map(conversation, range(conversations)))
    async with Person(server.url, identity, ORG) as person:
        for number, revision in itertools.product(range(FILES), range(REVISIONS)):
            await person.write(f"/memories/{number}.md", f"{revision} {WORDS}\n" * 10)


async def read_once(client: LangGraphClient) -> int:
    """Reads all threads of the client's person with their values; how many."""
    read = 0
    while True:
        page = await client.threads.search(
            limit=PAGE,
            offset=read,
            sort_by="thread_id",
            select=["thread_id", "created_at", "updated_at", "values"],
        )
        read += len(page)
        if len(page) < PAGE:
            return read


async def export(http: httpx.AsyncClient, file: Path) -> None:
    """Writes the export to a file as it comes."""
    with file.open("wb") as out:
        async with http.stream("GET", "/memory/export") as answer:
            answer.raise_for_status()
            async for part in answer.aiter_bytes():
                out.write(part)


async def measured(server: DevServer, folder: Path, args: argparse.Namespace) -> None:
    await furnish(server, PERSON, args.conversations, args.turns)
    await furnish(server, OTHER, args.conversations // 10, args.turns)
    process, client = Server(server), server.as_user(PERSON, ORG)
    rows: dict[str, list[Taken]] = {"read the threads once": [], "export": [], "forget": []}
    async with Person(server.url, PERSON, ORG, seconds=600) as person:
        http = person.raw
        for _ in range(args.repeat):
            taken, read = await process.measure(lambda: read_once(client))
            rows["read the threads once"].append(taken)
            taken, _ = await process.measure(lambda: export(http, folder / "export.json"))
            rows["export"].append(taken)
        taken, answer = await process.measure(lambda: http.delete("/memory"))
        rows["forget"].append(taken)
        again = (await http.delete("/memory")).json()["deleted"]
    others = await read_once(server.as_user(OTHER, ORG))
    await server.close_clients()
    document: dict[str, Any] = json.loads(
        await asyncio.to_thread((folder / "export.json").read_bytes)
    )
    expected = (args.conversations, args.conversations, args.conversations // 10)
    if (read, len(document["conversations"]), others) != expected or any(again.values()):
        raise RuntimeError(
            f"what was measured is wrong: {read}, {len(document['conversations'])}, {others}, {again}"
        )
    report(rows, (folder / "export.json").stat().st_size, answer.json()["deleted"], process)


def report(
    rows: dict[str, list[Taken]], size: int, deleted: dict[str, int], process: Server
) -> None:
    base = statistics.median(taken.seconds for taken in rows["read the threads once"])
    print(f"the export has {size / 1e6:.1f} MB; deleted: {deleted}")
    print(
        f"the server's resident memory: {process.memory('VmRSS') / 1e6:.0f} MB; grace: {FORGET_GRACE_SECONDS} s"
    )
    print(f"{'':24}{'seconds':>10}{'ratio':>8}{'peak over before, MB':>24}")
    result = {}
    for name, taken in rows.items():
        seconds, peak = (
            statistics.median(one.seconds for one in taken),
            max(one.peak for one in taken),
        )
        print(f"{name:24}{seconds:10.2f}{seconds / base:8.2f}{peak / 1e6:24.1f}")
        result[name] = {
            "seconds": round(seconds, 3),
            "ratio": round(seconds / base, 2),
            "peak_mb": round(peak / 1e6, 1),
        }
    print(json.dumps(result))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--conversations", type=int, default=1_000)
    parser.add_argument("--turns", type=int, default=20, help="messages of a conversation")
    parser.add_argument(
        "--repeat", type=int, default=3, help="how often reading and exporting are measured"
    )
    args = parser.parse_args()
    # A folder that the user Postgres runs as under root can reach.
    with (
        TemporaryDirectory(prefix="postgres-") as folder,
        DevServer(Path(folder), config=ON_POSTGRES) as server,
    ):
        asyncio.run(measured(server, Path(folder), args))


if __name__ == "__main__":
    main()
