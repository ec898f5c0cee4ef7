"""`make backup` and `make restore`: everybody's memory and conversations as files, and the memory of such files restored.

python -m dev.backup --url URL --folder FOLDER [--restore], with an operator's token on standard input; without one it signs in
as the seeds do, with LANGSMITH_API_KEY. A person's file is the answer of `GET /memory/export`. A restore merges memory files as
`POST /memory/import` does, and no conversations: a dump of the platform's Postgres has them.
"""

import argparse
import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError

from environment import check_server
from memory.identity import Actor, label, part_of

_PAGE = 1_000
# Fields of a file that an import takes.
_FIELDS = ("path", "content", "encoding")


async def people(client: LangGraphClient) -> set[Actor]:
    """All people with memory or conversations. Shared memory (`MEMORY_SCOPE=assistant`) belongs to nobody."""
    actors, read = set[Actor](), 0
    while page := (await client.store.list_namespaces(prefix=["memories"], limit=_PAGE, offset=read))["namespaces"]:
        labels = [namespace[-1].split(":")[-2:] for namespace in page]
        actors |= {Actor(part_of(names[1]), part_of(names[0])) for names in labels if len(names) > 1}
        read += len(page)
    read = 0
    while threads := await client.threads.search(limit=_PAGE, offset=read, sort_by="thread_id", select=["metadata"]):
        stamps = [thread["metadata"] or {} for thread in threads]
        actors |= {Actor(str(of["user_id"]), str(of["org_id"])) for of in stamps if {"user_id", "org_id"} <= of.keys()}
        read += len(threads)
    return actors


async def back_up(client: LangGraphClient, folder: Path) -> int:
    """Write a file per person, which appears once it is whole; returns their number."""
    everybody = sorted(await people(client), key=lambda actor: (actor.org_id, actor.user_id))
    for actor in everybody:
        path = folder / label(actor.org_id) / f"{label(actor.user_id)}.json"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_suffix(".part")
        named = {"user_id": actor.user_id, "org_id": actor.org_id}
        async with client.http.client.stream("GET", "/memory/export", params=named) as answer:
            answer.raise_for_status()
            with part.open("wb") as file:
                async for piece in answer.aiter_bytes():
                    file.write(piece)
        part.replace(path)
    return len(everybody)


async def restore(client: LangGraphClient, documents: Iterable[Path]) -> int:
    """Merge the memory files of a backup's documents into people's memory; returns the number of people."""
    restored = 0
    for path in documents:
        document: dict[str, Any] = json.loads(path.read_text("utf-8"))
        by_assistant: defaultdict[str | None, list[dict[str, Any]]] = defaultdict(list)
        for file in document["files"]:
            if isinstance(file.get("content"), str):
                by_assistant[file.get("assistant_id")].append({name: file[name] for name in _FIELDS if name in file})
        for assistant, files in by_assistant.items():
            named = {"user_id": document["user_id"], "org_id": document["org_id"], "dry_run": "false"}
            parameters = named | ({"assistant_id": assistant} if assistant else {})
            body = {"version": document["version"], "files": files}
            await client.http.post("/memory/import", json=body, params=parameters)
        restored += bool(by_assistant)
    return restored


async def _run(url: str, folder: Path, token: str, *, documents: Iterable[Path] | None) -> str:
    headers = {"Authorization": f"Bearer {token}"} if token else {"x-auth-scheme": "langsmith"}
    async with get_client(url=url, headers=headers, timeout=600) as client:
        if documents is not None:
            return f"The memory of {await restore(client, documents)} people is restored."
        return f"{await back_up(client, folder)} people are in {folder}."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dev.backup", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--restore", action="store_true")
    given = parser.parse_args()
    documents = sorted(given.folder.glob("*/*.json")) if given.restore else None
    if documents == []:
        sys.exit(f"FROM is {str(given.folder)!r}, which has no backup in it; name a backup's folder.")
    try:
        check_server(given.url)
        print(asyncio.run(_run(given.url, given.folder, sys.stdin.read().strip(), documents=documents)))
    except (APIStatusError, httpx.HTTPStatusError) as error:
        sys.exit(f"{error.request.url} answered {error.response.status_code}; is the token an operator's?")
    except httpx.TransportError as error:
        sys.exit(f"{given.url} does not answer: {error}")


if __name__ == "__main__":
    main()
